/**
 * The protection state machine of a guardian: who stands in for a home node, when, and how its service goes home again. A pure
 * function of state, event and time; fibers carry its commands out, the simulation drives the same function. Design: failover.
 *
 * It works in three moves: `absorb` notes what happened, `rules` decide what follows, `tagOf` names the result. Rules look at
 * facts only, so a message that came twice, late or not at all changes nothing but the time.
 *
 * Invariants
 * 1. Total: every event may come in every state, and every state has a way out.
 * 2. A command is given once for its cause: it marks itself in flight, and is given again only after its outcome was a failure
 *    and the wait is over, or after a restart. So every command is idempotent, and its outcome is always reported.
 * 3. The state is on disk before its commands are carried out. After a restart the event `restarted` gives again what was in flight.
 * 4. `nowMs` is this node's monotonic clock, and `tick` comes at least twice a second. Times of a former process, or from before a
 *    freeze, are never compared with it.
 * 5. A slot is taken with the highest epoch known plus one, and given back with one more.
 * 6. Recording asks nobody: a takeover waits for no lease. The lease (`lease.ts`) is wanted once the slot was taken, and let go
 *    before the home node is asked to serve again.
 */
import type { RerouteStatus, Turn } from "#schema/federation-protection.ts"
import {
  present,
  type Protection,
  type ProtectionCommand,
  type ProtectionEvent,
  refusalsUntilHeld,
  type Service,
  silence,
  type Step,
  tagOf,
} from "./protection-state.ts"
import { lastRun, unite } from "./turns.ts"

/** Failures lengthen the wait of a retry up to this many times. */
const patience = 8

const withService = (state: Protection, change: Partial<Service>): Protection =>
  state.service === null ? state : { ...state, service: { ...state.service, ...change } }

/** The clock of before means nothing now: silence, stability and waits are counted from here. */
const rebase = (state: Protection, nowMs: number): Protection => ({
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

const newService = (epoch: number, nowMs: number): Service => ({
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
const absorb = (state: Protection, event: ProtectionEvent, nowMs: number): Protection => {
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

type Rule = (state: Protection, nowMs: number) => Step | null

const give = (state: Protection, ...commands: ReadonlyArray<ProtectionCommand>): Step => ({ state, commands })

/** Silence breaks what only holds while the home node is there. */
const silent: Rule = (state, nowMs) => {
  if (state.stableSinceMs !== null && !present(state, nowMs)) return give({ ...state, stableSinceMs: null })
  const kept = state.service?.hold === true || state.service?.drill === true
  return kept && silence(state, nowMs) >= state.settings.deadMs ?
    give(withService(state, { hold: false, drill: false })) :
    null
}

/** The configuration is fetched while it can be, and leaves this disk when the trust or the relation ended. */
const bundle: Rule = (state, nowMs) => {
  const { held, wanted, inFlight, notBeforeMs } = state.bundle
  const trusted = state.granted && !state.released
  if (!trusted && held !== null && state.service === null && !inFlight) {
    return give({ ...state, bundle: { ...state.bundle, held: null } }, { type: "dropBundle" })
  }
  if (!trusted || wanted === null || wanted === held || inFlight || nowMs < notBeforeMs || !present(state, nowMs)) {
    return null
  }
  return give({ ...state, bundle: { ...state.bundle, inFlight: true } }, { type: "refreshBundle", digest: wanted })
}

const ask: Rule = (state, nowMs) => {
  const worried = state.service !== null || silence(state, nowMs) >= state.settings.suspectMs
  if (!worried || !state.granted || nowMs < state.askAtMs) return null
  return give({ ...state, askAtMs: nowMs + state.settings.askMs }, { type: "askRerouteStatus" })
}

const elsewhere = (state: Protection, nowMs: number) =>
  state.answers.filter((one) => one.phase !== "none" && nowMs - one.atMs < state.settings.deadMs)

/** Nobody who should serve was heard for as long as this node's rank has to wait. */
const start: Rule = (state, nowMs) => {
  if (state.service !== null || !state.automatic || !state.granted || state.released || state.bundle.held === null) {
    return null
  }
  const alive = Math.max(state.home.atMs, ...state.answers.filter((one) => one.phase !== "none").map((one) => one.atMs))
  const { deadMs, rankWaitMs } = state.settings
  return nowMs < alive + deadMs + state.rank * rankWaitMs ?
    null :
    give({ ...state, service: newService(state.epoch + 1, nowMs) })
}

const take: Rule = (state, nowMs) => {
  const { service } = state
  if (service?.step !== "taking" || service.inFlight || nowMs < service.notBeforeMs) return null
  const unneeded = present(state, nowMs) && !service.hold && !service.drill
  // Not after a restart: the slot may have been taken already, and what was taken is given back in order.
  if (
    service.failures > 0 && service.rerouteId === null &&
    (unneeded || state.released || !state.granted || elsewhere(state, nowMs).length > 0)
  ) {
    return give({ ...state, service: null })
  }
  const epoch = state.epoch + 1
  const first = service.rerouteId === null ? { epoch, firstEpoch: epoch } : {}
  return give(withService(state, { inFlight: true, ...first }), { type: "takeSlot", epoch })
}

/** Captures here end after the overlap; control ends now. */
const leave = (state: Protection, service: Service, nowMs: number, change: Partial<Service>): Step =>
  give(
    withService(state, { step: "overlap", lease: "none", notBeforeMs: nowMs + state.settings.overlapMs, ...change }),
    { type: "releaseLease", epoch: service.epoch },
  )

/** The home node took its slot back while this node was away, or another guardian serves with a better right. */
const yieldTo: Rule = (state, nowMs) => {
  const { service } = state
  if (service?.step !== "serving" && service?.step !== "returning" || service.inFlight) return null
  if (present(state, nowMs) && state.home.serves > service.epoch) return leave(state, service, nowMs, {})
  const better = elsewhere(state, nowMs).some((one) =>
    one.phase === "serving" && (one.epoch > service.epoch || (one.epoch === service.epoch && one.nodeId < state.self))
  )
  if (better) return leave(state, service, nowMs, { fenced: true })
  return state.released && silence(state, nowMs) >= state.settings.deadMs ? leave(state, service, nowMs, {}) : null
}

/** Who took a later turn has fallen silent since: control wants a turn later than that. */
const retake: Rule = (state, nowMs) => {
  const { service } = state
  if (service?.step !== "serving" || service.lease !== "wanted" || state.epoch <= service.epoch) return null
  if (present(state, nowMs) || elsewhere(state, nowMs).length > 0) return null
  if (nowMs < service.takenMs + state.settings.deadMs || nowMs < service.notBeforeMs) return null
  return give(withService(state, { step: "taking", notBeforeMs: nowMs, failures: 0, lease: "none" }), {
    type: "releaseLease",
    epoch: service.epoch,
  })
}

const control: Rule = (state) => {
  const { service } = state
  if (service?.step !== "serving" || service.lease !== "none") return null
  const { epoch, override } = service
  return give(withService(state, { lease: "wanted" }), { type: "acquireLease", epoch, override })
}

/** Why the service should go home now. */
const due = (state: Protection, service: Service, nowMs: number): boolean => {
  if (state.failbackAsked || state.released || !state.granted) return true
  if (service.drill) return nowMs - service.takenMs >= state.settings.drillMs
  const { failbackAutomatic, stableMs } = state.settings
  const stable = state.stableSinceMs !== null && nowMs - state.stableSinceMs >= stableMs
  return failbackAutomatic && !service.hold && state.windowOpen && stable
}

const giveBack: Rule = (state, nowMs) => {
  const { service } = state
  const goes = service?.step === "returning" ||
    (service?.step === "serving" && nowMs >= service.notBeforeMs && present(state, nowMs) && due(state, service, nowMs))
  if (service === null || !goes || service.inFlight) return null
  const { epoch, withoutChanges } = service
  return give(
    withService(state, { step: "returning", inFlight: true, lease: "none" }),
    { type: "releaseLease", epoch },
    { type: "giveBack", epoch: Math.max(epoch, state.epoch) + 1, turns: state.turns, withoutChanges },
  )
}

const held: Rule = (state) => {
  const { reason, service } = state
  if (service?.step !== "serving" || service.heldTold || service.refusals < refusalsUntilHeld) return null
  return give(withService(state, { heldTold: true }), { type: "tellHeld", refusals: service.refusals, reason })
}

const end: Rule = (state, nowMs) => {
  const { service } = state
  const over = service?.step === "stopping" || (service?.step === "overlap" && nowMs >= service.notBeforeMs)
  if (service === null || !over || service.inFlight) return null
  return give(withService(state, { step: "stopping", inFlight: true }), { type: "stopServing", epoch: service.epoch })
}

/**
 * Footage goes home while the home node is there, and serves with a number behind the footage's: before that it knows of no turn to
 * which it belongs, and refuses it. Then what was imported for it goes.
 */
const settle: Rule = (state, nowMs) => {
  const goes = ({ lastEpoch, step }: Protection["owed"][number]): boolean =>
    step === "received" || (step === "owed" && present(state, nowMs) && state.home.serves > lastEpoch)
  const one = state.owed.find(goes)
  if (one === undefined) return null
  const { rerouteId, firstEpoch, lastEpoch } = one
  const footage = one.step === "owed" && state.class !== "liveOnly"
  const owed = state.owed.map((other) =>
    other === one ? { ...one, step: footage ? "sending" as const : "cleaning" as const } : other
  )
  return give(
    { ...state, owed },
    footage ? { type: "beginRecordBack", rerouteId, firstEpoch, lastEpoch } : { type: "cleanUp", rerouteId },
  )
}

const rules: ReadonlyArray<Rule> = [
  silent,
  bundle,
  ask,
  start,
  yieldTo,
  retake,
  take,
  control,
  giveBack,
  held,
  end,
  settle,
]

/** What follows from `event` at `nowMs`. */
export const step = (before: Protection, event: ProtectionEvent, nowMs: number): Step => {
  const broken = event.type === "restarted" || nowMs - before.lastStepMs >= before.settings.suspectMs ||
    nowMs < before.lastStepMs
  let state: Protection = { ...absorb(broken ? rebase(before, nowMs) : before, event, nowMs), lastStepMs: nowMs }
  const commands: Array<ProtectionCommand> = []
  for (const rule of rules) {
    for (let next = rule(state, nowMs); next !== null; next = rule(state, nowMs)) {
      state = next.state
      commands.push(...next.commands)
    }
  }
  const tag = tagOf(state, nowMs)
  if (tag !== state.tag) {
    commands.push({ type: "tellState", from: state.tag, to: tag, reason: state.reason })
    state = { ...state, tag, sinceMs: nowMs }
  }
  return { state, commands }
}
