/**
 * What a receiver owes a sender: asking for lost packets again (RFC 4585), reception reports (RFC 3550, section 6.4), what its line may
 * carry, and key pictures.
 *
 * Invariants
 * 1. At most {@link maxMissing} packets of a track are asked for, each at most {@link maxAsks} times; a larger hole is given up and a key
 *    picture asked for.
 * 2. A track belongs to the source that its first packet names, until {@link silenceMs} pass without one.
 */
import { parseRtcp, receiverReportPacket, type ReceptionReport, type SenderReport } from "../rtp/rtcp.ts"
import { bitratePacket, nackPacket, pictureLossPacket } from "./feedback.ts"

const maxMissing = 256
const maxAsks = 5
/** Longer than most round trips: what is under way need not be asked for again. */
const askEveryMs = 60
const reportEveryMs = 1_000
const pictureEveryMs = 500
const silenceMs = 5_000

export interface ReceivedTrack {
  readonly name: "video" | "audio"
  readonly payloadType: number
  readonly clockHz: number
  /** The other side answers to it. */
  readonly nack: boolean
}

interface Missing {
  asks: number
  askedMs: number
}

/** One track's source. */
class Source {
  readonly track: ReceivedTrack
  readonly missing = new Map<number, Missing>()
  ssrc = -1
  /** Extended by how often it wrapped (RFC 3550, appendix A.1). */
  private first = 0
  private highest = 0
  private heardMs = 0
  private transit = 0
  private jitter = 0
  private lastExpected = 0
  private lastReceived = 0
  packets = 0
  report: SenderReport | null = null
  private reportMs = 0

  constructor(track: ReceivedTrack) {
    this.track = track
  }

  get lost(): number {
    return this.packets === 0 ? 0 : Math.max(0, this.highest - this.first + 1 - this.packets)
  }

  /** Answers how large the hole in front of the packet is; null where it belongs to another source. */
  note(ssrc: number, sequence: number, timestamp: number, nowMs: number): number | null {
    if (ssrc !== this.ssrc) {
      if (this.packets > 0 && nowMs - this.heardMs < silenceMs) return null
      this.ssrc = ssrc
      this.first = sequence
      this.highest = sequence
      this.packets = 0
      this.lastExpected = 0
      this.lastReceived = 0
      this.missing.clear()
      this.report = null
    }
    this.heardMs = nowMs
    this.packets++
    const transit = nowMs * this.track.clockHz / 1000 - timestamp
    if (this.packets > 1) {
      this.jitter += (Math.min(Math.abs(transit - this.transit), this.track.clockHz) - this.jitter) / 16
    }
    this.transit = transit
    const ahead = (sequence - this.highest) << 16 >> 16
    if (ahead <= 0) {
      this.missing.delete(sequence)
      return 0
    }
    this.highest += ahead
    return ahead - 1
  }

  reported(report: SenderReport, nowMs: number): void {
    this.report = report
    this.reportMs = nowMs
  }

  reception(receiverSsrc: number, nowMs: number): ReceptionReport {
    const expected = this.highest - this.first + 1
    const expectedNow = expected - this.lastExpected
    const lostNow = expectedNow - (this.packets - this.lastReceived)
    this.lastExpected = expected
    this.lastReceived = this.packets
    return {
      receiverSsrc,
      senderSsrc: this.ssrc,
      fractionLost: expectedNow <= 0 || lostNow <= 0 ? 0 : Math.floor(lostNow * 256 / expectedNow),
      totalLost: this.lost,
      highestSequence: this.highest >>> 0,
      jitter: this.jitter,
      lastReport: this.report?.ntpMiddle ?? 0,
      delay: this.report === null ? 0 : Math.floor((nowMs - this.reportMs) * 65_536 / 1000),
    }
  }
}

export interface ReceptionEvents {
  readonly onRtp: (track: "video" | "audio", packet: Buffer, arrivalMs: number) => void
  readonly onSenderReport: (track: "video" | "audio", report: SenderReport, arrivalMs: number) => void
  readonly onGoodbye: () => void
  readonly send: (rtcp: Buffer) => void
}

export class Reception {
  private readonly sources: ReadonlyArray<Source>
  private readonly events: ReceptionEvents
  private readonly ssrc: number
  private readonly maxBitrate: number
  private reportedMs = 0
  private pictureMs = Number.NEGATIVE_INFINITY

  /** `ssrc`: our own, as the receiver. */
  constructor(tracks: ReadonlyArray<ReceivedTrack>, ssrc: number, maxBitrate: number, events: ReceptionEvents) {
    this.sources = tracks.map((track) => new Source(track))
    this.ssrc = ssrc
    this.maxBitrate = maxBitrate
    this.events = events
  }

  get packets(): number {
    return this.sources.reduce((sum, { packets }) => sum + packets, 0)
  }

  get lost(): number {
    return this.sources.reduce((sum, { lost }) => sum + lost, 0)
  }

  /** A decrypted packet of at least 12 bytes. */
  packet(packet: Buffer, nowMs: number): void {
    const payloadType = packet[1]! & 127
    const source = this.sources.find(({ track }) => track.payloadType === payloadType)
    if (source === undefined) return
    const sequence = packet.readUInt16BE(2)
    const hole = source.note(packet.readUInt32BE(8), sequence, packet.readUInt32BE(4), nowMs)
    if (hole === null) return
    if (hole > 0 && source.track.nack) this.miss(source, sequence, hole, nowMs)
    this.events.onRtp(source.track.name, packet, nowMs)
  }

  private miss(source: Source, sequence: number, hole: number, nowMs: number): void {
    if (hole + source.missing.size > maxMissing) {
      source.missing.clear()
      return this.requestKeyPicture(nowMs)
    }
    for (let behind = hole; behind > 0; behind--) {
      source.missing.set((sequence - behind) & 0xffff, { asks: 0, askedMs: Number.NEGATIVE_INFINITY })
    }
    this.ask(source, nowMs)
  }

  private ask(source: Source, nowMs: number): void {
    const due: Array<number> = []
    for (const [sequence, missing] of source.missing) {
      if (nowMs - missing.askedMs < askEveryMs) continue
      if (missing.asks >= maxAsks) {
        source.missing.delete(sequence)
        if (source.track.name === "video") this.requestKeyPicture(nowMs)
        continue
      }
      missing.asks++
      missing.askedMs = nowMs
      due.push(sequence)
    }
    if (due.length > 0) this.events.send(nackPacket(this.ssrc, source.ssrc, due))
  }

  requestKeyPicture(nowMs: number): void {
    const video = this.sources.find(({ packets, track }) => track.name === "video" && packets > 0)
    if (video === undefined || nowMs - this.pictureMs < pictureEveryMs) return
    this.pictureMs = nowMs
    this.events.send(pictureLossPacket(this.ssrc, video.ssrc))
  }

  /** A decrypted compound packet. */
  rtcp(packet: Buffer, nowMs: number): void {
    for (const report of parseRtcp(packet, 0, packet.length)) {
      if (report.kind === "goodbye") {
        if (this.sources.some(({ packets, ssrc }) => packets > 0 && report.ssrcs.includes(ssrc))) {
          return this.events.onGoodbye()
        }
        continue
      }
      const source = this.sources.find(({ packets, ssrc }) => packets > 0 && ssrc === report.ssrc)
      if (source === undefined) continue
      source.reported(report, nowMs)
      this.events.onSenderReport(source.track.name, report, nowMs)
    }
  }

  /** Several times a second. */
  tick(nowMs: number): void {
    for (const source of this.sources) if (source.missing.size > 0) this.ask(source, nowMs)
    if (nowMs - this.reportedMs < reportEveryMs) return
    this.reportedMs = nowMs
    for (const source of this.sources) {
      if (source.packets === 0) continue
      const report = receiverReportPacket(source.reception(this.ssrc, nowMs))
      const isVideo = source.track.name === "video"
      this.events.send(
        isVideo ? Buffer.concat([report, bitratePacket(this.ssrc, source.ssrc, this.maxBitrate)]) : report,
      )
    }
  }
}
