/**
 * The layer of WebRTC: its sockets, its certificate, and the time of its peers.
 *
 * Invariants
 * 1. A port that cannot be had, and interfaces that are not there yet, are tried for again every {@link retryMs}; meanwhile nobody is
 *    answered, and nothing else suffers.
 */
import { Clock, Context, Effect, Layer, Random, Schedule } from "effect"
import { isIP } from "node:net"
import { type IceServer, WebRtc, WebRtcBusy, WebRtcClosed } from "../webrtc.ts"
import { type HostCandidate, plainHost } from "./answer.ts"
import { makeDtlsIdentity } from "./dtls.ts"
import { Exchange, Exchanges, maxPeers } from "./exchange.ts"
import { receive } from "./incoming.ts"
import { parseOffer } from "./offer.ts"
import { tickMs } from "./peer.ts"
import { addressesOf, openPorts, type Port } from "./ports.ts"

export interface WebRtcOptions {
  /** Names or addresses of interfaces; empty: those that `httpHost` stands for. */
  readonly interfaces: ReadonlyArray<string>
  readonly httpHost: string
  /** First and last port; the first of them that is free is taken; 0 takes whichever is free. */
  readonly ports: readonly [number, number]
  /** Whether by TCP too, on the same port. */
  readonly tcp: boolean
  /** Announced besides: addresses or names, with a port where it is another one. */
  readonly additionalHosts: ReadonlyArray<string>
  readonly iceServers: ReadonlyArray<IceServer>
}

const retryMs = 10_000

const hostOf = (host: string, port: number): Omit<HostCandidate, "protocol"> => {
  const match = isIP(host) === 6 ? null : /^\[?([^\]]+?)\]?:(\d{1,5})$/.exec(host)
  return match === null ? { address: host, port } : { address: match[1]!, port: Number(match[2]) }
}

const hasTcp = (ports: ReadonlyArray<Port>): boolean => ports.some(({ server }) => server !== null)

const candidatesOf = (
  ports: ReadonlyArray<Port>,
  additionalHosts: ReadonlyArray<string>,
): ReadonlyArray<HostCandidate> => {
  const own = ports.map(({ address, port }) => ({ address: plainHost(address), port }))
  const others = additionalHosts.map((host) => hostOf(host, ports[0]!.port))
  const hosts = [
    ...others,
    ...own.filter(({ address, port }) => !others.some((other) => other.address === address && other.port === port)),
  ]
  const by = (protocol: HostCandidate["protocol"]) => hosts.map((host) => ({ ...host, protocol }))
  return [...by("udp"), ...hasTcp(ports) ? by("tcp") : []]
}

const listenForever = Effect.fnUntraced(function*(options: WebRtcOptions, exchange: Exchange) {
  const identity = yield* Effect.promise(makeDtlsIdentity)
  const attempt = Effect.gen(function*() {
    const ports = yield* openPorts(
      addressesOf(options.interfaces, options.httpHost),
      options.ports,
      options.tcp ? exchange.accept : null,
    )
    for (const port of ports) port.socket.on("message", (bytes, from) => exchange.hear(port, bytes, from))
    yield* Effect.addFinalizer(() => Effect.sync(() => exchange.close()))
    exchange.listening = { ports, identity, candidates: candidatesOf(ports, options.additionalHosts) }
    const at = ports.map(({ address, port }) => `${address}:${port}`).join(", ")
    if (options.tcp && !hasTcp(ports)) yield* Effect.logWarning("No WebRTC by TCP: no port of the range is free for it")
    yield* Effect.logInfo(`WebRTC by ${hasTcp(ports) ? "UDP and TCP" : "UDP"}: ${at}`)
    return yield* Effect.never
  })
  const patiently = Effect.scoped(attempt).pipe(
    Effect.tapError((error) => Effect.logWarning(`No WebRTC for now: ${error.message}`)),
    Effect.retry(Schedule.spaced(retryMs)),
  )
  yield* Effect.forkScoped(patiently)
  yield* Effect.forkScoped(Effect.forever(Effect.andThen(Effect.sleep(tickMs), Effect.sync(() => exchange.tick()))))
})

const make = Effect.fnUntraced(function*(options: WebRtcOptions) {
  const clock = yield* Clock.Clock
  const nowMs = () => clock.currentTimeMillisUnsafe()
  const exchange = new Exchange(nowMs)
  yield* listenForever(options, exchange)
  const service = WebRtc.of({
    config: () => ({
      port: exchange.listening?.ports[0]?.port ?? null,
      addresses: exchange.listening?.ports.map(({ address }) => address) ?? [],
      additionalHosts: options.additionalHosts,
      peers: exchange.size,
      maxPeers,
    }),
    iceServers: options.iceServers,
    receive: Effect.fnUntraced(function*(text, wish, events) {
      const { listening } = exchange
      if (listening === null) return yield* new WebRtcClosed()
      const offer = yield* Effect.fromResult(parseOffer(text))
      const ssrc = yield* Random.nextIntBetween(1, 0x7fff_ffff)
      const peer = yield* Effect.fromResult(receive(exchange, listening, offer, wish, events, { nowMs, ssrc }))
      return peer ?? (yield* new WebRtcBusy())
    }),
  })
  return Context.make(WebRtc, service).pipe(Context.add(Exchanges, exchange))
})

export const layer = (options: WebRtcOptions): Layer.Layer<WebRtc | Exchanges> => Layer.effectContext(make(options))
