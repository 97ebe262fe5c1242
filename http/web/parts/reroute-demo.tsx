/**
 * In a demo of several nodes, and nowhere else: kill one of them, watch the others stand in for it, bring it back.
 *
 * Invariants
 * 1. A node is killed only after a question; the one that serves this page says so first, and where to look on.
 * 2. Outside of a demo this is asked once and shows nothing.
 */
import type { NodeId } from "#schema/common.ts"
import type { DemoNode } from "#schema/federation-demo.ts"
import { useState } from "react"
import { call } from "../api.ts"
import { useQuery } from "../use-query.ts"
import { Confirm, useAction } from "./forms.tsx"
import { Badge, Problem } from "./notes.tsx"

const listDemoNodes = async () => (await call((api) => api.federationDemo.demoNodes())).items
const kill = ({ nodeId }: DemoNode) => call((api) => api.federationDemo.killDemoNode({ params: { nodeId } }))
const start = ({ nodeId }: DemoNode) => call((api) => api.federationDemo.startDemoNode({ params: { nodeId } }))

const everyMs = 5000

const KillDialog = ({ node, onDone, others, self }: {
  readonly node: DemoNode
  readonly self: boolean
  readonly others: ReadonlyArray<DemoNode>
  readonly onDone: () => void
}) => (
  <Confirm title={`Kill ${node.name}?`} verb="Kill it" act={() => kill(node)} onDone={onDone}>
    <p>
      Its process ends at once (kill -9), as if somebody had pulled the plug. Its guardian notices within three seconds
      and records its cameras.
    </p>
    {self && (
      <p>
        It is the node that serves this page, which then goes silent. Open the dashboard of another node first:{" "}
        {others.map(({ address, name, nodeId }, at) => (
          <span key={nodeId}>
            {at > 0 && ", "}
            <a href={`${address}/#/reroutes`} target="_blank" rel="noreferrer">{name}</a>
          </span>
        ))}.
      </p>
    )}
  </Confirm>
)

const Row = ({ node, onKill, onStarted, self }: {
  readonly node: DemoNode
  readonly self: boolean
  readonly onKill: () => void
  readonly onStarted: () => void
}) => {
  const action = useAction()
  const { address, name, running } = node
  return (
    <li className="stack">
      <div className="spread">
        <div className="row">
          <strong>{name}</strong>
          <Badge state={running ? "ok" : "fail"} text={running ? "running" : "killed"} />
          {self ?
            <span className="small muted">this page</span> :
            <a className="small" href={`${address}/#/reroutes`} target="_blank" rel="noreferrer">its dashboard</a>}
        </div>
        {running ?
          <button type="button" className="danger" aria-label={`Kill ${name}`} onClick={onKill}>Kill</button> :
          (
            <button
              type="button"
              disabled={action.busy}
              aria-label={`Bring it back: ${name}`}
              onClick={() => action.run(() => start(node), onStarted)}
            >
              Bring it back
            </button>
          )}
      </div>
      <Problem error={action.error} />
    </li>
  )
}

/** `self`: the node that serves the page. `onChange`: a node was killed or started. */
export const DemoPanel = ({ allowed, onChange, self }: {
  readonly self: NodeId | null
  readonly allowed: boolean
  readonly onChange: () => void
}) => {
  const once = useQuery("demo", listDemoNodes, 0, allowed)
  const isDemo = once.data !== null && once.data.length > 0
  const { data, refresh } = useQuery("demo-nodes", listDemoNodes, everyMs, isDemo)
  const [asked, setAsked] = useState<DemoNode | null>(null)
  const nodes = data ?? once.data ?? []
  if (!isDemo) return null
  const changed = () => {
    refresh()
    onChange()
  }
  return (
    <section className="panel stack" aria-labelledby="demo">
      <h2 id="demo">Demo</h2>
      <p className="small muted">
        These nodes are processes of one machine. Kill one and watch its guardian take over; bring it back, and its
        footage comes home.
      </p>
      <ul className="plain-list">
        {nodes.map((node) => (
          <Row
            key={node.nodeId}
            node={node}
            self={node.nodeId === self}
            onKill={() => setAsked(node)}
            onStarted={changed}
          />
        ))}
      </ul>
      {asked !== null && (
        <KillDialog
          node={asked}
          self={asked.nodeId === self}
          others={nodes.filter(({ nodeId, running }) => running && nodeId !== asked.nodeId)}
          onDone={() => {
            setAsked(null)
            changed()
          }}
        />
      )}
    </section>
  )
}
