/**
 * The process whose CPU `live.ts` reads: one stream of 4 Mbit/s (25 pictures a second, groups of 50), made up, and the RTSP server
 * for it. Prints its port; ends with its input.
 */
import { makeStreamHub } from "#media/capture/hub.ts"
import { LiveStreams } from "#media/hub.ts"
import { RtspGate, RtspRefused, RtspServer, RtspTalkRefused } from "#media/rtsp-server.ts"
import { layer } from "#media/rtsp-server/live.ts"
import type { AccessUnit } from "#schema/media.ts"
import { Effect, Layer, Logger } from "effect"
import { camera } from "../media/access-units.ts"
import { temporaryStorage } from "../media/recorded.ts"

const pictureMs = 40
const groupPictures = 50
const keyBytes = 100_000
const otherBytes = Math.round((4_000_000 / 8 * groupPictures * pictureMs / 1000 - keyBytes) / (groupPictures - 1))

const slice = (type: number, bytes: number): Uint8Array => {
  const data = Buffer.alloc(4 + bytes, 0xa5)
  data.writeUInt32BE(bytes, 0)
  data[4] = type
  return data
}
const key = slice(0x65, keyBytes)
const other = slice(0x41, otherBytes)

const { parameters } = camera({ video: "main-640x360-25.h264", seconds: 1, startMs: 0 })
const hub = makeStreamHub(() => {})
hub.parameters(parameters)

let picture = 0
setInterval(() => {
  const isKey = picture % groupPictures === 0
  const unit: AccessUnit = {
    track: "video",
    data: isKey ? key : other,
    key: isKey,
    ticks: picture * 3600,
    durationTicks: 0,
    arrivalMs: Date.now(),
    senderMs: null,
  }
  picture++
  hub.unit(unit)
}, pictureMs)

const live = Layer.succeed(
  LiveStreams,
  LiveStreams.of({
    watch: (_id, bounds) =>
      Effect.map(
        Effect.acquireRelease(Effect.sync(() => hub.join(bounds)), ({ leave }) => Effect.sync(leave)),
        ({ view }) => view,
      ),
  }),
)
const gate = Layer.succeed(
  RtspGate,
  RtspGate.of({
    enter: () => Effect.succeed({ holder: "bench", recordingId: null }),
    replay: () => Effect.fail(new RtspRefused()),
    recordingOf: () => Effect.succeed(null),
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
