/**
 * What is to be recorded of a camera, for whoever assigns captures. A service of its own, because the record slice asks the
 * camera slice where a channel is, and the camera slice asks the record slice what is wanted of it: neither needs the other
 * to be built first.
 */
import type { CameraId, RecordingId } from "#schema/common.ts"
import type { DependencyUnavailable } from "#schema/problem.ts"
import type { RecordingPlan } from "#schema/record-config.ts"
import { Context, type Effect } from "effect"

export class RecordingPlans extends Context.Service<RecordingPlans, {
  /** Plans of every recording of these cameras, disabled ones too, deleted ones not. */
  readonly ofCameras: (
    cameraIds: ReadonlyArray<CameraId>,
  ) => Effect.Effect<ReadonlyArray<RecordingPlan>, DependencyUnavailable>
  /** Of these, the recordings that the database has never heard of: neither there nor deleted. */
  readonly strangers: (
    ids: ReadonlyArray<RecordingId>,
  ) => Effect.Effect<ReadonlySet<RecordingId>, DependencyUnavailable>
}>()("nightjar/actors/RecordingPlans") {}
