/**
 * The second factor of users: enrolling, confirming, taking off, recovery codes.
 *
 * Invariants
 * 1. It is asked for from its confirmation on, never before: a secret that no app holds locks nobody out.
 * 2. The secret is kept sealed, recovery codes as hashes.
 */
import { type FactorProof, SecondFactors } from "#actors/protocol/auth-factor.ts"
import type { Caller } from "#actors/protocol/auth.ts"
import { SecondFactorAbsent, SecondFactorActive } from "#schema/auth-factor.ts"
import { UserNotFound } from "#schema/auth-users.ts"
import type { UserPrincipal } from "#schema/permission.ts"
import { Forbidden, Unauthenticated } from "#schema/problem.ts"
import { Vault } from "#schema/vault.ts"
import { Clock, Effect, Layer, type Redacted } from "effect"
import { answered } from "../store/answer.ts"
import { AuthFactorStore } from "../store/auth-factor.ts"
import { AuthRolesStore } from "../store/auth-roles.ts"
import { AuthSecurityStore } from "../store/auth-security.ts"
import { AuthStore } from "../store/auth.ts"
import { factorPlace, makeAuthenticate } from "./auth-authenticate.ts"
import { mustHold } from "./auth-guard.ts"
import { enrolmentOf, newRecoveryCodes, newSecret, recoveryHash } from "./auth-totp.ts"

const gone = new Unauthenticated({ message: "The session has ended; sign in again" })

const make = Effect.gen(function*() {
  const [auth, store, security, roles] = yield* Effect.all([
    AuthStore,
    AuthFactorStore,
    AuthSecurityStore,
    AuthRolesStore,
  ])
  const vault = yield* Vault
  const authenticate = yield* makeAuthenticate

  const self = Effect.fnUntraced(function*(who: UserPrincipal) {
    const user = yield* auth.users.byId(who.userId)
    return user === null || !user.enabled ? yield* gone : user
  })

  const freshCodes = Effect.fnUntraced(function*(userId: string) {
    const recoveryCodes = newRecoveryCodes()
    yield* store.replaceCodes(userId, recoveryCodes.map((code) => recoveryHash(userId, code)))
    return { recoveryCodes }
  })

  /** Password and code of a user with an active second factor. */
  const proven = Effect.fnUntraced(
    function*(who: UserPrincipal, proof: FactorProof & { readonly password: Redacted.Redacted }, caller: Caller) {
      const { username } = yield* self(who)
      const row = yield* store.get(who.userId)
      if (row === null || row.confirmedAt === null) return yield* new SecondFactorAbsent()
      yield* authenticate.whole({ ...proof, username }, caller, yield* security.read)
    },
  )

  return SecondFactors.of({
    state: Effect.fnUntraced(function*(who) {
      const row = yield* store.get(who.userId)
      const active = row !== null && row.confirmedAt !== null
      return {
        active,
        pending: row !== null && !active,
        activeSince: row?.confirmedAt?.getTime() ?? null,
        recoveryCodesLeft: active ? row.codesLeft : 0,
      }
    }, answered),
    enrol: Effect.fnUntraced(function*(who, password, caller) {
      const { username } = yield* self(who)
      yield* authenticate.password({ username, password }, caller, yield* security.read)
      const secret = newSecret()
      const sealed = yield* vault.seal(factorPlace(who.userId), secret)
      if (!(yield* store.enrol(who.userId, sealed, yield* Clock.currentTimeMillis))) {
        return yield* new SecondFactorActive()
      }
      return enrolmentOf(secret, username)
    }, answered),
    confirm: Effect.fnUntraced(function*(who, code, caller) {
      const { username } = yield* self(who)
      const row = yield* store.get(who.userId)
      if (row === null) return yield* new SecondFactorAbsent()
      if (row.confirmedAt !== null) return yield* new SecondFactorActive()
      const attempt = { username, caller, settings: yield* security.read }
      yield* authenticate.throttled(attempt, authenticate.useCode(who.userId, row, code))
      const activate = Effect.flatMap(Clock.currentTimeMillis, (nowMs) => store.activate(who.userId, nowMs))
      return yield* store.inTransaction(Effect.andThen(activate, freshCodes(who.userId)))
    }, answered),
    disable: Effect.fnUntraced(function*(who, proof, caller) {
      yield* proven(who, proof, caller)
      yield* store.remove(who.userId)
    }, answered),
    renewCodes: Effect.fnUntraced(function*(who, proof, caller) {
      yield* proven(who, proof, caller)
      return yield* store.inTransaction(freshCodes(who.userId))
    }, answered),
    reset: Effect.fnUntraced(function*(who, userId) {
      if (userId === who.userId) {
        return yield* new Forbidden({ message: "The own second factor is taken off with password and code" })
      }
      const user = yield* auth.users.byId(userId)
      if (user === null) return yield* new UserNotFound({ userId })
      const message = "Only somebody who holds all that this user may can take off the second factor"
      yield* mustHold(who, yield* roles.named(user.roles), message)
      yield* store.remove(userId)
    }, answered),
  })
})

/** Second factors over PostgreSQL. */
export const secondFactorsLayer = Layer.effect(SecondFactors, make)
