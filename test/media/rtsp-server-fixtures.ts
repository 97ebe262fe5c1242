/** An RTSP server over streams that a test feeds, and a player that shares no code with it. */
import { makeStreamHub, type StreamHub } from "#media/capture/hub.ts"
import { LiveStreams } from "#media/hub.ts"
import { RtspGate, type RtspRefusal, RtspRefused, RtspServer, RtspTalkRefused } from "#media/rtsp-server.ts"
import { layer, type RtspServerOptions } from "#media/rtsp-server/live.ts"
import { Storage } from "#media/storage.ts"
import type { RecordingId, StreamId } from "#schema/common.ts"
import { Viewer } from "#test/camera-simulator/viewer.ts"
import { assert } from "@effect/vitest"
import { Context, Effect, Layer, Redacted } from "effect"
import { camera, type CameraOptions } from "./access-units.ts"
import { identityOf } from "./made-up-files.ts"
import { temporaryStorage } from "./recorded.ts"

export const streamId = "01900000-0000-7000-8000-0000000000aa" as StreamId
export const unknownId = "01900000-0000-7000-8000-0000000000bb" as StreamId
export const token = "a.good-token_1"

export interface Stage {
  readonly server: RtspServer["Service"]
  readonly hub: StreamHub
  /** `rtsp://127.0.0.1:<port>/live/<id>`. */
  readonly url: string
  readonly port: number
  /** What was given by a token holds as long as this says so. */
  readonly gate: { holds: boolean; down: boolean }
  readonly storage: Storage["Service"]
  readonly refusals: ReadonlyArray<RtspRefusal>
}

/** Lets everybody in who shows {@link token}, to the recording too. */
export const gateOf = (
  recordingId: RecordingId,
  refusals: Array<RtspRefusal> = [],
  holds = () => true,
  talk: RtspGate["Service"]["talk"] = () => Effect.fail(new RtspTalkRefused({ reason: "unsupported" })),
  elsewhere: RtspGate["Service"]["elsewhere"] = () => Effect.succeed(null),
) =>
  Layer.succeed(
    RtspGate,
    RtspGate.of({
      enter: (_id, given) =>
        Redacted.value(given) === token ?
          Effect.succeed({ holder: "session 1", recordingId: null }) :
          Effect.fail(new RtspRefused()),
      replay: (_token, given) =>
        Redacted.value(given) === token ?
          Effect.succeed({ holder: "session 1", recordingId }) :
          Effect.fail(new RtspRefused()),
      recordingOf: () => Effect.succeed(recordingId),
      elsewhere,
      talk,
      refused: (refusal) => Effect.sync(() => refusals.push(refusal)),
      holds: () => Effect.sync(holds),
    }),
  )

/** Looks every 10 ms, up to 15 s. */
export const until = (what: string, look: () => boolean): Effect.Effect<void> =>
  Effect.gen(function*() {
    for (let i = 0; i < 1500; i++) {
      if (look()) return
      yield* Effect.sleep(10)
    }
    return yield* Effect.die(new Error(`waited in vain for: ${what}`))
  })

export const stage = Effect.fnUntraced(
  function*(
    options: Partial<RtspServerOptions> = {},
    talk?: RtspGate["Service"]["talk"],
    elsewhere?: RtspGate["Service"]["elsewhere"],
  ) {
    const hub = makeStreamHub(() => {})
    const gate = { holds: true, down: false }
    const live = Layer.succeed(
      LiveStreams,
      LiveStreams.of({
        parameters: () => hub.newestParameters(),
        watch: (id, bounds) =>
          id !== streamId ?
            Effect.succeed(null) :
            Effect.map(
              Effect.acquireRelease(Effect.sync(() => hub.join(bounds)), ({ leave }) => Effect.sync(leave)),
              ({ view }) => view,
            ),
      }),
    )
    const refusals: Array<RtspRefusal> = []
    const context = yield* Layer.build(
      layer({ host: "127.0.0.1", port: 0, account: null, ...options }).pipe(
        Layer.provideMerge(temporaryStorage),
        Layer.provide([
          live,
          gateOf(
            identityOf(1).recordingId,
            refusals,
            () => gate.holds,
            talk,
            elsewhere,
          ),
        ]),
      ),
    )
    const storage = Context.get(context, Storage)
    const server = Context.get(context, RtspServer)
    yield* until("a port", () => server.port() !== null)
    const port = server.port()!
    return {
      server,
      hub,
      url: `rtsp://127.0.0.1:${port}/live/${streamId}`,
      port,
      gate,
      storage,
      refusals,
    } satisfies Stage
  },
)

/** A player of a recorded interval, ready for PLAY, with these tracks interleaved. */
export const dialled = Effect.fnUntraced(function*(port: number, query = "", tracks: ReadonlyArray<number> = [0]) {
  const url = `rtsp://127.0.0.1:${port}/recording/${identityOf(1).recordingToken}?token=${token}${query}`
  const viewer = yield* Effect.acquireRelease(
    Effect.promise(() => Viewer.connect(url, null)),
    (one) => Effect.sync(() => one.close()),
  )
  const ask = (method: string, headers: ReadonlyArray<string> = [], at = url) =>
    Effect.map(Effect.promise(() => viewer.ask(method, at, headers)), (reply) => reply!)
  const described = yield* ask("DESCRIBE")
  assert.strictEqual(described.status, 200)
  const base = described.headers.get("content-base")!
  for (const track of tracks) {
    const transport = `Transport: RTP/AVP/TCP;unicast;interleaved=${track * 2}-${track * 2 + 1}`
    assert.strictEqual((yield* ask("SETUP", [transport], `${base}trackID=${track}`)).status, 200)
  }
  return { viewer, ask, base, described }
})

/** Feeds footage: the first `count` units at once. */
export const footage = (options: Partial<CameraOptions> = {}) =>
  camera({ video: "main-640x360-25.h264", audio: "tone-16000.aac", seconds: 4, startMs: 1_795_000_000_000, ...options })
