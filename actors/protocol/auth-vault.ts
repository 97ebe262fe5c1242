/** The master key of this node: renewing it seals every secret anew while everything goes on. */
import type { MasterKeyRotating, MasterKeyState } from "#schema/auth-vault.ts"
import type { DependencyUnavailable } from "#schema/problem.ts"
import type { MasterKeyGiven, MasterKeyNotKept } from "#schema/vault.ts"
import { Context, type Effect } from "effect"

export class MasterKeyRenewal extends Context.Service<MasterKeyRenewal, {
  readonly state: () => Effect.Effect<MasterKeyState, DependencyUnavailable>
  /** Returns when the new key is kept and seals; the rest is done in the background, over restarts if need be. */
  readonly rotate: () => Effect.Effect<
    MasterKeyState,
    MasterKeyRotating | MasterKeyGiven | MasterKeyNotKept | DependencyUnavailable
  >
}>()("nightjar/actors/MasterKeyRenewal") {}
