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
 * 4. A session may have a second variant. Its files are named by how often the session opened it, so that no name ever means something
 *    else. Each media playlist reports where the other one is (4.4.5.4), as long as that one is open.
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
export const playlistNames = { first: "live.m3u8", second: "other.m3u8" } as const

export interface LiveName {
  /** How often the second variant was opened before, from 1; 0: the file is of the first variant. */
  readonly opening: number
  readonly kind: "init" | "segment" | "part"
  readonly number: number
}

/** What stands in front of the names of such files. */
const prefix = (opening: number): string => opening === 0 ? "" : `other-${opening}-`

/** What a file's name asks for; null: nothing of ours. */
export const parseLiveName = (name: string): LiveName | null => {
  const match = /^(?:other-([1-9]\d{0,8})-)?(?:(init)-(\d{1,15})\.mp4|(segment|part)-(\d{1,15})\.m4s)$/.exec(name)
  if (match === null) return null
  const kind = (match[2] ?? match[4]) as LiveName["kind"]
  return { opening: Number(match[1] ?? 0), kind, number: Number(match[3] ?? match[5]) }
}

const seconds = (ticks: number): string => (ticks / videoClockHz).toFixed(5)
/** Milliseconds, rounded up: no part is longer than what is told. */
const partTarget = (window: Window): number => Math.ceil(window.longestPart * 1000 / videoClockHz) / 1000

/** Where another variant's playlist is, which is at `uri` (4.4.5.4); none before it has a part. */
const report = (uri: string, { newest }: Window): ReadonlyArray<string> =>
  newest === undefined ?
    [] :
    [`#EXT-X-RENDITION-REPORT:URI="${uri}",LAST-MSN=${newest.number},LAST-PART=${newest.parts.length - 1}`]

/**
 * `window` holds at least one part. `ended`: nothing will be added any more. `opening`: of the second variant, else 0. `other`: the
 * other variant, where it is open.
 */
export const mediaPlaylist = (window: Window, ended: boolean, opening: number, other: Window | null): string => {
  const before = prefix(opening)
  const reports = other === null || ended ?
    [] :
    report(opening === 0 ? playlistNames.second : playlistNames.first, other)
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
    if (segment.init !== init) lines.push(`#EXT-X-MAP:URI="${before}${initName(segment.init)}"`)
    init = segment.init
    lines.push(`#EXT-X-PROGRAM-DATE-TIME:${new Date(segment.startMs).toISOString()}`)
    if (!ended && (left <= partsTicks || !segment.whole)) {
      for (const { independent, number, ticks } of segment.parts) {
        const flag = independent ? ",INDEPENDENT=YES" : ""
        lines.push(`#EXT-X-PART:DURATION=${seconds(ticks)},URI="${before}${partName(number)}"${flag}`)
      }
    }
    left -= segment.ticks
    if (segment.whole) lines.push(`#EXTINF:${seconds(segment.ticks)},`, `${before}${segmentName(segment.number)}`)
  }
  if (ended) lines.push("#EXT-X-ENDLIST")
  else lines.push(`#EXT-X-PRELOAD-HINT:TYPE=PART,URI="${before}${partName(window.partAhead)}"`)
  lines.push(...reports, "")
  return lines.join("\n")
}

interface Rate {
  readonly peak: number
  readonly average: number
}

/** Bits per second of what the window holds, which is at least one part. */
const rateOf = ({ bytes, segments }: Window): Rate => {
  const bps = (of: { readonly bytes: number; readonly ticks: number }) =>
    of.bytes * 8 * videoClockHz / Math.max(1, of.ticks)
  const average = Math.ceil(bps({ bytes, ticks: segments.reduce((sum, segment) => sum + segment.ticks, 0) }))
  return { average, peak: Math.ceil(segments.reduce((most, segment) => Math.max(most, bps(segment)), average)) }
}

const pixels = ({ video: { height, width } }: TrackParameters): number => Math.max(1, width * height)

const variant = ({ audio, video }: TrackParameters, { average, peak }: Rate, uri: string): ReadonlyArray<string> => {
  const codecs = [video.codecs, ...audio === null ? [] : [audio.codecs]].join(",")
  const size = `RESOLUTION=${video.width}x${video.height}`
  return [
    `#EXT-X-STREAM-INF:BANDWIDTH=${peak},AVERAGE-BANDWIDTH=${average},CODECS="${codecs}",${size},CLOSED-CAPTIONS=NONE`,
    uri,
  ]
}

/** What a multivariant playlist tells of one variant; its bytes are the camera's own. */
export interface LiveVariant {
  readonly parameters: TrackParameters
  /** Null: it is not open, and its rate is judged by the size of its pictures and the rate of the first variant. */
  readonly window: Window | null
}

/** `media`: the folder. `sound`: why there is none although the camera sends it; null: nothing is left out. */
export const masterPlaylist = (
  first: LiveVariant & { readonly window: Window },
  second: LiveVariant | null,
  media: string,
  sound: string | null,
): string => {
  const rate = rateOf(first.window)
  const judged = (of: TrackParameters): Rate => {
    const share = pixels(of) / pixels(first.parameters)
    return { average: Math.ceil(rate.average * share), peak: Math.ceil(rate.peak * share) }
  }
  const other = second === null ?
    [] :
    variant(
      second.parameters,
      second.window?.newest === undefined ? judged(second.parameters) : rateOf(second.window),
      `${media}${playlistNames.second}`,
    )
  return [
    "#EXTM3U",
    "#EXT-X-VERSION:6",
    ...sound === null ? [] : [`#EXT-X-SESSION-DATA:DATA-ID="nightjar.sound",VALUE="${sound}"`],
    ...variant(first.parameters, rate, `${media}${playlistNames.first}`),
    ...other,
    "",
  ].join("\n")
}
