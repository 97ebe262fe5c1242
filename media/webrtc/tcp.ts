/**
 * ICE over TCP (RFC 6544) for browsers that UDP does not reach: their connections to our passive candidates.
 *
 * Invariants
 * 1. At most {@link maxConnections}; of those that no check with a peer's password has come by at most {@link maxWaiting}, for
 *    {@link waitingMs} each: the oldest goes when another comes. Those that their peer has left have as long to take what they were sent.
 * 2. Before such a check a connection carries STUN alone, and its frames are as short as checks are; behind it STUN, DTLS and SRTP. Whatever
 *    else comes ends it.
 * 3. At most {@link maxUnsentBytes} wait in a connection, pictures until {@link fullBytes} do; more is lost. It is a peer's path until
 *    it closes.
 */
import type { Socket } from "node:net"
import { frameOf, Frames, lengthBytes, maxFrameBytes } from "./frames.ts"
import type { Path } from "./path.ts"
import { isStun, maxStunBytes } from "./stun.ts"

const maxConnections = 2_048
const maxWaiting = 256
const waitingMs = 5_000
const maxUnsentBytes = 512 * 1024
const fullBytes = maxUnsentBytes / 2

/** RFC 7983, section 7: STUN, DTLS, RTP and RTCP. */
const isKnown = (first: number): boolean => first < 4 || (first >= 20 && first < 64) || (first >= 128 && first < 192)

interface ConnectionDoor {
  readonly onFrame: (from: Path, frame: Buffer) => void
  readonly onTaken: () => void
  readonly onLeft: () => void
  readonly onClose: () => void
}

class Connection implements Path {
  readonly key: string
  readonly address: string
  readonly remotePort: number
  private readonly socket: Socket
  private readonly door: ConnectionDoor
  private state: "waiting" | "taken" | "left" = "waiting"
  private corked = false

  constructor(socket: Socket, number: number, door: ConnectionDoor) {
    this.key = `tcp ${number}`
    this.address = socket.remoteAddress ?? ""
    this.remotePort = socket.remotePort ?? 0
    this.socket = socket
    this.door = door
    const frames = new Frames({
      limit: () => this.state === "waiting" ? maxStunBytes : maxFrameBytes,
      onFrame: (frame) => this.frame(frame),
    })
    socket.on("data", (bytes: Buffer) => {
      if (this.state === "left" || !frames.read(bytes)) this.over()
    })
    socket.on("error", () => this.over())
    socket.on("end", () => this.over())
    socket.on("close", () => door.onClose())
  }

  private frame(frame: Buffer): boolean {
    const fits = this.state === "waiting" ? isStun(frame) : isKnown(frame[0]!)
    if (fits) this.door.onFrame(this, frame)
    return fits && this.state !== "left" && !this.socket.destroyed
  }

  /** The other side has ended it, or is not to be listened to any more. */
  private over(): void {
    // What its peer was told last may still be on its way.
    if (this.state !== "left" || this.socket.writableLength === 0) this.socket.destroy()
  }

  abort(): void {
    this.socket.destroy()
  }

  full(): boolean {
    return this.socket.writableLength > fullBytes
  }

  send(bytes: Buffer): void {
    const { socket } = this
    if (!socket.writable || socket.writableLength + lengthBytes + bytes.length > maxUnsentBytes) return
    // What is sent in one go leaves in one go.
    if (!this.corked) {
      this.corked = true
      socket.cork()
      queueMicrotask(() => {
        this.corked = false
        socket.uncork()
      })
    }
    socket.write(frameOf(bytes))
  }

  sendShared(bytes: Buffer): boolean {
    this.send(bytes)
    return false
  }

  taken(): void {
    if (this.state !== "waiting") return
    this.state = "taken"
    this.door.onTaken()
  }

  left(): void {
    if (this.state === "left") return
    this.state = "left"
    if (this.socket.destroyed) return
    this.socket.end()
    this.door.onLeft()
  }
}

export interface ConnectionEvents {
  readonly nowMs: () => number
  readonly onFrame: (from: Path, frame: Buffer) => void
  readonly onClose: (path: Path) => void
}

/** All TCP connections of the node for WebRTC. */
export class Connections {
  private readonly events: ConnectionEvents
  private readonly all = new Set<Connection>()
  /** Those without a peer, and since when, in that order. */
  private readonly waiting = new Map<Connection, number>()
  private count = 0

  constructor(events: ConnectionEvents) {
    this.events = events
  }

  get size(): number {
    return this.all.size
  }

  accept(socket: Socket): void {
    if (this.all.size >= maxConnections || socket.remoteAddress === undefined) {
      socket.destroy()
      return
    }
    const connection: Connection = new Connection(socket, this.count++, {
      onFrame: this.events.onFrame,
      onTaken: () => this.waiting.delete(connection),
      onLeft: () => this.wait(connection),
      onClose: () => {
        this.all.delete(connection)
        this.waiting.delete(connection)
        this.events.onClose(connection)
      },
    })
    this.all.add(connection)
    this.wait(connection)
  }

  private wait(connection: Connection): void {
    const [oldest] = this.waiting.keys()
    if (this.waiting.size >= maxWaiting && oldest !== undefined) this.drop(oldest)
    this.waiting.set(connection, this.events.nowMs())
  }

  private drop(connection: Connection): void {
    this.waiting.delete(connection)
    connection.abort()
  }

  /** From time to time: those that have waited for too long. */
  tick(nowMs: number): void {
    for (const [connection, sinceMs] of this.waiting) {
      if (nowMs - sinceMs < waitingMs) return
      this.drop(connection)
    }
  }

  close(): void {
    for (const connection of this.all) connection.abort()
  }
}
