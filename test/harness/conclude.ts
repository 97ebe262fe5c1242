/** What must be true at the end of a proof: disk, rows, ledger and the numbers of the frames agree. */
import type { Recorded } from "./cameras.ts"
import { type Disk, settle } from "./disk.ts"
import { judge, type LedgerSpan, type Verdict } from "./judge.ts"
import type { NodeProcess } from "./node-process.ts"
import type { Report } from "./report.ts"
import { readRows } from "./rows.ts"

/** Of the simulated cameras' main streams. */
export const frameMs = 40

interface Conclusion {
  readonly settleMs: number
  /** Of each recording. */
  readonly verdicts: ReadonlyArray<Verdict>
}

/** Gaps of one cause that touch are one: a node that was killed before its first picture has two in the ledger. */
const joined = (gaps: ReadonlyArray<LedgerSpan>): ReadonlyArray<LedgerSpan> => {
  const result: Array<LedgerSpan> = []
  for (const gap of gaps) {
    const last = result.at(-1)
    if (last !== undefined && last.endMs === gap.startMs && last.cause === gap.cause) {
      result[result.length - 1] = { ...last, endMs: gap.endMs }
    } else result.push(gap)
  }
  return result
}

/** Pauses all recordings, so that nothing grows, and judges everything. */
export const conclude = async (
  node: NodeProcess,
  url: string,
  recordings: ReadonlyArray<Recorded>,
  disk: Disk,
  report: Report,
): Promise<Conclusion> => {
  for (const { recordingId } of recordings) {
    await node.callSoon("POST", `/record/api/v1/recordings/${recordingId}/toggle`, { enabled: false })
  }
  const settleMs = await settle(url, disk, report, { whole: true })
  for (const file of disk.files.values()) {
    const what = `${file.path} (${file.fragments.length} fragments, ${file.size} bytes)`
    report.check(file.sealed, `${what} is not sealed although nothing is recorded`)
  }
  const rows = await readRows(url)
  const verdicts: Array<Verdict> = []
  for (const [k, { createdMs, recordingId }] of recordings.entries()) {
    const query = `start=${new Date(createdMs - 1_000).toISOString()}&end=${new Date(Date.now() + 1_000).toISOString()}`
    const coverage = (await node.callSoon("GET", `/record/api/v1/recordings/${recordingId}/coverage?${query}`)) as {
      readonly expectedMs: number
      readonly recordedMs: number
      readonly missingMs: number
      readonly gaps: ReadonlyArray<{ readonly start: string; readonly end: string; readonly cause: string }>
    }
    const gaps: ReadonlyArray<LedgerSpan> = coverage.gaps
      .filter(({ cause }) => cause !== "operator_paused")
      .map(({ cause, end, start }) => ({ startMs: Date.parse(start), endMs: Date.parse(end), cause }))
    // The API begins with the making of the recording, the ledger with its first attempt.
    const own: Array<LedgerSpan> = rows.gaps.filter((gap) =>
      gap.recordingId === recordingId && gap.cause !== "operator_paused"
    )
      .map((gap, i) =>
        i === 0 && gap.cause === "starting" ? { ...gap, startMs: Math.min(gap.startMs, createdMs) } : gap
      )
    // A stream that was there already is recorded as soon as the ledger expects it: only the API tells of the moment before.
    const [leading] = gaps
    if (leading?.cause === "starting" && own[0]?.cause !== "starting") {
      const began = disk.frames(recordingId).reduce((least, { wallMs }) => Math.min(least, wallMs), Infinity)
      if (Math.abs((leading.endMs ?? 0) - began) <= 1) own.unshift({ ...leading, startMs: createdMs })
    }
    const told = (list: ReadonlyArray<LedgerSpan>) =>
      joined(list).map((gap) => `${gap.startMs} ${gap.endMs} ${gap.cause}`).join("\n")
    report.check(
      told(gaps) === told(own),
      `camera ${k}: the API tells other gaps than the rows:\n${told(gaps)}\n--\n${told(own)}`,
    )
    report.check(
      coverage.expectedMs === coverage.recordedMs + coverage.missingMs,
      `camera ${k}: coverage does not add up: ${JSON.stringify({ ...coverage, gaps: coverage.gaps.length })}`,
    )
    const verdict = judge(disk.frames(recordingId), gaps, frameMs)
    verdicts.push(verdict)
    for (const fault of verdict.faults) report.fault(`camera ${k}: ${fault}`)
    for (const missing of verdict.missing) {
      const ours = missing.causes.every((cause) => cause === "node_down" || cause === "starting")
      report.check(
        ours,
        `camera ${k}: frames ${missing.from} to ${missing.to - 1} are missing for ${missing.causes.join(", ")}`,
      )
    }
    const absent = verdict.missing.reduce((sum, { from, to }) => sum + to - from, 0)
    report.say(
      `camera ${k}: ${
        disk.of(recordingId).length
      } files, ${verdict.frames} pictures, ${verdict.missing.length} gaps with ${absent} ` +
        `pictures; wall clock within ${verdict.wallErrorMs.toFixed(0)} ms, gaps within ${
          verdict.gapErrorMs.toFixed(0)
        } ms`,
    )
  }
  return { settleMs, verdicts }
}
