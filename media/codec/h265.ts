/**
 * H.265: NAL unit types, video, sequence and picture parameter sets, the start of a slice header (ITU-T H.265, 7.3).
 *
 * Invariants
 * 1. Every function reads at most `maxSetBytes` bytes and ends; what cannot be is `Malformed`.
 */
import { BitReader, maxSide, unescape } from "./bits.ts"
import { chromaUnit, croppedSize, type Pps, setReader, sliceHeadBytes, type Sps } from "./h264.ts"
import { Malformed } from "./malformed.ts"

/** NAL unit types (table 7-1) that the recorder treats by themselves. Below `vps` are pictures. */
export const nal265 = {
  /** First and last type of a picture that decoding can start at (BLA, IDR, CRA and the two reserved ones). */
  firstIrap: 16,
  lastIrap: 23,
  vps: 32,
  sps: 33,
  pps: 34,
  delimiter: 35,
  filler: 38,
} as const

const profileBits = 88
const levelBits = 8

interface ProfileTierLevel {
  readonly codecs: string
}

/** ISO/IEC 14496-15, annex E.3: profile, compatibility flags reversed, tier and level, constraint bytes without the last zeros. */
const parseProfile = (reader: BitReader, maxSubLayers: number): ProfileTierLevel => {
  const space = ["", "A", "B", "C"][reader.bits(2)] ?? ""
  const tier = reader.bit() === 1 ? "H" : "L"
  const profile = reader.bits(5)
  let compatibility = 0
  for (let i = 0; i < 32; i++) compatibility += reader.bit() * 2 ** i
  const constraints: Array<number> = []
  for (let i = 0; i < 6; i++) constraints.push(reader.bits(8))
  while (constraints.length > 0 && constraints.at(-1) === 0) constraints.pop()
  const level = reader.bits(8)
  const present: Array<readonly [number, number]> = []
  for (let i = 1; i < maxSubLayers; i++) present.push([reader.bit(), reader.bit()])
  if (maxSubLayers > 1) reader.pass(2 * (9 - maxSubLayers))
  for (const [hasProfile, hasLevel] of present) reader.pass(hasProfile * profileBits + hasLevel * levelBits)
  const tail = constraints.map((byte) => `.${byte.toString(16)}`).join("")
  return { codecs: `hvc1.${space}${profile}.${compatibility.toString(16)}.${tier}${level}${tail}` }
}

/** `nal` with its two header bytes, without start code. */
export const parseSps265 = (nal: Uint8Array): Sps => {
  const reader = setReader("H.265 SPS", nal, 2)
  const vpsId = reader.bits(4)
  const maxSubLayers = reader.bits(3) + 1
  if (maxSubLayers > 7) reader.fail("more than 7 sub-layers")
  reader.bit()
  const { codecs } = parseProfile(reader, maxSubLayers)
  const id = reader.ue(15)
  let chromaFormat = reader.ue(3)
  if (chromaFormat === 3 && reader.bit() === 1) chromaFormat = 0
  const width = reader.ue(maxSide)
  const height = reader.ue(maxSide)
  const crop = { x: 0, y: 0 }
  if (reader.bit() === 1) {
    const unit = chromaUnit(chromaFormat)
    crop.x = unit.x * (reader.ue() + reader.ue())
    crop.y = unit.y * (reader.ue() + reader.ue())
  }
  const size = croppedSize(reader, { width, height }, crop)
  // Bit depths: read for being there and possible, since the decoder configuration of a file tells them.
  reader.ue(6)
  reader.ue(6)
  return { id, vpsId, ...size, codecs }
}

export const parsePps265 = (nal: Uint8Array): Pps => {
  const reader = setReader("H.265 PPS", nal, 2)
  return { id: reader.ue(63), spsId: reader.ue(15) }
}

/** `vps_video_parameter_set_id`. */
export const parseVps265 = (nal: Uint8Array): number => setReader("H.265 VPS", nal, 2).bits(4)

/** `slice_pic_parameter_set_id` of a slice segment (7.3.6.1), or -1 where its beginning cannot be read. */
export const slicePps265 = (nal: Uint8Array): number => {
  try {
    const reader = new BitReader("H.265 slice", unescape(nal.subarray(0, sliceHeadBytes)), 16)
    const type = (nal[0]! >> 1) & 63
    reader.bit()
    if (type >= nal265.firstIrap && type <= nal265.lastIrap) reader.bit()
    return reader.ue(63)
  } catch (error) {
    if (error instanceof Malformed) return -1
    throw error
  }
}
