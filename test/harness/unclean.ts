/**
 * What may befall two guardians and the home node they guard, on machines of their own with databases of their own; each case is a sentence.
 *
 * Invariants
 * 1. Pictures tell: the camera numbers them, and what a disk holds is read as it lies there, not as a node tells it.
 * 2. Every case begins and ends with the home node recording, both guardians ready, and all footage home.
 * 3. The clock of the second guardian is off by an hour throughout.
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
import { type Machine, Net } from "./namespaces.ts"
import { sleep } from "./node-process.ts"
import type { Report } from "./report.ts"

const hourMs = 3_600_000

interface Guard {
  readonly machine: Machine
  readonly protection: string
}
interface Stage {
  readonly net: Net
  readonly home: Machine
  readonly first: Guard
  readonly second: Guard
  readonly recorded: Recorded
  /** Every picture that was seen on any disk so far. */
  readonly seen: Set<number>
}

const framesOn = ({ recorded, seen }: Stage, machine: Machine): ReadonlyArray<number> => {
  const frames = framesIn(machine.footage, recorded.recordingId).map(({ frame }) => frame)
  for (const frame of frames) seen.add(frame)
  return frames
}
const newest = (stage: Stage, machine: Machine): number =>
  framesOn(stage, machine).reduce((most, frame) => Math.max(most, frame), -1)

/** Pictures go on coming to its disk. */
const records = async (stage: Stage, machine: Machine): Promise<void> => {
  const before = newest(stage, machine)
  await until(`${machine.name} recording`, async () => newest(stage, machine), (frame) => frame > before)
}

const stateOf = async ({ machine, protection }: Guard) => (await protectionOf(machine, protection)).state
/** One of both serves, and the other does not; on a busy machine that is not always the first. */
const oneServes = async (stage: Stage): Promise<{ readonly serving: Guard; readonly other: Guard }> => {
  const both = [stage.first, stage.second]
  const states = await until(
    "one guardian that serves",
    () => Promise.all(both.map(stateOf)),
    (all) => all.filter((state) => state === "takenOver").length === 1 && !all.includes("takingOver"),
  )
  const serving = both[states.indexOf("takenOver")]!
  return { serving, other: both.find((one) => one !== serving)! }
}
const serves = ({ machine, protection }: Guard) => untilState(machine, protection, "takenOver", "restored")

/** Its small disk is no hindrance here. */
const ready = ({ machine, protection }: Guard) => untilState(machine, protection, "protected", "capacityShort")

/** Both guardians stand ready again and what anybody recorded is on the home node's disk. */
const allIsWell = async (report: Report, stage: Stage): Promise<void> => {
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
const missingAtHome = (stage: Stage, from: number, to: number): number => {
  const there = new Set(framesOn(stage, stage.home))
  let missing = 0
  for (let frame = from; frame < to; frame++) if (!there.has(frame)) missing++
  return missing
}

type Case = readonly [sentence: string, run: (report: Report, stage: Stage) => Promise<void>]

const oneOfTwo: Case = [
  "one of two guardians records what the killed home node cannot, while the other stands by",
  async (_, stage) => {
    await stage.home.kill()
    const { serving } = await oneServes(stage)
    await records(stage, serving.machine)
  },
]

/** Goes on from `oneOfTwo`. */
const guardianDies: Case = [
  "a guardian that is killed while it serves is stood in for, and one of both serves in the end",
  async (_, stage) => {
    const { other, serving } = await oneServes(stage)
    await serving.machine.kill()
    await serves(other)
    await records(stage, other.machine)
    await serving.machine.start()
    await records(stage, (await oneServes(stage)).serving.machine)
  },
]

/** Goes on from `guardianDies`. */
const diesGivingBack: Case = [
  "a guardian that is killed while it gives back goes on giving back, and the home node serves",
  async (report, stage) => {
    const { serving } = await oneServes(stage)
    await stage.home.start()
    await untilState(serving.machine, serving.protection, "failingBack", "recordingBack")
    await serving.machine.kill()
    await serving.machine.start()
    await allIsWell(report, stage)
  },
]

const restarted: Case = [
  "a guardian that is killed and comes back at once goes on with the same reroute",
  async (report, stage) => {
    const going = async (one: Guard) =>
      (await listed<RerouteTold>(one.machine, `${failover}/reroutes`)).filter(({ state }) => state !== "done")
    await stage.home.kill()
    const { other, serving } = await oneServes(stage)
    await records(stage, serving.machine)
    const [before] = await going(serving)
    // Alone, so that nobody stands in for it meanwhile.
    await other.machine.kill()
    await serving.machine.kill()
    await serving.machine.start()
    await serves(serving)
    await records(stage, serving.machine)
    const after = await going(serving)
    report.check(
      after.length === 1 && after[0]?.id === before?.id,
      `reroutes ${JSON.stringify(after.map(({ id }) => id))} instead of ${before?.id}`,
    )
    await other.machine.start()
    await stage.home.start()
    await allIsWell(report, stage)
  },
]

const oneWay: Case = [
  "a guardian whose words do not reach the home node records too, and gives back; the home node misses nothing",
  async (report, stage) => {
    const { first, home, second } = stage
    await records(stage, home)
    const from = newest(stage, home)
    // The second still hears it, and would say so; so it is cut off as well.
    for (const { machine } of [first, second]) machine.cutTowards(home)
    const { serving } = await oneServes(stage)
    await records(stage, serving.machine)
    await records(stage, home)
    for (const { machine } of [first, second]) machine.healTowards(home)
    await allIsWell(report, stage)
    const missing = missingAtHome(stage, from, newest(stage, home))
    report.check(missing === 0, `${missing} pictures are missing at home`)
  },
]

const returnsMeanwhile: Case = [
  "a home node that returns while it is taken over is given back its cameras",
  async (report, stage) => {
    await stage.home.kill()
    await until(
      "a guardian that takes over",
      () => Promise.all([stage.first, stage.second].map(stateOf)),
      (states) => states.some((state) => state === "takingOver" || state === "takenOver"),
    )
    await stage.home.start()
    await allIsWell(report, stage)
  },
]

const frozen: Case = [
  "a home node that stood still for a while finds its cameras served, and is given them back",
  async (report, stage) => {
    stage.home.freeze()
    await records(stage, (await oneServes(stage)).serving.machine)
    stage.home.thaw()
    await allIsWell(report, stage)
  },
]

const fullDisk: Case = [
  "guardians without a byte left on their disks go on to record when there is room",
  async (report, stage) => {
    const both = [stage.first.machine, stage.second.machine]
    for (const machine of both) machine.fillDisk()
    await stage.home.kill()
    const { serving } = await oneServes(stage)
    const before = newest(stage, serving.machine)
    await sleep(5_000)
    report.check(newest(stage, serving.machine) === before, "it records on a full disk")
    for (const machine of both) machine.emptyDisk()
    await records(stage, serving.machine)
    await stage.home.start()
    await allIsWell(report, stage)
  },
]

/** The second guards the first, which serves the home node: it stands in for both. */
const chain: Case = [
  "who guards a guardian stands in for it and for whom it served",
  async (report, stage) => {
    const { first, home, second } = stage
    const { nodeId } =
      (await listed<{ readonly nodeId: string; readonly name: string }>(
        second.machine,
        "/federation/api/v1/federation/nodes",
      )).find(({ name }) => name === first.machine.name)!
    const { id } = (await second.machine.call("POST", `${failover}/protections`, {
      nodeId,
      automatic: true,
      class: "warm",
    })) as ProtectionTold
    await ready({ machine: second.machine, protection: id })
    await home.kill()
    await oneServes(stage)
    await first.machine.kill()
    await serves(second)
    await untilState(second.machine, id, "takenOver")
    await records(stage, second.machine)
    await home.start()
    await first.machine.start()
    await ready({ machine: second.machine, protection: id })
    await allIsWell(report, stage)
  },
]

const begin = async (net: Net): Promise<Stage> => {
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

/** Those that share their lives with each other. */
export const shortly: ReadonlyArray<Case> = [oneOfTwo, guardianDies, diesGivingBack]
const further: ReadonlyArray<Case> = [oneWay, returnsMeanwhile, frozen, fullDisk, restarted, chain]

/** `only`: cases whose sentence holds one of these words; a case that goes on from another comes with it. */
export const proveUnclean = async (report: Report, cases: "short" | "all", only: ReadonlyArray<string> = []) => {
  const net = new Net()
  try {
    const stage = await begin(net)
    report.say("three nodes, each with a database of its own; the second guardian's clock is an hour ahead")
    const asked = further.filter(([sentence]) => only.length === 0 || only.some((word) => sentence.includes(word)))
    for (const [sentence, run] of cases === "short" ? shortly : [...only.length === 0 ? shortly : [], ...asked]) {
      const faults = report.faults.length
      try {
        await run(report, stage)
      } catch (error) {
        report.fault(`${sentence}: ${String(error)}`)
        if (cases === "short") throw error
        for (const machine of [stage.home, stage.first.machine, stage.second.machine]) {
          machine.thaw()
          machine.emptyDisk()
          if (!machine.running) await machine.start()
        }
      }
      report.say(`${report.faults.length === faults ? "holds" : "FAILS"}: ${sentence}`)
    }
  } finally {
    await net.end()
  }
}
