/**
 * RTCP (RFC 3550, section 6) on both sides: of a camera, sender reports and BYE are read and receiver reports written; to a
 * reader, sender reports and BYE are written and receiver reports read. The rest is skipped.
 *
 * Invariants
 * 1. What parses is total: it stops at the first packet that cannot be and returns what stood before it.
 */

export interface SenderReport {
  readonly kind: "senderReport"
  readonly ssrc: number
  /** The sender's wall clock in epoch milliseconds; null where it says that it has none. */
  readonly wallMs: number | null
  /** The same moment in the 32 bits of the RTP clock. */
  readonly rtpTimestamp: number
  /** The middle 32 bits of the NTP time, to be echoed in receiver reports. */
  readonly ntpMiddle: number
}

export interface Goodbye {
  readonly kind: "goodbye"
  readonly ssrcs: ReadonlyArray<number>
}

const senderReport = 200
const receiverReport = 201
const sourceDescription = 202
const goodbye = 203
/** Seconds from 1900 to 1970. */
const ntpToUnix = 2_208_988_800
/** NTP times with the first bit clear belong to the era that begins in 2036 (RFC 4330, section 3). */
const eraSeconds = 2 ** 32

const wallMs = (seconds: number, fraction: number): number | null => {
  if (seconds === 0) return null
  const since1900 = seconds < 2 ** 31 ? seconds + eraSeconds : seconds
  return Math.round((since1900 - ntpToUnix) * 1000 + fraction * 1000 / eraSeconds)
}

/** The compound packet `bytes[from, to)`. */
export const parseRtcp = (bytes: Buffer, from: number, to: number): ReadonlyArray<SenderReport | Goodbye> => {
  const reports: Array<SenderReport | Goodbye> = []
  let at = from
  while (at + 4 <= to) {
    const end = at + 4 + bytes.readUInt16BE(at + 2) * 4
    if (bytes[at]! >> 6 !== 2 || end > to) break
    const count = bytes[at]! & 31
    const type = bytes[at + 1]!
    if (type === senderReport && end - at >= 28) {
      const seconds = bytes.readUInt32BE(at + 8)
      reports.push({
        kind: "senderReport",
        ssrc: bytes.readUInt32BE(at + 4),
        wallMs: wallMs(seconds, bytes.readUInt32BE(at + 12)),
        rtpTimestamp: bytes.readUInt32BE(at + 16),
        ntpMiddle: bytes.readUInt32BE(at + 10),
      })
    } else if (type === goodbye) {
      const ssrcs: Array<number> = []
      for (let i = 0; i < count && at + 8 + i * 4 <= end; i++) ssrcs.push(bytes.readUInt32BE(at + 4 + i * 4))
      reports.push({ kind: "goodbye", ssrcs })
    }
    at = end
  }
  return reports
}

/** What a receiver report tells of one source (section 6.4.1). */
export interface ReceptionReport {
  readonly receiverSsrc: number
  readonly senderSsrc: number
  /** Share of packets lost since the last report, in 256ths. */
  readonly fractionLost: number
  /** Packets lost since the beginning, 24 bits signed. */
  readonly totalLost: number
  readonly highestSequence: number
  /** In ticks. */
  readonly jitter: number
  readonly lastReport: number
  /** Since the last sender report, in 65536ths of a second. */
  readonly delay: number
}

/** A source description of 12 bytes at `at`. */
const describeSource = (packet: Buffer, at: number, ssrc: number): void => {
  packet[at] = 0x81
  packet[at + 1] = sourceDescription
  packet.writeUInt16BE(2, at + 2)
  packet.writeUInt32BE(ssrc, at + 4)
  // A CNAME item of no bytes, then the end of the list and padding: zeros.
  packet[at + 8] = 1
}

/** A receiver report and the source description with an empty name that each compound packet must have (section 6.1). */
export const receiverReportPacket = (report: ReceptionReport): Buffer => {
  const packet = Buffer.alloc(32 + 12)
  packet[0] = 0x81
  packet[1] = receiverReport
  packet.writeUInt16BE(7, 2)
  packet.writeUInt32BE(report.receiverSsrc, 4)
  packet.writeUInt32BE(report.senderSsrc, 8)
  packet[12] = Math.min(255, Math.max(0, report.fractionLost))
  packet.writeIntBE(Math.min(0x7f_ffff, Math.max(-0x80_0000, report.totalLost)), 13, 3)
  packet.writeUInt32BE(report.highestSequence >>> 0, 16)
  packet.writeUInt32BE(Math.min(0xffff_ffff, Math.max(0, Math.round(report.jitter))), 20)
  packet.writeUInt32BE(report.lastReport, 24)
  packet.writeUInt32BE(report.delay >>> 0, 28)
  describeSource(packet, 32, report.receiverSsrc)
  return packet
}

/** The reception reports in the compound packet `bytes[from, to)`, of receivers that may send something as well. */
export const parseReceptionReports = (bytes: Buffer, from: number, to: number): ReadonlyArray<ReceptionReport> => {
  const reports: Array<ReceptionReport> = []
  let at = from
  while (at + 8 <= to) {
    const end = at + 4 + bytes.readUInt16BE(at + 2) * 4
    if (bytes[at]! >> 6 !== 2 || end > to) break
    const type = bytes[at + 1]!
    const first = at + (type === receiverReport ? 8 : 28)
    const count = type === receiverReport || type === senderReport ? bytes[at]! & 31 : 0
    for (let block = first; block < first + count * 24 && block + 24 <= end; block += 24) {
      reports.push({
        receiverSsrc: bytes.readUInt32BE(at + 4),
        senderSsrc: bytes.readUInt32BE(block),
        fractionLost: bytes[block + 4]!,
        totalLost: bytes.readIntBE(block + 5, 3),
        highestSequence: bytes.readUInt32BE(block + 8),
        jitter: bytes.readUInt32BE(block + 12),
        lastReport: bytes.readUInt32BE(block + 16),
        delay: bytes.readUInt32BE(block + 20),
      })
    }
    at = end
  }
  return reports
}

/** What a sender tells of one source (section 6.4.1). */
export interface SendingReport {
  readonly ssrc: number
  /** Epoch milliseconds, and the same moment in the RTP clock. */
  readonly wallMs: number
  readonly rtpTimestamp: number
  /** Sent since the beginning; both wrap at 32 bits. */
  readonly packets: number
  readonly payloadBytes: number
}

/** Epoch milliseconds as NTP has them (RFC 5905, section 6), 32 bits each. */
export const ntpSeconds = (wallMs: number): { readonly seconds: number; readonly fraction: number } => {
  const whole = Math.floor(wallMs / 1000)
  return {
    seconds: (whole + ntpToUnix) % eraSeconds,
    fraction: Math.floor((wallMs - whole * 1000) * eraSeconds / 1000),
  }
}

/** A sender report and the source description (section 6.1). */
export const senderReportPacket = (report: SendingReport): Buffer => {
  const packet = Buffer.alloc(28 + 12)
  const { fraction, seconds } = ntpSeconds(report.wallMs)
  packet[0] = 0x80
  packet[1] = senderReport
  packet.writeUInt16BE(6, 2)
  packet.writeUInt32BE(report.ssrc, 4)
  packet.writeUInt32BE(seconds, 8)
  packet.writeUInt32BE(fraction, 12)
  packet.writeUInt32BE(report.rtpTimestamp >>> 0, 16)
  packet.writeUInt32BE(report.packets % eraSeconds, 20)
  packet.writeUInt32BE(report.payloadBytes % eraSeconds, 24)
  describeSource(packet, 28, report.ssrc)
  return packet
}

/** The end of a source (section 6.6); sent behind a report in the same compound packet. */
export const goodbyePacket = (ssrc: number): Buffer => {
  const packet = Buffer.from([0x81, goodbye, 0, 1, 0, 0, 0, 0])
  packet.writeUInt32BE(ssrc, 4)
  return packet
}
