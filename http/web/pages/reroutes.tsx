/**
 * Failover: who guards whom, whether it would fit, what is served elsewhere at the moment and how its footage comes home; and
 * what an administrator may do about it.
 *
 * Invariant
 * 1. Nothing changes who serves, or who is trusted, without a question before it.
 */
import type { NodeId } from "#schema/common.ts"
import type { Guardian, ProtectionView } from "#schema/federation-failover.ts"
import type { RecordBackJob } from "#schema/federation-recordback.ts"
import { useState } from "react"
import { steer } from "../api-reroutes.ts"
import { Confirm } from "../parts/forms.tsx"
import { Icon } from "../parts/icons.tsx"
import { Badge, Empty, Loading, Problem } from "../parts/notes.tsx"
import { Capacity } from "../parts/reroute-capacity.tsx"
import { Conflicts } from "../parts/reroute-conflicts.tsx"
import { Control } from "../parts/reroute-control.tsx"
import { type Deed, DeedDialog, GrantDialog, ProtectDialog } from "../parts/reroute-deeds.tsx"
import { DemoPanel } from "../parts/reroute-demo.tsx"
import { Guardians } from "../parts/reroute-guardians.tsx"
import { RerouteLog, Reroutes, type Verb } from "../parts/reroute-list.tsx"
import { Overview } from "../parts/reroute-picture.tsx"
import { Protections } from "../parts/reroute-protections.tsx"
import { RerouteSettings } from "../parts/reroute-settings.tsx"
import { useSession } from "../session.tsx"
import { useReroutes } from "../use-reroutes.ts"

type Open =
  | { readonly kind: "protect" }
  | { readonly kind: "deed"; readonly one: ProtectionView; readonly deed: Deed }
  | { readonly kind: "grant"; readonly guardian: Guardian }
  | { readonly kind: "steer"; readonly job: RecordBackJob; readonly verb: Verb }

const steering: Readonly<Record<Verb, readonly [title: string, verb: string, text: string]>> = {
  pause: [
    "Pause the record-back?",
    "Pause",
    "What came home stays there; the rest waits on this node until somebody resumes it, also over restarts.",
  ],
  resume: ["Resume the record-back?", "Resume", "It goes on at the segment where it was."],
  retry: ["Try the record-back again?", "Try again", "At once, and for all that is not home yet."],
}

const SteerDialog = ({ job, onDone, verb }: {
  readonly job: RecordBackJob
  readonly verb: Verb
  readonly onDone: (done: boolean) => void
}) => {
  const [title, button, text] = steering[verb]
  return (
    <Confirm title={title} verb={button} act={() => steer(job, verb)} onDone={onDone}>
      <p>{text}</p>
    </Confirm>
  )
}

const badges = {
  none: ["idle", "nothing guarded here"],
  ready: ["ok", "ready"],
  attention: ["warn", "needs attention"],
  serving: ["fail", "cameras are served elsewhere than at home"],
} as const

export const ReroutesPage = () => {
  const { may } = useSession()
  const [open, setOpen] = useState<Open | null>(null)
  const { conflicts, deadMs, error, guardians, jobs, log, nodes, protections, pulse, refresh, reroutes, status } =
    useReroutes(may("notification:read"))
  const write = may("federation:write")
  // What is guarded by itself may be chosen otherwise.
  const unguarded = (nodes ?? []).filter((node) =>
    (node.relation === "peer" || node.relation === "member") &&
    !protections?.some(({ nodeId, sources }) => nodeId === node.nodeId && sources.protection === "set")
  )
  const done = (changed: boolean) => {
    setOpen(null)
    if (changed) refresh()
  }
  const names = new Map<NodeId, string>(
    [...(protections ?? []), ...(guardians ?? []), ...(nodes ?? [])].map(({ name, nodeId }) => [nodeId, name]),
  )
  const known = deadMs !== null && nodes !== null && protections !== null && guardians !== null
  const alone = known && protections.length === 0 && guardians.length === 0
  return (
    <>
      <div className="head">
        <div className="summary">
          <h1>Failover</h1>
          {status !== null && <Badge state={badges[status.badge][0]} text={badges[status.badge][1]} />}
        </div>
        {write && unguarded.length > 0 && (
          <button
            type="button"
            className="primary"
            onClick={() => setOpen({ kind: "protect" })}
          >
            <Icon name="plus" />Guard a node
          </button>
        )}
      </div>
      <Problem error={error} />
      {!known && error === null && <Loading lines={5} />}
      {known && (
        <div className="stack">
          {alone ?
            (
              <Empty icon="reroutes" title="No node guards another yet">
                <p>
                  {unguarded.length > 0 ?
                    "Choose “Guard a node” here: this node then records that one's cameras when it fails, once the administrator there has allowed it. On the other node the same makes it a guardian of this one." :
                    "A node that is paired with this one, or a member of its cluster, can record its cameras when it fails, and the footage comes home afterwards. Pair with a node first."}
                </p>
                {unguarded.length === 0 && <a className="button" href="#/nodes">Go to the nodes</a>}
              </Empty>
            ) :
            (
              <Overview
                nodes={nodes}
                protections={protections}
                guardians={guardians}
                status={status}
                pulse={pulse}
                deadMs={deadMs}
              />
            )}
          {status !== null && !alone && <Control status={status} names={names} allowed={write} onChanged={refresh} />}
          <DemoPanel
            self={nodes.find((node) => node.self)?.nodeId ?? null}
            allowed={write}
            onChange={refresh}
          />
          <Protections
            protections={protections}
            allowed={write}
            onDeed={(one, deed) => setOpen({ kind: "deed", one, deed })}
          />
          {guardians.length > 0 && (
            <Guardians
              guardians={guardians}
              allowed={write}
              onAsk={(guardian) => setOpen({ kind: "grant", guardian })}
            />
          )}
          {conflicts !== null && (guardians.length > 0 || conflicts.length > 0) && (
            <Conflicts
              conflicts={conflicts}
              total={Math.max(status?.conflicts ?? 0, conflicts.length)}
              names={names}
              allowed={write}
              onDecided={refresh}
            />
          )}
          {status !== null && protections.length > 0 && <Capacity status={status} protections={protections} />}
          {reroutes !== null && (protections.length > 0 || reroutes.length > 0) && (
            <Reroutes
              reroutes={reroutes}
              jobs={jobs ?? []}
              protections={protections}
              names={names}
              allowed={write}
              onSteer={(job, verb) => setOpen({ kind: "steer", job, verb })}
            />
          )}
          <RerouteLog log={log} />
          <RerouteSettings />
        </div>
      )}
      {open?.kind === "protect" && <ProtectDialog nodes={unguarded} onDone={done} />}
      {open?.kind === "deed" && <DeedDialog one={open.one} deed={open.deed} onDone={done} />}
      {open?.kind === "grant" && <GrantDialog guardian={open.guardian} onDone={done} />}
      {open?.kind === "steer" && <SteerDialog job={open.job} verb={open.verb} onDone={done} />}
    </>
  )
}
