/** The record slice, put together: plans for the camera slice, and on top of that the entity, the ledger, states, service. */
import { Layer } from "effect"
import { RecordLedgerStore } from "#actors/store/record-ledger.ts"
import { RecordStore } from "#actors/store/record.ts"
import * as Service from "./record.ts"
import * as RecordingEntity from "./record-entity.ts"
import * as Ledger from "./record-ledger.ts"
import * as Plan from "./record-plan.ts"
import * as Purge from "./record-purge.ts"
import * as Status from "./record-status.ts"

/** Gives `RecordingPlans`, which the camera slice needs. */
export const plans = Plan.layer.pipe(Layer.provide(RecordStore.layer))

/** Gives `Recordings` and `RecordLedger`; needs `Cameras`. */
export const layer = Layer.mergeAll(Service.layer, Ledger.layer, RecordingEntity.layer, Purge.layer, Status.layer).pipe(
  Layer.provide([RecordStore.layer, RecordLedgerStore.layer]),
)
