/**
 * Boxes of untrusted bytes (ISO/IEC 14496-12, 4.2).
 *
 * Invariants
 * 1. Total: all bytes give a list of boxes that lie wholly inside of them, in order, without overlap; the list ends at the
 *    first box that does not fit.
 * 2. Bounded: each box takes at least 8 bytes, and a list holds at most {@link maxBoxes}.
 */
import { fourCc, getU32, getU64 } from "./bytes.ts"

/** A file's moov has fewer than 20 boxes on any level. */
export const maxBoxes = 1_024

/** One box; `start` and `end` are positions in the bytes that were scanned, `content` is behind the header. */
export interface Box {
  readonly type: string
  readonly start: number
  readonly content: number
  readonly end: number
}

/** The header at `at`: size and header length; null where there is none or the size cannot be. */
export const boxHeader = (
  bytes: Uint8Array,
  at: number,
  end: number,
): { readonly type: string; readonly size: number; readonly header: number } | null => {
  if (at + 8 > end) return null
  const short = getU32(bytes, at)
  const long = short === 1
  if (long && at + 16 > end) return null
  const header = long ? 16 : 8
  const size = long ? getU64(bytes, at + 8) : short === 0 ? end - at : short
  return size < header ? null : { type: fourCc(bytes, at + 4), size, header }
}

/** Boxes between two positions. */
export const scanBoxes = (bytes: Uint8Array, start: number, end: number): ReadonlyArray<Box> => {
  const boxes: Array<Box> = []
  const limit = Math.min(end, bytes.length)
  let at = start
  while (boxes.length < maxBoxes) {
    const header = boxHeader(bytes, at, limit)
    if (header === null || at + header.size > limit) return boxes
    boxes.push({ type: header.type, start: at, content: at + header.header, end: at + header.size })
    at += header.size
  }
  return boxes
}

/** First box of a type directly inside another. `skip`: bytes of fixed fields before the children. */
export const childBox = (bytes: Uint8Array, parent: Box, type: string, skip = 0): Box | null =>
  scanBoxes(bytes, parent.content + skip, parent.end).find((child) => child.type === type) ?? null

/** Follows a path of types downwards. */
export const descend = (bytes: Uint8Array, parent: Box, ...path: ReadonlyArray<string>): Box | null => {
  let here: Box | null = parent
  for (const type of path) here = here === null ? null : childBox(bytes, here, type)
  return here
}
