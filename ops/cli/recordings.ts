/** `nightjar recordings` and `nightjar replay-url`. */
import { RecordingToken } from "#schema/common.ts"
import { Clock, Console, Effect, Option } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { withNode } from "./client.ts"
import { jsonFlag, print } from "./output.ts"

const list = Command.make("list", { json: jsonFlag }, ({ json }) =>
  withNode((client) =>
    Effect.gen(function*() {
      const { items } = yield* client.record.recordings({ query: { limit: 500 } })
      const { items: known } = yield* client.camera.cameras({ query: { limit: 500 } })
      const rows = items.map((recording) => ({
        token: recording.recordingToken,
        camera: known.find((camera) => camera.id === recording.cameraId)?.name ?? recording.cameraId,
        role: recording.role,
        state: recording.state,
        days: recording.retentionDays,
        reason: recording.reason,
      }))
      yield* print(json, items, rows, "Nothing is recorded: nightjar cameras add NAME RTSP-ADDRESS --record")
    })
  )).pipe(Command.withDescription("List recordings with their state"))

export const recordings = Command.make("recordings").pipe(
  Command.withDescription("Recordings of the node"),
  Command.withSubcommands([list]),
)

const minuteMs = 60_000

export const replayUrl = Command.make("replay-url", {
  token: Argument.String("token").pipe(
    Argument.withDescription("Recording token, from: nightjar recordings list"),
    Argument.withSchema(RecordingToken),
  ),
  start: Flag.Date("start").pipe(
    Flag.withDescription("First moment, RFC 3339; a minute ago if left out"),
    Flag.optional,
  ),
  end: Flag.Date("end").pipe(Flag.withDescription("Last moment; growing if left out"), Flag.optional),
  json: jsonFlag,
}, ({ end, json, start, token }) =>
  withNode((client, address) =>
    Effect.gen(function*() {
      const now = yield* Clock.currentTimeMillis
      const from = Option.match(start, { onNone: () => now - minuteMs, onSome: (date) => date.getTime() })
      const { body } = yield* client.replay.uri({
        headers: {},
        payload: { recordingToken: token, start: from, ...(Option.isSome(end) ? { end: end.value.getTime() } : {}) },
      })
      yield* Console.log(json ? JSON.stringify({ ...body, url: address + body.uri }, null, 2) : address + body.uri)
    })
  )).pipe(Command.withDescription("Make an HLS address that any player opens"))
