/**
 * Machines, clocks, network, cameras of one simulated run. What a node does with them is in `node.ts`, what breaks in `faults.ts`.
 *
 * Invariants
 * 1. A process knows true time only through its own monotonic clock: an arbitrary start, and a drift.
 * 2. A message to a process that stands still waits; to one that is not there it is lost. What a process began ends with it.
 */
import { NodeId } from "#schema/common.ts"
import type { Facts, Plan } from "./facts.ts"
import { type Chance } from "./random.ts"
import { type Timeline } from "./timeline.ts"

/** A way from one machine to another, in one direction. */
export interface Link {
  cuts: number
  delayMs: number
  jitterMs: number
  loss: number
  twice: number
}

export interface Machine {
  readonly index: number
  readonly id: NodeId
  /** Grows with every start of the process. */
  boot: number
  up: boolean
  /** How many faults hold it still, or its disk or database down. */
  frozen: number
  diskFaults: number
  databaseFaults: number
  clockBase: number
  clockRate: number
  /** Its wall clock minus true time. */
  readonly skewMs: number
  waiting: Array<() => void>
}

export interface World {
  readonly plan: Plan
  readonly chance: Chance
  readonly line: Timeline
  readonly facts: Facts
  readonly machines: ReadonlyArray<Machine>
  readonly links: ReadonlyArray<ReadonlyArray<Link>>
  /** Camera ways: `reach[node][camera]`, number of faults on it. */
  readonly reach: Array<Array<number>>
  /** Probability that a process dies between its disk and its next command. */
  crashes: number
  readonly tell: (text: () => string) => void
  readonly indexOf: (id: NodeId) => number
}

export const nodeId = (index: number): NodeId => NodeId.make(`01990000-0000-7000-8000-00000000000${index}`)

/** A process's monotonic clock, whole milliseconds. */
export const clock = (world: World, machine: Machine): number =>
  Math.floor(machine.clockBase + world.line.now() * machine.clockRate)

/** A node's wall clock. */
export const wall = (world: World, machine: Machine): number => world.line.now() + machine.skewMs

/** Runs in the process of `machine` that is there now, after a delay of true time; never in a later one. */
export const later = (world: World, machine: Machine, delay: number, run: () => void): void => {
  const { boot } = machine
  world.line.after(delay, () => {
    if (!machine.up || machine.boot !== boot) return
    if (machine.frozen > 0) machine.waiting.push(() => machine.boot === boot && run())
    else run()
  })
}

/** Runs in whatever process is there when the message arrives. */
const arrive = (world: World, from: Machine, to: Machine, run: () => void): void => {
  const link = world.links[from.index]![to.index]!
  if (link.cuts > 0 || world.chance.chance(link.loss)) return
  const delay = link.delayMs + world.chance.int(0, link.jitterMs)
  const deliver = (): void => {
    if (!to.up || link.cuts > 0) return
    if (to.frozen > 0) to.waiting.push(run)
    else run()
  }
  world.line.after(delay, deliver)
  if (link.twice > 0 && world.chance.chance(link.twice)) world.line.after(delay + world.chance.int(0, 3_000), deliver)
}

/**
 * A request and its answer. `serve` runs at the other node, `done` once in the asking process: with the answer, or with null after
 * `timeoutMs`, also where an answer is read that late; with `timeoutMs` 0 a lost answer is not told.
 */
export const call = <A>(
  world: World,
  from: Machine,
  to: Machine,
  timeoutMs: number,
  serve: (reply: (answer: A) => void) => void,
  done: (answer: A | null) => void,
): void => {
  const { boot } = from
  const dueMs = timeoutMs > 0 ? world.line.now() + timeoutMs : Infinity
  let open = true
  const finish = (answer: A | null): void => {
    if (!open || from.boot !== boot) return
    open = false
    done(answer)
  }
  arrive(world, from, to, () => {
    serve((answer) => {
      // A process that stood still reads what came meanwhile before it looks at its timers.
      arrive(world, to, from, () => finish(world.line.now() > dueMs ? null : answer))
    })
  })
  if (timeoutMs > 0) later(world, from, timeoutMs, () => finish(null))
}
