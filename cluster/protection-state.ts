/**
 * What a guardian knows of one home node, what may happen to it, and what it may want done: the words of `protection.ts`.
 *
 * Invariants
 * 1. The state is plain JSON: it is kept on disk, and a new process goes on with it.
 * 2. The name of the state (`tagOf`) follows from the facts.
 */
import { NodeId } from "#schema/common.ts"
import { ProtectionSettings, RerouteStatus, Turn } from "#schema/federation-protection.ts"
import { ProtectionClass, ProtectionState } from "#schema/federation.ts"
import { Effect, Schema } from "effect"

/** This node's own service of the home node's slot, from the decision to take it until the captures have ended. */
const Service = Schema.Struct({
  step: Schema.Literals(["taking", "serving", "returning", "overlap", "stopping"]),
  epoch: Schema.Int,
  /** Lower where the slot was taken again during this service. */
  firstEpoch: Schema.Int,
  /** Known once the slot was taken. */
  rerouteId: Schema.NullOr(Schema.String),
  /** The step's command was given and its outcome is awaited. */
  inFlight: Schema.Boolean,
  /** Not before this: a retry, or the end of the overlap. */
  notBeforeMs: Schema.Finite,
  failures: Schema.Int,
  /** The lease of control: not asked for, asked for, held. */
  lease: Schema.Literals(["none", "wanted", "held"]),
  /** An administrator stated that the home node is off. */
  override: Schema.Boolean,
  /** Taken from a home node that was there: only a person gives it back. */
  hold: Schema.Boolean,
  drill: Schema.Boolean,
  /** When the slot was taken. */
  takenMs: Schema.Finite,
  /** Another guardian serves with a better right. */
  fenced: Schema.Boolean,
  /** How often in a row the home node did not take its cameras back. */
  refusals: Schema.Int.pipe(Schema.withDecodingDefaultKey(Effect.succeed(0))),
  /** That it does not was told to people. */
  heldTold: Schema.Boolean.pipe(Schema.withDecodingDefaultKey(Effect.succeed(false))),
  /** An administrator decided that the cameras go home before what was changed of them here. */
  withoutChanges: Schema.Boolean.pipe(Schema.withDecodingDefaultKey(Effect.succeed(false))),
})
export type Service = typeof Service.Type

/** Footage of one reroute that is not home yet. */
const Owed = Schema.Struct({
  rerouteId: Schema.String,
  firstEpoch: Schema.Int,
  lastEpoch: Schema.Int,
  step: Schema.Literals(["owed", "sending", "received", "cleaning"]),
})

const Answer = Schema.Struct({ ...RerouteStatus.fields, atMs: Schema.Finite })

export const Protection = Schema.Struct({
  tag: ProtectionState,
  /** When the tag last changed. */
  sinceMs: Schema.Finite,
  self: NodeId,
  homeNodeId: NodeId,
  class: ProtectionClass,
  automatic: Schema.Boolean,
  /** Whose turn it is among the guardians of this home node, from 0. */
  rank: Schema.Int,
  settings: ProtectionSettings,
  granted: Schema.Boolean,
  released: Schema.Boolean,
  /** Highest number known of the home node's slot. */
  epoch: Schema.Int,
  turns: Schema.Array(Turn),
  /** What the home node last said of itself. */
  home: Schema.Struct({ heard: Schema.Boolean, atMs: Schema.Finite, bootId: Schema.String, serves: Schema.Int }),
  /** The highest number with which the home node served itself, by its own word. */
  homeServed: Schema.Int.pipe(Schema.withDecodingDefaultKey(Effect.succeed(0))),
  stableSinceMs: Schema.NullOr(Schema.Finite),
  lastStepMs: Schema.Finite,
  askAtMs: Schema.Finite,
  /** Automatic failback is within its window. */
  windowOpen: Schema.Boolean,
  failbackAsked: Schema.Boolean,
  /** Digests of the home node's configuration: held here, and said to be in force. */
  bundle: Schema.Struct({
    held: Schema.NullOr(Schema.String),
    wanted: Schema.NullOr(Schema.String),
    inFlight: Schema.Boolean,
    notBeforeMs: Schema.Finite,
  }),
  /** What would not fit, a line each. */
  short: Schema.Array(Schema.String),
  answers: Schema.Array(Answer),
  service: Schema.NullOr(Service),
  owed: Schema.Array(Owed),
  /** Why something failed last, for a person; empty while all is well. */
  reason: Schema.String,
}).annotate({ identifier: "Protection" })
export type Protection = typeof Protection.Type

export type ProtectionEvent =
  | { readonly type: "restarted" }
  | { readonly type: "tick"; readonly windowOpen: boolean }
  | {
    readonly type: "settings"
    readonly settings: ProtectionSettings
    readonly automatic: boolean
    readonly rank: number
    readonly class: ProtectionClass
  }
  | {
    readonly type: "heartbeat"
    readonly epoch: number
    readonly servingNodeId: NodeId
    readonly bootId: string
    readonly bundleDigest: string
    /** Whether the home node grants it at present, where it says so: a word that was missed is heard the next time. */
    readonly granted?: boolean
  }
  /** The home node, just started, asked who serves it. */
  | { readonly type: "homeAsked" }
  /** The home node or another guardian answered; no event where none answered. */
  | { readonly type: "answered"; readonly status: RerouteStatus }
  | { readonly type: "granted" }
  | { readonly type: "revoked" }
  | { readonly type: "capacity"; readonly short: ReadonlyArray<string> }
  | { readonly type: "bundleRefreshed"; readonly digest: string }
  | { readonly type: "bundleFailed"; readonly reason: string }
  /** `override` states that the home node is off, and moves control where voters cannot. */
  | { readonly type: "takeover"; readonly drill: boolean; readonly override: boolean }
  /** `withoutChanges`: what was changed here of the home node's cameras follows when it can be fetched. */
  | { readonly type: "failback"; readonly withoutChanges?: boolean }
  | { readonly type: "release" }
  | { readonly type: "slotTaken"; readonly epoch: number; readonly rerouteId: string }
  /** `inForce`: the epoch that was found instead, 0 where that was not the reason. */
  | { readonly type: "slotFailed"; readonly reason: string; readonly inForce: number }
  | { readonly type: "leaseObtained"; readonly epoch: number }
  | { readonly type: "leaseLost" }
  /** Voters granted control of a later turn already. */
  | { readonly type: "leaseDenied"; readonly turns: ReadonlyArray<Turn> }
  /** `overlapMs`: two groups of pictures, as measured. */
  | { readonly type: "gaveBack"; readonly epoch: number; readonly overlapMs?: number }
  | { readonly type: "giveBackFailed"; readonly reason: string; readonly inForce: number }
  | { readonly type: "stopped" }
  /** Every receipt is in. */
  | { readonly type: "recordedBack"; readonly rerouteId: string }
  | { readonly type: "cleanedUp"; readonly rerouteId: string }

export type ProtectionCommand =
  /** `GET reroute-status` of the home node and every other guardian of it; each answer is `answered`. No outcome of its own. */
  | { readonly type: "askRerouteStatus" }
  /** Outcome `bundleRefreshed` or `bundleFailed`. */
  | { readonly type: "refreshBundle"; readonly digest: string }
  /** The home node's secrets leave this disk. No outcome. */
  | { readonly type: "dropBundle" }
  /**
   * Import what the bundle holds, make this node the owner of the slot at `epoch`, so that its recordings start; a shadow's ring
   * is written out. All or nothing; again, with the same epoch or one more while it is owned here already, is the same reroute.
   * Outcome `slotTaken` or `slotFailed`.
   */
  | { readonly type: "takeSlot"; readonly epoch: number }
  /** Want control until `releaseLease`. Outcomes `leaseObtained`, `leaseLost`, as often as they happen. */
  | { readonly type: "acquireLease"; readonly epoch: number; readonly override: boolean }
  /** Control nothing from now on, then tell the voters. No outcome. */
  | { readonly type: "releaseLease"; readonly epoch: number }
  /**
   * Ask the home node to serve at `epoch`; it judges the turns, raises its epoch and records before it agrees. Captures here go
   * on. Outcome `gaveBack` or `giveBackFailed` (no answer in time is a failure).
   */
  | {
    readonly type: "giveBack"
    readonly epoch: number
    readonly turns: ReadonlyArray<Turn>
    readonly withoutChanges: boolean
  }
  /** The home node does not take its cameras back, again and again: a person should look. Once a service; no outcome. */
  | { readonly type: "tellHeld"; readonly refusals: number; readonly reason: string }
  /** End the captures of the slot; what was recorded stays and can be watched. Outcome `stopped`. */
  | { readonly type: "stopServing"; readonly epoch: number }
  /** Outcome `recordedBack`. */
  | {
    readonly type: "beginRecordBack"
    readonly rerouteId: string
    readonly firstEpoch: number
    readonly lastEpoch: number
  }
  /** Remove the imported rows of a reroute whose footage is home. Outcome `cleanedUp`. */
  | { readonly type: "cleanUp"; readonly rerouteId: string }
  | {
    readonly type: "tellState"
    readonly from: ProtectionState
    readonly to: ProtectionState
    readonly reason: string
  }

export interface Step {
  readonly state: Protection
  readonly commands: ReadonlyArray<ProtectionCommand>
}

/** So often in a row a failback fails before people are told. */
export const refusalsUntilHeld = 3

/** A protection that was just registered. */
export const register = (
  relation: Pick<Protection, "self" | "homeNodeId" | "class" | "automatic" | "rank" | "granted" | "settings">,
  epoch: number,
  nowMs: number,
): Protection => {
  const state: Protection = {
    ...relation,
    tag: "pendingGrant",
    sinceMs: nowMs,
    released: false,
    epoch,
    turns: [],
    home: { heard: false, atMs: nowMs, bootId: "", serves: 0 },
    homeServed: 0,
    stableSinceMs: null,
    lastStepMs: nowMs,
    askAtMs: nowMs,
    windowOpen: true,
    failbackAsked: false,
    bundle: { held: null, wanted: null, inFlight: false, notBeforeMs: nowMs },
    short: [],
    answers: [],
    service: null,
    owed: [],
    reason: "",
  }
  return { ...state, tag: tagOf(state, nowMs) }
}

export const silence = (state: Protection, nowMs: number): number => nowMs - state.home.atMs
/** The home node was heard since this process started, and lately. */
export const present = (state: Protection, nowMs: number): boolean =>
  state.home.heard && silence(state, nowMs) < state.settings.suspectMs

export const tagOf = (state: Protection, nowMs: number): ProtectionState => {
  const { service } = state
  if (state.released) return "released"
  if (service?.fenced === true) return "fenced"
  if (service?.step === "taking") return "takingOver"
  // A failback that fails again and again is no news each time.
  if (service?.step === "serving" || (service?.step === "returning" && service.refusals >= refusalsUntilHeld)) {
    return present(state, nowMs) ? "restored" : "takenOver"
  }
  if (service !== null) return "failingBack"
  if (!state.granted) return "pendingGrant"
  if (silence(state, nowMs) >= state.settings.suspectMs) return "suspect"
  if (state.owed.length > 0) return "recordingBack"
  if (state.bundle.held === null || state.bundle.held !== state.bundle.wanted) return "stale"
  return state.short.length > 0 ? "capacityShort" : "protected"
}

/** What this node answers to `reroute-status`. A takeover that failed once is no reason for others to wait. */
export const statusOf = (state: Protection): RerouteStatus => {
  const { service } = state
  const phase = service === null || service.fenced || (service.step === "taking" && service.failures > 0) ?
    "none" :
    service.step === "taking" || service.step === "serving" ?
    service.step :
    "returning"
  return {
    nodeId: state.self,
    homeNodeId: state.homeNodeId,
    phase,
    epoch: phase === "none" ? state.epoch : service!.epoch,
    control: service?.lease === "held",
    turns: state.turns,
    homeServed: state.homeServed,
  }
}
