/**
 * The initialisation part of a file: `ftyp` and `moov` with empty sample tables (ISO/IEC 14496-12, 8.8; sample entries of
 * 14496-15, 14496-14 and "Encapsulation of Opus in ISO BMFF").
 *
 * Invariants
 * 1. No time, no random value, no counter: equal parameters give equal bytes.
 * 2. Track 1 is video in 90 kHz ticks, track 2 audio in ticks of its sample rate.
 */
import type { AudioParameters, TrackParameters, VideoParameters } from "#schema/media.ts"
import { videoClockHz } from "#schema/media.ts"
import { box, fullBox, u16, u32, u8 } from "./bytes.ts"
import { avcFields, hevcFields } from "./sps.ts"

export const videoTrackId = 1
export const audioTrackId = 2

/** The unity transformation (section 6.2.2). */
const matrix = u32(0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x4000_0000)

const avcConfiguration = (video: VideoParameters): Buffer => {
  const fields = avcFields(video.sps)
  const head = u8(1, fields.profile, fields.compatibility, fields.level, 0xff, 0xe1)
  const sets = [u16(video.sps.length), video.sps, u8(1), u16(video.pps.length), video.pps]
  const { chroma } = fields
  const tail = chroma === null ?
    u8() :
    u8(0xfc | chroma.format, 0xf8 | (chroma.bitDepthLuma - 8), 0xf8 | (chroma.bitDepthChroma - 8), 0)
  return box("avcC", head, ...sets, tail)
}

/** One complete array of one parameter set: the sets stand nowhere else in the file. */
const hevcArray = (nalType: number, set: Uint8Array): Buffer =>
  Buffer.concat([u8(0x80 | nalType), u16(1, set.length), set])

const hevcConfiguration = (video: VideoParameters): Buffer => {
  const fields = hevcFields(video.sps)
  // Segmentation, parallelism and frame rates are 0: "unknown" or "unspecified", which every stream satisfies.
  const tail = u8(
    0xf0,
    0,
    0xfc,
    0xfc | fields.chromaFormat,
    0xf8 | (fields.bitDepthLuma - 8),
    0xf8 | (fields.bitDepthChroma - 8),
    0,
    0,
    (fields.temporalLayers << 3) | (fields.temporalIdNested ? 4 : 0) | 3,
  )
  const arrays = [[32, video.vps], [33, video.sps], [34, video.pps]] as const
  const present = arrays.filter(([, set]) => set.length > 0).map(([type, set]) => hevcArray(type, set))
  return box("hvcC", u8(1), fields.profileTierLevel, tail, u8(present.length), ...present)
}

const videoEntry = (video: VideoParameters): Buffer => {
  const head = Buffer.concat([
    u32(0),
    u16(0, 1, 0, 0),
    u32(0, 0, 0),
    u16(video.width, video.height),
    u32(0x48_0000, 0x48_0000, 0),
    u16(1),
    Buffer.alloc(32),
    u16(24, 0xffff),
  ])
  return video.codec === "h264" ?
    box("avc1", head, avcConfiguration(video)) :
    box("hvc1", head, hevcConfiguration(video))
}

/** A descriptor with its length in base 128 (ISO/IEC 14496-1, 8.3.3). */
const descriptor = (tag: number, ...content: ReadonlyArray<Uint8Array>): Buffer => {
  const body = Buffer.concat(content)
  return Buffer.concat([
    u8(tag, 0x80 | (body.length >> 21), 0x80 | (body.length >> 14), 0x80 | (body.length >> 7), body.length & 0x7f),
    body,
  ])
}

const esds = (config: Uint8Array): Buffer => {
  const decoder = descriptor(4, u8(0x40, 0x15, 0, 0, 0), u32(0, 0), descriptor(5, config))
  return fullBox("esds", 0, 0, descriptor(3, u16(audioTrackId), u8(0), decoder, descriptor(6, u8(2))))
}

const audioEntry = (audio: AudioParameters): Buffer => {
  // A rate above 65 535 Hz does not fit the field and is written as 0; the media header has it anyway.
  const rate = audio.sampleRate < 0x1_0000 ? audio.sampleRate * 0x1_0000 : 0
  const head = Buffer.concat([u32(0), u16(0, 1), u32(0, 0), u16(audio.channels, 16, 0, 0), u32(rate)])
  if (audio.codec === "aac") return box("mp4a", head, esds(audio.config))
  if (audio.codec === "opus") {
    // Recording starts inside a running stream, so there is no encoder delay to skip.
    return box("Opus", head, box("dOps", u8(0, audio.channels), u16(0), u32(audio.sampleRate), u16(0), u8(0)))
  }
  return box(audio.codec === "pcmu" ? "ulaw" : "alaw", head)
}

const track = (id: number, timescale: number, parameters: TrackParameters, kind: "video" | "audio"): Buffer => {
  const { audio, video } = parameters
  const isVideo = kind === "video"
  const size = isVideo ? u32(video.width * 0x1_0000, video.height * 0x1_0000) : u32(0, 0)
  const entry = isVideo || audio === null ? videoEntry(video) : audioEntry(audio)
  const tables = box(
    "stbl",
    fullBox("stsd", 0, 0, u32(1), entry),
    fullBox("stts", 0, 0, u32(0)),
    fullBox("stsc", 0, 0, u32(0)),
    fullBox("stsz", 0, 0, u32(0, 0)),
    fullBox("stco", 0, 0, u32(0)),
  )
  const header = isVideo ? fullBox("vmhd", 0, 1, u32(0, 0)) : fullBox("smhd", 0, 0, u32(0))
  const handler = fullBox(
    "hdlr",
    0,
    0,
    u32(0),
    Buffer.from(isVideo ? "vide" : "soun"),
    u32(0, 0, 0),
    Buffer.from(`${kind}\0`),
  )
  return box(
    "trak",
    fullBox("tkhd", 0, 3, u32(0, 0, id, 0, 0, 0, 0), u16(0, 0, isVideo ? 0 : 0x100, 0), matrix, size),
    box(
      "mdia",
      fullBox("mdhd", 0, 0, u32(0, 0, timescale, 0), u16(0x55c4, 0)),
      handler,
      box("minf", header, box("dinf", fullBox("dref", 0, 0, u32(1), fullBox("url ", 0, 1))), tables),
    ),
  )
}

const extends_ = (id: number): Buffer => fullBox("trex", 0, 0, u32(id, 1, 0, 0, 0))

/** `ftyp` and `moov`. The parameter sets are shorter than 64 KiB each (their length has 16 bits). */
export const initSegment = (parameters: TrackParameters): Uint8Array => {
  const { audio } = parameters
  const tracks = [track(videoTrackId, videoClockHz, parameters, "video")]
  const defaults = [extends_(videoTrackId)]
  if (audio !== null) {
    tracks.push(track(audioTrackId, audio.sampleRate, parameters, "audio"))
    defaults.push(extends_(audioTrackId))
  }
  const movieHeader = fullBox(
    "mvhd",
    0,
    0,
    u32(0, 0, 1000, 0, 0x1_0000),
    u16(0x100, 0),
    u32(0, 0),
    matrix,
    u32(0, 0, 0, 0, 0, 0, tracks.length + 1),
  )
  return Buffer.concat([
    box("ftyp", Buffer.from("iso6"), u32(0), Buffer.from("iso6cmfcmp41")),
    box("moov", movieHeader, ...tracks, box("mvex", ...defaults)),
  ])
}
