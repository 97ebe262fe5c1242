/**
 * Reads footage encoded once: elementary streams of H.264 and H.265, ADTS, raw G.711, Ogg Opus.
 *
 * Invariants
 * 1. What a file is follows from its name: `<name>-<width>x<height>-<frames a second>.h264|h265`,
 *    `<name>-<sampling rate>.aac|pcmu|pcma|opus`.
 * 2. Files are read once a process and shared by every camera; nobody writes to them.
 * 3. A picture may be shown later than it is sent (B-frames): then `<file>.order` holds, a line a picture in the order of
 *    sending, its place in the order of showing.
 */
import * as fs from "node:fs"
import * as path from "node:path"

export type VideoCodec = "h264" | "h265"
export type AudioCodec = "aac" | "pcmu" | "pcma" | "opus"

export interface Picture {
  readonly key: boolean
  /** NAL units without start codes, parameter sets left out. */
  readonly units: ReadonlyArray<Buffer>
  /** Parameter sets that stood in front of it. */
  readonly parameterSets: ReadonlyArray<Buffer>
  /** Pictures between sending and showing this one, at least 0. */
  readonly delay: number
}

export interface VideoFootage {
  readonly file: string
  readonly codec: VideoCodec
  readonly width: number
  readonly height: number
  readonly rate: number
  readonly pictures: ReadonlyArray<Picture>
  /** VPS (H.265), SPS, PPS as they stand in front of the first picture. */
  readonly parameterSets: ReadonlyArray<Buffer>
}

export interface AudioFootage {
  readonly file: string
  readonly codec: AudioCodec
  /** RTP clock, Hz. */
  readonly clockRate: number
  readonly channels: number
  readonly ticksPerUnit: number
  readonly units: ReadonlyArray<Buffer>
  /** AudioSpecificConfig (ISO/IEC 14496-3, 1.6.2.1) in hex; empty for other codecs than AAC. */
  readonly config: string
}

export const committedFolder = path.join(import.meta.dirname, "..", "fixtures", "media")
export const benchFolder = path.join(import.meta.dirname, "..", "..", ".cache", "media")

/** NAL units of an Annex-B stream (ITU-T H.264, annex B), without start codes and trailing zeros. */
export const nalUnits = (stream: Buffer): Array<Buffer> => {
  const units: Array<Buffer> = []
  let begin = -1
  for (
    let at = stream.indexOf("\x00\x00\x01", 0, "latin1");
    at >= 0;
    at = stream.indexOf("\x00\x00\x01", at + 3, "latin1")
  ) {
    if (begin >= 0) units.push(trimZeros(stream, begin, at))
    begin = at + 3
  }
  if (begin >= 0) units.push(trimZeros(stream, begin, stream.length))
  return units
}

const trimZeros = (stream: Buffer, begin: number, end: number): Buffer => {
  let last = end
  while (last > begin && stream[last - 1] === 0) last--
  return stream.subarray(begin, last)
}

const kindOf = (
  codec: VideoCodec,
  unit: Buffer,
): { set: boolean; picture: boolean; first: boolean; key: boolean; skip: boolean } => {
  if (codec === "h264") {
    const type = unit[0]! & 31
    const picture = type >= 1 && type <= 5
    return {
      set: type === 7 || type === 8,
      picture,
      first: picture && (unit[1]! & 0x80) !== 0,
      key: type === 5,
      skip: type === 9 || type === 6,
    }
  }
  const type = (unit[0]! >> 1) & 63
  const picture = type < 32
  return {
    set: type >= 32 && type <= 34,
    picture,
    first: picture && (unit[2]! & 0x80) !== 0,
    key: type >= 16 && type <= 21,
    skip: type >= 35 && type <= 40,
  }
}

const pictures = (codec: VideoCodec, stream: Buffer, order: ReadonlyArray<number> | null): Array<Picture> => {
  const found: Array<{ key: boolean; units: Array<Buffer>; parameterSets: Array<Buffer> }> = []
  let sets: Array<Buffer> = []
  for (const unit of nalUnits(stream)) {
    const kind = kindOf(codec, unit)
    if (kind.set) sets.push(unit)
    else if (kind.picture && kind.first) {
      found.push({ key: kind.key, units: [unit], parameterSets: sets })
      sets = []
    } else if (kind.picture) found.at(-1)!.units.push(unit)
    else if (!kind.skip) throw new Error(`footage holds a NAL unit of an unexpected type (first byte ${unit[0]})`)
  }
  const late = order === null ? 0 : Math.max(...order.map((shown, sent) => sent - shown))
  return found.map((picture, sent) => ({ ...picture, delay: order === null ? 0 : order[sent]! - sent + late }))
}

const cache = new Map<string, VideoFootage | AudioFootage>()
const cached = <A extends VideoFootage | AudioFootage>(file: string, load: () => A): A => {
  const known = cache.get(file)
  if (known !== undefined) return known as A
  const loaded = load()
  cache.set(file, loaded)
  return loaded
}

/** Throws where the name does not follow invariant 1 or the file begins with no key frame. */
export const loadVideo = (file: string): VideoFootage =>
  cached(file, () => {
    const name = /-(\d+)x(\d+)-(\d+)\.(h264|h265)$/.exec(file)
    if (name === null) throw new Error(`${path.basename(file)}: the name does not tell size, rate and codec`)
    const codec = name[4] as VideoCodec
    const order = fs.existsSync(`${file}.order`) ?
      fs.readFileSync(`${file}.order`, "utf8").trim().split(/\s+/).map(Number) :
      null
    const found = pictures(codec, fs.readFileSync(file), order)
    const first = found[0]
    if (first === undefined || !first.key) throw new Error(`${path.basename(file)} begins with no key frame`)
    return {
      file,
      codec,
      width: Number(name[1]),
      height: Number(name[2]),
      rate: Number(name[3]),
      pictures: found,
      parameterSets: first.parameterSets,
    }
  })

/** Frames of an ADTS stream (ISO/IEC 14496-3, 1.A.2.2) without their headers. */
const adtsFrames = (
  stream: Buffer,
): { readonly units: Array<Buffer>; readonly config: string; readonly channels: number } => {
  const units: Array<Buffer> = []
  const profile = stream[2]! >> 6
  const frequency = (stream[2]! >> 2) & 15
  const channels = ((stream[2]! & 1) << 2) | (stream[3]! >> 6)
  for (let at = 0; at + 7 <= stream.length;) {
    const header = (stream[at + 1]! & 1) === 1 ? 7 : 9
    const length = ((stream[at + 3]! & 3) << 11) | (stream[at + 4]! << 3) | (stream[at + 5]! >> 5)
    if (length <= header) throw new Error(`ADTS frame of ${length} bytes at ${at}`)
    units.push(stream.subarray(at + header, at + length))
    at += length
  }
  const config = ((profile + 1) << 11) | (frequency << 7) | (channels << 3)
  return { units, config: config.toString(16).padStart(4, "0"), channels }
}

/** Packets of an Ogg stream (RFC 3533, section 6) after the two header packets of Opus (RFC 7845, section 3). */
const oggPackets = (stream: Buffer): Array<Buffer> => {
  const packets: Array<Buffer> = []
  let parts: Array<Buffer> = []
  for (let at = 0; at + 27 <= stream.length;) {
    const segments = stream[at + 26]!
    let body = at + 27 + segments
    for (let i = 0; i < segments; i++) {
      const length = stream[at + 27 + i]!
      parts.push(stream.subarray(body, body + length))
      body += length
      if (length < 255) {
        packets.push(Buffer.concat(parts))
        parts = []
      }
    }
    at = body
  }
  return packets.slice(2)
}

const chunks = (stream: Buffer, size: number): Array<Buffer> =>
  Array.from({ length: Math.floor(stream.length / size) }, (_, i) => stream.subarray(i * size, (i + 1) * size))

/** Throws where the name does not follow invariant 1. */
export const loadAudio = (file: string): AudioFootage =>
  cached(file, () => {
    const name = /-(\d+)\.(aac|pcmu|pcma|opus)$/.exec(file)
    if (name === null) throw new Error(`${path.basename(file)}: the name does not tell sampling rate and codec`)
    const codec = name[2] as AudioCodec
    const clockRate = Number(name[1])
    const stream = fs.readFileSync(file)
    if (codec === "aac") {
      const { channels, config, units } = adtsFrames(stream)
      return { file, codec, clockRate, channels, ticksPerUnit: 1024, units, config }
    }
    if (codec === "opus") {
      return { file, codec, clockRate, channels: 2, ticksPerUnit: 960, units: oggPackets(stream), config: "" }
    }
    return {
      file,
      codec,
      clockRate,
      channels: 1,
      ticksPerUnit: clockRate / 50,
      units: chunks(stream, clockRate / 50),
      config: "",
    }
  })
