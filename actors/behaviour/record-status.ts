/**
 * Writes what each recording is doing (`RecordingState`) to the database, where every node reads it.
 *
 * Invariants
 * 1. What was missed is written by the next round: each round compares everything with what was last written.
 * 2. At most one write in {@link quietTime}.
 */
import { type ObservedState, RecordStore } from "#actors/store/record.ts"
import { type Assignment, RecorderSupervisor, type StreamStatus } from "#media/recorder.ts"
import type { RecordingId } from "#schema/common.ts"
import { Duration, Effect, Layer, Schedule, Stream } from "effect"

const quietTime = Duration.millis(500)
const compareEvery = Duration.seconds(10)

/** States of the recordings that are assigned to this node. */
export const statesOf = (
  assignments: ReadonlyArray<Pick<Assignment, "streamId" | "recording">>,
  statuses: ReadonlyArray<Pick<StreamStatus, "streamId" | "recordingState" | "reason">>,
): ReadonlyArray<ObservedState> => {
  const byStream = new Map(statuses.map((status) => [status.streamId, status]))
  return assignments.flatMap(({ recording, streamId }) => {
    const status = byStream.get(streamId)
    if (recording === null || status === undefined) return []
    const { reason, recordingState: state } = status
    return [{ recordingId: recording.recordingId, state, reason: state === "recording" ? "" : reason }]
  })
}

const markOf = (seen: ObservedState): string => `${seen.state}/${seen.reason}`

/** Writes what differs from `written`. */
export const writeChanged = Effect.fnUntraced(function*(written: Map<RecordingId, string>) {
  const [supervisor, store] = yield* Effect.all([RecorderSupervisor, RecordStore])
  const all = statesOf(yield* supervisor.assignments, supervisor.statuses())
  const changed = all.filter((seen) => written.get(seen.recordingId) !== markOf(seen))
  if (changed.length > 0) yield* store.observe(changed)
  written.clear()
  for (const seen of all) written.set(seen.recordingId, markOf(seen))
})

export const layer = Layer.effectDiscard(Effect.gen(function*() {
  const supervisor = yield* RecorderSupervisor
  const written = new Map<RecordingId, string>()
  yield* Stream.merge(supervisor.changes, Stream.fromSchedule(Schedule.spaced(compareEvery))).pipe(
    Stream.buffer({ capacity: 1, strategy: "sliding" }),
    Stream.runForEach(() =>
      Effect.andThen(
        writeChanged(written).pipe(
          // The next round writes it.
          Effect.catchTag("DependencyUnavailable", () => Effect.void),
          Effect.catchCause((cause) => Effect.logError("The state of recordings could not be written", cause)),
        ),
        Effect.sleep(quietTime),
      )
    ),
    Effect.forkScoped,
  )
}))
