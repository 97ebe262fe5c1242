/** The audit log: who did what, from where, and what came of it; filters, proof that nothing was changed, files, settings. */
import type { AuditEntry } from "#schema/auth-audit.ts"
import { useState } from "react"
import { auditEntries } from "../api-audit.ts"
import { AuditDays } from "../parts/audit-days.tsx"
import { AuditDialog } from "../parts/audit-entry.tsx"
import { AuditExport } from "../parts/audit-export.tsx"
import { AuditFilters, emptyFilter, type Filter, queryOf } from "../parts/audit-filters.tsx"
import { AuditSettingsForm } from "../parts/audit-settings.tsx"
import { AuditSeal } from "../parts/audit-verify.tsx"
import { Icon } from "../parts/icons.tsx"
import { Badge, Empty, Loading, Modal, Problem } from "../parts/notes.tsx"
import { useSession } from "../session.tsx"
import { momentOf } from "../time.ts"
import { useQuery } from "../use-query.ts"

/** Entries that are shown at first, that each press of the button adds, and at most: what is older is found by a filter. */
const step = 100
const most = 1000

const outcomes = { success: "ok", failure: "warn", refused: "fail" } as const

const Row = ({ entry, onOpen }: { readonly entry: AuditEntry; readonly onOpen: (id: string) => void }) => (
  <tr>
    <td className="small number">{momentOf(entry.time)}</td>
    <td>
      <strong>{entry.actor.name ?? entry.actor.kind}</strong>
      {entry.origin === "claim" && <span className="chip">claim</span>}
      <div className="small muted mono">{entry.address}</div>
    </td>
    <td>
      <button type="button" className="link mono" onClick={() => onOpen(entry.id)}>{entry.action}</button>
      {entry.resource !== null && (
        <div className="small muted cut narrow" title={`${entry.resource.kind} ${entry.resource.id}`}>
          {entry.resource.kind} {entry.resource.id}
        </div>
      )}
    </td>
    <td>
      <Badge state={outcomes[entry.outcome]} text={entry.outcome} />
      {entry.status !== null && <span className="small muted number">{entry.status}</span>}
    </td>
  </tr>
)

const Table = ({ items, onOpen }: {
  readonly items: ReadonlyArray<AuditEntry>
  readonly onOpen: (id: string) => void
}) => (
  <table>
    <thead>
      <tr>
        <th scope="col">When</th>
        <th scope="col">Who</th>
        <th scope="col">What</th>
        <th scope="col">Outcome</th>
      </tr>
    </thead>
    <tbody>{items.map((entry) => <Row key={entry.id} entry={entry} onOpen={onOpen} />)}</tbody>
  </table>
)

const List = ({ filter, onOpen }: { readonly filter: Filter; readonly onOpen: (id: string) => void }) => {
  const [wanted, setWanted] = useState(step)
  const query = queryOf(filter)
  const list = useQuery(`audit ${wanted} ${JSON.stringify(query)}`, () => auditEntries(query, wanted), 5000)
  const [last, setLast] = useState(list.data)
  // While older ones are on their way, those that are here stay.
  if (list.data !== null && list.data !== last) setLast(list.data)
  const shown = list.data ?? last
  if (shown === null) return list.error === null ? <Loading lines={6} /> : <Problem error={list.error} />
  if (shown.items.length === 0) {
    return (
      <Empty icon="audit" title="No entry fits">
        <p>Widen the time, or take filters away. Changes and exports are always recorded, the rest by the settings.</p>
      </Empty>
    )
  }
  return (
    <div className="panel stack">
      <Problem error={list.error} />
      <Table items={shown.items} onOpen={onOpen} />
      {shown.more && wanted < most && (
        <button
          type="button"
          disabled={list.data === null}
          onClick={() => setWanted(wanted + step)}
        >
          {list.data === null ? "Reading…" : "Older entries"}
        </button>
      )}
      {shown.more && wanted >= most && (
        <p className="small muted">These are the newest {most}. Narrow the time to see older ones, or export them.</p>
      )}
    </div>
  )
}

export const AuditPage = () => {
  const { may } = useSession()
  const [filter, setFilter] = useState<Filter>(emptyFilter)
  const [open, setOpen] = useState<string | null>(null)
  const [settings, setSettings] = useState(false)
  return (
    <>
      <div className="head">
        <h1>Audit log</h1>
        <div className="row">
          <AuditExport filter={filter} />
          {may("audit:write") && (
            <button type="button" onClick={() => setSettings(true)}>
              <Icon name="edit" />Settings
            </button>
          )}
        </div>
      </div>
      <div className="stack">
        <AuditSeal onOpen={setOpen} />
        <AuditDays onDay={(day) => setFilter({ ...filter, ...day })} />
        <AuditFilters filter={filter} onChange={setFilter} />
        <List key={JSON.stringify(filter)} filter={filter} onOpen={setOpen} />
      </div>
      {open !== null && <AuditDialog id={open} onClose={() => setOpen(null)} />}
      {settings && (
        <Modal title="What is recorded" onClose={() => setSettings(false)}>
          <AuditSettingsForm onDone={() => setSettings(false)} />
        </Modal>
      )}
    </>
  )
}
