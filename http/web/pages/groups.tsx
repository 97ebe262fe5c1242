/** Resource groups: what each holds, how they nest; add, change, fill, delete. */
import type { ResourceGroup } from "#schema/permission-groups.ts"
import { useState } from "react"
import { createGroup, deleteGroup, listGroups, updateGroup } from "../api-access.ts"
import { AccessTabs } from "../parts/access-tabs.tsx"
import { Confirm, Field, Form, Text, useAction } from "../parts/forms.tsx"
import { GroupMembers } from "../parts/group-members.tsx"
import { Icon } from "../parts/icons.tsx"
import { Empty, Loading, Modal, Problem } from "../parts/notes.tsx"
import { RowButtons } from "../parts/row-buttons.tsx"
import { useSession } from "../session.tsx"
import { useQuery } from "../use-query.ts"

type Open =
  | { readonly kind: "add"; readonly group: null }
  | { readonly kind: "edit" | "delete" | "members"; readonly group: ResourceGroup }

interface Placed {
  readonly group: ResourceGroup
  readonly depth: number
}

/** Each group below the one that it is nested in. */
const asTree = (
  groups: ReadonlyArray<ResourceGroup>,
  parentId: string | null = null,
  depth = 0,
): ReadonlyArray<Placed> =>
  groups.filter((group) => group.parentId === parentId).flatMap((group) => [
    { group, depth },
    ...asTree(groups, group.id, depth + 1),
  ])

interface FormProps {
  readonly group: ResourceGroup | null
  readonly groups: ReadonlyArray<ResourceGroup>
  readonly onDone: () => void
}

const GroupForm = ({ group, groups, onDone }: FormProps) => {
  const [name, setName] = useState(group?.name ?? "")
  const [description, setDescription] = useState(group?.description ?? "")
  const [parent, setParent] = useState<string>(group?.parentId ?? "")
  const action = useAction()
  const save = () => {
    const parentId = groups.find(({ id }) => id === parent)?.id ?? null
    const input = { name: name.trim(), description, parentId }
    return group === null ? createGroup(input) : updateGroup(group, input)
  }
  return (
    <Form
      action={action}
      verb={group === null ? "Add group" : "Save"}
      onSubmit={() => action.run(save, onDone)}
      onCancel={onDone}
    >
      <Text label="Name" required maxLength={128} value={name} onChange={setName} placeholder="Ground floor" />
      <Text label="Description" maxLength={512} value={description} onChange={setDescription} />
      <Field label="Part of" hint="The group above then holds what this one holds.">
        <select value={parent} onChange={(event) => setParent(event.target.value)}>
          <option value="">no other group</option>
          {asTree(groups).filter((one) => one.group.id !== group?.id).map((one) => (
            <option key={one.group.id} value={one.group.id}>{"\u2003".repeat(one.depth)}{one.group.name}</option>
          ))}
        </select>
      </Field>
    </Form>
  )
}

const counted = (count: number, one: string, many: string) => `${count} ${count === 1 ? one : many}`

const Entry = ({ onOpen, placed }: { readonly placed: Placed; readonly onOpen: (open: Open) => void }) => {
  const { may } = useSession()
  const { depth, group } = placed
  return (
    <tr>
      <td>
        <div style={{ paddingLeft: `${depth * 1.4}rem` }}>
          <strong>{group.name}</strong>
          {group.description !== "" && <div className="small muted">{group.description}</div>}
        </div>
      </td>
      <td>
        {counted(group.resourceCount, "resource", "resources")}
        {group.groupCount > 0 && `, ${counted(group.groupCount, "group", "groups")}`}
      </td>
      <td>
        <div className="actions">
          <button
            type="button"
            onClick={() => onOpen({ kind: "members", group })}
            aria-label={`${may("permission:write") ? "Choose" : "Show"} cameras of ${group.name}`}
          >
            <Icon name="cameras" />
            {may("permission:write") ? "Choose" : "Show"}
          </button>
          {may("permission:write") && (
            <RowButtons
              name={group.name}
              onEdit={() => onOpen({ kind: "edit", group })}
              onDelete={() => onOpen({ kind: "delete", group })}
            />
          )}
        </div>
      </td>
    </tr>
  )
}

interface DialogsProps {
  readonly open: Open
  readonly groups: ReadonlyArray<ResourceGroup>
  readonly onDone: () => void
}

const Dialogs = ({ groups, onDone, open }: DialogsProps) => {
  if (open.kind === "delete") {
    return (
      <Confirm
        title={`Delete ${open.group.name}?`}
        verb="Delete"
        act={() => deleteGroup(open.group)}
        onDone={onDone}
      >
        <p>
          The cameras stay. Roles that were narrowed to this group stay narrowed, if need be to nothing. This cannot be
          undone.
        </p>
      </Confirm>
    )
  }
  if (open.kind === "members") {
    return (
      <Modal title={open.group.name} onClose={onDone}>
        <GroupMembers group={open.group} onDone={onDone} />
      </Modal>
    )
  }
  return (
    <Modal title={open.kind === "add" ? "Add a resource group" : `Edit ${open.group.name}`} onClose={onDone}>
      <GroupForm group={open.group} groups={groups} onDone={onDone} />
    </Modal>
  )
}

const Table = ({ groups, onOpen }: Pick<DialogsProps, "groups"> & { readonly onOpen: (open: Open) => void }) => (
  <div className="panel">
    <table>
      <thead>
        <tr>
          <th scope="col">Name</th>
          <th scope="col">Holds</th>
          <th scope="col">
            <span className="visually-hidden">Actions</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {asTree(groups).map((placed) => <Entry key={placed.group.id} placed={placed} onOpen={onOpen} />)}
      </tbody>
    </table>
  </div>
)

export const GroupsPage = () => {
  const { may } = useSession()
  const groups = useQuery("groups", listGroups, 10_000)
  const [open, setOpen] = useState<Open | null>(null)
  const done = () => {
    setOpen(null)
    groups.refresh()
  }
  const add = may("permission:write") && (
    <button
      type="button"
      className="primary"
      onClick={() => setOpen({ kind: "add", group: null })}
    >
      <Icon name="plus" />Add a group
    </button>
  )
  return (
    <>
      <div className="head">
        <h1>Resource groups</h1>
        {(groups.data?.length ?? 0) > 0 && add}
      </div>
      <AccessTabs now="groups" />
      <Problem error={groups.error} />
      {groups.data === null && groups.error === null && <Loading lines={4} />}
      {groups.data?.length === 0 && (
        <Empty icon="group" title="No resource group yet">
          <p>
            A group holds cameras and recordings. A role that is narrowed to it grants what it grants for these alone: a
            guard of the car park sees the cameras of the car park.
          </p>
          {add}
        </Empty>
      )}
      {groups.data !== null && groups.data.length > 0 && <Table groups={groups.data} onOpen={setOpen} />}
      {open !== null && <Dialogs open={open} groups={groups.data ?? []} onDone={done} />}
    </>
  )
}
