/** Users: who may sign in, with which roles, how they are; add, change, unlock, end their sessions, delete. */
import type { User } from "#schema/auth-users.ts"
import { useState } from "react"
import { deleteUser, listRoles, listUsers, unlockUser } from "../api-users.ts"
import { AccessTabs } from "../parts/access-tabs.tsx"
import { Confirm, useAction } from "../parts/forms.tsx"
import { Icon } from "../parts/icons.tsx"
import { Badge, Loading, Modal, Problem } from "../parts/notes.tsx"
import { RowButtons } from "../parts/row-buttons.tsx"
import { UserForm } from "../parts/user-form.tsx"
import { UserSessions } from "../parts/user-sessions.tsx"
import { useSession } from "../session.tsx"
import { momentOf } from "../time.ts"
import { useQuery } from "../use-query.ts"

type Open = { readonly kind: "add" } | { readonly kind: "edit" | "delete" | "sessions"; readonly user: User }

const State = ({ user }: { readonly user: User }) => {
  if (!user.enabled) return <Badge state="disabled" />
  if (user.lockedUntil !== null) return <Badge state="warn" text={`waits until ${momentOf(user.lockedUntil)}`} />
  if (user.mustChangePassword) return <Badge state="warn" text="must change the password" />
  if (user.activeSessions > 0) return <Badge state="ok" text="signed in" />
  return <Badge state="idle" text="signed out" />
}

const Row = ({ onChange, onOpen, user }: {
  readonly user: User
  readonly onOpen: (open: Open) => void
  readonly onChange: () => void
}) => {
  const { may } = useSession()
  const action = useAction()
  return (
    <tr>
      <td>
        <strong>{user.username}</strong>
        {user.displayName !== "" && <div className="small muted">{user.displayName}</div>}
      </td>
      <td>
        <span className="chips">
          {user.roles.map((role) => <span key={role} className="chip">{role}</span>)}
          {user.roles.length === 0 && <span className="muted small">no role: may do nothing</span>}
        </span>
      </td>
      <td>
        <State user={user} />
        <Problem error={action.error} />
      </td>
      <td className="small">{user.lastSignInAt === null ? "never" : momentOf(user.lastSignInAt)}</td>
      <td>
        <div className="actions">
          {user.lockedUntil !== null && may("user:write") && (
            <button
              type="button"
              disabled={action.busy}
              onClick={() => action.run(() => unlockUser(user), onChange)}
            >
              Unlock
            </button>
          )}
          <button
            type="button"
            onClick={() => onOpen({ kind: "sessions", user })}
            aria-label={`${user.activeSessions} sessions of ${user.username}`}
            title="Sessions"
          >
            <span className="number">{user.activeSessions}</span>
            <Icon name="system" />
          </button>
          {may("user:write") && (
            <RowButtons
              name={user.username}
              onEdit={() => onOpen({ kind: "edit", user })}
              onDelete={() => onOpen({ kind: "delete", user })}
            />
          )}
        </div>
      </td>
    </tr>
  )
}

const matches = (text: string) => (user: User) =>
  [user.username, user.displayName, user.email ?? "", ...user.roles].some((one) =>
    one.toLowerCase().includes(text.toLowerCase())
  )

const Table = ({ onChange, onOpen, users }: {
  readonly users: ReadonlyArray<User>
  readonly onOpen: (open: Open) => void
  readonly onChange: () => void
}) => (
  <div className="panel">
    <table>
      <thead>
        <tr>
          <th scope="col">Name</th>
          <th scope="col">Roles</th>
          <th scope="col">State</th>
          <th scope="col">Last sign-in</th>
          <th scope="col">
            <span className="visually-hidden">Actions</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {users.map((user) => <Row key={user.id} user={user} onOpen={onOpen} onChange={onChange} />)}
      </tbody>
    </table>
    {users.length === 0 && <p className="muted">Nobody fits what you are looking for.</p>}
  </div>
)

const Dialogs = ({ onDone, open }: { readonly open: Open; readonly onDone: () => void }) => {
  const roles = useQuery("roles", listRoles, 0)
  if (open.kind === "delete") {
    return (
      <Confirm
        title={`Delete ${open.user.username}?`}
        verb="Delete"
        act={() => deleteUser(open.user)}
        onDone={onDone}
      >
        <p>Every session of the account ends at once. What it did stays in the audit log. This cannot be undone.</p>
      </Confirm>
    )
  }
  if (open.kind === "sessions") {
    return (
      <Modal title={`Sessions of ${open.user.username}`} onClose={onDone}>
        <UserSessions user={open.user} />
      </Modal>
    )
  }
  return (
    <Modal title={open.kind === "add" ? "Add a user" : `Edit ${open.user.username}`} onClose={onDone}>
      <Problem error={roles.error} />
      {roles.data !== null && (
        <UserForm user={open.kind === "add" ? null : open.user} roles={roles.data} onDone={onDone} />
      )}
    </Modal>
  )
}

export const UsersPage = () => {
  const { may } = useSession()
  const users = useQuery("users", listUsers, 5000)
  const [text, setText] = useState("")
  const [open, setOpen] = useState<Open | null>(null)
  const done = () => {
    setOpen(null)
    users.refresh()
  }
  return (
    <>
      <div className="head">
        <h1>Users</h1>
        {may("user:write") && (
          <button type="button" className="primary" onClick={() => setOpen({ kind: "add" })}>
            <Icon name="plus" />Add a user
          </button>
        )}
      </div>
      <AccessTabs now="users" />
      <Problem error={users.error} />
      {users.data === null && users.error === null && <Loading lines={4} />}
      {users.data !== null && (
        <div className="stack">
          {users.data.length > 5 && (
            <input
              type="search"
              className="filter"
              aria-label="Look for a user"
              placeholder="Name, role or address"
              value={text}
              onChange={(event) => setText(event.target.value)}
            />
          )}
          <Table users={users.data.filter(matches(text))} onOpen={setOpen} onChange={users.refresh} />
        </div>
      )}
      {open !== null && <Dialogs open={open} onDone={done} />}
    </>
  )
}
