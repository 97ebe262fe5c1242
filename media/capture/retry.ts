/**
 * When to try a camera again. Pure; the session asks after each connection.
 *
 * Invariants
 * 1. A delay lies between 1 and 30 s, for refused credentials between 30 s and 5 minutes: cameras lock an account after a few
 *    wrong passwords.
 * 2. Every delay is jittered, so that cameras that went together do not come back in one instant.
 * 3. After a long good run the first attempt comes at once, within `promptMs`.
 */
import type { SourceError } from "#media/source.ts"
import type { GapCause } from "#schema/record.ts"

export interface RetryOptions {
  readonly firstMs: number
  readonly mostMs: number
  readonly firstAuthMs: number
  readonly mostAuthMs: number
  /** So much media makes a run a good one. */
  readonly goodRunMs: number
  readonly promptMs: number
}

export const defaultRetryOptions: RetryOptions = {
  firstMs: 1_000,
  mostMs: 30_000,
  firstAuthMs: 30_000,
  mostAuthMs: 300_000,
  goodRunMs: 30_000,
  promptMs: 200,
}

/** How a connection went. */
export interface RunOutcome {
  /** Between the first and the last access unit. */
  readonly mediaMs: number
  readonly authFailed: boolean
}

export interface RetryPlan {
  readonly delayMs: number
  /** To be handed in next time; 0 after a good run. */
  readonly attempt: number
}

/** `random` in `[0, 1)`. `attempt` counts the bad runs before this one. */
export const planRetry = (
  attempt: number,
  outcome: RunOutcome,
  random: number,
  options: RetryOptions = defaultRetryOptions,
): RetryPlan => {
  if (outcome.mediaMs >= options.goodRunMs) return { delayMs: Math.round(random * options.promptMs), attempt: 0 }
  const [first, most] = outcome.authFailed ?
    [options.firstAuthMs, options.mostAuthMs] :
    [options.firstMs, options.mostMs]
  // 2^20 is far beyond every bound; more would only lose precision.
  const base = Math.min(most, first * 2 ** Math.min(attempt, 20))
  return { delayMs: Math.round(Math.min(most, first + random * (base * 1.5 - first))), attempt: attempt + 1 }
}

/** What the ledger says of a failed connection. */
export const causeOf: { readonly [R in SourceError["reason"]]: GapCause } = {
  unreachable: "camera_offline",
  closed: "camera_offline",
  timeout: "camera_offline",
  refused: "camera_offline",
  unauthorized: "auth_failed",
  notFound: "stream_invalid",
  protocol: "stream_invalid",
  unsupported: "stream_invalid",
  publisherAway: "publisher_away",
}
