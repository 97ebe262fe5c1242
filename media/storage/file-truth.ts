/**
 * What a file of footage really contains, from its own bytes and its index. All reads are bounded; nothing is changed here.
 *
 * Invariants
 * 1. Every whole fragment is found, also behind damaged bytes and also without an index.
 * 2. Of what a power cut can have spoilt (the last {@link verifiedBytes}) the payload's sample is proven too.
 */
import type { FileHandle } from "node:fs/promises"
import {
  claimedHeadBytes,
  type FragmentLine,
  fragmentMark,
  lineBytes,
  readFragmentLine,
  samplePayload,
} from "../fmp4/fragment-box.ts"
import { type FileDescription, readIdentity } from "../fmp4/identity-box.ts"
import { type InitPart, readInit } from "../fmp4/init-reader.ts"
import type { IndexEntry } from "../storage.ts"
import type { IndexContent } from "./index-file.ts"

/** Several sync intervals of several cameras' worth: 8 MiB are 16 s of 4 Mbit/s. */
const verifiedBytes = 8 * 1024 * 1024
/** Initialisation part and identity are about 2 KiB; parameter sets may have 64 KiB each. */
const maxFront = 256 * 1024
/** One read gets a usual head. */
const usualHead = 4 * 1024
const searchChunk = 1024 * 1024

/** The front of a file. */
export interface Front {
  readonly init: InitPart
  readonly initBytes: Uint8Array
  readonly description: FileDescription
  /** Position of the first fragment. */
  readonly firstOffset: number
}

export const readAt = async (file: FileHandle, offset: number, length: number): Promise<Buffer> => {
  const buffer = Buffer.allocUnsafe(length)
  let filled = 0
  while (filled < length) {
    const { bytesRead } = await file.read(buffer, filled, length - filled, offset + filled)
    if (bytesRead === 0) break
    filled += bytesRead
  }
  return buffer.subarray(0, filled)
}

/** The front of a file from its first bytes. Total. */
export const parseFront = (bytes: Uint8Array): Front | null => {
  const init = readInit(bytes)
  const identity = init === null ? null : readIdentity(bytes, init.bytes)
  if (init === null || identity === null) return null
  return { init, initBytes: bytes.slice(0, init.bytes), description: identity.description, firstOffset: identity.end }
}

/** Null where the file does not begin like one of ours. */
export const readFront = async (file: FileHandle): Promise<Front | null> =>
  parseFront(await readAt(file, 0, 2 * usualHead)) ?? parseFront(await readAt(file, 0, maxFront))

const entryOf = (line: FragmentLine, offset: number, discontinuity: boolean): IndexEntry => ({
  startMs: line.startMs,
  endMs: line.endMs,
  decodeTicks: line.decodeTicks,
  durationTicks: line.durationTicks,
  offset,
  bytes: line.bytes,
  frames: line.frames,
  key: line.key,
  discontinuity: line.discontinuity || discontinuity,
})

const lineAt = async (file: FileHandle, offset: number): Promise<FragmentLine | null> => {
  const head = await readAt(file, offset, usualHead)
  const claimed = claimedHeadBytes(head)
  if (claimed === null) return null
  return readFragmentLine(claimed <= head.length ? head : await readAt(file, offset, claimed))
}

/** Position of the next fragment mark at or behind `from`, or `size`. */
const nextMark = async (file: FileHandle, from: number, size: number): Promise<number> => {
  for (let at = from; at < size; at += searchChunk) {
    const chunk = await readAt(file, at, Math.min(searchChunk + fragmentMark.length - 1, size - at))
    const found = chunk.indexOf(fragmentMark)
    if (found >= 0) return at + found
  }
  return size
}

/** A fragment that is whole in its payload too. */
const payloadHolds = async (file: FileHandle, entry: IndexEntry): Promise<boolean> => {
  const bytes = await readAt(file, entry.offset, entry.bytes)
  const line = readFragmentLine(bytes)
  return line !== null && line.bytes === bytes.length && samplePayload([bytes.subarray(line.headBytes)]) === line.sample
}

/** Whole fragments from `from` on. `afterHole`: the first of them does not continue what stands before it. */
const scanFragments = async (
  file: FileHandle,
  from: number,
  size: number,
  afterHole: boolean,
): Promise<ReadonlyArray<IndexEntry>> => {
  const entries: Array<IndexEntry> = []
  let hole = afterHole
  let at = from
  while (at + lineBytes <= size) {
    const line = await lineAt(file, at)
    if (line !== null && at + line.bytes <= size) {
      entries.push(entryOf(line, at, hole))
      hole = false
      at += line.bytes
    } else {
      hole = true
      at = await nextMark(file, at + 1, size)
    }
  }
  return entries
}

/** Leaves out what fails its proof within the last {@link verifiedBytes}. */
const proven = async (
  file: FileHandle,
  entries: ReadonlyArray<IndexEntry>,
  size: number,
): Promise<ReadonlyArray<IndexEntry>> => {
  const kept: Array<IndexEntry> = []
  let hole = false
  for (const entry of entries) {
    const holds = entry.offset + entry.bytes <= size - verifiedBytes || (await payloadHolds(file, entry))
    if (holds) kept.push(hole ? { ...entry, discontinuity: true } : entry)
    hole = !holds
  }
  return kept
}

/**
 * The fragments of a file of `size` bytes. The index is believed where it fits; behind it the file itself is read.
 */
export const readFragments = async (
  file: FileHandle,
  front: Front,
  index: IndexContent,
  size: number,
): Promise<ReadonlyArray<IndexEntry>> => {
  const fits = index.header !== null && index.header.description.id === front.description.id &&
    index.header.firstOffset === front.firstOffset
  const known = fits ? index.entries.filter((entry) => entry.offset + entry.bytes <= size) : []
  const last = known.at(-1)
  const from = last === undefined ? front.firstOffset : last.offset + last.bytes
  return proven(file, [...known, ...(await scanFragments(file, from, size, false))], size)
}

/** End of the last whole fragment. */
export const endOf = (front: Front, entries: ReadonlyArray<IndexEntry>): number => {
  const last = entries.at(-1)
  return last === undefined ? front.firstOffset : last.offset + last.bytes
}
