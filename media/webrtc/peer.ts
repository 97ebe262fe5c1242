/**
 * One WebRTC peer: a lite ICE agent (RFC 8445, section 2.5), DTLS behind it, SRTP behind that.
 *
 * A node is found at known addresses, so it needs no gathering and no checks of its own: the browser finds the path and keeps it alive,
 * and its checks are its consent to be sent to (RFC 7675).
 *
 * Invariants
 * 1. Nothing is sent to an address before a check with our password came from there, and nothing {@link consentMs} after the last one.
 * 2. A peer that is not connected {@link connectMs} after its offer is over. It ends once, and tells why.
 * 3. At most {@link maxPaths} paths of a peer are known; the oldest that is not in use goes first. Without one that is closed it goes on by
 *    the newest of the others, or waits for another.
 */
import { randomBytes } from "node:crypto"
import { type Dtls, type DtlsIdentity, openDtls, type SrtpKeys } from "./dtls.ts"
import type { Offer } from "./offer.ts"
import type { PacketMemories, PacketMemory } from "./packet-memory.ts"
import type { Path } from "./path.ts"
import { tagBytes } from "./srtp-keys.ts"
import { SrtpReceiver, SrtpSender } from "./srtp.ts"
import { type BindingRequest, bindingResponse, isAuthentic, roleConflict } from "./stun.ts"

/** RFC 7675, section 5.1. */
const consentMs = 30_000
const connectMs = 15_000
const maxPaths = 16
export const tickMs = 50

/** Why a peer is over. */
export type PeerEnd =
  /** By us: who watched may not any more, or was put out. */
  | "closed"
  /** It said goodbye. */
  | "left"
  /** It never came, or its checks ceased. */
  | "silent"
  /** Its DTLS failed. */
  | "failed"
  /** It could not keep up. */
  | "slow"
  /** What it watched is over, or has become something else. */
  | "over"

export interface PeerEvents {
  readonly onConnected: () => void
  /** Decrypted; the memory is the receiver's. */
  readonly onRtp: (packet: Buffer) => void
  readonly onRtcp: (packet: Buffer) => void
  /** While it is connected, every {@link tickMs} or so. */
  readonly onTick: (nowMs: number) => void
  readonly onEnd: (reason: PeerEnd) => void
}

export interface PeerPlace {
  readonly identity: DtlsIdentity
  readonly nowMs: () => number
  readonly memories: PacketMemories
  /** The peer is heard by a new path, or by one no more. */
  readonly onPath: (path: Path, known: boolean) => void
}

export class Peer {
  /** 24 characters: who knows it may change the session, so it is no number. */
  readonly id = randomBytes(18).toString("base64url")
  readonly ufrag = randomBytes(6).toString("base64").replaceAll("=", "")
  readonly password = randomBytes(18).toString("base64")
  readonly sinceMs: number
  private readonly place: PeerPlace
  private readonly username: string
  private readonly dtls: Dtls
  private readonly paths = new Map<string, Path>()
  private selected: Path | null = null
  private chosen = false
  private heardMs: number
  private sender: SrtpSender | null = null
  private receiver: SrtpReceiver | null = null
  private readonly events: PeerEvents
  state: "connecting" | "connected" | "ended" = "connecting"
  receivedBytes = 0

  constructor(offer: Offer, place: PeerPlace, events: PeerEvents) {
    this.place = place
    this.events = events
    this.sinceMs = place.nowMs()
    this.heardMs = this.sinceMs
    this.username = `${this.ufrag}:${offer.ufrag}`
    this.dtls = openDtls(place.identity, offer.fingerprint, {
      send: (datagram) => this.selected?.send(datagram),
      onKeys: (keys) => this.connected(keys),
      onEnd: (reason) => this.end(reason === "closed" ? "left" : "failed"),
    })
  }

  /** `address:port`; null before the first check. */
  get remote(): string | null {
    const { selected } = this
    if (selected === null) return null
    return selected.address.includes(":") ?
      `[${selected.address}]:${selected.remotePort}` :
      `${selected.address}:${selected.remotePort}`
  }

  private connected({ localKey, localSalt, remoteKey, remoteSalt }: SrtpKeys): void {
    if (this.state !== "connecting") return
    this.sender = new SrtpSender(localKey, localSalt)
    this.receiver = new SrtpReceiver(remoteKey, remoteSalt)
    this.state = "connected"
    this.events.onConnected()
  }

  /** A check that names this peer. */
  check(bytes: Buffer, request: BindingRequest, path: Path): void {
    if (this.state === "ended" || request.username !== this.username || !isAuthentic(bytes, request, this.password)) {
      return
    }
    const { address, remotePort } = path
    if (request.controlled) return path.send(roleConflict(request, this.password))
    this.heardMs = this.place.nowMs()
    this.learn(path)
    if (request.useCandidate || !this.chosen) {
      this.selected = this.paths.get(path.key) ?? path
      this.chosen ||= request.useCandidate
    }
    path.send(bindingResponse(request, address, remotePort, this.password))
  }

  private learn(path: Path): void {
    if (this.paths.has(path.key)) return
    if (this.paths.size >= maxPaths) {
      const oldest = [...this.paths.values()].find((known) => known !== this.selected)
      if (oldest !== undefined) this.unlearn(oldest)
    }
    this.paths.set(path.key, path)
    this.place.onPath(path, true)
  }

  private unlearn(path: Path): void {
    this.paths.delete(path.key)
    this.place.onPath(path, false)
  }

  /** One of its paths is closed. */
  lost(path: Path): void {
    if (!this.paths.has(path.key)) return
    this.unlearn(path)
    if (this.selected !== path) return
    this.selected = [...this.paths.values()].at(-1) ?? null
    this.chosen = false
  }

  /** A datagram from one of its paths that is not STUN (RFC 7983, section 7). */
  datagram(bytes: Buffer): void {
    const first = bytes[0] ?? 0
    if (this.state === "ended") return
    if (first >= 20 && first < 64) return this.dtls.receive(bytes)
    if (first < 128 || first >= 192 || this.receiver === null || bytes.length < 12) return
    this.receivedBytes += bytes.length
    // RFC 5761, section 4.
    const isRtcp = bytes[1]! >= 192 && bytes[1]! <= 223
    const plain = isRtcp ? this.receiver.unprotectRtcp(bytes) : this.receiver.unprotect(bytes)
    if (plain === null) return
    if (isRtcp) this.events.onRtcp(plain)
    else this.events.onRtp(plain)
  }

  /** Whether pictures had better wait. */
  get full(): boolean {
    return this.selected?.full() ?? true
  }

  /** Where a packet of `length` bytes is made that {@link sendRtp} sends next. */
  memoryFor(length: number): PacketMemory {
    return this.place.memories.take(length + tagBytes)
  }

  /** What was made in {@link memoryFor}: a packet with a header of 12 bytes. */
  sendRtp(memory: PacketMemory, length: number, rollover: number): void {
    const { selected, sender } = this
    if (sender === null || selected === null || this.state !== "connected") return
    sender.protect(memory, length, rollover)
    if (selected.sendShared(memory.packet(length + tagBytes))) this.place.memories.leave()
  }

  sendRtcp(packet: Buffer): void {
    if (this.sender === null || this.state !== "connected") return
    this.selected?.send(this.sender.protectRtcp(packet))
  }

  /** Every {@link tickMs} or so. */
  tick(nowMs: number): void {
    const connecting = this.state === "connecting"
    if (nowMs - (connecting ? this.sinceMs : this.heardMs) > (connecting ? connectMs : consentMs)) this.end("silent")
    else if (!connecting) this.events.onTick(nowMs)
  }

  end(reason: PeerEnd): void {
    if (this.state === "ended") return
    this.state = "ended"
    this.dtls.close()
    for (const path of this.paths.values()) this.unlearn(path)
    this.events.onEnd(reason)
  }
}
