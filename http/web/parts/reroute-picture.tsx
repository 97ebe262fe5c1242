/** The picture of nodes and who guards whom; beneath it, how each was heard while the page was open. */
import type { NodeId } from "#schema/common.ts"
import type { FailoverStatus, Guardian, ProtectionView } from "#schema/federation-failover.ts"
import type { FederationNode } from "#schema/federation.ts"
import { useEffect, useRef, useState } from "react"
import { type Box, drawingOf, relationsOf } from "../reroute-drawing.ts"
import { nodeWords } from "../reroute-words.ts"
import { clockOf, lengthOf } from "../time.ts"
import type { Pulse } from "../use-reroutes.ts"
import { Badge } from "./notes.tsx"

const shorter = (name: string, width: number): string => {
  const most = Math.max(4, Math.floor((width - 30) / 9))
  return name.length <= most ? name : `${name.slice(0, most - 1)}…`
}

const NodeBox = ({ box: { height, node, width, x, y } }: { readonly box: Box }) => {
  const [tone, words] = nodeWords[node.state]
  return (
    <g transform={`translate(${x} ${y})`} className={`node ${node.self ? "self" : ""}`}>
      <rect width={width} height={height} rx="10" />
      <text className="name" x="14" y="25">{shorter(node.name, width)}</text>
      <circle className={`tone-${tone}`} cx="19" cy="42" r="4.5" />
      <text className="state" x="30" y="46.5">{node.self ? "this node" : words}</text>
    </g>
  )
}

/** The width that there is, followed as it changes; 0 before it is known. */
const useWidth = () => {
  const [width, setWidth] = useState(0)
  const place = useRef<HTMLDivElement>(null)
  useEffect(() => {
    if (place.current === null) return
    const observer = new ResizeObserver((entries) => setWidth(Math.floor(entries[0]?.contentRect.width ?? 0)))
    observer.observe(place.current)
    return () => observer.disconnect()
  }, [])
  return [place, width] as const
}

interface Props {
  readonly nodes: ReadonlyArray<FederationNode>
  readonly protections: ReadonlyArray<ProtectionView>
  readonly guardians: ReadonlyArray<Guardian>
  readonly status: FailoverStatus | null
}

const ReroutePicture = ({ guardians, nodes, protections, status }: Props) => {
  const [place, width] = useWidth()
  const self = nodes.find((node) => node.self)?.name ?? "this node"
  const relations = relationsOf(self, protections, guardians, status?.servedBy ?? null)
  const names = new Map<NodeId, string>([...protections, ...guardians].map(({ name, nodeId }) => [nodeId, name]))
  const drawing = width === 0 ? null : drawingOf(width, nodes, relations, names)
  return (
    <div ref={place} className="reroute-picture">
      {drawing !== null && (
        <svg
          role="img"
          aria-label={relations.map(({ sentence }) => sentence).join(" ") || "No node guards another."}
          width={drawing.width}
          height={drawing.height}
          viewBox={`0 0 ${drawing.width} ${drawing.height}`}
        >
          <defs>
            {(["ok", "warn", "fail", "idle"] as const).map((tone) => (
              <marker
                key={tone}
                id={`arrow-${tone}`}
                viewBox="0 0 10 10"
                refX="9"
                refY="5"
                markerWidth="8"
                markerHeight="8"
                markerUnits="userSpaceOnUse"
                orient="auto"
              >
                <path d="M0 0 10 5 0 10z" className={`tone-${tone}`} />
              </marker>
            ))}
          </defs>
          {drawing.lines.map(({ points, relation, text }) => (
            <g key={`${relation.direction} ${relation.nodeId}`} className={relation.active ? "active" : ""}>
              <polyline
                className={`edge tone-${relation.tone}`}
                points={points.map(([x, y]) =>
                  `${x},${y}`
                ).join(" ")}
                markerEnd={`url(#arrow-${relation.tone})`}
              />
              <text className={`edge-text tone-${relation.tone}`} x={text.x} y={text.y} textAnchor={text.anchor}>
                {relation.label}
              </text>
            </g>
          ))}
          {drawing.boxes.map((box) => <NodeBox key={box.node.nodeId} box={box} />)}
        </svg>
      )}
    </div>
  )
}

const height = 26
const step = 5

/** One bar an answer: its colour the state, its height the silence before it, as a part of what counts as dead. */
const Sparkline = ({ deadMs, name, samples }: {
  readonly name: string
  readonly deadMs: number
  readonly samples: Pulse extends ReadonlyMap<unknown, infer S> ? S : never
}) => {
  const last = samples.at(-1)
  if (last === undefined) return null
  const words = `${name}: ${nodeWords[last.state][1]}${
    last.silenceMs === null ? "" : `, last heard ${lengthOf(last.silenceMs)} ago`
  }`
  return (
    <li className="spread">
      <span className="grow cut">{words}</span>
      <svg role="img" aria-label={`${words}; since ${clockOf(samples[0]!.at)}`} width={60 * step} height={height}>
        <line x1="0" x2={60 * step} y1={height - 0.5} y2={height - 0.5} className="base" />
        {samples.map(({ at, silenceMs, state }, index) => {
          const share = silenceMs === null ? 1 : Math.min(1, silenceMs / deadMs)
          const tall = Math.max(3, share * height)
          return (
            <rect
              key={at}
              className={`tone-${nodeWords[state][0]}`}
              x={(60 - samples.length + index) * step}
              y={height - tall}
              width={step - 1}
              height={tall}
            />
          )
        })}
      </svg>
      <Badge state={nodeWords[last.state][0]} text={nodeWords[last.state][1]} />
    </li>
  )
}

export const Overview = ({ deadMs, pulse, ...props }: Props & { readonly pulse: Pulse; readonly deadMs: number }) => (
  <section className="panel stack" aria-labelledby="who">
    <h2 id="who">Who guards whom</h2>
    <ReroutePicture {...props} />
    <details open>
      <summary>Silence of each node since this page was opened</summary>
      <ul className="plain-list pulse-list small">
        {props.nodes.filter(({ nodeId }) => pulse.has(nodeId)).map(({ name, nodeId }) => (
          <Sparkline key={nodeId} name={name} deadMs={deadMs} samples={pulse.get(nodeId) ?? []} />
        ))}
      </ul>
      <p className="small muted">
        A bar an answer, the newest at the right; its height is how long the node had been silent, at the top{" "}
        {lengthOf(deadMs)} and more, after which it counts as dead.
      </p>
    </details>
  </section>
)
