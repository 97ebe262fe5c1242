/** One run from one seed: machines, faults, checkers, verdict. */
import type { NodeId } from "#schema/common.ts"
import { captures, type Sessions } from "./cameras.ts"
import { control } from "./checkers/control.ts"
import { footage } from "./checkers/footage.ts"
import { gaps } from "./checkers/gaps.ts"
import { lease } from "./checkers/lease.ts"
import { recording } from "./checkers/recording.ts"
import { rest } from "./checkers/rest.ts"
import { toAll } from "./facts.ts"
import { breakThings, type FaultKind } from "./faults.ts"
import type { Node } from "./node-words.ts"
import { makeNode } from "./node.ts"
import { nodeClasses, planOf } from "./plan.ts"
import { chanceOf } from "./random.ts"
import { timeline } from "./timeline.ts"
import { type Machine, nodeId, type World } from "./world.ts"

export interface Outcome {
  readonly seed: number
  readonly wrong: ReadonlyArray<string>
  readonly faults: ReadonlyMap<FaultKind, number>
  readonly events: number
  readonly takeovers: number
  readonly trace: ReadonlyArray<string>
}

/** Between two looks at who would control. */
const probeMs = 500
const indexOf = (id: NodeId): number => Number(id.slice(-1))

export const simulate = (seed: number, minutes: number, traced: boolean): Outcome => {
  const chance = chanceOf(seed)
  const line = timeline()
  const { plan, rolls, ...shape } = planOf(chance, minutes)
  const voters = rolls.map((roll) => roll.voters.map(indexOf))
  const checkers = [control(), footage(plan), gaps(plan), lease(voters), recording(plan), rest(plan)]
  const trace: Array<string> = []
  let takeovers = 0
  const all = toAll(checkers)
  const world: World = {
    plan,
    chance,
    line,
    facts: {
      ...all,
      serves: (at, node, home, epoch) => {
        if (epoch !== null) takeovers++
        all.serves(at, node, home, epoch)
      },
      leaseObtained: (at, node, home, epoch) => {
        all.leaseObtained(at, node, home, epoch)
        tellControllers(home)
      },
    },
    machines: Array.from({ length: plan.nodes }, (_, index): Machine => ({
      index,
      id: nodeId(index),
      boot: 0,
      up: false,
      frozen: 0,
      diskFaults: 0,
      databaseFaults: 0,
      clockBase: 0,
      clockRate: 1 + (chance.unit() - 0.5) * 0.0018,
      skewMs: chance.chance(0.6) ?
        0 :
        chance.chance(0.5) ?
        chance.int(-3_000, 3_000) :
        chance.pick([-1, 1]) * 3_600_000,
      waiting: [],
    })),
    links: Array.from(
      { length: plan.nodes },
      () => Array.from({ length: plan.nodes }, () => ({ cuts: 0, delayMs: 2, jitterMs: 8, loss: 0, twice: 0 })),
    ),
    reach: Array.from({ length: plan.nodes }, () => plan.cameras.map(() => 0)),
    crashes: 0,
    tell: (text) => {
      if (traced) trace.push(`${String(line.now()).padStart(6)} ${text()}`)
    },
    indexOf,
  }
  const sessions = plan.cameras.map((): Sessions => ({ limit: shape.sessionLimit, open: new Set() }))
  const nodes: Array<Node> = []
  const tellControllers = (home: number): void => {
    const who = nodes.flatMap(({ machine, mayControl }) => {
      const epoch = mayControl(home)
      return epoch === null ? [] : [{ node: machine.index, epoch }]
    })
    all.controllers(line.now(), home, who)
  }
  const changedAll = (): void => {
    if (shape.sessionLimit < plan.nodes) line.after(500, () => nodes.forEach((node) => node.captures.changed()))
  }
  for (const machine of world.machines) {
    nodes.push(makeNode(world, machine, captures(world, machine, sessions, changedAll), {
      nodes,
      rolls,
      guardians: plan.guardians[machine.index]!,
      relations: nodeClasses(plan, shape.classes, machine.index),
    }))
  }
  const faults = breakThings(world, nodes, chanceOf(seed + 1_000_003))
  for (const node of nodes) node.start()
  const probe = (): void => {
    for (let home = 0; home < plan.nodes; home++) tellControllers(home)
    line.after(probeMs + chance.int(-50, 50), probe)
  }
  line.after(probeMs, probe)
  line.runUntil(plan.endMs)
  for (const node of nodes) node.kill()
  const verdictOf = {
    at: line.now(),
    protections: nodes.flatMap(({ disk, machine }) =>
      [...disk.protections].map(([home, state]) => ({
        node: machine.index,
        home,
        tag: state.tag,
        owed: state.owed.length,
      }))
    ),
    homes: nodes.map(({ disk, machine }) => ({
      node: machine.index,
      rerouted: (disk.homecoming.turns.at(-1)?.epoch ?? 0) > disk.homecoming.epoch,
      epoch: disk.homecoming.epoch,
    })),
    ledgers: nodes.flatMap(({ captures, machine }) =>
      plan.cameras.map((_, camera) => ({ node: machine.index, camera, gaps: captures.gaps(camera) }))
    ),
    coverage: plan.cameras.map((home, camera) => ({ camera, gaps: nodes[home]!.captures.coverage(camera) })),
  }
  const wrong = checkers.flatMap((one) => one.verdict(verdictOf))
  return { seed, wrong, faults, events: line.events(), takeovers, trace }
}
