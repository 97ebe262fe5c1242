/**
 * The few things replay does to stored fragments without touching a picture (ISO/IEC 14496-12): hide the sound, find the key
 * picture.
 *
 * Invariants
 * 1. Hiding keeps every length and offset: the type of what is hidden becomes `free` (8.1.2), so stored byte ranges and
 *    served ones are the same.
 * 2. Bytes that are not the boxes they should be end in {@link BoxError}, never in a wrong answer.
 */
import { Schema } from "effect"
import { type Box, boxHeader, childBox, descend, scanBoxes } from "../fmp4/box.ts"
import { fourCc, getU32 } from "../fmp4/bytes.ts"

/** Stored bytes that are not the boxes they should be. */
export class BoxError extends Schema.TaggedError<BoxError>()("BoxError", { detail: Schema.String }) {
  override get message(): string {
    return this.detail
  }
}

const childrenOf = (bytes: Uint8Array, parent: Box, type: string) =>
  scanBoxes(bytes, parent.content, parent.end).filter((child) => child.type === type)

const need = (box: Box | null | undefined, what: string): Box => {
  if (box === null || box === undefined) throw new BoxError({ detail: `No ${what} where one must be` })
  return box
}

/** Track number of a `trak`: behind the times in `tkhd`, which are 4 or 8 bytes long each (8.3.2). */
const trackOf = (bytes: Uint8Array, trak: Box): number => {
  const tkhd = need(childBox(bytes, trak, "tkhd"), "tkhd")
  return getU32(bytes, tkhd.content + (bytes[tkhd.content] === 1 ? 20 : 12))
}

/** Handler of a `trak`: `vide` or `soun` (8.4.3). */
const handlerOf = (bytes: Uint8Array, trak: Box): string =>
  fourCc(bytes, need(descend(bytes, trak, "mdia", "hdlr"), "hdlr").content + 8)

const moovOf = (init: Uint8Array): Box =>
  need(scanBoxes(init, 0, init.length).find((box) => box.type === "moov"), "moov")

/** Number of the picture track of an initialization. */
export const videoTrackOf = (init: Uint8Array): number =>
  trackOf(
    init,
    need(childrenOf(init, moovOf(init), "trak").find((trak) => handlerOf(init, trak) === "vide"), "picture track"),
  )

/** Makes a box one that readers skip. */
const hide = (bytes: Uint8Array, box: Box) => {
  bytes.set([0x66, 0x72, 0x65, 0x65], box.start + 4) // "free"
}

/** A copy of an initialization with every track but the pictures hidden. */
export const hideSound = (init: Uint8Array): Uint8Array => {
  // Not `slice`: that of a Buffer is a view, and what is read from a disk is a Buffer that others read too.
  const bytes = new Uint8Array(init)
  const video = videoTrackOf(init)
  const moov = moovOf(init)
  for (const trak of childrenOf(init, moov, "trak")) {
    if (trackOf(init, trak) !== video) hide(bytes, trak)
  }
  for (const mvex of childrenOf(init, moov, "mvex")) {
    for (const trex of childrenOf(init, mvex, "trex")) {
      if (getU32(init, trex.content + 4) !== video) hide(bytes, trex)
    }
  }
  return bytes
}

const trackOfRun = (bytes: Uint8Array, traf: Box): number =>
  getU32(bytes, need(childBox(bytes, traf, "tfhd"), "tfhd").content + 4)

/** Hides, in place, the sound of a whole fragment (its `moof`, wherever it stands among its boxes). */
export const hideFragmentSound = (bytes: Uint8Array, video: number): void => {
  const moof = need(scanBoxes(bytes, 0, bytes.length).find((box) => box.type === "moof"), "moof")
  for (const traf of childrenOf(bytes, moof, "traf")) {
    if (trackOfRun(bytes, traf) !== video) hide(bytes, traf)
  }
}

/** Where the first picture of a fragment lies, and how it is shown. */
export interface FirstPicture {
  /** Relative to the start of the fragment. */
  readonly offset: number
  readonly bytes: number
  /** Presentation minus decode time, 90 kHz. */
  readonly offsetTicks: number
}

/** Finds the first picture of a fragment from its leading bytes; `null` when more of them are needed. */
export const firstPicture = (head: Uint8Array, video: number): FirstPicture | null => {
  for (let at = 0;;) {
    const header = boxHeader(head, at, head.length)
    if (header === null || at + header.size > head.length) return null
    const box: Box = { type: header.type, start: at, content: at + header.header, end: at + header.size }
    if (box.type === "moof") return pictureOf(head, box, video)
    at = box.end
  }
}

/** Signed 32 bits. */
const getI32 = (bytes: Uint8Array, at: number) => getU32(bytes, at) | 0

/** The first entry of a `trun` (8.8.8); ours state offset and sizes, whatever else they leave out. */
const pictureOf = (head: Uint8Array, moof: Box, video: number): FirstPicture => {
  const traf = need(childrenOf(head, moof, "traf").find((run) => trackOfRun(head, run) === video), "run of pictures")
  const trun = need(childBox(head, traf, "trun"), "trun")
  const version = head[trun.content] as number
  const flags = getU32(head, trun.content) & 0xffffff
  if ((flags & 0x201) !== 0x201 || getU32(head, trun.content + 4) === 0) {
    throw new BoxError({ detail: "A run of pictures without offset, sizes or pictures" })
  }
  const offset = getI32(head, trun.content + 8)
  const sizeAt = trun.content + 12 + ((flags & 0x4) === 0 ? 0 : 4) + ((flags & 0x100) === 0 ? 0 : 4)
  const compositionAt = sizeAt + 4 + ((flags & 0x400) === 0 ? 0 : 4)
  const composition = (flags & 0x800) === 0 ?
    0 :
    version === 0 ?
    getU32(head, compositionAt) :
    getI32(head, compositionAt)
  return { offset: moof.start + offset, bytes: getU32(head, sizeAt), offsetTicks: composition }
}
