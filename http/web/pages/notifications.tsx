/** All notifications of the signed-in user, by severity, read and unread. */
import { Severity } from "#schema/event.ts"
import { Schema } from "effect"
import { useState } from "react"
import { listNotifications, type NotificationQuery, readAllNotifications } from "../api-notifications.ts"
import { listRecordings } from "../api.ts"
import { useLive } from "../live.tsx"
import { useAction } from "../parts/forms.tsx"
import { Badge, Empty, Loading, Problem } from "../parts/notes.tsx"
import { NotificationList } from "../parts/notification-list.tsx"
import { PushSwitch } from "../parts/push-switch.tsx"
import { useSession } from "../session.tsx"
import { useQuery } from "../use-query.ts"

const step = 50
/** What one call gives at most. */
const most = 500

const states = {
  open: ["ok", "live"],
  connecting: ["probing", "connecting"],
  lost: ["warn", "live connection interrupted"],
  refused: ["idle", "not live"],
} as const

const severityNames = { info: "everything", warning: "warnings and worse", critical: "critical only" } as const

const Filters = ({ onChange, query }: {
  readonly query: NotificationQuery
  readonly onChange: (query: NotificationQuery) => void
}) => (
  <div className="row">
    <div className="segments" role="group" aria-label="Show">
      <button type="button" aria-pressed={!query.unread} onClick={() => onChange({ ...query, unread: false })}>
        All
      </button>
      <button type="button" aria-pressed={query.unread} onClick={() => onChange({ ...query, unread: true })}>
        Unread
      </button>
    </div>
    <select
      className="filter"
      aria-label="Severity"
      value={query.minimumSeverity}
      onChange={({ target: { value } }) => Schema.is(Severity)(value) && onChange({ ...query, minimumSeverity: value })}
    >
      {Severity.literals.map((one) => <option key={one} value={one}>{severityNames[one]}</option>)}
    </select>
  </div>
)

const List = ({ query }: { readonly query: NotificationQuery }) => {
  const { may } = useSession()
  const { turn } = useLive()
  const [wanted, setWanted] = useState(step)
  const list = useQuery(
    `notifications ${turn} ${wanted} ${JSON.stringify(query)}`,
    () => listNotifications(query, wanted),
    30_000,
  )
  const [last, setLast] = useState(list.data)
  if (list.data !== null && list.data !== last) setLast(list.data)
  const recordings = useQuery("recordings", listRecordings, 0, may("recording:read"))
  const shown = list.data ?? last
  if (shown === null) return list.error === null ? <Loading lines={5} /> : <Problem error={list.error} />
  if (shown.items.length === 0) {
    return (
      <Empty icon="bell" title={query.unread ? "Everything is read" : "Nothing has happened"}>
        <p>Cameras that fail, disks in trouble, nodes that start and stop appear here, as it happens.</p>
        {may("notification:write") && <a className="button" href="#/rules">Make a rule that alerts people</a>}
      </Empty>
    )
  }
  return (
    <div className="panel stack">
      <Problem error={list.error} />
      <NotificationList
        items={shown.items}
        recordings={recordings.data ?? []}
        onChange={list.refresh}
        onOpen={() => undefined}
      />
      {shown.more && wanted < most && (
        <button type="button" onClick={() => setWanted(Math.min(most, wanted + step))}>Older ones</button>
      )}
    </div>
  )
}

export const NotificationsPage = () => {
  const { changed, state, unread } = useLive()
  const [query, setQuery] = useState<NotificationQuery>({ unread: false, minimumSeverity: "info" })
  const action = useAction()
  const [tone, name] = states[state]
  return (
    <>
      <div className="head">
        <h1>Notifications</h1>
        <div className="row">
          <Badge state={tone} text={name} />
          <button
            type="button"
            disabled={action.busy || unread?.count === 0}
            onClick={() => action.run(readAllNotifications, changed)}
          >
            Mark all as read
          </button>
        </div>
      </div>
      <div className="stack">
        <Problem error={action.error} />
        <Filters query={query} onChange={setQuery} />
        <List key={JSON.stringify(query)} query={query} />
        <PushSwitch />
      </div>
    </>
  )
}
