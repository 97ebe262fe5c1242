/** The control layer of a node on a real PostgreSQL, with stand-ins for the media doors, for tests. */
import * as CameraActivation from "#actors/behaviour/camera-activation.ts"
import * as CameraBundling from "#actors/behaviour/camera-bundle.ts"
import * as CameraEntity from "#actors/behaviour/camera-entity.ts"
import * as CameraRecovery from "#actors/behaviour/camera-recovery.ts"
import * as CameraStates from "#actors/behaviour/camera-status.ts"
import * as CameraBehaviour from "#actors/behaviour/camera.ts"
import * as RecordBundling from "#actors/behaviour/record-bundle.ts"
import * as RecordEntity from "#actors/behaviour/record-entity.ts"
import * as RecordIndex from "#actors/behaviour/record-index.ts"
import * as RecordLedgerBehaviour from "#actors/behaviour/record-ledger.ts"
import * as RecordPlans from "#actors/behaviour/record-plan.ts"
import * as RecordStates from "#actors/behaviour/record-status.ts"
import * as RecordBehaviour from "#actors/behaviour/record.ts"
import { Cameras } from "#actors/protocol/camera.ts"
import { Events } from "#actors/protocol/event.ts"
import { CaptureHolds } from "#actors/protocol/federation-hold.ts"
import { IndexRebuilds, Recordings, RecordLedger } from "#actors/protocol/record.ts"
import { CameraBundleStore } from "#actors/store/camera-bundle.ts"
import { CameraStore } from "#actors/store/camera.ts"
import { RecordBundleStore } from "#actors/store/record-bundle.ts"
import { RecordLedgerStore } from "#actors/store/record-ledger.ts"
import { RecordRebuildStore } from "#actors/store/record-rebuild.ts"
import { RecordStore } from "#actors/store/record.ts"
import * as Identity from "#cluster/identity.ts"
import { Ownership } from "#cluster/ownership.ts"
import * as Cluster from "#cluster/sharding.ts"
import * as Vaults from "#cluster/vault.ts"
import { DeviceDrivers } from "#media/device.ts"
import { deviceDrivers } from "#media/drivers/registry.ts"
import * as Database from "#ops/database.ts"
import { EmbeddedPostgres } from "#ops/host/postgres.ts"
import { transportCertificate } from "#ops/node.ts"
import type { CameraCreate } from "#schema/camera.ts"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { Context, Effect, Exit, Layer, Redacted, Schedule, Scope } from "effect"
import { SqlClient } from "effect/sql"
import { mkdirSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { postgresLayer } from "./harness/postgres.ts"
import type { FakeMedia } from "./record-fixtures.ts"

export const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "nightjar-record-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true })),
)

/** A server that can be stopped and started again at the same address. */
export const server = Effect.gen(function*() {
  const dataFolder = yield* folder
  let scope: Scope.Closeable | null = null
  const start = Effect.gen(function*() {
    scope = yield* Scope.make()
    const context = yield* Layer.buildWithScope(
      postgresLayer({ dataFolder, copies: join(dataFolder, "copies") }),
      scope,
    )
    return yield* Context.get(context, EmbeddedPostgres).url
  })
  const stop = Effect.suspend(() => scope === null ? Effect.void : Scope.close(scope, Exit.void)).pipe(
    Effect.tap(Effect.sync(() => scope = null)),
  )
  yield* Effect.addFinalizer(() => stop)
  return { start, stop }
})

/** The control layer of a node. */
export const node = Effect.fnUntraced(function*(options: {
  readonly url: Redacted.Redacted
  readonly dataFolder: string
  readonly media: FakeMedia
  readonly quiet?: boolean
}) {
  mkdirSync(options.dataFolder, { recursive: true })
  const background = options.quiet === true ?
    Layer.mergeAll(CameraEntity.layer, RecordEntity.layer) :
    Layer.mergeAll(
      CameraEntity.layer,
      RecordEntity.layer,
      CameraActivation.layer.pipe(Layer.provide(CaptureHolds.layer)),
      CameraStates.layer,
      RecordStates.layer,
    )
  const services = background.pipe(
    Layer.provideMerge(Layer.mergeAll(CameraBundling.layer, RecordBundling.layer)),
    Layer.provideMerge(RecordBehaviour.layer),
    Layer.provideMerge(CameraBehaviour.layer.pipe(Layer.provide(Layer.succeed(DeviceDrivers, deviceDrivers)))),
    Layer.provideMerge(RecordIndex.layer),
    Layer.provideMerge(Layer.mergeAll(RecordPlans.layer, RecordLedgerBehaviour.layer)),
    Layer.provideMerge(CameraRecovery.layer),
    Layer.provideMerge(
      Layer.mergeAll(
        CameraStore.layer,
        CameraBundleStore.layer,
        RecordStore.layer,
        RecordBundleStore.layer,
        RecordLedgerStore.layer,
        RecordRebuildStore.layer,
      ),
    ),
    Layer.provideMerge(Cluster.layer({
      name: "test",
      host: "127.0.0.1",
      port: 0,
      dataFolder: options.dataFolder,
      joinSecret: null,
      certificate: transportCertificate,
    })),
    Layer.provideMerge(Database.layer({ url: options.url, applicationName: "test", maxConnections: 8 })),
    Layer.provideMerge(Layer.succeed(Events, { publish: () => Effect.void })),
    Layer.provideMerge(options.media.layer),
    Layer.provideMerge(Identity.layer({ dataFolder: options.dataFolder })),
    Layer.provideMerge(Vaults.layer({ dataFolder: options.dataFolder, masterKey: null })),
    Layer.provide(NodeFileSystem.layer),
  )
  const scope = yield* Scope.make()
  yield* Effect.addFinalizer(() => Scope.close(scope, Exit.void))
  const context = yield* Layer.buildWithScope(services, scope)
  return {
    context,
    cameras: Context.get(context, Cameras),
    recordings: Context.get(context, Recordings),
    ledger: Context.get(context, RecordLedger),
    rebuilds: Context.get(context, IndexRebuilds),
    ownership: Context.get(context, Ownership),
    sql: Context.get(context, SqlClient.SqlClient),
    end: Scope.close(scope, Exit.void),
  }
})

export const eventually = <A, E, R>(what: string, effect: Effect.Effect<A, E, R>, holds: (value: A) => boolean) =>
  effect.pipe(
    Effect.repeat({ schedule: Schedule.spaced("50 millis"), until: holds }),
    Effect.timeoutOrElse({ duration: "30 seconds", orElse: () => Effect.die(new Error(`never came: ${what}`)) }),
  )

export const front: CameraCreate = {
  name: "Front door",
  driver: "rtsp",
  username: "admin",
  password: Redacted.make("camera secret"),
  streams: [
    { role: "main", sourceUrl: "rtsp://camera.example:8554/main" },
    { role: "sub", sourceUrl: "rtsp://viewer:p%40ss@camera.example:8554/sub" },
  ],
}
export const firstPage = { limit: 100, cursor: null }
