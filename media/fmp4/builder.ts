/**
 * Access units in, fragments out (the door: `media/fmp4.ts`).
 *
 * Invariants
 * 1. The timeline (90 kHz) has no holes: a run that begins after a discontinuity is put where the one before ended, audio
 *    included.
 * 2. A fragment ends before a key picture, before it would last longer than the longest, and before it would hold more than
 *    {@link maxFragmentBytes}.
 * 3. A jump of the video's ticks by more than {@link jumpTicks}, or further back than reordering can, is a discontinuity even
 *    if nobody said so.
 */
import type { AccessUnit } from "#schema/media.ts"
import { videoClockHz } from "#schema/media.ts"
import type { FragmentBuilder, FragmentBuilderOptions } from "../fmp4.ts"
import { makeAudioTrack } from "./audio-track.ts"
import { makeDecodeOrder, maxDepth, type Waiting } from "./decode-order.ts"
import { maxUnits } from "./fragment-box.ts"
import { Payload } from "./fragment-memory.ts"
import { type Picture, writeFragment } from "./fragment-writer.ts"

/** A second of 250 Mbit/s: more than a camera sends, less than what hurts. */
const maxFragmentBytes = 32 * 1024 * 1024
/** A picture may last this long before its successor is taken for another run: 10 s. */
const jumpTicks = 10 * videoClockHz
/** Length of the only picture there ever was, if nothing tells it: 40 ms. */
const guessTicks = videoClockHz / 25

class Builder {
  private readonly options: FragmentBuilderOptions
  private readonly maxTicks: number
  private readonly audio: ReturnType<typeof makeAudioTrack> | null
  private order: ReturnType<typeof makeDecodeOrder>
  /** Pictures of the fragment to come, with decode times. */
  private pictures: Array<Picture> = []
  private pictureBytes = 0
  private readonly payload = new Payload()
  /** A key picture was seen. */
  private started = false
  /** Timeline minus the video's ticks; null until the run's first picture. */
  private offset: number | null = null
  /** Where the run began, and where the next picture or run will. */
  private runStart: number
  private next: number
  /** Presentation time of the run's first picture on the video's own clock, and how many pictures came since. */
  private firstTicks = 0
  private count = 0
  private lastTicks = 0
  private lastDuration = guessTicks
  /** Wall clock of the next fragment's start; null: ask. */
  private borderMs: number | null = null
  private discontinuity = true
  private sequence = 1

  constructor(options: FragmentBuilderOptions) {
    this.options = options
    this.maxTicks = options.maxFragmentTicks ?? videoClockHz
    this.audio = options.parameters.audio === null ? null : makeAudioTrack(options.parameters.audio.sampleRate)
    this.next = options.decodeTicks
    this.runStart = this.next
    this.order = this.newOrder()
  }

  push(unit: AccessUnit): void {
    if (unit.track === "audio") {
      if (this.started && this.audio !== null) this.audio.push(unit)
      return
    }
    if (!this.started && !unit.key) return
    this.started = true
    if (this.offset !== null && Math.abs(unit.ticks - this.lastTicks) > jumpTicks) this.end()
    if (this.offset === null) this.begin(unit)
    // Leading pictures of an open group whose references are in the run before: nothing can decode them.
    if (this.count++ <= maxDepth && unit.ticks < this.firstTicks) return
    const picture: Waiting = { ticks: unit.ticks, key: unit.key, bytes: unit.data.length }
    this.payload.append(unit.data)
    if (!this.order.push(picture)) {
      this.payload.withdraw(picture.bytes)
      this.end()
      this.begin(unit)
      this.payload.append(unit.data)
      this.order.push(picture)
    }
    this.lastTicks = unit.ticks
    this.audio?.observeVideo(unit)
  }

  /** Gives out everything; what follows is another run. */
  end(): void {
    this.order.flush()
    this.order = this.newOrder()
    const last = this.pictures.at(-1)
    if (last !== undefined) this.emit(this.pictures.length, last.decodeTicks + this.lastDuration)
    this.audio?.restart()
    this.next = Math.max(this.next, this.audio?.endTicks() ?? 0)
    this.offset = null
    this.borderMs = null
    this.discontinuity = true
  }

  nextDecodeTicks(): number {
    return this.next
  }

  pendingBytes(): number {
    return this.payload.length + (this.audio?.heldBytes() ?? 0)
  }

  /** A clock before 1970 or between two milliseconds is not one that can be stored. */
  private wallMs(videoTicks: number): number {
    return Math.max(0, Math.round(this.options.wallMs(videoTicks)))
  }

  private newOrder() {
    return makeDecodeOrder(this.maxTicks, (picture, ticks) => this.add(picture, ticks))
  }

  private begin(unit: AccessUnit): void {
    this.offset = this.next - unit.ticks
    this.runStart = this.next
    this.firstTicks = unit.ticks
    this.count = 0
  }

  /** Takes a picture whose decode time (on the video's own clock) is known: that is also the end of the one before. */
  private add(picture: Waiting, ticks: number): void {
    const offset = this.offset ?? 0
    const decodeTicks = ticks + offset
    const last = this.pictures.at(-1)
    if (last !== undefined) {
      this.lastDuration = Math.min(decodeTicks - last.decodeTicks, videoClockHz)
      this.split(last, decodeTicks)
      if (picture.key || this.pictures.length >= maxUnits) this.emit(this.pictures.length, decodeTicks)
    }
    const { bytes, key } = picture
    this.pictures.push({ bytes, key, decodeTicks, offsetTicks: picture.ticks + offset - decodeTicks })
    this.pictureBytes += bytes
    this.next = decodeTicks + 1
  }

  /** The last picture now ends at `end`: if that is too long or too much for the fragment, it goes into the next one. */
  private split(last: Picture, end: number): void {
    const first = this.pictures[0] ?? last
    const tooLong = end - first.decodeTicks > this.maxTicks || this.pictureBytes > maxFragmentBytes
    if (this.pictures.length > 1 && tooLong) this.emit(this.pictures.length - 1, last.decodeTicks)
  }

  /** Gives out the first `count` pictures as a fragment that ends at `endTicks` of the timeline. */
  private emit(count: number, endTicks: number): void {
    const pictures = this.pictures.splice(0, count)
    const first = pictures[0]
    if (first === undefined) return
    this.pictureBytes -= pictures.reduce((sum, picture) => sum + picture.bytes, 0)
    const offset = this.offset ?? 0
    const startMs = this.borderMs ?? this.wallMs(first.decodeTicks - offset)
    const endMs = Math.max(startMs + 1, this.wallMs(endTicks - offset))
    const audio = this.audio?.take(offset, this.runStart, endTicks) ?? []
    const { discontinuity } = this
    this.borderMs = endMs
    this.discontinuity = false
    this.next = Math.max(this.next, endTicks)
    const content = { sequence: this.sequence++, pictures, endTicks, audio, startMs, endMs, discontinuity }
    this.options.onFragment(writeFragment(content, this.payload))
  }
}

/** See `FragmentBuilder` in `media/fmp4.ts`. */
export const makeFragmentBuilder = (options: FragmentBuilderOptions): FragmentBuilder => {
  const builder = new Builder(options)
  return {
    push: (unit) => builder.push(unit),
    discontinuity: () => builder.end(),
    flush: () => builder.end(),
    nextDecodeTicks: () => builder.nextDecodeTicks(),
    pendingBytes: () => builder.pendingBytes(),
  }
}
