/** Accounts that wait after failed sign-ins, and how to let them in again at once. */
import type { User } from "#schema/auth-users.ts"
import { listUsers, unlockUser } from "../api-users.ts"
import { useSession } from "../session.tsx"
import { momentOf } from "../time.ts"
import { useQuery } from "../use-query.ts"
import { useAction } from "./forms.tsx"
import { Empty, Loading, Problem } from "./notes.tsx"

const Row = ({ onDone, user }: { readonly user: User; readonly onDone: () => void }) => {
  const { may } = useSession()
  const action = useAction()
  return (
    <tr>
      <td>
        <strong>{user.username}</strong>
        <div className="small muted">{user.displayName}</div>
      </td>
      <td>{user.lockedUntil === null ? "" : momentOf(user.lockedUntil)}</td>
      <td>{user.lastSignInAt === null ? "never" : momentOf(user.lastSignInAt)}</td>
      <td>
        <div className="actions">
          <Problem error={action.error} />
          {may("user:write") && (
            <button
              type="button"
              disabled={action.busy}
              onClick={() => action.run(() => unlockUser(user), onDone)}
            >
              Unlock {user.username}
            </button>
          )}
        </div>
      </td>
    </tr>
  )
}

export const LockedAccounts = () => {
  const users = useQuery("users", listUsers, 5000)
  if (users.data === null) return users.error === null ? <Loading lines={3} /> : <Problem error={users.error} />
  const locked = users.data.filter(({ lockedUntil }) => lockedUntil !== null)
  if (locked.length === 0) {
    return (
      <Empty icon="lock" title="No account has to wait">
        <p>
          After some wrong passwords an account waits before it may try again, longer each time. It appears here while
          it waits, and can be let in at once.
        </p>
      </Empty>
    )
  }
  return (
    <div className="panel">
      <Problem error={users.error} />
      <table>
        <thead>
          <tr>
            <th scope="col">User</th>
            <th scope="col">Waits until</th>
            <th scope="col">Last sign-in</th>
            <th scope="col">
              <span className="visually-hidden">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>{locked.map((user) => <Row key={user.id} user={user} onDone={users.refresh} />)}</tbody>
      </table>
    </div>
  )
}
