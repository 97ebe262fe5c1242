/**
 * The HTTP server of a node: every group of the contract, the reference, the dashboard, on one host and port.
 *
 * Invariants
 * 1. It needs no database to start: services that do are asked for late, and answer 503 until they are there.
 * 2. Bounds: {@link maxConnections} connections, 16 KiB of request head in {@link headSeconds}, a JSON body of `maxBodyBytes`,
 *    a request of `requestTimeoutMs` unless it streams.
 * 3. On shutdown it takes no new connection, lets running requests end for `graceMs`, then cuts the rest.
 */
import { AuditTrail } from "#actors/protocol/auth-audit.ts"
import { networkOf } from "#schema/auth-network.ts"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { ByteSize, Duration, Effect, Layer, SubscriptionRef } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { HttpApiBuilder, HttpApiScalar, OpenApi } from "effect/http-api"
import { createServer, type Server } from "node:http"
import { Api } from "./contract/api.ts"
import { AccessControlLive } from "./handlers/http-access.ts"
import { AllHandlers } from "./handlers/http-all.ts"
import { type ConventionOptions, conventionsLayer } from "./handlers/http-conventions.ts"
import { around } from "./server-requests.ts"
import { type CertificateSource, ServedFingerprint, tlsServer } from "./server-tls.ts"
import { makeUnrouted } from "./server-unrouted.ts"

export interface ServerOptions extends ConventionOptions {
  readonly host: string
  /** Networks (CIDR) of the reverse proxies whose word on the caller counts. */
  readonly trustedProxies: ReadonlyArray<string>
  /** 0 takes a free one. */
  readonly port: number
  /** What HTTPS is served with; `null` serves clear text. */
  readonly tls: CertificateSource | null
  /** Origins whose pages may use the interface from a browser. */
  readonly corsOrigins: ReadonlyArray<string>
  /** Folder of the built dashboard; `null` for none. */
  readonly dashboard: string | null
  /** Milliseconds that running requests have to end at shutdown. */
  readonly graceMs: number
}

/** Two browsers of 16 tiles keep about 40; a wall of players a few hundred. */
const maxConnections = 4096
const headSeconds = 20
/** Longer than the 60 s that reverse proxies keep theirs. */
const keepAliveSeconds = 65

const nodeServer = Effect.fnUntraced(function*(tls: CertificateSource | null) {
  const bounds = {
    maxHeaderSize: 16 * 1024,
    headersTimeout: headSeconds * 1000,
    keepAliveTimeout: keepAliveSeconds * 1000,
    // Streams and uploads may last; what does not stream is limited by the conventions.
    requestTimeout: 0,
    noDelay: true,
  }
  const server = tls === null ? createServer(bounds) : yield* tlsServer(bounds, tls)
  server.maxConnections = maxConnections
  return server
})

/** Connections that are still open when the grace is over must not hold up the end of the node. */
const cutAfterGrace = (server: Server) => Effect.addFinalizer(() => Effect.sync(() => server.closeAllConnections()))

const listening = (options: ServerOptions) =>
  Layer.unwrap(Effect.gen(function*() {
    const server = yield* nodeServer(options.tls)
    const listen = {
      host: options.host,
      port: options.port,
      gracefulShutdownTimeout: Duration.millis(options.graceMs),
      // Clients send words about themselves, never data.
      websocket: { maxPayload: maxMessageBytes },
    }
    return Layer.provideMerge(Layer.effectDiscard(cutAfterGrace(server)), NodeHttpServer.layer(() => server, listen))
  }))

/** A token and what is asked for, with room to spare. */
const maxMessageBytes = 16 * 1024

/** The reference loads no fonts and offers nothing that lives on its maker's servers. */
const offline = {
  withDefaultFonts: false,
  showDeveloperTools: "never",
  telemetry: false,
  agent: { disabled: true },
  mcp: { disabled: true },
}

const escaped = (text: string) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;")

/** One paragraph a problem code: what `type` of a problem document points to. */
const problemsPage = () => {
  const schemas = OpenApi.fromApi(Api).components.schemas
  const known = Object.values(schemas).flatMap((schema) => {
    const members =
      (schema as { readonly properties?: Record<string, { readonly enum?: ReadonlyArray<unknown> }> }).properties
    const code = members?.["code"]?.enum?.[0]
    const status = members?.["status"]?.enum?.[0]
    return typeof code === "string" ? [{ code, status: String(status ?? "") }] : []
  }).toSorted((a, b) => (a.code < b.code ? -1 : 1))
  const entries = known.map(({ code, status }) =>
    `<h2 id="${escaped(code)}">${escaped(code)}</h2><p>HTTP ${escaped(status)}</p>`
  )
  return HttpServerResponse.html(
    `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Problems</title></head><body><h1>Problems</h1>${
      entries.join("")
    }</body></html>`,
  )
}

const reference = Layer.mergeAll(
  HttpApiScalar.layer(Api, { path: "/docs", scalar: offline }),
  HttpRouter.add("GET", "/docs/problems", Effect.sync(problemsPage)),
)

const fingerprintLayer = (tls: CertificateSource | null) =>
  Layer.succeed(
    ServedFingerprint,
    tls === null ? Effect.succeed(null) : Effect.map(SubscriptionRef.get(tls), ({ fingerprint }) => fingerprint),
  )

/** Routes and what surrounds them, for any server or none. */
export const routes = (options: ServerOptions) =>
  Layer.mergeAll(
    HttpApiBuilder.layer(Api, { openapiPath: "/openapi.json" }),
    reference,
    HttpRouter.use((router) =>
      Effect.flatMap(Effect.all([makeUnrouted(options.dashboard), AuditTrail]), ([unrouted, trail]) =>
        router.addGlobalMiddleware(around({
          trail,
          unrouted,
          maxBodyBytes: ByteSize.bytes(options.maxBodyBytes),
          corsOrigins: options.corsOrigins,
          trustedProxies: options.trustedProxies.map(networkOf).filter((network) => network !== null),
        })))
    ),
  ).pipe(
    Layer.provide(AllHandlers),
    Layer.provide(fingerprintLayer(options.tls)),
    Layer.provide(AccessControlLive),
    Layer.provide(conventionsLayer(options)),
  )

/** The server. Provides `HttpServer`, which knows the address it listens on. */
export const serverLayer = (options: ServerOptions) =>
  HttpRouter.serve(routes(options), {
    disableLogger: true,
    disableListenLog: true,
    routerConfig: { maxParamLength: 2048 },
  }).pipe(Layer.provideMerge(listening(options)))
