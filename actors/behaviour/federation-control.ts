/**
 * Control of cameras: {@link Controls}, which failover drives, and {@link FailoverGate}, which is asked before something is done.
 *
 * Invariants
 * 1. Until the guardians of this node were asked once after its start, nobody knows: what asks is refused for the moment.
 * 2. A slot of a member of the same cluster is controlled by whoever serves it with the epoch in force, as the database told within
 *    {@link freshMs}; this node's own and one of a node with a database of its own by whoever holds the lease besides.
 * 3. The clock is looked at when it is asked, not when something was told.
 */
import { Controls, type ServedBy } from "#actors/protocol/federation-control.ts"
import { type ControlRefused, FailoverGate, type Served } from "#actors/protocol/federation-gate.ts"
import { moving } from "#cluster/ask.ts"
import { type Owner, Ownership } from "#cluster/ownership.ts"
import type { NodeId } from "#schema/common.ts"
import { ControlElsewhere, type ControlView, refusedOperations } from "#schema/federation-failover.ts"
import { DependencyUnavailable } from "#schema/problem.ts"
import { Clock, Context, Duration, Effect, Layer } from "effect"
import { type Leases, makeLeases } from "./federation-control-leases.ts"
import { makeVotes, type Votes } from "./federation-control-votes.ts"
import { monotonicMs } from "./federation-failover-heartbeat.ts"

/** Members read who owns what once a second. */
const freshMs = 3_000
const refreshLimit = Duration.seconds(2)

const wait = (message: string) => new DependencyUnavailable({ dependency: "node", message })
const unknown = () => wait("Whether another node serves these cameras is being asked; try again.")
const nobody = () =>
  wait(
    "Control of these cameras is asked for, and a majority of the nodes that decide about it does not answer. Where a guardian is off, an " +
      "administrator may take control back (failover/control/take-back).",
  )
const elsewhere = (nodeId: NodeId) => Effect.fail(new ControlElsewhere({ nodeId }))

/** What the guardians of this node said. */
interface Told {
  asked: boolean
  servedBy: ServedBy | null
}

const makeGate = (ownership: Ownership["Service"], votes: Votes, leases: Leases, told: Told) => {
  const self = ownership.nodeId
  /** Where other members may have moved a slot, what was read lately: a node that was frozen reads before it controls. */
  const fresh = Effect.gen(function*() {
    const owners = yield* ownership.owners
    if (owners.every(({ adopted, homeNodeId }) => adopted || homeNodeId === self)) return owners
    if ((yield* monotonicMs) - (yield* ownership.asOf) < freshMs) return owners
    return yield* ownership.refresh.pipe(
      Effect.timeout(refreshLimit),
      Effect.catch(() => Effect.fail(wait("Who serves these cameras is not known while the database is away."))),
    )
  })
  /** The slot as this node serves it, with the epoch that was named. */
  const served = Effect.fnUntraced(function*({ epoch, slot }: Served): Effect.fn.Return<Owner, ControlRefused> {
    const owner = (yield* fresh).find((one) => one.slot === slot)
    if (owner === undefined) return yield* moving()
    if (owner.nodeId !== self) return yield* elsewhere(owner.nodeId)
    if (owner.epoch !== epoch) return yield* moving()
    return owner
  })
  const controlled = Effect.fnUntraced(function*(of: Served): Effect.fn.Return<Owner, ControlRefused> {
    const owner = yield* served(of)
    const { adopted, homeNodeId } = owner
    if (homeNodeId !== self && !adopted) return owner
    if (homeNodeId === self) {
      if (!told.asked) return yield* unknown()
      if (told.servedBy?.control === true) return yield* elsewhere(told.servedBy.nodeId)
    }
    const held = yield* leases.held(homeNodeId)
    if (held?.epoch === of.epoch) return owner
    const holder = yield* votes.promisedTo(homeNodeId)
    if (holder !== null && holder !== self) return yield* elsewhere(holder)
    return yield* homeNodeId === self ? nobody() : elsewhere(homeNodeId)
  })
  const serving = Effect.map(
    ownership.owners,
    (owners) => owners.find(({ homeNodeId, nodeId }) => nodeId === self && homeNodeId !== self)?.homeNodeId ?? null,
  )
  return {
    mayControl: (of) => Effect.asVoid(controlled(of)),
    mayChange: (of) => Effect.map(controlled(of), ({ adopted, homeNodeId }) => adopted ? homeNodeId : null),
    mayDelete: Effect.fnUntraced(function*(of) {
      const { homeNodeId } = yield* controlled(of)
      if (homeNodeId !== self) return yield* elsewhere(homeNodeId)
      if (told.servedBy !== null) return yield* elsewhere(told.servedBy.nodeId)
    }),
    mayReleaseLicense: Effect.gen(function*() {
      if (!told.asked) return yield* unknown()
      const other = told.servedBy?.nodeId ?? (yield* serving)
      if (other !== null) return yield* elsewhere(other)
    }),
  } satisfies typeof FailoverGate["Service"]
}

const viewing = (ownership: Ownership["Service"], votes: Votes, leases: Leases, told: Told) => {
  const self = ownership.nodeId
  return Effect.gen(function*() {
    const nowMs = yield* Clock.currentTimeMillis
    const owners = (yield* ownership.owners).filter(({ homeNodeId, nodeId }) => nodeId === self || homeNodeId === self)
    const own = owners.filter(({ homeNodeId }) => homeNodeId === self)
    const others = owners.filter(({ homeNodeId }) => homeNodeId !== self)
    return yield* Effect.forEach(
      [...own, ...others],
      ({ adopted, epoch, homeNodeId, nodeId }) =>
        Effect.gen(function*(): Effect.fn.Return<ControlView> {
          const mine = homeNodeId === self
          const { voters } = yield* votes.rollOf(homeNodeId)
          const common = { homeNodeId, epoch, voters }
          const byDatabase = !mine && !adopted
          if (nodeId !== self || byDatabase) {
            const refused = refusedOperations(nodeId === self, nodeId !== self || byDatabase)
            return { ...common, holder: nodeId, until: null, refused }
          }
          const held = yield* leases.held(homeNodeId)
          const barred = mine && told.servedBy?.control === true ? told.servedBy.nodeId : null
          const control = held?.epoch === epoch && barred === null && (!mine || told.asked)
          const promised = yield* votes.promisedTo(homeNodeId)
          const other = barred ?? (promised === self ? null : promised) ?? (mine ? null : homeNodeId)
          return {
            ...common,
            holder: control ? self : other,
            until: control && held.leftMs !== null ? Math.round(nowMs + held.leftMs) : null,
            refused: refusedOperations(control, !mine || told.servedBy !== null),
          }
        }),
    )
  })
}

const make = Effect.gen(function*() {
  const ownership = yield* Ownership
  const votes = yield* makeVotes
  const leases = yield* makeLeases(votes)
  const self = ownership.nodeId
  const told: Told = { asked: false, servedBy: null }

  const controls = Controls.of({
    servedBy: () => Effect.sync(() => told.servedBy),
    tellServedBy: (now) =>
      Effect.sync(() => {
        told.asked = true
        told.servedBy = now
      }),
    setWitnesses: leases.setWitnesses,
    want: leases.want,
    release: leases.release,
    holds: (home) => Effect.map(leases.held(home), (held) => held?.epoch ?? null),
    denied: leases.denied,
    takeBack: Effect.fn("Controls.takeBack")(function*() {
      const epoch = yield* ownership.epochOf(ownership.slot)
      if (epoch === null) return yield* moving()
      if (told.servedBy?.control === true) return yield* elsewhere(told.servedBy.nodeId)
      yield* leases.want(self, { epoch, override: true, turns: [] })
    }),
    view: () => viewing(ownership, votes, leases, told),
    vote: votes.vote,
    letGo: votes.letGo,
  })
  return Context.make(FailoverGate, makeGate(ownership, votes, leases, told)).pipe(Context.add(Controls, controls))
})

export const layer = Layer.effectContext(make)
