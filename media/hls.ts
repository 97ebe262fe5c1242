/**
 * The door to HLS (RFC 8216bis): playlists and media of recorded intervals, straight from the stored fragments, never
 * re-encoded. Its room: `media/hls/`.
 *
 * Invariants
 * 1. Media served equals media stored, but for sound that browsers refuse (hidden, see {@link HlsSource}) and key pictures
 *    taken out for fast playback.
 * 2. Resource names are immutable: a name means the same bytes for ever, or nothing once the footage is deleted. One of a stretch of time
 *    means the same pictures.
 * 3. Nothing outside the source's recording and interval can be read through it.
 *
 * Sound. Browsers cannot play G.711 in MP4. For files whose sound is `pcmu` or `pcma` the playlists therefore offer the
 * pictures alone: the sound is hidden in place, which costs no copying and keeps every byte range. The stored file keeps it.
 */
import type { EpochMs, Interval, RecordingId } from "#schema/common.ts"
import type { Gap } from "#schema/record.ts"
import type { FootageNotFound, ReplayFileNotFound } from "#schema/replay.ts"
import { Context, type Effect, type Stream } from "effect"
import type { StorageError } from "./storage.ts"

/** What a session shows. The same values give the same playlists, so they are the key of what is kept in memory. */
export interface HlsSource {
  readonly recordingId: RecordingId
  readonly start: EpochMs
  /** `null`: open, grows with the recording. */
  readonly end: EpochMs | null
  /** From 4 on, key pictures only. */
  readonly speed: number
  /** When the session was made: decides for its whole life whether the playlist is complete (`VOD`) or grows (`EVENT`). */
  readonly createdAt: EpochMs
}

export interface HlsPlaylist {
  readonly text: string
  /** Entity tag without quotes; changes exactly when the footage listed does. */
  readonly etag: string
  /** Nothing will be added any more. */
  readonly ended: boolean
}

/** Bytes of an initialization or a media segment. */
export interface HlsMedia {
  readonly kind: "media"
  readonly contentType: string
  readonly etag: string
  readonly bytes: number
  /** Bytes `[from, to)`. Opens the file when it runs, closes it when it ends or is interrupted; holds one chunk at a time. */
  readonly read: (from: number, to: number) => Stream.Stream<Uint8Array, StorageError>
}

/** A subtitle segment: its text needs the gaps that ended in its interval. */
export interface HlsText {
  readonly kind: "text"
  readonly interval: Interval
  readonly render: (gaps: ReadonlyArray<Gap>) => string
}

/** What one node is to show of a replay over several. */
export interface SewnInterval {
  readonly start: EpochMs
  readonly end?: EpochMs
  readonly startsAtKey?: boolean
  readonly endsAtKey?: boolean
}

export class Hls extends Context.Service<Hls, {
  /** Fails with `FootageNotFound` while the interval holds none: a variant must tell its bandwidth. */
  readonly master: (source: HlsSource) => Effect.Effect<HlsPlaylist, FootageNotFound>
  readonly playlist: (source: HlsSource) => Effect.Effect<HlsPlaylist, FootageNotFound>
  readonly subtitles: (source: HlsSource) => Effect.Effect<HlsPlaylist, FootageNotFound>
  /** One WebVTT file: a cue a run of footage, as JSON. */
  readonly metadata: (source: HlsSource, gaps: ReadonlyArray<Gap>) => Effect.Effect<string>
  readonly resource: (
    source: HlsSource,
    filename: string,
  ) => Effect.Effect<HlsMedia | HlsText, ReplayFileNotFound | StorageError>
  /** The interval by this node's clock, where its edges are key pictures as another node puts them. */
  readonly edges: (recordingId: RecordingId, asked: SewnInterval) => Effect.Effect<Pick<SewnInterval, "start" | "end">>
  /**
   * Another name for a resource whose footage has left this node, and may be at another: it tells the time, and is understood there for
   * a source of the same interval. Null where nothing is known of it.
   */
  readonly departed: (source: HlsSource, filename: string) => string | null
}>()("nightjar/media/Hls") {}
