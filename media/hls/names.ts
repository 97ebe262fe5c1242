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
