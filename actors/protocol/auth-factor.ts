/**
 * The second factor of a user: enrolling it, taking it off, recovery codes. What a sign-in asks of it is part of the sign-in.
 *
 * Invariants
 * 1. Whoever enrols, renews recovery codes or takes it off gives the password again; the two latter also a code.
 * 2. Wrong passwords and codes count against the same throttle as sign-ins do.
 */
import type {
  Enrolment,
  InvalidSecondFactor,
  RecoveryCodes,
  SecondFactorAbsent,
  SecondFactorActive,
  SecondFactorRequired,
  SecondFactorState,
} from "#schema/auth-factor.ts"
import type { UserNotFound } from "#schema/auth-users.ts"
import type { InvalidCredentials, SignInLocked } from "#schema/auth.ts"
import type { UserId } from "#schema/common.ts"
import type { UserPrincipal } from "#schema/permission.ts"
import type { DependencyUnavailable, Forbidden, Unauthenticated } from "#schema/problem.ts"
import { Context, type Effect, type Redacted } from "effect"
import type { Caller } from "./auth.ts"

/** One of the two. */
export interface FactorProof {
  readonly otp?: Redacted.Redacted
  readonly recoveryCode?: Redacted.Redacted
}

type Proven = Unauthenticated | InvalidCredentials | SignInLocked | DependencyUnavailable

export class SecondFactors extends Context.Service<SecondFactors, {
  readonly state: (who: UserPrincipal) => Effect.Effect<SecondFactorState, DependencyUnavailable>
  /** Replaces an enrolment that was not confirmed. */
  readonly enrol: (
    who: UserPrincipal,
    password: Redacted.Redacted,
    caller: Caller,
  ) => Effect.Effect<Enrolment, Proven | SecondFactorActive>
  /** Makes it active, and the first recovery codes. */
  readonly confirm: (
    who: UserPrincipal,
    code: Redacted.Redacted,
    caller: Caller,
  ) => Effect.Effect<RecoveryCodes, Proven | InvalidSecondFactor | SecondFactorAbsent | SecondFactorActive>
  readonly disable: (
    who: UserPrincipal,
    proof: FactorProof & { readonly password: Redacted.Redacted },
    caller: Caller,
  ) => Effect.Effect<void, Proven | SecondFactorRequired | InvalidSecondFactor | SecondFactorAbsent>
  /** The ones of before are worth nothing any more. */
  readonly renewCodes: (
    who: UserPrincipal,
    proof: FactorProof & { readonly password: Redacted.Redacted },
    caller: Caller,
  ) => Effect.Effect<RecoveryCodes, Proven | SecondFactorRequired | InvalidSecondFactor | SecondFactorAbsent>
  /** Takes it off somebody else, who lost it. */
  readonly reset: (
    who: UserPrincipal,
    userId: UserId,
  ) => Effect.Effect<void, Forbidden | UserNotFound | DependencyUnavailable>
}>()("nightjar/actors/SecondFactors") {}
