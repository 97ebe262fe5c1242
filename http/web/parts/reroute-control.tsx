/** Who controls the cameras of this node and of those that are served here, until when, and what is refused here meanwhile. */
import type { NodeId } from "#schema/common.ts"
import type { ControlView, FailoverStatus } from "#schema/federation-failover.ts"
import { useState } from "react"
import { takeBackControl } from "../api-reroutes.ts"
import { clockOf } from "../time.ts"
import { Confirm } from "./forms.tsx"
import { Badge } from "./notes.tsx"

const refusedWords: Readonly<Record<ControlView["refused"][number], string>> = {
  device_command: "moving and setting cameras",
  configuration_change: "changes of cameras and recordings",
  recording_deletion: "deleting recordings",
  camera_deletion: "deleting cameras",
  camera_factory_reset: "factory resets",
  license_release: "giving the licence back",
}

const heldWords = ({ holder, until }: ControlView, self: NodeId, nameOf: (id: NodeId) => string) =>
  holder === null ?
    "Nobody has control of these cameras." :
    holder === self ?
    until === null ?
      "This node has control; it does not run out." :
      `This node has control until ${clockOf(until)}, and renews it.` :
    `${nameOf(holder)} has control.`

const One = ({ names, onAsk, self, view }: {
  readonly view: ControlView
  readonly self: NodeId
  readonly names: ReadonlyMap<NodeId, string>
  /** Null: there is nothing to take back, or one may not. */
  readonly onAsk: (() => void) | null
}) => {
  const nameOf = (id: NodeId) => id === self ? "this node" : names.get(id) ?? id
  const { holder, homeNodeId, refused, voters } = view
  const title = homeNodeId === self ? "Cameras of this node" : `Cameras of ${nameOf(homeNodeId)}`
  return (
    <li aria-label={title}>
      <div className="spread">
        <div className="grow">
          <strong>{title}</strong>{" "}
          <Badge
            state={holder === self ? "ok" : "warn"}
            text={holder === self ? "controlled here" : holder === null ? "not controlled" : "controlled elsewhere"}
          />
          <div className="facts">
            <span>{heldWords(view, self, nameOf)}</span>
            {voters.length > 1 && <span>decided by {voters.map(nameOf).join(", ")}</span>}
          </div>
        </div>
        {onAsk !== null && <button type="button" onClick={onAsk}>Take control back</button>}
      </div>
      {refused.length > 0 && (
        <p className="small">Refused here now: {refused.map((what) => refusedWords[what]).join(", ")}.</p>
      )}
    </li>
  )
}

export const Control = ({ allowed, names, onChanged, status: { control } }: {
  readonly status: FailoverStatus
  readonly names: ReadonlyMap<NodeId, string>
  readonly allowed: boolean
  readonly onChanged: () => void
}) => {
  const [asking, setAsking] = useState(false)
  const self = control[0]?.homeNodeId
  if (self === undefined) return null
  return (
    <section className="panel stack" aria-labelledby="control">
      <h2 id="control">Control of cameras</h2>
      <ul className="plain-list">
        {control.map((view) => (
          <One
            key={view.homeNodeId}
            view={view}
            self={self}
            names={names}
            onAsk={allowed && view.homeNodeId === self && view.holder === null && view.voters.length === 2 ?
              () => setAsking(true) :
              null}
          />
        ))}
      </ul>
      {asking && (
        <Confirm
          title="Take control back?"
          verb="The guardian is off"
          act={takeBackControl}
          onDone={(done) => {
            setAsking(false)
            if (done) onChanged()
          }}
        >
          <p>
            This node and its guardian decide together who controls these cameras, and the guardian does not answer. If
            it is off, this node takes control. If it only cannot be reached, both might move the same camera.
          </p>
        </Confirm>
      )}
    </section>
  )
}
