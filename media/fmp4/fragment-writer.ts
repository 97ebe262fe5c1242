/**
 * One fragment as bytes: index line, `moof`, header of `mdat`, then the payload by reference (ISO/IEC 14496-12, 8.8).
 *
 * Invariants
 * 1. Offsets count from the first byte of `moof` (`default-base-is-moof`), so a fragment may stand anywhere.
 * 2. In `mdat` all pictures come first, then all audio frames: one `trun` a track.
 * 3. Pictures are referenced, neighbours in memory as one part; audio frames, which are small, are copied into one part.
 */
import type { Fragment } from "../storage.ts"
import type { AudioFrame } from "./audio-track.ts"
import { putU64 } from "./bytes.ts"
import { lineBytes, putFragmentLine, samplePayload } from "./fragment-box.ts"
import { audioTrackId, videoTrackId } from "./init-writer.ts"

export interface Picture {
  readonly data: Uint8Array
  readonly key: boolean
  /** 90 kHz ticks of the timeline. */
  readonly decodeTicks: number
  /** Presentation minus decode time, may be negative. */
  readonly offsetTicks: number
}

/** What a fragment is made of; `pictures` is not empty. */
export interface FragmentContent {
  readonly sequence: number
  readonly pictures: ReadonlyArray<Picture>
  /** Decode time of the picture after the last. */
  readonly endTicks: number
  readonly audio: ReadonlyArray<AudioFrame>
  readonly startMs: number
  readonly endMs: number
  readonly discontinuity: boolean
}

/** Sample flags (section 8.8.3.1): a picture that depends on no other; one that does and is no sync sample. */
const keyFlags = 0x0200_0000
const deltaFlags = 0x0101_0000
/** `trun` flags: data offset, then per sample duration, size, flags, composition offset. */
const audioRun = 0x301
const videoRun = 0x701
const offsetsRun = 0xf01
/** `traf`, `tfhd`, `tfdt` (64 bits) and the fixed part of `trun`. */
const trackBytes = 8 + 16 + 20 + 20

const writer = (bytes: Buffer, start: number) => {
  let at = start
  const u32 = (value: number) => {
    at = bytes.writeUInt32BE(value >>> 0, at)
  }
  const type = (name: string) => {
    at += bytes.write(name, at, "latin1")
  }
  const u64 = (value: number) => {
    putU64(bytes, value, at)
    at += 8
  }
  return { u32, u64, type }
}

/** `traf` up to and including the fixed part of `trun`. */
const putTrack = (out: ReturnType<typeof writer>, track: {
  readonly id: number
  readonly size: number
  readonly time: number
  readonly run: number
  readonly samples: number
  readonly dataAt: number
}) => {
  out.u32(track.size)
  out.type("traf")
  out.u32(16)
  out.type("tfhd")
  out.u32(0x02_0000)
  out.u32(track.id)
  out.u32(20)
  out.type("tfdt")
  out.u32(0x0100_0000)
  out.u64(track.time)
  out.u32(track.size - 8 - 16 - 20)
  out.type("trun")
  out.u32(track.run)
  out.u32(track.samples)
  out.u32(track.dataAt)
}

const sum = (items: ReadonlyArray<{ readonly data: Uint8Array }>): number =>
  items.reduce((total, item) => total + item.data.length, 0)

/** Index line (still empty), `moof`, header of `mdat`. */
const head = (content: FragmentContent, videoBytes: number, audioBytes: number): Buffer => {
  const { audio, pictures } = content
  const reordered = pictures.some((picture) => picture.offsetTicks !== 0)
  const videoSize = trackBytes + pictures.length * (reordered ? 16 : 12)
  const audioSize = audio.length === 0 ? 0 : trackBytes + audio.length * 8
  const moofSize = 8 + 16 + videoSize + audioSize
  const bytes = Buffer.allocUnsafeSlow(lineBytes + moofSize + 8)
  const out = writer(bytes, lineBytes)
  out.u32(moofSize)
  out.type("moof")
  out.u32(16)
  out.type("mfhd")
  out.u32(0)
  out.u32(content.sequence)
  const dataAt = moofSize + 8
  // Version 1 of `trun` has signed composition offsets.
  const run = reordered ? 0x0100_0000 + offsetsRun : videoRun
  const time = pictures[0]?.decodeTicks ?? 0
  putTrack(out, { id: videoTrackId, size: videoSize, time, run, samples: pictures.length, dataAt })
  pictures.forEach((picture, i) => {
    out.u32((pictures[i + 1]?.decodeTicks ?? content.endTicks) - picture.decodeTicks)
    out.u32(picture.data.length)
    out.u32(picture.key ? keyFlags : deltaFlags)
    if (reordered) out.u32(picture.offsetTicks)
  })
  const first = audio[0]
  if (first !== undefined) {
    putTrack(out, {
      id: audioTrackId,
      size: audioSize,
      time: first.time,
      run: audioRun,
      samples: audio.length,
      dataAt: dataAt + videoBytes,
    })
    for (const frame of audio) {
      out.u32(frame.duration)
      out.u32(frame.data.length)
    }
  }
  out.u32(8 + videoBytes + audioBytes)
  out.type("mdat")
  return bytes
}

/** Views of the pictures, those that touch in one slab as one. */
const joined = (pictures: ReadonlyArray<Picture>): Array<Uint8Array> => {
  const parts: Array<Uint8Array> = []
  let buffer: ArrayBufferLike | null = null
  let start = 0
  let end = 0
  const close = () => {
    if (buffer !== null && end > start) parts.push(new Uint8Array(buffer, start, end - start))
  }
  for (const { data } of pictures) {
    if (data.buffer === buffer && data.byteOffset === end) {
      end += data.length
      continue
    }
    close()
    buffer = data.buffer
    start = data.byteOffset
    end = start + data.length
  }
  close()
  return parts
}

/** Makes the fragment. */
export const writeFragment = (content: FragmentContent): Fragment => {
  const { audio, endTicks, pictures } = content
  const videoBytes = sum(pictures)
  const audioBytes = sum(audio)
  const payload = joined(pictures)
  if (audioBytes > 0) payload.push(Buffer.concat(audio.map((frame) => frame.data), audioBytes))
  const front = head(content, videoBytes, audioBytes)
  const line = {
    startMs: content.startMs,
    endMs: content.endMs,
    decodeTicks: pictures[0]?.decodeTicks ?? 0,
    durationTicks: endTicks - (pictures[0]?.decodeTicks ?? 0),
    frames: pictures.length,
    key: pictures[0]?.key ?? false,
    discontinuity: content.discontinuity,
    bytes: front.length + videoBytes + audioBytes,
  }
  putFragmentLine(front, { ...line, headBytes: front.length, sample: samplePayload(payload) })
  return { ...line, parts: [front, ...payload] }
}
