/**
 * One reader: where its tracks go, and what happens when it is too slow.
 *
 * Invariants
 * 1. It begins with a key picture. Once more than {@link skipBytes} wait in its connection it loses everything up to a key picture that
 *    finds at most {@link resumeBytes} waiting.
 * 2. What waits and what it lost since it fell behind are {@link closeBytes} at most; then it is closed. The group of pictures it
 *    begins with is not counted until it was read.
 * 3. By UDP nothing waits, and what the network drops is its reports to tell.
 */
import type { Socket as UdpSocket } from "node:dgram"
import type { Socket } from "node:net"
import { interleavingBytes, type Packets } from "../rtp/packetiser.ts"
import { parseReceptionReports } from "../rtp/rtcp.ts"
import type { TrackName } from "./description.ts"
import { channelOf, type Feed, type Outlet } from "./feed.ts"

const skipBytes = 1024 * 1024
const resumeBytes = 256 * 1024
export const closeBytes = 4 * 1024 * 1024

/** Where a track goes: RTP here, RTCP one above. */
export type Destination =
  | { readonly kind: "tcp"; readonly channel: number }
  | { readonly kind: "udp"; readonly address: string; readonly rtpPort: number; readonly rtcpPort: number }

/** The sockets that every reader by UDP shares. */
export interface UdpSockets {
  readonly rtp: UdpSocket
  readonly rtcp: UdpSocket
}

interface Reception {
  readonly lost: number
  readonly jitterMs: number
}

export class Reader implements Outlet {
  readonly feed: Feed
  private readonly socket: Socket
  private readonly udp: UdpSockets | null
  private readonly onEnd: () => void
  readonly destinations = new Map<TrackName, Destination>()
  private readonly receptions = new Map<TrackName, Reception>()
  playing = false
  /** What is sent: everything; nothing yet; nothing any more until it has caught up. */
  private pace: "all" | "starting" | "late" = "starting"
  private lost = 0
  private allowance = 0
  sentBytes = 0
  sentPackets = 0
  skippedPictures = 0

  constructor(feed: Feed, socket: Socket, udp: UdpSockets | null, onEnd: () => void) {
    this.feed = feed
    this.socket = socket
    this.udp = udp
    this.onEnd = onEnd
  }

  play(): void {
    if (this.playing) return
    this.playing = true
    this.pace = "starting"
    this.allowance = Number.POSITIVE_INFINITY
    this.feed.join(this)
    this.allowance = this.socket.writableLength
  }

  pause(): void {
    this.playing = false
    this.feed.leave(this)
  }

  send(track: TrackName, packets: Packets, key: boolean): void {
    const destination = this.destinations.get(track)
    if (destination === undefined || !this.keepsUp(track, packets, key || !this.destinations.has("video"))) return
    this.sentPackets += packets.starts.length
    this.sentBytes += packets.bytes.length
    if (destination.kind === "tcp") this.socket.write(this.framed(track, destination.channel, packets))
    else this.datagrams(destination.address, destination.rtpPort, packets)
  }

  /** Whether the unit is sent. `begins`: it needs no other. */
  private keepsUp(track: TrackName, packets: Packets, begins: boolean): boolean {
    const waiting = this.socket.writableLength
    if (waiting === 0) this.allowance = 0
    if (this.pace !== "all" && begins && waiting <= resumeBytes + this.allowance) {
      this.pace = "all"
      this.lost = 0
    } else if (this.pace === "all" && waiting > skipBytes + this.allowance) this.pace = "late"
    if (this.pace === "all") return true
    if (this.pace === "late") {
      this.lost += packets.bytes.length
      if (track === "video") this.skippedPictures++
      if (waiting + this.lost > closeBytes + this.allowance) this.socket.destroy()
    }
    return false
  }

  /** Others than the ordinary channels cost a copy. */
  private framed(track: TrackName, channel: number, { bytes, starts }: Packets): Buffer {
    if (channel === channelOf[track]) return bytes
    const copy = Buffer.from(bytes)
    for (const start of starts) copy[start + 1] = channel
    return copy
  }

  private datagrams(address: string, port: number, { bytes, starts }: Packets): void {
    starts.forEach((start, index) => {
      const from = start + interleavingBytes
      const to = starts[index + 1] ?? bytes.length
      this.udp?.rtp.send(bytes, from, to - from, port, address)
    })
  }

  report(track: TrackName, rtcp: Buffer): void {
    const destination = this.destinations.get(track)
    if (destination === undefined) return
    if (destination.kind === "udp") {
      this.udp?.rtcp.send(rtcp, destination.rtcpPort, destination.address)
    } else if (this.pace !== "late") {
      const head = Buffer.from([0x24, destination.channel + 1, rtcp.length >> 8, rtcp.length & 0xff])
      this.socket.write(Buffer.concat([head, rtcp]))
    }
  }

  /** What the reader says of what it gets, by interleaving or UDP. */
  received(rtcp: Buffer, from: number, to: number): void {
    for (const { jitter, senderSsrc, totalLost } of parseReceptionReports(rtcp, from, to)) {
      const track = (["video", "audio"] as const).find((name) => this.feed.ssrc(name) === senderSsrc)
      if (track === undefined) continue
      this.receptions.set(track, {
        lost: Math.max(0, totalLost),
        jitterMs: Math.round(jitter * 1000 / this.feed.clockOf(track)),
      })
    }
  }

  get lostPackets(): number | null {
    const all = [...this.receptions.values()]
    return all.length === 0 ? null : all.reduce((sum, { lost }) => sum + lost, 0)
  }

  get jitterMs(): number | null {
    const all = [...this.receptions.values()]
    return all.length === 0 ? null : Math.max(...all.map(({ jitterMs }) => jitterMs))
  }

  /** Says goodbye on its tracks; the connection is then closed. */
  end(): void {
    if (this.playing) {
      this.pause()
      for (const track of this.destinations.keys()) {
        const rtcp = this.feed.goodbye(track)
        if (rtcp !== null) this.report(track, rtcp)
      }
    }
    this.onEnd()
  }
}
