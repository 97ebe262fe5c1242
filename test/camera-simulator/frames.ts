/**
 * Counts frames: finds the simulator's marks in recorded bytes, so that a test can say "frames 125 to 1624, none missing".
 * It shares no code with what it checks.
 *
 * Invariants
 * 1. `framesOfMp4` walks boxes and sample tables (ISO/IEC 14496-12) and looks for marks only inside a video track's samples:
 *    a frame that no sample covers is not found.
 * 2. Order is the order of decoding in the file.
 */

export interface FrameMark {
  /** The mount's path, as `/cam/0/sub`. */
  readonly name: string
  readonly frame: number
  /** Epoch milliseconds at which the camera sent it. */
  readonly sentMs: number
}

export interface Sample {
  readonly mark: FrameMark | null
  /** 1 for the first `moof`, 0 where the file is not fragmented. */
  readonly fragment: number
  readonly offset: number
  readonly bytes: number
  /** In the track's time scale. */
  readonly decodeTime: number
  readonly compositionOffset: number
  readonly duration: number
  readonly sync: boolean
}

export interface TrackFrames {
  readonly trackId: number
  readonly timescale: number
  readonly samples: ReadonlyArray<Sample>
}

const UUID = "nightjar-frame-1"
const MARK = /^nightjar-frame-1sim1 ([\x20-\x7e]{32}) (\d{12}) (\d{13})/

const markAt = (bytes: Buffer, at: number): FrameMark | null => {
  const found = MARK.exec(bytes.toString("latin1", at, at + 100))
  return found === null ? null : { name: found[1]!.trim(), frame: Number(found[2]), sentMs: Number(found[3]) }
}

/** Marks anywhere in the bytes: Annex-B, length-prefixed, transport packets, whatever holds them unbroken. */
export const framesOf = (bytes: Uint8Array): Array<FrameMark> => {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const found: Array<FrameMark> = []
  for (let at = buffer.indexOf(UUID, 0, "latin1"); at >= 0; at = buffer.indexOf(UUID, at + 1, "latin1")) {
    const mark = markAt(buffer, at)
    if (mark !== null) found.push(mark)
  }
  return found
}

interface Box {
  readonly type: string
  readonly start: number
  readonly body: number
  readonly end: number
}

function* boxes(bytes: Buffer, from: number, to: number): Generator<Box> {
  for (let at = from; at + 8 <= to;) {
    const small = bytes.readUInt32BE(at)
    const size = small === 1 && at + 16 <= to ? Number(bytes.readBigUInt64BE(at + 8)) : small === 0 ? to - at : small
    const body = at + (small === 1 ? 16 : 8)
    // A file may end within its last box: what is there counts, what is not does not.
    if (size < body - at) throw new Error(`box of ${size} bytes at ${at}`)
    yield { type: bytes.toString("latin1", at + 4, at + 8), start: at, body, end: Math.min(to, at + size) }
    at += size
  }
}

const find = (bytes: Buffer, within: Box, ...names: ReadonlyArray<string>): Box | null => {
  let box: Box | null = within
  for (const name of names) {
    const parent: Box | null = box
    box = parent === null ?
      null :
      ([...boxes(bytes, parent.body, parent.end)].find((child) => child.type === name) ?? null)
  }
  return box
}

interface Track {
  readonly id: number
  readonly timescale: number
  readonly video: boolean
  readonly samples: Array<Sample>
  defaults: { duration: number; size: number; flags: number }
  nextDecodeTime: number
}

const trackOf = (bytes: Buffer, trak: Box): Track => {
  const tkhd = find(bytes, trak, "tkhd")
  const mdhd = find(bytes, trak, "mdia", "mdhd")
  const hdlr = find(bytes, trak, "mdia", "hdlr")
  if (tkhd === null || mdhd === null || hdlr === null) throw new Error("track without tkhd, mdhd or hdlr")
  return {
    id: bytes.readUInt32BE(tkhd.body + (bytes[tkhd.body] === 1 ? 20 : 12)),
    timescale: bytes.readUInt32BE(mdhd.body + (bytes[mdhd.body] === 1 ? 20 : 12)),
    video: bytes.toString("latin1", hdlr.body + 8, hdlr.body + 12) === "vide",
    samples: [],
    defaults: { duration: 0, size: 0, flags: 0 },
    nextDecodeTime: 0,
  }
}

/** The mark within one sample; null where it has none (or the file ends before it). */
const markWithin = (bytes: Buffer, offset: number, size: number): FrameMark | null => {
  const at = bytes.subarray(offset, Math.min(bytes.length, offset + size)).indexOf(UUID, 0, "latin1")
  return at < 0 ? null : markAt(bytes, offset + at)
}

/** `tfhd` (8.8.7), `tfdt` (8.8.12), `trun` (8.8.8). */
const readTraf = (bytes: Buffer, traf: Box, moof: Box, tracks: ReadonlyMap<number, Track>, fragment: number): void => {
  const tfhd = find(bytes, traf, "tfhd")
  if (tfhd === null) throw new Error(`traf without tfhd at ${traf.start}`)
  const flags = bytes.readUIntBE(tfhd.body + 1, 3)
  const track = tracks.get(bytes.readUInt32BE(tfhd.body + 4))
  if (track === undefined) return
  let at = tfhd.body + 8
  let base = moof.start
  if ((flags & 0x1) !== 0) {
    base = Number(bytes.readBigUInt64BE(at))
    at += 8
  }
  if ((flags & 0x2) !== 0) at += 4
  const optional = (bit: number, otherwise: number): number => {
    if ((flags & bit) === 0) return otherwise
    at += 4
    return bytes.readUInt32BE(at - 4)
  }
  const defaults = {
    duration: optional(0x8, track.defaults.duration),
    size: optional(0x10, track.defaults.size),
    flags: optional(0x20, track.defaults.flags),
  }
  const tfdt = find(bytes, traf, "tfdt")
  if (tfdt !== null) {
    track.nextDecodeTime = bytes[tfdt.body] === 1 ?
      Number(bytes.readBigUInt64BE(tfdt.body + 4)) :
      bytes.readUInt32BE(tfdt.body + 4)
  }
  let offset = base
  for (const trun of boxes(bytes, traf.body, traf.end)) {
    if (trun.type === "trun") offset = readTrun(bytes, trun, { base, offset, track, defaults, fragment })
  }
}

interface Run {
  readonly base: number
  readonly offset: number
  readonly track: Track
  readonly defaults: Track["defaults"]
  readonly fragment: number
}

/** Answers where the run's data end. */
const readTrun = (bytes: Buffer, trun: Box, run: Run): number => {
  const flags = bytes.readUIntBE(trun.body + 1, 3)
  const count = bytes.readUInt32BE(trun.body + 4)
  let at = trun.body + 8
  let offset = run.offset
  if ((flags & 0x1) !== 0) {
    offset = run.base + bytes.readInt32BE(at)
    at += 4
  }
  let firstFlags: number | null = null
  if ((flags & 0x4) !== 0) {
    firstFlags = bytes.readUInt32BE(at)
    at += 4
  }
  const optional = (bit: number, otherwise: number): number => {
    if ((flags & bit) === 0) return otherwise
    at += 4
    return bytes.readUInt32BE(at - 4)
  }
  for (let i = 0; i < count; i++) {
    const duration = optional(0x100, run.defaults.duration)
    const size = optional(0x200, run.defaults.size)
    const sampleFlags = optional(0x400, i === 0 && firstFlags !== null ? firstFlags : run.defaults.flags)
    const compositionOffset = optional(0x800, 0) | 0
    run.track.samples.push({
      mark: run.track.video ? markWithin(bytes, offset, size) : null,
      fragment: run.fragment,
      offset,
      bytes: size,
      decodeTime: run.track.nextDecodeTime,
      compositionOffset,
      duration,
      sync: (sampleFlags & 0x10000) === 0,
    })
    run.track.nextDecodeTime += duration
    offset += size
  }
  return offset
}

/** Tracks of a progressive or fragmented MP4, or of an init segment followed by media segments. */
export const tracksOfMp4 = (file: Uint8Array): Array<TrackFrames & { readonly video: boolean }> => {
  const bytes = Buffer.from(file.buffer, file.byteOffset, file.byteLength)
  const tracks = new Map<number, Track>()
  let fragment = 0
  for (const box of boxes(bytes, 0, bytes.length)) {
    if (box.type === "moov") readMoov(bytes, box, tracks)
    if (box.type !== "moof") continue
    fragment++
    for (const traf of boxes(bytes, box.body, box.end)) {
      if (traf.type === "traf") readTraf(bytes, traf, box, tracks, fragment)
    }
  }
  return [...tracks.values()].map(({ id, samples, timescale, video }) => ({ trackId: id, timescale, samples, video }))
}

const readMoov = (bytes: Buffer, moov: Box, tracks: Map<number, Track>): void => {
  for (const trak of boxes(bytes, moov.body, moov.end)) {
    if (trak.type !== "trak") continue
    const track = trackOf(bytes, trak)
    // A second init segment of the same track goes on with it.
    if (!tracks.has(track.id)) tracks.set(track.id, track)
    readSampleTable(bytes, trak, track)
  }
  const mvex = find(bytes, moov, "mvex")
  if (mvex === null) return
  for (const trex of boxes(bytes, mvex.body, mvex.end)) {
    const track = trex.type === "trex" ? tracks.get(bytes.readUInt32BE(trex.body + 4)) : undefined
    if (track === undefined) continue
    track.defaults = {
      duration: bytes.readUInt32BE(trex.body + 12),
      size: bytes.readUInt32BE(trex.body + 16),
      flags: bytes.readUInt32BE(trex.body + 20),
    }
  }
}

/** `stsz`, `stsc`, `stco`/`co64`, `stts`, `stss` (8.6, 8.7) of a file that is not fragmented. */
const readSampleTable = (bytes: Buffer, trak: Box, track: Track): void => {
  const table = find(bytes, trak, "mdia", "minf", "stbl")
  const stsz = table === null ? null : find(bytes, table, "stsz")
  if (table === null || stsz === null) return
  const words = (name: string): { count: number; word: (i: number) => number; wide: (i: number) => number } => {
    const box = find(bytes, table, name)
    const body = box?.body ?? 0
    return {
      count: box === null ? 0 : bytes.readUInt32BE(body + 4),
      word: (i) => bytes.readUInt32BE(body + 8 + i * 4),
      wide: (i) => Number(bytes.readBigUInt64BE(body + 8 + i * 8)),
    }
  }
  const fixed = bytes.readUInt32BE(stsz.body + 4)
  const total = bytes.readUInt32BE(stsz.body + 8)
  const stco = words("stco")
  const co64 = words("co64")
  const stsc = words("stsc")
  const stts = words("stts")
  const stss = words("stss")
  const durations: Array<number> = []
  for (let i = 0; i < stts.count; i++) durations.push(...new Array<number>(stts.word(i * 2)).fill(stts.word(i * 2 + 1)))
  const syncs = new Set(Array.from({ length: stss.count }, (_, i) => stss.word(i)))
  let sample = 0
  for (let chunk = 0, entry = 0; chunk < stco.count + co64.count && sample < total; chunk++) {
    if (entry + 1 < stsc.count && stsc.word((entry + 1) * 3) === chunk + 1) entry++
    let offset = stco.count > 0 ? stco.word(chunk) : co64.wide(chunk)
    for (let i = 0; i < stsc.word(entry * 3 + 1) && sample < total; i++, sample++) {
      const size = fixed > 0 ? fixed : bytes.readUInt32BE(stsz.body + 12 + sample * 4)
      track.samples.push({
        mark: track.video ? markWithin(bytes, offset, size) : null,
        fragment: 0,
        offset,
        bytes: size,
        decodeTime: track.nextDecodeTime,
        compositionOffset: 0,
        duration: durations[sample] ?? 0,
        sync: syncs.size === 0 || syncs.has(sample + 1),
      })
      track.nextDecodeTime += durations[sample] ?? 0
      offset += size
    }
  }
}

/** Marks of an MP4's video samples, in decoding order; throws where a video sample has none. */
export const framesOfMp4 = (file: Uint8Array): Array<FrameMark> =>
  tracksOfMp4(file).filter((track) => track.video).flatMap((track) =>
    track.samples.map((sample, i) => {
      if (sample.mark === null) {
        throw new Error(`video sample ${i} (fragment ${sample.fragment}, byte ${sample.offset}) carries no mark`)
      }
      return sample.mark
    })
  )

export interface Coverage {
  readonly count: number
  readonly first: number
  readonly last: number
  /** Numbers between the first and the last that are not there, as half-open ranges. */
  readonly missing: ReadonlyArray<readonly [from: number, to: number]>
  /** Numbers that are there more than once, or come after a larger one. */
  readonly repeated: ReadonlyArray<number>
}

/** What a list of numbers covers; null for an empty one. */
export const coverage = (marks: ReadonlyArray<FrameMark>): Coverage | null => {
  const first = marks[0]
  if (first === undefined) return null
  const missing: Array<[number, number]> = []
  const repeated: Array<number> = []
  let last = first.frame
  for (const { frame } of marks.slice(1)) {
    if (frame <= last) {
      repeated.push(frame)
      continue
    }
    if (frame > last + 1) missing.push([last + 1, frame])
    last = frame
  }
  return { count: marks.length, first: first.frame, last, missing, repeated }
}
