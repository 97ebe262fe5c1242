/**
 * The few things replay does to stored fragments without touching a picture (ISO/IEC 14496-12): hide the sound, take the key
 * pictures out.
 *
 * Invariants
 * 1. Hiding keeps every length and offset: the box type of what is hidden becomes `free` (8.1.2), so stored byte ranges and
 *    served ones are the same.
 * 2. No read beyond the buffer: damaged boxes end in {@link BoxError}.
 */
import { Schema } from "effect"

/** Stored bytes that are not the boxes they should be. */
export class BoxError extends Schema.TaggedError<BoxError>()("BoxError", { detail: Schema.String }) {
  override get message(): string {
    return this.detail
  }
}

/** A box in a buffer: `[start, end)` with its header, whose contents begin at `body`. */
interface Box {
  readonly type: string
  readonly start: number
  readonly body: number
  readonly end: number
}

const viewOf = (bytes: Uint8Array) => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)

const typeAt = (bytes: Uint8Array, at: number) =>
  String.fromCharCode(bytes[at] as number, bytes[at + 1] as number, bytes[at + 2] as number, bytes[at + 3] as number)

/** The box at a position; `null` when its header is not whole. Its end may lie beyond the buffer. */
const boxAt = (bytes: Uint8Array, start: number, limit: number): Box | null => {
  if (start + 8 > limit) return null
  const view = viewOf(bytes)
  const size = view.getUint32(start)
  const type = typeAt(bytes, start + 4)
  if (size === 1) {
    if (start + 16 > limit) return null
    return { type, start, body: start + 16, end: start + Number(view.getBigUint64(start + 8)) }
  }
  if (size < 8) throw new BoxError({ detail: `Box ${type} of ${size} bytes at ${start}` })
  return { type, start, body: start + 8, end: start + size }
}

/** The boxes of a range, in order; each must lie in it whole. */
const boxesIn = (bytes: Uint8Array, from: number, to: number): ReadonlyArray<Box> => {
  const boxes: Array<Box> = []
  for (let at = from; at < to;) {
    const box = boxAt(bytes, at, to)
    if (box === null || box.end > to || box.end <= at) throw new BoxError({ detail: `Torn box at ${at}` })
    boxes.push(box)
    at = box.end
  }
  return boxes
}

const childrenOf = (bytes: Uint8Array, box: Box) => boxesIn(bytes, box.body, box.end)

const childOf = (bytes: Uint8Array, box: Box, type: string): Box => {
  const child = childrenOf(bytes, box).find((one) => one.type === type)
  if (child === undefined) throw new BoxError({ detail: `${box.type} at ${box.start} without ${type}` })
  return child
}

const uint32 = (bytes: Uint8Array, at: number) => {
  if (at + 4 > bytes.length) throw new BoxError({ detail: `Torn field at ${at}` })
  return viewOf(bytes).getUint32(at)
}

/** Track number of a `trak`: behind the times in `tkhd`, which are 8 or 16 bytes long (8.3.2). */
const trackOf = (bytes: Uint8Array, trak: Box): number => {
  const tkhd = childOf(bytes, trak, "tkhd")
  return uint32(bytes, tkhd.body + (bytes[tkhd.body] === 1 ? 20 : 12))
}

/** Handler of a `trak`: `vide` or `soun` (8.4.3). */
const handlerOf = (bytes: Uint8Array, trak: Box): string => {
  const hdlr = childOf(bytes, childOf(bytes, trak, "mdia"), "hdlr")
  return typeAt(bytes, hdlr.body + 8)
}

const moovOf = (init: Uint8Array): Box => {
  const moov = boxesIn(init, 0, init.length).find((box) => box.type === "moov")
  if (moov === undefined) throw new BoxError({ detail: "Initialization without moov" })
  return moov
}

/** Number of the picture track of an initialization. */
export const videoTrackOf = (init: Uint8Array): number => {
  const trak = childrenOf(init, moovOf(init)).find((box) => box.type === "trak" && handlerOf(init, box) === "vide")
  if (trak === undefined) throw new BoxError({ detail: "Initialization without a picture track" })
  return trackOf(init, trak)
}

/** Makes a box one that readers skip. */
const hide = (bytes: Uint8Array, box: Box) => {
  bytes.set([0x66, 0x72, 0x65, 0x65], box.start + 4) // "free"
}

/** A copy of an initialization with every track but the pictures hidden. */
export const hideSound = (init: Uint8Array): Uint8Array => {
  const bytes = init.slice()
  const moov = moovOf(bytes)
  const video = videoTrackOf(bytes)
  for (const box of childrenOf(bytes, moov)) {
    if (box.type === "trak" && trackOf(bytes, box) !== video) hide(bytes, box)
    if (box.type === "mvex") {
      for (const trex of childrenOf(bytes, box)) {
        if (trex.type === "trex" && uint32(bytes, trex.body + 4) !== video) hide(bytes, trex)
      }
    }
  }
  return bytes
}

/** Hides, in place, the sound of a whole fragment (its `moof`, wherever it stands among its boxes). */
export const hideFragmentSound = (bytes: Uint8Array, video: number): void => {
  for (const moof of boxesIn(bytes, 0, bytes.length)) {
    if (moof.type !== "moof") continue
    for (const traf of childrenOf(bytes, moof)) {
      if (traf.type === "traf" && uint32(bytes, childOf(bytes, traf, "tfhd").body + 4) !== video) hide(bytes, traf)
    }
  }
}

/** Where the first picture of a fragment lies, and how it is shown. */
export interface FirstPicture {
  /** Relative to the start of the fragment. */
  readonly offset: number
  readonly bytes: number
  /** Presentation minus decode time, 90 kHz. */
  readonly compositionTicks: number
}

/**
 * Finds the first picture of a fragment from its leading bytes; `null` when more of them are needed. Follows `tfhd` and
 * `trun` (8.8.7, 8.8.8) for files that state size and offset the way ours do.
 */
export const firstPicture = (head: Uint8Array, video: number): FirstPicture | null => {
  for (let at = 0;;) {
    const box = boxAt(head, at, head.length)
    if (box === null) return null
    if (box.type === "moof") {
      if (box.end > head.length) return null
      return pictureOf(head, box, video)
    }
    if (box.end > head.length) return null
    at = box.end
  }
}

const pictureOf = (head: Uint8Array, moof: Box, video: number): FirstPicture => {
  for (const traf of childrenOf(head, moof)) {
    if (traf.type !== "traf") continue
    const tfhd = childOf(head, traf, "tfhd")
    if (uint32(head, tfhd.body + 4) !== video) continue
    const trun = childOf(head, traf, "trun")
    const flags = uint32(head, trun.body) & 0xffffff
    if ((flags & 0x1) === 0 || (flags & 0x200) === 0) throw new BoxError({ detail: "Run without offset or sizes" })
    if (uint32(head, trun.body + 4) === 0) throw new BoxError({ detail: "Run without pictures" })
    const version = head[trun.body] as number
    let at = trun.body + 8
    const dataOffset = viewOf(head).getInt32(at)
    at += 4
    if ((flags & 0x4) !== 0) at += 4
    if ((flags & 0x100) !== 0) at += 4
    const bytes = uint32(head, at)
    at += 4
    if ((flags & 0x400) !== 0) at += 4
    const composition = (flags & 0x800) === 0 ? 0 : version === 0 ? uint32(head, at) : viewOf(head).getInt32(at)
    return { offset: moof.start + dataOffset, bytes, compositionTicks: composition }
  }
  throw new BoxError({ detail: "Fragment without pictures" })
}

/** One key picture to show for a while. */
export interface KeyPicture {
  readonly data: Uint8Array
  readonly decodeTicks: number
  readonly durationTicks: number
  readonly compositionTicks: number
}

const keySampleFlags = 0x02000000

/**
 * A fragment of key pictures alone. Their decode times run on from the first by their durations, so `durationTicks` must
 * reach to the next picture.
 */
export const keyFragment = (pictures: ReadonlyArray<KeyPicture>, video: number, sequence: number): Uint8Array => {
  const payload = pictures.reduce((sum, picture) => sum + picture.data.length, 0)
  const trunBytes = 20 + 16 * pictures.length
  const trafBytes = 8 + 16 + 20 + trunBytes
  const moofBytes = 8 + 16 + trafBytes
  const out = new Uint8Array(moofBytes + 8 + payload)
  const view = viewOf(out)
  let at = 0
  const word = (value: number) => {
    view.setUint32(at, value >>> 0)
    at += 4
  }
  const head = (bytes: number, type: string) => {
    word(bytes)
    for (let i = 0; i < 4; i++) out[at++] = type.charCodeAt(i)
  }
  head(moofBytes, "moof")
  head(16, "mfhd")
  word(0)
  word(sequence)
  head(trafBytes, "traf")
  head(16, "tfhd")
  word(0x020000) // default-base-is-moof
  word(video)
  head(20, "tfdt")
  word(0x01000000)
  view.setBigUint64(at, BigInt(pictures[0]?.decodeTicks ?? 0))
  at += 8
  head(trunBytes, "trun")
  word(0x01000f01) // signed composition offsets; offset, durations, sizes, flags, composition offsets
  word(pictures.length)
  word(moofBytes + 8)
  for (const picture of pictures) {
    word(picture.durationTicks)
    word(picture.data.length)
    word(keySampleFlags)
    word(picture.compositionTicks)
  }
  head(8 + payload, "mdat")
  for (const picture of pictures) {
    out.set(picture.data, at)
    at += picture.data.length
  }
  return out
}
