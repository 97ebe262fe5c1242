/**
 * Packetises footage once: each unit (a picture, an audio frame) becomes a template of interleaved RTP packets
 * (RFC 2326, section 10.12; RFC 3550, section 5.1), of which only header fields and the frame mark are patched per send.
 *
 * Invariants
 * 1. A template is never written to: a send copies it, so what waits in a socket cannot change under it.
 * 2. Each packet is preceded by 4 bytes for interleaving (`$`, channel, length); UDP leaves them out.
 * 3. The last packet of a picture, and only that, carries the marker bit.
 * 4. A packet's payload is at most `MTU` bytes.
 */
import type { AudioFootage, Picture, VideoCodec, VideoFootage } from "./footage.ts"
import { NAME_AT, seiUnit, stampFrame } from "./sei.ts"

export const MTU = 1400
const PREFIX = 4
const HEADER = 12

export interface Template {
  readonly bytes: Buffer
  /** Where each packet's interleaving prefix begins. */
  readonly packets: ReadonlyArray<number>
  /** Where the frame mark's UUID begins; -1 for audio. */
  readonly markAt: number
  readonly key: boolean
  /** Presentation after sending, in units. */
  readonly delay: number
}

export interface Stamp {
  readonly sequence: number
  /** RTP timestamp, taken modulo 2^32. */
  readonly timestamp: number
  readonly ssrc: number
  /** What `markName` made; not used for audio. */
  readonly name: Buffer
  readonly frame: number
  readonly sentMs: number
}

const template = (
  payloadType: number,
  payloads: ReadonlyArray<Buffer>,
  extra: { readonly mark: Buffer | null; readonly key: boolean; readonly delay: number; readonly marker: boolean },
): Template => {
  const bytes = Buffer.alloc(payloads.reduce((sum, payload) => sum + PREFIX + HEADER + payload.length, 0))
  const packets: Array<number> = []
  let at = 0
  payloads.forEach((payload, i) => {
    packets.push(at)
    bytes[at] = 0x24
    bytes.writeUInt16BE(HEADER + payload.length, at + 2)
    bytes[at + 4] = 0x80
    bytes[at + 5] = payloadType | (extra.marker && i === payloads.length - 1 ? 0x80 : 0)
    payload.copy(bytes, at + PREFIX + HEADER)
    at += PREFIX + HEADER + payload.length
  })
  return {
    bytes,
    packets,
    key: extra.key,
    delay: extra.delay,
    markAt: extra.mark === null ? -1 : bytes.indexOf(extra.mark),
  }
}

/** FU-A (RFC 6184, section 5.8). */
const fragmentsH264 = (unit: Buffer): Array<Buffer> => {
  const header = unit[0]!
  return slices(unit.subarray(1), MTU - 2).map((part, i, all) =>
    Buffer.concat([
      Buffer.from([(header & 0xe0) | 28, (header & 31) | (i === 0 ? 0x80 : 0) | (i === all.length - 1 ? 0x40 : 0)]),
      part,
    ])
  )
}

/** FU (RFC 7798, section 4.4.3). */
const fragmentsH265 = (unit: Buffer): Array<Buffer> => {
  const type = (unit[0]! >> 1) & 63
  return slices(unit.subarray(2), MTU - 3).map((part, i, all) =>
    Buffer.concat([
      Buffer.from([
        (unit[0]! & 0x81) | (49 << 1),
        unit[1]!,
        type | (i === 0 ? 0x80 : 0) | (i === all.length - 1 ? 0x40 : 0),
      ]),
      part,
    ])
  )
}

const slices = (bytes: Buffer, size: number): Array<Buffer> =>
  Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) => bytes.subarray(i * size, (i + 1) * size))

/** STAP-A (RFC 6184, section 5.7.1) or AP (RFC 7798, section 4.4.2). */
const aggregate = (codec: VideoCodec, units: ReadonlyArray<Buffer>): Buffer => {
  const header = codec === "h264" ? Buffer.from([0x60 | 24]) : Buffer.from([48 << 1, 0x01])
  return Buffer.concat([header, ...units.flatMap((unit) => [Buffer.from([unit.length >> 8, unit.length & 255]), unit])])
}

const payloadsOf = (codec: VideoCodec, leading: ReadonlyArray<Buffer>, units: ReadonlyArray<Buffer>): Array<Buffer> => {
  const whole = leading.reduce((sum, unit) => sum + unit.length + 2, 2)
  const first = leading.length > 1 && whole <= MTU ? [aggregate(codec, leading)] : [...leading]
  const split = codec === "h264" ? fragmentsH264 : fragmentsH265
  return [...first, ...units.flatMap((unit) => (unit.length <= MTU ? [unit] : split(unit)))]
}

/** `inBand`: repeat the parameter sets in front of each key frame. */
export const videoTemplates = (
  footage: VideoFootage,
  options: { readonly payloadType: number; readonly inBand: boolean },
): Array<Template> => {
  const { unit, uuidAt } = seiUnit(footage.codec)
  const mark = unit.subarray(uuidAt)
  return footage.pictures.map((picture: Picture) => {
    const sets = picture.key && options.inBand ?
      (picture.parameterSets.length > 0 ? picture.parameterSets : footage.parameterSets) :
      []
    return template(options.payloadType, payloadsOf(footage.codec, [...sets, unit], picture.units), {
      mark,
      key: picture.key,
      delay: picture.delay,
      marker: true,
    })
  })
}

/** AAC as AAC-hbr (RFC 3640, section 3.3.6), one frame a packet; others as they are (RFC 3551, RFC 7587). */
export const audioTemplates = (footage: AudioFootage, payloadType: number): Array<Template> =>
  footage.units.map((unit) => {
    const payload = footage.codec === "aac" ?
      Buffer.concat([Buffer.from([0, 16, unit.length >> 5, (unit.length << 3) & 255]), unit]) :
      unit
    return template(payloadType, [payload], { mark: null, key: true, delay: 0, marker: footage.codec === "aac" })
  })

/** A copy of the template, stamped for sending on interleaved channel 0. */
export const stamped = (of: Template, stamp: Stamp): Buffer => {
  const bytes = Buffer.allocUnsafeSlow(of.bytes.length)
  of.bytes.copy(bytes)
  const timestamp = stamp.timestamp % 0x1_0000_0000
  of.packets.forEach((at, i) => {
    bytes.writeUInt16BE((stamp.sequence + i) & 0xffff, at + 6)
    bytes.writeUInt32BE(timestamp, at + 8)
    bytes.writeUInt32BE(stamp.ssrc, at + 12)
  })
  if (of.markAt >= 0) {
    stamp.name.copy(bytes, of.markAt + NAME_AT)
    stampFrame(bytes, of.markAt, stamp.frame, stamp.sentMs)
  }
  return bytes
}

export interface SenderReport {
  readonly ssrc: number
  readonly wallMs: number
  readonly timestamp: number
  readonly packets: number
  readonly octets: number
  readonly cname: string
}

/** Sender report and source description in one compound packet (RFC 3550, section 6.1), with an interleaving prefix. */
export const senderReport = (report: SenderReport): Buffer => {
  const cname = Buffer.from(report.cname, "latin1").subarray(0, 255)
  const chunk = Math.ceil((4 + 2 + cname.length + 1) / 4) * 4
  const bytes = Buffer.alloc(PREFIX + 28 + 4 + chunk)
  bytes[0] = 0x24
  bytes.writeUInt16BE(bytes.length - PREFIX, 2)
  bytes.set([0x80, 200, 0, 6], 4)
  bytes.writeUInt32BE(report.ssrc, 8)
  const seconds = Math.floor(report.wallMs / 1000)
  bytes.writeUInt32BE((seconds + 2_208_988_800) % 0x1_0000_0000, 12)
  bytes.writeUInt32BE(Math.floor(((report.wallMs - seconds * 1000) / 1000) * 0x1_0000_0000), 16)
  bytes.writeUInt32BE(report.timestamp % 0x1_0000_0000, 20)
  bytes.writeUInt32BE(report.packets % 0x1_0000_0000, 24)
  bytes.writeUInt32BE(report.octets % 0x1_0000_0000, 28)
  bytes.set([0x81, 202, 0, chunk / 4], 32)
  bytes.writeUInt32BE(report.ssrc, 36)
  bytes.set([1, cname.length], 40)
  cname.copy(bytes, 42)
  return bytes
}

/** RTCP BYE (RFC 3550, section 6.6), with an interleaving prefix. */
export const bye = (ssrc: number): Buffer => {
  const bytes = Buffer.from([0x24, 0, 0, 8, 0x81, 203, 0, 1, 0, 0, 0, 0])
  bytes.writeUInt32BE(ssrc, 8)
  return bytes
}
