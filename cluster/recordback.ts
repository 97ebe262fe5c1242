/**
 * The life of a record-back job: a pure machine. The serving node drives it, keeps its state after each step, and begins again
 * with `Restarted` after a restart.
 *
 *     pending ─▶ keyExchange ─▶ transferring ⇄ paused
 *                    ▲              │  ▲
 *                retryWait ◀────────┤  │
 *                    │              ▼  │
 *                  failed       verifying ─▶ done | partial
 *
 * Invariants
 * 1. `done` is reached only by a verification that found nothing left and nothing lost; `partial` only by one that found nothing left.
 * 2. A pause holds through restarts; nothing but a person ends it.
 * 3. An event that has no meaning in a state changes nothing and is told so.
 * 4. Waits grow from {@link firstWaitMs} to {@link longestWaitMs}; a home node that is away is waited for without end, one that refuses
 *    {@link mostRefusals} times.
 */
import type { RecordBackState } from "#schema/federation.ts"

const firstWaitMs = 2_000
const longestWaitMs = 60_000
const mostRefusals = 8

export interface JobState {
  readonly phase: RecordBackState
  /** Attempts since the last that brought something home. */
  readonly attempt: number
  /** Refusals among them. */
  readonly refusals: number
  /** When a wait ends, epoch milliseconds. */
  readonly dueMs: number | null
  readonly reason: string
}

export type JobEvent =
  /** All that is to come home is known. */
  | { readonly _tag: "Planned" }
  | { readonly _tag: "KeyFetched" }
  /** Something came home. */
  | { readonly _tag: "Advanced" }
  /** Nothing is left to send. */
  | { readonly _tag: "Sent" }
  /** `left`: segments without a receipt that can still be sent. `lost`: those that cannot. */
  | { readonly _tag: "Verified"; readonly left: number; readonly lost: number }
  /** `refused`: the home node answered, and will not have it. */
  | { readonly _tag: "Failed"; readonly reason: string; readonly refused: boolean }
  | { readonly _tag: "Due" }
  | { readonly _tag: "Restarted" }
  | { readonly _tag: "Pause" | "Resume" | "Retry" }

/** What the driver does next. What ran before is stopped first. */
export type JobCommand = "plan" | "fetchKey" | "transfer" | "verify" | "wait" | "rest"

export interface Step {
  readonly state: JobState
  readonly command: JobCommand
}

export const initialJob: JobState = { phase: "pending", attempt: 0, refusals: 0, dueMs: null, reason: "" }

const working: ReadonlySet<RecordBackState> = new Set(["pending", "keyExchange", "transferring", "verifying"])
const ended: ReadonlySet<RecordBackState> = new Set(["done", "partial", "failed"])

export const isEnded = (phase: RecordBackState): boolean => ended.has(phase)

const waitMs = (attempt: number): number => Math.min(longestWaitMs, firstWaitMs * 2 ** Math.min(attempt - 1, 10))

const calm = (state: JobState, phase: RecordBackState): JobState => ({ ...state, phase, dueMs: null, reason: "" })

const begin = (state: JobState): Step => ({ state: calm(state, "keyExchange"), command: "fetchKey" })

const failed = (state: JobState, reason: string, refused: boolean, nowMs: number): Step => {
  const attempt = state.attempt + 1
  const refusals = refused ? state.refusals + 1 : 0
  if (refusals >= mostRefusals) {
    return { state: { phase: "failed", attempt, refusals, dueMs: null, reason }, command: "rest" }
  }
  const dueMs = nowMs + waitMs(attempt)
  return { state: { phase: "retryWait", attempt, refusals, dueMs, reason }, command: "wait" }
}

const verified = (state: JobState, left: number, lost: number): Step => {
  if (left > 0) return begin(state)
  if (lost === 0) return { state: calm(state, "done"), command: "rest" }
  const reason = `${lost} ${lost === 1 ? "segment" : "segments"} could not be brought home`
  return { state: { ...calm(state, "partial"), reason }, command: "rest" }
}

const restarted = (state: JobState): Step => {
  if (state.phase === "pending") return { state, command: "plan" }
  if (state.phase === "retryWait") return { state, command: "wait" }
  return working.has(state.phase) ? begin(state) : { state, command: "rest" }
}

/** Null: the event has no meaning in this state. */
export const step = (state: JobState, event: JobEvent, nowMs: number): Step | null => {
  const { phase } = state
  switch (event._tag) {
    case "Planned":
      return phase === "pending" ? begin(state) : null
    case "KeyFetched":
      return phase === "keyExchange" ? { state: calm(state, "transferring"), command: "transfer" } : null
    case "Advanced":
      return phase === "transferring" ? { state: { ...state, attempt: 0, refusals: 0 }, command: "transfer" } : null
    case "Sent":
      return phase === "transferring" ? { state: calm(state, "verifying"), command: "verify" } : null
    case "Verified":
      return phase === "verifying" ? verified(state, event.left, event.lost) : null
    case "Failed":
      return working.has(phase) ? failed(state, event.reason, event.refused, nowMs) : null
    case "Due":
      return phase === "retryWait" && nowMs >= (state.dueMs ?? 0) ? begin(state) : null
    case "Restarted":
      return restarted(state)
    case "Pause":
      return (working.has(phase) && phase !== "pending") || phase === "retryWait" ?
        { state: { ...calm(state, "paused"), reason: "paused by an administrator" }, command: "rest" } :
        null
    case "Resume":
      return phase === "paused" ? begin(state) : null
    case "Retry":
      return phase === "retryWait" || phase === "failed" || phase === "partial" ?
        begin({ ...state, attempt: 0, refusals: 0 }) :
        null
  }
}
