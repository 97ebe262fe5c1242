/** Roles: what each grants, what it is narrowed to, who holds it. */
import type { Role } from "#schema/auth-users.ts"
import { type Permission, permissionNames } from "#schema/permission.ts"
import { useState } from "react"
import { groupsOfRole } from "../api-access.ts"
import { deleteRole, listRoles } from "../api-users.ts"
import { AccessTabs } from "../parts/access-tabs.tsx"
import { Confirm } from "../parts/forms.tsx"
import { Icon } from "../parts/icons.tsx"
import { Loading, Modal, Problem } from "../parts/notes.tsx"
import { RoleForm } from "../parts/role-form.tsx"
import { RowButtons } from "../parts/row-buttons.tsx"
import { useSession } from "../session.tsx"
import { useQuery } from "../use-query.ts"

type Open = { readonly kind: "add" } | { readonly kind: "edit" | "delete"; readonly role: Role }

/** `camera: read, live` for a line each. */
const byResource = (permissions: ReadonlyArray<string>): ReadonlyArray<readonly [string, ReadonlyArray<string>]> => {
  const groups = new Map<string, Array<string>>()
  for (const name of permissionNames.filter((one: Permission) => permissions.includes(one))) {
    const [resource = "", action = ""] = name.split(":")
    groups.set(resource, [...groups.get(resource) ?? [], action])
  }
  return [...groups]
}

const Narrowing = ({ role }: { readonly role: Role }) => {
  const { may } = useSession()
  const groups = useQuery(`groups of ${role.name}`, () => groupsOfRole(role.name), 10_000, may("permission:read"))
  if (groups.data === null) return <Problem error={groups.error} />
  const { allResources, items } = groups.data
  if (allResources) return <span>Holds for all cameras and recordings</span>
  if (items.length === 0) return <span>Narrowed to no group: reaches no camera</span>
  return <span>Narrowed to {items.map(({ name }) => name).join(", ")}</span>
}

const Grants = ({ role }: { readonly role: Role }) => {
  if (role.permissions.includes("*")) return <p>Everything, also what later releases bring.</p>
  if (role.permissions.length === 0) return <p className="muted">Grants nothing yet.</p>
  return (
    <dl className="grants">
      {byResource(role.permissions).map(([resource, actions]) => (
        <div key={resource}>
          <dt>{resource}</dt>
          <dd>{actions.join(", ")}</dd>
        </div>
      ))}
    </dl>
  )
}

const Entry = ({ onOpen, role }: { readonly role: Role; readonly onOpen: (open: Open) => void }) => {
  const { may } = useSession()
  return (
    <article className="panel stack" aria-label={role.name}>
      <div className="spread">
        <div className="row">
          <h2>{role.name}</h2>
          {role.builtIn && <span className="chip">built in</span>}
        </div>
        {may("user:write") && !role.builtIn && (
          <div className="actions">
            <RowButtons
              name={role.name}
              onEdit={() => onOpen({ kind: "edit", role })}
              onDelete={() => onOpen({ kind: "delete", role })}
            />
          </div>
        )}
      </div>
      {role.description !== "" && <p className="muted">{role.description}</p>}
      <Grants role={role} />
      <p className="facts">
        <span>
          <b>{role.users}</b> {role.users === 1 ? "user" : "users"}
        </span>
        <Narrowing role={role} />
      </p>
    </article>
  )
}

const Dialogs = ({ onDone, open }: { readonly open: Open; readonly onDone: () => void }) => {
  if (open.kind === "delete") {
    return (
      <Confirm title={`Delete ${open.role.name}?`} verb="Delete" act={() => deleteRole(open.role)} onDone={onDone}>
        <p>A role that somebody holds stays; take it from its users first. This cannot be undone.</p>
      </Confirm>
    )
  }
  return (
    <Modal title={open.kind === "add" ? "Add a role" : `Edit ${open.role.name}`} onClose={onDone}>
      <RoleForm role={open.kind === "add" ? null : open.role} onDone={onDone} />
    </Modal>
  )
}

export const RolesPage = () => {
  const { may } = useSession()
  const roles = useQuery("roles", listRoles, 10_000)
  const [open, setOpen] = useState<Open | null>(null)
  const done = () => {
    setOpen(null)
    roles.refresh()
  }
  return (
    <>
      <div className="head">
        <h1>Roles</h1>
        {may("user:write") && (
          <button type="button" className="primary" onClick={() => setOpen({ kind: "add" })}>
            <Icon name="plus" />Add a role
          </button>
        )}
      </div>
      <AccessTabs now="roles" />
      <Problem error={roles.error} />
      {roles.data === null && roles.error === null && <Loading lines={4} />}
      <div className="cards">
        {roles.data?.map((role) => <Entry key={`${role.name} ${role.version}`} role={role} onOpen={setOpen} />)}
      </div>
      {open !== null && <Dialogs open={open} onDone={done} />}
    </>
  )
}
