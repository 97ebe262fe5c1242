/**
 * The sockets of WebRTC: one for UDP and one for TCP per address of the node, all peers share them.
 *
 * Invariants
 * 1. Only the addresses of the configured interfaces are bound, all to the same port: the first of the range that is free on all, by TCP
 *    too. Where none is free by TCP, the first that is free by UDP.
 * 2. A datagram goes to a peer by the address that it comes from, once a STUN check by that peer's credentials came from there; STUN
 *    itself by the name in it. Everything else is dropped and counted. Frames of a TCP connection likewise.
 */
import { Effect, Exit, Result, Scope } from "effect"
import { createSocket, type Socket } from "node:dgram"
import { createServer, isIPv6, type Server, type Socket as TcpSocket } from "node:net"
import { networkInterfaces } from "node:os"

/** What a burst of packets for many viewers needs until the kernel has sent it; the kernel caps it at `net.core.wmem_max`. */
const socketBytes = 4 * 1024 * 1024

/** How often a port that is free by UDP may turn out not to be by TCP, where any will do. */
const anyAttempts = 8

/** One bound address. */
export interface Port {
  readonly socket: Socket
  /** Null: not by TCP. */
  readonly server: Server | null
  readonly address: string
  readonly port: number
}

const isLinkLocal = (address: string): boolean => /^(169\.254\.|fe[89ab][0-9a-f]:)/i.test(address)

/**
 * The addresses to bind. `wanted`: names or addresses of interfaces; empty: those that the HTTP server at `httpHost` is reached by.
 */
export const addressesOf = (
  wanted: ReadonlyArray<string>,
  httpHost: string,
  interfaces = networkInterfaces(),
): ReadonlyArray<string> => {
  const all = Object.entries(interfaces).flatMap(([name, addresses]) =>
    (addresses ?? []).map(({ address, internal }) => ({ name, address, internal }))
  )
  const everywhere = httpHost === "0.0.0.0" || httpHost === "::"
  const chosen = wanted.length > 0 ?
    all.filter(({ address, name }) => wanted.includes(name) || wanted.includes(address)) :
    everywhere ?
    all.filter(({ address, internal }) => !internal && (httpHost === "::" || !isIPv6(address))) :
    all.filter(({ address }) => address === (httpHost === "localhost" ? "127.0.0.1" : httpHost))
  return [...new Set(chosen.map(({ address }) => address).filter((address) => !isLinkLocal(address)))].slice(0, 16)
}

const bind = (address: string, port: number) =>
  Effect.acquireRelease(
    Effect.callback<Socket, Error>((resume) => {
      const family = isIPv6(address) ? 6 : 4
      // Addresses are numbers already: asking for each datagram costs as much as its encryption.
      const socket = createSocket({
        type: family === 6 ? "udp6" : "udp4",
        lookup: (host, _options, callback) => callback(null, host, family),
      })
      const failed = (error: Error) => {
        socket.close()
        resume(Effect.fail(error))
      }
      socket.once("error", failed)
      socket.bind({ address, port, exclusive: true }, () => {
        socket.off("error", failed)
        // Refused datagrams are told here; whoever does not answer any more is noticed by its silence.
        socket.on("error", () => {})
        socket.setSendBufferSize(socketBytes)
        socket.setRecvBufferSize(socketBytes)
        resume(Effect.succeed(socket))
      })
    }),
    (socket) => Effect.sync(() => socket.close()),
  )

/** Who connects is told to `onConnection`, and ended by it. */
const listen = (address: string, port: number, onConnection: (socket: TcpSocket) => void) =>
  Effect.acquireRelease(
    Effect.callback<Server, Error>((resume) => {
      const server = createServer({ noDelay: true }, onConnection)
      const failed = (error: Error) => resume(Effect.fail(error))
      server.once("error", failed)
      server.listen({ host: address, port, exclusive: true }, () => {
        server.off("error", failed)
        // A connection that cannot be accepted is told here; the others go on.
        server.on("error", () => {})
        resume(Effect.succeed(server))
      })
    }),
    (server) => Effect.sync(() => server.close()),
  )

type OnConnection = ((socket: TcpSocket) => void) | null

const bindAll = Effect.fnUntraced(
  function*(addresses: ReadonlyArray<string>, wanted: number, onConnection: OnConnection) {
    const ports: Array<Port> = []
    for (const address of addresses) {
      const socket: Socket = yield* bind(address, ports[0]?.port ?? wanted)
      const { port } = socket.address()
      const server = onConnection === null ? null : yield* listen(address, port, onConnection)
      ports.push({ socket, server, address, port })
    }
    return ports
  },
)

/** What to try, in this order: invariant 1. */
const attempts = (range: readonly [number, number], onConnection: OnConnection) => {
  const numbers = Array.from({ length: range[1] - range[0] + 1 }, (_, index) => range[0] + index)
  const both = onConnection === null ?
    [] :
    numbers.flatMap((port) => Array.from({ length: port === 0 ? anyAttempts : 1 }, () => ({ port, onConnection })))
  return [...both, ...numbers.map((port) => ({ port, onConnection: null }))]
}

/** `range`: first and last port; 0 takes any. `onConnection`: null without TCP. */
export const openPorts = Effect.fnUntraced(
  function*(
    addresses: ReadonlyArray<string>,
    range: readonly [number, number],
    onConnection: OnConnection,
  ): Effect.fn.Return<ReadonlyArray<Port>, Error, Scope.Scope> {
    const scope = yield* Effect.scope
    let problem = new Error("no address of this node is among the configured interfaces")
    if (addresses.length === 0) return yield* Effect.fail(problem)
    for (const { onConnection: by, port } of attempts(range, onConnection)) {
      const child = yield* Scope.fork(scope)
      const bound = yield* Effect.result(Effect.provideService(bindAll(addresses, port, by), Scope.Scope, child))
      if (Result.isSuccess(bound)) return bound.success
      problem = bound.failure
      yield* Scope.close(child, Exit.void)
    }
    return yield* Effect.fail(problem)
  },
)
