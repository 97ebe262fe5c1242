/**
 * The transport between the runners of a cluster.
 *
 * Invariants
 * 1. Both ends set TCP_NODELAY: without it a streamed answer stalls about 88 ms a chunk.
 * 2. It has no encryption and no authentication of its own, so it listens on loopback or a private address; a public one only
 *    where the operator insists.
 */
import { NodeSocket, NodeSocketServer } from "@effect/platform-node"
import { Effect, Layer, Schema } from "effect"
import { Runners } from "effect/cluster"
import { RpcClient, RpcSerialization } from "effect/rpc"
import { Socket, type SocketServer } from "effect/socket"
import { lookup } from "node:dns/promises"
import { BlockList, isIPv6 } from "node:net"

export interface TransportOptions {
  /** Address to listen on, and to be reached at by the other nodes. */
  readonly host: string
  /** 0 takes a free one. */
  readonly port: number
  /** Listen on a public address all the same. */
  readonly allowPublic: boolean
}

/** The cluster transport may not, or cannot, listen there. */
export class TransportRefused extends Schema.TaggedError<TransportRefused>()("TransportRefused", {
  host: Schema.String,
  detail: Schema.String,
}) {
  override get message(): string {
    return `The cluster transport does not listen on ${this.host}: ${this.detail}`
  }
}

const privateAddresses = new BlockList()
for (
  const [net, prefix] of [
    ["127.0.0.0", 8], // loopback, RFC 1122
    ["10.0.0.0", 8], // RFC 1918
    ["172.16.0.0", 12],
    ["192.168.0.0", 16],
    ["169.254.0.0", 16], // link-local, RFC 3927
    ["100.64.0.0", 10], // shared, RFC 6598; private networks over the internet use it
  ] as const
) privateAddresses.addSubnet(net, prefix, "ipv4")
for (
  const [net, prefix] of [
    ["::1", 128], // loopback, RFC 4291
    ["fc00::", 7], // unique local, RFC 4193
    ["fe80::", 10], // link-local, RFC 4291
  ] as const
) privateAddresses.addSubnet(net, prefix, "ipv6")

/** Whether a numeric address cannot be reached from the public internet. */
export const isPrivateAddress = (address: string): boolean =>
  privateAddresses.check(address, isIPv6(address) ? "ipv6" : "ipv4")

const checkHost = ({ host, allowPublic }: TransportOptions): Effect.Effect<void, TransportRefused> =>
  allowPublic ?
    Effect.void :
    Effect.tryPromise({
      try: () => lookup(host, { all: true }),
      catch: () => new TransportRefused({ host, detail: "the name does not resolve" }),
    }).pipe(Effect.flatMap((found) => {
      const open = found.find(({ address }) => !isPrivateAddress(address))
      return open === undefined ?
        Effect.void :
        Effect.fail(
          new TransportRefused({ host, detail: `${open.address} is public, and the transport is not encrypted` }),
        )
    }))

/** Listens; what connects before the cluster is up waits. */
export const layerServer = (options: TransportOptions): Layer.Layer<SocketServer.SocketServer, TransportRefused> =>
  Layer.unwrap(
    Effect.as(checkHost(options), NodeSocketServer.layer({ host: options.host, port: options.port, noDelay: true })),
  ).pipe(Layer.catch((error) =>
    Layer.effectContext(Effect.fail(
      error._tag === "TransportRefused" ?
        error :
        new TransportRefused({ host: options.host, detail: error.message }),
    ))
  ))

/** Connects to the other runners. */
export const layerClients: Layer.Layer<Runners.RpcClientProtocol, never, RpcSerialization.RpcSerialization> = Layer
  .effect(
    Runners.RpcClientProtocol,
    Effect.gen(function*() {
      const serialization = yield* RpcSerialization.RpcSerialization
      return {
        codecFor: serialization.codecFor,
        make: Effect.fnUntraced(function*(address) {
          const socket = yield* NodeSocket.makeNet({
            openTimeout: "1 second",
            timeout: 5_500,
            noDelay: true,
            host: address.host,
            port: address.port,
          })
          return yield* RpcClient.makeProtocolSocket().pipe(
            Effect.provideService(Socket.Socket, socket),
            Effect.provideService(RpcSerialization.RpcSerialization, serialization),
          )
        }, Effect.orDie),
      }
    }),
  )
