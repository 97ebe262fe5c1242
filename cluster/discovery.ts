/**
 * Nodes of the local network find each other: this one announces itself by multicast DNS and listens for others.
 *
 * Invariants
 * 1. It offers candidates for a pairing and does nothing else with them: nothing found here is dialled, trusted or stored.
 * 2. Only senders of a network that this machine is itself part of are heard and answered (RFC 6762, section 11).
 * 3. Garbage, sockets that fail and interfaces that come and go end nothing.
 * 4. Bounds: {@link mostInterfaces} interfaces, {@link mostPerSecond} datagrams read in a second, {@link mostWaiting} answers that wait to
 *    be sent, the same answer to a network once in a second (section 6).
 */
import { Clock, Context, Effect, Layer, Queue, Random, Result, Schedule, SubscriptionRef } from "effect"
import { IpNetwork, NetAddress } from "effect/net"
import type { RemoteInfo } from "node:dgram"
import { networkInterfaces } from "node:os"
import { NodeIdentity } from "./identity.ts"
import { type FoundNode, KnownNodes } from "./mdns-known.ts"
import { type Lan, multicastPort, Wire } from "./mdns-wire.ts"
import {
  type Announced,
  announcement,
  answerTo,
  type Asked,
  lifetimeSeconds,
  queryFor,
  queryForAll,
  readMessage,
} from "./mdns.ts"
import type { HttpReach, OwnReach } from "./members.ts"

const mostInterfaces = 16
const mostPerSecond = 200
const mostWaiting = 64
const lookEverySeconds = 15
/** Between two questions for everybody: doubled each time, up to an hour (section 5.2). */
const longestIntervalSeconds = 3_600

export class NodeDiscovery extends Context.Service<NodeDiscovery, {
  /** Nodes heard on the network whose words have not run out, this one not among them; as they say, unproven. */
  readonly list: Effect.Effect<ReadonlyArray<FoundNode>>
}>()("nightjar/cluster/NodeDiscovery") {
  /** Finds nobody and tells nobody. */
  static readonly off: Layer.Layer<NodeDiscovery> = Layer.succeed(NodeDiscovery, { list: Effect.succeed([]) })
}

export interface DiscoveryOptions {
  readonly name: string
  readonly version: string
  /** Where this node's HTTP is: of it the port and the scheme are announced. */
  readonly reach: OwnReach
  /** Looked at every 15 seconds. */
  readonly lans: () => ReadonlyArray<Lan>
  /** 5353 if left out. */
  readonly port?: number
}

/**
 * The networks that somebody who listens on `host` is reached by: those of all interfaces for `0.0.0.0` and `::`, none on loopback.
 */
export const lansOf = (host: string) => (): ReadonlyArray<Lan> =>
  Object.values(networkInterfaces()).flatMap((all) => all ?? [])
    .filter(({ address, family, internal }) =>
      family === "IPv4" && !internal && (host === "0.0.0.0" || host === "::" || host === address)
    )
    .flatMap(({ address, cidr }) => {
      const prefix = Number(cidr?.split("/")[1])
      const ip = NetAddress.ipFromString(address)
      return Result.isSuccess(ip) && Number.isInteger(prefix) ?
        [{ address, network: IpNetwork.fromAddressUnsafe(ip.success, prefix) }] :
        []
    })
    .slice(0, mostInterfaces)

/** What others are told of an address; null where there is none to tell. */
const announcedAt = (self: Omit<Announced, "port" | "tls">, reach: HttpReach | null): Announced | null => {
  const url = reach === null ? null : URL.parse(reach.address)
  if (url === null) return null
  const tls = url.protocol === "https:"
  return { ...self, tls, port: url.port === "" ? (tls ? 443 : 80) : Number(url.port) }
}

/** A question that waits for its answer. */
interface Waiting {
  readonly asked: Asked
  readonly lan: Lan
  /** Null: everybody on the network hears the answer. */
  readonly to: RemoteInfo | null
  /** Asked from another port than that of multicast DNS: by an ordinary resolver. */
  readonly legacy: boolean
}

/** Reads at most {@link mostPerSecond} datagrams a second, whatever comes. */
const makeBudget = () => {
  let second = 0
  let read = 0
  return (nowMs: number): boolean => {
    const now = Math.floor(nowMs / 1000)
    if (now !== second) {
      second = now
      read = 0
    }
    read += 1
    return read <= mostPerSecond
  }
}

const make = Effect.fnUntraced(function*({ lans, name, port = multicastPort, reach, version }: DiscoveryOptions) {
  const { nodeId } = yield* NodeIdentity
  const clock = yield* Clock.Clock
  const known = new KnownNodes()
  const waiting = yield* Queue.dropping<Waiting>(mostWaiting)
  const withinBudget = makeBudget()
  const announced = Effect.map(SubscriptionRef.get(reach), (now) => announcedAt({ nodeId, name, version }, now))

  const hear = (bytes: Uint8Array, from: RemoteInfo, lan: Lan) => {
    const nowMs = clock.currentTimeMillisUnsafe()
    const said = withinBudget(nowMs) ? readMessage(bytes) : null
    if (said === null) return
    const legacy = from.port !== port
    if (said.kind === "query") {
      const unicast = legacy || said.asked.questions.every((question) => question.unicast)
      Queue.offerUnsafe(waiting, { asked: said.asked, lan, to: unicast ? from : null, legacy })
    } else if (!legacy) {
      // From another port it is no answer of multicast DNS (section 6).
      for (const node of said.nodes) if (node.nodeId !== nodeId) known.hear(from.address, node, nowMs)
      for (const gone of said.gone) known.leave(from.address, gone)
    }
  }
  const wire = yield* Effect.acquireRelease(
    Effect.sync(() => new Wire({ port, hear, lans })),
    (open) =>
      Effect.gen(function*() {
        const self = yield* announced
        if (self !== null) {
          yield* Effect.promise(() =>
            Promise.all(open.lans.map((lan) => open.send(lan, announcement(self, [lan.address], 0))))
          )
        }
      }).pipe(Effect.timeoutOption("1 second"), Effect.ensuring(Effect.sync(() => open.close()))),
  )

  const everywhere = (bytesFor: (lan: Lan) => Buffer) => {
    for (const lan of wire.lans) void wire.send(lan, bytesFor(lan))
  }
  yield* Effect.forkScoped(answering({ announced, waiting, wire }))
  yield* Effect.forkScoped(upkeep({ announced, everywhere, known, wire }))
  return NodeDiscovery.of({ list: Effect.map(Clock.currentTimeMillis, (nowMs) => known.list(nowMs)) })
})

interface Answering {
  readonly announced: Effect.Effect<Announced | null>
  readonly waiting: Queue.Queue<Waiting>
  readonly wire: Wire
}

/** Answers one question after the other. */
const answering = ({ announced, waiting, wire }: Answering) => {
  /** When a network last heard an answer. There are as many as subsets of a node's records: few. */
  const lastMs = new Map<string, number>()
  return Effect.forever(Effect.gen(function*() {
    const { asked, lan, legacy, to } = yield* Queue.take(waiting)
    const self = yield* announced
    const bytes = self === null ? null : answerTo(asked, self, [lan.address], legacy)
    if (bytes === null) return
    if (to !== null) return void wire.send(lan, bytes, to)
    const key = `${lan.address} ${bytes.toString("latin1")}`
    const nowMs = yield* Clock.currentTimeMillis
    if (nowMs - (lastMs.get(key) ?? -Infinity) < 1000) return
    // Others answer the same question: not all at once (section 6).
    yield* Effect.sleep(yield* Random.nextIntBetween(20, 120))
    if (lastMs.size > mostInterfaces * 32) lastMs.clear()
    lastMs.set(key, yield* Clock.currentTimeMillis)
    void wire.send(lan, bytes)
  }))
}

interface Upkeep {
  readonly announced: Effect.Effect<Announced | null>
  readonly everywhere: (bytesFor: (lan: Lan) => Buffer) => void
  readonly known: KnownNodes
  readonly wire: Wire
}

/** Once a second: looks at the interfaces, announces what is new twice, asks for everybody and for those who run out. */
const upkeep = ({ announced, everywhere, known, wire }: Upkeep) => {
  let second = 0
  let told = ""
  let announceLeft = 0
  let askAt = 1
  let interval = 1
  let warned = false
  const again = () => {
    announceLeft = 2
    askAt = second + 1
    interval = 1
  }
  const tick = Effect.gen(function*() {
    if (second % lookEverySeconds === 0 && wire.look()) again()
    if (wire.failure !== null && !warned) {
      warned = true
      yield* Effect.logWarning(`Other nodes of the network may not be found: ${wire.failure}`)
    }
    const self = yield* announced
    const text = JSON.stringify(self)
    if (text !== told) {
      told = text
      announceLeft = 2
    }
    // The second time a second later, as datagrams get lost (section 8.3).
    if (announceLeft > 0 && self !== null) {
      announceLeft -= 1
      everywhere((lan) => announcement(self, [lan.address], lifetimeSeconds))
    }
    const nowMs = yield* Clock.currentTimeMillis
    if (second >= askAt) {
      askAt = second + interval
      interval = Math.min(interval * 2, longestIntervalSeconds)
      everywhere(() => queryForAll(known.lasting(nowMs)))
    }
    const due = known.dueForRefresh(nowMs)
    if (due.length > 0) everywhere(() => queryFor(due))
    second += 1
  })
  return Effect.repeat(tick, Schedule.spaced("1 second"))
}

export const layer = (options: DiscoveryOptions): Layer.Layer<NodeDiscovery, never, NodeIdentity> =>
  Layer.effect(NodeDiscovery, make(options))
