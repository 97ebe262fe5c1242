/**
 * What may befall two guardians and the home node they guard; each case is a sentence.
 *
 * Invariants
 * 1. Every case begins and ends with the home node recording, both guardians ready, and all footage home.
 */
import { failover, listed, type ProtectionTold, type RerouteTold, until, untilState } from "./failover.ts"
import { Net } from "./namespaces.ts"
import { sleep } from "./node-process.ts"
import type { Report } from "./report.ts"
import { changing } from "./unclean-changes.ts"
import { restoring } from "./unclean-restore.ts"
import {
  allIsWell,
  begin,
  type Case,
  controllers,
  type Guard,
  missingAtHome,
  newest,
  oneServes,
  ready,
  records,
  serves,
  type Stage,
  stateOf,
} from "./unclean-stage.ts"

const untilEnded = async (report: Report, stage: Stage, ended: () => boolean): Promise<void> => {
  let before: ReadonlyArray<string> = []
  while (!ended()) {
    const now = await controllers(stage)
    // Who says so before and after another said it has it while the other has.
    const both = now.filter((name) => before.includes(name))
    report.check(both.length < 2, `at the same time control is with ${both.join(" and ")}`)
    before = now
    await sleep(300)
  }
}

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

const awayMeanwhile: Case = [
  "a guardian that was away when the home node died measures the gap from when it last heard it",
  async (report, stage) => {
    const { first, home, second } = stage
    // Since its record of the last heartbeat, some seconds at most.
    await second.machine.kill()
    await first.machine.kill()
    await home.kill()
    const diedMs = Date.now()
    await sleep(5_000)
    await first.machine.start()
    await serves(first)
    await records(stage, first.machine)
    const awayMs = Date.now() - diedMs
    const [reroute] = await until(
      "a gap that was measured",
      () => listed<RerouteTold>(first.machine, `${failover}/reroutes`),
      ([newest]) => newest !== undefined && newest.gapMs !== null,
    )
    const gapMs = reroute!.gapMs!
    report.check(gapMs >= 5_000 && gapMs < awayMs + 15_000, `a gap of ${gapMs} ms, while it was away for ${awayMs} ms`)
    await home.start()
    await second.machine.start()
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

/** Seconds that the line holds and seconds that it does not, from a camera's glance to longer than a takeover takes. */
const flaps = [0.5, 0.3, 1, 1, 2, 0.5, 0.7, 2.5, 3.5, 1, 1, 4, 6, 1.5, 0.2, 0.4, 5, 2, 1, 0.5] as const

const flapping: Case = [
  "a line that comes and goes loses nothing, whoever records meanwhile, and never do two control at once",
  async (report, stage) => {
    const { first, home, second } = stage
    await records(stage, home)
    const from = newest(stage, home)
    let ended = false
    const watching = untilEnded(report, stage, () => ended)
    for (const [n, seconds] of flaps.entries()) {
      for (const { machine } of [first, second]) {
        if (n % 2 === 0) home.cutTowards(machine)
        else home.healTowards(machine)
      }
      await sleep(1_000 * seconds)
    }
    await records(stage, home)
    await allIsWell(report, stage)
    ended = true
    await watching
    const missing = missingAtHome(stage, from, newest(stage, home))
    report.check(missing === 0, `${missing} pictures are missing at home`)
    const reroutes =
      (await Promise.all([first, second].map(({ machine }) => listed<RerouteTold>(machine, `${failover}/reroutes`))))
        .flat()
    report.say(`${reroutes.length} reroutes so far`)
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

/** The first of those that share their lives with each other. */
export const shortly: ReadonlyArray<Case> = [oneOfTwo, guardianDies]
const lives: ReadonlyArray<Case> = [...shortly, diesGivingBack]
const further: ReadonlyArray<Case> = [
  oneWay,
  flapping,
  returnsMeanwhile,
  frozen,
  fullDisk,
  restarted,
  awayMeanwhile,
  ...changing,
  ...restoring,
  chain,
]

/** `only`: cases whose sentence holds one of these words; a case that goes on from another comes with it. */
export const proveUnclean = async (report: Report, cases: "short" | "all", only: ReadonlyArray<string> = []) => {
  const net = new Net()
  try {
    const stage = await begin(net)
    report.say("three nodes, each with a database of its own; the second guardian's clock is an hour ahead")
    const asked = further.filter(([sentence]) => only.length === 0 || only.some((word) => sentence.includes(word)))
    for (const [sentence, run] of cases === "short" ? shortly : [...only.length === 0 ? lives : [], ...asked]) {
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
