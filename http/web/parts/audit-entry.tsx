/** One entry of the audit log with everything that it holds. */
import type { AuditEntry } from "#schema/auth-audit.ts"
import type { ReactNode } from "react"
import { auditEntry } from "../api-audit.ts"
import { momentOf } from "../time.ts"
import { useQuery } from "../use-query.ts"
import { Loading, Modal, Problem } from "./notes.tsx"

const factsOf = (entry: AuditEntry): ReadonlyArray<readonly [name: string, value: ReactNode]> => [
  ["Number", entry.sequence],
  ["When", momentOf(entry.time)],
  ["Who", `${entry.actor.name ?? entry.actor.kind}${entry.actor.name === null ? "" : ` (${entry.actor.kind})`}`],
  ["From", entry.address || "—"],
  ["Program", entry.userAgent || "—"],
  ["Outcome", `${entry.outcome}${entry.status === null ? "" : `, ${entry.status}`}`],
  ["Resource", entry.resource === null ? "—" : `${entry.resource.kind} ${entry.resource.id}`],
  ["Seen by", entry.origin === "server" ? "the recorder itself" : "a client, which claims it"],
  ["Node", entry.nodeId],
  ["Trace", entry.traceId ?? "—"],
]

const Whole = ({ entry }: { readonly entry: AuditEntry }) => (
  <div className="stack">
    <p className="mono">
      <strong>{entry.action}</strong>
    </p>
    <dl className="details">
      {factsOf(entry).map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd className="number">{value}</dd>
        </div>
      ))}
    </dl>
    {Object.keys(entry.detail).length > 0 && (
      <pre className="mono code" tabIndex={0} aria-label="Detail">{JSON.stringify(entry.detail, null, 2)}</pre>
    )}
    <dl className="details wide">
      <div>
        <dt>Hash of the entry before it</dt>
        <dd className="mono">{entry.previousHash}</dd>
      </div>
      <div>
        <dt>Hash</dt>
        <dd className="mono">{entry.hash}</dd>
      </div>
    </dl>
  </div>
)

export const AuditDialog = ({ id, onClose }: { readonly id: string; readonly onClose: () => void }) => {
  const entry = useQuery(`audit-entry ${id}`, () => auditEntry(id), 0)
  return (
    <Modal title="Entry" onClose={onClose}>
      <Problem error={entry.error} />
      {entry.data === null && entry.error === null && <Loading lines={6} />}
      {entry.data !== null && <Whole entry={entry.data} />}
    </Modal>
  )
}
