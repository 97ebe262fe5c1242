/**
 * The transport between the runners of a cluster: TLS 1.3, both ends known by their keys.
 *
 * Each life of a node has a key of its own for it. Its pin (SHA-256 of the SubjectPublicKeyInfo) stands in the node's row, signed by the
 * node's identity; certificates say nothing else, and no authority signs them.
 *
 * Invariants
 * 1. Not a byte is read from or sent to an end whose key is not that of a member; who is refused is told in the log, at most once
 *    in {@link quietMs}.
 * 2. The key at an address must be the one of the member that tells this address.
 * 3. A member that is none any more loses its connections at once.
 * 4. Both ends set TCP_NODELAY: without it a streamed answer stalls about 88 ms a chunk.
 * 5. At most {@link mostStrangers} connections wait for their key to be looked up.
 */
import * as NodeSocket from "@effect/platform-node/NodeSocket"
import * as NodeSocketServer from "@effect/platform-node/NodeSocketServer"
import { Clock, Context, Effect, Layer, Ref, Schema, Stream, SubscriptionRef } from "effect"
import { Runners } from "effect/cluster"
import { RpcClient, RpcSerialization } from "effect/rpc"
import { Socket, SocketServer } from "effect/socket"
import { createHash, X509Certificate } from "node:crypto"
import { connect, TLSSocket } from "node:tls"

export interface TransportOptions {
  /** Address to listen on, and to be reached at by the other nodes. */
  readonly host: string
  /** 0 takes a free one. */
  readonly port: number
  /** PEM both; a pair for this life of the node, signed by itself. */
  readonly certificate: Effect.Effect<{ readonly certificate: string; readonly privateKey: string }>
}

/** The cluster transport cannot listen there. */
export class TransportRefused extends Schema.TaggedError<TransportRefused>()("TransportRefused", {
  host: Schema.String,
  detail: Schema.String,
}) {
  override get message(): string {
    return `The cluster transport does not listen on ${this.host}: ${this.detail}`
  }
}

/** A member as the transport knows it. */
export interface Runner {
  readonly name: string
  /** `host:port`. */
  readonly address: string
  readonly pin: string
}

/** Whom the transport talks to; written by whoever reads the list of members. */
export class Trusted extends Context.Service<Trusted, {
  readonly certificate: string
  readonly privateKey: string
  /** Of this life of this node. */
  readonly pin: string
  readonly runners: SubscriptionRef.SubscriptionRef<ReadonlyArray<Runner>>
  /** Reads the list of members now; nothing until there is one. */
  readonly look: Ref.Ref<Effect.Effect<void>>
}>()("nightjar/cluster/Trusted") {}

/** SHA-256 of the SubjectPublicKeyInfo (RFC 7469, section 2.4), base64url. */
const pinOf = (certificate: X509Certificate): string =>
  createHash("sha256").update(certificate.publicKey.export({ format: "der", type: "spki" })).digest("base64url")

export const layerTrusted = (options: Pick<TransportOptions, "certificate">): Layer.Layer<Trusted> =>
  Layer.effect(
    Trusted,
    Effect.gen(function*() {
      const pair = yield* options.certificate
      return Trusted.of({
        ...pair,
        pin: pinOf(new X509Certificate(pair.certificate)),
        runners: yield* SubscriptionRef.make<ReadonlyArray<Runner>>([]),
        look: yield* Ref.make<Effect.Effect<void>>(Effect.void),
      })
    }),
  )

const mostStrangers = 64
const handshakeMs = 5_000
const lookMs = 5_000
const quietMs = 10_000

const pinOfPeer = (socket: TLSSocket): string | null => {
  const certificate = socket.getPeerX509Certificate()
  return certificate === undefined ? null : pinOf(certificate)
}

/** A runner of the list that has the key, after a second look at the list. */
const runnerWith = Effect.fnUntraced(function*(wanted: (runner: Runner) => boolean) {
  const { look, runners } = yield* Trusted
  const found = (yield* SubscriptionRef.get(runners)).find(wanted)
  if (found !== undefined) return found
  yield* Effect.ignore(Effect.timeout(Effect.flatten(Ref.get(look)), lookMs))
  return (yield* SubscriptionRef.get(runners)).find(wanted)
})

const tlsOptions = ({ certificate, privateKey }: Trusted["Service"]) => ({
  cert: certificate,
  key: privateKey,
  minVersion: "TLSv1.3" as const,
  // Whether the other end is known is judged by its pin alone, below: certificates here have no authority.
  rejectUnauthorized: false,
})

/** Lets only members through to what serves them. */
const guard = Effect.fnUntraced(function*(base: SocketServer.SocketServer["Service"]) {
  const trusted = yield* Trusted
  const open = new Map<TLSSocket, string>()
  let strangers = 0
  let toldMs = -quietMs

  const refuse = Effect.fnUntraced(function*(socket: TLSSocket, why: string) {
    const { remoteAddress = "somebody" } = socket
    socket.destroy()
    const nowMs = yield* Clock.currentTimeMillis
    if (nowMs - toldMs < quietMs) return
    toldMs = nowMs
    yield* Effect.logWarning(`The cluster transport refused ${remoteAddress}: ${why}`)
  })
  /** The key of a member; a stranger's connection is ended. */
  const judge = Effect.fnUntraced(function*(socket: TLSSocket) {
    const pin = pinOfPeer(socket)
    if (pin === null) return yield* refuse(socket, "it showed no certificate")
    if (strangers >= mostStrangers) return yield* refuse(socket, "too many wait to be known")
    strangers++
    const runner = yield* Effect.ensuring(runnerWith((one) => one.pin === pin), Effect.sync(() => strangers--))
    return runner === undefined ? yield* refuse(socket, `its key ${pin} is no member's`) : pin
  }, Effect.provideService(Trusted, trusted))

  yield* SubscriptionRef.changes(trusted.runners).pipe(
    Stream.runForEach((runners) =>
      Effect.sync(() => {
        const pins = new Set(runners.map(({ pin }) => pin))
        for (const [socket, pin] of open) if (!pins.has(pin)) socket.destroy()
      })
    ),
    Effect.forkScoped,
  )
  return SocketServer.SocketServer.of({
    address: base.address,
    run: (handler) =>
      base.run((socket) =>
        Effect.gen(function*() {
          const accepted = yield* Effect.serviceOption(NodeSocket.NetSocket)
          if (accepted._tag === "None" || !(accepted.value instanceof TLSSocket)) return
          const connection = accepted.value
          connection.setNoDelay(true)
          const pin = yield* judge(connection)
          if (typeof pin !== "string") return
          open.set(connection, pin)
          yield* Effect.ensuring(handler(socket), Effect.sync(() => open.delete(connection)))
        })
      ),
  })
})

/** Listens; what connects before the cluster is up waits. */
export const layerServer = (
  options: TransportOptions,
): Layer.Layer<SocketServer.SocketServer, TransportRefused, Trusted> =>
  Layer.effect(
    SocketServer.SocketServer,
    Effect.flatMap(Trusted, (trusted) =>
      NodeSocketServer.makeTls({
        host: options.host,
        port: options.port,
        noDelay: true,
        requestCert: true,
        handshakeTimeout: handshakeMs,
        ...tlsOptions(trusted),
      })).pipe(
        Effect.mapError((error) => new TransportRefused({ host: options.host, detail: error.message })),
        Effect.flatMap(guard),
      ),
  )

/** A connection to the member that tells this address; ends with the scope. */
const dial = (host: string, port: number) =>
  Effect.gen(function*() {
    const trusted = yield* Trusted
    const failed = (cause: unknown) =>
      new Socket.SocketError({ reason: new Socket.SocketOpenError({ kind: "Unknown", cause }) })
    const socket = yield* Effect.acquireRelease(
      Effect.sync(() => connect({ host, port, ...tlsOptions(trusted), checkServerIdentity: () => undefined })),
      (socket) => Effect.sync(() => socket.destroySoon()),
    )
    yield* Effect.callback<void, Socket.SocketError>((resume) => {
      socket.on("error", (cause) => resume(Effect.fail(failed(cause))))
      socket.once("secureConnect", () => resume(Effect.void))
    })
    socket.setNoDelay(true)
    const pin = pinOfPeer(socket)
    const found = yield* runnerWith((one) => one.pin === pin && one.address === `${host}:${port}`)
    if (found === undefined) {
      return yield* failed(new Error(`who answers at ${host}:${port} is not the member expected there`))
    }
    return socket
  })

/** Connects to the other runners. */
export const layerClients: Layer.Layer<Runners.RpcClientProtocol, never, RpcSerialization.RpcSerialization | Trusted> =
  Layer
    .effect(
      Runners.RpcClientProtocol,
      Effect.gen(function*() {
        const serialization = yield* RpcSerialization.RpcSerialization
        const trusted = yield* Trusted
        return {
          codecFor: serialization.codecFor,
          make: Effect.fnUntraced(function*(address) {
            const socket = yield* NodeSocket.fromDuplex(
              Effect.provideService(dial(address.host, address.port), Trusted, trusted),
              { openTimeout: "2 seconds" },
            )
            return yield* RpcClient.makeProtocolSocket().pipe(
              Effect.provideService(Socket.Socket, socket),
              Effect.provideService(RpcSerialization.RpcSerialization, serialization),
            )
          }, Effect.orDie),
        }
      }),
    )
