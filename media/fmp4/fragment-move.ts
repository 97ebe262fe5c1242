/**
 * A fragment at another media time (ISO/IEC 14496-12, 8.8.12).
 *
 * Invariants
 * 1. Only `baseMediaDecodeTime` of the tracks changes, in place; sizes, offsets and payload stay. The index line (`uuid`), which is
 *    for whoever stores the fragment, keeps the time of the builder.
 * 2. Total: bytes that are no fragment of ours stay as they are.
 */
import { videoClockHz } from "#schema/media.ts"
import { childBox, scanBoxes } from "./box.ts"
import { getU32, getU64, putU64 } from "./bytes.ts"
import { audioTrackId, videoTrackId } from "./init-writer.ts"

/** Moves a fragment by so many ticks of 90 kHz, forwards or back; not below zero. `audioHz`: ticks of the sound per second. */
export const moveFragment = (bytes: Uint8Array, ticks: number, audioHz: number): void => {
  if (ticks === 0) return
  const moof = scanBoxes(bytes, 0, bytes.length).find(({ type }) => type === "moof")
  if (moof === undefined) return
  const out = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  for (const traf of scanBoxes(bytes, moof.content, moof.end)) {
    if (traf.type !== "traf") continue
    const [tfhd, tfdt] = [childBox(bytes, traf, "tfhd"), childBox(bytes, traf, "tfdt")]
    // Version 1: 64 bits.
    if (tfhd === null || tfdt === null || tfdt.end < tfdt.content + 12 || bytes[tfdt.content] !== 1) continue
    const track = getU32(bytes, tfhd.content + 4)
    if (track !== videoTrackId && track !== audioTrackId) continue
    const by = track === videoTrackId ? ticks : Math.round(ticks * audioHz / videoClockHz)
    putU64(out, Math.max(0, getU64(bytes, tfdt.content + 4) + by), tfdt.content + 4)
  }
}
