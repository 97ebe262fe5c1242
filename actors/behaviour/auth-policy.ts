/**
 * What the security settings ask of a new password, and how long a password is good.
 *
 * Invariants
 * 1. All broken rules are told at once; the costly comparison with passwords of before is made only where no other is broken.
 * 2. Lengths count characters (code points after NFKC), not bytes.
 */
import { PasswordRefused, type PasswordRule, type SecuritySettings } from "#schema/auth-security.ts"
import type { EpochMs } from "#schema/common.ts"
import { Effect, Redacted } from "effect"
import { isCommonPassword } from "./auth-common.ts"
import type { Passwords } from "./auth-passwords.ts"

/** Whose password it is to be. */
export interface PasswordOwner {
  readonly username: string
  /** The newest hashes, the one in force first; as many as the settings forbid to take again. */
  readonly before: ReadonlyArray<string>
}

/** A name of fewer characters is in too many words. */
const leastNameLength = 3

/** What `checkNewPassword` looks at before it compares with passwords of before. */
export const brokenRules = (
  password: Redacted.Redacted,
  username: string,
  settings: SecuritySettings,
): ReadonlyArray<PasswordRule> => {
  const text = Redacted.value(password).normalize("NFKC")
  const lower = text.toLowerCase()
  const name = username.normalize("NFKC").toLowerCase()
  const broken: Array<PasswordRule> = []
  if (Array.from(text).length < settings.passwordMinLength) broken.push("tooShort")
  const named = name.length >= leastNameLength ? lower.includes(name) : lower === name
  if (settings.passwordForbidUsername && named) broken.push("containsUsername")
  if (settings.passwordForbidCommon && isCommonPassword(lower)) broken.push("common")
  return broken
}

/** Fails where a rule is broken. */
export const checkNewPassword = Effect.fnUntraced(
  function*(
    passwords: Passwords["Service"],
    password: Redacted.Redacted,
    owner: PasswordOwner,
    settings: SecuritySettings,
  ) {
    const refused = (rules: ReadonlyArray<PasswordRule>) =>
      new PasswordRefused({ rules, minLength: settings.passwordMinLength })
    const broken = brokenRules(password, owner.username, settings)
    if (broken.length > 0) return yield* refused(broken)
    for (const hash of owner.before.slice(0, settings.passwordHistory)) {
      const { matches } = yield* passwords.verify(password, hash)
      if (matches) return yield* refused(["usedBefore"])
    }
  },
)

const dayMs = 86_400_000

/** When a password that was set then must be changed; `null`: never. */
export const passwordExpiry = (changedAtMs: EpochMs, settings: SecuritySettings): EpochMs | null =>
  settings.passwordMaxAgeDays === 0 ? null : changedAtMs + settings.passwordMaxAgeDays * dayMs

/** Whether the user may do nothing but change the password. */
export const mustChange = (
  user: { readonly mustChangePassword: boolean; readonly passwordChangedAt: Date },
  settings: SecuritySettings,
  nowMs: EpochMs,
): boolean => {
  const expiry = passwordExpiry(user.passwordChangedAt.getTime(), settings)
  return user.mustChangePassword || (expiry !== null && expiry <= nowMs)
}
