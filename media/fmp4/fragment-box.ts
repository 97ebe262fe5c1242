/**
 * The head of a fragment: a `uuid` box with the fragment's own index line, then `moof`, then the header of `mdat`. Players
 * skip the first; the index is rebuilt from it alone.
 *
 * Layout of the `uuid` box, {@link lineBytes} bytes, big-endian:
 *
 *      0 size, "uuid", 16 bytes of type          52 decode time of the first picture (8)
 *     24 version (1)                              60 duration in ticks (4)
 *     25 flags: 1 key, 2 discontinuity            64 sample of the payload (4)
 *     26 pictures (2)                             68 CRC-32 of the head: everything before this field,
 *     28 length of the head (4)                      then `moof` and the header of `mdat`
 *     32 length of the fragment (4)
 *     36 start, 44 end: epoch ms (8 each)
 *
 * Invariants
 * 1. A head whose checksum holds was written whole; a fragment whose sample also holds has lost no page of its payload. (A
 *    checksum over all of the payload would cost as much as writing it; what a power cut takes, it takes by pages.)
 * 2. Total: all bytes give a line or null.
 */
import { crc32 } from "node:zlib"
import { getU16, getU32, getU64, putU64 } from "./bytes.ts"

export const lineBytes = 72
const version = 1
/** Heads are about 1 KiB; a fragment has at most {@link maxUnits} pictures and as many audio frames. */
export const maxUnits = 4_096
export const maxHeadBytes = lineBytes + 256 + maxUnits * (16 + 8)

/** Type of the box: a random UUID that means "index line of a Nightjar fragment". */
const boxType = Buffer.from("6e6a6672a1c84d0f9b27e35d7f10b6c4", "hex")
/** First 24 bytes of every fragment, by which a scan finds the next one behind damaged bytes. */
export const fragmentMark: Buffer = Buffer.concat([Buffer.from([0, 0, 0, lineBytes]), Buffer.from("uuid"), boxType])

/** What a fragment says about itself. Times as in `Fragment` of `media/storage.ts`. */
export interface FragmentLine {
  readonly startMs: number
  readonly endMs: number
  readonly decodeTicks: number
  readonly durationTicks: number
  readonly frames: number
  readonly key: boolean
  readonly discontinuity: boolean
  /** Length of everything before the payload. */
  readonly headBytes: number
  readonly bytes: number
  /** See {@link samplePayload}. */
  readonly sample: number
}

/** Fills the first {@link lineBytes} of `head`; the rest of it must be complete. */
export const putFragmentLine = (head: Buffer, line: FragmentLine): void => {
  fragmentMark.copy(head)
  head[24] = version
  head[25] = (line.key ? 1 : 0) | (line.discontinuity ? 2 : 0)
  head.writeUInt16BE(Math.min(line.frames, 0xffff), 26)
  head.writeUInt32BE(line.headBytes, 28)
  head.writeUInt32BE(line.bytes, 32)
  putU64(head, line.startMs, 36)
  putU64(head, line.endMs, 44)
  putU64(head, line.decodeTicks, 52)
  head.writeUInt32BE(line.durationTicks, 60)
  head.writeUInt32BE(line.sample, 64)
  head.writeUInt32BE(headCrc(head, line.headBytes), 68)
}

/** A page of 4 KiB holds at least 15 samples, wherever the payload begins in it. */
const samplePitch = 256

/** FNV-1a over every 256th byte of the payload, from its first on; the bytes may lie in any number of parts. */
export const samplePayload = (parts: ReadonlyArray<Uint8Array>): number => {
  let hash = 0x811c_9dc5
  let ahead = 0
  for (const part of parts) {
    for (; ahead < part.length; ahead += samplePitch) hash = Math.imul(hash ^ part[ahead]!, 0x0100_0193)
    ahead -= part.length
  }
  return hash >>> 0
}

const headCrc = (head: Uint8Array, length: number): number =>
  crc32(head.subarray(lineBytes, length), crc32(head.subarray(0, lineBytes - 4)))

/** Length of the head that starts at `bytes[0]`, as it claims; null where no fragment starts. Needs {@link lineBytes}. */
export const claimedHeadBytes = (bytes: Uint8Array): number | null => {
  if (bytes.length < lineBytes || fragmentMark.compare(bytes, 0, fragmentMark.length) !== 0 || bytes[24] !== version) {
    return null
  }
  const length = getU32(bytes, 28)
  return length < lineBytes + 16 || length > maxHeadBytes ? null : length
}

/** The line of the head at `bytes[0]`; null where it is not whole. */
export const readFragmentLine = (bytes: Uint8Array): FragmentLine | null => {
  const headBytes = claimedHeadBytes(bytes)
  if (headBytes === null || bytes.length < headBytes || headCrc(bytes, headBytes) !== getU32(bytes, 68)) return null
  const total = getU32(bytes, 32)
  if (total < headBytes) return null
  return {
    startMs: getU64(bytes, 36),
    endMs: getU64(bytes, 44),
    decodeTicks: getU64(bytes, 52),
    durationTicks: getU32(bytes, 60),
    frames: getU16(bytes, 26),
    key: ((bytes[25] ?? 0) & 1) !== 0,
    discontinuity: ((bytes[25] ?? 0) & 2) !== 0,
    headBytes,
    bytes: total,
    sample: getU32(bytes, 64),
  }
}
