/** Networks from which the product may be administered; a change that locks its author out is asked about. */
import type { ManagementIp } from "#schema/auth-network.ts"
import { useState } from "react"
import { ipCheck } from "../api-access.ts"
import { addAddress, changeAddress, listAddresses, removeAddress } from "../api-security.ts"
import { messageOf, tagOf } from "../api.ts"
import { useSession } from "../session.tsx"
import { useQuery } from "../use-query.ts"
import { Check, Confirm, Form, Text, useAction } from "./forms.tsx"
import { Icon } from "./icons.tsx"
import { Badge, Empty, Loading, Modal, Problem } from "./notes.tsx"
import { RowButtons } from "./row-buttons.tsx"

interface DialogProps {
  /** Null: a new one. */
  readonly known: ManagementIp | null
  readonly onDone: () => void
}

const AddressDialog = ({ known, onDone }: DialogProps) => {
  const [name, setName] = useState(known?.name ?? "")
  const [cidr, setCidr] = useState(known?.cidr ?? "")
  const [enabled, setEnabled] = useState(known?.enabled ?? true)
  const [locksOut, setLocksOut] = useState(false)
  const [force, setForce] = useState(false)
  const action = useAction()
  const save = async () => {
    const input = { name, cidr, enabled, force }
    try {
      await (known === null ? addAddress(input) : changeAddress(known, input))
    } catch (failure) {
      if (tagOf(failure) === "WouldLockOut") setLocksOut(true)
      throw failure
    }
  }
  return (
    <Modal title={known === null ? "Add a management address" : `Change ${known.name}`} onClose={onDone}>
      <Form action={action} verb="Save" onSubmit={() => action.run(save, onDone)} onCancel={onDone}>
        <Text label="Name" required maxLength={128} value={name} onChange={setName} placeholder="Control room" />
        <Text
          label="Address or network"
          required
          maxLength={100}
          value={cidr}
          onChange={setCidr}
          placeholder="192.168.1.0/24"
          hint="IPv4 or IPv6, in CIDR notation; an address alone is a network of one."
        />
        <Check label="In force" checked={enabled} onChange={setEnabled} />
        {locksOut && (
          <Check
            label="Do it all the same"
            hint="From where you are now, you could administer no longer."
            checked={force}
            onChange={setForce}
          />
        )}
      </Form>
    </Modal>
  )
}

const RemoveDialog = ({ known, onDone }: { readonly known: ManagementIp; readonly onDone: () => void }) => {
  const [locksOut, setLocksOut] = useState(false)
  const act = () =>
    removeAddress(known, locksOut).catch((failure: unknown) => {
      if (tagOf(failure) !== "WouldLockOut") throw failure
      setLocksOut(true)
      throw new Error(`${messageOf(failure)}. Remove it once more to do so.`)
    })
  return (
    <Confirm
      title={`Remove ${known.name}?`}
      verb={locksOut ? "Remove all the same" : "Remove"}
      act={act}
      onDone={onDone}
    >
      <p>
        {known.cidr}{" "}
        may administer no longer, unless another entry holds it. While no entry is in force there is no restriction.
      </p>
    </Confirm>
  )
}

const Here = () => {
  const check = useQuery("ip-check", ipCheck, 0)
  if (check.data === null) return <Problem error={check.error} />
  const { address, allowed, reason } = check.data
  return (
    <p className="panel row small">
      <Badge state={allowed ? "ok" : "fail"} text={allowed ? "You may administer from here" : "Not from here"} />
      <span className="mono">{address}</span>
      <span className="muted">{reason}</span>
    </p>
  )
}

type Open = { readonly kind: "edit"; readonly known: ManagementIp | null } | {
  readonly kind: "remove"
  readonly known: ManagementIp
}

const Row = ({ known, onOpen }: { readonly known: ManagementIp; readonly onOpen: (open: Open) => void }) => {
  const { may } = useSession()
  return (
    <tr>
      <td>
        <strong>{known.name}</strong>
      </td>
      <td className="mono">{known.cidr}</td>
      <td>
        <Badge state={known.enabled ? "ok" : "idle"} text={known.enabled ? "in force" : "switched off"} />
      </td>
      <td>
        {may("user:write") && (
          <div className="actions">
            <RowButtons
              name={known.name}
              onEdit={() => onOpen({ kind: "edit", known })}
              onDelete={() => onOpen({ kind: "remove", known })}
            />
          </div>
        )}
      </td>
    </tr>
  )
}

const List = (
  { items, onOpen }: { readonly items: ReadonlyArray<ManagementIp>; readonly onOpen: (open: Open) => void },
) => (
  <div className="panel">
    <table>
      <thead>
        <tr>
          <th scope="col">Name</th>
          <th scope="col">Network</th>
          <th scope="col">State</th>
          <th scope="col">
            <span className="visually-hidden">Actions</span>
          </th>
        </tr>
      </thead>
      <tbody>{items.map((one) => <Row key={one.id} known={one} onOpen={onOpen} />)}</tbody>
    </table>
  </div>
)

export const Addresses = () => {
  const { may } = useSession()
  const list = useQuery("addresses", listAddresses, 0)
  const [open, setOpen] = useState<Open | null>(null)
  const done = () => {
    setOpen(null)
    list.refresh()
  }
  const add = may("user:write") && (
    <button
      type="button"
      className="primary"
      onClick={() => setOpen({ kind: "edit", known: null })}
    >
      <Icon name="plus" />Add an address
    </button>
  )
  return (
    <div className="stack">
      <Here key={list.data?.map(({ version }) => version).join()} />
      <Problem error={list.error} />
      {list.data === null && list.error === null && <Loading lines={3} />}
      {list.data?.length === 0 && (
        <Empty icon="security" title="No restriction">
          <p>
            What administers (users, permissions, settings of the node) is allowed from everywhere. Add the networks of
            those who may; from then on such calls are refused from elsewhere.
          </p>
          {add}
        </Empty>
      )}
      {list.data !== null && list.data.length > 0 && (
        <>
          <List items={list.data} onOpen={setOpen} />
          <div className="row">{add}</div>
        </>
      )}
      {open?.kind === "edit" && <AddressDialog known={open.known} onDone={done} />}
      {open?.kind === "remove" && <RemoveDialog known={open.known} onDone={done} />}
    </div>
  )
}
