/**
 * The entity `CameraTalk`: who talks to a camera.
 *
 * Invariants
 * 1. At most one lease, in memory alone: after a move of the entity whoever renews first has it, which is whoever had it.
 * 2. Taken and renewed only while this node may control the camera.
 * 3. An id that was ended stays ended for {@link rememberedMs}: its node hears of it at the next renewal.
 */
import { CameraTalkActor, leaseMs } from "#actors/protocol/camera-talk.ts"
import { FailoverGate } from "#actors/protocol/federation-gate.ts"
import { moving } from "#cluster/ask.ts"
import { Ownership } from "#cluster/ownership.ts"
import { TalkBackTaken, type TalkLease } from "#schema/camera-talk.ts"
import { parseEntityId } from "#schema/ownership.ts"
import { Clock, Duration, Effect } from "effect"
import { Entity } from "effect/cluster"

const rememberedMs = 60_000
/** More were ended within a minute by nobody. */
const maxEnded = 256
const idleTime = Duration.minutes(5)
/** Nodes that ask at the same moment. */
const mailbox = 64

interface Held {
  readonly lease: TalkLease
  /** When it is over unless it is renewed. */
  readonly deadMs: number
}

const handlers = Effect.gen(function*() {
  const [ownership, gate, address] = yield* Effect.all([Ownership, FailoverGate, Entity.CurrentAddress])
  const home = parseEntityId(address.entityId)
  if (home === null) return yield* Effect.die(new Error(`${address.entityId} is not the id of a camera`))
  const { slot } = home
  let held: Held | null = null
  const ended = new Map<string, number>()

  const current = (nowMs: number): TalkLease | null => {
    if (held !== null && held.deadMs <= nowMs) held = null
    return held?.lease ?? null
  }
  const forget = (nowMs: number) => {
    for (const [id, atMs] of ended) if (nowMs - atMs > rememberedMs || ended.size > maxEnded) ended.delete(id)
  }

  return CameraTalkActor.of({
    Hold: Effect.fnUntraced(function*({ payload: { lease } }) {
      const epoch = yield* ownership.epochOf(slot)
      if (epoch === null) return yield* moving()
      yield* gate.mayControl({ slot, epoch })
      const nowMs = yield* Clock.currentTimeMillis
      forget(nowMs)
      if (ended.has(lease.id)) return false
      const other = current(nowMs)
      if (other !== null && other.id !== lease.id) {
        return yield* new TalkBackTaken({ holder: other.username, since: other.sinceMs })
      }
      held = { lease, deadMs: nowMs + leaseMs }
      return true
    }),
    End: Effect.fnUntraced(function*({ payload: { id } }) {
      const nowMs = yield* Clock.currentTimeMillis
      ended.set(id, nowMs)
      if (held?.lease.id === id) held = null
    }),
    Current: () => Effect.map(Clock.currentTimeMillis, current),
  })
})

export const entityLayer = CameraTalkActor.toLayer(handlers, {
  maxIdleTime: idleTime,
  mailboxCapacity: mailbox,
  disableFatalDefects: true,
})
