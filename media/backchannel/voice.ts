/**
 * A talker's packets (RFC 3550, RFC 3551) put into order and time, as a camera's loudspeaker wants them. G.711 has a byte a sample, so a
 * moment is a position, and packets may be cut anew.
 *
 * Invariants
 * 1. It begins {@link leadMs} behind the first packet; what comes later than its moment is dropped. A packet that lies more than
 *    {@link maxAheadSamples} ahead is the beginning of something else. Ahead is counted from where a process that did not stand still
 *    would be by now, for up to {@link maxLateSamples}: nothing of what was said meanwhile is lost.
 * 2. Each {@link frameMs} one packet of {@link frameSamples} leaves, with silence where something is missing, until nothing was there for
 *    {@link silenceFrames}; then nothing leaves until something is heard again, which is marked (RFC 3551, section 4.1).
 * 3. Any bytes are a packet or dropped; memory is {@link ringSamples} bytes and as many marks.
 */
import type { TalkCodec } from "#schema/camera-talk.ts"

export const frameMs = 20
export const frameSamples = 160
const samplesPerMs = 8
export const leadMs = 60
/** Half a second. */
const maxAheadSamples = 4_000
const ringSamples = 8_192
/** A talker whose clock is faster than ours is caught up with beyond this. */
const maxDepthSamples = 2_400
const silenceFrames = 10
/** What is ahead, what is late and the payload of one packet fit into the ring. */
const maxLateSamples = 2_400
/** 200 ms: no sender puts more into a packet of 8 kHz. */
const maxPayload = 1_600

const payloadTypes: Readonly<Record<TalkCodec, number>> = { pcmu: 0, pcma: 8 }
const silence: Readonly<Record<TalkCodec, number>> = { pcmu: 0xff, pcma: 0xd5 }

export interface VoiceOptions {
  readonly codec: TalkCodec
  /** What the talker numbers its packets with. */
  readonly inputType: number
  /** What the camera knows the codec by. */
  readonly outputType: number
  readonly ssrc: number
  readonly sequence: number
  readonly timestamp: number
}

export const staticType = (codec: TalkCodec): number => payloadTypes[codec]

/** Distance from `b` to `a` in 32 bits, signed. */
const after = (a: number, b: number): number => (a - b) | 0

/** Where the payload lies; null: no RTP packet of this type, or one with nothing in it. */
const payloadOf = (
  packet: Buffer,
  from: number,
  to: number,
  type: number,
): { readonly from: number; readonly to: number; readonly timestamp: number } | null => {
  if (to - from < 13 || packet[from]! >> 6 !== 2 || (packet[from + 1]! & 0x7f) !== type) return null
  const flags = packet[from]!
  let at = from + 12 + (flags & 15) * 4
  if ((flags & 0x10) !== 0) {
    if (at + 4 > to) return null
    at += 4 + packet.readUInt16BE(at + 2) * 4
  }
  const end = (flags & 0x20) === 0 ? to : to - packet[to - 1]!
  if (at >= end || end - at > maxPayload) return null
  return { from: at, to: end, timestamp: packet.readUInt32BE(from + 4) }
}

export class Voice {
  private readonly options: VoiceOptions
  private readonly samples = Buffer.alloc(ringSamples)
  /** Which positions hold something that has not left yet. */
  private readonly present = new Uint8Array(ringSamples)
  /** The talker's time of the next frame that leaves, and when that is; null: nothing is to leave. */
  private head: { timestamp: number; dueMs: number } | null = null
  /** Behind the newest sample. */
  private tail = 0
  private missing = 0
  private marked = true
  private sequence: number
  /** The camera's time of the next frame. */
  private timestamp: number
  /** When the last frame left. */
  private leftMs: number | null = null
  dropped = 0

  constructor(options: VoiceOptions) {
    this.options = options
    this.sequence = options.sequence & 0xffff
    this.timestamp = options.timestamp >>> 0
  }

  /** When the next frame leaves, epoch milliseconds; null: not before something is heard. */
  get dueMs(): number | null {
    return this.head?.dueMs ?? null
  }

  /** Whether more than one frame should have left by now: this process stood still, and what came meanwhile may be unread yet. */
  isLate(nowMs: number): boolean {
    return this.late(nowMs) > frameSamples
  }

  /** The RTP time that the next frame has. */
  get nextTimestamp(): number {
    return this.timestamp
  }

  /** True: it was taken. */
  hear(packet: Buffer, from: number, to: number, nowMs: number): boolean {
    const payload = payloadOf(packet, from, to, this.options.inputType)
    if (payload === null) {
      this.dropped++
      return false
    }
    const { timestamp } = payload
    const length = payload.to - payload.from
    if (this.head !== null && Math.abs(after(timestamp, this.head.timestamp)) > maxAheadSamples + this.late(nowMs)) {
      this.forget()
    }
    if (this.head === null) {
      this.head = { timestamp, dueMs: nowMs + leadMs }
      this.tail = timestamp
      this.missing = 0
      this.marked = true
    }
    const ahead = after(timestamp, this.head.timestamp)
    if (ahead < 0) {
      this.dropped++
      return false
    }
    for (let i = 0; i < length; i++) {
      const at = (timestamp + i) % ringSamples
      this.samples[at] = packet[payload.from + i]!
      this.present[at] = 1
    }
    const end = (timestamp + length) >>> 0
    if (after(end, this.tail) > 0) this.tail = end
    return true
  }

  /** The packet that is due by now; null: none is. Asked again until it says so. */
  take(nowMs: number): Buffer | null {
    const { head } = this
    if (head === null || nowMs < head.dueMs) return null
    // What was not taken in time (a process that stood still) is made up for, but not more than may wait.
    if (nowMs - head.dueMs > maxAheadSamples / samplesPerMs) head.dueMs = nowMs
    while (after(this.tail, head.timestamp) > maxDepthSamples + frameSamples + this.late(nowMs)) this.leave(head)
    const packet = Buffer.alloc(12 + frameSamples, silence[this.options.codec])
    let found = 0
    for (let i = 0; i < frameSamples; i++) {
      const at = (head.timestamp + i) % ringSamples
      if (this.present[at] === 0) continue
      packet[12 + i] = this.samples[at]!
      this.present[at] = 0
      found++
    }
    this.missing = found === 0 ? this.missing + 1 : 0
    if (this.missing > silenceFrames) {
      this.forget()
      return null
    }
    this.number(packet, nowMs)
    head.timestamp = (head.timestamp + frameSamples) >>> 0
    head.dueMs += frameMs
    return packet
  }

  /** Samples that should have left by now. */
  private late(nowMs: number): number {
    const lateMs = this.head === null ? 0 : nowMs - this.head.dueMs
    return Math.min(maxLateSamples, Math.max(0, lateMs * samplesPerMs))
  }

  private leave(head: { timestamp: number }): void {
    for (let i = 0; i < frameSamples; i++) this.present[(head.timestamp + i) % ringSamples] = 0
    head.timestamp = (head.timestamp + frameSamples) >>> 0
    this.dropped++
  }

  private number(packet: Buffer, nowMs: number): void {
    // Behind a pause the camera's time goes on by as much as it lasted.
    if (this.marked && this.leftMs !== null) {
      const paused = Math.max(0, Math.round(nowMs - this.leftMs) - frameMs) * samplesPerMs
      this.timestamp = (this.timestamp + paused) >>> 0
    }
    packet[0] = 0x80
    packet[1] = this.options.outputType | (this.marked ? 0x80 : 0)
    packet.writeUInt16BE(this.sequence, 2)
    packet.writeUInt32BE(this.timestamp, 4)
    packet.writeUInt32BE(this.options.ssrc, 8)
    this.sequence = (this.sequence + 1) & 0xffff
    this.timestamp = (this.timestamp + frameSamples) >>> 0
    this.marked = false
    this.leftMs = nowMs
  }

  private forget(): void {
    this.head = null
    this.present.fill(0)
  }
}
