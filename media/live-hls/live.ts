/**
 * The layer of live HLS: sessions, and the feeds of the streams that are watched.
 *
 * Invariants
 * 1. At most {@link maxSessions}, {@link maxOfHolder} for one holder, {@link maxStreams} streams, {@link maxUnderWay} requests of a
 *    session at a time. Streams hold {@link streamBytes} each and {@link allBytes} together.
 * 2. A session that was not asked for {@link idleMs} has ended; the feed goes with its last session.
 * 3. A session ends within {@link checkMs} of its holder's right, and what it has under way ends with it.
 */
import type { StreamId } from "#schema/common.ts"
import { Clock, Deferred, Effect, Exit, Layer, RcMap, Scope } from "effect"
import { randomBytes } from "node:crypto"
import type { LiveStreams } from "../hub.ts"
import {
  LiveBusy,
  type LiveFile,
  LiveHls,
  type LiveHolder,
  type LivePlaylist,
  type LiveSession,
  LiveUnknown,
  type LiveWanted,
} from "../live-hls.ts"
import { type Feed, openFeed } from "./feed.ts"
import { masterPlaylist, mediaPlaylist, parseLiveName } from "./playlist.ts"

const maxSessions = 512
/** A wall of 64 tiles, each opened anew once. */
const maxOfHolder = 128
const maxStreams = 64
/** A playlist and a few files, fetched side by side. */
const maxUnderWay = 16
/** 24 seconds of 11 Mbit/s. */
const streamBytes = 32 * 1024 * 1024
const allBytes = 512 * 1024 * 1024
/** Players ask every few seconds, also while they stand still. */
const idleMs = 20_000
const checkMs = 500
const takenWithinMs = 30_000
/** A wall clock that went further than this in a second was set. */
const stepMs = 1_000

class Session implements LiveSession {
  readonly id = randomBytes(18).toString("base64url")
  readonly streamId: StreamId
  readonly since: number
  readonly source: LiveHolder
  askedMs: number
  private readonly feed: Feed
  private readonly over = Deferred.makeUnsafe<void>()
  private underWay = 0

  constructor(streamId: StreamId, source: LiveHolder, feed: Feed, nowMs: number) {
    this.streamId = streamId
    this.source = source
    this.feed = feed
    this.since = nowMs
    this.askedMs = nowMs
  }

  get holder(): string {
    return this.source.id
  }

  get ended(): Effect.Effect<void> {
    return Deferred.await(this.over)
  }

  end(): void {
    Deferred.doneUnsafe(this.over, Exit.void)
  }

  master(media: string) {
    const { feed } = this
    return Effect.map(feed.begun, (): LivePlaylist => {
      const text = feed.parameters === null ? "" : masterPlaylist(feed.window, feed.parameters, media, feed.sound)
      return { text, etag: this.id }
    })
  }

  playlist(wanted: LiveWanted | null) {
    const { feed } = this
    const reached = wanted === null || feed.ended ? Effect.void : feed.reached(wanted)
    return this.counted(Effect.map(Effect.andThen(feed.begun, reached), (): LivePlaylist => {
      const etag = `${feed.window.partAhead}${feed.ended ? "e" : ""}`
      return { text: mediaPlaylist(feed.window, feed.ended), etag }
    }))
  }

  file(name: string) {
    const { feed } = this
    const wanted = parseLiveName(name)
    const ahead = wanted?.kind === "part" && wanted.number === feed.window.partAhead
    const there = ahead ? feed.await(() => feed.window.partAhead > wanted.number) : Effect.void
    return this.counted(Effect.map(there, (): LiveFile | null => {
      const pieces = wanted === null ? null : this.pieces(wanted)
      if (pieces === null) return null
      return { name, pieces, bytes: pieces.reduce((sum, { length }) => sum + length, 0), takenWithinMs }
    }))
  }

  private pieces({ kind, number }: NonNullable<ReturnType<typeof parseLiveName>>): ReadonlyArray<Uint8Array> | null {
    const { window } = this.feed
    if (kind === "segment") return window.segment(number)?.parts.map(({ data }) => data) ?? null
    const data = kind === "init" ? window.initialisation(number) : window.part(number)?.data ?? null
    return data === null ? null : [data]
  }

  private counted<A, E>(work: Effect.Effect<A, E>): Effect.Effect<A, E | LiveBusy> {
    const admitted = Effect.suspend(() => {
      if (this.underWay >= maxUnderWay) {
        return Effect.fail(new LiveBusy({ message: `A session has at most ${maxUnderWay} requests at a time` }))
      }
      this.underWay++
      return Effect.void
    })
    return Effect.acquireUseRelease(admitted, () => work, () =>
      Effect.sync(() => {
        this.underWay--
      }))
  }
}

interface Kept {
  readonly session: Session
  readonly scope: Scope.Closeable
}

const make = Effect.gen(function*() {
  const clock = yield* Clock.Clock
  const layerScope = yield* Effect.scope
  const open = new Set<Feed>()
  const sessions = new Map<string, Kept>()
  const mostBytes = () => Math.min(streamBytes, Math.floor(allBytes / Math.max(1, open.size)))

  const feeds = yield* RcMap.make({
    lookup: (streamId: StreamId) =>
      Effect.gen(function*() {
        const feed = yield* openFeed(streamId, mostBytes)
        if (feed === null) return null
        yield* Effect.acquireRelease(Effect.sync(() => open.add(feed)), () => Effect.sync(() => open.delete(feed)))
        return feed
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

  const feedOf = (streamId: StreamId, scope: Scope.Closeable) =>
    RcMap.get(feeds, streamId).pipe(
      Scope.provide(scope),
      Effect.catchTag("ExceededCapacityError", () =>
        Effect.fail(new LiveBusy({ message: `At most ${maxStreams} streams are watched by live HLS at a time` }))),
    )

  const begin = Effect.fnUntraced(function*(streamId: StreamId, holder: LiveHolder, scope: Scope.Closeable) {
    const known = yield* feedOf(streamId, scope)
    // The stream may have come back while players of its last end are still there.
    if (known?.ended === true) yield* RcMap.invalidate(feeds, streamId)
    const feed = known?.ended === true ? yield* feedOf(streamId, scope) : known
    if (feed === null) return yield* new LiveUnknown()
    const session = new Session(streamId, holder, feed, clock.currentTimeMillisUnsafe())
    sessions.set(session.id, { session, scope })
    return session
  })

  let wallAhead = 0
  const wallAheadMs = () => clock.currentTimeMillisUnsafe() - Number(clock.monotonicTimeNanosUnsafe() / 1_000_000n)
  wallAhead = wallAheadMs()
  const sweep = Effect.gen(function*() {
    const before = wallAhead
    wallAhead = wallAheadMs()
    const now = clock.currentTimeMillisUnsafe()
    const step = Math.abs(wallAhead - before) > stepMs ? wallAhead - before : 0
    if (step !== 0) { for (const feed of open) feed.clockStep(step, now) }
    for (const kept of sessions.values()) {
      const { session } = kept
      if (step !== 0) session.askedMs += step
      if (now - session.askedMs > idleMs || !(yield* session.source.holds)) yield* end(kept)
    }
  })
  yield* Effect.forkScoped(Effect.forever(Effect.andThen(Effect.sleep(checkMs), sweep)))
  yield* Effect.addFinalizer(() => Effect.forEach([...sessions.values()], end, { discard: true }))

  return LiveHls.of({
    open: Effect.fnUntraced(function*(streamId, holder) {
      const message = refusal(holder.id)
      if (message !== null) return yield* new LiveBusy({ message })
      const scope = yield* Scope.fork(layerScope)
      return yield* Effect.onError(begin(streamId, holder, scope), () => Scope.close(scope, Exit.void))
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
