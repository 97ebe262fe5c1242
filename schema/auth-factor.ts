/**
 * Words of the second factor: codes by time (TOTP, RFC 6238) and recovery codes.
 *
 * Invariants
 * 1. The secret is shown once, at enrolment, and recovery codes once, when they are made.
 * 2. Which of code and recovery code was wrong, and why (old, used, mistyped), is never told.
 */
import { Schema } from "effect"
import { Instant } from "./common.ts"

/** What every authenticator app understands; others ignore anything else. */
export const totpParameters = { algorithm: "SHA1", digits: 6, periodSeconds: 30 } as const

export const SecondFactorState = Schema.Struct({
  /** A code is asked for at sign-in. */
  active: Schema.Boolean,
  /** Enrolled, but not confirmed by a code yet. */
  pending: Schema.Boolean,
  activeSince: Schema.NullOr(Instant),
  recoveryCodesLeft: Schema.Int,
}).annotate({ identifier: "SecondFactorState" })
export type SecondFactorState = typeof SecondFactorState.Type

/** What an authenticator app needs to know; not shown again. */
export const Enrolment = Schema.Struct({
  /** Base32 (RFC 4648, section 6), 160 bits. */
  secret: Schema.String,
  /** `otpauth://totp/…` */
  uri: Schema.String,
  /** The URI as a QR code. */
  qrSvg: Schema.String,
  algorithm: Schema.Literal(totpParameters.algorithm),
  digits: Schema.Literal(totpParameters.digits),
  periodSeconds: Schema.Literal(totpParameters.periodSeconds),
}).annotate({ identifier: "SecondFactorEnrolment" })
export type Enrolment = typeof Enrolment.Type

/** Each good for one sign-in; not shown again. */
export const RecoveryCodes = Schema.Struct({ recoveryCodes: Schema.Array(Schema.String) })
  .annotate({ identifier: "RecoveryCodes" })
export type RecoveryCodes = typeof RecoveryCodes.Type

/** A code as typed: blanks are dropped. */
export const OneTimeCode = Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(32)).pipe(
  Schema.RedactedFromValue,
)
/** A recovery code as typed: case, blanks and dashes do not matter. */
export const RecoveryCode = Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(64)).pipe(
  Schema.RedactedFromValue,
)

/** Name and password are right, and a code is needed besides: sign in again with `otp` or `recoveryCode`. */
export class SecondFactorRequired extends Schema.TaggedError<SecondFactorRequired>()("SecondFactorRequired", {}, {
  httpApiStatus: 401,
}) {
  override get message(): string {
    return "A code of the second factor is needed"
  }
}

/** The code is wrong, too old, or was used before. */
export class InvalidSecondFactor extends Schema.TaggedError<InvalidSecondFactor>()("InvalidSecondFactor", {}, {
  httpApiStatus: 401,
}) {
  override get message(): string {
    return "The code of the second factor is wrong"
  }
}

/** There is one already; it must be taken off first. */
export class SecondFactorActive extends Schema.TaggedError<SecondFactorActive>()("SecondFactorActive", {}, {
  httpApiStatus: 409,
}) {
  override get message(): string {
    return "A second factor is active; take it off first"
  }
}

/** There is none, or it was not enrolled. */
export class SecondFactorAbsent extends Schema.TaggedError<SecondFactorAbsent>()("SecondFactorAbsent", {}, {
  httpApiStatus: 409,
}) {
  override get message(): string {
    return "There is no second factor; enrol one first"
  }
}
