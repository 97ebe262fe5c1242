/**
 * Codes by time (TOTP, RFC 6238; the codes of RFC 4226) and recovery codes: pure, but for the randomness of new secrets.
 *
 * Invariants
 * 1. A code is good in its own period of 30 s and in the one before and after: a clock may be off by that much.
 * 2. A code tells its period, so that none is taken twice (RFC 6238, section 5.2).
 * 3. A recovery code is 80 random bits, so a plain SHA-256 of it cannot be searched.
 */
import { type Enrolment, totpParameters } from "#schema/auth-factor.ts"
import type { EpochMs } from "#schema/common.ts"
import { Redacted } from "effect"
import { createHash, randomBytes } from "node:crypto"
import { Secret, TOTP } from "otpauth"
import { renderSVG } from "uqr"

const issuer = "Nightjar"
/** Periods before and after. */
const slack = 1
/** As long as the hash of SHA-1 (RFC 4226, section 4, R6). */
const secretBytes = 20
export const recoveryCodeCount = 10
const recoveryBytes = 10

const totp = (secret: Redacted.Redacted, label: string) =>
  new TOTP({
    issuer,
    label,
    secret: Secret.fromBase32(Redacted.value(secret)),
    algorithm: totpParameters.algorithm,
    digits: totpParameters.digits,
    period: totpParameters.periodSeconds,
  })

/** A new secret in base32. */
export const newSecret = (): Redacted.Redacted =>
  Redacted.make(new Secret({ buffer: new Uint8Array(randomBytes(secretBytes)).buffer }).base32)

/** What is shown of a new secret to its user. */
export const enrolmentOf = (secret: Redacted.Redacted, username: string): Enrolment => {
  const uri = totp(secret, username).toString()
  return {
    secret: Redacted.value(secret),
    uri,
    qrSvg: renderSVG(uri),
    ...totpParameters,
  }
}

/** The number of the period that a code belongs to; `null` where it is not a code of about now. */
export const periodOf = (secret: Redacted.Redacted, code: Redacted.Redacted, nowMs: EpochMs): number | null => {
  const token = Redacted.value(code).replace(/\s/g, "")
  if (!/^\d{6}$/.test(token)) return null
  const delta = totp(secret, "").validate({ token, timestamp: nowMs, window: slack })
  return delta === null ? null : Math.floor(nowMs / 1000 / totpParameters.periodSeconds) + delta
}

/** Without characters that are taken for others (Crockford's base 32). */
const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"

/** 16 characters in groups of four. */
const recoveryCode = (): string => {
  let bits = BigInt(`0x${randomBytes(recoveryBytes).toString("hex")}`)
  let text = ""
  for (let index = 0; index < 16; index++) {
    text += alphabet[Number(bits & 31n)]
    bits >>= 5n
  }
  return text.match(/.{4}/g)!.join("-")
}
export const newRecoveryCodes = (): ReadonlyArray<string> => Array.from({ length: recoveryCodeCount }, recoveryCode)

/** What is kept of a recovery code: bound to its user, and the same however it is typed. */
export const recoveryHash = (userId: string, code: string): Uint8Array => {
  const plain = code.toLowerCase().replace(/[^0-9a-z]/g, "").replace(/[il]/g, "1").replace(/o/g, "0")
  return createHash("sha256").update(`nightjar recovery code\0${userId}\0${plain}`).digest()
}
