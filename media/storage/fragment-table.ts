/**
 * The index of a file as it lies in memory: the records of the disk in one piece, read field by field, so that a day of 86,400
 * fragments needs no object each.
 *
 * Invariants
 * 1. Immutable; rows stand in order of position.
 * 2. A table holds what its maker proved: nothing is checked here.
 */
import { endianness } from "node:os"
import type { IndexEntry } from "../storage.ts"

/** 32-bit words of a row, in the layout of a fragment's record (see `index-file.ts`). */
const rowWords = 16
const two32 = 0x1_0000_0000
const keyFlag = 0x1_0000
const discontinuityFlag = 0x2_0000

export class FragmentTable {
  readonly length: number
  private readonly words: Uint32Array

  private constructor(words: Uint32Array) {
    this.words = words
    this.length = words.length / rowWords
  }

  /** Takes over whole records as they stand on the disk; they must lie on a 4-byte boundary, and change their byte order here. */
  static take(records: Buffer): FragmentTable {
    if (endianness() === "LE") records.swap32()
    return new FragmentTable(new Uint32Array(records.buffer, records.byteOffset, records.length / 4))
  }

  static of(entries: ReadonlyArray<IndexEntry>): FragmentTable {
    const words = new Uint32Array(entries.length * rowWords)
    for (let row = 0; row < entries.length; row++) {
      const entry = entries[row] as IndexEntry
      const at = row * rowWords
      words[at] = (entry.key ? keyFlag : 0) + (entry.discontinuity ? discontinuityFlag : 0) + entry.frames
      words[at + 1] = entry.bytes
      put(words, at + 2, entry.offset)
      put(words, at + 4, entry.startMs)
      put(words, at + 6, entry.endMs)
      put(words, at + 8, entry.decodeTicks)
      words[at + 10] = entry.durationTicks
    }
    return new FragmentTable(words)
  }

  /** Memory, bytes. */
  get size(): number {
    return this.words.byteLength
  }

  key(row: number): boolean {
    return ((this.words[row * rowWords] as number) & keyFlag) !== 0
  }

  discontinuity(row: number): boolean {
    return ((this.words[row * rowWords] as number) & discontinuityFlag) !== 0
  }

  frames(row: number): number {
    return (this.words[row * rowWords] as number) & 0xffff
  }

  bytes(row: number): number {
    return this.words[row * rowWords + 1] as number
  }

  offset(row: number): number {
    return this.wide(row * rowWords + 2)
  }

  startMs(row: number): number {
    return this.wide(row * rowWords + 4)
  }

  endMs(row: number): number {
    return this.wide(row * rowWords + 6)
  }

  decodeTicks(row: number): number {
    return this.wide(row * rowWords + 8)
  }

  durationTicks(row: number): number {
    return this.words[row * rowWords + 10] as number
  }

  /** Position behind the fragment. */
  endOffset(row: number): number {
    return this.offset(row) + this.bytes(row)
  }

  /** Decode time behind the fragment. */
  endTicks(row: number): number {
    return this.decodeTicks(row) + this.durationTicks(row)
  }

  at(row: number): IndexEntry {
    return {
      startMs: this.startMs(row),
      endMs: this.endMs(row),
      decodeTicks: this.decodeTicks(row),
      durationTicks: this.durationTicks(row),
      offset: this.offset(row),
      bytes: this.bytes(row),
      frames: this.frames(row),
      key: this.key(row),
      discontinuity: this.discontinuity(row),
    }
  }

  /** All rows as objects: for files one by one, not for days. */
  entries(): ReadonlyArray<IndexEntry> {
    return Array.from({ length: this.length }, (_, row) => this.at(row))
  }

  /** The first row at or behind a position of the file; `length` where there is none. */
  rowAt(offset: number): number {
    let low = 0
    let high = this.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if (this.offset(middle) < offset) low = middle + 1
      else high = middle
    }
    return low
  }

  private wide(at: number): number {
    return (this.words[at] as number) * two32 + (this.words[at + 1] as number)
  }
}

const put = (words: Uint32Array, at: number, value: number): void => {
  words[at] = Math.floor(value / two32)
  words[at + 1] = value % two32
}
