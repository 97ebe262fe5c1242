/**
 * Two guardians and the home node they guard, on machines of their own with databases of their own, and how a test sees what they do.
 *
 * Invariants
 * 1. Pictures tell: the camera numbers them, and what a disk holds is read as it lies there, not as a node tells it.
 * 2. The clock of the second guardian is off by an hour throughout.
 */
import { record, type Recorded } from "./cameras.ts"
import {
  failover,
  listed,
  pair,
  protectionOf,
  type ProtectionTold,
  type RerouteTold,
  until,
  untilState,
} from "./failover.ts"
import { framesIn } from "./footage.ts"
import type { Machine, Net } from "./namespaces.ts"
import type { Report } from "./report.ts"

const hourMs = 3_600_000

export interface Guard {
  readonly machine: Machine
  readonly protection: string
}
export interface Stage {
  readonly net: Net
  readonly home: Machine
  readonly first: Guard
  readonly second: Guard
  readonly recorded: Recorded
  /** Every picture that was seen on any disk so far. */
  readonly seen: Set<number>
}

export const framesOn = ({ recorded, seen }: Stage, machine: Machine): ReadonlyArray<number> => {
  const frames = framesIn(machine.footage, recorded.recordingId).map(({ frame }) => frame)
  for (const frame of frames) seen.add(frame)
  return frames
}
export const newest = (stage: Stage, machine: Machine): number =>
  framesOn(stage, machine).reduce((most, frame) => Math.max(most, frame), -1)

/** Pictures go on coming to its disk. */
export const records = async (stage: Stage, machine: Machine): Promise<void> => {
  const before = newest(stage, machine)
  await until(`${machine.name} recording`, async () => newest(stage, machine), (frame) => frame > before)
}

export const stateOf = async ({ machine, protection }: Guard) => (await protectionOf(machine, protection)).state
/** One of both serves, and the other does not; on a busy machine that is not always the first. */
export const oneServes = async (stage: Stage): Promise<{ readonly serving: Guard; readonly other: Guard }> => {
  const both = [stage.first, stage.second]
  const states = await until(
    "one guardian that serves",
    () => Promise.all(both.map(stateOf)),
    (all) => all.filter((state) => state === "takenOver").length === 1 && !all.includes("takingOver"),
  )
  const serving = both[states.indexOf("takenOver")]!
  return { serving, other: both.find((one) => one !== serving)! }
}
export const serves = ({ machine, protection }: Guard) => untilState(machine, protection, "takenOver", "restored")

/** Its small disk is no hindrance here. */
export const ready = ({ machine, protection }: Guard) => untilState(machine, protection, "protected", "capacityShort")

/** Both guardians stand ready again and what anybody recorded is on the home node's disk. */
export const allIsWell = async (report: Report, stage: Stage): Promise<void> => {
  const { first, home, second } = stage
  for (const one of [first, second]) await ready(one)
  await records(stage, home)
  await until("no footage owed", async () => {
    const owed = await Promise.all(
      [first, second].map((one) => listed<RerouteTold>(one.machine, `${failover}/reroutes`)),
    )
    return owed.flat().filter(({ state }) => state !== "done").map(({ id, state }) => ({ id, state }))
  }, (left) => left.length === 0)
  const atHome = new Set(framesOn(stage, home))
  const lost = [...stage.seen].filter((frame) => !atHome.has(frame))
  report.check(lost.length === 0, `${lost.length} pictures that were recorded are not at home`)
}

/** What is missing on the home node between the two pictures. */
export const missingAtHome = (stage: Stage, from: number, to: number): number => {
  const there = new Set(framesOn(stage, stage.home))
  let missing = 0
  for (let frame = from; frame < to; frame++) if (!there.has(frame)) missing++
  return missing
}

interface StatusTold {
  readonly control: ReadonlyArray<{ readonly homeNodeId: string; readonly holder: string | null }>
}
/** Who says that it controls the home node's cameras. */
export const controllers = async ({ first, home, second }: Stage): Promise<ReadonlyArray<string>> => {
  const said = await Promise.all([home, first.machine, second.machine].map(async (machine) => {
    const nodes = await listed<{ readonly nodeId: string; readonly name: string; readonly self: boolean }>(
      machine,
      "/federation/api/v1/federation/nodes",
    )
    const self = nodes.find((node) => node.self)?.nodeId
    const homeId = nodes.find(({ name }) => name === home.name)?.nodeId
    const { control } = (await machine.call("GET", `${failover}/status`)) as StatusTold
    return control.some(({ holder, homeNodeId }) => homeNodeId === homeId && holder === self) ? [machine.name] : []
  }))
  return said.flat()
}
export type Case = readonly [sentence: string, run: (report: Report, stage: Stage) => Promise<void>]

export const begin = async (net: Net): Promise<Stage> => {
  const [home, one, other] = [net.machine("home"), net.machine("first"), net.machine("second")]
  other.skewClock(hourMs)
  const [urls] = await Promise.all([net.cameras(1), home.start(), one.start(), other.start()])
  const { homeId } = await pair(home, one)
  await pair(home, other)
  await pair(one, other)
  const guards: Array<Guard> = []
  for (const [rank, machine] of [one, other].entries()) {
    await machine.call("PUT", `${failover}/settings`, { stableMs: 2_000, overlapMs: 5_000, expectedOutageHours: 1 })
    const made = (await machine.call("POST", `${failover}/protections`, {
      nodeId: homeId,
      automatic: true,
      class: "warm",
      rank,
    })) as ProtectionTold
    guards.push({ machine, protection: made.id })
  }
  const recorded = await record(home, { name: "gate", sourceUrl: urls[0]! })
  for (const { machine, protection } of guards) {
    await until(
      "a snapshot with its recording",
      () => protectionOf(machine, protection),
      ({ snapshot }) => snapshot.recordings === 1 && !snapshot.stale,
    )
  }
  const stage: Stage = { net, home, first: guards[0]!, second: guards[1]!, recorded, seen: new Set() }
  await records(stage, home)
  return stage
}
