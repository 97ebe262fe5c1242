/**
 * The way to a peer: an address behind a UDP socket of ours, or a TCP connection (`tcp.ts`).
 *
 * Invariants
 * 1. A peer sends by its paths and knows nothing of sockets. What a path cannot take is lost, as on any line: nothing waits without a bound.
 */
import type { Port } from "./ports.ts"

/** What may wait in a UDP socket that the kernel does not empty. */
const maxWaitingBytes = 16 * 1024 * 1024

export interface Path {
  /** Told apart by it from all other paths of the node. */
  readonly key: string
  /** Of the other side. */
  readonly address: string
  readonly remotePort: number
  /** Whether it has no room for pictures for now; there is some for everything else. */
  readonly full: () => boolean
  /** The memory is the path's while it waits there. */
  readonly send: (bytes: Buffer) => void
  /** From memory that the next packet is made in; whether it must not be, since this one waits there. */
  readonly sendShared: (bytes: Buffer) => boolean
  /** A check with a peer's password came by it. */
  readonly taken: () => void
  /** That peer needs it no more. */
  readonly left: () => void
}

export const udpKey = (port: Port, address: string, remotePort: number): string =>
  `${port.address} ${address} ${remotePort}`

export class UdpPath implements Path {
  readonly key: string
  readonly address: string
  readonly remotePort: number
  private readonly port: Port

  constructor(port: Port, address: string, remotePort: number) {
    this.key = udpKey(port, address, remotePort)
    this.port = port
    this.address = address
    this.remotePort = remotePort
  }

  /** What a line loses is told by its reports. */
  full(): boolean {
    return false
  }

  send(bytes: Buffer): void {
    const { socket } = this.port
    if (socket.getSendQueueSize() <= maxWaitingBytes) socket.send(bytes, this.remotePort, this.address)
  }

  sendShared(bytes: Buffer): boolean {
    const { socket } = this.port
    if (socket.getSendQueueSize() > 0) {
      this.send(Buffer.from(bytes))
      return false
    }
    socket.send(bytes, this.remotePort, this.address)
    return socket.getSendQueueSize() > 0
  }

  taken(): void {}

  left(): void {}
}
