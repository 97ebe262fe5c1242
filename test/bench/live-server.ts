/**
 * The process whose CPU `live.ts` reads: one stream of 4 Mbit/s (`live-stream.ts`) and the RTSP server for it. Prints its port; ends
 * with its input.
 */
import { RtspGate, RtspRefused, RtspServer, RtspTalkRefused } from "#media/rtsp-server.ts"
import { layer } from "#media/rtsp-server/live.ts"
import { Effect, Layer, Logger } from "effect"
import { temporaryStorage } from "../media/recorded.ts"
import { playedStreams } from "./live-stream.ts"

const live = playedStreams()
const gate = Layer.succeed(
  RtspGate,
  RtspGate.of({
    enter: () => Effect.succeed({ holder: "bench", recordingId: null }),
    replay: () => Effect.fail(new RtspRefused()),
    recordingOf: () => Effect.succeed(null),
    elsewhere: () => Effect.succeed(null),
    talk: () => Effect.fail(new RtspTalkRefused({ reason: "unsupported" })),
    refused: () => Effect.void,
    holds: () => Effect.succeed(true),
  }),
)
const program = Effect.gen(function*() {
  const server = yield* RtspServer
  while (server.port() === null) yield* Effect.sleep(10)
  process.stdout.write(`${server.port()}\n`)
  return yield* Effect.never
}).pipe(
  Effect.provide(
    layer({ host: "127.0.0.1", port: 0, account: null }).pipe(Layer.provide([live, gate, temporaryStorage])),
  ),
  Effect.provide(Logger.layer([])),
)
process.stdin.resume().on("end", () => process.exit(0))
void Effect.runPromise(program)
