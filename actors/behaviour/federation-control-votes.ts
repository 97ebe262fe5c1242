/**
 * This node as a voter: what it promised about each home node, and who may vote about it, in memory and on disk.
 *
 * Invariants
 * 1. One vote at a time about a home node; a promise is on disk before its answer is given. Where it cannot be kept there is no answer, and
 *    the promise of before stands.
 * 2. The list of voters is the home node's word, given with its own requests, and never an older one.
 * 3. There is at most one entry for each node that may ask, and those are members and paired nodes.
 */
import { ControlStore } from "#actors/store/federation-control.ts"
import { defaultLease, Promised, unvote, vote, type Voter, voter } from "#cluster/lease.ts"
import { Ownership } from "#cluster/ownership.ts"
import type { NodeId } from "#schema/common.ts"
import { type ControlRequest, type LeaseRelease, type LeaseRequest, Roll } from "#schema/federation-control.ts"
import { GuardianNotGranted } from "#schema/federation-failover.ts"
import { Effect, Schema, Semaphore } from "effect"
import { monotonicMs } from "./federation-failover-heartbeat.ts"

interface Known {
  readonly one: Semaphore.Semaphore
  voter: Voter
  roll: Roll
  confirmed: ReadonlyArray<NodeId>
}

const PromisedJson = Schema.toCodecJson(Promised)
const RollJson = Schema.toCodecJson(Roll)

export const makeVotes = Effect.gen(function*() {
  const [store, { nodeId: self }] = yield* Effect.all([ControlStore, Ownership])
  const known = new Map<NodeId, Known>()

  const add = Effect.fnUntraced(
    function*(home: NodeId, promise: Promised | null, roll: Roll, confirmed: Known["confirmed"]) {
      const one = yield* Semaphore.make(1)
      const made = { one, voter: voter(self, home, promise, defaultLease, yield* monotonicMs), roll, confirmed }
      // Two that ask at once get the same: a vote is given once.
      const entry = known.get(home) ?? made
      known.set(home, entry)
      return entry
    },
  )
  for (const row of yield* store.all(self)) {
    const promise = row.promise === null ?
      null :
      yield* Effect.orDie(Schema.decodeUnknownEffect(PromisedJson)(row.promise))
    const roll = yield* Effect.orDie(Schema.decodeUnknownEffect(RollJson)(row.roll))
    yield* add(row.homeNodeId, promise, roll, row.confirmed)
  }
  const of = (home: NodeId) =>
    Effect.suspend(() => {
      const entry = known.get(home)
      // Until the home node says something else: itself, and this node beside it.
      const voters = home === self ? [self] : [home, self]
      return entry === undefined ? add(home, null, { version: 0, voters }, voters) : Effect.succeed(entry)
    })
  const keep = ({ confirmed }: Known, promised: Promised, roll: Roll, now: Known["confirmed"] = confirmed) =>
    store.keep(self, promised.homeNodeId, {
      promise: Schema.encodeSync(PromisedJson)(promised),
      roll: Schema.encodeSync(RollJson)(roll),
      confirmed: now,
    })

  /** A vote of this node; `told` is the home node's list, where it asks itself. */
  const ballot = Effect.fnUntraced(function*(request: LeaseRequest, override: boolean, told: Roll | null) {
    const entry = yield* of(request.homeNodeId)
    return yield* entry.one.withPermits(1)(Effect.gen(function*() {
      const next = vote(entry.voter, request, override, defaultLease, yield* monotonicMs)
      const { roll: before } = entry
      // The same list with a signature is kept as well: the home node may need it.
      const newer = told !== null && (told.version > before.version ||
        (told.version === before.version && before.signed === undefined && told.signed !== undefined))
      const roll = newer ? told : entry.roll
      if (next.keep !== null || newer) yield* keep(entry, next.voter.promised, roll)
      entry.voter = next.voter
      entry.roll = roll
      return next.answer
    }))
  })
  const unballot = Effect.fnUntraced(function*(release: LeaseRelease) {
    const entry = yield* of(release.homeNodeId)
    yield* entry.one.withPermits(1)(Effect.gen(function*() {
      const next = unvote(entry.voter, release, yield* monotonicMs)
      if (next.keep !== null) yield* keep(entry, next.keep, entry.roll)
      entry.voter = next.voter
    }))
  })
  const named = (asker: NodeId, { holder, homeNodeId }: { readonly holder: NodeId; readonly homeNodeId: NodeId }) =>
    asker === holder && (asker === homeNodeId || known.get(homeNodeId)?.roll.voters.includes(asker) === true) ?
      Effect.void :
      Effect.fail(new GuardianNotGranted({ nodeId: asker }))

  return {
    ballot,
    unballot,
    /** Of another node, which asks for itself. */
    vote: Effect.fn("Controls.vote")(function*(asker: NodeId, { signed, voters, ...request }: ControlRequest) {
      yield* named(asker, request)
      if (asker !== request.homeNodeId) return yield* ballot(request, false, null)
      const roll = { version: request.rollVersion, voters, ...(signed === undefined ? {} : { signed }) }
      const answer = yield* ballot(request, false, roll)
      const newest = known.get(asker)?.roll
      return newest?.signed === undefined || newest.version <= request.rollVersion ?
        answer :
        { ...answer, newestRoll: newest.signed }
    }),
    letGo: Effect.fn("Controls.letGo")(function*(asker: NodeId, release: LeaseRelease) {
      yield* named(asker, release)
      yield* unballot(release)
    }),
    rollOf: (home: NodeId) => Effect.map(of(home), ({ roll }) => roll),
    confirmedOf: (home: NodeId) => Effect.map(of(home), ({ confirmed }) => confirmed),
    /** This node's own list, on disk before it is used. */
    setRoll: Effect.fnUntraced(function*(roll: Roll, confirmed: ReadonlyArray<NodeId>) {
      const entry = yield* of(self)
      yield* entry.one.withPermits(1)(Effect.gen(function*() {
        yield* keep(entry, entry.voter.promised, roll, confirmed)
        entry.roll = roll
        entry.confirmed = confirmed
      }))
    }),
    /** To whom this node promised it, as long as it may not promise it to another. */
    promisedTo: Effect.fnUntraced(function*(home: NodeId) {
      const { voter } = yield* of(home)
      return (yield* monotonicMs) < voter.untilMs ? voter.promised.holder : null
    }),
  }
})
export type Votes = Effect.Success<typeof makeVotes>
