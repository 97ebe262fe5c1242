/** A browser that watches, for tests: libdatachannel for ICE, DTLS and SRTP, and a reader of H.264 packets of a few lines. */
import { receiverReportPacket } from "#media/rtp/rtcp.ts"
import { nackPacket, pictureLossPacket } from "#media/webrtc/feedback.ts"
import type { Track } from "node-datachannel"

const us = 99

/** NAL units of whole pictures, by their RTP time. */
export class Watching {
  readonly pictures: Array<{ readonly timestamp: number; readonly nals: ReadonlyArray<Buffer> }> = []
  readonly sounds: Array<Buffer> = []
  readonly reports: Array<Buffer> = []
  readonly missing = new Set<number>()
  private readonly packets = new Map<number, Buffer>()
  private next: number | null = null
  private nals: Array<Buffer> = []
  private fragments: Array<Buffer> = []
  ssrc = 0
  received = 0
  highest = 0
  private readonly video: Track
  private seen = new Set<number>()

  constructor(video: Track, audio: Track | null) {
    this.video = video
    video.onMessage((message) => this.message(message))
    audio?.onMessage((message) => {
      if (message[1]! < 192 || message[1]! > 223) this.sounds.push(message.subarray(12))
    })
  }

  private message(packet: Buffer): void {
    if (packet[1]! >= 192 && packet[1]! <= 223) return void this.reports.push(packet)
    const sequence = packet.readUInt16BE(2)
    this.ssrc = packet.readUInt32BE(8)
    this.next ??= sequence
    if (this.seen.has(sequence)) return
    this.seen.add(sequence)
    this.received++
    if (((sequence - this.highest) << 16 >> 16) > 0 || this.received === 1) this.highest = sequence
    this.missing.delete(sequence)
    this.packets.set(sequence, packet)
    if (sequence !== this.next && !this.packets.has(this.next)) {
      for (let at = this.next; at !== sequence; at = (at + 1) & 0xffff) if (!this.packets.has(at)) this.missing.add(at)
    }
    for (let ready = this.packets.get(this.next); ready !== undefined; ready = this.packets.get(this.next)) {
      this.packets.delete(this.next)
      this.next = (this.next + 1) & 0xffff
      this.inOrder(ready)
    }
  }

  private inOrder(packet: Buffer): void {
    const type = packet[12]! & 31
    if (type === 28) {
      const header = packet[13]!
      if ((header & 0x80) !== 0) this.fragments = [Buffer.from([(packet[12]! & 0xe0) | (header & 31)])]
      this.fragments.push(packet.subarray(14))
      if ((header & 0x40) !== 0) this.nals.push(Buffer.concat(this.fragments))
    } else this.nals.push(packet.subarray(12))
    if ((packet[1]! & 0x80) === 0) return
    this.pictures.push({ timestamp: packet.readUInt32BE(4), nals: this.nals })
    this.nals = []
  }

  askAgain(): void {
    if (this.missing.size > 0) this.video.sendMessageBinary(nackPacket(us, this.ssrc, [...this.missing].slice(0, 100)))
  }

  askForPicture(): void {
    this.video.sendMessageBinary(pictureLossPacket(us, this.ssrc))
  }

  report(fractionLost = 0): void {
    const last = this.reports.at(-1)
    this.video.sendMessageBinary(receiverReportPacket({
      receiverSsrc: us,
      senderSsrc: this.ssrc,
      fractionLost,
      totalLost: this.missing.size,
      highestSequence: this.highest,
      jitter: 90,
      lastReport: last === undefined ? 0 : last.readUInt32BE(10),
      delay: 0,
    }))
  }
}
