/** Pairing: asking another node, and the codes that two people compare. */
import type { OutgoingPairing, PairRequest } from "#schema/auth-federation.ts"
import type { FederationNode } from "#schema/federation.ts"
import { useState } from "react"
import {
  askPairing,
  confirmIncoming,
  confirmOutgoing,
  denyIncoming,
  readAsk,
  setAddresses,
  withdraw,
} from "../api-nodes.ts"
import { Check, Form, Text, useAction } from "./forms.tsx"
import { Badge, Problem } from "./notes.tsx"

const Code = ({ code }: { readonly code: string | null }) => (
  <p className="digits mono">{code === null ? "…" : `${code.slice(0, 3)} ${code.slice(3)}`}</p>
)

/** `found`: a node that was seen on the network; what it says of itself is a proposal, which may be typed over. */
export const PairForm = ({ found, onDone }: {
  readonly found: FederationNode | null
  readonly onDone: (done: boolean) => void
}) => {
  const action = useAction()
  const [id, setId] = useState<string>(found?.nodeId ?? "")
  const [address, setAddress] = useState(found?.address ?? "https://")
  const [fingerprint, setFingerprint] = useState("")
  const [guard, setGuard] = useState(false)
  const submit = () =>
    action.run(async () => {
      const ask = readAsk({ id, address, fingerprint })
      if (typeof ask === "string") throw new Error(ask)
      await askPairing({ ...ask, grantGuardian: guard })
    }, () => onDone(true))
  return (
    <Form action={action} verb="Ask for the pairing" onSubmit={submit} onCancel={() => onDone(false)}>
      <Text label="Id of the other node" value={id} onChange={setId} required hint="Its own page of nodes shows it." />
      <Text
        label="Address"
        value={address}
        onChange={setAddress}
        required
        hint="Where its dashboard is, such as https://192.168.1.20:8080"
      />
      <Text
        label="Fingerprint"
        value={fingerprint}
        onChange={setFingerprint}
        hint="If you have it, nobody has to compare the code on this side."
      />
      <Check
        label="The other node may guard this one"
        hint="It gets the configuration of this node, with the passwords of its cameras, and stands in when this node fails."
        checked={guard}
        onChange={setGuard}
      />
    </Form>
  )
}

/** Where a paired node is reached besides where it says it is: a second network, a new address that it could not tell. */
export const AddressesForm = ({ node, onDone }: {
  readonly node: FederationNode
  readonly onDone: () => void
}) => {
  const action = useAction()
  const [text, setText] = useState(node.addresses.join(", "))
  return (
    <Form
      action={action}
      verb="Save"
      onSubmit={() => action.run(() => setAddresses(node.nodeId, text), onDone)}
      onCancel={onDone}
    >
      <Text
        label="Addresses"
        value={text}
        onChange={setText}
        placeholder="https://192.168.1.20:8080, https://10.9.0.2:8080"
        hint="Tried in this order, before the address that it tells of itself. Whoever answers has to show the key that was learnt at the pairing."
      />
    </Form>
  )
}

export const Incoming = ({ onChange, request }: { readonly request: PairRequest; readonly onChange: () => void }) => {
  const action = useAction()
  const [guard, setGuard] = useState(false)
  return (
    <section className="panel stack" aria-label={`Request of ${request.name}`}>
      <div className="spread">
        <strong>{request.name} wants to be paired</strong>
        <Badge state={request.state === "pending" ? "warn" : "ok"} text={request.state} />
      </div>
      <p className="small muted">
        {request.address}, asked from {request.from}
      </p>
      <Code code={request.comparisonCode} />
      {request.state === "pending" ?
        (
          <>
            <p className="small">
              The other node shows the same digits, or somebody stands between the two: deny then.
            </p>
            <Check
              label="It may guard this node"
              hint="It gets the configuration with the passwords of cameras, and stands in when this node fails."
              checked={guard}
              onChange={setGuard}
            />
            <Problem error={action.error} />
            <div className="actions">
              <button
                type="button"
                className="danger"
                disabled={action.busy}
                onClick={() => action.run(() => denyIncoming(request), onChange)}
              >
                Deny
              </button>
              <button
                type="button"
                className="primary"
                disabled={action.busy || request.comparisonCode === null}
                onClick={() => action.run(() => confirmIncoming(request, guard), onChange)}
              >
                The digits are the same
              </button>
            </div>
          </>
        ) :
        <p className="small">Confirmed here. It is paired once the other side has compared as well.</p>}
    </section>
  )
}

export const Outgoing = (
  { onChange, pairing }: { readonly pairing: OutgoingPairing; readonly onChange: () => void },
) => {
  const action = useAction()
  return (
    <section className="panel stack" aria-label={`Pairing with ${pairing.name}`}>
      <div className="spread">
        <strong>Pairing with {pairing.name}</strong>
        <Badge state="warn" text={pairing.state === "confirmed" ? "confirmed there" : "waits for the other side"} />
      </div>
      <p className="small muted">{pairing.address}</p>
      <Code code={pairing.comparisonCode} />
      {pairing.reason !== "" && <p className="small">{pairing.reason}</p>}
      <Problem error={action.error} />
      <div className="actions">
        <button type="button" disabled={action.busy} onClick={() => action.run(() => withdraw(pairing), onChange)}>
          Withdraw
        </button>
        {pairing.confirmed ?
          <span className="small muted">Compared here.</span> :
          (
            <button
              type="button"
              className="primary"
              disabled={action.busy}
              onClick={() => action.run(() => confirmOutgoing(pairing), onChange)}
            >
              The digits are the same
            </button>
          )}
      </div>
    </section>
  )
}
