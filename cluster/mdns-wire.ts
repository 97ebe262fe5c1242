/**
 * The sockets of multicast DNS: one that hears the group on every network, and one for each network that sends there.
 *
 * Invariants
 * 1. Each sender is bound to its own address and to the port of multicast DNS: what it sends leaves by that network, from where an
 *    answer has to come (RFC 6762, section 6).
 * 2. An error of a socket closes that socket alone; it is opened again at the next {@link Wire.look}.
 * 3. The port is shared with other responders of this machine, such as Avahi.
 */
import { Result } from "effect"
import { IpNetwork, NetAddress } from "effect/net"
import { createSocket, type RemoteInfo, type Socket } from "node:dgram"

const group = "224.0.0.251"
export const multicastPort = 5353

/** An IPv4 address of this machine, and its network. */
export interface Lan {
  readonly address: string
  readonly network: IpNetwork.IpNetwork
}

export interface WireOptions {
  readonly port: number
  readonly lans: () => ReadonlyArray<Lan>
  /** What somebody on one of the networks said. */
  readonly hear: (bytes: Uint8Array, from: RemoteInfo, lan: Lan) => void
}

const close = (socket: Socket): void => {
  try {
    socket.close()
  } catch {
    // It is closed.
  }
}

export class Wire {
  readonly #options: WireOptions
  readonly #senders = new Map<string, { readonly lan: Lan; readonly socket: Socket }>()
  readonly #joined = new Set<string>()
  #listener: Socket | null = null
  /** It is bound: whoever joins a group before would bind it anywhere. */
  #listening = false
  #closed = false
  /** Why something cannot be opened; null while nothing is in the way. */
  failure: string | null = null

  constructor(options: WireOptions) {
    this.#options = options
  }

  get lans(): ReadonlyArray<Lan> {
    return [...this.#senders.values()].map(({ lan }) => lan)
  }

  #open(onFailure: () => void): Socket {
    const socket = createSocket({ type: "udp4", reuseAddr: true })
    socket.on("message", (bytes, from) => this.#heard(bytes, from))
    socket.on("error", (error) => {
      this.failure = error.message
      close(socket)
      onFailure()
    })
    return socket
  }

  #heard(bytes: Uint8Array, from: RemoteInfo): void {
    const ip = NetAddress.ipFromString(from.address)
    if (Result.isFailure(ip)) return
    for (const { lan } of this.#senders.values()) {
      if (IpNetwork.contains(lan.network, ip.success)) return this.#options.hear(bytes, from, lan)
    }
  }

  #join(address: string): void {
    const listener = this.#listener
    if (listener === null || !this.#listening || this.#joined.has(address)) return
    try {
      listener.addMembership(group, address)
      this.#joined.add(address)
    } catch (error) {
      this.failure = `${address}: ${error instanceof Error ? error.message : String(error)}`
    }
  }

  #listen(): void {
    const listener = this.#open(() => {
      if (this.#listener !== listener) return
      this.#listener = null
      this.#listening = false
      this.#joined.clear()
    })
    listener.bind(this.#options.port, "0.0.0.0", () => {
      if (this.#closed) return
      this.#listening = true
      for (const address of this.#senders.keys()) this.#join(address)
    })
    // Until it listens nobody opens another.
    this.#listener = listener
  }

  #sendFrom(lan: Lan): void {
    const socket = this.#open(() => {
      if (this.#senders.get(lan.address)?.socket === socket) this.#senders.delete(lan.address)
    })
    this.#senders.set(lan.address, { lan, socket })
    socket.bind(this.#options.port, lan.address, () => {
      try {
        socket.setMulticastInterface(lan.address)
        socket.setMulticastTTL(255)
        this.#join(lan.address)
      } catch (error) {
        socket.emit("error", error instanceof Error ? error : new Error(String(error)))
      }
    })
  }

  /** Opens and closes sockets as the networks of this machine are now. Answers whether there is a new one. */
  look(): boolean {
    const lans = this.#options.lans()
    const wanted = new Set(lans.map((lan) => lan.address))
    for (const [address, { socket }] of this.#senders) {
      if (wanted.has(address)) continue
      this.#senders.delete(address)
      this.#joined.delete(address)
      close(socket)
    }
    const fresh = lans.filter((lan) => !this.#senders.has(lan.address))
    if (lans.length > 0 && this.#listener === null) this.#listen()
    for (const lan of fresh) this.#sendFrom(lan)
    return fresh.length > 0
  }

  /** Resolves once it is on its way, or lost. To everybody of the network, or to one. */
  send(lan: Lan, bytes: Uint8Array, to?: RemoteInfo): Promise<void> {
    const socket = this.#senders.get(lan.address)?.socket
    return new Promise((resolve) => {
      if (socket === undefined) return resolve()
      try {
        socket.send(bytes, to?.port ?? this.#options.port, to?.address ?? group, () => resolve())
      } catch {
        // It was closed meanwhile.
        resolve()
      }
    })
  }

  close(): void {
    this.#closed = true
    for (const { socket } of this.#senders.values()) close(socket)
    this.#senders.clear()
    if (this.#listener !== null) close(this.#listener)
    this.#listener = null
  }
}
