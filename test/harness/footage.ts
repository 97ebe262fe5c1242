/**
 * Reads a folder of footage as it lies on the disk, and says where media, fragment lines and index disagree.
 *
 * Invariants
 * 1. It shares no code with the product: boxes and records are read anew from their documented layout.
 * 2. Nothing is changed.
 */
import { execFile } from "node:child_process"
import { createHash } from "node:crypto"
import { existsSync, globSync, readFileSync } from "node:fs"
import * as path from "node:path"
import { crc32 } from "node:zlib"
import { type FrameMark, tracksOfMp4 } from "../camera-simulator/frames.ts"

/** What is told of a fragment, by its own line or by the index. Times are epoch ms, ticks 90 kHz. */
interface Line {
  readonly offset: number
  readonly bytes: number
  readonly startMs: number
  readonly endMs: number
  readonly decodeTicks: number
  readonly durationTicks: number
  readonly frames: number
  readonly key: boolean
  readonly discontinuity: boolean
}

/** A picture as it is stored. */
export interface StoredFrame extends FrameMark {
  /** Where its file puts it on the wall clock, epoch ms with a fraction. */
  readonly wallMs: number
}

export interface DiskFile {
  readonly path: string
  readonly id: string
  readonly recordingId: string
  readonly sequence: number
  readonly epoch: number
  readonly size: number
  /** End of the last whole fragment. */
  readonly wholeBytes: number
  readonly fragments: ReadonlyArray<Line>
  readonly frames: ReadonlyArray<StoredFrame>
  /** Where pictures that tell no number stand on the wall clock, epoch ms with a fraction. */
  readonly unmarked: ReadonlyArray<number>
  /** The index ends with a seal. */
  readonly sealed: boolean
  /** Of the bytes up to `wholeBytes`. */
  readonly digest: string
  readonly faults: ReadonlyArray<string>
}

const recordBytes = 64
const identityType = "6e6a69643f0e4b7e8d51c2a94e6b7f03"
const lineType = "6e6a6672a1c84d0f9b27e35d7f10b6c4"

interface Piece {
  readonly type: string
  readonly at: number
  readonly size: number
}

/** Top-level boxes that are whole. */
const pieces = (bytes: Buffer): ReadonlyArray<Piece> => {
  const found: Array<Piece> = []
  for (let at = 0; at + 8 <= bytes.length;) {
    const size = bytes.readUInt32BE(at)
    if (size < 8 || at + size > bytes.length) break
    const name = bytes.toString("latin1", at + 4, at + 8)
    found.push({ type: name === "uuid" ? bytes.toString("hex", at + 8, at + 24) : name, at, size })
    at += size
  }
  return found
}

const wide = (bytes: Buffer, at: number): number => Number(bytes.readBigUInt64BE(at))

const lineOf = (bytes: Buffer, at: number): Line => ({
  offset: at,
  bytes: bytes.readUInt32BE(at + 32),
  startMs: wide(bytes, at + 36),
  endMs: wide(bytes, at + 44),
  decodeTicks: wide(bytes, at + 52),
  durationTicks: bytes.readUInt32BE(at + 60),
  frames: bytes.readUInt16BE(at + 26),
  key: (bytes[at + 25]! & 1) !== 0,
  discontinuity: (bytes[at + 25]! & 2) !== 0,
})

const recordOf = (bytes: Buffer, at: number): Line => ({
  offset: wide(bytes, at + 8),
  bytes: bytes.readUInt32BE(at + 4),
  startMs: wide(bytes, at + 16),
  endMs: wide(bytes, at + 24),
  decodeTicks: wide(bytes, at + 32),
  durationTicks: bytes.readUInt32BE(at + 40),
  frames: bytes.readUInt16BE(at + 2),
  key: (bytes[at + 1]! & 1) !== 0,
  discontinuity: (bytes[at + 1]! & 2) !== 0,
})

const fieldsOf = (line: Line): string => JSON.stringify(Object.values(line))

interface IndexRead {
  readonly lines: ReadonlyArray<Line>
  readonly seal: {
    readonly fragments: number
    readonly bytes: number
    readonly startMs: number
    readonly endMs: number
    readonly frames: number
  } | null
  readonly faults: ReadonlyArray<string>
}

const checksumHolds = (bytes: Buffer): boolean =>
  crc32(bytes.subarray(0, bytes.length - 4)) === bytes.readUInt32BE(bytes.length - 4)

/** `torn`: a process died while it wrote, so that a piece of a record may stand at the end. */
const readIndex = (bytes: Buffer, id: string, initBytes: number, firstOffset: number): IndexRead => {
  const faults: Array<string> = []
  const header = bytes.subarray(0, 3 * recordBytes)
  if (header.length < 3 * recordBytes || header.toString("latin1", 0, 4) !== "NJIX" || !checksumHolds(header)) {
    return { lines: [], seal: null, faults: ["the index has no valid header"] }
  }
  if (header.toString("hex", 16, 32) !== id.replaceAll("-", "")) faults.push("the index belongs to another file")
  if (header.readUInt32BE(8) !== initBytes) faults.push("the index has another length of the initialisation part")
  if (header.readUInt32BE(12) !== firstOffset) faults.push("the index puts the first fragment elsewhere")
  const lines: Array<Line> = []
  let seal: IndexRead["seal"] = null
  for (let at = header.length; at + recordBytes <= bytes.length; at += recordBytes) {
    const record = bytes.subarray(at, at + recordBytes)
    if (seal !== null) faults.push("the index goes on behind its seal")
    if (!checksumHolds(record)) faults.push(`record ${lines.length} of the index fails its checksum`)
    else if (record[0] === 1) lines.push(recordOf(bytes, at))
    else if (record[0] === 2) {
      if (record.readUInt32BE(40) !== crc32(bytes.subarray(header.length, at))) {
        faults.push("the seal's checksum over the records is wrong")
      }
      seal = {
        fragments: record.readUInt32BE(4),
        bytes: wide(record, 8),
        startMs: wide(record, 16),
        endMs: wide(record, 24),
        frames: wide(record, 32),
      }
    } else faults.push(`record ${lines.length} of the index is of an unknown kind`)
  }
  if (seal !== null && bytes.length % recordBytes !== 0) faults.push("a sealed index has a torn record")
  return { lines, seal, faults }
}

/** Compares what index and lines say with what the boxes are. */
const compare = (bytes: Buffer, fragments: ReadonlyArray<Line>, index: IndexRead): ReadonlyArray<string> => {
  const faults: Array<string> = [...index.faults]
  index.lines.forEach((line, i) => {
    const own = fragments[i]
    if (own === undefined) faults.push(`the index has fragment ${i}, the file has not`)
    else if (fieldsOf(own) !== fieldsOf(line)) {
      faults.push(`fragment ${i} is ${fieldsOf(own)}, the index says ${fieldsOf(line)}`)
    }
  })
  const { seal } = index
  if (seal === null) return faults
  const last = fragments.at(-1)
  const end = last === undefined ? null : last.offset + last.bytes
  const wanted = {
    fragments: fragments.length,
    bytes: bytes.length,
    startMs: fragments[0]?.startMs,
    endMs: Math.max(...fragments.map((line) => line.endMs)),
    frames: fragments.reduce((sum, line) => sum + line.frames, 0),
  }
  if (index.lines.length !== fragments.length) {
    faults.push(`sealed with ${index.lines.length} records for ${fragments.length} fragments`)
  }
  if (JSON.stringify(wanted) !== JSON.stringify(seal)) {
    faults.push(`sealed as ${JSON.stringify(seal)}, is ${JSON.stringify(wanted)}`)
  }
  if (end !== bytes.length) faults.push(`sealed with ${bytes.length - (end ?? 0)} bytes behind the last fragment`)
  return faults
}

/** Whole fragments; each is a line, a `moof` and an `mdat`. */
const fragmentsOf = (
  bytes: Buffer,
  boxes: ReadonlyArray<Piece>,
  from: number,
  faults: Array<string>,
): ReadonlyArray<Line> => {
  const fragments: Array<Line> = []
  for (let i = from; i < boxes.length; i += 3) {
    const [line, moof, mdat] = [boxes[i], boxes[i + 1], boxes[i + 2]]
    if (line?.type !== lineType) {
      faults.push(`box ${line?.type} at ${line?.at} where a fragment should begin`)
      break
    }
    // The end of a file that is being written, or whose writer was killed.
    if (moof === undefined || mdat === undefined) break
    if (moof.type !== "moof" || mdat.type !== "mdat") {
      faults.push(`boxes ${moof.type} and ${mdat.type} in the fragment at ${line.at}`)
      break
    }
    const told = lineOf(bytes, line.at)
    if (told.bytes !== line.size + moof.size + mdat.size) faults.push(`the fragment at ${line.at} tells another length`)
    fragments.push(told)
  }
  return fragments
}

/** Reads one file; throws where it cannot be read at all. */
export const readFootage = (file: string): DiskFile => {
  // First: a fragment that is written in the meantime may be in the file and not in the index, but not the other way round.
  const indexPath = file.replace(/\.mp4$/, ".idx")
  const indexBytes = existsSync(indexPath) ? readFileSync(indexPath) : null
  const bytes = readFileSync(file)
  const boxes = pieces(bytes)
  const faults: Array<string> = []
  const [ftyp, moov, identity] = boxes
  if (ftyp?.type !== "ftyp" || moov?.type !== "moov" || identity?.type !== identityType) {
    throw new Error(`${file} begins with ${boxes.slice(0, 3).map((box) => box.type).join(" ")}`)
  }
  const told = JSON.parse(bytes.toString("utf8", identity.at + 24, identity.at + identity.size)) as {
    readonly id: string
    readonly recordingId: string
    readonly sequence: number
    readonly epoch: number
  }
  const firstOffset = identity.at + identity.size
  const fragments = fragmentsOf(bytes, boxes, 3, faults)
  const last = fragments.at(-1)
  const wholeBytes = last === undefined ? firstOffset : last.offset + last.bytes
  const whole = bytes.subarray(0, wholeBytes)
  const samples = tracksOfMp4(whole).find((track) => track.video)?.samples ?? []
  const frames: Array<StoredFrame> = []
  const unmarked: Array<number> = []
  const counts = new Map<number, number>()
  for (const sample of samples) {
    const fragment = fragments[sample.fragment - 1]!
    if (!counts.has(sample.fragment)) {
      if (sample.decodeTime !== fragment.decodeTicks) {
        faults.push(`fragment ${sample.fragment - 1} tells another decode time`)
      }
      if (sample.sync !== fragment.key) faults.push(`fragment ${sample.fragment - 1} is wrong about its first picture`)
    }
    counts.set(sample.fragment, (counts.get(sample.fragment) ?? 0) + 1)
    const wallMs = fragment.startMs + (sample.decodeTime - fragment.decodeTicks) / 90
    if (sample.mark !== null) frames.push({ ...sample.mark, wallMs })
    else {
      unmarked.push(wallMs)
      faults.push(`the picture at ${sample.offset} carries no mark`)
    }
  }
  fragments.forEach((fragment, i) => {
    if (counts.get(i + 1) !== fragment.frames) {
      faults.push(`fragment ${i} tells ${fragment.frames} pictures, has ${counts.get(i + 1)}`)
    }
  })
  // A file whose writer was killed before its first fragment may lack an index, or have half of the index's front.
  const unborn = fragments.length === 0 && (indexBytes?.length ?? 0) < 3 * recordBytes
  const index = indexBytes === null || unborn ?
    { lines: [], seal: null, faults: unborn ? [] : ["there is no index"] } :
    readIndex(indexBytes, told.id, ftyp.size + moov.size, firstOffset)
  faults.push(...compare(bytes, fragments, index))
  if (path.basename(file, ".mp4") !== told.id) faults.push(`the file says it is ${told.id}`)
  return {
    path: file,
    ...told,
    size: bytes.length,
    wholeBytes,
    fragments,
    frames,
    unmarked,
    sealed: index.seal !== null,
    digest: createHash("sha1").update(whole).digest("hex"),
    faults: faults.map((fault) => `${path.basename(file)}: ${fault}`),
  }
}

export const listFootage = (folder: string): ReadonlyArray<string> =>
  globSync(path.join(folder, "**", "*.mp4")).toSorted()

/** Whether bytes that a file had before are still there unchanged. */
export const stillHas = (before: DiskFile): boolean =>
  existsSync(before.path) &&
  createHash("sha1").update(readFileSync(before.path).subarray(0, before.wholeBytes)).digest("hex") === before.digest

/** Has ffprobe decode a file: how many pictures came out, and what it had to say. */
export const decode = (file: string): Promise<{ readonly pictures: number; readonly errors: string }> =>
  new Promise((resolve, reject) => {
    const what = ["-count_frames", "-select_streams", "v:0", "-show_entries", "stream=nb_read_frames", "-of", "csv=p=0"]
    execFile(
      "ffprobe",
      ["-v", "error", "-threads", "1", ...what, file],
      { maxBuffer: 1 << 22 },
      (error, stdout, stderr) => {
        if (error !== null && error.code === "ENOENT") return reject(new Error("ffprobe is not installed"))
        const pictures = Number.parseInt(stdout, 10)
        resolve({ pictures: Number.isNaN(pictures) ? 0 : pictures, errors: stderr.trim() })
      },
    )
  })

/** The pictures of a recording in a folder of footage. */
export const framesIn = (folder: string, recordingId: string): ReadonlyArray<StoredFrame> =>
  listFootage(folder).flatMap((file) => {
    try {
      const footage = readFootage(file)
      return footage.recordingId === recordingId ? footage.frames : []
    } catch {
      // Killed while its front was written: it holds nothing. Or it went home meanwhile.
      return []
    }
  })
