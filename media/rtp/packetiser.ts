/**
 * Access units to RTP packets (RFC 3550, section 5.1), framed for an RTSP connection (RFC 2326, section 10.12): H.264 (RFC 6184),
 * H.265 (RFC 7798), AAC (RFC 3640, mode AAC-hbr), G.711 (RFC 3551) and Opus (RFC 7587).
 *
 * Invariants
 * 1. A unit becomes one piece of memory with all its packets, each behind its 4 bytes of interleaving: every reader is sent the
 *    same bytes, by UDP without those 4.
 * 2. What was handed out is never written to again.
 * 3. A payload has at most {@link maxPayloadBytes}. Frames of G.711 and Opus stay the packet that they came as, however long.
 * 4. The last packet of a unit, and only that, carries the marker; G.711 and Opus have none within a stream.
 * 5. A unit that the format cannot carry (an AAC frame of 8 KiB, a length that leads beyond the unit) becomes nothing.
 */
import type { AudioCodec, VideoCodec } from "#schema/media.ts"

/** Leaves room for IP, UDP and a tunnel's headers within 1500 bytes. */
export const maxPayloadBytes = 1400
/** `$`, channel, length. */
export const interleavingBytes = 4
export const rtpHeaderBytes = 12

/** All packets of a unit. */
export interface Packets {
  readonly bytes: Buffer
  /** Where each packet's interleaving begins; it ends where the next one begins. */
  readonly starts: ReadonlyArray<number>
  /** Sequence number of the first. */
  readonly sequence: number
  /** The RTP time of all of them, 32 bits. */
  readonly timestamp: number
  /** Bytes of payload, headers apart. */
  readonly payloadBytes: number
}

export interface PacketiserOptions {
  /** Of the RTP packets on an RTSP connection. */
  readonly channel: number
  readonly payloadType: number
  readonly ssrc: number
  /** Sequence number of the first packet. */
  readonly sequence: number
}

/** Numbers packets and puts them into memory. */
class PacketWriter {
  private readonly options: PacketiserOptions
  private bytes = Buffer.alloc(0)
  private at = 0
  private starts: Array<number> = []
  private timestamp = 0
  private first: number
  sequence: number

  constructor(options: PacketiserOptions) {
    this.options = options
    this.sequence = options.sequence & 0xffff
    this.first = this.sequence
  }

  /** A unit of at most so many bytes of payload in so many packets begins. */
  open(timestamp: number, payloadBytes: number, packets: number): void {
    this.bytes = Buffer.allocUnsafeSlow(payloadBytes + packets * (interleavingBytes + rtpHeaderBytes))
    this.at = 0
    this.starts = []
    this.timestamp = timestamp >>> 0
    this.first = this.sequence
  }

  /** The headers of a packet whose payload will be `length` bytes long. */
  packet(length: number, marker: boolean): void {
    const { at, bytes, options, sequence } = this
    this.starts.push(at)
    bytes[at] = 0x24
    bytes[at + 1] = options.channel
    bytes.writeUInt16BE(rtpHeaderBytes + length, at + 2)
    bytes[at + 4] = 0x80
    bytes[at + 5] = options.payloadType | (marker ? 0x80 : 0)
    bytes.writeUInt16BE(sequence, at + 6)
    bytes.writeUInt32BE(this.timestamp, at + 8)
    bytes.writeUInt32BE(options.ssrc, at + 12)
    this.at = at + interleavingBytes + rtpHeaderBytes
    this.sequence = (sequence + 1) & 0xffff
  }

  put(byte: number): void {
    this.bytes[this.at++] = byte
  }

  append(source: Uint8Array, from: number, to: number): void {
    this.bytes.set(from === 0 && to === source.length ? source : source.subarray(from, to), this.at)
    this.at += to - from
  }

  close(): Packets {
    const { first: sequence, starts, timestamp } = this
    const bytes = this.bytes.subarray(0, this.at)
    this.bytes = Buffer.alloc(0)
    const payloadBytes = bytes.length - starts.length * (interleavingBytes + rtpHeaderBytes)
    return { bytes, starts, sequence, timestamp, payloadBytes }
  }
}

export interface Packetiser {
  /** Sequence number of the next packet. */
  readonly sequence: number
  /**
   * `timestamp`: of the unit, in ticks of the track's clock. `sets` are put in front of a picture: the parameter sets of a key
   * picture; audio has none. Null: invariant 5.
   */
  readonly unit: (data: Uint8Array, timestamp: number, sets?: ReadonlyArray<Uint8Array>) => Packets | null
}

/** A part of a picture: NAL unit `source[from, to)`. */
interface Nal {
  readonly source: Uint8Array
  readonly from: number
  readonly to: number
}

/** The NAL units of an access unit, each behind its 32-bit length; null where a length leads beyond it. */
const nalsOf = (data: Uint8Array, headerBytes: number): Array<Nal> | null => {
  const nals: Array<Nal> = []
  let at = 0
  while (at + 4 < data.length) {
    const length = ((data[at]! << 24) | (data[at + 1]! << 16) | (data[at + 2]! << 8) | data[at + 3]!) >>> 0
    const to = at + 4 + length
    if (to > data.length) return null
    // One that is a header alone (the end of a sequence) means nothing in a stream that goes on.
    if (length > headerBytes) nals.push({ source: data, from: at + 4, to })
    at = to
  }
  return at === data.length ? nals : null
}

/** What differs between the two: how a NAL unit's header is taken apart for fragments. */
interface Fragmenting {
  readonly headerBytes: 1 | 2
  readonly type: (nal: Uint8Array, at: number) => number
  /** Writes what stands in front of a fragment. */
  readonly indicate: (writer: PacketWriter, nal: Uint8Array, at: number, flags: number) => void
}

const fragmenting: Readonly<Record<VideoCodec, Fragmenting>> = {
  /** FU-A (RFC 6184, section 5.8). */
  h264: {
    headerBytes: 1,
    type: (nal, at) => nal[at]! & 31,
    indicate: (writer, nal, at, flags) => {
      writer.put((nal[at]! & 0xe0) | 28)
      writer.put(flags | (nal[at]! & 31))
    },
  },
  /** Fragmentation units (RFC 7798, section 4.4.3). */
  h265: {
    headerBytes: 2,
    type: (nal, at) => (nal[at]! >> 1) & 63,
    indicate: (writer, nal, at, flags) => {
      writer.put((nal[at]! & 0x81) | (49 << 1))
      writer.put(nal[at + 1]!)
      writer.put(flags | ((nal[at]! >> 1) & 63))
    },
  },
}

const fragment = (writer: PacketWriter, { from, source, to }: Nal, last: boolean, how: Fragmenting): void => {
  const room = maxPayloadBytes - how.headerBytes - 1
  for (let at = from + how.headerBytes; at < to; at += room) {
    const end = Math.min(at + room, to)
    const flags = (at === from + how.headerBytes ? 0x80 : 0) | (end === to ? 0x40 : 0)
    writer.packet(how.headerBytes + 1 + end - at, last && end === to)
    how.indicate(writer, source, from, flags)
    writer.append(source, at, end)
  }
}

export const makeVideoPacketiser = (codec: VideoCodec, options: PacketiserOptions): Packetiser => {
  const writer = new PacketWriter(options)
  const how = fragmenting[codec]
  return {
    get sequence() {
      return writer.sequence
    },
    unit: (data, timestamp, sets = []) => {
      const found = nalsOf(data, how.headerBytes)
      if (found === null || found.length === 0) return null
      const nals = [...sets.map((source): Nal => ({ source, from: 0, to: source.length })), ...found]
      let bytes = 0
      let packets = 0
      for (const { from, to } of nals) {
        const fragments = to - from <= maxPayloadBytes ? 1 : Math.ceil((to - from) / (maxPayloadBytes - 3))
        bytes += to - from + fragments * 3
        packets += fragments
      }
      writer.open(timestamp, bytes, packets)
      nals.forEach((nal, index) => {
        const last = index === nals.length - 1
        const length = nal.to - nal.from
        if (length > maxPayloadBytes) return fragment(writer, nal, last, how)
        writer.packet(length, last)
        writer.append(nal.source, nal.from, nal.to)
      })
      return writer.close()
    },
  }
}

/** The AU header of AAC-hbr has 13 bits for the size. */
const maxAacBytes = 8191

/** One frame a packet, longer ones in fragments that each tell the size of the whole (RFC 3640, section 3.2.3.2). */
const aacUnit = (writer: PacketWriter, data: Uint8Array, timestamp: number): Packets | null => {
  if (data.length === 0 || data.length > maxAacBytes) return null
  const room = maxPayloadBytes - 4
  const packets = Math.ceil(data.length / room)
  writer.open(timestamp, data.length + packets * 4, packets)
  for (let at = 0; at < data.length; at += room) {
    const end = Math.min(at + room, data.length)
    writer.packet(4 + end - at, end === data.length)
    writer.put(0)
    writer.put(16)
    writer.put(data.length >> 5)
    writer.put((data.length << 3) & 0xff)
    writer.append(data, at, end)
  }
  return writer.close()
}

const wholeUnit = (writer: PacketWriter, data: Uint8Array, timestamp: number): Packets | null => {
  if (data.length === 0 || data.length > 0xffff - rtpHeaderBytes) return null
  writer.open(timestamp, data.length, 1)
  writer.packet(data.length, false)
  writer.append(data, 0, data.length)
  return writer.close()
}

export const makeAudioPacketiser = (codec: AudioCodec, options: PacketiserOptions): Packetiser => {
  const writer = new PacketWriter(options)
  const unit = codec === "aac" ? aacUnit : wholeUnit
  return {
    get sequence() {
      return writer.sequence
    },
    unit: (data, timestamp) => unit(writer, data, timestamp),
  }
}
