/**
 * Writes what the recorder supervisor observes of streams (health, reason, codec, size) to the database, where every node
 * reads it.
 *
 * Invariants
 * 1. What was missed (a slow moment, a database that was away) is written by the next round: each round compares everything
 *    with what was last written.
 * 2. At most one write in {@link quietTime}, whatever a camera does.
 */
import type { Observation } from "#actors/store/camera-rows.ts"
import { CameraStore } from "#actors/store/camera.ts"
import { RecorderSupervisor, type StreamStatus } from "#media/recorder.ts"
import type { StreamId } from "#schema/common.ts"
import { Duration, Effect, Layer, Schedule, Stream } from "effect"

/** Pause after a write: a person sees a change within it, a camera that flaps costs two writes a second. */
const quietTime = Duration.millis(500)
/** All states are compared this often, for what no change told of. */
const compareEvery = Duration.seconds(10)

export const observationOf = (status: StreamStatus): Observation => ({
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

/** Writes what differs from `written`. */
export const writeChanged = Effect.fnUntraced(function*(written: Map<StreamId, string>) {
  const [supervisor, store] = yield* Effect.all([RecorderSupervisor, CameraStore])
  const all = supervisor.statuses().map(observationOf)
  const changed = all.filter((seen) => written.get(seen.streamId) !== markOf(seen))
  if (changed.length > 0) yield* store.observe(changed)
  written.clear()
  for (const seen of all) written.set(seen.streamId, markOf(seen))
})

export const layer = Layer.effectDiscard(Effect.gen(function*() {
  const supervisor = yield* RecorderSupervisor
  const written = new Map<StreamId, string>()
  yield* Stream.merge(supervisor.changes, Stream.fromSchedule(Schedule.spaced(compareEvery))).pipe(
    Stream.buffer({ capacity: 1, strategy: "sliding" }),
    Stream.runForEach(() =>
      Effect.andThen(
        writeChanged(written).pipe(
          // The next round writes it.
          Effect.catchTag("DependencyUnavailable", () => Effect.void),
          Effect.catchCause((cause) => Effect.logError("The state of cameras could not be written", cause)),
        ),
        Effect.sleep(quietTime),
      )
    ),
    Effect.forkScoped,
  )
}))
