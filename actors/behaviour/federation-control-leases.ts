/**
 * This node as one that wants control: drives `cluster/lease.ts` for its own cameras and for those of the nodes it stands in for, and as a
 * home node keeps the list of its voters.
 *
 * Invariants
 * 1. Steps are given at least every {@link tickEvery}, so that a lease that ran out is known; whoever asks looks at the clock himself.
 * 2. A question to a voter ends within {@link askLimit}: at most three are on their way to each.
 * 3. A new list of voters is on disk before it is used.
 * 4. A member of this cluster is no voter: among members the database decides.
 */
import type { Denied } from "#actors/protocol/federation-control.ts"
import { Peers } from "#actors/protocol/federation-peer.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import {
  defaultLease,
  type LeaseCommand,
  type LeaseEvent,
  type LeaseHolder,
  leaseHolder,
  leaseStep,
  mayControl,
} from "#cluster/lease.ts"
import { Ownership } from "#cluster/ownership.ts"
import { nextVoters, sameVoters } from "#cluster/roll.ts"
import { readOwn, signForOneself } from "#cluster/sealed-document.ts"
import { NodeId } from "#schema/common.ts"
import { LeaseAnswer, LeaseReleased, mostVoters, Roll } from "#schema/federation-control.ts"
import { uuid7 } from "#schema/uuid.ts"
import { Duration, Effect, Schedule, Schema, Stream } from "effect"
import { chore } from "./chore.ts"
import type { Votes } from "./federation-control-votes.ts"
import { monotonicMs } from "./federation-failover-heartbeat.ts"

const tickEvery = Duration.millis(250)
const askLimit = Duration.seconds(2)
const rollEvery = Duration.seconds(2)
/** Who lets go tells it so often; a lease with a term runs out by itself. */
const releaseTries = { schedule: Schedule.spaced("1 second"), times: 30 } as const

const base = "/federation/api/v1/federation/failover/control"

/** Of voters, as their home node signs it. */
const rollDocument = "nightjar-voters"
const SignedRoll = Schema.fromJsonString(
  Schema.Struct({ homeNodeId: NodeId, version: Schema.Int, voters: Roll.fields.voters }),
)

export const makeLeases = Effect.fnUntraced(function*(votes: Votes) {
  const [peers, ownership, identity] = yield* Effect.all([Peers, Ownership, NodeIdentity])
  const { nodeId: self, slot } = ownership
  const bootId = yield* uuid7
  const scope = yield* Effect.scope
  const holders = new Map<NodeId, LeaseHolder>()
  const denials = new Map<NodeId, Denied>()
  let witnesses: ReadonlyArray<NodeId> = []

  let signature: { readonly version: number; readonly signed: string } | null = null
  /** Of this node's own list; of others the home node's word is kept, and not passed on. */
  const signedRoll = Effect.fnUntraced(function*(home: NodeId, { version, voters }: Roll) {
    if (home !== self) return {}
    if (signature?.version !== version) {
      const signed = yield* signForOneself(rollDocument, { homeNodeId: self, version, voters: [...voters] })
      signature = { version, signed }
    }
    return { signed: signature.signed }
  }, Effect.provideService(NodeIdentity, identity))
  /** This node gave a newer list once, and forgot it with its database: it goes on from there, one voter at a time. */
  const remember = Effect.fnUntraced(function*(signed: string) {
    const { homeNodeId, version, voters } = yield* Effect.flatMap(
      readOwn(rollDocument, signed),
      Schema.decodeUnknownEffect(SignedRoll),
    )
    const { version: now } = yield* votes.rollOf(self)
    if (homeNodeId !== self || version <= now) return
    yield* Effect.logWarning("Voters know a newer list of this node's: it was restored from an older backup", {
      version,
    })
    const roll = { version, voters }
    yield* votes.setRoll(roll, [])
    yield* feed(self, { type: "roll", roll })
  }, Effect.provideService(NodeIdentity, identity))

  const ask = ({ override, request, to }: Extract<LeaseCommand, { type: "request" }>) =>
    Effect.gen(function*() {
      const roll = yield* votes.rollOf(request.homeNodeId)
      const { voters } = roll
      const signed = yield* signedRoll(request.homeNodeId, roll)
      const answer = to === self ?
        yield* votes.ballot(request, override, null) :
        yield* peers.call(to, {
          method: "POST",
          path: `${base}/votes`,
          body: { json: { ...request, turns: request.turns.map((turn) => ({ ...turn })), voters, ...signed } },
          timeout: askLimit,
        }, LeaseAnswer)
      if (answer.from !== to) return
      yield* feed(request.homeNodeId, { type: "answer", answer })
      if (request.homeNodeId === self && answer.newestRoll !== undefined) yield* remember(answer.newestRoll)
    })
  const letGo = ({ release, to }: Extract<LeaseCommand, { type: "release" }>) =>
    to === self ?
      votes.unballot(release) :
      Effect.retry(
        peers.call(
          to,
          { method: "POST", path: `${base}/releases`, body: { json: { ...release } }, timeout: askLimit },
          LeaseReleased,
        ),
        releaseTries,
      )
  const carryOut = (home: NodeId, command: LeaseCommand): Effect.Effect<void> => {
    switch (command.type) {
      case "request":
        return Effect.ignore(ask(command))
      case "release":
        return Effect.ignore(letGo(command))
      case "denied":
        return Effect.sync(() => void denials.set(home, { inForce: command.inForce, turns: command.turns }))
      case "obtained":
        return Effect.logInfo("This node has control of cameras", { homeNodeId: home, epoch: command.epoch })
      case "lost":
        return Effect.logWarning("This node no longer controls cameras", { homeNodeId: home })
    }
  }
  const feed = (home: NodeId, event: LeaseEvent): Effect.Effect<void> =>
    Effect.gen(function*() {
      const holder = holders.get(home)
      if (holder === undefined) return
      const next = leaseStep(holder, event, yield* monotonicMs)
      holders.set(home, next.holder)
      for (const command of next.commands) yield* Effect.forkIn(carryOut(home, command), scope)
    })
  const holderOf = Effect.fnUntraced(function*(home: NodeId) {
    const roll = yield* votes.rollOf(home)
    const holder = holders.get(home)
    if (holder === undefined) {
      const settings = defaultLease
      holders.set(home, leaseHolder({ self, homeNodeId: home, bootId, roll, settings }, yield* monotonicMs))
    } else if (holder.roll.version < roll.version) yield* feed(home, { type: "roll", roll })
  })
  const want = Effect.fnUntraced(function*(home: NodeId, wanted: NonNullable<LeaseHolder["wanted"]>) {
    yield* holderOf(home)
    denials.delete(home)
    yield* feed(home, { type: "want", ...wanted })
  })
  const release = Effect.fnUntraced(function*(home: NodeId) {
    yield* feed(home, { type: "release" })
    // What a former process of this node promised itself, nobody else would take back; but not what is wanted again meanwhile.
    const takeBack = Effect.suspend(() =>
      (holders.get(home)?.wanted ?? null) === null ?
        votes.unballot({ homeNodeId: home, holder: self, bootId, round: 0 }) :
        Effect.void
    )
    yield* Effect.forkIn(Effect.ignore(Effect.retry(takeBack, releaseTries)), scope)
  })

  /** The own lease follows the own slot. */
  yield* Stream.runForEach(ownership.changes, (owners) => {
    const epoch = owners.find((one) => one.slot === slot && one.nodeId === self)?.epoch ?? null
    const wanted = holders.get(self)?.wanted ?? null
    if (epoch === null) return wanted === null ? Effect.void : release(self)
    return wanted?.epoch === epoch ? Effect.void : want(self, { epoch, override: false, turns: [] })
  }).pipe(Effect.forkScoped)

  /** One step towards the voters that there should be. */
  const follow = Effect.gen(function*() {
    const all = yield* peers.list()
    const guardians = all.filter(({ guardianGranted, relation }) => guardianGranted && relation === "peer")
    const named = all.filter(({ nodeId }) => witnesses.includes(nodeId))
    const wanted = [self, ...new Set([...guardians, ...named].map(({ nodeId }) => nodeId))].slice(0, mostVoters)
    const [roll, before] = [yield* votes.rollOf(self), yield* votes.confirmedOf(self)]
    const holder = holders.get(self)
    const granted = holder?.roll.version === roll.version &&
      holder.rounds.some((round) => round.granted.length > roll.voters.length / 2)
    const confirmed = granted ? roll.voters : before
    const voters = nextVoters(roll.voters, confirmed, wanted)
    if (voters !== null) {
      const next = { version: roll.version + 1, voters }
      yield* votes.setRoll(next, confirmed)
      yield* feed(self, { type: "roll", roll: next })
    } else if (!sameVoters(confirmed, before)) yield* votes.setRoll(roll, confirmed)
  })
  yield* Effect.forkScoped(Effect.repeat(chore("Following the voters", follow), Schedule.spaced(rollEvery)))

  const tick = Effect.suspend(() =>
    Effect.forEach([...holders.keys()], (home) => Effect.andThen(holderOf(home), feed(home, { type: "tick" })), {
      discard: true,
    })
  )
  yield* Effect.forkScoped(Effect.repeat(chore("Keeping leases of control", tick), Schedule.spaced(tickEvery)))

  return {
    want,
    release,
    denied: (home: NodeId) => Effect.sync(() => denials.get(home) ?? null),
    setWitnesses: (now: ReadonlyArray<NodeId>) => Effect.sync(() => void (witnesses = now)),
    /** With which epoch, and for how long yet; null: not at all. */
    held: Effect.fnUntraced(function*(home: NodeId) {
      const holder = holders.get(home)
      const nowMs = yield* monotonicMs
      const epoch = holder?.wanted?.epoch
      if (holder === undefined || epoch === undefined || !mayControl(holder, epoch, nowMs)) return null
      return { epoch, leftMs: holder.untilMs === Infinity ? null : holder.untilMs - nowMs }
    }),
  }
})
export type Leases = Effect.Success<ReturnType<typeof makeLeases>>
