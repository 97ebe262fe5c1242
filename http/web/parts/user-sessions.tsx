/** Sessions of one user, and how to end them all. */
import type { UserSession } from "#schema/auth-security.ts"
import type { User } from "#schema/auth-users.ts"
import { type ReactNode, useState } from "react"
import { endSessions, sessionsOf } from "../api-users.ts"
import { useSession } from "../session.tsx"
import { momentOf } from "../time.ts"
import { useQuery } from "../use-query.ts"
import { useAction } from "./forms.tsx"
import { Badge, Loading, Problem } from "./notes.tsx"

const browsers: ReadonlyArray<readonly [pattern: RegExp, name: string]> = [
  [/Edg\//, "Edge"],
  [/Firefox\//, "Firefox"],
  [/Chrom(e|ium)\//, "Chrome"],
  [/Safari\//, "Safari"],
]
const systems: ReadonlyArray<readonly [pattern: RegExp, name: string]> = [
  [/Android/, "Android"],
  [/iPhone|iPad/, "iOS"],
  [/Windows/, "Windows"],
  [/Mac OS X/, "macOS"],
  [/Linux/, "Linux"],
]

/** `Firefox on Linux`; the first word of it for other programs. */
const clientOf = (userAgent: string): string => {
  const browser = browsers.find(([pattern]) => pattern.test(userAgent))?.[1]
  const system = systems.find(([pattern]) => pattern.test(userAgent))?.[1]
  if (browser === undefined) return userAgent.split(" ")[0] || "unknown program"
  return system === undefined ? browser : `${browser} on ${system}`
}

interface ListProps {
  readonly sessions: ReadonlyArray<UserSession>
  /** What can be done with one. */
  readonly actions?: (session: UserSession) => ReactNode
}

export const SessionList = ({ actions, sessions }: ListProps) => (
  <ul className="plain-list">
    {sessions.map((session) => (
      <li key={session.id} className="spread">
        <div className="grow">
          <div className="row">
            <strong title={session.userAgent}>{clientOf(session.userAgent)}</strong>
            <span className="mono small">{session.address}</span>
            {session.current && <Badge state="ok" text="this one" />}
          </div>
          <div className="small muted">
            since {momentOf(session.createdAt)} · last seen {momentOf(session.lastSeenAt)}
          </div>
        </div>
        {actions?.(session)}
      </li>
    ))}
  </ul>
)

export const UserSessions = ({ user }: { readonly user: User }) => {
  const { may } = useSession()
  const sessions = useQuery(`sessions ${user.id}`, () => sessionsOf(user.id), 5000)
  const [ended, setEnded] = useState<number | null>(null)
  const action = useAction()
  const end = () =>
    action.run(() => endSessions(user.id), (answer) => {
      setEnded(answer.ended)
      sessions.refresh()
    })
  if (sessions.data === null) {
    return sessions.error === null ?
      <Loading lines={2} /> :
      <Problem error={sessions.error} />
  }
  return (
    <div className="stack">
      {sessions.data.length === 0 ?
        <p className="muted">Not signed in anywhere.</p> :
        <SessionList sessions={sessions.data} />}
      <Problem error={action.error ?? sessions.error} />
      <div className="actions">
        <span className="grow small muted" role="status">{ended === null ? "" : `${ended} ended.`}</span>
        {may("user:write") && sessions.data.length > 0 && (
          <button type="button" className="danger solid" disabled={action.busy} onClick={end}>
            {action.busy ? "Ending…" : "End all sessions"}
          </button>
        )}
      </div>
    </div>
  )
}
