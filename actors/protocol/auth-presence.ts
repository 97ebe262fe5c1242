/** Who is signed in just now, for those who count: the licence. */
import type { EpochMs } from "#schema/common.ts"
import type { LicenseSession } from "#schema/license.ts"
import type { DependencyUnavailable } from "#schema/problem.ts"
import { Context, type Effect } from "effect"

/**
 * A session that was neither refreshed nor gave a heartbeat for so long counts no more. A client refreshes every ten minutes
 * (the life of an access token), so this is one that has gone away without a word.
 */
export const presentForMs = 900_000

/** Where a page of sessions ended. */
export interface PresencePosition {
  readonly since: EpochMs
  readonly sessionId: string
}

export class Presence extends Context.Service<Presence, {
  /** Newest sign-in first. */
  readonly list: (
    limit: number,
    after: PresencePosition | null,
  ) => Effect.Effect<ReadonlyArray<LicenseSession>, DependencyUnavailable>
  readonly count: () => Effect.Effect<number, DependencyUnavailable>
}>()("nightjar/actors/Presence") {}
