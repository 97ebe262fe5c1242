/** Handlers of every group, as one layer. A group that is missing here stops the start with its name. */
import { Layer } from "effect"
import { HealthHandlers } from "./health.ts"

export const AllHandlers = Layer.mergeAll(HealthHandlers)
