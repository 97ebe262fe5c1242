/**
 * Outlines: a day of one recording's sealed files in one file, `<day>.outline` beside them (the day since 1970, in UTC, on which a
 * file begins). For each it has a head of one record and rows in the layout of an index, each row the fragments of one replay segment.
 * A playlist of 24 hours is made from one or two reads of a megabyte instead of 144 indexes with 86,400 fragments.
 *
 *     head   0 kind 3   4 rows (4)   8 length of the footage file (8)   16 its id (16)   32 its pictures (8)
 *           40 CRC-32 of the rows (4)   44 zeros   60 CRC-32 of the bytes before
 *
 * Invariants
 * 1. Derived: an outline that is missing, damaged or of another length than its file is made again from the index.
 * 2. Appended when a file is sealed, or when one was missed; of two outlines of a file the later one counts. Deleted with the last
 *    file of its day, before it.
 * 3. Total: whatever the bytes, they give the outlines whose checksums hold.
 */
import { appendFile, readFile } from "node:fs/promises"
import { join } from "node:path"
import { crc32 } from "node:zlib"
import { getU32, getU64, putU64 } from "../fmp4/bytes.ts"
import { finishedGrouping, planOf } from "../hls/plan.ts"
import type { IndexEntry } from "../storage.ts"
import { FragmentTable } from "./fragment-table.ts"
import { encodeEntries, recordBytes } from "./index-file.ts"

const headKind = 3
/** What a record can say. */
const mostBytes = 2 ** 32
const mostFrames = 2 ** 16
/** A day of files that are rotated every few seconds; more is not read. */
const mostOutlineBytes = 64 * 1024 * 1024

/** The footage file an outline is of. */
export interface Outlined {
  readonly id: string
  readonly bytes: number
  readonly frames: number
}

export interface Outline extends Outlined {
  readonly table: FragmentTable
}

/** Day since 1970 whose outlines tell of a file. */
export const dayOf = (startMs: number): number => Math.floor(startMs / 86_400_000)

export const outlinePath = (directory: string, day: number): string => join(directory, `${day}.outline`)

const merged = (table: FragmentTable, from: number, to: number): IndexEntry => {
  let frames = 0
  for (let row = from; row < to; row++) frames += table.frames(row)
  return {
    ...table.at(from),
    endMs: table.endMs(to - 1),
    durationTicks: table.endTicks(to - 1) - table.decodeTicks(from),
    bytes: table.endOffset(to - 1) - table.offset(from),
    frames,
  }
}

/** A row for each segment of the whole file; null where a segment is too large for one. */
const outlineOf = (table: FragmentTable): ReadonlyArray<IndexEntry> | null => {
  const all = { from: 0, to: table.length }
  const { edges } = planOf(table, all, finishedGrouping, { complete: true, cuts: new Set() })
  const rows = edges.slice(1).map((to, i) => merged(table, edges[i] as number, to))
  const fits = rows.every(({ bytes, durationTicks, frames }) =>
    bytes < mostBytes && frames < mostFrames && durationTicks < mostBytes
  )
  return fits ? rows : null
}

/** The outline of a file as it is stored; empty where there cannot be one. */
export const encodeOutline = ({ bytes, frames, id }: Outlined, table: FragmentTable): Buffer => {
  const outline = outlineOf(table)
  if (outline === null) return Buffer.alloc(0)
  const rows = encodeEntries(outline)
  const head = Buffer.alloc(recordBytes)
  head[0] = headKind
  head.writeUInt32BE(outline.length, 4)
  putU64(head, bytes, 8)
  head.write(id.replaceAll("-", ""), 16, 16, "hex")
  putU64(head, frames, 32)
  head.writeUInt32BE(crc32(rows), 40)
  head.writeUInt32BE(crc32(head.subarray(0, 60)), 60)
  return Buffer.concat([head, rows])
}

const idAt = (bytes: Buffer, at: number): string => {
  const hex = bytes.toString("hex", at, at + 16)
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}

/** Rows behind the head at `at`, copied to a place of their own; null where there is no such head, or its rows are not whole. */
const rowsAt = (bytes: Buffer, at: number): Buffer | null => {
  if (bytes[at] !== headKind || at + recordBytes > bytes.length) return null
  if (crc32(bytes.subarray(at, at + 60)) !== getU32(bytes, at + 60)) return null
  const from = at + recordBytes
  const to = from + getU32(bytes, at + 4) * recordBytes
  if (to > bytes.length || crc32(bytes.subarray(from, to)) !== getU32(bytes, at + 40)) return null
  const rows = Buffer.allocUnsafeSlow(to - from)
  bytes.copy(rows, 0, from, to)
  return rows
}

/** What can be believed of an outline file. Behind damage it is searched byte by byte: an append may have been torn. */
export const decodeOutlines = (bytes: Buffer): ReadonlyArray<Outline> => {
  const found: Array<Outline> = []
  for (let at = 0; at + recordBytes <= bytes.length;) {
    const rows = rowsAt(bytes, at)
    if (rows === null) {
      at++
      continue
    }
    found.push({
      id: idAt(bytes, at + 16),
      bytes: getU64(bytes, at + 8),
      frames: getU64(bytes, at + 32),
      table: FragmentTable.take(rows),
    })
    at += recordBytes + rows.length
  }
  return found
}

/** Outlines of a day, by file id; none where the file cannot be read. */
export const readOutlines = async (path: string): Promise<ReadonlyMap<string, Outline>> => {
  const bytes = await readFile(path).catch(() => null)
  if (bytes === null || bytes.length > mostOutlineBytes) return new Map()
  return new Map(decodeOutlines(bytes).map((outline) => [outline.id, outline]))
}

/** Best effort: without the line the index is read. */
export const appendOutlines = async (path: string, lines: Uint8Array): Promise<void> => {
  if (lines.length > 0) await appendFile(path, lines).catch(() => undefined)
}
