/**
 * `npm run simulate -- --seeds N [--seed S] [--minutes 10]`: N runs from seed S on, over the cores of this machine. A seed that
 * found something is printed with what was wrong; `--seeds 1 --seed S --trace` prints what happened in it.
 */
import { once } from "node:events"
import { availableParallelism } from "node:os"
import { parseArgs } from "node:util"
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads"
import { faultKinds } from "./faults.ts"
import { simulate } from "./simulate.ts"

interface Share {
  readonly first: number
  readonly step: number
  readonly end: number
  readonly minutes: number
}
interface Report {
  readonly runs: number
  readonly events: number
  readonly takeovers: number
  readonly faults: Record<string, number>
  readonly wrong: ReadonlyArray<{ readonly seed: number; readonly wrong: ReadonlyArray<string> }>
}

const work = ({ end, first, minutes, step }: Share): Report => {
  const faults: Record<string, number> = {}
  const wrong: Array<{ seed: number; wrong: ReadonlyArray<string> }> = []
  let [runs, events, takeovers] = [0, 0, 0]
  for (let seed = first; seed < end; seed += step) {
    const run = simulate(seed, minutes, false)
    runs++
    events += run.events
    takeovers += run.takeovers
    for (const [kind, count] of run.faults) faults[kind] = (faults[kind] ?? 0) + count
    if (run.wrong.length > 0) wrong.push({ seed, wrong: run.wrong })
  }
  return { runs, events, takeovers, faults, wrong }
}

const main = async (): Promise<void> => {
  const { values } = parseArgs({
    options: {
      seeds: { type: "string", default: "100" },
      seed: { type: "string", default: "1" },
      minutes: { type: "string", default: "10" },
      trace: { type: "boolean", default: false },
    },
  })
  const [seeds, first, minutes] = [Number(values.seeds), Number(values.seed), Number(values.minutes)]
  if (values.trace) {
    for (const line of simulate(first, minutes, true).trace) console.log(line)
  }
  const began = performance.now()
  const threads = Math.min(availableParallelism(), seeds)
  const reports = await Promise.all(Array.from({ length: threads }, async (_, n) => {
    const share: Share = { first: first + n, step: threads, end: first + seeds, minutes }
    const worker = new Worker(new URL(import.meta.url), { workerData: share })
    const [report] = await once(worker, "message") as [Report]
    return report
  }))
  const sum = (of: (report: Report) => number): number => reports.reduce((total, report) => total + of(report), 0)
  const wrong = reports.flatMap((report) => report.wrong).toSorted((a, b) => a.seed - b.seed)
  for (const one of wrong.slice(0, 20)) console.log(`seed ${one.seed}:\n  ${one.wrong.slice(0, 6).join("\n  ")}`)
  const seconds = (performance.now() - began) / 1_000
  console.log(
    `${sum((one) => one.runs)} runs of ${minutes} virtual minutes in ${seconds.toFixed(0)} s: ${
      sum((one) => one.events)
    } events, ` +
      `${sum((one) => one.takeovers)} takeovers`,
  )
  console.log(`faults: ${faultKinds.map((kind) => `${kind} ${sum((one) => one.faults[kind] ?? 0)}`).join(", ")}`)
  console.log(
    wrong.length === 0 ?
      "nothing wrong" :
      `${wrong.length} seeds found something: ${wrong.map((one) => one.seed).slice(0, 100).join(" ")}`,
  )
  process.exitCode = wrong.length === 0 ? 0 : 1
}

if (isMainThread) await main()
else {
  // A thread's port, not a window: there is no origin to name.
  // oxlint-disable-next-line unicorn/require-post-message-target-origin
  parentPort?.postMessage(work(workerData as Share))
}
