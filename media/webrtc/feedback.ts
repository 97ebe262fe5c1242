/**
 * RTCP feedback as browsers speak it: lost packets and pictures (RFC 4585, RFC 5104), the receiver's estimate of its line
 * (draft-alvestrand-rmcat-remb-03), and round-trip times of reception reports (RFC 3550, section 6.4.1).
 *
 * Invariants
 * 1. Reading is total: it stops at the first packet that cannot be. At most {@link maxLostPackets} losses are read of a datagram.
 */

const transportFeedback = 205
const payloadFeedback = 206
const goodbye = 203
const maxLostPackets = 512

export interface Feedback {
  /** Sequence numbers asked for again, by the source that they are of. */
  readonly lost: ReadonlyArray<{ readonly ssrc: number; readonly sequence: number }>
  /** Sources that a key picture is asked for of (PLI or FIR). */
  readonly pictures: ReadonlyArray<number>
  /** The other side's estimate of what its line carries, bits a second. */
  readonly bitrate: number | null
  readonly goodbye: boolean
}

type Growing = { -readonly [K in keyof Feedback]: Feedback[K] extends ReadonlyArray<infer A> ? Array<A> : Feedback[K] }

/** Pairs of a sequence number and a mask of the sixteen behind it (RFC 4585, section 6.2.1). */
const nack = (bytes: Buffer, at: number, end: number, into: Growing): void => {
  const ssrc = bytes.readUInt32BE(at + 8)
  for (let item = at + 12; item + 4 <= end && into.lost.length < maxLostPackets; item += 4) {
    const sequence = bytes.readUInt16BE(item)
    into.lost.push({ ssrc, sequence })
    const mask = bytes.readUInt16BE(item + 2)
    for (let bit = 0; bit < 16; bit++) {
      if ((mask >> bit & 1) === 1) into.lost.push({ ssrc, sequence: (sequence + 1 + bit) & 0xffff })
    }
  }
}

const payload = (bytes: Buffer, at: number, end: number, into: Growing): void => {
  const format = bytes[at]! & 31
  if (format === 1) into.pictures.push(bytes.readUInt32BE(at + 8))
  else if (format === 4) {
    for (let item = at + 12; item + 8 <= end && into.pictures.length < 8; item += 8) {
      into.pictures.push(bytes.readUInt32BE(item))
    }
  } else if (format === 15 && end - at >= 20 && bytes.toString("latin1", at + 12, at + 16) === "REMB") {
    const exponent = bytes[at + 17]! >> 2
    into.bitrate = Math.min(((bytes[at + 17]! & 3) << 16 | bytes.readUInt16BE(at + 18)) * 2 ** exponent, 2 ** 40)
  }
}

/** What a compound packet asks for. */
export const parseFeedback = (bytes: Buffer): Feedback => {
  const found: Growing = { lost: [], pictures: [], bitrate: null, goodbye: false }
  let at = 0
  while (at + 4 <= bytes.length) {
    const end = at + 4 + bytes.readUInt16BE(at + 2) * 4
    if (bytes[at]! >> 6 !== 2 || end > bytes.length) break
    const type = bytes[at + 1]!
    if (type === goodbye) found.goodbye = true
    else if (end - at >= 12 && type === transportFeedback && (bytes[at]! & 31) === 1) nack(bytes, at, end, found)
    else if (end - at >= 12 && type === payloadFeedback) payload(bytes, at, end, found)
    at = end
  }
  return found
}

const feedbackPacket = (type: number, format: number, ssrc: number, mediaSsrc: number, body: number): Buffer => {
  const packet = Buffer.alloc(12 + body)
  packet[0] = 0x80 | format
  packet[1] = type
  packet.writeUInt16BE(packet.length / 4 - 1, 2)
  packet.writeUInt32BE(ssrc, 4)
  packet.writeUInt32BE(mediaSsrc, 8)
  return packet
}

/** Asks for a key picture (RFC 4585, section 6.3.1). */
export const pictureLossPacket = (ssrc: number, mediaSsrc: number): Buffer =>
  feedbackPacket(payloadFeedback, 1, ssrc, mediaSsrc, 0)

/** Asks for packets again; `sequences` rise (modulo 2^16). */
export const nackPacket = (ssrc: number, mediaSsrc: number, sequences: ReadonlyArray<number>): Buffer => {
  const items: Array<{ readonly first: number; mask: number }> = []
  for (const sequence of sequences) {
    const last = items.at(-1)
    const behind = last === undefined ? 0 : (sequence - last.first) & 0xffff
    if (last !== undefined && behind >= 1 && behind <= 16) last.mask |= 1 << (behind - 1)
    else items.push({ first: sequence, mask: 0 })
  }
  const packet = feedbackPacket(transportFeedback, 1, ssrc, mediaSsrc, items.length * 4)
  items.forEach(({ first, mask }, index) => {
    packet.writeUInt16BE(first, 12 + index * 4)
    packet.writeUInt16BE(mask, 14 + index * 4)
  })
  return packet
}

/** Tells the sender how much it may send, bits a second. */
export const bitratePacket = (ssrc: number, mediaSsrc: number, bitrate: number): Buffer => {
  const packet = feedbackPacket(payloadFeedback, 15, ssrc, 0, 12)
  const exponent = Math.max(0, Math.ceil(Math.log2(bitrate / 0x3_ffff)))
  const mantissa = Math.floor(bitrate / 2 ** exponent)
  packet.write("REMB", 12, "latin1")
  packet[16] = 1
  packet[17] = exponent << 2 | mantissa >> 16
  packet.writeUInt16BE(mantissa & 0xffff, 18)
  packet.writeUInt32BE(mediaSsrc, 20)
  return packet
}
