/**
 * What the page of failover shows: asked for when events tell of a change, every five seconds besides, and kept for a while
 * where only the course over time says something.
 *
 * Invariants
 * 1. Events come by a channel of their own that begins with the oldest kept; at most {@link mostEvents} are remembered.
 * 2. Many events at once are one question: asked at most twice a second.
 * 3. What is drawn of the past was answered by the node while the page was open; nothing is filled in.
 */
import type { NodeId } from "#schema/common.ts"
import type { EventEnvelope } from "#schema/event.ts"
import type { ProtectionView } from "#schema/federation-failover.ts"
import type { FederationNode } from "#schema/federation.ts"
import { useEffect, useRef, useState } from "react"
import { listNodes } from "./api-nodes.ts"
import {
  failoverSettings,
  failoverStatus,
  listConflicts,
  listGuardians,
  listProtections,
  listRecordBacks,
  listReroutes,
} from "./api-reroutes.ts"
import { type ChannelState, openChannel } from "./live-channel.ts"
import { useQuery } from "./use-query.ts"

const mostEvents = 200
const pause = 500
/** Five minutes of answers. */
const mostSamples = 60

const types = ["failover.*", "federation.*"]

export interface EventLog {
  /** Newest first. */
  readonly events: ReadonlyArray<EventEnvelope>
  readonly state: ChannelState
}

/** `onChange`: something happened, or may have been missed. */
const useEvents = (allowed: boolean, onChange: () => void): EventLog => {
  const [events, setEvents] = useState<ReadonlyArray<EventEnvelope>>([])
  const [state, setState] = useState<ChannelState>("connecting")
  const change = useRef(onChange)
  change.current = onChange
  useEffect(() => {
    if (!allowed) return
    let timer = 0
    let waiting: Array<EventEnvelope> = []
    const soon = () => {
      if (timer !== 0) return
      timer = window.setTimeout(() => {
        timer = 0
        const came = waiting.toReversed()
        waiting = []
        setEvents((old) => [...came, ...old].slice(0, mostEvents))
        change.current()
      }, pause)
    }
    const close = openChannel({
      onState: setState,
      onReset: soon,
      onEvent: (event) => {
        waiting = [...waiting, event].slice(-mostEvents)
        soon()
      },
    }, { types, fromEarliest: true })
    return () => {
      close()
      window.clearTimeout(timer)
    }
  }, [allowed])
  return { events, state }
}

interface Sample {
  readonly at: number
  readonly state: FederationNode["state"]
  /** Since its last sign, where that is known. */
  readonly silenceMs: number | null
}
export type Pulse = ReadonlyMap<NodeId, ReadonlyArray<Sample>>

/** Each answer about the nodes is a sample of each. */
const usePulse = (
  nodes: ReadonlyArray<FederationNode> | null,
  protections: ReadonlyArray<ProtectionView> | null,
): Pulse => {
  const [pulse, setPulse] = useState<Pulse>(new Map())
  const guarded = useRef(protections)
  guarded.current = protections
  useEffect(() => {
    if (nodes === null) return
    const self = nodes.find((node) => node.self)?.lastSeen ?? null
    setPulse((old) =>
      new Map(
        nodes.filter((node) => !node.self).map(({ lastSeen, nodeId, state }) => {
          // Both by this node's clock: its own entry is of the moment of the answer.
          const seen = self === null || lastSeen === null ? null : Math.max(0, self - lastSeen)
          const silenceMs = guarded.current?.find((one) => one.nodeId === nodeId)?.silenceMs ?? seen
          return [nodeId, [...(old.get(nodeId) ?? []), { at: Date.now(), state, silenceMs }].slice(-mostSamples)]
        }),
      )
    )
  }, [nodes])
  return pulse
}

export const useReroutes = (mayFollow: boolean) => {
  const nodes = useQuery("nodes", listNodes, 5000)
  const status = useQuery("failover-status", failoverStatus, 5000)
  const protections = useQuery("protections", listProtections, 5000)
  const guardians = useQuery("guardians", listGuardians, 5000)
  const reroutes = useQuery("reroutes", listReroutes, 5000)
  const jobs = useQuery("recordbacks", listRecordBacks, 5000)
  const conflicts = useQuery("failover-conflicts", listConflicts, 5000)
  const settings = useQuery("failover-settings", failoverSettings, 60_000)
  const all = [nodes, status, protections, guardians, reroutes, jobs, conflicts]
  const refresh = () => all.forEach((one) => one.refresh())
  const log = useEvents(mayFollow, refresh)
  return {
    nodes: nodes.data,
    status: status.data,
    protections: protections.data,
    guardians: guardians.data,
    reroutes: reroutes.data,
    jobs: jobs.data,
    conflicts: conflicts.data,
    error: all.find(({ error }) => error !== null)?.error ?? null,
    refresh,
    log,
    /** Silence after which a node counts as dead; null before it is known. */
    deadMs: settings.data?.settings.deadMs ?? null,
    pulse: usePulse(nodes.data, protections.data),
  }
}
