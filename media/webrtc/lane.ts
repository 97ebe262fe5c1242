/**
 * One track on its way to one viewer: sequence numbers of its own, the payload type of its offer, its own times while it catches up,
 * and what was sent for whoever asks again.
 *
 * Invariants
 * 1. Payloads are the stream's: one piece of memory for all viewers. A packet of a viewer is a copy with its header, encrypted.
 * 2. A packet that is sent again is the same as before, bit by bit.
 * 3. What was sent is remembered for {@link rememberedMs} or a little more, the newest packets of it as many as the lane was made for, a
 *    power of two: whoever asks later has gone on without it. So a viewer keeps no more of a quiet stream than of a busy one.
 */
import { interleavingBytes, type Packets, rtpHeaderBytes } from "../rtp/packetiser.ts"
import { frontBytes } from "./packet-memory.ts"
import type { Peer } from "./peer.ts"

/** A packet that was asked for is not sent again within this time: the question was on its way twice. */
const againMs = 15
/** A question comes back within a round-trip time, and again where the answer was lost too; players wait for less. */
const rememberedMs = 2_000
const marks = 4

export interface LaneOptions {
  readonly payloadType: number
  readonly ssrc: number
  /** Sequence number of the first packet, below 2^15. */
  readonly sequence: number
  /** Packets that can be had again. */
  readonly memory: number
}

export class Lane {
  private readonly peer: Peer
  private readonly options: LaneOptions
  private readonly payloads: Array<Packets | null>
  private readonly indices: Uint16Array
  private readonly timestamps: Uint32Array
  private readonly sentAgainMs: Float64Array
  /** Extended by how often it wrapped. */
  private next: number
  /** The first that is remembered. */
  private oldest: number
  /** What was next at the newest moments {@link rememberedMs} / {@link marks} apart, the oldest first. */
  private readonly passed: Array<number> = []
  private passedMs: number | null = null
  packets = 0
  bytes = 0
  again = 0

  constructor(peer: Peer, options: LaneOptions) {
    this.peer = peer
    this.options = options
    this.next = options.sequence
    this.oldest = options.sequence
    this.payloads = Array.from({ length: options.memory }, () => null)
    this.indices = new Uint16Array(options.memory)
    this.timestamps = new Uint32Array(options.memory)
    this.sentAgainMs = new Float64Array(options.memory)
  }

  get ssrc(): number {
    return this.options.ssrc
  }

  /** The packet number `index` of a unit. */
  send(packets: Packets, index: number, timestamp: number): void {
    const slot = this.next & (this.options.memory - 1)
    this.payloads[slot] = packets
    this.indices[slot] = index
    this.timestamps[slot] = timestamp
    this.sentAgainMs[slot] = 0
    this.transmit(this.next++, packets, index, timestamp)
    this.packets++
  }

  private transmit(sequence: number, { bytes, starts }: Packets, index: number, timestamp: number): void {
    const from = starts[index]! + interleavingBytes
    const length = (starts[index + 1] ?? bytes.length) - from
    const memory = this.peer.memoryFor(length)
    const out = memory.bytes
    bytes.copy(out, frontBytes, from, from + length)
    out[frontBytes + 1] = (out[frontBytes + 1]! & 0x80) | this.options.payloadType
    out[frontBytes + 2] = sequence >> 8 & 255
    out[frontBytes + 3] = sequence & 255
    out.writeUInt32BE(timestamp, frontBytes + 4)
    out.writeUInt32BE(this.options.ssrc, frontBytes + 8)
    this.bytes += length - rtpHeaderBytes
    this.peer.sendRtp(memory, length, Math.floor(sequence / 0x1_0000))
  }

  /** Once more, where it is remembered. */
  resend(sequence: number, nowMs: number): void {
    const behind = (this.next - sequence) & 0xffff
    const extended = this.next - behind
    if (behind === 0 || behind > this.options.memory || extended < this.oldest) return
    const slot = extended & (this.options.memory - 1)
    const packets = this.payloads[slot]
    if (packets === null || packets === undefined || nowMs - this.sentAgainMs[slot]! < againMs) return
    this.sentAgainMs[slot] = nowMs
    this.again++
    this.transmit(extended, packets, this.indices[slot]!, this.timestamps[slot]!)
  }

  /** From time to time, several times a second: invariant 3. */
  forget(nowMs: number): void {
    this.passedMs ??= nowMs
    if (nowMs - this.passedMs < rememberedMs / marks) return
    this.passedMs = nowMs
    this.passed.push(this.next)
    const until = this.passed.length > marks ? this.passed.shift()! : this.oldest
    const { memory } = this.options
    // What a newer packet has taken the place of stays.
    for (let one = Math.max(this.oldest, this.next - memory); one < until; one++) {
      this.payloads[one & (memory - 1)] = null
    }
    this.oldest = Math.max(this.oldest, until)
  }
}
