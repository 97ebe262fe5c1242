/**
 * Sockets that speak nanomsg's protocols (`sp.ts`) over Node's own TCP: each listens, or keeps itself connected to the addresses it is given.
 *
 * Invariants
 * 1. A connection that fails or ends is made anew after a pause that grows to {@link longestPause}; after one that lasted, a second later.
 *    Nothing here tries at once, so a network that is cut costs a timer.
 * 2. Who does not greet as the counterpart within {@link greetWithin}, says too much at once or more than {@link mostPerSecond} messages a
 *    second loses the connection. Who is there no more is found out by TCP's keepalive, or by what is sent to it.
 * 3. Bounds: {@link mostConnections} accepted; of messages that a connection does not take, what Node holds (64 KiB) and
 *    {@link mostWaiting} behind it. The oldest of these is dropped for a new one.
 * 4. What is dropped is counted by reason.
 */
import { Clock, Effect, FiberMap, FiberSet, Latch, Option, Schedule, Schema, type Scope } from "effect"
import { connect, createServer, type Socket } from "node:net"
import { framed, greetingOf, type SpBroken, type SpKind, SpReader } from "./sp.ts"

const mostConnections = 64
const mostWaiting = 8
const mostPerSecond = 100
const greetWithin = "5 seconds"
const longestPause = "15 seconds"
const keepAliveMs = 10_000
const tcp = { noDelay: true, keepAlive: true, keepAliveInitialDelay: keepAliveMs }

/** Nobody can be told anything at this address. */
export class SpRefused extends Schema.TaggedError<SpRefused>()("SpRefused", { detail: Schema.String }) {
  override get message(): string {
    return this.detail
  }
}

/** The other end was not reached, or was not what was expected. */
class SpUnreached extends Schema.TaggedError<SpUnreached>()("SpUnreached", {}) {}

export type SpDropped = SpBroken | "hurried" | "overflowed"
export type SpCounts = Record<SpDropped, number>
export const noneDropped = (): SpCounts => ({ foreign: 0, oversized: 0, hurried: 0, overflowed: 0 })

export interface SpAddress {
  readonly host: string
  readonly port: number
}

export interface SpOptions {
  readonly kind: SpKind
  readonly counts: SpCounts
  /** Called with each message, and with what answers it on the same connection. */
  readonly hear: (message: Buffer, answer: (message: Uint8Array) => void) => void
}

export interface SpSocket {
  /** To everybody who is connected now. */
  readonly send: (message: Uint8Array) => void
  /** Until the scope closes; port 0 takes a free one. Answers the port. */
  readonly listen: (at: SpAddress) => Effect.Effect<number, SpRefused, Scope.Scope>
  /** Keeps it connected to these and to no others from now on. */
  readonly follow: (wanted: ReadonlyArray<SpAddress>) => Effect.Effect<void>
}

const pause = Schedule.jittered(Schedule.min([Schedule.exponential("500 millis"), Schedule.spaced(longestPause)]))

/** Makes a connection, and makes it anew whenever it ended or failed, for ever. */
export const keepUp = <E, R>(connection: Effect.Effect<void, E, R>): Effect.Effect<never, never, R> =>
  connection.pipe(Effect.retry(pause), Effect.ignore, Effect.andThen(Effect.sleep("1 second")), Effect.forever)

/** One connection's way out. */
class Outgoing {
  readonly #socket: Socket
  readonly #counts: SpCounts
  readonly #waiting: Array<Buffer> = []

  constructor(socket: Socket, counts: SpCounts) {
    this.#socket = socket
    this.#counts = counts
    socket.on("drain", () => this.#flush())
  }

  readonly send = (message: Uint8Array): void => {
    this.#waiting.push(framed(message))
    if (this.#waiting.length > mostWaiting) {
      this.#waiting.shift()
      this.#counts.overflowed += 1
    }
    this.#flush()
  }

  #flush(): void {
    while (this.#waiting.length > 0 && !this.#socket.writableNeedDrain && this.#socket.writable) {
      this.#socket.write(this.#waiting.shift()!)
    }
  }
}

/** Whether one more message within this second is one too many. */
const makePace = (clock: Clock.Clock) => {
  let [second, heard] = [0, 0]
  return (): boolean => {
    const now = Math.floor(clock.currentTimeMillisUnsafe() / 1000)
    heard = now === second ? heard + 1 : 1
    second = now
    return heard > mostPerSecond
  }
}

export const makeSp = Effect.fnUntraced(function*({ counts, hear, kind }: SpOptions) {
  const clock = yield* Clock.Clock
  const connected = new Set<Outgoing>()
  const accepted = yield* FiberSet.make<boolean>()
  const dialled = yield* FiberMap.make<string>()

  /** From the greeting to the end; whether it was greeted at all. */
  const attend = (socket: Socket) => {
    const reader = new SpReader(kind)
    const outgoing = new Outgoing(socket, counts)
    const hurried = makePace(clock)
    const [greeted, ended] = [Latch.makeUnsafe(false), Latch.makeUnsafe(socket.destroyed)]
    const drop = (why: SpDropped) => {
      counts[why] += 1
      socket.destroy()
    }
    const take = (chunk: Buffer) => {
      const messages = reader.push(chunk)
      if (typeof messages === "string") return drop(messages)
      if (reader.greeted && !connected.has(outgoing)) {
        connected.add(outgoing)
        greeted.openUnsafe()
      }
      for (const message of messages) {
        if (hurried()) return drop("hurried")
        hear(message, outgoing.send)
      }
    }
    socket.on("data", take)
    socket.on("close", () => ended.openUnsafe())
    socket.write(greetingOf(kind))
    return Effect.gen(function*() {
      const lasting = yield* Effect.timeoutOption(Effect.race(greeted.await, ended.await), greetWithin)
      if (Option.isSome(lasting)) yield* ended.await
      return reader.greeted
    }).pipe(Effect.ensuring(Effect.sync(() => {
      connected.delete(outgoing)
      socket.destroy()
    })))
  }
  // Its end is told by `close`; without a listener an error would end the process.
  const deaf = () => {}

  const listen = Effect.fnUntraced(function*({ host, port }: SpAddress) {
    const run = yield* FiberSet.runtime(accepted)<never>()
    const server = createServer(tcp, (socket) => {
      socket.on("error", deaf)
      run(Effect.suspend(() => attend(socket)))
    })
    server.maxConnections = mostConnections
    yield* Effect.acquireRelease(
      Effect.callback<void, SpRefused>((resume) => {
        server.on("error", (error) => resume(Effect.fail(new SpRefused({ detail: error.message }))))
        server.listen(port, host, () => resume(Effect.void))
      }),
      () => Effect.sync(() => void server.close()),
    )
    const address = server.address()
    return address !== null && typeof address === "object" ? address.port : port
  })

  const dial = ({ host, port }: SpAddress) =>
    Effect.suspend(() => {
      const socket = connect({ host, port, ...tcp })
      socket.on("error", deaf)
      return Effect.flatMap(attend(socket), (lasted) => lasted ? Effect.void : Effect.fail(new SpUnreached()))
    })
  const nameOf = ({ host, port }: SpAddress) => `${host} ${port}`
  const follow = Effect.fnUntraced(function*(wanted: ReadonlyArray<SpAddress>) {
    const names = new Set(wanted.map(nameOf))
    for (const [name] of dialled) if (!names.has(name)) yield* FiberMap.remove(dialled, name)
    for (const address of wanted) {
      yield* FiberMap.run(dialled, nameOf(address), keepUp(dial(address)), { onlyIfMissing: true })
    }
  })

  return {
    send: (message) => connected.forEach((outgoing) => outgoing.send(message)),
    listen,
    follow,
  } satisfies SpSocket
})
