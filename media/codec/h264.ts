/**
 * H.264: NAL unit types, sequence and picture parameter sets, the start of a slice header (ITU-T H.264, 7.3).
 *
 * Invariants
 * 1. Every function reads at most `maxSetBytes` bytes and ends; what cannot be is `Malformed`.
 */
import { BitReader, maxSetBytes, maxSide, unescape } from "./bits.ts"
import { Malformed } from "./malformed.ts"

/** NAL unit types (table 7-1) that the recorder treats by themselves. */
export const nal264 = {
  slice: 1,
  idr: 5,
  sei: 6,
  sps: 7,
  pps: 8,
  delimiter: 9,
  filler: 12,
} as const

export interface Sps {
  readonly id: number
  /** H.265: the video parameter set it refers to; H.264: 0. */
  readonly vpsId: number
  /** Luma samples after cropping. */
  readonly width: number
  readonly height: number
  /** RFC 6381 codecs string. */
  readonly codecs: string
}

export interface Pps {
  readonly id: number
  readonly spsId: number
}

const hex = (value: number) => value.toString(16).padStart(2, "0")

/** A reader behind the NAL header of `headerBytes`, after the checks that all sets share. */
export const setReader = (what: string, nal: Uint8Array, headerBytes: number): BitReader => {
  if (nal.length > maxSetBytes) {
    throw new Malformed({ what, at: 0, unit: "byte", detail: `${nal.length} bytes are more than ${maxSetBytes}` })
  }
  return new BitReader(what, unescape(nal), headerBytes * 8)
}

/** Profiles whose sets tell the chroma format (7.3.2.1.1). */
export const chromaProfiles: ReadonlyArray<number> = [100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135]

const skipScalingLists = (reader: BitReader, lists: number) => {
  for (let list = 0; list < lists; list++) {
    if (reader.bit() === 0) continue
    let last = 8
    let next = 8
    for (let i = 0; i < (list < 6 ? 16 : 64); i++) {
      if (next !== 0) next = (last + reader.se() + 256) % 256
      last = next === 0 ? last : next
    }
  }
}

/** Picture order count (7.3.2.1.1): nothing of it is needed, but it stands before the size. */
const skipPictureOrder = (reader: BitReader) => {
  const type = reader.ue(2)
  if (type === 0) reader.ue(12)
  if (type !== 1) return
  reader.bit()
  reader.se()
  reader.se()
  const cycle = reader.ue(255)
  for (let i = 0; i < cycle; i++) reader.se()
}

/** The crop unit in luma samples (table 6-1; for H.264 equations 7-19 to 7-22 without the frame factor). */
export const chromaUnit = (chromaFormat: number): { readonly x: number; readonly y: number } => ({
  x: chromaFormat === 1 || chromaFormat === 2 ? 2 : 1,
  y: chromaFormat === 1 ? 2 : 1,
})

/** Applies cropping and refuses a size that cannot be. */
export const croppedSize = (
  reader: BitReader,
  coded: { readonly width: number; readonly height: number },
  crop: { readonly x: number; readonly y: number },
) => {
  const width = coded.width - crop.x
  const height = coded.height - crop.y
  if (width < 1 || height < 1 || width > maxSide || height > maxSide) {
    reader.fail(`a picture of ${width}x${height} cannot be`)
  }
  return { width, height }
}

/** `nal` with its header byte, without start code. */
export const parseSps264 = (nal: Uint8Array): Sps => {
  const reader = setReader("H.264 SPS", nal, 1)
  const profile = reader.bits(8)
  const constraints = reader.bits(8)
  const level = reader.bits(8)
  const id = reader.ue(31)
  let chromaFormat = 1
  if (chromaProfiles.includes(profile)) {
    chromaFormat = reader.ue(3)
    if (chromaFormat === 3 && reader.bit() === 1) chromaFormat = 0
    reader.ue(6)
    reader.ue(6)
    reader.bit()
    if (reader.bit() === 1) skipScalingLists(reader, chromaFormat === 3 ? 12 : 8)
  }
  reader.ue(12)
  skipPictureOrder(reader)
  reader.ue(16)
  reader.bit()
  const width = (reader.ue(maxSide / 8) + 1) * 16
  const mapUnits = reader.ue(maxSide / 8) + 1
  const framesOnly = reader.bit()
  if (framesOnly === 0) reader.bit()
  reader.bit()
  const fields = 2 - framesOnly
  const crop = { x: 0, y: 0 }
  if (reader.bit() === 1) {
    const unit = chromaUnit(chromaFormat)
    crop.x = unit.x * (reader.ue() + reader.ue())
    crop.y = unit.y * fields * (reader.ue() + reader.ue())
  }
  const size = croppedSize(reader, { width, height: mapUnits * 16 * fields }, crop)
  return { id, vpsId: 0, ...size, codecs: `avc1.${hex(profile)}${hex(constraints)}${hex(level)}` }
}

export const parsePps264 = (nal: Uint8Array): Pps => {
  const reader = setReader("H.264 PPS", nal, 1)
  return { id: reader.ue(255), spsId: reader.ue(31) }
}

/** Bytes of a slice that hold its first macroblock, type and picture parameter set, with room for emulation prevention. */
export const sliceHeadBytes = 24

/** `pic_parameter_set_id` of a slice (7.3.3), or -1 where its beginning cannot be read. */
export const slicePps264 = (nal: Uint8Array): number => {
  try {
    const reader = new BitReader("H.264 slice", unescape(nal.subarray(0, sliceHeadBytes)), 8)
    reader.ue()
    reader.ue(9)
    return reader.ue(255)
  } catch (error) {
    if (error instanceof Malformed) return -1
    throw error
  }
}

/**
 * Whether an SEI NAL unit holds a recovery point (D.2.8) at which the pictures are right at once (`recovery_frame_cnt` 0):
 * where a camera sends no IDR pictures, decoding can start there.
 */
export const isRecoveryPoint264 = (nal: Uint8Array): boolean => {
  const bytes = unescape(nal.subarray(0, Math.min(nal.length, 256)))
  let at = 1
  while (at + 2 < bytes.length) {
    let type = 0
    let size = 0
    while (bytes[at] === 0xff) {
      type += 255
      at++
    }
    type += bytes[at++] ?? 0
    while (bytes[at] === 0xff) {
      size += 255
      at++
    }
    size += bytes[at++] ?? 0
    if (type === 6) return ((bytes[at] ?? 0) & 0x80) !== 0
    at += size
  }
  return false
}
