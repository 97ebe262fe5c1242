/**
 * The layer of live HLS: sessions, and the feeds of the streams that are watched.
 *
 * Invariants
 * 1. At most {@link maxSessions}, {@link maxOfHolder} for one holder, {@link maxStreams} streams. Streams hold
 *    {@link streamBytes} each and {@link allBytes} together.
 * 2. A session that was not asked for {@link idleMs} has ended; the feed goes with its last session.
 * 3. Two streams of one scene know of each other while either is open, whoever watches them.
 * 4. A session ends within {@link checkMs} of its holder's right, and what it has under way ends with it.
 */
import type { StreamId } from "#schema/common.ts"
import { Clock, Effect, Exit, Layer, RcMap, Scope } from "effect"
import { LiveStreams } from "../hub.ts"
import { LiveBusy, LiveHls, type LiveHolder, LiveUnknown } from "../live-hls.ts"
import { type Feed, openFeed } from "./feed.ts"
import { type Beside, idleMs, Session } from "./session.ts"

const maxSessions = 512
/** A wall of 64 tiles, each opened anew once. */
const maxOfHolder = 128
const maxStreams = 64
/** 24 seconds of 11 Mbit/s. */
const streamBytes = 32 * 1024 * 1024
const allBytes = 512 * 1024 * 1024
const checkMs = 500
/** A wall clock that went further than this in a second was set. */
const stepMs = 1_000

interface Kept {
  readonly session: Session
  readonly scope: Scope.Closeable
}

const make = Effect.gen(function*() {
  const clock = yield* Clock.Clock
  const layerScope = yield* Effect.scope
  const live = yield* LiveStreams
  const open = new Map<StreamId, Feed>()
  /** Of a stream the other one of its scene, both ways; kept while either is open. */
  const scenes = new Map<StreamId, StreamId>()
  const besideOf = (streamId: StreamId): Feed | null => {
    const other = scenes.get(streamId)
    return other === undefined ? null : open.get(other) ?? null
  }
  const forgetScene = (streamId: StreamId) => {
    const other = scenes.get(streamId)
    if (other === undefined || open.has(streamId) || open.has(other)) return
    scenes.delete(streamId)
    scenes.delete(other)
  }
  const closed = (streamId: StreamId, feed: Feed) => {
    // The stream may have been opened anew while this one was still held.
    if (open.get(streamId) === feed) open.delete(streamId)
    forgetScene(streamId)
  }
  const sessions = new Map<string, Kept>()
  const mostBytes = () => Math.min(streamBytes, Math.floor(allBytes / Math.max(1, open.size)))

  const feeds = yield* RcMap.make({
    lookup: (streamId: StreamId) =>
      Effect.gen(function*() {
        const feed = yield* openFeed(streamId, mostBytes, () => besideOf(streamId))
        if (feed === null) return null
        return yield* Effect.acquireRelease(
          Effect.sync(() => {
            open.set(streamId, feed)
            return feed
          }),
          (opened) => Effect.sync(() => closed(streamId, opened)),
        )
      }),
    capacity: maxStreams,
  })

  const end = ({ scope, session }: Kept) =>
    Effect.suspend(() => {
      sessions.delete(session.id)
      session.end()
      return Scope.close(scope, Exit.void)
    })

  const refusal = (holder: string): string | null => {
    if (sessions.size >= maxSessions) return "This node serves as many live HLS sessions as it can"
    const own = [...sessions.values()].filter(({ session }) => session.holder === holder).length
    return own >= maxOfHolder ? `You have ${maxOfHolder} live HLS sessions open` : null
  }

  const held = (streamId: StreamId) =>
    RcMap.get(feeds, streamId).pipe(
      Effect.catchTag("ExceededCapacityError", () =>
        Effect.fail(new LiveBusy({ message: `At most ${maxStreams} streams are watched by live HLS at a time` }))),
    )

  /** The stream may have come back while players of its last end are still there. */
  const feedOf = Effect.fnUntraced(function*(streamId: StreamId) {
    const known = yield* held(streamId)
    if (known?.ended !== true) return known
    yield* RcMap.invalidate(feeds, streamId)
    return yield* held(streamId)
  })

  const besideBy = (streamId: StreamId): Beside => ({
    parameters: () => live.parameters(streamId),
    opened: () => open.get(streamId) ?? null,
    open: feedOf(streamId),
  })

  const begin = Effect.fnUntraced(
    function*(streamId: StreamId, holder: LiveHolder, other: StreamId | null, scope: Scope.Closeable) {
      if (other !== null) scenes.set(streamId, other).set(other, streamId)
      const feed = yield* Scope.provide(feedOf(streamId), scope)
      if (feed === null) return yield* new LiveUnknown()
      const session = new Session({
        streamId,
        source: holder,
        feed,
        beside: other === null ? null : besideBy(other),
        scope,
        nowMs: () => clock.currentTimeMillisUnsafe(),
      })
      sessions.set(session.id, { session, scope })
      return session
    },
  )

  let wallAhead = 0
  const wallAheadMs = () => clock.currentTimeMillisUnsafe() - Number(clock.monotonicTimeNanosUnsafe() / 1_000_000n)
  wallAhead = wallAheadMs()
  const sweep = Effect.gen(function*() {
    const before = wallAhead
    wallAhead = wallAheadMs()
    const now = clock.currentTimeMillisUnsafe()
    const step = Math.abs(wallAhead - before) > stepMs ? wallAhead - before : 0
    if (step !== 0) { for (const feed of open.values()) feed.clockStep(step, now) }
    for (const kept of sessions.values()) {
      const { session } = kept
      if (step !== 0) session.stepped(step)
      if (now - session.askedMs > idleMs || !(yield* session.source.holds)) yield* end(kept)
      else yield* session.letGo(now)
    }
  })
  yield* Effect.forkScoped(Effect.forever(Effect.andThen(Effect.sleep(checkMs), sweep)))
  yield* Effect.addFinalizer(() => Effect.forEach([...sessions.values()], end, { discard: true }))

  return LiveHls.of({
    open: Effect.fnUntraced(function*(streamId, holder, other) {
      const message = refusal(holder.id)
      if (message !== null) return yield* new LiveBusy({ message })
      const scope = yield* Scope.fork(layerScope)
      const undo = Effect.andThen(Scope.close(scope, Exit.void), Effect.sync(() => forgetScene(streamId)))
      return yield* Effect.onError(begin(streamId, holder, other, scope), () => undo)
    }),
    session: (id) => {
      const kept = sessions.get(id)
      if (kept === undefined) return null
      kept.session.askedMs = clock.currentTimeMillisUnsafe()
      return kept.session
    },
  })
})

export const layer: Layer.Layer<LiveHls, never, LiveStreams> = Layer.effect(LiveHls, make)
