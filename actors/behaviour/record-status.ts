/** Writes what each recording of this node is doing (`RecordingState`) to the database. */
import { type ObservedState, RecordStore } from "#actors/store/record.ts"
import { type Assignment, RecorderSupervisor, type StreamStatus } from "#media/recorder.ts"
import { Effect, Layer } from "effect"
import { writeObserved } from "./observed.ts"

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

export const layer = Layer.effectDiscard(Effect.gen(function*() {
  const [supervisor, store] = yield* Effect.all([RecorderSupervisor, RecordStore])
  yield* writeObserved<ObservedState>({
    what: "recordings",
    seen: Effect.map(supervisor.assignments, (assignments) => statesOf(assignments, supervisor.statuses())),
    idOf: (seen) => seen.recordingId,
    markOf: (seen) => `${seen.state}/${seen.reason}`,
    write: store.observe,
  })
}))
