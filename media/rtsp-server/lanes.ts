/**
 * Where the tracks of one session go, by the connection or beside it, and what comes back of them. Live readers and players of
 * recorded footage have this in common.
 *
 * Invariants
 * 1. Packets that are framed for their ordinary channels are written as they are; others cost a copy.
 * 2. By UDP nothing waits, and what the network drops is the player's reports to tell.
 */
import type { TalkCodec } from "#schema/camera-talk.ts"
import type { RecordingToken, StreamId } from "#schema/common.ts"
import type { Effect } from "effect"
import type { Socket as UdpSocket } from "node:dgram"
import type { Socket } from "node:net"
import { interleavingBytes, type Packets } from "../rtp/packetiser.ts"
import { parseReceptionReports } from "../rtp/rtcp.ts"
import type { RequestHead } from "../rtsp/message.ts"
import type { Answer, Refusal } from "./answer.ts"
import type { TrackName } from "./description.ts"

/** Where RTP packets of a track are on a connection, RTCP one above. */
export const channelOf: Readonly<Record<TrackName, number>> = { video: 0, audio: 2 }

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

/** What a session's connection is. */
export interface Wires {
  readonly socket: Socket
  readonly udp: UdpSockets | null
}

export abstract class Lanes {
  protected readonly socket: Socket
  private readonly udp: UdpSockets | null
  readonly destinations = new Map<TrackName, Destination>()
  private readonly receptions = new Map<TrackName, Reception>()
  sentBytes = 0
  sentPackets = 0
  skippedPictures = 0

  constructor({ socket, udp }: Wires) {
    this.socket = socket
    this.udp = udp
  }

  abstract ssrc(track: TrackName): number | null
  /** Hertz. */
  abstract clockOf(track: TrackName): number

  protected dispatch(track: TrackName, destination: Destination, packets: Packets): void {
    this.sentPackets += packets.starts.length
    this.sentBytes += packets.bytes.length
    if (destination.kind === "tcp") this.socket.write(this.framed(track, destination.channel, packets))
    else this.datagrams(destination.address, destination.rtpPort, packets)
  }

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

  protected dispatchReport(destination: Destination, rtcp: Buffer): void {
    if (destination.kind === "udp") this.udp?.rtcp.send(rtcp, destination.rtcpPort, destination.address)
    else {
      const head = Buffer.from([0x24, destination.channel + 1, rtcp.length >> 8, rtcp.length & 0xff])
      this.socket.write(Buffer.concat([head, rtcp]))
    }
  }

  /** What the player says of what it gets, by interleaving or UDP. */
  received(rtcp: Buffer, from: number, to: number): void {
    for (const { jitter, senderSsrc, totalLost } of parseReceptionReports(rtcp, from, to)) {
      const track = (["video", "audio"] as const).find((name) => this.ssrc(name) === senderSsrc)
      if (track === undefined) continue
      this.receptions.set(track, {
        lost: Math.max(0, totalLost),
        jitterMs: Math.round(jitter * 1000 / this.clockOf(track)),
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

  get byUdp(): boolean {
    return [...this.destinations.values()].some(({ kind }) => kind === "udp")
  }
}

/** One session: what is sent to a player. */
export interface Player extends Lanes {
  readonly playing: boolean
  /** `url`: of the request; `base`: what control addresses stand under. The headers of the answer, and what begins then. */
  readonly play: (head: RequestHead, base: string) => Effect.Effect<Answer, Refusal>
  readonly pause: Effect.Effect<void>
}

/** What stands behind an address. */
export interface Programme {
  /** Equal for addresses of the same thing. */
  readonly key: string
  readonly streamId: StreamId
  /** Null: live. */
  readonly recordingToken: RecordingToken | null
  /** The session description. `local`: our address on this connection. */
  readonly describe: (local: string, talk: TalkCodec | null) => string | null
  readonly ssrc: (track: TrackName) => number | null
  readonly player: (wires: Wires, onEnd: () => void) => Player
}
