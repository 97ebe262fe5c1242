/**
 * The pictures and sounds of a stored fragment (ISO/IEC 14496-12, 8.8): the other direction of `fragment-writer.ts`.
 *
 * Invariants
 * 1. Total: bytes that are no whole fragment of ours give null, whatever they are. A unit lies wholly inside of the bytes.
 * 2. Nothing is copied: units are views of the bytes.
 */
import { type Box, childBox, scanBoxes } from "./box.ts"
import { getU32, getU64 } from "./bytes.ts"
import { maxUnits } from "./fragment-box.ts"
import { audioTrackId, videoTrackId } from "./init-writer.ts"

export interface StoredUnit {
  readonly track: "video" | "audio"
  /** As it came from the camera: see `AccessUnit` of `#schema/media.ts`. */
  readonly data: Uint8Array
  readonly key: boolean
  /** On the track's own clock: video 90 kHz, audio its sample rate; both count from the same moment. */
  readonly decodeTicks: number
  /** Presentation time, likewise. */
  readonly ticks: number
  readonly durationTicks: number
}

const hasDuration = 0x100
const hasSize = 0x200
const hasFlags = 0x400
const hasOffset = 0x800
/** Bit of a sample's flags (8.8.3.1): it is not one that decoding can start at. */
const notSync = 0x1_0000

/** The run of one track; null where it is not as ours are. */
const readRun = (bytes: Uint8Array, moof: Box, traf: Box): ReadonlyArray<StoredUnit> | null => {
  const [tfhd, tfdt, trun] = ["tfhd", "tfdt", "trun"].map((type) => childBox(bytes, traf, type))
  if (
    tfhd === null || tfdt === null || trun === null || tfhd === undefined || tfdt === undefined || trun === undefined
  ) {
    return null
  }
  const id = getU32(bytes, tfhd.content + 4)
  if (id !== videoTrackId && id !== audioTrackId) return []
  const flags = getU32(bytes, trun.content) & 0xff_ffff
  const count = getU32(bytes, trun.content + 4)
  const fields = [hasDuration, hasSize, hasFlags, hasOffset].filter((flag) => (flags & flag) !== 0).length
  const fits = trun.content + 12 + count * fields * 4 <= trun.end
  if ((flags & (1 | hasDuration | hasSize)) !== (1 | hasDuration | hasSize) || count > maxUnits || !fits) return null
  const video = id === videoTrackId
  const units: Array<StoredUnit> = []
  let decodeTicks = getU64(bytes, tfdt.content + 4)
  let from = moof.start + (getU32(bytes, trun.content + 8) | 0)
  let at = trun.content + 12
  for (let i = 0; i < count; i++, at += fields * 4) {
    const durationTicks = getU32(bytes, at)
    const to = from + getU32(bytes, at + 4)
    if (from < moof.end || to > bytes.length) return null
    const offset = (flags & hasOffset) === 0 ? 0 : getU32(bytes, at + (fields - 1) * 4) | 0
    units.push({
      track: video ? "video" : "audio",
      data: bytes.subarray(from, to),
      key: !video || (flags & hasFlags) === 0 || (getU32(bytes, at + 8) & notSync) === 0,
      decodeTicks,
      ticks: decodeTicks + offset,
      durationTicks,
    })
    decodeTicks += durationTicks
    from = to
  }
  return units
}

/** Pictures in decode order, then the sounds; null: invariant 1. */
export const readFragmentUnits = (bytes: Uint8Array): ReadonlyArray<StoredUnit> | null => {
  const moof = scanBoxes(bytes, 0, bytes.length).find((box) => box.type === "moof")
  if (moof === undefined) return null
  const runs = scanBoxes(bytes, moof.content, moof.end).filter(({ type }) => type === "traf")
    .map((traf) => readRun(bytes, moof, traf))
  const whole = runs.filter((run) => run !== null)
  return whole.length === runs.length && whole.some((run) => run[0]?.track === "video") ? whole.flat() : null
}
