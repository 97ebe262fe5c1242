/** The bell: how many notifications are unread, live, and the newest of them in a panel. */
import { useEffect, useRef, useState } from "react"
import { listNotifications, readAllNotifications } from "../api-notifications.ts"
import { listRecordings } from "../api.ts"
import { useLive } from "../live.tsx"
import { useSession } from "../session.tsx"
import { useQuery } from "../use-query.ts"
import { useAction } from "./forms.tsx"
import { Icon } from "./icons.tsx"
import { Loading, Problem } from "./notes.tsx"
import { NotificationList } from "./notification-list.tsx"

/** As many as fit without much scrolling; the page shows all. */
const shown = 12

const Panel = ({ onClose }: { readonly onClose: () => void }) => {
  const { may } = useSession()
  const { changed, state, turn, unread } = useLive()
  const list = useQuery(`bell ${turn}`, () => listNotifications({ unread: false, minimumSeverity: "info" }, shown), 0)
  const [last, setLast] = useState(list.data)
  if (list.data !== null && list.data !== last) setLast(list.data)
  const recordings = useQuery("recordings", listRecordings, 0, may("recording:read"))
  const action = useAction()
  const data = list.data ?? last
  return (
    <div className="bell-panel" role="dialog" aria-label="Notifications">
      <div className="spread">
        <h2>Notifications</h2>
        <button
          type="button"
          disabled={action.busy || unread?.count === 0}
          onClick={() => action.run(readAllNotifications, changed)}
        >
          Mark all as read
        </button>
      </div>
      {state === "lost" && <p className="small muted">The live connection is interrupted; it is taken up again.</p>}
      <Problem error={list.error ?? action.error} />
      {data === null && list.error === null && <Loading lines={3} />}
      {data?.items.length === 0 && (
        <p className="muted">Nothing has happened. Cameras that fail, disks in trouble and the like appear here.</p>
      )}
      {data !== null && (
        <NotificationList
          items={data.items}
          recordings={recordings.data ?? []}
          onChange={list.refresh}
          onOpen={onClose}
        />
      )}
      <a className="button" href="#/notifications" onClick={onClose}>All notifications</a>
    </div>
  )
}

const wordsFor = (count: number, more: boolean): string =>
  count === 0 ? "Notifications: none unread" : `Notifications: ${count}${more ? " or more" : ""} unread`

export const Bell = () => {
  const { may } = useSession()
  const { unread } = useLive()
  const [open, setOpen] = useState(false)
  const place = useRef<HTMLDivElement>(null)
  const button = useRef<HTMLButtonElement>(null)

  useEffect(() => {
    if (!open) return
    place.current?.querySelector<HTMLElement>(".bell-panel button:not(:disabled), .bell-panel a")?.focus()
    const pointer = (event: PointerEvent) => {
      if (event.target instanceof Node && !place.current?.contains(event.target)) setOpen(false)
    }
    const key = (event: KeyboardEvent) => {
      if (event.key !== "Escape") return
      setOpen(false)
      button.current?.focus()
    }
    window.addEventListener("pointerdown", pointer)
    window.addEventListener("keydown", key)
    return () => {
      window.removeEventListener("pointerdown", pointer)
      window.removeEventListener("keydown", key)
    }
  }, [open])

  if (!may("notification:read")) return null
  const { count, more } = unread ?? { count: 0, more: false }
  const label = wordsFor(count, more)
  return (
    <div className="bell" ref={place}>
      <button
        ref={button}
        type="button"
        className="plain"
        aria-expanded={open}
        aria-label={label}
        title={label}
        onClick={() => setOpen(!open)}
      >
        <Icon name="bell" />
        {count > 0 && <span className="count number" data-testid="unread">{more || count > 99 ? "99+" : count}</span>}
      </button>
      {open && <Panel onClose={() => setOpen(false)} />}
    </div>
  )
}
