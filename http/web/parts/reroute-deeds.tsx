/** Dialogs of failover: registering a protection, and the question before each deed that changes who serves. */
import { NodeId } from "#schema/common.ts"
import type { Guardian, ProtectionView } from "#schema/federation-failover.ts"
import type { FederationNode, ProtectionClass } from "#schema/federation.ts"
import { type ReactNode, useState } from "react"
import {
  discardChanges,
  failBack,
  failBackWithout,
  grantGuardian,
  holdDrill,
  protect,
  refreshSnapshot,
  release,
  takeOver,
} from "../api-reroutes.ts"
import { classWords, serves } from "../reroute-words.ts"
import { lengthOf } from "../time.ts"
import { Check, Confirm, Field, Form, NumberField, useAction } from "./forms.tsx"
import { Modal } from "./notes.tsx"

export type Deed = "takeover" | "failback" | "failbackWithout" | "discard" | "drill" | "snapshot" | "release"

const classes: ReadonlyArray<ProtectionClass> = ["warm", "shadow", "liveOnly"]

/** `nodes`: those that nobody has chosen to guard yet. */
export const ProtectDialog = ({ nodes, onDone }: {
  readonly nodes: ReadonlyArray<FederationNode>
  readonly onDone: (done: boolean) => void
}) => {
  const action = useAction()
  const [nodeId, setNodeId] = useState<string>(nodes[0]?.nodeId ?? "")
  const [kind, setKind] = useState<ProtectionClass>("warm")
  const [automatic, setAutomatic] = useState(true)
  const [rank, setRank] = useState(0)
  const submit = () =>
    action.run(() => protect({ nodeId: NodeId.make(nodeId), automatic, class: kind, rank }), () => onDone(true))
  return (
    <Modal title="Guard a node" onClose={() => onDone(false)}>
      <Form action={action} verb="Guard it" onSubmit={submit} onCancel={() => onDone(false)}>
        <Field label="Node" hint="This node stands in for it once its administrator has allowed it.">
          <select value={nodeId} required onChange={(event) => setNodeId(event.target.value)}>
            {nodes.map((node) => <option key={node.nodeId} value={node.nodeId}>{node.name}</option>)}
          </select>
        </Field>
        <Field label="Class" hint={classWords[kind][1]}>
          <select
            value={kind}
            onChange={(event) => setKind(classes.find((one) => one === event.target.value) ?? "warm")}
          >
            {classes.map((one) => <option key={one} value={one}>{classWords[one][0]}</option>)}
          </select>
        </Field>
        <Check
          label="Take over by itself when the node falls silent"
          hint="Otherwise only when somebody says so here."
          checked={automatic}
          onChange={setAutomatic}
        />
        <NumberField
          label="Rank"
          min={0}
          max={7}
          value={rank}
          onChange={setRank}
          hint="Among several guardians of that node, 0 is the first in turn."
        />
      </Form>
    </Modal>
  )
}

interface Asking {
  readonly one: ProtectionView
  readonly onDone: (done: boolean) => void
}

const TakeoverDialog = ({ one, onDone }: Asking) => {
  const action = useAction()
  const serving = serves(one.state)
  const [off, setOff] = useState(false)
  return (
    <Modal
      title={serving ? `Take control of ${one.name}'s cameras?` : `Take over ${one.name}?`}
      onClose={() => onDone(false)}
    >
      <Form
        action={action}
        verb={serving ? "Take control" : "Take over"}
        disabled={serving && !off}
        onSubmit={() => action.run(() => takeOver(one, off), () => onDone(true))}
        onCancel={() => onDone(false)}
      >
        {!serving && (
          <p>
            This node records the cameras of {one.name}{" "}
            at once, whether that node answers or not. Its footage goes home afterwards.
          </p>
        )}
        {one.silenceMs !== null && (
          <p className="small muted">{one.name} was last heard {lengthOf(one.silenceMs)} ago.</p>
        )}
        <Check
          label={`The home node is off: I have made sure that ${one.name} does not run`}
          hint="Control of its cameras moves here with this statement (PTZ, settings). Two nodes that both control a camera contradict each other: leave it out if you do not know."
          checked={off}
          onChange={setOff}
        />
      </Form>
    </Modal>
  )
}

interface Question {
  readonly title: (name: string) => string
  readonly verb: string
  readonly act: (one: ProtectionView) => Promise<unknown>
  readonly text: (name: string) => ReactNode
}

const questions: Readonly<Record<Exclude<Deed, "takeover">, Question>> = {
  failback: {
    title: (name) => `Give ${name} its cameras back?`,
    verb: "Fail back",
    act: failBack,
    text: (name) =>
      `As soon as ${name} answers, it serves its cameras again. Both nodes record for a moment; then the footage of this one goes home.`,
  },
  failbackWithout: {
    title: (name) => `Give ${name} its cameras back without what was changed here?`,
    verb: "Fail back without them",
    act: failBackWithout,
    text: (name) =>
      `${name} serves its cameras again with the configuration that it has. What was changed here is kept, and follows as soon as ${name} can fetch it; a camera whose password was changed here may not be recorded until then.`,
  },
  discard: {
    title: (name) => `Discard what was changed of ${name}'s cameras here?`,
    verb: "Discard",
    act: discardChanges,
    text: (name) =>
      `These changes never reach ${name}. What they were stays in the audit log, without passwords. Do this only where ${name} cannot fetch them.`,
  },
  drill: {
    title: (name) => `Hold a drill with ${name}?`,
    verb: "Hold the drill",
    act: holdDrill,
    text: (name) =>
      `This node serves the cameras of ${name} for a short time, which goes on recording meanwhile, and gives them back by itself. Each camera is opened a second time. The measured gap is shown here afterwards.`,
  },
  snapshot: {
    title: (name) => `Fetch the configuration of ${name} now?`,
    verb: "Refresh",
    act: refreshSnapshot,
    text: () => "It is also fetched by itself whenever it changes.",
  },
  release: {
    title: (name) => `Release the protection of ${name}?`,
    verb: "Release",
    act: release,
    text: (name) =>
      `This node does not stand in for ${name} any more. What it serves is given back first, and its footage goes home; then the other node's configuration is deleted here.`,
  },
}

export const DeedDialog = ({ deed, ...asking }: Asking & { readonly deed: Deed }) => {
  if (deed === "takeover") return <TakeoverDialog {...asking} />
  const { one, onDone } = asking
  const { act, text, title, verb } = questions[deed]
  return (
    <Confirm title={title(one.name)} verb={verb} act={() => act(one)} onDone={onDone}>
      <p>{text(one.name)}</p>
    </Confirm>
  )
}

export const GrantDialog = ({ guardian, onDone }: {
  readonly guardian: Guardian
  readonly onDone: (done: boolean) => void
}) => {
  const { granted, name } = guardian
  return (
    <Confirm
      title={granted ? `No longer let ${name} guard this node?` : `Let ${name} guard this node?`}
      verb={granted ? "Withdraw" : "Allow"}
      act={() => grantGuardian(guardian, !granted)}
      onDone={onDone}
    >
      <p>
        {granted ?
          `${name} gets no configuration any more. It was given passwords of cameras: change those that are named then.` :
          `${name} gets the configuration of this node with the passwords of its cameras, encrypted to it alone, and records them when this node falls silent.`}
      </p>
    </Confirm>
  )
}
