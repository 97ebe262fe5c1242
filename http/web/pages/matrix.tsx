/**
 * Who may what: users by permissions, each cell with its reason as the node decides it, for all cameras or for one.
 *
 * Invariant
 * 1. The node decides each cell; nothing is worked out here.
 */
import type { Role, User } from "#schema/auth-users.ts"
import type { Camera } from "#schema/camera.ts"
import { type Decision, permissionDefinitions, permissionNames } from "#schema/permission.ts"
import { useState } from "react"
import { checkAll, groupsOfRole } from "../api-access.ts"
import { listRoles, listUsers } from "../api-users.ts"
import { listCameras } from "../api.ts"
import { AccessTabs } from "../parts/access-tabs.tsx"
import { Field } from "../parts/forms.tsx"
import { Icon } from "../parts/icons.tsx"
import { Loading, Problem } from "../parts/notes.tsx"
import { type Cell, type Narrowed, PermissionGrid, within } from "../parts/permission-grid.tsx"
import { useSession } from "../session.tsx"
import { useQuery } from "../use-query.ts"

/** Users that are shown at once: each costs the node one decision for every permission. */
const mostUsers = 50

interface Answers {
  /** By user, in the order of {@link permissionNames}. */
  readonly rows: ReadonlyArray<{ readonly user: User; readonly decisions: ReadonlyArray<Decision> }>
}

/** Permissions that say nothing about a camera are asked for without one. */
const questions = (cameraId: string | null) =>
  permissionNames.map((permission) => ({
    permission,
    ...(cameraId !== null && permissionDefinitions[permission].scope === "camera" ?
      { resource: { kind: "camera" as const, id: cameraId } } :
      {}),
  }))

const decide = async (users: ReadonlyArray<User>, cameraId: string | null): Promise<Answers> => {
  const rows: Array<Answers["rows"][number]> = []
  for (const user of users) rows.push({ user, decisions: await checkAll(questions(cameraId), user.username) })
  return { rows }
}

interface Picked {
  readonly user: string
  readonly camera: string
  readonly role: string
}

interface PickersProps {
  readonly users: ReadonlyArray<User>
  readonly roles: ReadonlyArray<Role>
  readonly cameras: ReadonlyArray<Camera>
  readonly picked: Picked
  readonly onPick: (picked: Picked) => void
}

const Pickers = ({ cameras, onPick, picked, roles, users }: PickersProps) => (
  <div className="panel pickers">
    <Field label="User">
      <select value={picked.user} onChange={(event) => onPick({ ...picked, user: event.target.value })}>
        <option value="">all users</option>
        {users.map((user) => <option key={user.id} value={user.id}>{user.username}</option>)}
      </select>
    </Field>
    <Field label="Role">
      <select value={picked.role} onChange={(event) => onPick({ ...picked, role: event.target.value })}>
        <option value="">any role</option>
        {roles.map((role) => <option key={role.name} value={role.name}>{role.name}</option>)}
      </select>
    </Field>
    <Field label="With">
      <select value={picked.camera} onChange={(event) => onPick({ ...picked, camera: event.target.value })}>
        <option value="">any camera</option>
        {cameras.map((camera) => <option key={camera.id} value={camera.id}>{camera.name}</option>)}
      </select>
    </Field>
  </div>
)

interface ReasonProps {
  readonly cell: Cell | null
  readonly camera: string | null
  readonly narrowed: Narrowed
}

const Reason = ({ camera, cell, narrowed }: ReasonProps) => (
  <div className="panel reason" role="status">
    {cell === null ?
      (
        <p className="muted">
          Go to a field, by arrow keys or pointer, and it is said here why somebody may, or may not.
        </p>
      ) :
      (
        <>
          <p>
            <strong>{cell.user.username}</strong> {cell.decision.allowed ? "may" : "may not"}{" "}
            <span className="mono">{cell.permission}</span>
            {camera !== null && permissionDefinitions[cell.permission].scope === "camera" && ` with ${camera}`}:{" "}
            {cell.decision.reason}
            {camera === null && within(cell, narrowed) !== null && `, for ${within(cell, narrowed)} only`}.
          </p>
          <p className="small muted">{permissionDefinitions[cell.permission].description}.</p>
        </>
      )}
  </div>
)

interface MatrixProps extends Omit<PickersProps, "picked" | "onPick"> {
  readonly narrowed: Narrowed
}

const Matrix = ({ cameras, narrowed, roles, users }: MatrixProps) => {
  const [picked, setPicked] = useState<Picked>({ user: "", camera: "", role: "" })
  const [cell, setCell] = useState<Cell | null>(null)
  const fitting = users.filter((user) =>
    (picked.user === "" || user.id === picked.user) && (picked.role === "" || user.roles.includes(picked.role))
  )
  const asked = fitting.slice(0, mostUsers)
  const camera = cameras.find(({ id }) => id === picked.camera) ?? null
  const key = `matrix ${camera?.id ?? ""} ${asked.map(({ id, version }) => `${id} ${version}`).join(" ")}`
  const answers = useQuery(key, () => decide(asked, camera?.id ?? null), 15_000)
  const pick = (next: Picked) => {
    setCell(null)
    setPicked(next)
  }
  return (
    <div className="stack">
      <Pickers users={users} roles={roles} cameras={cameras} picked={picked} onPick={pick} />
      <Problem error={answers.error} />
      {answers.data === null && answers.error === null && <Loading lines={5} />}
      {answers.data !== null && answers.data.rows.length > 0 && (
        <PermissionGrid rows={answers.data.rows} narrowed={camera === null ? narrowed : new Map()} onCell={setCell} />
      )}
      <p className="legend small" aria-hidden="true">
        <span className="row">
          <Icon name="tick" />may
        </span>
        <span className="row">
          <Icon name="some" />may, for some resource groups only
        </span>
        <span>blank: may not</span>
      </p>
      {asked.length === 0 && <p className="muted">Nobody holds this role.</p>}
      {fitting.length > asked.length && (
        <p className="small muted">
          The first {mostUsers} of {fitting.length} users. Pick a role or a user to see others.
        </p>
      )}
      <Reason cell={cell} camera={camera?.name ?? null} narrowed={narrowed} />
    </div>
  )
}

/** The roles that are narrowed, with the groups that they are narrowed to; those that come with the product never are. */
const narrowedRoles = async (roles: ReadonlyArray<Role>): Promise<Narrowed> => {
  const narrowed = new Map<string, ReadonlyArray<string>>()
  for (const { builtIn, name } of roles) {
    const { allResources, items } = builtIn ? { allResources: true, items: [] } : await groupsOfRole(name)
    if (!allResources) narrowed.set(name, items.map((group) => group.name))
  }
  return narrowed
}

const rolesWithReach = async () => {
  const roles = await listRoles()
  return { roles, narrowed: await narrowedRoles(roles) }
}

export const MatrixPage = () => {
  const { may } = useSession()
  const users = useQuery("users", listUsers, 15_000)
  const roles = useQuery("roles with reach", rolesWithReach, 15_000)
  const cameras = useQuery("cameras", listCameras, 0, may("camera:read"))
  return (
    <>
      <div className="head">
        <h1>Who may what</h1>
      </div>
      <AccessTabs now="matrix" />
      <Problem error={users.error ?? roles.error ?? cameras.error} />
      {users.data !== null && roles.data !== null && (
        <Matrix users={users.data} {...roles.data} cameras={cameras.data ?? []} />
      )}
    </>
  )
}
