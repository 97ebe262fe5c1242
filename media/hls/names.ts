/**
 * Names of the files a session serves beside its playlists. A name tells everything needed to find the bytes, so a session
 * keeps no table of them and a name means the same for ever.
 *
 * Invariants
 * 1. What the functions here make parses to what it was made of; any other text parses to `null`.
 * 2. A name selects bytes, it grants nothing: whoever serves it checks that the file belongs to the session and that the
 *    range is one of whole fragments inside its interval.
 */

/**
 * - `all`: the tracks as they were stored.
 * - `video`: the sound hidden, for browsers that refuse its codec in MP4.
 * - `keys`: key pictures only, at least `stepMs` apart.
 */
export type Variant =
  | { readonly kind: "all" }
  | { readonly kind: "video" }
  | { readonly kind: "keys"; readonly stepMs: number }

export type ResourceName =
  | { readonly kind: "init"; readonly fileId: string; readonly sound: boolean }
  | {
    readonly kind: "media"
    readonly fileId: string
    readonly variant: Variant
    readonly offset: number
    readonly bytes: number
  }
  | { readonly kind: "text"; readonly fileId: string; readonly offset: number; readonly bytes: number }

/** What is shown of a stretch of time, whichever file has it now: for footage that has moved since it was named. */
export interface MomentName {
  /** `init`: the initialization in force at `start`. */
  readonly what: Variant | { readonly kind: "init"; readonly sound: boolean } | { readonly kind: "text" }
  /** Epoch milliseconds, `[start, end)`. */
  readonly start: number
  readonly end: number
  /** Decode time that `start` is to have, 90 kHz; null: as it is stored. */
  readonly ticks: number | null
}

/** A comment of a playlist with the decode time of the segment behind it, 90 kHz: other nodes go by it, players skip it. */
export const decodeTimeComment = "#decode-time:"

/** What stands in front of the range: `a` all, `v` video, `k<step>` keys, `t` text. */
export const prefixOf = (variant: Variant): string =>
  variant.kind === "all" ? "a" : variant.kind === "video" ? "v" : `k${variant.stepMs}`

export const initName = (fileId: string, sound: boolean): string => `${sound ? "i" : "iv"}-${fileId}.mp4`

/** Names of ranges of one file: `before`, position, `-`, length, `behind`. In parts, because a day has thousands of them. */
export interface RangeNames {
  readonly before: string
  readonly behind: string
}

export const mediaNames = (variant: Variant, fileId: string): RangeNames => ({
  before: `${prefixOf(variant)}-${fileId}-`,
  behind: ".m4s",
})

export const textNames = (fileId: string): RangeNames => ({ before: `t-${fileId}-`, behind: ".vtt" })

const uuid = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
/** 15 digits stay below 2^53. */
const count = "0|[1-9][0-9]{0,14}"
const initPattern = new RegExp(`^(i|iv)-(${uuid})\\.mp4$`)
const mediaPattern = new RegExp(`^(a|v|k[1-9][0-9]{0,4})-(${uuid})-(${count})-(${count})\\.m4s$`)
const textPattern = new RegExp(`^t-(${uuid})-(${count})-(${count})\\.vtt$`)

const momentPattern = new RegExp(
  `^at-(a|v|k[1-9][0-9]{0,4}|i|iv|t)-(${count})-(${count})(?:-(${count}))?\\.(?:m4s|mp4|vtt)$`,
)

export const momentName = ({ end, start, ticks, what }: MomentName): string => {
  const lead = what.kind === "init" ? (what.sound ? "i" : "iv") : what.kind === "text" ? "t" : prefixOf(what)
  const extension = what.kind === "init" ? "mp4" : what.kind === "text" ? "vtt" : "m4s"
  return `at-${lead}-${start}-${end}${ticks === null ? "" : `-${ticks}`}.${extension}`
}

const variantOf = (prefix: string): Variant =>
  prefix === "a" ?
    { kind: "all" } :
    prefix === "v" ?
    { kind: "video" } :
    { kind: "keys", stepMs: Number(prefix.slice(1)) }

export const parseName = (text: string): ResourceName | null => {
  const init = initPattern.exec(text)
  if (init !== null) return { kind: "init", fileId: init[2] as string, sound: init[1] === "i" }
  const media = mediaPattern.exec(text)
  if (media !== null) {
    return {
      kind: "media",
      variant: variantOf(media[1] as string),
      fileId: media[2] as string,
      offset: Number(media[3]),
      bytes: Number(media[4]),
    }
  }
  const cues = textPattern.exec(text)
  if (cues !== null) return { kind: "text", fileId: cues[1] as string, offset: Number(cues[2]), bytes: Number(cues[3]) }
  return null
}

/** As {@link parseName}, of a name in words of time. */
export const parseMoment = (text: string): MomentName | null => {
  const [, lead = "", start, end, ticks] = momentPattern.exec(text) ?? []
  if (lead === "") return null
  return {
    what: lead === "i" || lead === "iv" ?
      { kind: "init", sound: lead === "i" } :
      lead === "t" ?
      { kind: "text" } :
      variantOf(lead),
    start: Number(start),
    end: Number(end),
    ticks: ticks === undefined ? null : Number(ticks),
  }
}
