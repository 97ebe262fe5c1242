/**
 * Track parameters from an initialisation part: the other direction of `init-writer.ts`.
 *
 * Invariants
 * 1. `readInit(initSegment(p))` equals `p` where the sample entries can say it all (`codecs` texts are made anew).
 * 2. Total: bytes that are not an initialisation part of ours give null, whatever they are.
 */
import type { AudioParameters, TrackParameters, VideoParameters } from "#schema/media.ts"
import { parseAacConfig } from "../codec/aac.ts"
import { parseSps264 } from "../codec/h264.ts"
import { parseSps265 } from "../codec/h265.ts"
import { Malformed } from "../codec/malformed.ts"
import { type Box, childBox, descend, scanBoxes } from "./box.ts"
import { fourCc, getU16, getU32 } from "./bytes.ts"

/** What stands at the front of a file. */
export interface InitPart {
  readonly parameters: TrackParameters
  /** Length of `ftyp` and `moov` together. */
  readonly bytes: number
}

/** `length` bytes behind a 16-bit length; null where they do not fit. */
const counted = (bytes: Uint8Array, at: number, end: number): Uint8Array | null => {
  const length = getU16(bytes, at)
  return at + 2 + length > end ? null : bytes.slice(at + 2, at + 2 + length)
}

/** ISO/IEC 14496-15, 5.3.3.1, with exactly one set of each kind. */
const readAvc = (
  bytes: Uint8Array,
  entry: Box,
  size: { readonly width: number; readonly height: number },
): VideoParameters | null => {
  const record = childBox(bytes, entry, "avcC", 78)
  if (record === null) return null
  const at = record.content
  const sps = counted(bytes, at + 6, record.end)
  if (sps === null || ((bytes[at + 5] ?? 0) & 0x1f) !== 1) return null
  const second = at + 6 + 2 + sps.length
  const pps = counted(bytes, second + 1, record.end)
  if (pps === null || bytes[second] !== 1) return null
  return { codec: "h264", ...size, codecs: parseSps264(sps).codecs, vps: new Uint8Array(0), sps, pps }
}

/** ISO/IEC 14496-15, 8.3.3.1. */
const readHevc = (
  bytes: Uint8Array,
  entry: Box,
  size: { readonly width: number; readonly height: number },
): VideoParameters | null => {
  const record = childBox(bytes, entry, "hvcC", 78)
  if (record === null) return null
  const sets = new Map<number, Uint8Array>()
  const count = bytes[record.content + 22] ?? 0
  let at = record.content + 23
  for (let i = 0; i < count; i++) {
    const type = (bytes[at] ?? 0) & 0x3f
    const set = counted(bytes, at + 3, record.end)
    if (set === null || getU16(bytes, at + 1) !== 1) return null
    sets.set(type, set)
    at += 5 + set.length
  }
  const none = new Uint8Array(0)
  const sps = sets.get(33) ?? none
  const { codecs } = parseSps265(sps)
  return { codec: "h265", ...size, codecs, vps: sets.get(32) ?? none, sps, pps: sets.get(34) ?? none }
}

/** The AudioSpecificConfig inside `esds` (ISO/IEC 14496-1, 7.2.6): descriptor 3, in it 4, in it 5. */
const readAudioConfig = (bytes: Uint8Array, entry: Box): Uint8Array | null => {
  const esds = childBox(bytes, entry, "esds", 28)
  if (esds === null) return null
  let at = esds.content + 4
  for (const [tag, fixed] of [[3, 3], [4, 13], [5, 0]] as const) {
    if (bytes[at] !== tag) return null
    let length = 0
    let more = true
    for (at++; more && at < esds.end; at++) {
      more = ((bytes[at] ?? 0) & 0x80) !== 0
      length = ((length << 7) | ((bytes[at] ?? 0) & 0x7f)) & 0xfff_ffff
    }
    if (at + length > esds.end) return null
    if (tag === 5) return bytes.slice(at, at + length)
    at += fixed
  }
  return null
}

const readAudio = (bytes: Uint8Array, entry: Box, sampleRate: number): AudioParameters | null => {
  const base = { sampleRate, channels: getU16(bytes, entry.content + 16), config: new Uint8Array(0) }
  switch (entry.type) {
    case "ulaw":
      return { codec: "pcmu", codecs: "ulaw", ...base }
    case "alaw":
      return { codec: "pcma", codecs: "alaw", ...base }
    case "Opus":
      return { codec: "opus", codecs: "opus", ...base }
    case "mp4a": {
      const config = readAudioConfig(bytes, entry)
      return config === null ? null : { codec: "aac", codecs: parseAacConfig(config).codecs, ...base, config }
    }
    default:
      return null
  }
}

const readVideo = (bytes: Uint8Array, entry: Box): VideoParameters | null => {
  const size = { width: getU16(bytes, entry.content + 24), height: getU16(bytes, entry.content + 26) }
  if (entry.type === "avc1") return readAvc(bytes, entry, size)
  return entry.type === "hvc1" ? readHevc(bytes, entry, size) : null
}

const readTrack = (bytes: Uint8Array, track: Box): VideoParameters | AudioParameters | null => {
  const media = childBox(bytes, track, "mdia")
  if (media === null) return null
  const handler = childBox(bytes, media, "hdlr")
  const header = childBox(bytes, media, "mdhd")
  const description = descend(bytes, media, "minf", "stbl", "stsd")
  if (handler === null || header === null || description === null) return null
  const entry = scanBoxes(bytes, description.content + 8, description.end)[0]
  if (entry === undefined) return null
  const kind = fourCc(bytes, handler.content + 8)
  if (kind === "vide") return readVideo(bytes, entry)
  return kind === "soun" ? readAudio(bytes, entry, getU32(bytes, header.content + 12)) : null
}

const parse = (bytes: Uint8Array): InitPart | null => {
  const [type, movie] = scanBoxes(bytes, 0, bytes.length)
  if (type?.type !== "ftyp" || movie?.type !== "moov") return null
  let video: VideoParameters | null = null
  let audio: AudioParameters | null = null
  for (const child of scanBoxes(bytes, movie.content, movie.end)) {
    if (child.type !== "trak") continue
    const parameters = readTrack(bytes, child)
    if (parameters === null) return null
    if ("width" in parameters) video = parameters
    else audio = parameters
  }
  return video === null ? null : { parameters: { video, audio }, bytes: movie.end }
}

/** Reads the front of a file; more bytes may follow. */
export const readInit = (bytes: Uint8Array): InitPart | null => {
  try {
    return parse(bytes)
  } catch (error) {
    if (error instanceof Malformed) return null
    throw error
  }
}
