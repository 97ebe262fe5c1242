/**
 * All peers of the node on its sockets: who a datagram or a frame is for, and who has waited for too long.
 *
 * Invariants
 * 1. At most {@link maxPeers}; at most {@link maxConnecting} that have not connected, of which the oldest goes when another comes.
 * 2. Nothing that the network says makes it throw.
 * 3. A TCP connection is of one peer, the first whose check came by it.
 */
import { Context } from "effect"
import type { RemoteInfo } from "node:dgram"
import type { Socket } from "node:net"
import type { WebRtcPeer } from "../webrtc.ts"
import { answerText, type HostCandidate, type Taken } from "./answer.ts"
import type { DtlsIdentity } from "./dtls.ts"
import { judgeFragment } from "./fragment.ts"
import type { Offer } from "./offer.ts"
import { PacketMemories } from "./packet-memory.ts"
import { type Path, udpKey, UdpPath } from "./path.ts"
import { Peer, type PeerEvents } from "./peer.ts"
import type { Port } from "./ports.ts"
import { isStun, parseBindingRequest } from "./stun.ts"
import { Connections } from "./tcp.ts"

export const maxPeers = 512
/** Enough for a wall that is opened at once. */
const maxConnecting = 128

/** What listens. */
export interface Listening {
  readonly ports: ReadonlyArray<Port>
  readonly identity: DtlsIdentity
  readonly candidates: ReadonlyArray<HostCandidate>
}

/** The exchange of this node, for the doors of this room. */
export class Exchanges extends Context.Service<Exchanges, Exchange>()("nightjar/media/webrtc/Exchanges") {}

export interface Opened {
  readonly peer: Peer
  readonly answer: string
}

/** A peer as those see it who asked for it. */
export const outside = (peer: Peer, answer: string, offer: Offer): WebRtcPeer => ({
  id: peer.id,
  answer,
  state: () => peer.state,
  remote: () => peer.remote,
  trickle: (fragment) => judgeFragment(fragment, offer),
  close: () => peer.end("closed"),
})

/** Whoever takes what a peer sends may fail: that costs the peer, not the node. */
const guarded = (peer: Peer, act: () => void): void => {
  try {
    act()
  } catch {
    peer.end("failed")
  }
}

export class Exchange {
  private readonly nowMs: () => number
  private readonly byName = new Map<string, Peer>()
  private readonly byPath = new Map<string, Peer>()
  /** In the order of their offers. */
  private readonly peers = new Set<Peer>()
  private readonly memories = new PacketMemories()
  /** Those that came by TCP. */
  private readonly connections: Connections
  listening: Listening | null = null
  /** Datagrams that belong to nobody. */
  strays = 0

  constructor(nowMs: () => number) {
    this.nowMs = nowMs
    this.connections = new Connections({
      nowMs,
      onFrame: (path, frame) => this.hearFrame(path, frame),
      onClose: (path) => this.byPath.get(path.key)?.lost(path),
    })
  }

  get size(): number {
    return this.peers.size
  }

  readonly hear = (port: Port, bytes: Buffer, { address, port: remotePort }: RemoteInfo): void => {
    if (isStun(bytes)) this.check(bytes, new UdpPath(port, address, remotePort))
    else this.packet(bytes, this.byPath.get(udpKey(port, address, remotePort)))
  }

  /** A connection to one of our ports. */
  readonly accept = (socket: Socket): void => {
    if (this.listening === null) socket.destroy()
    else this.connections.accept(socket)
  }

  private hearFrame(path: Path, bytes: Buffer): void {
    const owner = this.byPath.get(path.key)
    if (isStun(bytes)) this.check(bytes, path, owner)
    else this.packet(bytes, owner)
  }

  private packet(bytes: Buffer, peer: Peer | undefined): void {
    if (peer === undefined) this.strays++
    else guarded(peer, () => peer.datagram(bytes))
  }

  private check(bytes: Buffer, path: Path, owner?: Peer): void {
    const request = parseBindingRequest(bytes)
    const peer = request === null ? undefined : this.byName.get(request.username.split(":", 1)[0]!)
    if (request === null || peer === undefined || peer !== (owner ?? peer)) this.strays++
    else peer.check(bytes, request, path)
  }

  /** Null: there are too many. */
  open(
    { candidates, identity }: Listening,
    offer: Offer,
    taken: ReadonlyArray<Taken | null>,
    events: PeerEvents,
  ): Opened | null {
    const waiting = [...this.peers].filter(({ state }) => state === "connecting")
    if (waiting.length >= maxConnecting) waiting[0]!.end("silent")
    if (this.peers.size >= maxPeers) return null
    const peer: Peer = new Peer(offer, {
      identity,
      nowMs: this.nowMs,
      memories: this.memories,
      onPath: (path, known) => {
        if (known) {
          this.byPath.set(path.key, peer)
          path.taken()
          return
        }
        if (this.byPath.get(path.key) === peer) this.byPath.delete(path.key)
        path.left()
      },
    }, {
      onConnected: () => events.onConnected(),
      onRtp: (packet) => events.onRtp(packet),
      onRtcp: (packet) => events.onRtcp(packet),
      onTick: (nowMs) => events.onTick(nowMs),
      onEnd: (reason) => {
        this.peers.delete(peer)
        this.byName.delete(peer.ufrag)
        events.onEnd(reason)
      },
    })
    this.peers.add(peer)
    this.byName.set(peer.ufrag, peer)
    const { fingerprint } = identity
    const { password, ufrag } = peer
    return {
      peer,
      answer: answerText({ offer, taken, ufrag, password, fingerprint, candidates, sessionId: peer.sinceMs }),
    }
  }

  tick(): void {
    const nowMs = this.nowMs()
    for (const peer of this.peers) guarded(peer, () => peer.tick(nowMs))
    this.connections.tick(nowMs)
  }

  close(): void {
    this.listening = null
    for (const peer of this.peers) peer.end("closed")
    this.connections.close()
  }
}
