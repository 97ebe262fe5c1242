/**
 * A line to another node's door: the bytes of one player's connection, both ways, on whatever carries them between nodes.
 *
 * Invariants
 * 1. Towards the player they come in frames, a length of four bytes before each; an empty one every {@link stillThereMs} tells that the
 *    line is there while nothing plays.
 * 2. What waits to be sent is {@link mostWaiting} at most; more ends the line. Reading goes at the pace of whoever takes it.
 */
import { Effect, type Scope, Stream } from "effect"
import { connect, type Socket } from "node:net"
import { RtspGateClosed, type RtspLine } from "../rtsp-server.ts"

const stillThereMs = 10_000
/** Requests and reports, which are small, and a talker's sound. */
const mostWaiting = 256 * 1024
const mostFrame = 1 << 20
const headBytes = 4

const frame = (bytes: Uint8Array): Uint8Array => {
  const made = Buffer.allocUnsafe(headBytes + bytes.length)
  made.writeUInt32BE(bytes.length, 0)
  made.set(bytes, headBytes)
  return made
}

/** Invariant 1. The first frame comes at once. */
const framed = <E>(bytes: Stream.Stream<Uint8Array, E>): Stream.Stream<Uint8Array, E> => {
  const still = Stream.map(Stream.tick(stillThereMs), () => frame(new Uint8Array(0)))
  return Stream.merge(Stream.map(bytes, frame), still, { haltStrategy: "left" })
}

interface Unread {
  readonly head: Buffer
  /** Of the frame that is under way. */
  readonly left: number
}

/** What is in the frames, as it comes. Ends where a frame is longer than any is made. */
export const unframed = <E>(frames: Stream.Stream<Uint8Array, E>): Stream.Stream<Uint8Array, E> =>
  frames.pipe(
    Stream.mapAccum((): Unread => ({ head: Buffer.alloc(0), left: 0 }), ({ head, left }, chunk) => {
      const found: Array<Uint8Array | null> = []
      for (let at = 0; at < chunk.length;) {
        if (left > 0) {
          const taken = Math.min(left, chunk.length - at)
          found.push(chunk.subarray(at, at + taken))
          left -= taken
          at += taken
          continue
        }
        const missing = Math.min(headBytes - head.length, chunk.length - at)
        head = Buffer.concat([head, chunk.subarray(at, at + missing)])
        at += missing
        if (head.length < headBytes) continue
        left = head.readUInt32BE(0)
        head = Buffer.alloc(0)
        if (left > mostFrame) {
          found.push(null)
          break
        }
      }
      return [{ head, left }, found]
    }),
    Stream.takeWhile((one) => one !== null),
  )

const opened = (socket: Socket) =>
  Effect.callback<void, RtspGateClosed>((resume) => {
    socket.once("connect", () => resume(Effect.void))
    socket.once("error", () => resume(Effect.fail(new RtspGateClosed())))
  })

/** A connection to the door of this very node, as a player would open one; what is received comes in frames. */
export const joinDoor = (host: string, port: number): Effect.Effect<RtspLine, RtspGateClosed, Scope.Scope> =>
  Effect.gen(function*() {
    const anywhere = host === "0.0.0.0" || host === "::"
    const socket = yield* Effect.acquireRelease(
      Effect.sync(() => connect({ host: anywhere ? "127.0.0.1" : host, port, noDelay: true })),
      (made) => Effect.sync(() => made.destroy()),
    )
    yield* opened(socket)
    socket.on("error", () => socket.destroy())
    return {
      send: (bytes: Uint8Array) => {
        if (socket.destroyed) return
        socket.write(bytes)
        if (socket.writableLength > mostWaiting) socket.destroy()
      },
      received: framed(
        Stream.fromAsyncIterable<Uint8Array, null>(socket, () => null).pipe(Stream.catch(() => Stream.empty)),
      ),
    }
  })

/** Gives what is received to a player until the line or the player ends. */
export const pour = ({ received }: RtspLine, socket: Socket): Effect.Effect<void> =>
  Stream.runForEach(received, (bytes) =>
    Effect.callback<void>((resume) => {
      if (socket.destroyed || socket.write(bytes)) return resume(Effect.void)
      const go = () => {
        socket.off("drain", go)
        socket.off("close", go)
        resume(Effect.void)
      }
      socket.once("drain", go)
      socket.once("close", go)
    })).pipe(Effect.ensuring(Effect.sync(() => socket.end())))
