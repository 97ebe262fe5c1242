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
import { absorb, newService, rebase, withService } from "./protection-absorb.ts"
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
