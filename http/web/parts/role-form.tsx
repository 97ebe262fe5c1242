/** The form that adds a role, or changes one: what it grants, and which resource groups narrow it. */
import type { Role } from "#schema/auth-users.ts"
import type { ResourceGroup, RoleResourceGroups } from "#schema/permission-groups.ts"
import {
  defaultPtzPriority,
  type Permission,
  permissionDefinitions,
  permissionNames,
  ptzPriorities,
} from "#schema/permission.ts"
import { useState } from "react"
import { assignGroups, groupsOfRole, listGroups } from "../api-access.ts"
import { createRole, readRole, updateRole } from "../api-users.ts"
import { useSession } from "../session.tsx"
import { useQuery } from "../use-query.ts"
import { Check, Form, NumberField, Text, useAction } from "./forms.tsx"
import { Loading, Problem } from "./notes.tsx"

interface Input {
  readonly name: string
  readonly description: string
  readonly permissions: ReadonlyArray<Permission>
  readonly ptzPriority: number
  readonly allResources: boolean
  readonly groupIds: ReadonlyArray<ResourceGroup["id"]>
}

interface Editing {
  readonly input: Input
  readonly set: <K extends keyof Input>(key: K, value: Input[K]) => void
}

const toggled = <A,>(list: ReadonlyArray<A>, one: A, on: boolean): ReadonlyArray<A> =>
  on ? [...list, one] : list.filter((other) => other !== one)

const resources = [...new Set(permissionNames.map((name) => name.split(":")[0] ?? ""))]

const PermissionChoice = ({ input, set }: Editing) => (
  <fieldset className="choices scrolls" tabIndex={0}>
    <legend>Grants</legend>
    {resources.map((resource) => (
      <div key={resource} role="group" aria-label={resource}>
        <h3>{resource}</h3>
        {permissionNames.filter((name) => name.startsWith(`${resource}:`)).map((name) => (
          <Check
            key={name}
            label={<span className="mono">{name}</span>}
            hint={permissionDefinitions[name].description}
            checked={input.permissions.includes(name)}
            onChange={(on) => set("permissions", toggled(input.permissions, name, on))}
          />
        ))}
      </div>
    ))}
  </fieldset>
)

const GroupChoice = ({ groups, input, set }: Editing & { readonly groups: ReadonlyArray<ResourceGroup> }) => (
  <fieldset className="choices">
    <legend>Holds for</legend>
    <label className="check">
      <input type="radio" checked={input.allResources} onChange={() => set("allResources", true)} />
      <span>All cameras, recordings, layouts and files</span>
    </label>
    <label className="check">
      <input type="radio" checked={!input.allResources} onChange={() => set("allResources", false)} />
      <span>
        Resource groups
        {groups.length === 0 && (
          <span className="small muted block">There is none yet; make one under Resource groups.</span>
        )}
      </span>
    </label>
    {!input.allResources && groups.map((group) => (
      <Check
        key={group.id}
        label={group.name}
        hint={group.description || undefined}
        checked={input.groupIds.includes(group.id)}
        onChange={(on) => set("groupIds", toggled(input.groupIds, group.id, on))}
      />
    ))}
    {!input.allResources && input.groupIds.length === 0 && (
      <p className="small muted">Without a group the role reaches no camera at all.</p>
    )}
  </fieldset>
)

const narrowed = (input: Input, known: RoleResourceGroups | null): boolean =>
  known === null ? !input.allResources : input.allResources !== known.allResources ||
    input.groupIds.length !== known.items.length || known.items.some(({ id }) => !input.groupIds.includes(id))

interface FieldsProps {
  readonly role: Role | null
  readonly known: RoleResourceGroups | null
  readonly groups: ReadonlyArray<ResourceGroup>
  readonly onDone: () => void
}

const Fields = ({ groups, known, onDone, role }: FieldsProps) => {
  const { may } = useSession()
  const [input, setInput] = useState<Input>({
    name: role?.name ?? "",
    description: role?.description ?? "",
    permissions: permissionNames.filter((name) => role?.permissions.includes(name)),
    ptzPriority: role?.ptzPriority ?? defaultPtzPriority,
    allResources: known?.allResources ?? true,
    groupIds: known?.items.map(({ id }) => id) ?? [],
  })
  const action = useAction()
  const editing: Editing = { input, set: (key, value) => setInput((old) => ({ ...old, [key]: value })) }
  const save = async () => {
    const { allResources, description, groupIds, name, permissions, ptzPriority } = input
    // A role is narrowed before it grants, so that it is never too wide in between.
    let current = role ?? await createRole({ name, description })
    if (narrowed(input, known)) {
      await assignGroups(current.name, allResources ? { groupIds: [], allResources } : { groupIds })
      current = await readRole(current.name)
    }
    await updateRole(current, { description, permissions, ptzPriority })
  }
  return (
    <Form
      action={action}
      verb={role === null ? "Add role" : "Save"}
      onSubmit={() => action.run(save, onDone)}
      onCancel={onDone}
    >
      {role === null && (
        <Text
          label="Name"
          required
          maxLength={64}
          pattern="[\p{L}\p{N}]([\p{L}\p{N} ._\-]{0,62}[\p{L}\p{N}._\-])?"
          title="Letters, digits, spaces and . _ -"
          value={input.name}
          onChange={(value) => editing.set("name", value)}
        />
      )}
      <Text
        label="Description"
        maxLength={512}
        value={input.description}
        onChange={(value) => editing.set("description", value)}
      />
      <PermissionChoice {...editing} />
      {input.permissions.includes("camera:ptz") && (
        <NumberField
          label="PTZ priority"
          hint="Who moves a camera when two want to: the higher one. A user has the highest of their roles."
          min={ptzPriorities.least}
          max={ptzPriorities.most}
          value={input.ptzPriority}
          onChange={(value) => editing.set("ptzPriority", value)}
        />
      )}
      {may("permission:write") && <GroupChoice {...editing} groups={groups} />}
    </Form>
  )
}

/** `role` null: a new one. */
export const RoleForm = ({ onDone, role }: { readonly role: Role | null; readonly onDone: () => void }) => {
  const { may } = useSession()
  const data = useQuery(`role ${role?.name ?? ""}`, async () =>
    may("permission:read") ?
      { groups: await listGroups(), known: role === null ? null : await groupsOfRole(role.name) } :
      { groups: [], known: null }, 0)
  if (data.data === null) return data.error === null ? <Loading lines={4} /> : <Problem error={data.error} />
  return <Fields role={role} known={data.data.known} groups={data.data.groups} onDone={onDone} />
}
