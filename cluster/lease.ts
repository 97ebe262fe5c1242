/**
 * The lease of control over a home node's cameras: who may move, configure, delete. Pure functions of holder and voters; a driver
 * carries requests and answers between them and keeps on disk what `keep` names. Design: failover.
 *
 * Invariants
 * 1. Two nodes never hold it at once. A holder counts from when it asked, on its own monotonic clock; a voter keeps its promise
 *    from when it was asked, on its own, longer by what two clocks may drift apart. Any two majorities share a voter.
 * 2. Recording needs no lease; only a device command, a change, a deletion and a failback do, each after `mayControl`.
 * 3. A voter never grants an earlier epoch than it granted before; who was refused for that is told the turns it missed.
 * 4. A promise is on disk before its answer leaves (`keep`). A voter that restarted counts the whole term again, a new one too.
 * 5. A node alone needs nobody. Of two voters both are a majority, so the lease of the home node does not run out while its
 *    process runs unbroken, and never moves by itself: only an administrator's `override` gives it to the guardian, or back, and
 *    it lasts until that process ends or freezes. A home node that asks for its lease is not off: within a term of that no override counts.
 *    Nor does one of whoever is told of a later turn than its own.
 * 6. The list of voters changes by one node at a time, by the home node; a voter refuses who has an older list.
 */
import { NodeId } from "#schema/common.ts"
import type { LeaseAnswer, LeaseRelease, LeaseRequest, Roll } from "#schema/federation-control.ts"
import { Turn } from "#schema/federation-protection.ts"
import { Schema } from "effect"

/** How long a lease lasts, how often it is renewed, and how far two clocks may drift apart, parts in a million. */
export interface LeaseSettings {
  readonly leaseMs: number
  readonly renewMs: number
  readonly driftPpm: number
}
/** A lost second of renewals four times over; ten times worse than a bad crystal. */
export const defaultLease: LeaseSettings = { leaseMs: 5_000, renewMs: 1_000, driftPpm: 1_000 }

/** What a voter keeps on disk, for each home node. */
export const Promised = Schema.Struct({
  homeNodeId: NodeId,
  holder: Schema.NullOr(NodeId),
  epoch: Schema.Int,
  turns: Schema.Array(Turn),
  rollVersion: Schema.Int,
  termMs: Schema.NullOr(Schema.Int),
})
export type Promised = typeof Promised.Type

export interface Voter {
  readonly self: NodeId
  readonly promised: Promised
  /** Nobody else before this, on this node's clock. */
  readonly untilMs: number
  /** Of the newest grant; unknown after a restart. */
  readonly bootId: string
  readonly round: number
  /** When the home node last asked; the start of this process, as that is not known. */
  readonly homeAskedMs: number
}

const longer = (termMs: number, settings: LeaseSettings): number =>
  termMs + Math.ceil(termMs * settings.driftPpm / 500_000) + 1

/** A voter as it starts: with what is on its disk, or anew. */
export const voter = (
  self: NodeId,
  homeNodeId: NodeId,
  kept: Promised | null,
  settings: LeaseSettings,
  nowMs: number,
): Voter => {
  const promised = kept ?? { homeNodeId, holder: null, epoch: 0, turns: [], rollVersion: 0, termMs: settings.leaseMs }
  const idle = promised.holder === null && kept !== null
  const untilMs = idle ? nowMs : promised.termMs === null ? Infinity : nowMs + longer(promised.termMs, settings)
  return { self, promised, untilMs, bootId: "", round: 0, homeAskedMs: nowMs }
}

export interface Vote {
  readonly voter: Voter
  readonly answer: LeaseAnswer
  /** To be on disk before the answer leaves; null where nothing changed. */
  readonly keep: Promised | null
}

const samePromise = (a: Promised, b: Promised): boolean =>
  a.holder === b.holder && a.epoch === b.epoch && a.rollVersion === b.rollVersion && a.termMs === b.termMs &&
  a.turns.length === b.turns.length

/**
 * A vote on `request`; `override` is the vote of the guardian itself, told by its administrator that the home node is off, or of the home
 * node itself, told by its own that the guardian is.
 */
export const vote = (
  before: Voter,
  request: LeaseRequest,
  override: boolean,
  settings: LeaseSettings,
  nowMs: number,
): Vote => {
  const { promised } = before
  const { bootId, epoch, holder, homeNodeId, rollVersion, round, termMs, turns } = request
  const stale = epoch < promised.epoch
  const taken = promised.holder !== holder && nowMs < before.untilMs
  const unmoving = termMs === null && holder !== homeNodeId && before.self === homeNodeId
  const off = holder === homeNodeId || nowMs - before.homeAskedMs >= longer(settings.leaseMs, settings)
  const granted = !stale && rollVersion >= promised.rollVersion && (override ? off : !taken && !unmoving)
  const homeAskedMs = holder === homeNodeId ? nowMs : before.homeAskedMs
  const answer = {
    from: before.self,
    bootId,
    round,
    granted,
    inForce: stale ? promised.epoch : 0,
    turns: stale ? promised.turns : [],
  }
  if (!granted) return { voter: { ...before, homeAskedMs }, answer, keep: null }
  const next = { homeNodeId, holder, epoch, turns, rollVersion, termMs }
  const untilMs = termMs === null ? Infinity : nowMs + longer(termMs, settings)
  const newest = before.bootId !== bootId || round > before.round
  return {
    voter: {
      self: before.self,
      promised: next,
      untilMs: Math.max(untilMs, promised.holder === holder && promised.termMs !== null ? before.untilMs : 0),
      bootId,
      round: newest ? round : before.round,
      homeAskedMs,
    },
    answer,
    keep: samePromise(promised, next) ? null : next,
  }
}

/** The holder lets go; what is older than the newest grant does not count. */
export const unvote = (before: Voter, release: LeaseRelease, nowMs: number): Pick<Vote, "voter" | "keep"> => {
  const { promised } = before
  const local = release.holder === before.self
  const current = release.bootId === before.bootId && release.round >= before.round
  if (promised.holder !== release.holder || !(local || current)) return { voter: before, keep: null }
  const keep = { ...promised, holder: null }
  return { voter: { ...before, promised: keep, untilMs: nowMs }, keep }
}

/** Rounds whose answers may still come. */
const roundsKept = 8

export interface LeaseHolder {
  readonly self: NodeId
  readonly homeNodeId: NodeId
  readonly bootId: string
  readonly roll: Roll
  readonly settings: LeaseSettings
  readonly wanted: { readonly epoch: number; readonly override: boolean; readonly turns: ReadonlyArray<Turn> } | null
  readonly rounds: ReadonlyArray<
    { readonly round: number; readonly sentMs: number; readonly granted: ReadonlyArray<NodeId> }
  >
  readonly round: number
  readonly nextMs: number
  readonly lastStepMs: number
  /** Control ends here, on this node's clock. */
  readonly untilMs: number
  readonly held: boolean
}

export type LeaseEvent =
  | { readonly type: "want"; readonly epoch: number; readonly override: boolean; readonly turns: ReadonlyArray<Turn> }
  | { readonly type: "release" }
  | { readonly type: "roll"; readonly roll: Roll }
  | { readonly type: "answer"; readonly answer: LeaseAnswer }
  | { readonly type: "tick" }

export type LeaseCommand =
  /** To this node's own voter as well, without the network. */
  | { readonly type: "request"; readonly to: NodeId; readonly override: boolean; readonly request: LeaseRequest }
  | { readonly type: "release"; readonly to: NodeId; readonly release: LeaseRelease }
  | { readonly type: "obtained"; readonly epoch: number }
  | { readonly type: "lost" }
  | { readonly type: "denied"; readonly inForce: number; readonly turns: ReadonlyArray<Turn> }

/** A new process, which holds nothing yet; `bootId` is as new as the process. */
export const leaseHolder = (
  of: Pick<LeaseHolder, "self" | "homeNodeId" | "bootId" | "roll" | "settings">,
  nowMs: number,
): LeaseHolder => ({
  ...of,
  wanted: null,
  rounds: [],
  round: 0,
  nextMs: nowMs,
  lastStepMs: nowMs,
  untilMs: -Infinity,
  held: false,
})

/** To be asked immediately before each command to a device, each change and each deletion, with the epoch it carries. */
export const mayControl = (holder: LeaseHolder, epoch: number, nowMs: number): boolean =>
  holder.wanted?.epoch === epoch && nowMs < holder.untilMs && nowMs - holder.lastStepMs < holder.settings.leaseMs

const isPair = (roll: Roll): boolean => roll.voters.length === 2
const isAlone = (holder: LeaseHolder): boolean => holder.roll.voters.length < 2 && holder.self === holder.homeNodeId

const ask = (
  holder: LeaseHolder,
  nowMs: number,
): { readonly holder: LeaseHolder; readonly commands: Array<LeaseCommand> } => {
  const { bootId, homeNodeId, roll, self, settings, wanted } = holder
  if (wanted === null) return { holder, commands: [] }
  const round = holder.round + 1
  const request: LeaseRequest = {
    homeNodeId,
    holder: self,
    bootId,
    round,
    epoch: wanted.epoch,
    turns: wanted.turns,
    rollVersion: roll.version,
    termMs: isPair(roll) ? null : settings.leaseMs,
  }
  return {
    holder: {
      ...holder,
      round,
      nextMs: nowMs + settings.renewMs,
      rounds: [...holder.rounds.slice(1 - roundsKept), { round, sentMs: nowMs, granted: [] }],
    },
    commands: roll.voters.map((to) => ({ type: "request", to, override: wanted.override && to === self, request })),
  }
}

const answered = (holder: LeaseHolder, answer: LeaseAnswer, nowMs: number): LeaseHolder => {
  const { roll, settings, wanted } = holder
  const asked = holder.rounds.find((one) => one.round === answer.round)
  if (wanted === null || asked === undefined || answer.bootId !== holder.bootId || !answer.granted) return holder
  // What was promised longer ago than a term may have been promised to another since.
  if (nowMs - asked.sentMs >= settings.leaseMs) return holder
  if (!roll.voters.includes(answer.from) || asked.granted.includes(answer.from)) return holder
  const granted = [...asked.granted, answer.from]
  const rounds = holder.rounds.map((one) => one === asked ? { ...one, granted } : one)
  const stated = wanted.override && isPair(roll) && granted.includes(holder.self)
  if (granted.length <= roll.voters.length / 2 && !stated) return { ...holder, rounds }
  return {
    ...holder,
    rounds,
    untilMs: Math.max(holder.untilMs, isPair(roll) ? Infinity : asked.sentMs + settings.leaseMs),
  }
}

/** What becomes of a holder's lease; `tick` at least as often as it is renewed. */
export const leaseStep = (
  before: LeaseHolder,
  event: LeaseEvent,
  nowMs: number,
): { readonly holder: LeaseHolder; readonly commands: ReadonlyArray<LeaseCommand> } => {
  const { settings } = before
  // A process that stood still knows nothing of what was decided meanwhile, nor does an override outlive that.
  const broken = nowMs - before.lastStepMs >= settings.leaseMs
  let holder: LeaseHolder = broken ?
    { ...before, untilMs: -Infinity, rounds: [], wanted: before.wanted && { ...before.wanted, override: false } } :
    before
  holder = { ...holder, lastStepMs: nowMs }
  const commands: Array<LeaseCommand> = []
  if (event.type === "want") {
    const { epoch, override, turns } = event
    // What was granted to an earlier epoch says nothing about this one.
    const kept = holder.wanted?.epoch === epoch
    holder = {
      ...holder,
      wanted: { epoch, override, turns },
      nextMs: nowMs,
      ...(kept ? {} : { rounds: [], untilMs: -Infinity }),
    }
  } else if (event.type === "roll") {
    // Grants of the old list do not count for the new one; control that is held goes on until it would have run out.
    const untilMs = holder.untilMs === Infinity && event.roll.voters.length > 2 ?
      nowMs + settings.leaseMs :
      holder.untilMs
    holder = { ...holder, roll: event.roll, rounds: [], nextMs: nowMs, untilMs }
  } else if (event.type === "answer") {
    holder = answered(holder, event.answer, nowMs)
    const { inForce, turns } = event.answer
    if (holder.wanted !== null && inForce > holder.wanted.epoch) {
      // One voter that knows of a later turn is enough to stop: the others may have forgotten it with their disks.
      holder = { ...holder, rounds: [], untilMs: -Infinity, wanted: { ...holder.wanted, override: false } }
      commands.push({ type: "denied", inForce, turns })
    }
  } else if (event.type === "release" && holder.wanted !== null) {
    const { bootId, homeNodeId, roll, round, self } = holder
    holder = { ...holder, wanted: null, rounds: [], untilMs: -Infinity, held: false }
    for (const to of roll.voters) {
      commands.push({ type: "release", to, release: { homeNodeId, holder: self, bootId, round } })
    }
  }
  if (holder.wanted !== null && isAlone(holder)) holder = { ...holder, untilMs: Infinity }
  if (holder.wanted !== null && nowMs >= holder.nextMs) {
    const asked = ask(holder, nowMs)
    holder = asked.holder
    commands.push(...asked.commands)
  }
  const held = holder.wanted !== null && nowMs < holder.untilMs
  if (held && !holder.held && holder.wanted !== null) commands.push({ type: "obtained", epoch: holder.wanted.epoch })
  if (!held && holder.held) commands.push({ type: "lost" })
  return { holder: { ...holder, held }, commands }
}
