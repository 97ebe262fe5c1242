/**
 * One RTP track (RFC 3550, section 5): headers, sequence and loss, time, reception statistics. Payloads go to the track's
 * depacketiser.
 *
 * Invariants
 * 1. `push` never throws; what is not RTP is counted in `malformed`.
 * 2. `onLoss` gets the exact count of sequence numbers that never came; only where the sender began to count anew is the
 *    count unknown, and 1 is told.
 * 3. Ticks are congruent to the RTP timestamp modulo 2^32: the first is the camera's own.
 */
import type { Depacketiser } from "./depacketiser.ts"
import { restartDistance } from "./reorder.ts"
import type { ReceptionReport, SenderReport } from "./rtcp.ts"

/** Comfort noise (RFC 3389): a static payload type that cameras send beside G.711 without announcing it. */
const comfortNoise = 13
/** A sender report this old says nothing any more about the camera's clock, milliseconds. */
const senderReportLifeMs = 3_600_000

export interface ReceiverOptions {
  readonly payloadType: number
  readonly clockRate: number
  readonly depacketiser: Depacketiser
  readonly onLoss: (packets: number) => void
}

export class TrackReceiver {
  private readonly clockRate: number
  private readonly depacketiser: Depacketiser
  private readonly onLoss: (packets: number) => void
  private payloadType: number

  private ssrc = -1
  private next = -1
  private firstSequence = 0
  private cycles = 0
  private lastTimestamp = 0
  private ticks = Number.NaN
  private transit = 0
  private jitter = 0

  packets = 0
  lostPackets = 0
  /** Packets that were no RTP or whose payload could not be read. */
  malformed = 0
  /** Malformed packets since the last good one. */
  malformedInARow = 0
  /** Arrival of the packet in hand, epoch milliseconds. */
  arrivalMs = 0

  private report: SenderReport | null = null
  private reportArrivalMs = 0
  private lastExpected = 0
  private lastReceived = 0

  constructor(options: ReceiverOptions) {
    this.payloadType = options.payloadType
    this.clockRate = options.clockRate
    this.depacketiser = options.depacketiser
    this.onLoss = options.onLoss
  }

  /** The RTP packet `bytes[from, to)`. */
  push(bytes: Buffer, from: number, to: number, arrivalMs: number): void {
    if (to - from < 12 || bytes[from]! >> 6 !== 2) return this.bad()
    const first = bytes[from]!
    let body = from + 12 + (first & 15) * 4
    if ((first & 0x10) !== 0) {
      if (body + 4 > to) return this.bad()
      body += 4 + ((bytes[body + 2]! << 8) | bytes[body + 3]!) * 4
    }
    let end = to
    if ((first & 0x20) !== 0) end -= bytes[to - 1]!
    if (body > end) return this.bad()
    this.arrivalMs = arrivalMs
    const second = bytes[from + 1]!
    if (!this.sequence(bytes, from)) return
    if (!this.accepts(second & 127)) return
    const timestamp =
      ((bytes[from + 4]! << 24) | (bytes[from + 5]! << 16) | (bytes[from + 6]! << 8) | bytes[from + 7]!) >>> 0
    this.time(timestamp)
    if (body === end) return
    if (this.depacketiser.push(bytes, body, end, this.ticks, second > 127)) this.malformedInARow = 0
    else this.bad()
  }

  private bad(): void {
    this.malformed++
    this.malformedInARow++
  }

  /** A camera whose SDP names another payload type than it sends is believed by its first packet. */
  private accepts(payloadType: number): boolean {
    if (payloadType === this.payloadType) return true
    if (this.packets > 1 || payloadType === comfortNoise) return false
    this.payloadType = payloadType
    return true
  }

  /** Counts and finds gaps; false where the packet came before and is to be ignored. */
  private sequence(bytes: Buffer, from: number): boolean {
    const sequence = (bytes[from + 2]! << 8) | bytes[from + 3]!
    const ahead = (sequence - this.next) & 0xffff
    if (ahead !== 0 || this.next < 0) {
      const ssrc = bytes.readUInt32BE(from + 8)
      if (this.next < 0 || ssrc !== this.ssrc) this.restart(sequence, ssrc)
      else if (ahead < 0x8000) this.missed(ahead)
      else if (0x10000 - ahead <= restartDistance) return false
      else this.restart(sequence, ssrc)
    }
    this.packets++
    this.next = (sequence + 1) & 0xffff
    if (this.next === 0) this.cycles++
    return true
  }

  private missed(count: number): void {
    const wrapped = this.next + count > 0xffff
    if (wrapped) this.cycles++
    this.lostPackets += count
    this.depacketiser.lost()
    this.onLoss(count)
  }

  private restart(sequence: number, ssrc: number): void {
    if (this.next >= 0) {
      this.depacketiser.lost()
      this.onLoss(1)
      this.report = null
    }
    this.ssrc = ssrc
    this.firstSequence = sequence
    this.cycles = 0
    this.packets = 0
    this.lostPackets = 0
    this.lastExpected = 0
    this.lastReceived = 0
  }

  private time(timestamp: number): void {
    if (Number.isNaN(this.ticks)) this.ticks = timestamp
    else if (timestamp === this.lastTimestamp) return
    else this.ticks += (timestamp - this.lastTimestamp) | 0
    this.lastTimestamp = timestamp
    // Interarrival jitter (appendix A.8), taken at the first packet of each timestamp: the rest of a picture leaves in a burst.
    const transit = this.arrivalMs * this.clockRate / 1000 - this.ticks
    if (this.packets > 1) this.jitter += (Math.abs(transit - this.transit) - this.jitter) / 16
    this.transit = transit
  }

  /** Whether anything came of this track, and from whom. */
  isFrom(ssrc: number): boolean {
    return this.next >= 0 && this.ssrc === ssrc
  }

  /** Channel or port tell which track a report is for: cameras are seen whose RTCP names another source than their RTP. */
  onSenderReport(report: SenderReport, arrivalMs: number): void {
    this.report = report
    this.reportArrivalMs = arrivalMs
  }

  /** The sender's wall clock at `ticks`, epoch milliseconds; null without a usable sender report. */
  senderMs(ticks: number): number | null {
    const { report } = this
    if (report === null || report.wallMs === null || this.arrivalMs - this.reportArrivalMs > senderReportLifeMs) {
      return null
    }
    return Math.round(report.wallMs + ((ticks - report.rtpTimestamp) | 0) * 1000 / this.clockRate)
  }

  /** What to report to the sender now; null before the first packet. Fractions count from the last call. */
  reception(receiverSsrc: number, nowMs: number): ReceptionReport | null {
    if (this.next < 0) return null
    const highest = this.cycles * 0x10000 + ((this.next - 1) & 0xffff) - (this.next === 0 ? 0x10000 : 0)
    const expected = highest - this.firstSequence + 1
    const expectedNow = expected - this.lastExpected
    const lostNow = expectedNow - (this.packets - this.lastReceived)
    this.lastExpected = expected
    this.lastReceived = this.packets
    const sinceReport = this.report === null ? 0 : Math.max(0, nowMs - this.reportArrivalMs)
    return {
      receiverSsrc,
      senderSsrc: this.ssrc,
      fractionLost: expectedNow <= 0 || lostNow <= 0 ? 0 : Math.floor(lostNow * 256 / expectedNow),
      totalLost: this.lostPackets,
      highestSequence: highest,
      jitter: this.jitter,
      lastReport: this.report?.ntpMiddle ?? 0,
      delay: Math.floor(sinceReport * 65536 / 1000),
    }
  }
}
