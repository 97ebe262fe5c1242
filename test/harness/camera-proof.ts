/**
 * Cameras that fail while they are recorded, all at once, one kind of failure each; then, again and again, to see that memory
 * stays as it is.
 *
 * Invariants
 * 1. State, reason and open gap are what a person gets by REST; missing pictures are counted in the footage by their numbers.
 * 2. Every missing number must be in a gap with a cause that fits the failure, and every gap must miss a number.
 */
import { chmodSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { type Fault, faults, type Patient, startGarbage } from "./camera-faults.ts"
import { record, type Recorded, startCameras } from "./cameras.ts"
import type { StoredFrame } from "./footage.ts"
import { dueOf, judge } from "./judge.ts"
import { watchMemory } from "./memory.ts"
import { makeNode, type NodeProcess, sleep } from "./node-process.ts"
import type { Report } from "./report.ts"
import { readShelf, type Shelf } from "./shelf.ts"
import { eventsOf, gapsOf, healthOf, logOf, lookAt, toggle, watch } from "./sight.ts"

export type FaultName = keyof typeof faults

export interface CameraProofOptions {
  readonly faults: ReadonlyArray<FaultName>
  /** How long the failures last once they are seen, ms. */
  readonly lastMs: number
  /** So long failures follow one another for the sake of memory, seconds; 0: not at all. */
  readonly flapSeconds: number
}

const frameMs = 40
/** The watchdog, a round of the status writer, and the machine's lateness. */
const seenWithinMs = 30_000
/** The longest wait before a camera is tried again: a refused password. */
const backWithinMs = 100_000
/** Growth of the least third that is put down to the collector. */
const flatMiB = 16

const recording = async (patient: Patient, limitMs: number) =>
  await watch(
    () => lookAt(patient.node, patient.recorded),
    ({ state, status }) => state === "recording" && status === "online",
    limitMs,
  )

/** Breaks the camera, waits until a person can see it, and holds it. */
const suffer = async (fault: Fault, patient: Patient, lastMs: number, report: Report): Promise<void> => {
  await fault.begin(patient)
  if (fault.seen === null) {
    await sleep(lastMs)
    return
  }
  const { reason, status } = fault.seen
  const { held, seen, tookMs } = await watch(
    () => lookAt(patient.node, patient.recorded),
    (sight) =>
      sight.state === "failed" && status.includes(sight.status) && reason.test(sight.reason) &&
      reason.test(sight.statusReason) &&
      sight.openGap?.cause === fault.causes[0],
    seenWithinMs,
  )
  report.check(held, `${fault.name}: seen is ${JSON.stringify(seen)}`)
  if (held) {
    const gap = `gap ${seen.openGap?.cause}`
    report.say(
      `${fault.name}: after ${
        (tookMs / 1000).toFixed(1)
      } s camera ${seen.status}, recording ${seen.state}, ${gap}, "${seen.reason}"`,
    )
  }
  await sleep(lastMs)
}

const heal = async (fault: Fault, patient: Patient, report: Report): Promise<void> => {
  await fault.end(patient)
  const { held, seen, tookMs } = await recording(patient, backWithinMs)
  report.check(
    held && seen.reason === "" && seen.openGap === null,
    `${fault.name}: afterwards seen is ${JSON.stringify(seen)}`,
  )
  if (held) report.say(`${fault.name}: recording again after ${(tookMs / 1000).toFixed(1)} s`)
}

/** Pictures that lost their number get that of the moment they stand at. */
const framesOf = (shelf: Shelf, { recordingId }: Recorded): ReadonlyArray<StoredFrame> => {
  const numbered = shelf.frames(recordingId)
  const beginMs = dueOf(numbered, frameMs)(0)
  const nameless = shelf.unmarked(recordingId).map((wallMs) => {
    const frame = Math.round((wallMs - beginMs) / frameMs)
    return { name: "", frame, sentMs: beginMs + frame * frameMs, wallMs }
  })
  return [...numbered, ...nameless]
}

/** What the footage and the ledger say in the end. */
const verdict = async (fault: Fault, { node, recorded }: Patient, shelf: Shelf, report: Report): Promise<void> => {
  const found = judge(framesOf(shelf, recorded), await gapsOf(node, recorded), frameMs)
  const allowed = fault.causes
  const nameless = shelf.unmarked(recorded.recordingId).length
  for (const line of found.faults) report.fault(`${fault.name}: ${line}`)
  const told = found.missing
  for (const { causes, from, to } of told) {
    const fits = causes.every((cause) => allowed.includes(cause)) && causes.some((cause) => cause === allowed[0])
    report.check(fits, `${fault.name}: frames ${from} to ${to - 1} are missing for ${causes.join(", ")}`)
  }
  report.check(told.length > 0 || allowed.length === 0, `${fault.name}: nothing is missing, although the camera failed`)
  const events = await eventsOf(node, recorded)
  for (const cause of new Set(told.flatMap(({ causes }) => causes))) {
    // A gap that was found when it had ended is told as a whole.
    const phases = fault.seen === null ? ["closed"] : ["opened", "closed"]
    for (const phase of phases) {
      report.check(
        events.includes(`recording.gap.${phase} ${cause}`),
        `${fault.name}: no event tells of the gap ${cause} ${phase}`,
      )
    }
  }
  const absent = told.reduce((sum, { from, to }) => sum + to - from, 0)
  const named = [...new Set(told.flatMap(({ causes }) => causes))].join(", ")
  report.say(
    `${fault.name}: ${found.frames} pictures${
      nameless > 0 ? ` and ${nameless} without a number` : ""
    }, ${told.length} gaps with ` +
      `${absent} pictures (${named || "none"}); gaps within ${found.gapErrorMs.toFixed(0)} ms, wall clock within ` +
      `${found.wallErrorMs.toFixed(0)} ms`,
  )
}

/** One failure after another, at every camera: each round drops, garbles, refuses and freezes. */
const flap = async (patients: ReadonlyArray<Patient>, seconds: number): Promise<number> => {
  const verbs: ReadonlyArray<Fault> = [
    faults.dropped,
    faults.corrupt,
    faults.garbage,
    faults.sessions,
    faults.loss,
    faults.cut,
    faults.resolution,
  ]
  const until = performance.now() + seconds * 1_000
  let count = 0
  while (performance.now() < until) {
    const chosen = patients.map((patient, i) => [verbs[(count + i) % verbs.length]!, patient] as const)
    for (const [fault, patient] of chosen) await fault.begin(patient)
    await sleep(1_500)
    for (const [fault, patient] of chosen) await fault.end(patient)
    await sleep(2_500)
    count++
  }
  return count * patients.length
}

const proveMemory = async (
  node: NodeProcess,
  patients: ReadonlyArray<Patient>,
  seconds: number,
  report: Report,
): Promise<void> => {
  const memory = watchMemory(node)
  await flap(patients, 30)
  memory.settle()
  const count = await flap(patients, seconds)
  const { firstMiB, lastMiB, text } = memory.stop()
  report.check(lastMiB <= firstMiB + flatMiB, `memory grows: ${text}`)
  report.say(`${count} failures in ${seconds} s; ${text}`)
  for (const patient of patients) {
    await patient.cameras.command(patient.index, "restore")
    const { held, seen } = await recording(patient, backWithinMs)
    report.check(held, `camera ${patient.index} does not come back: ${JSON.stringify(seen)}`)
  }
}

const errorLine = /^\S+ (ERROR|FATAL)/

const conclude = async (
  node: NodeProcess,
  treated: ReadonlyArray<readonly [Fault, Patient]>,
  report: Report,
): Promise<void> => {
  for (const [, { recorded }] of treated) await toggle(node, recorded, false)
  await sleep(2_000)
  const harmed = treated.filter(([{ harms }]) => harms !== undefined).map(([, { recorded }]) => recorded.recordingId)
  const shelf = await readShelf([path.join(node.data, "footage")], report, { damaged: new Set(harmed) })
  for (const [fault, patient] of treated) if (fault.harms !== "garbles") await verdict(fault, patient, shelf, report)
  const log = logOf(node).split("\n")
  for (const [{ name, seen }, { recorded }] of treated) {
    const own = log.filter((line) => line.includes(recorded.streamId)).map((line) =>
      line.replace(/^.*?Stream \S+: /, "")
    )
    report.check(seen === null || own.some((line) => seen.reason.test(line)), `${name}: the log does not tell of it`)
  }
  const errors = log.filter((line) => errorLine.test(line))
  report.check(errors.length === 0, `the log has errors:\n${errors.slice(0, 5).join("\n")}`)
}

/** The whole proof. The folder is kept where it failed. */
export const proveCameras = async (report: Report, options: CameraProofOptions): Promise<void> => {
  const folder = mkdtempSync(path.join(tmpdir(), "nightjar-camera-"))
  // PostgreSQL may run under another account.
  chmodSync(folder, 0o755)
  const chosen: ReadonlyArray<Fault> = options.faults.map((name) => faults[name])
  const [cameras, garbage, node] = await Promise.all([
    startCameras(chosen.length, ["--sub", "none"]),
    startGarbage(),
    makeNode(folder),
  ])
  try {
    await node.start()
    const treated: Array<readonly [Fault, Patient]> = []
    for (const [index, fault] of chosen.entries()) {
      const { password, urls, username } = cameras
      const recorded = await record(node, { name: `camera ${index}`, sourceUrl: urls[index]!, username, password })
      treated.push([fault, { node, cameras, index, recorded, garbage }])
    }
    for (const [, patient] of treated) {
      const { held, seen } = await recording(patient, 30_000)
      report.check(held, `camera ${patient.index} is not recorded: ${JSON.stringify(seen)}`)
    }
    await sleep(3_000)
    await Promise.all(treated.map(([fault, patient]) => suffer(fault, patient, options.lastMs, report)))
    const health = await healthOf(node)
    if (chosen.some(({ seen }) => seen !== null)) {
      report.check(health["capture:streams"]?.startsWith("warn") ?? false, `health says ${JSON.stringify(health)}`)
    }
    await Promise.all(treated.map(([fault, patient]) => heal(fault, patient, report)))
    await sleep(3_000)
    await conclude(node, treated, report)
    if (options.flapSeconds > 0) {
      for (const [, { recorded }] of treated) await toggle(node, recorded, true)
      await proveMemory(node, treated.map(([, patient]) => patient), options.flapSeconds, report)
    }
  } finally {
    await node.stop()
    await Promise.all([cameras.stop(), garbage.stop()])
    if (report.faults.length === 0) rmSync(folder, { recursive: true, force: true })
    else report.say(`kept for a look: ${folder}`)
  }
}
