/** The camera slice, put together: entity, activation, states, service. */
import { Layer } from "effect"
import { CameraStore } from "#actors/store/camera.ts"
import * as Service from "./camera.ts"
import * as Activation from "./camera-activation.ts"
import * as CameraEntity from "./camera-entity.ts"
import * as Status from "./camera-status.ts"

/** Gives `Cameras`; the entity is registered before the activation loop asks for it. */
export const layer = Layer.mergeAll(Service.layer, Activation.layer.pipe(Layer.provide(CameraEntity.layer)), Status.layer).pipe(
  Layer.provide(CameraStore.layer),
)
