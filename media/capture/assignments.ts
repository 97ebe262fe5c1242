/**
 * The assignment file: what this node is to record, kept so that it can be taken up again with no database at hand.
 *
 * Invariants
 * 1. The file is replaced as a whole, by a new file and a rename: a kill leaves the old one or the new one.
 * 2. Passwords stand in it sealed. One that does not open any more (another master key) keeps its seal in the file; the stream
 *    then runs without a password and says why.
 * 3. A withdrawn stream leaves its epoch behind, so that a late assignment of an earlier owner is still refused; the newest
 *    `maxWithdrawn` are kept.
 */
import type { Assignment } from "#media/recorder.ts"
import { CameraId, ChannelId, NodeId, RecordingId, RecordingToken, StreamId } from "#schema/common.ts"
import { StreamRole } from "#schema/record.ts"
import type { Vault } from "#schema/vault.ts"
import { Effect, Option, Redacted, Schema } from "effect"
import type { LineDisk, LineDiskError } from "./line-disk.ts"

const maxWithdrawn = 1_000

const Stored = Schema.Struct({
  streamId: StreamId,
  cameraId: CameraId,
  channelId: ChannelId,
  /** Files of earlier versions do not have these three. */
  cameraName: Schema.optionalKey(Schema.String),
  channelName: Schema.optionalKey(Schema.String),
  role: Schema.optionalKey(StreamRole),
  driver: Schema.Literals(["rtsp", "mobile"]),
  url: Schema.String,
  username: Schema.NullOr(Schema.String),
  /** Sealed. */
  password: Schema.NullOr(Schema.String),
  transport: Schema.Literals(["tcp", "udp"]),
  nodeId: NodeId,
  epoch: Schema.Int,
  enabled: Schema.Boolean,
  onDemand: Schema.optionalKey(Schema.Boolean),
  recording: Schema.NullOr(Schema.Struct({
    recordingId: RecordingId,
    recordingToken: RecordingToken,
    enabled: Schema.Boolean,
    retentionDays: Schema.Finite,
    maxBytes: Schema.Finite,
  })),
})

const AssignmentFile = Schema.Struct({
  version: Schema.Literal(1),
  assignments: Schema.Array(Stored),
  withdrawn: Schema.Array(Schema.Struct({ streamId: StreamId, epoch: Schema.Int })),
})
type AssignmentFile = typeof AssignmentFile.Type

const decodeFile = Schema.decodeUnknownOption(Schema.fromJsonString(AssignmentFile))
const encodeFile = Schema.encodeSync(Schema.fromJsonString(AssignmentFile))

/** An assignment with the seal its password came from. */
export interface KeptAssignment {
  readonly assignment: Assignment
  readonly sealed: string | null
  /** The seal does not open. */
  readonly locked: boolean
}

export interface Assignments {
  readonly all: () => ReadonlyArray<KeptAssignment>
  readonly get: (streamId: StreamId) => KeptAssignment | undefined
  /** The smallest epoch that is not refused. */
  readonly inForce: (streamId: StreamId) => number
  readonly put: (assignment: Assignment) => Effect.Effect<KeptAssignment, LineDiskError>
  readonly remove: (streamId: StreamId, epoch: number) => Effect.Effect<void, LineDiskError>
  /** Seals every password anew. One that does not open keeps its seal. */
  readonly reseal: Effect.Effect<void, LineDiskError>
}

const contextOf = (streamId: StreamId) => `stream/${streamId}/password`

const sameSecret = (a: Redacted.Redacted | null, b: Redacted.Redacted | null): boolean =>
  a === b || (a !== null && b !== null && Redacted.value(a) === Redacted.value(b))

/** Whether a connection made for the one serves the other as well. */
export const sameSource = (a: Assignment, b: Assignment): boolean =>
  a.url === b.url && a.username === b.username && a.transport === b.transport && a.driver === b.driver &&
  a.enabled === b.enabled &&
  sameSecret(a.password, b.password)

export const sameAssignment = (a: Assignment, b: Assignment): boolean => {
  const [r, s] = [a.recording, b.recording]
  const recording = r === s ||
    (r !== null && s !== null && r.recordingId === s.recordingId && r.recordingToken === s.recordingToken &&
      r.enabled === s.enabled && r.retentionDays === s.retentionDays && r.maxBytes === s.maxBytes)
  return recording && sameSource(a, b) && a.cameraId === b.cameraId && a.channelId === b.channelId &&
    a.nodeId === b.nodeId && a.epoch === b.epoch && a.cameraName === b.cameraName && a.channelName === b.channelName &&
    a.role === b.role && (a.onDemand ?? false) === (b.onDemand ?? false)
}

export const loadAssignments = Effect.fnUntraced(
  function*(disk: LineDisk, vault: Vault["Service"]): Effect.fn.Return<Assignments, LineDiskError> {
    const kept = new Map<StreamId, KeptAssignment>()
    const withdrawn = new Map<StreamId, number>()
    const text = yield* disk.load
    const file = decodeFile(text)
    if (Option.isNone(file) && text !== "") {
      yield* Effect.logError("The assignment file is not readable; recording waits until the assignments come anew")
    }
    for (const stored of Option.isSome(file) ? file.value.assignments : []) {
      const sealed = stored.password
      const password = sealed === null ? null : yield* Effect.option(vault.open(contextOf(stored.streamId), sealed))
      const opened = password === null ? null : Option.getOrNull(password)
      kept.set(stored.streamId, {
        assignment: { cameraName: "", channelName: "", role: "main", ...stored, password: opened },
        sealed,
        locked: sealed !== null && opened === null,
      })
    }
    for (const { epoch, streamId } of Option.isSome(file) ? file.value.withdrawn : []) withdrawn.set(streamId, epoch)

    const save = Effect.suspend(() =>
      disk.replace(encodeFile({
        version: 1,
        assignments: Array.from(kept.values(), ({ assignment, sealed }) => ({ ...assignment, password: sealed })),
        withdrawn: Array.from(withdrawn, ([streamId, epoch]) => ({ streamId, epoch })),
      }))
    )
    const again = Effect.fnUntraced(function*(one: KeptAssignment) {
      const { password, streamId } = one.assignment
      if (one.locked || password === null) return
      kept.set(streamId, { ...one, sealed: yield* vault.seal(contextOf(streamId), password) })
    })
    return {
      reseal: Effect.suspend(() => Effect.andThen(Effect.forEach([...kept.values()], again, { discard: true }), save)),
      all: () => [...kept.values()],
      get: (streamId) => kept.get(streamId),
      inForce: (streamId) => Math.max(kept.get(streamId)?.assignment.epoch ?? 0, withdrawn.get(streamId) ?? 0),
      put: Effect.fnUntraced(function*(assignment) {
        const sealed = assignment.password === null ?
          null :
          yield* vault.seal(contextOf(assignment.streamId), assignment.password)
        const next = { assignment, sealed, locked: false }
        kept.set(assignment.streamId, next)
        withdrawn.delete(assignment.streamId)
        yield* save
        return next
      }),
      remove: Effect.fnUntraced(function*(streamId, epoch) {
        kept.delete(streamId)
        withdrawn.delete(streamId)
        withdrawn.set(streamId, epoch)
        for (const oldest of withdrawn.keys()) {
          if (withdrawn.size <= maxWithdrawn) break
          withdrawn.delete(oldest)
        }
        yield* save
      }),
    }
  },
)
