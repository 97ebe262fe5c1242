/**
 * The first move of the protection state machine: what happened is noted. What follows from it is decided by the rules of `protection.ts`.
 *
 * Invariants
 * 1. No command is given here, and none is forgotten: the outcome of each clears its mark, a new process clears them all.
 * 2. Total: an event that says nothing new in a state leaves it as it is.
 */
import type { RerouteStatus, Turn } from "#schema/federation-protection.ts"
import { present, type Protection, type ProtectionEvent, type Service } from "./protection-state.ts"
import { lastRun, unite } from "./turns.ts"

/** Failures lengthen the wait of a retry up to this many times. */
const patience = 8

export const withService = (state: Protection, change: Partial<Service>): Protection =>
  state.service === null ? state : { ...state, service: { ...state.service, ...change } }

/** The clock of before means nothing now: silence, stability and waits are counted from here. */
export const rebase = (state: Protection, nowMs: number): Protection => ({
  ...state,
  home: { ...state.home, heard: false, atMs: nowMs },
  stableSinceMs: null,
  askAtMs: nowMs,
  answers: [],
  bundle: { ...state.bundle, notBeforeMs: nowMs },
  service: state.service === null ? null : {
    ...state.service,
    takenMs: nowMs,
    notBeforeMs: state.service.step === "overlap" ? nowMs + state.settings.overlapMs : nowMs,
  },
})

/** A new process awaits no outcome of the old one's commands. */
const reissue = (state: Protection): Protection => ({
  ...state,
  bundle: { ...state.bundle, inFlight: false },
  service: state.service === null ? null : { ...state.service, inFlight: false, lease: "none", override: false },
  owed: state.owed.map((one) =>
    one.step === "sending" ? { ...one, step: "owed" } : one.step === "cleaning" ? { ...one, step: "received" } : one
  ),
})

/** A home node that is heard is not off: a statement that it is, which has not taken effect yet, ends. */
const heard = (state: Protection, nowMs: number): Protection => ({
  ...state,
  service: state.service?.override === true && state.service.lease !== "held" ?
    { ...state.service, override: false, lease: "none" } :
    state.service,
  home: { ...state.home, heard: true, atMs: nowMs },
  stableSinceMs: present(state, nowMs) ? state.stableSinceMs ?? nowMs : nowMs,
})

/** Takeovers of others, that were told. */
const learnt = (state: Protection, told: ReadonlyArray<Turn>): Protection => {
  const turns = unite(state.turns, lastRun(told), state.home.serves)
  return { ...state, turns, epoch: Math.max(state.epoch, turns.at(-1)?.epoch ?? 0) }
}

const answered = (state: Protection, status: RerouteStatus, nowMs: number): Protection => {
  if (status.homeNodeId !== state.homeNodeId || status.nodeId === state.self) return state
  const known = learnt(state, status.turns)
  if (status.nodeId === state.homeNodeId) return heard(known, nowMs)
  const others = state.answers.filter((one) => one.nodeId !== status.nodeId)
  return { ...known, answers: [...others, { ...status, atMs: nowMs }] }
}

export const newService = (epoch: number, nowMs: number): Service => ({
  step: "taking",
  epoch,
  firstEpoch: epoch,
  rerouteId: null,
  inFlight: false,
  notBeforeMs: nowMs,
  failures: 0,
  lease: "none",
  override: false,
  hold: false,
  drill: false,
  takenMs: nowMs,
  fenced: false,
  refusals: 0,
  heldTold: false,
  withoutChanges: false,
})

/** An administrator's takeover: of a home node that may well be there, or with the statement that it is off. */
const takeover = (
  state: Protection,
  event: Extract<ProtectionEvent, { readonly type: "takeover" }>,
  nowMs: number,
): Protection => {
  if (state.service !== null) {
    return event.override ? withService(state, { override: true, lease: "none" }) : state
  }
  if (!state.granted || state.released) return { ...state, reason: "The home node does not grant it" }
  if (state.bundle.held === null) return { ...state, reason: "There is no configuration of the home node here yet" }
  return {
    ...state,
    reason: "",
    service: {
      ...newService(state.epoch + 1, nowMs),
      drill: event.drill,
      override: event.override,
      hold: !event.drill && present(state, nowMs),
    },
  }
}

/** An administrator's failback: at once, and no longer after the wait of one that failed. */
const failback = (state: Protection, withoutChanges: boolean, nowMs: number): Protection => {
  const { service } = state
  if (service === null) return { ...state, failbackAsked: false }
  const soon = service.step === "serving" ? { notBeforeMs: nowMs } : {}
  return {
    ...withService(state, { ...soon, withoutChanges: service.withoutChanges || withoutChanges }),
    failbackAsked: true,
  }
}

/** The outcome of a command of this node's own service. */
const outcome = (state: Protection, event: ProtectionEvent, nowMs: number): Protection => {
  const { service } = state
  if (service === null) return state
  const { step, epoch, failures } = service
  if (event.type === "slotTaken" && step === "taking" && service.inFlight) {
    const { epoch, rerouteId } = event
    const taken = { step: "serving", inFlight: false, epoch, rerouteId, failures: 0, takenMs: nowMs } as const
    const turns = unite(state.turns, [{ epoch, nodeId: state.self }], state.home.serves)
    return { ...withService(state, taken), epoch: Math.max(state.epoch, epoch), turns, reason: "" }
  }
  if (event.type === "slotFailed" && step === "taking" && service.inFlight) {
    const notBeforeMs = nowMs + state.settings.retryMs * Math.min(failures + 1, patience)
    // What was taken before is served as before.
    const change = service.rerouteId === null ? { failures: failures + 1 } : { step: "serving" as const }
    const failed = withService(state, { inFlight: false, notBeforeMs, ...change })
    return { ...failed, epoch: Math.max(state.epoch, event.inForce), reason: event.reason }
  }
  if (event.type === "leaseObtained" && step === "serving" && event.epoch === epoch && service.lease === "wanted") {
    return withService(state, { lease: "held" })
  }
  if (event.type === "leaseLost" && service.lease === "held") return withService(state, { lease: "wanted" })
  if (event.type === "gaveBack" && step === "returning") {
    const notBeforeMs = nowMs + (event.overlapMs ?? state.settings.overlapMs)
    const back = withService(state, { step: "overlap", inFlight: false, notBeforeMs })
    return { ...back, epoch: Math.max(state.epoch, event.epoch), failbackAsked: false, reason: "" }
  }
  if (event.type === "giveBackFailed" && step === "returning") {
    // The statement that the home node is off ended when it was asked to serve.
    // Each try takes control away for a moment: the next comes later and later.
    const refusals = service.refusals + 1
    const notBeforeMs = nowMs + state.settings.retryMs * Math.min(refusals, patience)
    const again = withService(state, { step: "serving", inFlight: false, override: false, notBeforeMs, refusals })
    return { ...again, epoch: Math.max(state.epoch, event.inForce), failbackAsked: false, reason: event.reason }
  }
  if (event.type === "stopped" && step === "stopping") {
    const { firstEpoch, rerouteId } = service
    const owed = rerouteId === null ? [] : [{ rerouteId, firstEpoch, lastEpoch: epoch, step: "owed" as const }]
    return { ...state, service: null, failbackAsked: false, owed: [...state.owed, ...owed] }
  }
  return state
}

const owedStep = (state: Protection, rerouteId: string, from: "sending" | "cleaning"): Protection => ({
  ...state,
  owed: from === "sending" ?
    state.owed.map((one) =>
      one.rerouteId === rerouteId && one.step !== "cleaning" ? { ...one, step: "received" } : one
    ) :
    state.owed.filter((one) => one.rerouteId !== rerouteId || one.step !== "cleaning"),
})

/** What happened, noted; nothing is decided here. */
export const absorb = (state: Protection, event: ProtectionEvent, nowMs: number): Protection => {
  switch (event.type) {
    case "restarted":
      return reissue(state)
    case "tick":
      return { ...state, windowOpen: event.windowOpen }
    case "settings":
      return { ...state, settings: event.settings, automatic: event.automatic, rank: event.rank, class: event.class }
    case "heartbeat": {
      const same = state.home.bootId === event.bootId
      const serves = event.servingNodeId === state.homeNodeId ? event.epoch : 0
      // Another life of it: what it refused before says little.
      const now = heard(same ? state : { ...withService(state, { refusals: 0 }), stableSinceMs: null }, nowMs)
      return {
        ...now,
        granted: event.granted ?? state.granted,
        epoch: Math.max(state.epoch, event.epoch),
        turns: unite(state.turns, [], serves),
        home: { ...now.home, bootId: event.bootId, serves },
        homeServed: Math.max(state.homeServed, serves),
        bundle: { ...state.bundle, wanted: event.bundleDigest },
      }
    }
    case "homeAsked":
      return heard(state, nowMs)
    case "answered":
      return answered(state, event.status, nowMs)
    case "granted":
      return { ...state, granted: true }
    case "revoked":
      return { ...state, granted: false }
    case "capacity":
      return { ...state, short: event.short }
    case "bundleRefreshed":
      return {
        ...state,
        bundle: { ...state.bundle, held: event.digest, inFlight: false, notBeforeMs: nowMs },
        reason: "",
      }
    case "bundleFailed": {
      const notBeforeMs = nowMs + state.settings.retryMs
      return { ...state, bundle: { ...state.bundle, inFlight: false, notBeforeMs }, reason: event.reason }
    }
    case "leaseDenied":
      return learnt(state, event.turns)
    case "takeover":
      return takeover(state, event, nowMs)
    case "failback":
      return failback(state, event.withoutChanges ?? false, nowMs)
    case "release":
      return { ...state, released: true }
    case "recordedBack":
      return owedStep(state, event.rerouteId, "sending")
    case "cleanedUp":
      return owedStep(state, event.rerouteId, "cleaning")
    default:
      return outcome(state, event, nowMs)
  }
}
