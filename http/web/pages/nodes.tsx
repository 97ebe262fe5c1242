/** Nodes: this one, the members of its cluster, its peers; pairing with others and the end of it. */
import type { FederationNode } from "#schema/federation.ts"
import { useState } from "react"
import { incomingRequests, listNodes, orderNodes, outgoingPairings, unpair } from "../api-nodes.ts"
import { Confirm, Copyable, useAction } from "../parts/forms.tsx"
import { Icon } from "../parts/icons.tsx"
import { AddressesForm, Incoming, Outgoing, PairForm } from "../parts/node-pairing.tsx"
import { Badge, Empty, Loading, Modal, Problem } from "../parts/notes.tsx"
import { useSession } from "../session.tsx"
import { momentOf } from "../time.ts"
import { useQuery } from "../use-query.ts"

const relations: Readonly<Record<FederationNode["relation"], string>> = {
  self: "this node",
  member: "member of this cluster",
  peer: "paired",
  discovered: "seen on the network",
}
const tones: Readonly<Record<FederationNode["state"], string>> = {
  online: "ok",
  suspect: "warn",
  offline: "fail",
  unknown: "idle",
}

const Self = ({ node }: { readonly node: FederationNode }) => (
  <section className="panel stack" aria-labelledby="self">
    <div className="title">
      <h2 id="self">{node.name}</h2>
      <span className="small muted">this node{node.version === null ? "" : `, Nightjar ${node.version}`}</span>
    </div>
    <p className="small muted">What another node's administrator needs to pair with this one:</p>
    <Copyable label="Id" text={node.nodeId} />
    {node.fingerprint !== null && <Copyable label="Fingerprint" text={node.fingerprint} />}
    {node.address !== null && <Copyable label="Address" text={node.address} />}
  </section>
)

const Other = ({ node, onAddresses, onMove, onUnpair }: {
  readonly node: FederationNode
  /** Null where there is no place above, or one may not. */
  readonly onMove: (() => void) | null
  readonly onAddresses: (() => void) | null
  readonly onUnpair: (() => void) | null
}) => (
  <section className="panel stack" aria-label={node.name}>
    <div className="spread">
      <strong>{node.name}</strong>
      <Badge state={tones[node.state]} text={node.state} />
    </div>
    <div className="facts">
      <span>{relations[node.relation]}</span>
      {node.address !== null && <span className="mono cut">{node.address}</span>}
      {node.addresses.map((address) => <span key={address} className="mono cut">or {address}</span>)}
      {node.lastSeen !== null && <span>heard {momentOf(node.lastSeen)}</span>}
      {node.clockOffsetMs !== null && Math.abs(node.clockOffsetMs) > 2000 && (
        <span>
          its clock is {Math.abs(Math.round(node.clockOffsetMs / 1000))} s {node.clockOffsetMs > 0 ? "ahead" : "behind"}
        </span>
      )}
    </div>
    {node.fingerprint !== null && <p className="small muted mono cut">{node.fingerprint}</p>}
    <div className="actions">
      {onMove !== null && (
        <button type="button" onClick={onMove} aria-label={`Move ${node.name} up`}>
          <Icon name="up" />
        </button>
      )}
      {onAddresses !== null && <button type="button" onClick={onAddresses}>Addresses…</button>}
      {onUnpair !== null && <button type="button" className="danger" onClick={onUnpair}>Unpair</button>}
    </div>
  </section>
)

/** Nodes that announce themselves on the network of this one. */
const Found = ({ nodes, onPair }: {
  readonly nodes: ReadonlyArray<FederationNode>
  /** Null where one may not. */
  readonly onPair: ((node: FederationNode) => void) | null
}) => (
  <section className="panel stack" aria-labelledby="found">
    <h2 id="found">Found on this network</h2>
    <p className="small muted">
      They say so themselves, which proves nothing: who they are shows when the digits are compared.
    </p>
    {nodes.map((node) => (
      <div key={node.nodeId} className="spread" role="group" aria-label={node.name}>
        <div className="facts">
          <strong>{node.name}</strong>
          <span className="mono cut">{node.address}</span>
          {node.version !== null && <span>Nightjar {node.version}</span>}
        </div>
        {onPair !== null && (
          <button type="button" onClick={() => onPair(node)} aria-label={`Pair with ${node.name}`}>Pair</button>
        )}
      </div>
    ))}
  </section>
)

export const NodesPage = () => {
  const { may } = useSession()
  const nodes = useQuery("nodes", listNodes, 5000)
  const incoming = useQuery("pairing-requests", incomingRequests, 5000)
  const outgoing = useQuery("pairings", outgoingPairings, 5000)
  const moving = useAction()
  /** Whom the form is about; `new`: it begins empty. */
  const [asking, setAsking] = useState<FederationNode | "new" | null>(null)
  const [addressing, setAddressing] = useState<FederationNode | null>(null)
  const [leaving, setLeaving] = useState<FederationNode | null>(null)
  const write = may("federation:write")
  const refresh = () => {
    nodes.refresh()
    incoming.refresh()
    outgoing.refresh()
  }
  const open = (one: { readonly state: string }) => one.state === "pending" || one.state === "confirmed"
  const others = nodes.data?.filter((node) => !node.self && node.relation !== "discovered") ?? []
  const found = nodes.data?.filter((node) => node.relation === "discovered") ?? []
  const moveUp = (place: number) => {
    const ids = others.map(({ nodeId }) => nodeId)
    const [moved] = ids.splice(place, 1)
    if (moved !== undefined) ids.splice(place - 1, 0, moved)
    moving.run(() => orderNodes(ids), nodes.refresh)
  }
  return (
    <>
      <div className="head">
        <h1>Nodes</h1>
        {write && (
          <button type="button" className="primary" onClick={() => setAsking("new")}>
            <Icon name="plus" />Pair with a node
          </button>
        )}
      </div>
      <Problem error={nodes.error ?? incoming.error ?? outgoing.error ?? moving.error} />
      {nodes.data === null && nodes.error === null && <Loading lines={4} />}
      {nodes.data !== null && (
        <div className="stack">
          {write &&
            incoming.data?.filter(open).map((one) => <Incoming key={one.id} request={one} onChange={refresh} />)}
          {write &&
            outgoing.data?.filter(open).map((one) => <Outgoing key={one.requestId} pairing={one} onChange={refresh} />)}
          {nodes.data.filter((node) => node.self).map((node) => <Self key={node.nodeId} node={node} />)}
          {others.map((node, place) => (
            <Other
              key={node.nodeId}
              node={node}
              onMove={write && place > 0 ? () => moveUp(place) : null}
              onAddresses={write && node.relation === "peer" ? () => setAddressing(node) : null}
              onUnpair={write && node.relation === "peer" ? () => setLeaving(node) : null}
            />
          ))}
          {others.length === 0 && (
            <Empty icon="nodes" title="No other node yet">
              <p>Paired nodes see each other's cameras, and one can stand in when the other fails.</p>
            </Empty>
          )}
          {found.length > 0 && <Found nodes={found} onPair={write ? setAsking : null} />}
        </div>
      )}
      {asking !== null && (
        <Modal
          title={asking === "new" ? "Pair with a node" : `Pair with ${asking.name}`}
          onClose={() => setAsking(null)}
        >
          <PairForm
            found={asking === "new" ? null : asking}
            onDone={() => {
              setAsking(null)
              refresh()
            }}
          />
        </Modal>
      )}
      {addressing !== null && (
        <Modal title={`Addresses of ${addressing.name}`} onClose={() => setAddressing(null)}>
          <AddressesForm
            node={addressing}
            onDone={() => {
              setAddressing(null)
              refresh()
            }}
          />
        </Modal>
      )}
      {leaving !== null && (
        <Confirm
          title={`Unpair ${leaving.name}?`}
          verb="Unpair"
          act={() => unpair(leaving.nodeId)}
          onDone={() => {
            setLeaving(null)
            refresh()
          }}
        >
          <p>
            Neither node can reach the other's cameras or guard the other from then on. What is open ends at once. To
            undo this the nodes are paired again.
          </p>
        </Confirm>
      )}
    </>
  )
}
