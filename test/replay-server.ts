/** A node's HTTP floor on a free port of this machine over what was recorded, for foreign players. */
import { serverLayer } from "#http/server.ts"
import { Storage } from "#media/storage.ts"
import { Effect, Layer, Logger } from "effect"
import { HttpServer } from "effect/http"
import { memoryIdempotency, namedTokens, noAuth, serverOptions, testHealth, unaskedServices } from "./http-fixtures.ts"
import { record, type Recorded, type Run, temporaryStorage } from "./media/recorded.ts"
import { replayServices } from "./replay-fixtures.ts"

const t0 = Date.parse("2026-03-01T12:00:00.000Z")

/** Records these runs, opens a session over all of them; `use` gets the URL of its master playlist. */
export const serving = <A>(
  runs: ReadonlyArray<Run>,
  speed: number,
  use: (master: string, footage: Recorded) => Promise<A>,
) =>
  Effect.gen(function*() {
    const storage = yield* Storage
    const footage = yield* record(storage, t0, runs)
    const built = yield* replayServices(storage, footage)
    const server = yield* Layer.build(
      serverLayer(serverOptions).pipe(
        Layer.provide(Layer.succeedContext(built)),
        Layer.provide([namedTokens, noAuth, memoryIdempotency, testHealth, unaskedServices]),
      ),
    )
    const { address } = yield* HttpServer.HttpServer.pipe(Effect.provideContext(server))
    if (address._tag === "UnixPathAddress") throw new Error("not on TCP")
    const base = `http://127.0.0.1:${address.port}`
    return yield* Effect.promise(async () => {
      const response = await fetch(`${base}/replay/api/v1/replay/uri`, {
        method: "POST",
        headers: { "content-type": "application/json", authorization: "Bearer viewer" },
        body: JSON.stringify({
          recordingToken: footage.identity.recordingToken,
          start: new Date(footage.startMs).toISOString(),
          end: new Date(footage.endMs).toISOString(),
          speed,
        }),
      })
      const { uri } = await response.json() as { uri: string }
      return use(base + uri, footage)
    })
  }).pipe(Effect.scoped, Effect.provide(temporaryStorage), Effect.provide(Logger.layer([])))
