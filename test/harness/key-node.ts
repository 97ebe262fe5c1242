/**
 * The part of a node that renews its master key, as a process that a test may kill: it rotates again and again, and says so.
 *
 *     node key-node.ts <data folder> <database url>
 */
import { masterKeyLayer } from "#actors/behaviour/auth-vault.ts"
import { MasterKeyRenewal } from "#actors/protocol/auth-vault.ts"
import * as Identity from "#cluster/identity.ts"
import * as Vaults from "#cluster/vault.ts"
import * as Database from "#ops/database.ts"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { Console, Effect, Layer, Logger, Redacted } from "effect"

const [dataFolder = "", url = ""] = process.argv.slice(2)

const rotating = Effect.gen(function*() {
  const renewal = yield* MasterKeyRenewal
  yield* Console.log("up")
  while (true) {
    // What a process before this one left undone comes first.
    while ((yield* renewal.state()).state !== "settled") yield* Effect.sleep("20 millis")
    yield* Console.log(`settled ${(yield* renewal.rotate()).keyId}`)
  }
})

await rotating.pipe(
  Effect.provide(
    masterKeyLayer(Effect.map(Identity.sealedIdentity(dataFolder), (file) => ({ files: [file], settle: "50 millis" })))
      .pipe(
        Layer.provide(Identity.layer({ dataFolder })),
        Layer.provide(Database.layer({ url: Redacted.make(url), applicationName: "keys", maxConnections: 3 })),
        Layer.provide(Vaults.layer({ dataFolder, masterKey: null })),
        Layer.provide(NodeFileSystem.layer),
      ),
  ),
  Effect.provide(Logger.layer([])),
  Effect.runPromise,
)
