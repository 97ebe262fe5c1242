/**
 * What state a licence is in: a pure function of what is known and of the time.
 *
 * Invariants
 * 1. Time counts from the latest moment that was seen: setting the clock back wins no day. A clock behind it by more than
 *    {@link clockToleranceMs} restricts a licence that would otherwise hold.
 * 2. With nothing but time passing, a state changes only as {@link byTime} says; whatever happens, as {@link byAnything} says.
 * 3. `none` and `released` never restrict.
 */
import type { EpochMs, NodeId } from "./common.ts"
import type { LicenseClaims, LicenseMode, LicenseState } from "./license.ts"

const dayMs = 86_400_000

/** A clock may be corrected by this much without a word: time servers, a change of the battery's clock at a start. */
export const clockToleranceMs = 3_600_000
/** A licence that ends within this time is expiring. */
export const expiringMs = 30 * dayMs

/** How well the hardware of the licence fits that of the cluster's nodes. */
export interface HardwareMatch {
  readonly matches: boolean
  readonly matching: number
  readonly named: number
  readonly needed: number
  /** The node that fits best. */
  readonly nodeId: NodeId | null
}

export type InstalledFacts =
  | { readonly genuine: false; readonly detail: string }
  | {
    readonly genuine: true
    readonly claims: LicenseClaims
    readonly mode: LicenseMode
    /** `null` where the licence is bound to no machine. */
    readonly hardware: HardwareMatch | null
    readonly vendor: "active" | "suspended" | "revoked"
    /** When the vendor's server last confirmed it; the activation counts. */
    readonly confirmedAtMs: EpochMs
  }

export interface LicenseFacts {
  readonly installed: InstalledFacts | null
  readonly keyRegistered: boolean
  /** Something was installed before and given back. */
  readonly released: boolean
  /** The latest time that was seen. */
  readonly highWaterMs: EpochMs
}

export interface Judgement {
  readonly state: LicenseState
  readonly reason: string
  readonly restricted: boolean
  readonly setBack: boolean
  readonly daysLeft: number | null
  readonly graceUntilMs: EpochMs | null
}

/** Changes that come by time alone. */
export const byTime: Record<LicenseState, ReadonlyArray<LicenseState>> = {
  none: [],
  released: [],
  invalid: [],
  expired: [],
  restricted: ["expired"],
  grace: ["restricted", "expired"],
  expiring: ["grace", "restricted", "expired"],
  valid: ["expiring", "grace", "restricted", "expired"],
  pendingActivation: ["valid", "expiring", "grace", "restricted", "expired"],
}

/** What installing and giving back, a change of hardware or vendor keys, the vendor's word and a clock that is set can bring. */
const held = ["pendingActivation", "valid", "expiring", "grace", "restricted", "expired", "invalid"] as const
export const byAnything: Record<LicenseState, ReadonlyArray<LicenseState>> = {
  // Nothing can be given back that was not there, and what is over cannot be installed.
  none: ["pendingActivation", "valid", "expiring", "grace", "restricted"],
  released: ["pendingActivation", "valid", "expiring", "grace", "restricted"],
  pendingActivation: [...held, "released"],
  valid: [...held, "released"],
  expiring: [...held, "released"],
  grace: [...held, "released"],
  restricted: [...held, "released"],
  expired: [...held, "released"],
  invalid: [...held, "released"],
}

const day = (ms: EpochMs) => new Date(ms).toISOString().slice(0, 10)
const least = (...times: ReadonlyArray<EpochMs | null>): EpochMs | null => {
  const known = times.filter((time) => time !== null)
  return known.length === 0 ? null : Math.min(...known)
}

/** When the vendor's confirmation is due; `null` where none is needed. */
export const confirmBy = (installed: InstalledFacts & { readonly genuine: true }): EpochMs | null =>
  installed.claims.verifyDays === null ? null : installed.confirmedAtMs + installed.claims.verifyDays * dayMs

type Word = readonly [state: LicenseState, reason: string]

/** The state of a genuine licence at `atMs`, leaving out the clock. */
const lasting = (installed: InstalledFacts & { readonly genuine: true }, atMs: EpochMs): Word => {
  const { claims } = installed
  const graceMs = claims.graceDays * dayMs
  const due = confirmBy(installed)
  if (installed.vendor === "revoked") return ["invalid", "The vendor has revoked the licence"]
  if (installed.hardware !== null && !installed.hardware.matches) {
    return ["invalid", "The licence is bound to another machine"]
  }
  if (atMs < claims.notBefore) return ["pendingActivation", `The licence begins on ${day(claims.notBefore)}`]
  if (claims.notAfter !== null && atMs >= claims.notAfter + graceMs) {
    return ["expired", `The licence ended on ${day(claims.notAfter)}`]
  }
  if (installed.vendor === "suspended") return ["restricted", "The vendor has suspended the licence"]
  if (due !== null && atMs >= due + graceMs) {
    return ["restricted", `The licence server has not confirmed the licence since ${day(installed.confirmedAtMs)}`]
  }
  if (claims.notAfter !== null && atMs >= claims.notAfter) {
    return [
      "grace",
      `The licence ended on ${day(claims.notAfter)}; everything works until ${day(claims.notAfter + graceMs)}`,
    ]
  }
  if (due !== null && atMs >= due) {
    return [
      "grace",
      `The licence server should have confirmed the licence by ${day(due)}; everything works until ${
        day(due + graceMs)
      }`,
    ]
  }
  if (claims.notAfter !== null && atMs >= claims.notAfter - expiringMs) {
    return ["expiring", `The licence ends on ${day(claims.notAfter)}`]
  }
  return [
    "valid",
    claims.notAfter === null ? "The licence has no end" : `The licence holds until ${day(claims.notAfter)}`,
  ]
}

const word = (facts: LicenseFacts, atMs: EpochMs, setBack: boolean): Word => {
  const { installed } = facts
  if (installed === null) {
    if (facts.keyRegistered) return ["pendingActivation", "The licence key waits for the answer of the licence server"]
    return facts.released ?
      ["released", "The licence was given back; nothing is restricted"] :
      ["none", "No licence is installed; nothing is restricted"]
  }
  if (!installed.genuine) return ["invalid", installed.detail]
  const judged = lasting(installed, atMs)
  const holds = judged[0] === "valid" || judged[0] === "expiring" || judged[0] === "grace"
  return setBack && holds ?
    ["restricted", `The clock was set back: it was already ${new Date(facts.highWaterMs).toISOString()}`] :
    judged
}

const restricting: ReadonlySet<LicenseState> = new Set(["restricted", "expired", "invalid"])

/** Judges at `nowMs`, or at the latest time that was seen if that is later. */
export const judge = (facts: LicenseFacts, nowMs: EpochMs): Judgement => {
  const atMs = Math.max(nowMs, facts.highWaterMs)
  const setBack = facts.highWaterMs - nowMs > clockToleranceMs
  const [state, reason] = word(facts, atMs, setBack)
  const { installed } = facts
  const claims = installed?.genuine === true ? installed.claims : null
  const ends = claims?.notAfter ?? null
  const due = installed?.genuine === true ? confirmBy(installed) : null
  return {
    state,
    reason,
    restricted: restricting.has(state),
    setBack,
    daysLeft: ends === null ? null : Math.max(0, Math.floor((ends - atMs) / dayMs)),
    graceUntilMs: state === "grace" && claims !== null ?
      least(
        ends !== null && atMs >= ends ? ends + claims.graceDays * dayMs : null,
        due !== null && atMs >= due ? due + claims.graceDays * dayMs : null,
      ) :
      null,
  }
}

/** A jump ahead of more than this is believed only when the node has run with it for {@link jumpBelievedMs}. */
export const jumpMs = dayMs
export const jumpBelievedMs = 3_600_000

/** What one node remembers of time: the high-water mark, and since when (on a clock that is never set) it has been ahead of it. */
export interface TimeSeen {
  readonly highWaterMs: EpochMs
  readonly jumpSinceSteadyMs: number | null
}

/**
 * Moves the mark on. A clock that comes up in the year 2099 for a moment must not end every licence, so a jump has to last.
 * `steadyMs` only grows, whoever sets the clock.
 */
export const timeSeen = (before: TimeSeen, nowMs: EpochMs, steadyMs: number): TimeSeen => {
  if (nowMs - before.highWaterMs <= jumpMs) {
    return { highWaterMs: Math.max(before.highWaterMs, nowMs), jumpSinceSteadyMs: null }
  }
  const since = before.jumpSinceSteadyMs ?? steadyMs
  return steadyMs - since >= jumpBelievedMs ?
    { highWaterMs: nowMs, jumpSinceSteadyMs: null } :
    { highWaterMs: before.highWaterMs, jumpSinceSteadyMs: since }
}

/** Hashes of an id by source: `nj1.m:abc.e:def+ghi`. */
const parts = (hardwareId: string): ReadonlyMap<string, ReadonlyArray<string>> =>
  new Map(hardwareId.split(".").slice(1).map((part) => [part.slice(0, 1), part.slice(2).split("+")] as const))

/** More than half of the sources that a hardware id names. */
export const neededSources = (named: number): number => Math.floor(named / 2) + 1

/**
 * Whether `own` is still the machine of `licensed`: more than half of the sources named there must be the same, a source with
 * several values (network interfaces) by any one of them. So one part may be replaced, and a copied disk alone is not enough
 * where the main board can be asked.
 */
export const matchHardware = (licensed: string, own: string): Omit<HardwareMatch, "nodeId"> => {
  const wanted = parts(licensed)
  const there = parts(own)
  const matching =
    [...wanted].filter(([source, hashes]) => hashes.some((hash) => there.get(source)?.includes(hash) === true)).length
  const needed = neededSources(wanted.size)
  return { matches: matching >= needed, matching, named: wanted.size, needed }
}
