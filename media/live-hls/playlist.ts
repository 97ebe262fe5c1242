/**
 * Playlists of a live stream (RFC 8216bis). Pure.
 *
 * Invariants
 * 1. Durations of parts add up to that of their segment, but for rounding to a hundredth of a millisecond.
 * 2. The part that comes next is announced by the name it will have, whether or not a new segment begins with it: parts are named
 *    by a number that runs through all segments.
 * 3. What may not change while the playlist is read (6.2.1) does not: target duration, names, numbers. The longest part may turn
 *    out to be longer than was known (a camera that lowers its rate); then that is told rather than a wrong target.
 *
 * Delta updates (`EXT-X-SKIP`) are not offered: their boundary may not be nearer than six target durations to the end (4.4.3.8),
 * and the playlist is shorter than that.
 */
import { type TrackParameters, videoClockHz } from "#schema/media.ts"
import { targetSeconds, type Window } from "./window.ts"

/** Parts stand in the playlist for three target durations (4.4.4.9). */
const partsTicks = 3 * targetSeconds * videoClockHz

export const initName = (number: number): string => `init-${number}.mp4`
export const segmentName = (number: number): string => `segment-${number}.m4s`
export const partName = (number: number): string => `part-${number}.m4s`
export const playlistName = "live.m3u8"

export type LiveName = { readonly kind: "init" | "segment" | "part"; readonly number: number }

/** What a file's name asks for; null: nothing of ours. */
export const parseLiveName = (name: string): LiveName | null => {
  const match = /^(?:(init)-(\d{1,15})\.mp4|(segment|part)-(\d{1,15})\.m4s)$/.exec(name)
  if (match === null) return null
  const kind = (match[1] ?? match[3]) as LiveName["kind"]
  return { kind, number: Number(match[2] ?? match[4]) }
}

const seconds = (ticks: number): string => (ticks / videoClockHz).toFixed(5)
/** Milliseconds, rounded up: no part is longer than what is told. */
const partTarget = (window: Window): number => Math.ceil(window.longestPart * 1000 / videoClockHz) / 1000

/** `window` holds at least one part. `ended`: nothing will be added any more. */
export const mediaPlaylist = (window: Window, ended: boolean): string => {
  const segments = window.listed()
  const part = partTarget(window)
  const target = Math.max(targetSeconds, Math.round(window.longestSegment / videoClockHz))
  const first = segments[0]
  const lines = [
    "#EXTM3U",
    "#EXT-X-VERSION:6",
    `#EXT-X-TARGETDURATION:${target}`,
    `#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,PART-HOLD-BACK=${(3 * part).toFixed(3)},HOLD-BACK=${3 * target}`,
    `#EXT-X-PART-INF:PART-TARGET=${part.toFixed(3)}`,
    `#EXT-X-MEDIA-SEQUENCE:${first?.number ?? 0}`,
    `#EXT-X-DISCONTINUITY-SEQUENCE:${(first?.discontinuities ?? 0) + (first?.discontinuity === true ? 1 : 0)}`,
  ]
  let init = 0
  let left = segments.reduce((sum, { ticks }) => sum + ticks, 0)
  for (const segment of segments) {
    // That of the first is told by the number of discontinuities before it.
    if (segment.discontinuity && segment !== first) lines.push("#EXT-X-DISCONTINUITY")
    if (segment.init !== init) lines.push(`#EXT-X-MAP:URI="${initName(segment.init)}"`)
    init = segment.init
    lines.push(`#EXT-X-PROGRAM-DATE-TIME:${new Date(segment.startMs).toISOString()}`)
    if (!ended && (left <= partsTicks || !segment.whole)) {
      for (const { independent, number, ticks } of segment.parts) {
        const flag = independent ? ",INDEPENDENT=YES" : ""
        lines.push(`#EXT-X-PART:DURATION=${seconds(ticks)},URI="${partName(number)}"${flag}`)
      }
    }
    left -= segment.ticks
    if (segment.whole) lines.push(`#EXTINF:${seconds(segment.ticks)},`, segmentName(segment.number))
  }
  lines.push(ended ? "#EXT-X-ENDLIST" : `#EXT-X-PRELOAD-HINT:TYPE=PART,URI="${partName(window.partAhead)}"`, "")
  return lines.join("\n")
}

/** One variant, whose bytes are the camera's own. `sound`: why there is none although the camera sends it; null: nothing is left out. */
export const masterPlaylist = (
  window: Window,
  { audio, video }: TrackParameters,
  media: string,
  sound: string | null,
): string => {
  const { segments } = window
  const ticks = Math.max(1, segments.reduce((sum, segment) => sum + segment.ticks, 0))
  const bps = (of: { readonly bytes: number; readonly ticks: number }) =>
    of.bytes * 8 * videoClockHz / Math.max(1, of.ticks)
  const average = Math.ceil(bps({ bytes: window.bytes, ticks }))
  const peak = Math.ceil(segments.reduce((most, segment) => Math.max(most, bps(segment)), average))
  const codecs = [video.codecs, ...audio === null ? [] : [audio.codecs]].join(",")
  const size = `RESOLUTION=${video.width}x${video.height}`
  return [
    "#EXTM3U",
    "#EXT-X-VERSION:6",
    ...sound === null ? [] : [`#EXT-X-SESSION-DATA:DATA-ID="nightjar.sound",VALUE="${sound}"`],
    `#EXT-X-STREAM-INF:BANDWIDTH=${peak},AVERAGE-BANDWIDTH=${average},CODECS="${codecs}",${size},CLOSED-CAPTIONS=NONE`,
    `${media}${playlistName}`,
    "",
  ].join("\n")
}
