/**
 * SRTP and SRTCP with AES_CM_128_HMAC_SHA1_80 (RFC 3711), the profile that every WebRTC endpoint has (RFC 8827, section 6.5).
 *
 * Invariants
 * 1. Who protects numbers packets of an SSRC in rising order, retransmissions apart: these carry the same bytes as before, so that a
 *    key stream is never used for two different texts.
 * 2. Nothing is decrypted before its tag was checked. What is not authentic, too old or came before is null, and nothing throws.
 * 3. At most {@link maxSources} sources of a sender are followed.
 */
import { timingSafeEqual } from "node:crypto"
import { frontBytes, type PacketMemory } from "./packet-memory.ts"
import { maxSources, rtpHeaderBytes, SessionKeys, tagBytes } from "./srtp-keys.ts"

/** A tag and the index with its flag. */
const srtcpTailBytes = 4 + tagBytes
/** Packets that may come late, as many as the bits of the replay window (RFC 3711, section 3.3.2). */
const windowBits = 512

/** Encrypts what one endpoint sends. */
export class SrtpSender {
  private readonly rtp: SessionKeys
  private readonly rtcp: SessionKeys
  private rtcpIndex = 0

  constructor(masterKey: Buffer, masterSalt: Buffer) {
    this.rtp = new SessionKeys(masterKey, masterSalt, 0)
    this.rtcp = new SessionKeys(masterKey, masterSalt, 3)
  }

  /**
   * Protects the packet of `length` bytes in its memory; behind it are {@link tagBytes} for the tag. Its header has 12 bytes and no
   * extension. `rollover`: how often its sequence number has wrapped.
   */
  protect(memory: PacketMemory, length: number, rollover: number): void {
    const ssrc = memory.bytes.readUInt32BE(frontBytes + 8)
    const sequence = memory.bytes.readUInt16BE(frontBytes + 2)
    this.rtp.cryptNext(memory, rtpHeaderBytes, length, ssrc, rollover * 0x1_0000 + sequence)
    this.rtp.tagPacket(memory, length, rollover)
  }

  /** A compound packet, protected. */
  protectRtcp(packet: Buffer): Buffer {
    this.rtcpIndex = (this.rtcpIndex + 1) & 0x7fff_ffff
    const out = Buffer.allocUnsafe(packet.length + srtcpTailBytes)
    packet.copy(out)
    this.rtcp.crypt(out, 8, packet.length, packet.readUInt32BE(4), this.rtcpIndex)
    out.writeUInt32BE((this.rtcpIndex | 0x8000_0000) >>> 0, packet.length)
    this.rtcp.tag(out, packet.length + 4, null, out, packet.length + 4)
    return out
  }
}

/** What came of a source already (RFC 3711, section 3.3.2). */
class Window {
  private readonly seen = new Uint8Array(windowBits)
  private highest = -1

  isNew(index: number): boolean {
    if (index > this.highest) return true
    return this.highest - index < windowBits && this.seen[index % windowBits] === 0
  }

  note(index: number): void {
    if (index > this.highest) {
      const from = Math.max(this.highest + 1, index - windowBits + 1)
      for (let at = from; at < index; at++) this.seen[at % windowBits] = 0
      this.highest = index
    }
    this.seen[index % windowBits] = 1
  }

  /** The index that a sequence number most likely stands for (appendix A of RFC 3711); below 0: none. */
  guess(sequence: number): number {
    if (this.highest < 0) return sequence
    const low = this.highest & 0xffff
    const ahead = (sequence - low) & 0xffff
    return this.highest + (ahead < 0x8000 ? ahead : ahead - 0x1_0000)
  }
}

const headerLength = (packet: Buffer): number => {
  const first = packet[0]!
  const plain = rtpHeaderBytes + (first & 15) * 4
  if ((first & 0x10) === 0) return plain
  return plain + 4 > packet.length ? packet.length : plain + 4 + packet.readUInt16BE(plain + 2) * 4
}

/** Decrypts what the other endpoint sends. */
export class SrtpReceiver {
  private readonly rtp: SessionKeys
  private readonly rtcp: SessionKeys
  private readonly sources = new Map<number, Window>()
  private readonly reports = new Window()
  private readonly expected = Buffer.alloc(tagBytes)

  constructor(masterKey: Buffer, masterSalt: Buffer) {
    this.rtp = new SessionKeys(masterKey, masterSalt, 0)
    this.rtcp = new SessionKeys(masterKey, masterSalt, 3)
  }

  /** The RTP packet in memory of its own, or null. */
  unprotect(packet: Buffer): Buffer | null {
    const length = packet.length - tagBytes
    if (length < rtpHeaderBytes || packet[0]! >> 6 !== 2) return null
    const ssrc = packet.readUInt32BE(8)
    const known = this.sources.get(ssrc)
    const window = known ?? (this.sources.size < maxSources ? new Window() : null)
    if (window === null) return null
    const sequence = packet.readUInt16BE(2)
    const index = window.guess(sequence)
    if (index < 0 || !window.isNew(index)) return null
    const rollover = Math.floor(index / 0x1_0000)
    if (!this.isAuthentic(this.rtp, packet, length, rollover)) return null
    const body = headerLength(packet)
    if (body > length) return null
    window.note(index)
    if (known === undefined) this.sources.set(ssrc, window)
    const out = Buffer.from(packet.subarray(0, length))
    this.rtp.crypt(out, body, length, ssrc, index)
    return out
  }

  /** Whether behind `packet[0, to)` stands its tag. */
  private isAuthentic(keys: SessionKeys, packet: Buffer, to: number, rollover: number | null): boolean {
    keys.tag(packet, to, rollover, this.expected, 0)
    return timingSafeEqual(this.expected, packet.subarray(to))
  }

  /** The compound RTCP packet in memory of its own, or null. */
  unprotectRtcp(packet: Buffer): Buffer | null {
    const length = packet.length - srtcpTailBytes
    if (length < 8 || packet[0]! >> 6 !== 2) return null
    if (!this.isAuthentic(this.rtcp, packet, length + 4, null)) return null
    const flagged = packet.readUInt32BE(length)
    const index = flagged & 0x7fff_ffff
    if (!this.reports.isNew(index)) return null
    this.reports.note(index)
    const out = Buffer.from(packet.subarray(0, length))
    // The first bit tells whether it is encrypted at all.
    if (flagged > 0x7fff_ffff) this.rtcp.crypt(out, 8, length, out.readUInt32BE(4), index)
    return out
  }
}
