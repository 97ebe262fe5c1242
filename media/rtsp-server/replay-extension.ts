/**
 * The RTP header extension of replay (ONVIF Streaming Specification, section 6.3): when a picture was recorded, and how it stands to its
 * neighbours.
 *
 * Invariants
 * 1. It stands in the first packet of each access unit, and only there.
 * 2. What it is put into is copied: packets that were handed out are never written to.
 */
import { interleavingBytes, type Packets, rtpHeaderBytes } from "../rtp/packetiser.ts"
import { ntpSeconds } from "../rtp/rtcp.ts"

export interface ReplayMark {
  /** Epoch milliseconds, with a fraction. */
  readonly wallMs: number
  /** C: decoding can start here. */
  readonly key: boolean
  /** E: the last one before a gap, or of all. */
  readonly last: boolean
  /** D: what comes before it is not what was sent before it. */
  readonly discontinuity: boolean
  /** T: nothing follows. */
  readonly terminal: boolean
  /** The low byte of the `CSeq` of the PLAY that it answers. */
  readonly cseq: number
}

const profile = 0xabac
const words = 3
/** The extension with its own header (RFC 3550, section 5.3.1). */
const extensionBytes = 4 + words * 4

export const withReplayMark = ({ bytes, starts, ...more }: Packets, mark: ReplayMark): Packets => {
  const at = interleavingBytes + rtpHeaderBytes
  const marked = Buffer.allocUnsafe(bytes.length + extensionBytes)
  bytes.copy(marked, 0, 0, at)
  bytes.copy(marked, at + extensionBytes, at)
  marked.writeUInt16BE(bytes.readUInt16BE(2) + extensionBytes, 2)
  marked[4]! |= 0x10
  marked.writeUInt16BE(profile, at)
  marked.writeUInt16BE(words, at + 2)
  const { fraction, seconds } = ntpSeconds(mark.wallMs)
  marked.writeUInt32BE(seconds, at + 4)
  marked.writeUInt32BE(fraction, at + 8)
  marked[at + 12] = (mark.key ? 0x80 : 0) | (mark.last ? 0x40 : 0) | (mark.discontinuity ? 0x20 : 0) |
    (mark.terminal ? 0x10 : 0)
  marked[at + 13] = mark.cseq & 0xff
  marked.writeUInt16BE(0, at + 14)
  return { ...more, bytes: marked, starts: starts.map((start, index) => index === 0 ? start : start + extensionBytes) }
}
