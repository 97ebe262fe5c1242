/** Rows of the log of events, as the product has them. */
import type { NodeId, UserId } from "#schema/common.ts"
import type { EventEnvelope, Severity, StoredEvent } from "#schema/event.ts"
import type { ResourceRef } from "#schema/permission.ts"

export interface EventRow {
  readonly position: bigint
  readonly id: string
  readonly node_id: NodeId
  readonly source: string
  readonly type: string
  readonly severity: Severity
  readonly subject: string
  readonly at: Date
  readonly data: EventEnvelope["data"]
  readonly resource: ReadonlyArray<string>
  readonly audience: ReadonlyArray<UserId> | null
}

const refOf = (key: string): ResourceRef => {
  const colon = key.indexOf(":")
  return { kind: key.slice(0, colon) as ResourceRef["kind"], id: key.slice(colon + 1) }
}

export const storedOf = (row: EventRow): StoredEvent => ({
  position: Number(row.position),
  event: {
    id: row.id,
    source: row.source,
    type: row.type,
    time: row.at.getTime(),
    subject: row.subject,
    data: row.data,
    nodeId: row.node_id,
    severity: row.severity,
  },
  resource: row.resource.map(refOf),
  audience: row.audience,
})
