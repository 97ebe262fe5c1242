/** Capture and storage on a real folder, without anything else of the product; for tests and for the process that is killed. */
import { layer as captureLayer } from "#media/capture/live.ts"
import { sourceDrivers } from "#media/drivers/registry.ts"
import { makePublishers } from "#media/publish/live.ts"
import type { Assignment } from "#media/recorder.ts"
import { defaultStorageOptions, layer as storageLayer } from "#media/storage/live.ts"
import { Vault } from "#schema/vault.ts"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Effect, Layer, Redacted } from "effect"
import { join } from "node:path"
import { assignment } from "./capture-harness.ts"

/** Reversible, and not the password itself. */
const vault = Layer.succeed(
  Vault,
  Vault.of({
    seal: (_context, secret) => Effect.succeed(Buffer.from(Redacted.value(secret)).toString("hex")),
    open: (_context, sealed) => Effect.succeed(Redacted.make(Buffer.from(sealed, "hex").toString())),
  }),
)

export const storageOf = (root: string) =>
  storageLayer({
    ...defaultStorageOptions,
    folders: [{ name: "main", path: join(root, "footage"), floorBytes: 0 }],
    registryPath: join(root, "folders.json"),
  })

export const nodeOf = (root: string, rotateMs = 600_000) =>
  captureLayer({ dataFolder: join(root, "data"), drivers: sourceDrivers(makePublishers()), recorder: { rotateMs } })
    .pipe(Layer.provideMerge(storageOf(root)), Layer.provide([vault, NodeServices.layer]))

/** The simulated camera's own login. */
export const cameraAt = (url: string, change: Partial<Assignment> = {}): Assignment =>
  assignment({ url, username: "admin", password: Redacted.make("swordfish"), ...change })
