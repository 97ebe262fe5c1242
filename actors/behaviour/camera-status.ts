/** Writes what the recorder supervisor observes of streams (health, reason, codec, size) to the database. */
import type { Observation } from "#actors/store/camera-rows.ts"
import { CameraStore } from "#actors/store/camera.ts"
import { RecorderSupervisor, type StreamStatus } from "#media/recorder.ts"
import { Effect, Layer } from "effect"
import { writeObserved } from "./observed.ts"

const observationOf = (status: StreamStatus): Observation => ({
  streamId: status.streamId,
  status: status.health,
  reason: status.reason,
  codec: status.parameters?.video.codec ?? null,
  width: status.parameters?.video.width ?? null,
  height: status.parameters?.video.height ?? null,
  audioCodec: status.parameters?.audio?.codec ?? null,
})

const markOf = (seen: Observation): string =>
  [seen.status, seen.reason, seen.codec, seen.width, seen.height, seen.audioCodec].join("\u0000")

export const layer = Layer.effectDiscard(Effect.gen(function*() {
  const [supervisor, store] = yield* Effect.all([RecorderSupervisor, CameraStore])
  yield* writeObserved<Observation>({
    what: "cameras",
    seen: Effect.sync(() => supervisor.statuses().map(observationOf)),
    idOf: (seen) => seen.streamId,
    markOf,
    write: store.observe,
  })
}))
