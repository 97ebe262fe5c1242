/**
 * One fragment as bytes: index line, `moof`, header of `mdat`, then the payload (ISO/IEC 14496-12, 8.8).
 *
 * Invariants
 * 1. Offsets count from the first byte of `moof` (`default-base-is-moof`), so a fragment may stand anywhere.
 * 2. In `mdat` all pictures come first, then all audio frames: one `trun` a track.
 * 3. Pictures stay where they were put together; the head is written in front of them, audio behind.
 */
import type { Fragment } from "../storage.ts"
import type { AudioFrame } from "./audio-track.ts"
import { putU64 } from "./bytes.ts"
import { lineBytes, putFragmentLine, samplePayload } from "./fragment-box.ts"
import type { Payload } from "./fragment-memory.ts"
import { audioTrackId, videoTrackId } from "./init-writer.ts"

export interface Picture {
  readonly bytes: number
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

interface Sizes {
  readonly reordered: boolean
  readonly videoBytes: number
  readonly audioBytes: number
  readonly videoTrack: number
  readonly audioTrack: number
  readonly moof: number
  /** Index line, `moof`, header of `mdat`. */
  readonly head: number
}

const sizesOf = ({ audio, pictures }: FragmentContent): Sizes => {
  const reordered = pictures.some((picture) => picture.offsetTicks !== 0)
  const videoTrack = trackBytes + pictures.length * (reordered ? 16 : 12)
  const audioTrack = audio.length === 0 ? 0 : trackBytes + audio.length * 8
  const moof = 8 + 16 + videoTrack + audioTrack
  return {
    reordered,
    videoBytes: pictures.reduce((total, { bytes }) => total + bytes, 0),
    audioBytes: audio.reduce((total, { data }) => total + data.length, 0),
    videoTrack,
    audioTrack,
    moof,
    head: lineBytes + moof + 8,
  }
}

/** `moof` and the header of `mdat`, behind room for the index line at `bytes[0]`. */
const putHead = (bytes: Buffer, content: FragmentContent, sizes: Sizes): void => {
  const { audio, pictures } = content
  const out = writer(bytes, lineBytes)
  out.u32(sizes.moof)
  out.type("moof")
  out.u32(16)
  out.type("mfhd")
  out.u32(0)
  out.u32(content.sequence)
  const dataAt = sizes.moof + 8
  // Version 1 of `trun` has signed composition offsets.
  const run = sizes.reordered ? 0x0100_0000 + offsetsRun : videoRun
  const time = pictures[0]?.decodeTicks ?? 0
  putTrack(out, { id: videoTrackId, size: sizes.videoTrack, time, run, samples: pictures.length, dataAt })
  pictures.forEach((picture, i) => {
    out.u32((pictures[i + 1]?.decodeTicks ?? content.endTicks) - picture.decodeTicks)
    out.u32(picture.bytes)
    out.u32(picture.key ? keyFlags : deltaFlags)
    if (sizes.reordered) out.u32(picture.offsetTicks)
  })
  const first = audio[0]
  if (first !== undefined) {
    putTrack(out, {
      id: audioTrackId,
      size: sizes.audioTrack,
      time: first.time,
      run: audioRun,
      samples: audio.length,
      dataAt: dataAt + sizes.videoBytes,
    })
    for (const frame of audio) {
      out.u32(frame.duration)
      out.u32(frame.data.length)
    }
  }
  out.u32(8 + sizes.videoBytes + sizes.audioBytes)
  out.type("mdat")
}

/** Makes the fragment of the first pictures in `payload`, and cuts their bytes off it. */
export const writeFragment = (content: FragmentContent, payload: Payload): Fragment => {
  const { audio, endTicks, pictures } = content
  const sizes = sizesOf(content)
  const { at, block, release } = payload.cut(sizes.videoBytes, sizes.head, sizes.audioBytes)
  let end = at + sizes.videoBytes
  for (const { data } of audio) {
    block.set(data, end)
    end += data.length
  }
  const data = block.subarray(at - sizes.head, end)
  putHead(data, content, sizes)
  const line = {
    startMs: content.startMs,
    endMs: content.endMs,
    decodeTicks: pictures[0]?.decodeTicks ?? 0,
    durationTicks: endTicks - (pictures[0]?.decodeTicks ?? 0),
    frames: pictures.length,
    key: pictures[0]?.key ?? false,
    discontinuity: content.discontinuity,
    bytes: data.length,
  }
  putFragmentLine(data, { ...line, headBytes: sizes.head, sample: samplePayload([data.subarray(sizes.head)]) })
  return { ...line, data, release }
}
