/**
 * HLS playlists (RFC 8216bis) of recorded footage. Pure.
 *
 * How gaps are told. Footage that is missing has no media to describe, and the decode time of what follows starts anew, so a
 * gap of any length is an `EXT-X-DISCONTINUITY` (4.4.4.3 requires it wherever the timestamp sequence changes) followed by the
 * wall clock of the first picture after it: players go on at once instead of waiting through hours of nothing, and the length
 * and cause of the gap stand in the subtitles and the timeline. `EXT-X-GAP` (4.4.4.7) means something else: a segment that was
 * published and has its place in the timeline, but whose bytes are gone (footage deleted while a growing playlist runs).
 *
 * Invariants
 * 1. A discontinuity stands exactly where decoding cannot go on: another epoch, other parameters, a break the recorder
 *    marked, a hole in decode time.
 * 2. `EXT-X-MAP` stands wherever the initialization changes, and only there.
 * 3. A growing playlist only appends: media sequence and discontinuity sequence stay 0, and its header says nothing that later
 *    footage could make untrue (6.2.1): the target duration is given, the version is that of a playlist with gaps, and segments
 *    are not promised to be independent.
 */
import { type TrackParameters, videoClockHz } from "#schema/media.ts"
import type { SegmentFile } from "#schema/record.ts"
import type { Part } from "./parts.ts"
import { continues } from "./plan.ts"

/** What one file, or a share of it, gives to a playlist. */
export interface PlacedPart {
  readonly file: Pick<SegmentFile, "id" | "nodeId" | "epoch">
  /** First row of the share. */
  readonly from: number
  readonly part: Part
  readonly parameters: TrackParameters
  /** Equal for files whose initialization is interchangeable. */
  readonly parametersKey: string
  /** Name of the initialization resource of this file; `null` for WebVTT. */
  readonly init: string | null
  /** The bytes are gone: its segments are listed as gaps. */
  readonly lost: boolean
}

export interface PlaylistOptions {
  /** `VOD` was complete when the session began; `EVENT` grows, or grew. Fixed for the life of a session (6.2.1). */
  readonly type: "VOD" | "EVENT"
  /** Nothing will be added any more. */
  readonly ended: boolean
  /** Where playback begins, epoch milliseconds. */
  readonly startMs: number
  /** Target duration that a growing playlist has from its first moment on, seconds; null where the footage is complete. */
  readonly targetSeconds: number | null
}

/** Whether the second part goes on where the first ended, for decoder and clock alike. */
export const joins = (previous: PlacedPart, next: PlacedPart): boolean =>
  previous.file.epoch === next.file.epoch &&
  previous.file.nodeId === next.file.nodeId &&
  previous.parametersKey === next.parametersKey &&
  continues(previous.part.last, next.part.first)

const gapped = (text: string) => text.replaceAll("#EXTINF", "#EXT-X-GAP\n#EXTINF")

/** Seconds, rounded to the nearest (4.4.3.1: EXTINF rounded to the nearest integer must not exceed it). */
const targetSeconds = (parts: ReadonlyArray<PlacedPart>) =>
  Math.round(parts.reduce((longest, { part }) => Math.max(longest, part.longestTicks), 0) / videoClockHz)

/** For each set of parameters the first initialization that is still there. */
const initsOf = (parts: ReadonlyArray<PlacedPart>): ReadonlyMap<string, string> => {
  const inits = new Map<string, string>()
  for (const placed of parts) {
    if (placed.init !== null && !placed.lost && !inits.has(placed.parametersKey)) {
      inits.set(placed.parametersKey, placed.init)
    }
  }
  return inits
}

/** Every segment can be decoded by itself, and that is certain to stay so. */
const isIndependent = (parts: ReadonlyArray<PlacedPart>, type: PlaylistOptions["type"]): boolean =>
  type === "VOD" && parts.every((placed) => placed.part.independent)

/** A media playlist, of pictures or of WebVTT. */
export const mediaPlaylist = (parts: ReadonlyArray<PlacedPart>, options: PlaylistOptions): string => {
  const lines = [
    "#EXTM3U\n",
    `#EXT-X-VERSION:${options.type === "EVENT" ? 8 : 7}\n`,
    `#EXT-X-TARGETDURATION:${options.targetSeconds ?? Math.max(1, targetSeconds(parts))}\n`,
    "#EXT-X-MEDIA-SEQUENCE:0\n",
    `#EXT-X-PLAYLIST-TYPE:${options.type}\n`,
  ]
  if (isIndependent(parts, options.type)) lines.push("#EXT-X-INDEPENDENT-SEGMENTS\n")
  const first = parts[0]
  if (first !== undefined) {
    const offset = Math.max(0, options.startMs - first.part.startMs) / 1000
    lines.push(`#EXT-X-START:TIME-OFFSET=${offset.toFixed(3)},PRECISE=YES\n`)
  }
  const inits = initsOf(parts)
  let previous: PlacedPart | undefined
  let map: string | undefined
  for (const placed of parts) {
    if (previous !== undefined && !joins(previous, placed)) lines.push("#EXT-X-DISCONTINUITY\n")
    const init = map === placed.parametersKey ? null : inits.get(placed.parametersKey) ?? null
    if (init !== null) lines.push(`#EXT-X-MAP:URI="${init}"\n`)
    map = placed.parametersKey
    lines.push(placed.lost ? gapped(placed.part.text) : placed.part.text)
    previous = placed
  }
  if (options.ended) lines.push("#EXT-X-ENDLIST\n")
  return lines.join("")
}

export interface MasterOptions {
  readonly type: PlaylistOptions["type"]
  readonly playlist: string
  readonly subtitles: string
  /** The sound is part of what is served. */
  readonly sound: (parameters: TrackParameters) => boolean
}

/**
 * The master playlist: one variant, whose bytes are the camera's own, and a subtitle rendition with the wall clock. `null`
 * while there is no footage, because a variant must tell its bandwidth (4.4.6.2).
 */
export const masterPlaylist = (parts: ReadonlyArray<PlacedPart>, options: MasterOptions): string | null => {
  const ticks = parts.reduce((sum, { part }) => sum + part.ticks, 0)
  if (ticks <= 0) return null
  const bytes = parts.reduce((sum, { part }) => sum + part.bytes, 0)
  const frames = parts.reduce((sum, { part }) => sum + part.frames, 0)
  const average = Math.max(1, Math.round(bytes * 8 * videoClockHz / ticks))
  const peak = Math.max(average, Math.ceil(parts.reduce((most, { part }) => Math.max(most, part.peakBps), 0)))
  const codecs = new Set<string>()
  let largest: TrackParameters | undefined
  for (const { parameters } of parts) {
    codecs.add(parameters.video.codecs)
    if (parameters.audio !== null && options.sound(parameters)) codecs.add(parameters.audio.codecs)
    if (largest === undefined || parameters.video.width > largest.video.width) largest = parameters
  }
  const attributes = [
    `BANDWIDTH=${peak}`,
    `AVERAGE-BANDWIDTH=${average}`,
    `CODECS="${[...codecs].join(",")}"`,
    `RESOLUTION=${largest?.video.width}x${largest?.video.height}`,
    `FRAME-RATE=${(frames * videoClockHz / ticks).toFixed(3)}`,
    `SUBTITLES="clock"`,
    "CLOSED-CAPTIONS=NONE",
  ]
  return [
    "#EXTM3U",
    "#EXT-X-VERSION:7",
    ...(isIndependent(parts, options.type) ? ["#EXT-X-INDEPENDENT-SEGMENTS"] : []),
    `#EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID="clock",NAME="Clock",LANGUAGE="en",DEFAULT=NO,AUTOSELECT=NO,FORCED=NO,URI="${options.subtitles}"`,
    `#EXT-X-STREAM-INF:${attributes.join(",")}`,
    options.playlist,
    "",
  ].join("\n")
}
