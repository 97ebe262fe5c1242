/**
 * The TCP connection of an RTSP session: bytes in, packets and messages out; how it ended.
 *
 * Invariants
 * 1. One read buffer serves all connections: what is read is consumed before the next read.
 * 2. The connection ends once; `ended` tells why, with the packets and bytes received so far.
 * 3. A fault in a consumer's callback ends this connection as a defect and touches no other.
 * 4. Once the scope closes, the socket is destroyed.
 * 5. A peer that sends garbage without end is given up after {@link maxStrayBytes}, whatever the framer takes it for.
 */
import { Clock, Deferred, Effect, type Scope } from "effect"
import { readSync } from "node:fs"
import { connect as connectTcp, type Socket } from "node:net"
import { Malformed } from "../codec/malformed.ts"
import { SourceError } from "../source.ts"
import type { Drain } from "./drain.ts"
import { Framer } from "./framer.ts"
import type { Message } from "./message.ts"
import type { RtspUrl } from "./url.ts"

/** As much as a socket's receive queue usually holds after an interval of draining at 10 Mbit/s. */
const readBytes = 64 * 1024
const readBuffer = Buffer.allocUnsafeSlow(readBytes)
/**
 * What may come on channels that nobody set up, with nothing of use in between: more is not RTSP, although some of it looks like
 * packets. Eight packets of the longest kind.
 */
const maxStrayBytes = 512 * 1024
/** Reads of one drain: a camera of 140 Mbit/s. What is left waits for the next. */
const mostReads = 16
/** Bytes that may wait to be sent before the connection counts as dead: we only send requests and reports. */
const maxUnsentBytes = 256 * 1024

/** Node keeps a socket's descriptor to itself, on its handle; null where there is none (closed, or a system without). */
const fileOf = (socket: Socket): number | null => {
  const { _handle: handle } = socket as { readonly _handle?: { readonly fd?: number } | null }
  return !socket.destroyed && handle?.fd !== undefined && handle.fd >= 0 ? handle.fd : null
}

/** Bytes read of what waits in a socket (0: its end), or the error's code. The descriptor never blocks. */
const readWaiting = (file: number): number | "nothing" | (string & {}) => {
  try {
    return readSync(file, readBuffer, 0, readBytes, null)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    return code === "EAGAIN" ? "nothing" : code ?? "unknown error"
  }
}

export interface ConnectionHandlers {
  /** An interleaved packet `bytes[from, to)`, valid only during the call. False: nobody set up its channel. */
  onPacket: (channel: number, bytes: Buffer, from: number, to: number, arrivalMs: number) => boolean
  onMessage: (message: Message) => void
}

export class Connection {
  readonly url: RtspUrl
  readonly ended = Deferred.makeUnsafe<never, SourceError>()
  /** Set by whoever speaks the protocol, before the first byte can arrive. */
  handlers: ConnectionHandlers = { onPacket: () => false, onMessage: () => {} }
  /** RTP and RTCP packets, by TCP or beside it. */
  packets = 0
  bytes = 0
  private drain: Drain | null = null
  readonly clock: Clock.Clock
  private socket: Socket | null = null
  private readonly framer: Framer
  private arrivalMs = 0
  /** Bytes since the last thing of use. */
  private stray = 0
  private readonly readAll = () => this.readNow()

  constructor(url: RtspUrl, clock: Clock.Clock) {
    this.url = url
    this.clock = clock
    this.framer = new Framer({
      onPacket: (channel, bytes, from, to) => {
        this.packets++
        if (this.handlers.onPacket(channel, bytes, from, to, this.arrivalMs)) this.stray = 0
        else this.strayed(to - from)
      },
      onMessage: (message) => {
        this.stray = 0
        this.handlers.onMessage(message)
      },
    })
  }

  private strayed(bytes: number): void {
    this.stray += bytes
    if (this.stray > maxStrayBytes) this.end("protocol", `${this.stray} bytes on channels that were not set up`)
  }

  error(reason: SourceError["reason"], detail: string): SourceError {
    return new SourceError({
      reason,
      host: this.url.authority,
      path: this.url.path,
      packet: this.packets,
      byte: this.bytes,
      detail,
    })
  }

  get isOpen(): boolean {
    return !Deferred.isDoneUnsafe(this.ended) && this.socket !== null
  }

  end(reason: SourceError["reason"], detail: string): void {
    Deferred.doneUnsafe(this.ended, Effect.fail(this.error(reason, detail)))
  }

  /** Runs what handles received bytes; no exception leaves it. */
  guard(work: () => void): void {
    if (Deferred.isDoneUnsafe(this.ended)) return
    try {
      work()
    } catch (error) {
      if (error instanceof Malformed) this.end("protocol", error.message)
      else Deferred.doneUnsafe(this.ended, Effect.die(error))
    }
  }

  private feed(length: number): void {
    this.arrivalMs = this.clock.currentTimeMillisUnsafe()
    this.guard(() => this.framer.feed(readBuffer, length))
    this.bytes += length
  }

  /**
   * From now on reads wait for this timer; with `null` they happen at once again. The event loop then does not watch the socket at
   * all: pausing a stream leaves it watched until the next bytes come, and waking up for them is what draining is to save.
   */
  drainBy(drain: Drain | null): void {
    const { socket } = this
    if (socket === null || fileOf(socket) === null) return
    this.drain = drain
    if (drain === null) socket.resume()
    else {
      socket.pause()
      drain.wait(this.readAll)
    }
  }

  private readNow(): void {
    const { drain, socket } = this
    const file = socket === null ? null : fileOf(socket)
    if (drain === null || file === null) return
    for (let reads = 0; reads < mostReads && this.isOpen; reads++) {
      const length = readWaiting(file)
      if (length === "nothing") break
      if (length === 0) return this.end("closed", "the camera closed the connection")
      if (typeof length === "string") return this.end("closed", length)
      this.feed(length)
      if (length < readBytes) break
    }
    drain.wait(this.readAll)
  }

  /** Ends a body that stopped coming; false where none is awaited. */
  flushBody(): boolean {
    let flushed = false
    this.guard(() => {
      flushed = this.framer.flushBody()
    })
    return flushed
  }

  send(bytes: Uint8Array): void {
    const { socket } = this
    if (socket === null || !socket.writable) return
    socket.write(bytes)
    if (socket.writableLength > maxUnsentBytes) this.end("timeout", "the camera reads nothing any more")
  }

  /** An interleaved packet. */
  sendPacket(channel: number, packet: Buffer): void {
    const framed = Buffer.allocUnsafe(4 + packet.length)
    framed[0] = 0x24
    framed[1] = channel
    framed.writeUInt16BE(packet.length, 2)
    packet.copy(framed, 4)
    this.send(framed)
  }

  get addresses(): { readonly local: string; readonly remote: string } {
    return { local: this.socket?.localAddress ?? "", remote: this.socket?.remoteAddress ?? "" }
  }

  open(resume: (effect: Effect.Effect<void, SourceError>) => void): Effect.Effect<void> {
    const { host, port } = this.url
    const socket = connectTcp({
      host,
      port,
      noDelay: true,
      onread: {
        buffer: readBuffer,
        callback: (length) => {
          this.feed(length)
          return this.drain === null
        },
      },
    })
    socket.once("connect", () => {
      this.socket = socket
      resume(Effect.void)
    })
    socket.on("error", (error: NodeJS.ErrnoException) => {
      const code = error.code ?? "unknown error"
      if (this.socket === null) resume(Effect.fail(this.error("unreachable", code)))
      else this.end("closed", code)
    })
    socket.on("close", () => this.end("closed", "the camera closed the connection"))
    socket.on("end", () => this.end("closed", "the camera closed the connection"))
    return Effect.sync(() => socket.destroy())
  }

  destroy(): void {
    this.socket?.destroy()
  }
}

/** Connects within `timeoutMs`; closed with the scope. */
export const connect = (url: RtspUrl, timeoutMs: number): Effect.Effect<Connection, SourceError, Scope.Scope> =>
  Effect.gen(function*() {
    const connection = new Connection(url, yield* Clock.Clock)
    yield* Effect.addFinalizer(() => Effect.sync(() => connection.destroy()))
    yield* Effect.callback<void, SourceError>((resume) => connection.open(resume)).pipe(Effect.timeoutOrElse({
      duration: timeoutMs,
      orElse: () => Effect.fail(connection.error("unreachable", `no connection within ${timeoutMs} ms`)),
    }))
    return connection
  })
