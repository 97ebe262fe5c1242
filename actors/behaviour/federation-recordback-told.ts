/**
 * What is told of record-back on the node that recorded: that it began, rests, goes on or failed, and what its home node refused.
 *
 * Invariants
 * 1. That a job began is told once, however often this node starts anew. Its good end is told by failover, when all of it is settled.
 * 2. Refusals are told together, one event a session: their number is bounded by that of sessions.
 */
import { Events } from "#actors/protocol/event.ts"
import { type JobRow, RecordBackStore } from "#actors/store/federation-recordback.ts"
import { Ownership } from "#cluster/ownership.ts"
import type { EventDraft } from "#schema/event.ts"
import type { RecordBackState } from "#schema/federation.ts"
import { Effect } from "effect"

type Told = Extract<EventDraft["type"], `failover.recordback.${string}`>

/** What a change of state is told as; null: it is not. */
const typeOf = (before: RecordBackState, after: RecordBackState): Told | null => {
  if (after === before) return null
  if (before === "pending") return "failover.recordback.started"
  if (after === "paused") return "failover.recordback.paused"
  if (before === "paused") return "failover.recordback.resumed"
  return after === "failed" || after === "partial" ? "failover.recordback.failed" : null
}

export const makeTold = Effect.gen(function*() {
  const [{ nodeId }, events, store] = yield* Effect.all([Ownership, Events, RecordBackStore])
  const publish = Effect.fnUntraced(
    function*(type: Told, job: Pick<JobRow, "id" | "homeNodeId">, reason: string, more = {}) {
      const { bytesDone, bytesTotal, segmentsDone, segmentsTotal } = yield* store.totals(job.id)
      const data = {
        rerouteId: job.id,
        homeNodeId: job.homeNodeId,
        servingNodeId: nodeId,
        segmentsDone,
        segmentsTotal,
        bytesDone,
        bytesTotal,
        reason,
      }
      yield* events.publish({ type, subject: job.homeNodeId, resource: [], data: { ...data, ...more } })
    },
    Effect.catchTag("DependencyUnavailable", () => Effect.void),
  )

  return {
    changed: (job: JobRow, before: RecordBackState, after: RecordBackState, reason: string) => {
      const type = typeOf(before, after)
      return type === null ? Effect.void : publish(type, job, reason)
    },
    refused: (job: JobRow, segments: number, reason: string) =>
      segments === 0 ? Effect.void : publish("failover.recordback.refused", job, reason, { segments }),
  }
})
