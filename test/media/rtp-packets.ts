/** Hand-made RTP packets, for tests. */
import type { UnitSink } from "#media/rtp/depacketiser.ts"
import type { VideoParameters } from "#schema/media.ts"

export interface PacketOptions {
  readonly sequence: number
  readonly timestamp: number
  readonly marker?: boolean
  readonly payloadType?: number
  readonly ssrc?: number
}

export const rtpPacket = (options: PacketOptions, payload: Uint8Array): Buffer => {
  const header = Buffer.alloc(12)
  header[0] = 0x80
  header[1] = (options.marker === true ? 0x80 : 0) | (options.payloadType ?? 96)
  header.writeUInt16BE(options.sequence & 0xffff, 2)
  header.writeUInt32BE(options.timestamp >>> 0, 4)
  header.writeUInt32BE(options.ssrc ?? 0x1234, 8)
  return Buffer.concat([header, payload])
}

/** NAL units of an Annex-B stream, without start codes. */
export const nalUnits = (stream: Buffer): ReadonlyArray<Buffer> => {
  const starts: Array<number> = []
  for (let i = stream.indexOf("\0\0\x01", 0, "latin1"); i >= 0; i = stream.indexOf("\0\0\x01", i + 3, "latin1")) {
    starts.push(i + 3)
  }
  return starts.map((start, index) => {
    let end = index + 1 < starts.length ? starts[index + 1]! - 3 : stream.length
    while (end > start && stream[end - 1] === 0) end--
    return stream.subarray(start, end)
  })
}

/** FU-A fragments (RFC 6184, section 5.8) of at most `size` bytes each. */
export const fragments264 = (nal: Uint8Array, size: number): ReadonlyArray<Buffer> => {
  const pieces: Array<Buffer> = []
  for (let at = 1; at < nal.length; at += size) {
    const flags = (at === 1 ? 0x80 : 0) | (at + size >= nal.length ? 0x40 : 0)
    pieces.push(Buffer.from([(nal[0]! & 0xe0) | 28, flags | (nal[0]! & 31), ...nal.subarray(at, at + size)]))
  }
  return pieces
}

/** Fragmentation units (RFC 7798, section 4.4.3). */
export const fragments265 = (nal: Uint8Array, size: number): ReadonlyArray<Buffer> => {
  const pieces: Array<Buffer> = []
  for (let at = 2; at < nal.length; at += size) {
    const flags = (at === 2 ? 0x80 : 0) | (at + size >= nal.length ? 0x40 : 0)
    const type = (nal[0]! >> 1) & 63
    pieces.push(Buffer.from([(nal[0]! & 0x81) | (49 << 1), nal[1]!, flags | type, ...nal.subarray(at, at + size)]))
  }
  return pieces
}

/** STAP-A (RFC 6184, section 5.7.1). */
export const aggregate264 = (nals: ReadonlyArray<Uint8Array>): Buffer =>
  Buffer.concat([Buffer.from([24]), ...nals.flatMap((nal) => [Buffer.from([nal.length >> 8, nal.length & 255]), nal])])

/** Aggregation packet (RFC 7798, section 4.4.2). */
export const aggregate265 = (nals: ReadonlyArray<Uint8Array>): Buffer =>
  Buffer.concat([
    Buffer.from([48 << 1, 1]),
    ...nals.flatMap((nal) => [Buffer.from([nal.length >> 8, nal.length & 255]), nal]),
  ])

/** ISO/IEC 14496-15: each NAL unit behind its 32-bit length. */
export const lengthPrefixed = (nals: ReadonlyArray<Uint8Array>): Buffer =>
  Buffer.concat(nals.flatMap((nal) => {
    const length = Buffer.alloc(4)
    length.writeUInt32BE(nal.length)
    return [length, nal]
  }))

/** What came out of a depacketiser. */
export interface Got {
  readonly units: Array<
    { readonly data: Buffer; readonly key: boolean; readonly ticks: number; readonly duration: number }
  >
  readonly parameters: Array<VideoParameters>
  readonly losses: Array<number>
}

export const collect = () => {
  const got: Got = { units: [], parameters: [], losses: [] }
  const onUnit: UnitSink = (data, key, ticks, duration) => {
    got.units.push({ data: Buffer.from(data), key, ticks, duration })
  }
  return { got, onUnit }
}
