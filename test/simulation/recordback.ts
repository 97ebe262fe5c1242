/**
 * Footage of one reroute on its way home, by the production job machine and the production comparison with what the home node
 * recorded itself. Times in it are those of the two nodes' wall clocks, which may differ.
 *
 * Invariants
 * 1. A segment is deleted here after its receipt, and a receipt is given for what is on the home node's disk.
 * 2. The job's state is on disk before what it commands is done; a new process begins with what is there.
 */
import { aged, type ClockOffset, clockOffset, unite, type Verdict, verdictOf } from "#cluster/recordback-manifest.ts"
import { initialJob, isEnded, type JobCommand, type JobEvent, type JobState, step } from "#cluster/recordback.ts"
import { type Captures, group, segment } from "./cameras.ts"
import type { Node } from "./node-words.ts"
import { missing, type Span } from "./spans.ts"
import { call, later, type Machine, wall, type World } from "./world.ts"

export interface Order {
  readonly rerouteId: string
  readonly home: number
  readonly cameras: ReadonlyArray<number>
  readonly firstEpoch: number
  readonly lastEpoch: number
}

interface Segment {
  readonly camera: number
  readonly epoch: number
  readonly span: Span
}

/** Segments of one session. */
const sessionSegments = 16

const ms = (machine: Machine, [from, to]: Span) => ({
  start: from * 100 + machine.skewMs,
  end: to * 100 + machine.skewMs,
})

/** What the home node says to a manifest that came at this moment; or that it never granted such an epoch. */
const judge = (home: Node, clock: ClockOffset, from: Machine, manifest: ReadonlyArray<Segment>) =>
  manifest.some((one) => one.epoch > home.disk.homecoming.epoch) ? "refused" as const : manifest.map((one): Verdict => {
    if (missing(home.captures.taken(one.camera, one.epoch, from.index), one.span).length === 0) {
      return { state: "covered" }
    }
    const own = unite(home.captures.own(one.camera).map((span) => ms(home.machine, span)))
    return verdictOf(ms(from, one.span), own, clock.offsetMs, clock.errorMs)
  })

export const sendHome = (
  world: World,
  machine: Machine,
  mine: Captures,
  nodes: ReadonlyArray<Node>,
  order: Order,
  jobs: Map<string, JobState>,
  done: () => void,
): void => {
  const { chance, facts, line } = world
  const home = world.machines[order.home]!
  const theirs = nodes[order.home]!
  const left = (): ReadonlyArray<Segment> =>
    mine.kept().filter((one) =>
      order.cameras.includes(one.camera) && one.epoch >= order.firstEpoch && one.epoch <= order.lastEpoch
    ).flatMap(({ camera, epoch, spans }) =>
      spans.map(([from, to]): Segment => ({
        camera,
        epoch,
        span: [from, Math.min(to, (Math.floor(from / segment) + 1) * segment)],
      }))
    )
  const gone = ({ camera, epoch, span }: Segment): void => {
    facts.receipt(line.now(), machine.index, camera, epoch, span)
    mine.drop(camera, epoch, span)
    facts.deleted(line.now(), machine.index, camera, epoch, span)
  }
  let measured = { clock: { offsetMs: 0, errorMs: 0 }, atMs: 0 }
  const failed: JobEvent = { _tag: "Failed", reason: "no answer", refused: false }
  /** Sends what is wanted of a segment, and ends with a receipt or without. */
  const push = (one: Segment, pieces: ReadonlyArray<Span>, then: (stored: boolean) => void): void => {
    call<boolean>(world, machine, home, 8_000, (reply) => {
      // Quarantine, check, sync, index: the disk may be full, and the process may die in between.
      later(world, home, chance.int(10, 150), () => {
        if (home.diskFaults > 0) return reply(false)
        for (const piece of pieces) {
          theirs.captures.put(one.camera, one.epoch, piece, machine.index)
          facts.received(line.now(), machine.index, one.camera, one.epoch, piece)
        }
        reply(true)
      })
    }, (stored) => {
      if (stored === true) gone(one)
      then(stored === true)
    })
  }
  const session = (): void => {
    const manifest = left().slice(0, sessionSegments)
    if (manifest.length === 0) return next({ _tag: "Sent" })
    const clock = aged(measured.clock, wall(world, machine) - measured.atMs)
    call<ReadonlyArray<Verdict> | "refused">(world, machine, home, 10_000, (reply) => {
      reply(judge(theirs, clock, machine, manifest))
    }, (verdicts) => {
      if (verdicts === null) return next(failed)
      if (verdicts === "refused") return next({ ...failed, refused: true })
      const one = (n: number): void => {
        const verdict = verdicts[n]
        if (verdict === undefined) return next({ _tag: "Advanced" })
        const { span } = manifest[n]!
        if (verdict.state === "covered") {
          gone(manifest[n]!)
          return one(n + 1)
        }
        const pieces = verdict.state === "cut" ?
          verdict.keep.map((keep): Span => [
            Math.max(span[0], Math.floor((keep.start - machine.skewMs) / 100 / group) * group),
            Math.min(span[1], Math.ceil((keep.end - machine.skewMs) / 100)),
          ]) :
          [span]
        push(manifest[n]!, pieces, (stored) => stored ? one(n + 1) : next(failed))
      }
      one(0)
    })
  }
  const run = (command: JobCommand, state: JobState): void => {
    switch (command) {
      case "plan":
        return later(
          world,
          machine,
          chance.int(5, 50),
          () => next(machine.databaseFaults > 0 ? failed : { _tag: "Planned" }),
        )
      case "fetchKey": {
        const sentMs = wall(world, machine)
        return call<number>(world, machine, home, 10_000, (reply) => reply(wall(world, home)), (theirs) => {
          if (theirs === null) return next(failed)
          const atMs = wall(world, machine)
          measured = { clock: clockOffset(sentMs, theirs, atMs), atMs }
          next({ _tag: "KeyFetched" })
        })
      }
      case "transfer":
        return session()
      case "verify":
        return later(world, machine, 5, () => next({ _tag: "Verified", left: left().length, lost: 0 }))
      case "wait":
        return later(
          world,
          machine,
          Math.max(0, (state.dueMs ?? 0) - wall(world, machine)) + 1,
          () => next({ _tag: "Due" }),
        )
      case "rest":
        if (state.phase === "done") done()
    }
  }
  const next = (event: JobEvent): void => {
    const moved = step(jobs.get(order.rerouteId) ?? initialJob, event, wall(world, machine))
    if (moved === null) return
    jobs.set(order.rerouteId, moved.state)
    run(moved.command, moved.state)
  }
  const kept = jobs.get(order.rerouteId)
  if (kept === undefined) jobs.set(order.rerouteId, initialJob)
  if (kept !== undefined && isEnded(kept.phase)) later(world, machine, 1, done)
  else next({ _tag: "Restarted" })
}
