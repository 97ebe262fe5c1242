/**
 * The node of `playlist.ts`: storage, HLS, replay and HTTP as a node has them, over footage that is there, in a process of its own.
 * Tells its address and a session for each interval it is asked for; answers `cpu` with what it has used.
 */
import { serverLayer } from "#http/server.ts"
import { Storage } from "#media/storage.ts"
import { defaultStorageOptions, layer as storageLayer } from "#media/storage/live.ts"
import { identityOf } from "#test/media/made-up-files.ts"
import { Effect, Layer, Logger } from "effect"
import { HttpServer } from "effect/http"
import { join } from "node:path"
import { memoryIdempotency, namedTokens, noAuth, serverOptions, testHealth, unaskedServices } from "../http-fixtures.ts"
import { replayServices } from "../replay-fixtures.ts"

const [root = ""] = process.argv.slice(2)

const program = Effect.gen(function*() {
  const storage = yield* Storage
  const identity = identityOf(1)
  const files = storage.files(identity.recordingId, { start: 0, end: Number.MAX_SAFE_INTEGER })
  const footage = { identity, files, startMs: files[0]!.startMs, endMs: files.at(-1)!.endMs, pictures: 0 }
  const built = yield* replayServices(storage, footage)
  const server = yield* Layer.build(
    serverLayer(serverOptions).pipe(
      Layer.provide(Layer.succeedContext(built)),
      Layer.provide([namedTokens, noAuth, memoryIdempotency, testHealth, unaskedServices]),
    ),
  )
  const { address } = yield* HttpServer.HttpServer.pipe(Effect.provideContext(server))
  if (address._tag === "UnixPathAddress") throw new Error("not on TCP")
  process.on("message", () => {
    const { system, user } = process.cpuUsage()
    process.send!({ cpuMs: (system + user) / 1000 })
  })
  process.send!({ port: address.port, recordingToken: identity.recordingToken })
  return yield* Effect.never
}).pipe(
  Effect.scoped,
  Effect.provide(storageLayer({
    ...defaultStorageOptions,
    folders: [{ name: "main", path: join(root, "main"), floorBytes: 0 }],
    registryPath: join(root, "folders.json"),
  })),
  Effect.provide(Logger.layer([])),
)

process.on("disconnect", () => process.exit(0))
await Effect.runPromise(program)
