/**
 * The door to live streams over HTTP: low-latency HLS (RFC 8216bis) of what a camera sends just now, never re-encoded, from the
 * builder of fragments that also records. Its room: `media/live-hls/`.
 *
 * Invariants
 * 1. A stream is cut into parts while somebody watches it, once for all who do, and its memory goes with the last of them.
 * 2. A session belongs to its holder: it ends when the holder may not watch any more, and when nobody has asked it for
 *    `idleMs`. Its id is its credential: 144 random bits.
 * 3. Bounded: sessions, requests of a session that are under way, streams, bytes of a stream and of all streams together.
 * 4. A player that does not keep up finds what it asks for gone (404); it never slows down the camera, the recording or another
 *    player, and an answer that it does not take is cut off after {@link LiveFile.takenWithinMs}.
 *
 * 5. A session may offer another stream of the same scene as its second variant. That one is watched from when its playlist is first
 *    asked for until nothing of it was asked for `idleMs`, and has the media time of the first (RFC 8216bis, 6.2.4).
 *
 * Sound. Browsers cannot play G.711 in MP4: of such streams the pictures are offered alone ({@link soundRefusal}).
 */
import type { EpochMs, StreamId } from "#schema/common.ts"
import type { AudioCodec } from "#schema/media.ts"
import { Context, Data, type Effect } from "effect"

/** On whose behalf something is watched; given to this floor by those who know users. */
export interface LiveHolder {
  /** The login session. */
  readonly id: string
  /** Asked again and again while the session lasts. */
  readonly holds: Effect.Effect<boolean>
}

/** This node does not serve the stream. */
export class LiveUnknown extends Data.TaggedError("LiveUnknown") {}
/** All places are taken: of the node, or of this holder. */
export class LiveBusy extends Data.TaggedError("LiveBusy")<{ readonly message: string }> {}
/** The camera did not deliver in time. */
export class LiveSilent extends Data.TaggedError("LiveSilent") {}
/** A blocking request for what is further ahead than the protocol allows (RFC 8216bis, 6.2.5.2). */
export class LiveAhead extends Data.TaggedError("LiveAhead")<{ readonly message: string }> {}

/** What a player waits for: `_HLS_msn` and `_HLS_part`. */
export interface LiveWanted {
  readonly segment: number
  /** Null: the whole segment. */
  readonly part: number | null
}

/** The stream that was asked for, or the other one. */
export type LiveVariantName = "first" | "second"

export interface LivePlaylist {
  readonly text: string
  /** Entity tag without quotes. */
  readonly etag: string
}

/** An initialisation, a part or a segment: pieces that are shared by all who fetch them. */
export interface LiveFile {
  readonly name: string
  readonly pieces: ReadonlyArray<Uint8Array>
  readonly bytes: number
  /** A client that has not taken it by then is cut off, so that what has left the window also leaves the memory. */
  readonly takenWithinMs: number
}

export interface LiveSession {
  readonly id: string
  readonly streamId: StreamId
  readonly holder: string
  readonly since: EpochMs
  /** The multivariant playlist; `media` is where the session's files are, with a slash at its end. Waits for the first pictures. */
  readonly master: (media: string) => Effect.Effect<LivePlaylist, LiveSilent>
  /**
   * A media playlist; waits until it holds what is wanted, at most three target durations. Null: the session does not offer that
   * variant, or this node does not serve its stream any more.
   */
  readonly playlist: (
    wanted: LiveWanted | null,
    variant: LiveVariantName,
  ) => Effect.Effect<LivePlaylist | null, LiveSilent | LiveAhead | LiveBusy>
  /** Null: there is no such file (any more). The part that was announced is waited for. */
  readonly file: (name: string) => Effect.Effect<LiveFile | null, LiveSilent | LiveBusy>
  /** Returns when the session has ended. */
  readonly ended: Effect.Effect<void>
}

export class LiveHls extends Context.Service<LiveHls, {
  /**
   * `other`: another stream of the same scene, which the holder may watch as well. It is offered where what it sent last goes
   * together with this one: the same codec of pictures, and of sound.
   */
  readonly open: (
    streamId: StreamId,
    holder: LiveHolder,
    other: StreamId | null,
  ) => Effect.Effect<LiveSession, LiveUnknown | LiveBusy>
  /** Whoever asks keeps it alive. Null: never existed, or has ended. */
  readonly session: (id: string) => LiveSession | null
}>()("nightjar/media/LiveHls") {}

/** Why the sound of such a stream is left out; null: it is not. */
export const soundRefusal = (codec: AudioCodec | null): string | null =>
  codec === "pcmu" || codec === "pcma" ? "The sound is G.711, which browsers do not play in MP4: pictures alone." : null
