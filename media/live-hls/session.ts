/**
 * One session: whose requests are answered from the feed of its stream, and from that of a second variant while somebody asks for it.
 *
 * Invariants
 * 1. At most {@link maxUnderWay} requests under way.
 * 2. The second variant is offered by the multivariant playlist or not at all, opened by a request for its playlist, and let go when
 *    nothing of it was asked for {@link idleMs}. Opened again, its files have other names.
 */
import type { StreamId } from "#schema/common.ts"
import type { TrackParameters } from "#schema/media.ts"
import { Deferred, Effect, Exit, Scope, Semaphore } from "effect"
import { randomBytes } from "node:crypto"
import {
  LiveBusy,
  type LiveFile,
  type LiveHolder,
  type LivePlaylist,
  type LiveSession,
  type LiveVariantName,
  type LiveWanted,
} from "../live-hls.ts"
import { type Feed, offered } from "./feed.ts"
import { type LiveName, masterPlaylist, mediaPlaylist, parseLiveName } from "./playlist.ts"

/** A playlist and a few files, fetched side by side. */
const maxUnderWay = 16
/** Players ask every few seconds, also while they stand still. */
export const idleMs = 20_000
const takenWithinMs = 30_000

/** Another stream of the same scene. */
export interface Beside {
  /** What it sent last; null: nothing is known of it. */
  readonly parameters: () => TrackParameters | null
  /** Its feed, should it be open for anybody. */
  readonly opened: () => Feed | null
  /** Holds its feed until the scope closes; null: it is not served here. */
  readonly open: Effect.Effect<Feed | null, LiveBusy, Scope.Scope>
}

/** The second variant while it is held. */
interface Held {
  readonly feed: Feed
  readonly scope: Scope.Closeable
}

/** Whether a player can go from one to the other: the same codecs, so the same tracks. */
const goTogether = (a: TrackParameters, b: TrackParameters): boolean =>
  a.video.codec === b.video.codec && a.audio?.codec === b.audio?.codec

interface SessionParts {
  readonly streamId: StreamId
  readonly source: LiveHolder
  readonly feed: Feed
  readonly beside: Beside | null
  /** The session's own; what it holds goes with it. */
  readonly scope: Scope.Closeable
  readonly nowMs: () => number
}

export class Session implements LiveSession {
  readonly id = randomBytes(18).toString("base64url")
  readonly since: number
  askedMs: number
  private readonly parts: SessionParts
  private readonly over = Deferred.makeUnsafe<void>()
  private underWay = 0
  /** The multivariant playlist names the second variant. */
  private offersSecond = false
  private second: Held | null = null
  private secondAskedMs = 0
  private openings = 0
  private readonly opening = Semaphore.makeUnsafe(1)

  constructor(parts: SessionParts) {
    this.parts = parts
    this.since = parts.nowMs()
    this.askedMs = this.since
  }

  get streamId(): StreamId {
    return this.parts.streamId
  }

  get source(): LiveHolder {
    return this.parts.source
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

  /** The wall clock was set. */
  stepped(byMs: number): void {
    this.askedMs += byMs
    this.secondAskedMs += byMs
  }

  /** Lets the second variant go when nobody asks for it any more. */
  letGo(nowMs: number): Effect.Effect<void> {
    return Effect.suspend(() => {
      const held = this.second
      if (held === null || nowMs - this.secondAskedMs <= idleMs) return Effect.void
      this.second = null
      return Scope.close(held.scope, Exit.void)
    })
  }

  master(media: string) {
    const { beside, feed } = this.parts
    return Effect.map(feed.begun, (): LivePlaylist => {
      const { parameters, window } = feed
      if (parameters === null) return { text: "", etag: this.id }
      const known = beside?.parameters() ?? null
      const other = known === null ? null : offered(known).parameters
      this.offersSecond = other !== null && goTogether(parameters, other)
      const second = other !== null && this.offersSecond ?
        { parameters: other, window: beside?.opened()?.window ?? null } :
        null
      return { text: masterPlaylist({ parameters, window }, second, media, feed.sound), etag: this.id }
    })
  }

  playlist(wanted: LiveWanted | null, variant: LiveVariantName) {
    return this.counted(Effect.gen({ self: this }, function*() {
      const feed = variant === "first" ? this.parts.feed : yield* this.openSecond
      if (feed === null) return null
      const number = variant === "first" ? 0 : this.openings
      const reached = wanted === null || feed.ended ? Effect.void : feed.reached(wanted)
      yield* Effect.andThen(feed.begun, reached)
      const other = (variant === "first" ? this.second?.feed : this.parts.feed) ?? null
      const etag = [feed.window.partAhead, number, other?.window.partAhead ?? "", feed.ended ? "e" : ""].join("-")
      return {
        text: mediaPlaylist(feed.window, feed.ended, number, other?.ended === true ? null : other?.window ?? null),
        etag,
      }
    }))
  }

  file(name: string) {
    const wanted = parseLiveName(name)
    const feed = wanted === null ? null : this.feedOf(wanted)
    const ahead = feed !== null && wanted?.kind === "part" && wanted.number === feed.window.partAhead
    const there = ahead ? feed.await(() => feed.window.partAhead > wanted.number) : Effect.void
    return this.counted(Effect.map(there, (): LiveFile | null => {
      const pieces = wanted === null || feed === null ? null : piecesOf(feed, wanted)
      if (pieces === null) return null
      return { name, pieces, bytes: pieces.reduce((sum, { length }) => sum + length, 0), takenWithinMs }
    }))
  }

  private feedOf({ opening }: LiveName): Feed | null {
    if (opening === 0) return this.parts.feed
    this.secondAskedMs = this.parts.nowMs()
    return opening === this.openings ? this.second?.feed ?? null : null
  }

  /** Null: it is not offered, or not served any more. One at a time, so that it is held once. */
  private get openSecond(): Effect.Effect<Feed | null, LiveBusy> {
    return this.opening.withPermits(1)(Effect.gen({ self: this }, function*() {
      const { beside } = this.parts
      if (beside === null || !this.offersSecond) return null
      this.secondAskedMs = this.parts.nowMs()
      if (this.second !== null) return this.second.feed
      const scope = yield* Scope.fork(this.parts.scope)
      const feed = yield* Effect.onExit(
        Scope.provide(beside.open, scope),
        (exit) => Exit.isSuccess(exit) && exit.value !== null ? Effect.void : Scope.close(scope, Exit.void),
      )
      if (feed === null) return null
      this.openings++
      this.second = { feed, scope }
      return feed
    }))
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

const piecesOf = ({ window }: Feed, { kind, number }: LiveName): ReadonlyArray<Uint8Array> | null => {
  if (kind === "segment") return window.segment(number)?.parts.map(({ data }) => data) ?? null
  const data = kind === "init" ? window.initialisation(number) : window.part(number)?.data ?? null
  return data === null ? null : [data]
}
