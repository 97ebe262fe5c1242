/**
 * Who is it: checks of passwords and second factors, and the throttle that both count against.
 *
 * Invariants
 * 1. An attempt counts as failed before anything is checked; only a wholly right one clears the account's count.
 * 2. A right password without the code that is needed gives back its own count and no more: nobody gets new guesses by asking
 *    in between.
 * 3. A code's period and a recovery code are used up by the attempt that brings them.
 */
import type { FactorProof } from "#actors/protocol/auth-factor.ts"
import type { Caller } from "#actors/protocol/auth.ts"
import { Events } from "#actors/protocol/event.ts"
import { InvalidSecondFactor, SecondFactorRequired } from "#schema/auth-factor.ts"
import type { SecuritySettings } from "#schema/auth-security.ts"
import { InvalidCredentials, SignInLocked } from "#schema/auth.ts"
import { DependencyUnavailable } from "#schema/problem.ts"
import { Vault } from "#schema/vault.ts"
import { Clock, Effect, Redacted } from "effect"
import { AuthFactorStore, type FactorRow } from "../store/auth-factor.ts"
import { accountSubject, addressSubject, AuthThrottleStore } from "../store/auth-throttle.ts"
import { AuthStore } from "../store/auth.ts"
import { Passwords } from "./auth-passwords.ts"
import { periodOf, recoveryHash } from "./auth-totp.ts"

export interface Credentials {
  readonly username: string
  readonly password: Redacted.Redacted
}

/** Characters of a name that did not sign in; names of users are no longer. */
const longestTold = 64

/** Where the secret of a user's second factor is sealed for. */
export const factorPlace = (userId: string): string => `auth/second-factor/${userId}`

const locked = (untilMs: number, nowMs: number) =>
  new SignInLocked({ retryAfterSeconds: Math.ceil((untilMs - nowMs) / 1000) })

/** The checks, over the stores at hand. */
export const makeAuthenticate = Effect.gen(function*() {
  const auth = yield* AuthStore
  const throttle = yield* AuthThrottleStore
  const factors = yield* AuthFactorStore
  const passwords = yield* Passwords
  const vault = yield* Vault
  const events = yield* Events

  const tellFailure = Effect.fnUntraced(function*(username: string, address: string, subjects: ReadonlyArray<string>) {
    const who = { username: username.slice(0, longestTold), address }
    yield* events.publish({ type: "user.signin.failed", subject: who.username, data: who, resource: [] })
    const nowMs = yield* Clock.currentTimeMillis
    const until = Math.max(0, ...(yield* throttle.locked(subjects, nowMs)).values())
    if (until === 0) return
    const data = { ...who, retryAfterSeconds: Math.ceil((until - nowMs) / 1000) }
    yield* events.publish({ type: "user.signin.locked", subject: who.username, data, resource: [] })
  })

  /** Counts the attempt against the account and the address, unless it is right. */
  const throttled = Effect.fnUntraced(
    function*<A, E, R>(
      attempt: { readonly username: string; readonly caller: Caller; readonly settings: SecuritySettings },
      work: Effect.Effect<A, E, R>,
    ) {
      const { caller, settings, username } = attempt
      const nowMs = yield* Clock.currentTimeMillis
      const account = accountSubject(username)
      const address = addressSubject(caller.address)
      const waits = { firstMs: settings.lockoutFirstSeconds * 1000, longestMs: settings.lockoutMaxSeconds * 1000 }
      const lockedUntil = yield* throttle.begin(
        [
          { subject: account, free: settings.lockoutAccountFailures },
          ...(address === null ? [] : [{ subject: address, free: settings.lockoutAddressFailures }]),
        ],
        waits,
        nowMs,
      )
      if (lockedUntil !== null) return yield* locked(lockedUntil, nowMs)
      const subjects = [account, ...(address === null ? [] : [address])]
      const done = yield* Effect.tapError(work, (error) =>
        error instanceof SecondFactorRequired ?
          Effect.asVoid(throttle.forgive(subjects)) :
          error instanceof InvalidCredentials || error instanceof InvalidSecondFactor ?
          tellFailure(username, caller.address, subjects) :
          Effect.void)
      yield* throttle.succeed(account, address)
      return done
    },
  )

  const openSecret = (userId: string, { sealedSecret }: FactorRow) =>
    Effect.mapError(vault.open(factorPlace(userId), sealedSecret), () =>
      new DependencyUnavailable({
        dependency: "vault",
        message: "The second factor was sealed under a master key that this node does not have",
      }))

  /** Uses up a code by time. */
  const useCode = Effect.fnUntraced(function*(userId: string, row: FactorRow, code: Redacted.Redacted) {
    const period = periodOf(yield* openSecret(userId, row), code, yield* Clock.currentTimeMillis)
    if (period === null || !(yield* factors.usePeriod(userId, period))) return yield* new InvalidSecondFactor()
  })

  const proveFactor = Effect.fnUntraced(function*(userId: string, { otp, recoveryCode }: FactorProof) {
    const row = yield* factors.get(userId)
    if (row === null || row.confirmedAt === null) return
    if (otp !== undefined) return yield* useCode(userId, row, otp)
    if (recoveryCode === undefined) return yield* new SecondFactorRequired()
    const hash = recoveryHash(userId, Redacted.value(recoveryCode))
    const used = yield* factors.useCode(userId, hash, yield* Clock.currentTimeMillis)
    if (!used) return yield* new InvalidSecondFactor()
    yield* Effect.logWarning("A recovery code was used to sign in", { userId })
  })

  const byPassword = Effect.fnUntraced(function*({ password, username }: Credentials) {
    const user = yield* auth.users.byName(username)
    const { matches, outdated } = yield* passwords.verify(password, user?.passwordHash ?? null)
    if (!matches || user === null || !user.enabled) return yield* new InvalidCredentials()
    if (outdated) yield* auth.users.rehash(user.id, user.passwordHash, yield* passwords.hash(password))
    return user
  })

  return {
    throttled,
    useCode,
    /** The user whose name and password these are. */
    password: (credentials: Credentials, caller: Caller, settings: SecuritySettings) =>
      throttled({ username: credentials.username, caller, settings }, byPassword(credentials)),
    /** The user whose name, password and, where one is active, second factor these are. */
    whole: (credentials: Credentials & FactorProof, caller: Caller, settings: SecuritySettings) =>
      throttled(
        { username: credentials.username, caller, settings },
        Effect.tap(byPassword(credentials), (user) => proveFactor(user.id, credentials)),
      ),
  }
})
