/**
 * The streams of other nodes' cameras that are held in rings (the door: `media/shadow.ts`): which of them run, and what they hold.
 *
 * Invariants
 * 1. A stream has one session: of the recorder supervisor where it is assigned, else one here. What is no longer assigned and still
 *    wanted is connected to anew, with an empty ring.
 * 2. Sessions here are neither on record nor told of.
 */
import { maxRingBytes, ringHoldMs, type RingStatus, type ShadowRings, type ShadowStream } from "#media/shadow.ts"
import type { StreamId } from "#schema/common.ts"
import { type Clock, Effect, type Semaphore } from "effect"
import type { KeptAssignment } from "./assignments.ts"
import { RingMemory, StreamRing } from "./ring.ts"
import type { Session } from "./session.ts"

/** Of all rings together, until another bound is set. */
const defaultMemoryBytes = 512 * 1024 * 1024

interface Parts {
  readonly clock: Clock.Clock
  /** One change of what runs at a time. */
  readonly guard: Semaphore.Semaphore
  readonly isAssigned: (streamId: StreamId) => boolean
  readonly start: (kept: KeptAssignment, ring: StreamRing) => Effect.Effect<void>
  readonly stop: (streamId: StreamId) => Effect.Effect<void>
}

const keptOf = (assignment: ShadowStream): KeptAssignment => ({ assignment, sealed: null, locked: false })

export const makeShadows = ({ clock, guard, isAssigned, start, stop }: Parts) => {
  const sessions = new Map<StreamId, Session>()
  const wanted = new Map<string, ReadonlyArray<ShadowStream>>()
  const memory = new RingMemory(defaultMemoryBytes)

  const makeRing = () =>
    new StreamRing({
      holdMs: ringHoldMs,
      maxBytes: maxRingBytes,
      memory,
      wallMs: () => clock.currentTimeMillisUnsafe(),
      monotonicMs: () => Number(clock.monotonicTimeNanosUnsafe() / 1_000_000n),
    })
  const all = () => [...wanted.values()].flat()

  /** Starts what is wanted and does not run. */
  const fill = Effect.suspend(() =>
    Effect.forEach(
      all().filter(({ streamId }) => !sessions.has(streamId) && !isAssigned(streamId)),
      (stream) => start(keptOf(stream), makeRing()),
      { discard: true },
    )
  )
  const follow = Effect.gen(function*() {
    const streams = new Map(all().map((stream) => [stream.streamId, stream]))
    for (const [streamId, session] of sessions) {
      const stream = streams.get(streamId)
      yield* stream === undefined ? stop(streamId) : session.configureRing(keptOf(stream))
    }
    yield* fill
  })
  const ofKey = (key: string) =>
    (wanted.get(key) ?? []).flatMap((stream) => {
      const session = sessions.get(stream.streamId)
      const ring = session?.ring() ?? null
      return session === undefined || ring === null ? [] : [{ stream, session, ring }]
    })

  const service: ShadowRings["Service"] = {
    want: (key, streams) =>
      guard.withPermits(1)(Effect.suspend(() => {
        if (streams.length === 0) wanted.delete(key)
        else wanted.set(key, streams)
        return follow
      })),
    limit: (maxBytes) =>
      Effect.sync(() => {
        memory.maxBytes = maxBytes
      }),
    status: (key) =>
      ofKey(key).map(({ ring, session, stream: { cameraId, cameraName, streamId } }): RingStatus => {
        const { health, reason } = session.status()
        return { streamId, cameraId, cameraName, heldMs: ring.heldMs(), bytes: ring.bytes(), health, reason }
      }),
    keep: (key) =>
      Effect.sync(() =>
        new Map(
          ofKey(key).flatMap(({ ring, stream: { streamId } }) => {
            ring.keep()
            const sinceMs = ring.sinceMs()
            return sinceMs === null ? [] : [[streamId, sinceMs]]
          }),
        )
      ),
  }
  return {
    service,
    sessions,
    fill,
    /** The session goes to whom its stream is assigned. */
    giveUp: (streamId: StreamId): Session | undefined => {
      const session = sessions.get(streamId)
      sessions.delete(streamId)
      return session
    },
  }
}
