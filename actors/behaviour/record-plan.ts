/** The service `RecordingPlans`: what is to be recorded, for the entities of cameras. */
import { RecordingPlans } from "#actors/protocol/record-plan.ts"
import { RecordStore } from "#actors/store/record.ts"
import { Effect, Layer } from "effect"

export const layer = Layer.effect(
  RecordingPlans,
  Effect.map(RecordStore, (store) => RecordingPlans.of({ ofCameras: store.plans, strangers: store.strangers })),
)
