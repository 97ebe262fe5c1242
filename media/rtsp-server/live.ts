/**
 * The layer of the RTSP server: a TCP port, a pair of UDP ports, and the feeds of the streams that are read.
 *
 * Invariants
 * 1. At most {@link maxReaders} connections that were let in, and {@link maxStrangers} that were not yet: of these the oldest goes
 *    when another comes, so that whoever connects and says nothing keeps nobody out.
 * 2. A feed is held while somebody reads it, and {@link lingerMs} longer: a player that comes back finds its picture at once.
 * 3. A port that cannot be had is tried for again every {@link retryMs}; without UDP, UDP is refused and TCP served.
 */
import type { StreamId } from "#schema/common.ts"
import { Clock, Effect, FiberSet, Layer, RcMap, Schedule, type Scope } from "effect"
import type { Socket as UdpSocket } from "node:dgram"
import { createServer, type Server, type Socket } from "node:net"
import type { LiveStreams } from "../hub.ts"
import { RtspGate, RtspGateClosed, RtspServer } from "../rtsp-server.ts"
import { bindPair } from "../rtsp/udp.ts"
import { Storage } from "../storage.ts"
import { type Connection, sessionTimeoutMs } from "./connection.ts"
import type { RtspAccount } from "./credentials.ts"
import type { Door } from "./door.ts"
import { type Feed, openFeed } from "./feed.ts"
import { makeReadPermits } from "./footage-reader.ts"
import { joinDoor } from "./line.ts"
import { Lockout } from "./lockout.ts"
import { closeBytes } from "./reader.ts"
import { serve } from "./serve.ts"
import { plainAddress } from "./transport.ts"

export interface RtspServerOptions {
  readonly host: string
  /** 0 takes one that is free. */
  readonly port: number
  /** Opens every stream, by Basic or Digest; null: there is none. */
  readonly account: RtspAccount | null
}

const maxReaders = 1_000
const maxStrangers = 256
const lingerMs = 10_000
const retryMs = 10_000
const sweepMs = 1_000
/** Whoever may not watch any more sees the end within two seconds, the notice of it included. */
const checkMs = 500

const listen = (server: Server, { host, port }: RtspServerOptions) =>
  Effect.callback<number, NodeJS.ErrnoException>((resume) => {
    const failed = (error: NodeJS.ErrnoException) => resume(Effect.fail(error))
    server.once("error", failed)
    server.listen({ host, port }, () => {
      server.off("error", failed)
      const address = server.address()
      resume(Effect.succeed(address === null || typeof address === "string" ? port : address.port))
    })
  })

const openUdp = (host: string) =>
  Effect.acquireRelease(bindPair(host), ({ rtcp, rtp }) =>
    Effect.sync(() => {
      rtp.close()
      rtcp.close()
    })).pipe(
      Effect.map((sockets): Door["udp"] => ({
        ...sockets,
        ports: [sockets.rtp.address().port, sockets.rtcp.address().port],
      })),
      Effect.catch((error) =>
        Effect.as(Effect.logWarning(`Live streams by RTSP go by TCP alone: ${error.message}`), null)
      ),
    )

/** Everyone who is connected. */
class Guests {
  readonly all = new Set<Connection>()
  private readonly strangers = new Set<Connection>()
  private readonly byPort = new Map<string, Connection>()
  private readonly ports = new Map<Connection, Array<string>>()

  readonly opened = (connection: Connection): void => {
    const [oldest] = this.strangers
    if (oldest !== undefined && this.strangers.size >= maxStrangers) {
      this.strangers.delete(oldest)
      oldest.close()
    }
    this.all.add(connection)
    this.strangers.add(connection)
  }

  readonly admitted = (connection: Connection): boolean => {
    this.strangers.delete(connection)
    return this.all.size - this.strangers.size <= maxReaders
  }

  readonly closed = (connection: Connection): void => {
    this.all.delete(connection)
    this.strangers.delete(connection)
    for (const port of this.ports.get(connection) ?? []) {
      if (this.byPort.get(port) === connection) this.byPort.delete(port)
    }
    this.ports.delete(connection)
  }

  readonly listen = (address: string, port: number, connection: Connection): void => {
    const key = `${plainAddress(address)} ${port}`
    const own = this.ports.get(connection) ?? []
    // Two tracks have two ports each; more are those of a player that changes its mind.
    if (own.length >= 8) this.byPort.delete(own.shift()!)
    this.ports.set(connection, [...own, key])
    this.byPort.set(key, connection)
  }

  hear(socket: UdpSocket, rtcp: boolean): void {
    socket.on(
      "message",
      (bytes, { address, port }) => this.byPort.get(`${plainAddress(address)} ${port}`)?.datagram(bytes, rtcp),
    )
    // A port that the reader has closed is told here; its reports or its requests will be missed.
    socket.on("error", () => {})
  }
}

const serveForever = Effect.fnUntraced(function*(options: RtspServerOptions, door: Door, guests: Guests) {
  const run = yield* FiberSet.makeRuntime()
  let port: number | null = null
  const accept = (socket: Socket) => {
    if (guests.all.size > maxReaders + maxStrangers) socket.destroy()
    else run(serve(door, socket, guests.opened, guests.closed))
  }
  const attempt = Effect.gen(function*() {
    const server = createServer({ noDelay: true, keepAlive: true }, accept)
    yield* Effect.addFinalizer(() =>
      Effect.callback<void>((resume) => {
        port = null
        for (const guest of guests.all) guest.close()
        server.close(() => resume(Effect.void))
      })
    )
    port = yield* listen(server, options)
    yield* Effect.logInfo(`Live streams by RTSP: rtsp://${options.host}:${port}`)
    return yield* Effect.never
  })
  const patiently = Effect.scoped(attempt).pipe(
    Effect.tapError((error) => Effect.logWarning(`No live streams by RTSP for now: ${error.message}`)),
    Effect.retry(Schedule.spaced(retryMs)),
  )
  yield* Effect.forkScoped(patiently)
  return () => port
})

const keepOrder = Effect.fnUntraced(function*(door: Door, guests: Guests) {
  const clock = yield* Clock.Clock
  const sweep = Effect.sync(() => {
    for (const guest of guests.all) guest.sweep(clock.currentTimeMillisUnsafe())
  })
  const check = Effect.suspend(() =>
    Effect.forEach(
      [...guests.all],
      (guest) =>
        guest.revocable === null ? Effect.void : Effect.map(door.gate.holds(guest.revocable), (holds) => {
          if (!holds) guest.close()
        }),
      { discard: true },
    )
  )
  yield* Effect.forkScoped(Effect.forever(Effect.andThen(Effect.sleep(sweepMs), sweep)))
  yield* Effect.forkScoped(Effect.forever(Effect.andThen(Effect.sleep(checkMs), check)))
})

const make = Effect.fnUntraced(function*(options: RtspServerOptions) {
  const gate = yield* RtspGate
  const open = new Map<StreamId, Feed>()
  const feeds = yield* RcMap.make({
    lookup: (streamId: StreamId): Effect.Effect<Feed | null, never, LiveStreams | Scope.Scope> =>
      Effect.gen(function*() {
        const feed = yield* openFeed(streamId)
        if (feed === null) return null
        yield* Effect.acquireRelease(
          Effect.sync(() => open.set(streamId, feed)),
          // A newer one may stand in its place.
          () => Effect.sync(() => open.get(streamId) === feed && open.delete(streamId)),
        )
        return feed
      }),
    idleTimeToLive: lingerMs,
  })
  const guests = new Guests()
  const udp = yield* openUdp(options.host)
  if (udp !== null) {
    guests.hear(udp.rtp, false)
    guests.hear(udp.rtcp, true)
  }
  const door: Door = {
    account: options.account,
    gate,
    lockout: new Lockout(),
    shelf: { feeds, storage: yield* Storage, permits: yield* makeReadPermits },
    udp,
    admitted: guests.admitted,
    listen: guests.listen,
  }
  yield* keepOrder(door, guests)
  const port = yield* serveForever(options, door, guests)
  return RtspServer.of({
    port,
    config: () => ({
      port: port(),
      transports: udp === null ? ["tcp"] : ["tcp", "udp"],
      hasAccount: options.account !== null,
      maxReaders,
      sessionTimeoutSeconds: sessionTimeoutMs / 1000,
      maxBehindBytes: closeBytes,
    }),
    streams: () =>
      [...open.values()].map(({ bytes, packets, parameters, readers, sinceMs, streamId }) => ({
        streamId,
        since: sinceMs,
        ready: parameters !== null,
        tracks: parameters === null ?
          [] :
          [parameters.video.codec, ...parameters.audio === null ? [] : [parameters.audio.codec]],
        bytes,
        packets,
        readers,
      })),
    sessions: () => [...guests.all].map((guest) => guest.told()).filter((session) => session !== null),
    join: Effect.suspend(() => {
      const at = port()
      return at === null ? Effect.fail(new RtspGateClosed()) : joinDoor(options.host, at)
    }),
    disconnect: (streamId) => {
      const readers = [...guests.all].filter((guest) => guest.liveStreamId === streamId)
      for (const reader of readers) reader.close()
      return readers.length
    },
  })
})

export const layer = (options: RtspServerOptions): Layer.Layer<RtspServer, never, LiveStreams | RtspGate | Storage> =>
  Layer.effect(RtspServer, make(options))
