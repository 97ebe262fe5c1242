/**
 * From what the database says of cameras and recordings to what the recorder supervisor shall do.
 *
 * Invariants
 * 1. Every stream of a camera gets an assignment, whether it is recorded or not: that is how its
 *    state is known. What is switched off is assigned as such.
 * 2. Credentials of a stream, where there are some, stand for those of its camera, as a whole.
 * 3. A password that cannot be opened is left out; the camera then refuses, and its state tells.
 */
import type { CaptureRow } from "#actors/store/camera-rows.ts"
import type { Assignment } from "#media/recorder.ts"
import { cameraSecret, streamSecret } from "#schema/camera-change.ts"
import type { NodeId } from "#schema/common.ts"
import type { RecordingPlan } from "#schema/record-config.ts"
import { Vault } from "#schema/vault.ts"
import { Effect, type Redacted } from "effect"

/** Where a stream's credentials come from. */
export const credentialsOf = (
  row: CaptureRow,
): { readonly username: string | null; readonly sealed: string | null; readonly context: string } =>
  row.streamUsername !== null || row.streamPassword !== null ?
    { username: row.streamUsername, sealed: row.streamPassword, context: streamSecret(row.streamId) } :
    { username: row.cameraUsername, sealed: row.cameraPassword, context: cameraSecret(row.cameraId) }

export const planFor = (row: CaptureRow, plans: ReadonlyArray<RecordingPlan>): RecordingPlan | null =>
  plans.find((plan) => plan.channelId === row.channelId && plan.role === row.role) ?? null

/** How the streams of a family come: those of ONVIF cameras are RTSP, which is all that a capture needs to know of them. */
const sourceOf = { rtsp: "rtsp", onvif: "rtsp", mobile: "mobile" } as const satisfies Record<
  CaptureRow["driver"],
  Assignment["driver"]
>

export const assignmentOf = (options: {
  readonly row: CaptureRow
  readonly plan: RecordingPlan | null
  readonly nodeId: NodeId
  readonly epoch: number
  readonly username: string | null
  readonly password: Redacted.Redacted | null
}): Assignment => ({
  streamId: options.row.streamId,
  cameraId: options.row.cameraId,
  channelId: options.row.channelId,
  cameraName: options.row.cameraName,
  channelName: options.row.channelName,
  role: options.row.role,
  driver: sourceOf[options.row.driver],
  url: options.row.url,
  username: options.username,
  password: options.password,
  transport: options.row.transport,
  nodeId: options.nodeId,
  epoch: options.epoch,
  enabled: options.row.enabled,
  onDemand: options.row.onDemand,
  recording: options.plan === null ? null : {
    recordingId: options.plan.recordingId,
    recordingToken: options.plan.recordingToken,
    enabled: options.plan.enabled,
    retentionDays: options.plan.retentionDays,
    maxBytes: options.plan.maxBytes,
  },
})

/** Opens the secrets and makes the assignments of `rows`. */
export const compose = Effect.fnUntraced(
  function*(
    rows: ReadonlyArray<CaptureRow>,
    plans: ReadonlyArray<RecordingPlan>,
    owner: { readonly nodeId: NodeId; readonly epoch: number },
  ) {
    const vault = yield* Vault
    return yield* Effect.forEach(rows, (row) => {
      const { context, sealed, username } = credentialsOf(row)
      const opened = sealed === null ?
        Effect.succeed(null) :
        vault.open(context, sealed).pipe(Effect.catchTag("VaultError", (error) =>
          Effect.as(Effect.logError("A camera's password cannot be opened", { context, reason: error.reason }), null)))
      return Effect.map(opened, (password) =>
        assignmentOf({ row, plan: planFor(row, plans), ...owner, username, password }))
    })
  },
)
