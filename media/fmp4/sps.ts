/**
 * What the decoder configuration records ask of a sequence parameter set beyond the set itself: ISO/IEC 14496-15, 5.3.3.1
 * (`avcC`) and 8.3.3.1 (`hvcC`).
 *
 * Invariants
 * 1. Reads at most the set; one that ends too early throws `Malformed` (the codec room refuses such a set before it gets here).
 */
import { BitReader, unescape } from "../codec/bits.ts"
import { chromaProfiles } from "../codec/h264.ts"

/** H.264: the fields behind the sets in `avcC` for the profiles that have them. */
interface AvcFields {
  readonly profile: number
  readonly compatibility: number
  readonly level: number
  /** Null for the profiles whose set does not tell them: 4:2:0, 8 bits. */
  readonly chroma: { readonly format: number; readonly bitDepthLuma: number; readonly bitDepthChroma: number } | null
}

/** H.265: the head of `hvcC`. */
interface HevcFields {
  /** Space, tier and profile (1 byte), compatibility (4), constraints (6), level (1), as they stand in the set. */
  readonly profileTierLevel: Uint8Array
  readonly chromaFormat: number
  readonly bitDepthLuma: number
  readonly bitDepthChroma: number
  readonly temporalLayers: number
  readonly temporalIdNested: boolean
}

const chromaFormat = (read: BitReader): number => {
  const format = read.ue(3)
  if (format === 3) read.pass(1) // separate_colour_plane_flag
  return format
}

/** `sps`: a NAL unit with its one-byte header. */
export const avcFields = (sps: Uint8Array): AvcFields => {
  const read = new BitReader("H.264 SPS", unescape(sps), 8)
  const [profile, compatibility, level] = [read.bits(8), read.bits(8), read.bits(8)]
  if (!chromaProfiles.includes(profile)) return { profile, compatibility, level, chroma: null }
  read.ue() // seq_parameter_set_id
  const format = chromaFormat(read)
  const chroma = { format, bitDepthLuma: 8 + read.ue(6), bitDepthChroma: 8 + read.ue(6) }
  return { profile, compatibility, level, chroma }
}

/** Sub-layer profile and level of ITU-T H.265, 7.3.3, which stand between the general level and the set's id. */
const skipSubLayers = (read: BitReader, subLayersMinus1: number): void => {
  if (subLayersMinus1 === 0) return
  const present: Array<readonly [number, number]> = []
  for (let i = 0; i < subLayersMinus1; i++) present.push([read.bit(), read.bit()])
  read.pass(2 * (8 - subLayersMinus1))
  for (const [profile, level] of present) read.pass(88 * profile + 8 * level)
}

/** `sps`: a NAL unit with its two-byte header. */
export const hevcFields = (sps: Uint8Array): HevcFields => {
  const read = new BitReader("H.265 SPS", unescape(sps), 16)
  read.pass(4) // sps_video_parameter_set_id
  const subLayersMinus1 = read.bits(3)
  const temporalIdNested = read.bit() === 1
  const profileTierLevel = Uint8Array.from({ length: 12 }, () => read.bits(8))
  skipSubLayers(read, subLayersMinus1)
  read.ue() // sps_seq_parameter_set_id
  const format = chromaFormat(read)
  read.ue() // width
  read.ue() // height
  if (read.bit() === 1) { for (let i = 0; i < 4; i++) read.ue() } // conformance window
  const bitDepthLuma = 8 + read.ue(6)
  const bitDepthChroma = 8 + read.ue(6)
  return {
    profileTierLevel,
    chromaFormat: format,
    bitDepthLuma,
    bitDepthChroma,
    temporalLayers: subLayersMinus1 + 1,
    temporalIdNested,
  }
}
