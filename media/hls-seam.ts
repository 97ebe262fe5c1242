/**
 * The door to footage that several nodes hold: their playlists (RFC 8216bis), one behind the other, as one. Pure.
 *
 * Invariants
 * 1. A segment of the joined playlist is a segment of one of the parts, in the order of the parts; a discontinuity (4.4.4.3) and the
 *    initialization (4.4.4.5) stand at every seam, and the wall clock behind it is the part's own.
 * 2. What a part says is taken only as far as it is understood: known tags of segments, names of files without a path. So no text of
 *    another node sends a player elsewhere.
 * 3. A joined playlist only appends while its parts do, and it has ended when the last part has.
 * 4. One part ends, and the next begins, with the same key picture: each node puts it at a moment of its own clock, {@link strayMs} apart
 *    at most, and key pictures are further from each other than twice that. So a player is given each picture once.
 */
import { Result } from "effect"

/** A playlist of one holder. */
export interface SeamPart {
  readonly text: string
  /** Stands before the names of its files, so that the one who serves them knows whose they are. */
  readonly prefix: string
}

/** The text is no playlist of the kind that was asked for. */
export interface NoPlaylist {
  readonly reason: string
}

/** By how much the clocks of two nodes may put the same picture apart: well kept clocks differ by tens of milliseconds. */
export const strayMs = 250

/** The key picture, of those that stand at these moments, that another node puts at `atMs`; null where it is none of them. */
export const keyNear = (keys: ReadonlyArray<number>, atMs: number): number | null => {
  const sorted = keys.toSorted((a, b) => a - b)
  const off = (key: number) => Math.abs(key - atMs)
  const nearest = sorted.reduce((best, key, at) => off(key) < off(sorted[best] as number) ? at : best, 0)
  const found = sorted[nearest]
  if (found === undefined) return null
  const group = Math.min(found - (sorted[nearest - 1] ?? -Infinity), (sorted[nearest + 1] ?? Infinity) - found)
  return off(found) <= Math.min(strayMs, group / 2) ? found : null
}

/** About a week of segments of six seconds, twice. */
const mostLines = 600_000

const fileName = /^[A-Za-z0-9_-]+\.[A-Za-z0-9]+$/
const segmentTags = [
  "#EXTINF:",
  "#EXT-X-PROGRAM-DATE-TIME:",
  "#EXT-X-GAP",
  "#EXT-X-DISCONTINUITY",
  "#EXT-X-BITRATE:",
] as const
const map = /^#EXT-X-MAP:URI="([^"]*)"$/

interface Media {
  readonly version: number
  readonly targetSeconds: number
  readonly type: string
  readonly independent: boolean
  readonly startOffset: string | null
  readonly ended: boolean
  readonly body: ReadonlyArray<string>
}

const valueOf = (lines: ReadonlyArray<string>, tag: string): string | null =>
  lines.find((line) => line.startsWith(tag))?.slice(tag.length) ?? null

const linesOf = ({ text }: SeamPart): Result.Result<ReadonlyArray<string>, NoPlaylist> => {
  const lines = text.split("\n").map((line) => line.trimEnd()).filter((line) => line !== "")
  if (lines[0] !== "#EXTM3U") return Result.fail({ reason: "it does not begin with EXTM3U" })
  return lines.length > mostLines ? Result.fail({ reason: "it is too long" }) : Result.succeed(lines)
}

/** A line of a segment under its new name, `null` where it is not one, `undefined` where it names a place of its own. */
const segmentLine = (line: string, prefix: string): string | null | undefined => {
  if (!line.startsWith("#")) return fileName.test(line) ? `${prefix}${line}` : undefined
  const uri = map.exec(line)?.[1]
  if (uri !== undefined) return fileName.test(uri) ? `#EXT-X-MAP:URI="${prefix}${uri}"` : undefined
  return segmentTags.some((tag) => line.startsWith(tag)) ? line : null
}

const parseMedia = (part: SeamPart): Result.Result<Media, NoPlaylist> =>
  Result.flatMap(linesOf(part), (lines) => {
    const body: Array<string> = []
    for (const line of lines) {
      const kept = segmentLine(line, part.prefix)
      if (kept === undefined) return Result.fail({ reason: "it names something that is no file of it" })
      if (kept !== null) body.push(kept)
    }
    const targetSeconds = Number(valueOf(lines, "#EXT-X-TARGETDURATION:"))
    if (!Number.isSafeInteger(targetSeconds) || targetSeconds < 1) {
      return Result.fail({ reason: "it tells no target duration" })
    }
    return Result.succeed({
      version: Number(valueOf(lines, "#EXT-X-VERSION:")) || 7,
      targetSeconds,
      type: valueOf(lines, "#EXT-X-PLAYLIST-TYPE:") ?? "EVENT",
      independent: lines.includes("#EXT-X-INDEPENDENT-SEGMENTS"),
      startOffset: valueOf(lines, "#EXT-X-START:"),
      ended: lines.includes("#EXT-X-ENDLIST"),
      body,
    })
  })

const allOf = <A, E>(results: ReadonlyArray<Result.Result<A, E>>): Result.Result<ReadonlyArray<A>, E> =>
  Result.all(results)

export interface JoinOptions {
  /** Further parts may come: what a growing playlist says at first must hold for them too (6.2.1). */
  readonly grows: boolean
  /** Least target duration (4.4.3.1), seconds. */
  readonly targetSeconds: number
}

/** Media playlists as one. */
export const joinMedia = (
  parts: ReadonlyArray<SeamPart>,
  options: JoinOptions,
): Result.Result<{ readonly text: string; readonly ended: boolean }, NoPlaylist> =>
  Result.map(allOf(parts.map(parseMedia)), (media) => {
    const complete = !options.grows && media.every(({ type }) => type === "VOD")
    const ended = media.at(-1)?.ended === true
    const shown = media.filter(({ body }) => body.length > 0)
    const start = media[0]?.startOffset ?? null
    const lines = [
      "#EXTM3U",
      `#EXT-X-VERSION:${Math.max(complete ? 7 : 8, ...media.map(({ version }) => version))}`,
      `#EXT-X-TARGETDURATION:${Math.max(options.targetSeconds, ...media.map(({ targetSeconds }) => targetSeconds))}`,
      "#EXT-X-MEDIA-SEQUENCE:0",
      `#EXT-X-PLAYLIST-TYPE:${complete ? "VOD" : "EVENT"}`,
      ...(complete && media.every(({ independent }) => independent) ? ["#EXT-X-INDEPENDENT-SEGMENTS"] : []),
      ...(start === null ? [] : [`#EXT-X-START:${start}`]),
      ...shown.flatMap(({ body }, at) => at === 0 ? body : ["#EXT-X-DISCONTINUITY", ...body]),
      ...(ended ? ["#EXT-X-ENDLIST"] : []),
      "",
    ]
    return { text: lines.join("\n"), ended }
  })

/** Attributes of a list (4.2), quoted values with their quotes. */
const attributesOf = (list: string): ReadonlyMap<string, string> =>
  new Map([...list.matchAll(/([A-Z0-9-]+)=("[^"]*"|[^,]*)/g)].map(([, name = "", value = ""]) => [name, value]))

const unquoted = (text: string) => text.replace(/^"|"$/g, "")

/**
 * Master playlists as one: the variant of the first, with a bandwidth (4.4.6.2) that is enough for each, and the codecs of all.
 * `playlist` and `subtitles` are the names that the joined playlists are served under.
 */
export const joinMaster = (
  parts: ReadonlyArray<SeamPart>,
  names: { readonly playlist: string; readonly subtitles: string },
): Result.Result<string, NoPlaylist> =>
  Result.flatMap(allOf(parts.map(linesOf)), (texts) => {
    const variants = texts.flatMap((lines) => {
      const list = valueOf(lines, "#EXT-X-STREAM-INF:")
      return list === null ? [] : [attributesOf(list)]
    })
    const first = variants[0]
    if (first === undefined || variants.length !== texts.length) {
      return Result.fail({ reason: "it offers no variant" })
    }
    const most = (name: string) => Math.max(1, ...variants.map((one) => Number(one.get(name)) || 1))
    const codecs = new Set(
      variants.flatMap((one) => unquoted(one.get("CODECS") ?? "").split(",")).filter((one) => one !== ""),
    )
    const kept = ["RESOLUTION", "FRAME-RATE"].flatMap((name) => {
      const value = first.get(name)
      return value !== undefined && /^[0-9x.]+$/.test(value) ? [`${name}=${value}`] : []
    })
    const attributes = [
      `BANDWIDTH=${most("BANDWIDTH")}`,
      `AVERAGE-BANDWIDTH=${most("AVERAGE-BANDWIDTH")}`,
      ...([...codecs].every((codec) => /^[A-Za-z0-9.]+$/.test(codec)) && codecs.size > 0 ?
        [`CODECS="${[...codecs].join(",")}"`] :
        []),
      ...kept,
      "SUBTITLES=\"clock\"",
      "CLOSED-CAPTIONS=NONE",
    ]
    return Result.succeed([
      "#EXTM3U",
      "#EXT-X-VERSION:7",
      `#EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID="clock",NAME="Clock",LANGUAGE="en",DEFAULT=NO,AUTOSELECT=NO,FORCED=NO,URI="${names.subtitles}"`,
      `#EXT-X-STREAM-INF:${attributes.join(",")}`,
      names.playlist,
      "",
    ].join("\n"))
  })
