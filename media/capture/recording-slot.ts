/**
 * The recording of a stream, if it has one: opened, switched on and off, replaced and closed as the assignment says, beside
 * whatever the connection does.
 */
import type { Assignment } from "#media/recorder.ts"
import type { EpochMs } from "#schema/common.ts"
import { Effect, Exit, Scope } from "effect"
import type { Recorder, RecordingAssignment } from "./recorder.ts"

/** A recorder and its end. */
export interface OpenedRecording {
  readonly recorder: Recorder
  /** Footage is expected from then on, or from now; nothing if it already was. */
  readonly expect: (sinceMs: EpochMs | null) => Effect.Effect<void>
  /** Nothing is expected any more. */
  readonly withdraw: Effect.Effect<void>
}

/** Reads the ledger, finds where the files go on. Never fails: what cannot be read is told by the log. */
export type OpenRecording = (
  assignment: RecordingAssignment,
  onChange: () => void,
) => Effect.Effect<OpenedRecording, never, Scope.Scope>

export interface RecordingSlot {
  /** `sinceMs`: what comes first into a recording that is opened now is from then. */
  readonly set: (assignment: Assignment, sinceMs?: EpochMs | null) => Effect.Effect<void>
  readonly recorder: () => Recorder | null
  /** The recorder, while it is to get units. */
  readonly wanted: () => Recorder | null
  readonly close: (forGood: boolean) => Effect.Effect<void>
}

const hasRecording = (assignment: Assignment): assignment is RecordingAssignment => assignment.recording !== null

export const makeRecordingSlot = (open: OpenRecording, onChange: () => void): RecordingSlot => {
  let current: (OpenedRecording & { readonly scope: Scope.Closeable; readonly id: string }) | null = null
  let on = false

  const close = (forGood: boolean) =>
    Effect.gen(function*() {
      if (current === null) return
      const closing = current
      on = false
      yield* closing.recorder.close
      current = null
      if (forGood) yield* closing.withdraw
      yield* Scope.close(closing.scope, Exit.void)
    })

  const replace = (assignment: RecordingAssignment, sinceMs: EpochMs | null) =>
    Effect.gen(function*() {
      yield* close(true)
      const scope = yield* Scope.make()
      const opened = yield* Scope.provide(open(assignment, onChange), scope)
      current = { ...opened, scope, id: assignment.recording.recordingId }
      yield* opened.expect(sinceMs)
    })

  return {
    recorder: () => current?.recorder ?? null,
    wanted: () => on ? current?.recorder ?? null : null,
    close,
    set: (assignment, sinceMs = null) =>
      Effect.gen(function*() {
        if (!hasRecording(assignment)) return yield* close(true)
        if (current === null || current.id !== assignment.recording.recordingId) {
          yield* replace(assignment, sinceMs)
        }
        const recorder = current?.recorder
        if (recorder === undefined) return
        recorder.configure(assignment)
        const wanted = assignment.enabled && assignment.recording.enabled
        if (!wanted) {
          on = false
          recorder.interrupt(
            "operator_paused",
            assignment.enabled ? "the recording is switched off" : "the camera is switched off",
          )
        } else if (!on) {
          on = true
          recorder.interrupt("starting", "switched on")
        }
      }),
  }
}
