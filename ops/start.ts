/**
 * `nightjar start`: one node in the foreground, from its settings.
 *
 * Invariants
 * 1. A bad setting or an unusable data folder ends the start with one line; everything else is waited for.
 */
import { auditQueueBytes, auditTrailLayer } from "#actors/behaviour/auth-audit-trail.ts"
import { PeerTokensLive } from "#actors/behaviour/auth-federation-tokens.ts"
import { ManagementAccessLive } from "#actors/behaviour/auth-network.ts"
import { AccessTokensLive } from "#actors/behaviour/auth-tokens.ts"
import * as CameraPublish from "#actors/behaviour/camera-publish.ts"
import * as EventSources from "#actors/behaviour/event-source.ts"
import * as Events from "#actors/behaviour/event.ts"
import { healthLayer } from "#actors/behaviour/health.ts"
import { HealthChecks } from "#actors/protocol/health.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import type { HttpReach, OwnReach } from "#cluster/members.ts"
import { LateServices } from "#http/handlers/http-late.ts"
import type { CertificateSource } from "#http/server-tls.ts"
import { serverLayer } from "#http/server.ts"
import * as Capture from "#media/capture/live.ts"
import { sourceDrivers } from "#media/drivers/registry.ts"
import * as Hls from "#media/hls/live.ts"
import * as LiveHls from "#media/live-hls/live.ts"
import { Publishers } from "#media/publish.ts"
import * as PublishersLive from "#media/publish/live.ts"
import * as Stills from "#media/still/live.ts"
import * as StorageLive from "#media/storage/live.ts"
import { defaultStorageOptions } from "#media/storage/options.ts"
import * as WebRtc from "#media/webrtc/live.ts"
import * as WebRtcViewers from "#media/webrtc/viewers.ts"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodePath from "@effect/platform-node/NodePath"
import { Effect, Layer, SubscriptionRef } from "effect"
import { HttpServer } from "effect/http"
import { readSettings, servesTls, type Settings } from "./config.ts"
import { databaseHealth } from "./control.ts"
import { buildDashboard, dashboardFolder } from "./dashboard.ts"
import { auditHealth, captureHealth, storageHealth } from "./health.ts"
import { servingCertificate } from "./host/tls.ts"
import * as Node from "./node.ts"
import { tellReach } from "./reach.ts"
import * as Rtsp from "./rtsp.ts"
import { control } from "./start-control.ts"
import * as Telemetry from "./telemetry.ts"
import { version } from "./version.ts"

/** Requests that run at shutdown have this long to end. */
const graceMs = 2_000

const storage = (settings: Settings) =>
  StorageLive.layer({
    ...defaultStorageOptions,
    folders: settings.storage,
    registryPath: `${settings.dataDir}/folders.json`,
    syncEveryMs: settings.syncIntervalMs,
    queueBytes: settings.writeQueueMiB << 20,
  })

/** (a) what captures and stores; needs no database. */
const recorder = (settings: Settings) =>
  Layer.mergeAll(
    EventSources.layer({ nodeName: settings.nodeName, toldPath: `${settings.dataDir}/told.json` }),
    Stills.layer(),
    WebRtcViewers.layer,
  ).pipe(
    Layer.provideMerge(capture(settings)),
    Layer.provideMerge(WebRtc.layer({
      interfaces: settings.webrtcInterfaces,
      httpHost: settings.httpHost,
      ports: settings.webrtcPorts,
      tcp: settings.webrtcTcp === "on",
      additionalHosts: settings.webrtcAdditionalHosts,
      iceServers: settings.iceServers,
    })),
  )

const capture = (settings: Settings) =>
  Layer.unwrap(Effect.map(Publishers, (publishers) =>
    Capture.layer({
      dataFolder: settings.dataDir,
      drivers: sourceDrivers(publishers),
      session: { drainEveryMs: settings.drainMs },
      recorder: { rotateMs: settings.fileMinutes * 60_000 },
    }))).pipe(
      Layer.provideMerge(PublishersLive.layer),
      Layer.provideMerge(Events.layer(`${settings.dataDir}/events`)),
      Layer.provideMerge(storage(settings)),
      Layer.provideMerge(auditTrailLayer({ folder: `${settings.dataDir}/audit-queue`, maxBytes: auditQueueBytes })),
      Layer.provideMerge(Layer.mergeAll(AccessTokensLive, PeerTokensLive, ManagementAccessLive)),
      Layer.provide(NodePath.layer),
    )

/** Each component's word about itself, for `/health/detailed`. */
const reporters = Layer.effectDiscard(Effect.gen(function*() {
  const health = yield* HealthChecks
  yield* health.register(yield* databaseHealth)
  yield* health.register(yield* storageHealth)
  yield* health.register(yield* captureHealth)
  yield* health.register(yield* auditHealth)
}))

/** What HTTPS is served with; its fingerprint is what a person compares when a browser asks whether to trust it. */
const certificate = Effect.fnUntraced(function*(settings: Settings) {
  const { dataDir: dataFolder, httpHost: host, tlsCertificate, tlsKey } = settings
  const files = tlsCertificate === "" ? null : { certificate: tlsCertificate, privateKey: tlsKey }
  const source = yield* servingCertificate({ dataFolder, host, files })
  const { fingerprint } = yield* SubscriptionRef.get(source)
  yield* Effect.logInfo(`The certificate of this node has the SHA-256 fingerprint ${fingerprint}`)
  return source
})

/** (b) what serves from the first second. */
const http = (settings: Settings, reach: OwnReach) => {
  const health = Layer.unwrap(
    Effect.map(NodeIdentity, ({ nodeId }) =>
      healthLayer({ version: "1", releaseId: version, serviceId: nodeId, description: settings.nodeName })),
  )
  const server = (tls: CertificateSource | null) =>
    Layer.effectDiscard(tellReach(settings, reach, tls)).pipe(Layer.provideMerge(serverLayer({
      host: settings.httpHost,
      port: settings.httpPort,
      tls,
      corsOrigins: settings.corsOrigins,
      trustedProxies: settings.trustedProxies,
      dashboard: dashboardFolder,
      graceMs,
      requestTimeoutMs: settings.requestTimeoutMs,
      maxBodyBytes: settings.maxBodyBytes,
    })))
  const served = Layer.unwrap(Effect.map(servesTls(settings) ? certificate(settings) : Effect.succeed(null), server))
  return served.pipe(
    Layer.provideMerge(reporters),
    Layer.provide(Layer.mergeAll(Rtsp.layer(settings), CameraPublish.layer).pipe(Layer.provideMerge(LateServices))),
    Layer.provide([Hls.layer, LiveHls.layer]),
    Layer.provideMerge(health),
  )
}

const ready = (settings: Settings) =>
  Effect.gen(function*() {
    const { address } = yield* HttpServer.HttpServer
    const port = address._tag === "UnixPathAddress" ? settings.httpPort : address.port
    yield* Effect.logInfo(
      `Nightjar ${version} serves ${
        servesTls(settings) ? "https" : "http"
      }://${settings.httpHost}:${port} (data in ${settings.dataDir})`,
    )
  })

const nodeOf = (settings: Settings, reach: OwnReach) =>
  Node.layer({
    dataFolder: settings.dataDir,
    name: settings.nodeName,
    masterKey: settings.masterKey,
    databaseUrl: settings.databaseUrl,
    cluster: {
      host: settings.clusterHost,
      port: settings.clusterPort,
      joinSecret: settings.clusterSecret,
      version,
      reach,
    },
  }, { recorder: recorder(settings), control: control(settings, reach), http: http(settings, reach) })

/** The whole node. */
export const nodeLayer = (settings: Settings) =>
  Layer.effectDiscard(ready(settings)).pipe(
    Layer.provideMerge(Layer.unwrap(Effect.map(SubscriptionRef.make<HttpReach | null>(null), (reach) =>
      nodeOf(settings, reach)))),
    Layer.provide(NodeFileSystem.layer),
  )

/** A stale dashboard is built while the node already records. */
const dashboard = buildDashboard.pipe(
  Effect.tap((done) => done === "built" ? Effect.logInfo("The dashboard was built") : Effect.void),
  Effect.catch((error) => Effect.logWarning(error.message)),
)

/** Runs a node until it is interrupted. */
export const start = Effect.gen(function*() {
  const settings = yield* readSettings()
  return yield* Layer.launch(
    Layer.effectDiscard(Effect.forkScoped(dashboard)).pipe(
      Layer.provideMerge(nodeLayer(settings)),
      Layer.provide(Telemetry.layer(settings)),
    ),
  )
})
