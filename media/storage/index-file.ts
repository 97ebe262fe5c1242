/**
 * The index beside a file of footage: a header of three records, one record a fragment, and a last one when the file is sealed.
 * Everything is big-endian; a record has {@link recordBytes} bytes.
 *
 *     header    0 "NJIX"   4 version (2)   6 record length (2)   8 length of ftyp+moov (4)   12 first fragment's position (4)
 *              16 file   32 recording   48 token   64 stream   80 channel   96 node   (16 bytes each)
 *             112 epoch (8)  120 sequence (8)  128 start, epoch ms (8)  136 zeros  188 CRC-32 of the bytes before
 *     fragment  0 kind 1   1 flags: 1 key, 2 discontinuity   2 pictures (2)   4 bytes (4)   8 position (8)   16 start ms (8)
 *              24 end ms (8)   32 decode ticks (8)   40 duration in ticks (4)   44 authentication tag (16)   60 CRC-32
 *     seal      0 kind 2   4 fragments (4)   8 length of the file (8)   16 start ms (8)   24 end ms (8)   32 pictures (8)
 *              40 CRC-32 of all fragments' records (4)   44 zeros   60 CRC-32
 *
 * Invariants
 * 1. A record is believed only if its checksum holds and it lies behind the record before it; those of a sealed file are believed
 *    together if the seal's checksum over all of them holds.
 * 2. Total: whatever the bytes, they give the longest believable front.
 * 3. The seal's checksum spares work and nothing else: where it does not hold, the records are read one by one.
 */
import { Option, Schema } from "effect"
import { crc32 } from "node:zlib"
import { getU16, getU32, getU64, putU64, sameBytes } from "../fmp4/bytes.ts"
import { FileDescription } from "../fmp4/identity-box.ts"
import type { IndexEntry } from "../storage.ts"
import { FragmentTable } from "./fragment-table.ts"

export const recordBytes = 64
export const headerBytes = 3 * recordBytes
const version = 1
const magic = Buffer.from("NJIX")
const fragmentKind = 1
const sealKind = 2

export interface IndexHeader {
  readonly description: FileDescription
  /** Length of `ftyp` and `moov`. */
  readonly initBytes: number
  readonly firstOffset: number
}

export interface Seal {
  readonly fragments: number
  readonly bytes: number
  readonly startMs: number
  readonly endMs: number
  readonly frames: number
}

/** What an index file says, as far as it can be believed. */
export interface IndexContent {
  readonly header: IndexHeader | null
  readonly entries: ReadonlyArray<IndexEntry>
  readonly seal: Seal | null
}

const idFields = ["id", "recordingId", "recordingToken", "streamId", "channelId", "nodeId"] as const

const putId = (bytes: Buffer, id: string, at: number): void => {
  bytes.write(id.replaceAll("-", ""), at, 16, "hex")
}

const getId = (bytes: Uint8Array, at: number): string => {
  const hex = Buffer.from(bytes.buffer, bytes.byteOffset + at, 16).toString("hex")
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}

const sealCrc = (record: Buffer): Buffer => {
  record.writeUInt32BE(crc32(record.subarray(0, record.length - 4)), record.length - 4)
  return record
}

const crcHolds = (bytes: Uint8Array): boolean =>
  crc32(bytes.subarray(0, bytes.length - 4)) === getU32(bytes, bytes.length - 4)

export const encodeHeader = (header: IndexHeader): Buffer => {
  const bytes = Buffer.alloc(headerBytes)
  magic.copy(bytes)
  bytes.writeUInt16BE(version, 4)
  bytes.writeUInt16BE(recordBytes, 6)
  bytes.writeUInt32BE(header.initBytes, 8)
  bytes.writeUInt32BE(header.firstOffset, 12)
  idFields.forEach((field, i) => putId(bytes, header.description[field], 16 + 16 * i))
  putU64(bytes, header.description.epoch, 112)
  putU64(bytes, header.description.sequence, 120)
  putU64(bytes, header.description.startMs, 128)
  return sealCrc(bytes)
}

const decodeDescription = Schema.decodeUnknownOption(FileDescription)

/** Bytes of a header that say whose file it is: all but the file's own id, its place in the sequence and its start. */
const ownerOf = (header: Uint8Array): Uint8Array => header.subarray(32, 120)

const headerHolds = (front: Uint8Array): boolean =>
  front.length === headerBytes && crcHolds(front) && magic.compare(front, 0, 4) === 0 && getU16(front, 4) === version

const readDescription = (front: Uint8Array): FileDescription | null => {
  const ids = Object.fromEntries(idFields.map((field, i) => [field, getId(front, 16 + 16 * i)]))
  const numbers = { epoch: getU64(front, 112), sequence: getU64(front, 120), startMs: getU64(front, 128) }
  return Option.getOrNull(decodeDescription({ version: 1, ...ids, ...numbers }))
}

/** A decoder for many headers in a row: the owner, which rarely changes, is validated once. */
export const decodeHeaders = (): (bytes: Uint8Array) => IndexHeader | null => {
  let owner: Uint8Array | null = null
  let known: FileDescription | null = null
  return (bytes) => {
    const front = bytes.subarray(0, headerBytes)
    if (!headerHolds(front)) return null
    const same = owner !== null && sameBytes(owner, ownerOf(front))
    known = same && known !== null ?
      { ...known, id: getId(front, 16), sequence: getU64(front, 120), startMs: getU64(front, 128) } :
      readDescription(front)
    owner = ownerOf(front)
    return known === null ? null : { description: known, initBytes: getU32(front, 8), firstOffset: getU32(front, 12) }
  }
}

export const decodeHeader = (bytes: Uint8Array): IndexHeader | null => decodeHeaders()(bytes)

/** Writes one fragment's record at `at`. */
const putEntry = (bytes: Buffer, at: number, entry: IndexEntry): void => {
  const record = bytes.subarray(at, at + recordBytes)
  record[0] = fragmentKind
  record[1] = (entry.key ? 1 : 0) | (entry.discontinuity ? 2 : 0)
  record.writeUInt16BE(entry.frames, 2)
  record.writeUInt32BE(entry.bytes, 4)
  putU64(record, entry.offset, 8)
  putU64(record, entry.startMs, 16)
  putU64(record, entry.endMs, 24)
  putU64(record, entry.decodeTicks, 32)
  record.writeUInt32BE(entry.durationTicks, 40)
  sealCrc(record)
}

/** Records of some fragments, one behind the other. */
export const encodeEntries = (entries: ReadonlyArray<IndexEntry>): Buffer => {
  const bytes = Buffer.alloc(entries.length * recordBytes)
  entries.forEach((entry, i) => putEntry(bytes, i * recordBytes, entry))
  return bytes
}

/** `recordsCrc`: CRC-32 of all records before it; 0 where the seal stands alone. */
export const encodeSeal = (seal: Seal, recordsCrc = 0): Buffer => {
  const record = Buffer.alloc(recordBytes)
  record[0] = sealKind
  record.writeUInt32BE(seal.fragments, 4)
  putU64(record, seal.bytes, 8)
  putU64(record, seal.startMs, 16)
  putU64(record, seal.endMs, 24)
  putU64(record, seal.frames, 32)
  record.writeUInt32BE(recordsCrc, 40)
  return sealCrc(record)
}

/** The seal in the last record of an index; null where there is none. */
export const decodeSeal = (record: Uint8Array): Seal | null => {
  if (record.length !== recordBytes || record[0] !== sealKind || !crcHolds(record)) return null
  return {
    fragments: getU32(record, 4),
    bytes: getU64(record, 8),
    startMs: getU64(record, 16),
    endMs: getU64(record, 24),
    frames: getU64(record, 32),
  }
}

const decodeEntry = (record: Uint8Array): IndexEntry | null => {
  if (record[0] !== fragmentKind || !crcHolds(record)) return null
  const flags = record[1] ?? 0
  return {
    startMs: getU64(record, 16),
    endMs: getU64(record, 24),
    decodeTicks: getU64(record, 32),
    durationTicks: getU32(record, 40),
    offset: getU64(record, 8),
    bytes: getU32(record, 4),
    frames: getU16(record, 2),
    key: (flags & 1) !== 0,
    discontinuity: (flags & 2) !== 0,
  }
}

/** Reads an index file. A seal counts only if it stands right behind as many fragments as it says. */
export const decodeIndex = (bytes: Uint8Array): IndexContent => {
  const header = decodeHeader(bytes)
  if (header === null) return { header, entries: [], seal: null }
  const entries: Array<IndexEntry> = []
  let end = header.firstOffset
  for (let at = headerBytes; at + recordBytes <= bytes.length; at += recordBytes) {
    const record = bytes.subarray(at, at + recordBytes)
    const entry = decodeEntry(record)
    if (entry === null) {
      const seal = decodeSeal(record)
      return { header, entries, seal: seal !== null && seal.fragments === entries.length ? seal : null }
    }
    if (entry.offset < end || entry.bytes === 0) break
    entries.push(entry)
    end = entry.offset + entry.bytes
  }
  return { header, entries, seal: null }
}

/** Length of the index of a sealed file. */
export const sealedIndexBytes = (fragments: number): number => headerBytes + (fragments + 1) * recordBytes

/** Whether each row is a fragment behind the one before. */
const isOrdered = (table: FragmentTable, firstOffset: number): boolean => {
  let end = firstOffset
  for (let row = 0; row < table.length; row++) {
    const offset = table.offset(row)
    const bytes = table.bytes(row)
    if (offset < end || bytes === 0) return false
    end = offset + bytes
  }
  return true
}

/**
 * The fragments of a sealed file with that id, without a look at each record's checksum. Takes the bytes over. Null where they are
 * not a whole, undamaged, sealed index of that file: {@link decodeIndex} may still find something, in a fresh copy.
 */
export const takeSealed = (bytes: Buffer, id: string): FragmentTable | null => {
  const header = bytes.subarray(0, headerBytes)
  if (!headerHolds(header) || getId(header, 16) !== id) return null
  const records = bytes.subarray(headerBytes, bytes.length - recordBytes)
  const last = bytes.subarray(bytes.length - recordBytes)
  const seal = decodeSeal(last)
  if (seal === null || seal.fragments * recordBytes !== records.length) return null
  if (crc32(records) !== getU32(last, 40) || bytes.byteOffset % 4 !== 0) return null
  const firstOffset = getU32(header, 12)
  const table = FragmentTable.take(records)
  return isOrdered(table, firstOffset) ? table : null
}

/** A whole index file of a sealed file. */
export const encodeIndex = (header: IndexHeader, entries: ReadonlyArray<IndexEntry>, seal: Seal): Buffer => {
  const records = encodeEntries(entries)
  return Buffer.concat([encodeHeader(header), records, encodeSeal(seal, crc32(records))])
}

/** Sums over the fragments of a file of `bytes` bytes. */
export const sealOf = (
  entries: ReadonlyArray<IndexEntry>,
  description: Pick<FileDescription, "startMs">,
  bytes: number,
): Seal => ({
  fragments: entries.length,
  bytes,
  startMs: entries[0]?.startMs ?? description.startMs,
  endMs: entries.reduce((latest, entry) => Math.max(latest, entry.endMs), entries[0]?.startMs ?? description.startMs),
  frames: entries.reduce((sum, entry) => sum + entry.frames, 0),
})
