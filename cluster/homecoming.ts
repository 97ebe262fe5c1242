/**
 * The home node's side of a failover: what it asks when it starts, when it takes its slot back, and whom it believes. A pure
 * function like `protection.ts`. Its recordings do not wait for any of it.
 *
 * Invariants
 * 1. Its epoch only grows: to one more than the last turn of a guardian, when that one gives back, or when nobody who might still
 *    serve was heard for `reclaimMs`.
 * 2. Only a guardian that was granted may give back, and no number may be missing between the home node's epoch and what it is
 *    asked to serve with.
 * 3. A node that was replaced by new hardware knows no number. It believes its guardians and voters, until it changed its number
 *    after every guardian was heard: one that was away may have had a later turn than all that was told before.
 *    So does one that was restored from a backup: others heard it serve with a number that it does not know any more.
 * 4. What is asked twice is answered twice alike: a guardian whose turn is behind the home node's epoch is told that epoch.
 */
import { NodeId } from "#schema/common.ts"
import { type RerouteStatus, Turn } from "#schema/federation-protection.ts"
import { Effect, Schema } from "effect"
import { lastRun, unite } from "./turns.ts"

/** Kept on disk. */
export const Homecoming = Schema.Struct({
  self: NodeId,
  /** Nodes that may guard this one, at present or when they took their turn. */
  guardians: Schema.Array(NodeId),
  /** With which this node serves its own slot. */
  epoch: Schema.Int,
  /** Takeovers since. */
  turns: Schema.Array(Turn),
  askAtMs: Schema.Finite,
  /** Until then the guardians are asked although no turn is known: this process is new. */
  newUntilMs: Schema.Finite,
  /** When a guardian that serves was last heard; the start of this process, if none was. */
  servedAtMs: Schema.Finite,
  raising: Schema.NullOr(Schema.Int),
  /** Its number was not settled yet: it is new, or was replaced. */
  fresh: Schema.Boolean,
  /** While it is fresh: guardians that told what they know. */
  heard: Schema.Array(NodeId).pipe(Schema.withDecodingDefaultKey(Effect.succeed([]))),
  /** While it is fresh: what others say was in force before the turns they tell of. */
  behind: Schema.Int,
})
export type Homecoming = typeof Homecoming.Type

export interface HomecomingSettings {
  readonly askMs: number
  readonly reclaimMs: number
}
export const defaultHomecoming: HomecomingSettings = { askMs: 1_000, reclaimMs: 30_000 }

export type HomecomingEvent =
  | { readonly type: "started" }
  | { readonly type: "tick" }
  | { readonly type: "guardians"; readonly guardians: ReadonlyArray<NodeId> }
  | { readonly type: "answered"; readonly status: RerouteStatus }
  /** A voter refused the lease and named later turns. */
  | { readonly type: "leaseDenied"; readonly inForce: number; readonly turns: ReadonlyArray<Turn> }
  | { readonly type: "giveBack"; readonly from: NodeId; readonly epoch: number; readonly turns: ReadonlyArray<Turn> }
  | { readonly type: "raised"; readonly epoch: number }
  | { readonly type: "raiseFailed" }

export type HomecomingCommand =
  /** `GET reroute-status` of each guardian; each answer is `answered`. No outcome of its own. */
  | { readonly type: "askGuardians" }
  /** The slot's epoch grows to this here; captures go on with it, and the lease is wanted with it. Outcome `raised` or `raiseFailed`. */
  | { readonly type: "raise"; readonly epoch: number }
  /** Agree to what this guardian asked, once the epoch is in force. */
  | { readonly type: "agree"; readonly to: NodeId; readonly epoch: number }
  | {
    readonly type: "refuse"
    readonly to: NodeId
    readonly code: "not_granted" | "epoch_skipped"
    readonly inForce: number
  }

interface Next {
  readonly state: Homecoming
  readonly commands: ReadonlyArray<HomecomingCommand>
}

/** A home node that never had a guardian. */
export const homecoming = (self: NodeId, epoch: number, nowMs: number): Homecoming => ({
  self,
  guardians: [],
  epoch,
  turns: [],
  askAtMs: nowMs,
  newUntilMs: nowMs,
  servedAtMs: nowMs,
  raising: null,
  fresh: true,
  heard: [],
  behind: 0,
})

const last = (state: Homecoming): number => state.turns.at(-1)?.epoch ?? 0
/** A guardian took a turn that has not come back. */
export const isRerouted = (state: Homecoming): boolean => last(state) > state.epoch

const believe = (state: Homecoming, from: NodeId | null, inForce: number, turns: ReadonlyArray<Turn>): Homecoming => {
  if (!state.fresh) return state
  const before = (lastRun(turns)[0]?.epoch ?? inForce + 1) - 1
  const heard = from === null || state.heard.includes(from) ? state.heard : [...state.heard, from]
  return { ...state, heard, behind: Math.max(state.behind, before) }
}

/** Its memory is older than others' of it. */
const restored = (state: Homecoming, { homeServed = 0 }: RerouteStatus): Homecoming =>
  homeServed <= Math.max(state.epoch, state.behind, state.raising ?? 0) ?
    state :
    { ...state, fresh: true, heard: state.fresh ? state.heard : [], behind: homeServed }

/** Nobody can tell of a later turn any more. */
const isSettled = ({ behind, guardians, heard }: Homecoming, epoch: number): boolean =>
  epoch >= behind && guardians.length > 0 && guardians.every((one) => heard.includes(one))

const raised = (state: Homecoming, told: number): Homecoming => {
  const epoch = Math.max(state.epoch, told)
  const turns = unite(state.turns, [], epoch)
  return state.fresh && !isSettled(state, epoch) ?
    { ...state, raising: null, epoch, turns } :
    { ...state, raising: null, epoch, turns, fresh: false, heard: [], behind: 0 }
}

const learnt = (state: Homecoming, told: ReadonlyArray<Turn>): Homecoming => {
  const known = told.filter((turn) => state.guardians.includes(turn.nodeId))
  return { ...state, turns: unite(state.turns, lastRun(known), Math.max(state.epoch, state.behind)) }
}

const giveBack = (
  before: Homecoming,
  event: Extract<HomecomingEvent, { readonly type: "giveBack" }>,
  nowMs: number,
): Next => {
  const { epoch, from, turns } = event
  if (!before.guardians.includes(from)) {
    return { state: before, commands: [{ type: "refuse", to: from, code: "not_granted", inForce: before.epoch }] }
  }
  if (epoch <= before.epoch) return { state: before, commands: [{ type: "agree", to: from, epoch: before.epoch }] }
  const state = { ...learnt(believe(before, from, epoch - 1, turns), turns), servedAtMs: nowMs }
  const taken = new Set(state.turns.map((turn) => turn.epoch))
  for (let number = Math.max(state.epoch, state.behind) + 1; number < epoch; number++) {
    if (!taken.has(number)) {
      return { state, commands: [{ type: "refuse", to: from, code: "epoch_skipped", inForce: state.epoch }] }
    }
  }
  const to = Math.max(epoch, last(state) + 1)
  return {
    state: { ...state, raising: to },
    commands: [{ type: "raise", epoch: to }, { type: "agree", to: from, epoch: to }],
  }
}

const absorb = (state: Homecoming, event: HomecomingEvent, settings: HomecomingSettings, nowMs: number): Homecoming => {
  switch (event.type) {
    case "started":
      return { ...state, askAtMs: nowMs, newUntilMs: nowMs + settings.reclaimMs, servedAtMs: nowMs, raising: null }
    case "guardians":
      return { ...state, guardians: event.guardians }
    case "answered": {
      if (event.status.homeNodeId !== state.self || !state.guardians.includes(event.status.nodeId)) return state
      const next = learnt(
        believe(restored(state, event.status), event.status.nodeId, event.status.epoch, event.status.turns),
        event.status.turns,
      )
      return event.status.phase === "none" ? next : { ...next, servedAtMs: nowMs }
    }
    case "leaseDenied":
      return learnt(believe(state, null, event.inForce, event.turns), event.turns)
    case "raised":
      return raised(state, event.epoch)
    case "raiseFailed":
      return { ...state, raising: null, servedAtMs: nowMs }
    default:
      return state
  }
}

/** What follows for the home node. */
export const homeStep = (
  before: Homecoming,
  event: HomecomingEvent,
  settings: HomecomingSettings,
  nowMs: number,
): Next => {
  const first: Next = event.type === "giveBack" ?
    giveBack(before, event, nowMs) :
    { state: absorb(before, event, settings, nowMs), commands: [] }
  let { state } = first
  const commands = [...first.commands]
  const asks = isRerouted(state) || nowMs < state.newUntilMs
  if (asks && nowMs >= state.askAtMs) {
    state = { ...state, askAtMs: nowMs + settings.askMs }
    commands.push({ type: "askGuardians" })
  }
  if (isRerouted(state) && state.raising === null && nowMs - state.servedAtMs >= settings.reclaimMs) {
    state = { ...state, raising: last(state) + 1 }
    commands.push({ type: "raise", epoch: last(state) + 1 })
  }
  if (!isRerouted(state) && state.raising === null && state.behind > state.epoch) {
    state = { ...state, raising: state.behind + 1 }
    commands.push({ type: "raise", epoch: state.behind + 1 })
  }
  return { state, commands }
}
