/** Notifications as a list: what, when, whether it was read, where to look at it. */
import type { Notification } from "#schema/notification.ts"
import type { Recording } from "#schema/record-config.ts"
import { deleteNotification, readNotification } from "../api-notifications.ts"
import { placeOf, wordsOf } from "../event-words.ts"
import { useLive } from "../live.tsx"
import { momentOf } from "../time.ts"
import { useAction } from "./forms.tsx"
import { Icon } from "./icons.tsx"
import { Problem } from "./notes.tsx"
import { SeverityIcon } from "./severity.tsx"

interface EntryProps {
  readonly notification: Notification
  readonly recordings: ReadonlyArray<Recording>
  /** After it was read or deleted. */
  readonly onChange: () => void
  /** After its link was followed. */
  readonly onOpen: () => void
}

const Entry = ({ notification, onChange, onOpen, recordings }: EntryProps) => {
  const action = useAction()
  const { changed } = useLive()
  const { event, id, read, severity, time, title } = notification
  const place = placeOf(event, recordings)
  const done = () => {
    onChange()
    changed()
  }
  const open = () => {
    if (!read) action.run(() => readNotification(id), done)
    onOpen()
  }
  return (
    <li className={`notification ${read ? "" : "unread"}`}>
      <SeverityIcon severity={severity} />
      <div className="grow">
        <div>
          {place === null ? <strong>{title}</strong> : <a href={place} onClick={open}>{title}</a>}
          {!read && <span className="visually-hidden">(unread)</span>}
        </div>
        <div className="small">{wordsOf(event)}</div>
        <div className="small muted number">{momentOf(time)}</div>
        <Problem error={action.error} />
      </div>
      {!read && (
        <button
          type="button"
          className="plain"
          disabled={action.busy}
          aria-label={`Mark as read: ${title}`}
          title="Mark as read"
          onClick={() => action.run(() => readNotification(id), done)}
        >
          <Icon name="tick" />
        </button>
      )}
      <button
        type="button"
        className="plain"
        disabled={action.busy}
        aria-label={`Delete: ${title}`}
        title="Delete"
        onClick={() => action.run(() => deleteNotification(id), done)}
      >
        <Icon name="close" />
      </button>
    </li>
  )
}

interface Props extends Omit<EntryProps, "notification"> {
  readonly items: ReadonlyArray<Notification>
}

export const NotificationList = ({ items, ...rest }: Props) => (
  <ul className="plain-list notifications">
    {items.map((one) => <Entry key={one.id} notification={one} {...rest} />)}
  </ul>
)
