/**
 * The one envelope of everything that happened: the members of CloudEvents 1.0 that the product uses, and the node.
 *
 * Invariants
 * 1. `type` is past tense and dotted (`recording.gap.opened`); `id` is unique, and the same when the same fact is told twice.
 * 2. `data` carries no secret.
 */
import { Schema } from "effect"
import { Instant, NodeId } from "./common.ts"

export const EventEnvelope = Schema.Struct({
  id: Schema.String,
  /** `/nodes/<nodeId>/<slice>` (CloudEvents 1.0, `source`: a URI reference). */
  source: Schema.String,
  type: Schema.String.check(Schema.isPattern(/^[a-z]+(\.[a-z]+)+$/)),
  time: Instant,
  /** Identifier of what it happened to. */
  subject: Schema.String,
  data: Schema.Record(Schema.String, Schema.Json),
  nodeId: NodeId,
})
export type EventEnvelope = typeof EventEnvelope.Type
