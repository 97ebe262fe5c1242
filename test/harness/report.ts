/** What a proof prints: figures as they come, faults at once and again at the end; the exit code says whether there were any. */

export interface Report {
  readonly say: (line: string) => void
  /** Something is not as it must be. */
  readonly fault: (line: string) => void
  /** A fault unless it holds. */
  readonly check: (holds: boolean, line: string) => void
  readonly faults: ReadonlyArray<string>
}

export const makeReport = (quiet = false): Report => {
  const faults: Array<string> = []
  const begun = performance.now()
  const at = (): string => `${((performance.now() - begun) / 1000).toFixed(0).padStart(5)} s  `
  const say = (line: string): void => void (quiet || process.stdout.write(`${at()}${line}\n`))
  const fault = (line: string): void => {
    faults.push(line)
    say(`FAULT  ${line}`)
  }
  return { say, fault, check: (holds, line) => holds ? undefined : fault(line), faults }
}

/** Runs a proof as a program: exits with 1 where it found a fault or broke. */
export const prove = async (name: string, run: (report: Report) => Promise<void>): Promise<void> => {
  const report = makeReport()
  try {
    await run(report)
  } catch (error) {
    report.fault(error instanceof Error ? error.stack ?? error.message : String(error))
  }
  report.say(report.faults.length === 0 ? `${name}: proven` : `${name}: ${report.faults.length} faults`)
  for (const line of report.faults.slice(0, 50)) process.stdout.write(`  ${line}\n`)
  // Handles of broken children must not keep the program alive.
  process.exit(report.faults.length === 0 ? 0 : 1)
}
