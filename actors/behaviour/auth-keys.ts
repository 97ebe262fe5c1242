/**
 * The keys that sign access tokens. Each node signs with keys of its own, sealed under its vault; every node verifies with
 * the public halves of all, which stand in PostgreSQL.
 *
 * Invariants
 * 1. A key signs for {@link signsForMs} and is trusted {@link trustedAfterMs} longer, so no token outlives its key.
 * 2. The next key is published {@link leadMs} before it signs: every node knows it by then, and whoever keeps the key set by
 *    its `max-age`. A node that signs for the first time, or was away for months, cannot wait for that.
 * 3. A private key is in PostgreSQL only sealed, and in memory as a key that cannot be exported.
 */
import { lifetimes } from "#schema/auth.ts"
import type { EpochMs } from "#schema/common.ts"
import { uuid7 } from "#schema/uuid.ts"
import { Vault } from "#schema/vault.ts"
import { Clock, Effect, Option, Redacted, Schema, Semaphore } from "effect"
import type { SqlError } from "effect/sql"
import { calculateJwkThumbprint, type CryptoKey, exportJWK, generateKeyPair, importJWK, SignJWT } from "jose"
import type { UserRow } from "../store/auth-users.ts"
import type { AuthStore, KeyRow } from "../store/auth.ts"
import { endingsMatterMs, tokenAudience, tokenIssuer, tokenType } from "./auth-tokens.ts"

const dayMs = 86_400_000
export const signsForMs = 90 * dayMs
const trustedAfterMs = dayMs
/** Far beyond what reading the keys again takes (2 s), the minute that clocks may differ by, and the minute of `max-age`. */
export const leadMs = 3_600_000

export interface SigningKey {
  readonly kid: string
  readonly key: CryptoKey | Uint8Array
  readonly signsFromMs: EpochMs
  readonly expiresAtMs: EpochMs
}

const PrivateJwk = Schema.fromJsonString(
  Schema.Struct({ kty: Schema.Literal("OKP"), crv: Schema.Literal("Ed25519"), x: Schema.String, d: Schema.String }),
)
const context = (kid: string) => `auth/signing-key/${kid}`

const openKey = Effect.fnUntraced(function*(row: KeyRow) {
  const vault = yield* Vault
  const text = yield* vault.open(context(row.kid), row.sealedPrivate)
  const jwk = yield* Schema.decodeEffect(PrivateJwk)(Redacted.value(text)).pipe(Effect.orDie)
  const key = yield* Effect.promise(() => importJWK(jwk, "EdDSA"))
  const { expiresAt, kid, signsFrom } = row
  return { kid, key, signsFromMs: signsFrom.getTime(), expiresAtMs: expiresAt.getTime() } satisfies SigningKey
})

const makeKey = Effect.fnUntraced(function*(store: KeyStore, nowMs: EpochMs, signsFromMs: EpochMs) {
  const vault = yield* Vault
  const pair = yield* Effect.promise(() => generateKeyPair("EdDSA", { crv: "Ed25519", extractable: true }))
  const jwk = yield* Effect.promise(() => exportJWK(pair.privateKey))
  const kid = yield* Effect.promise(() => calculateJwkThumbprint(jwk))
  const sealedPrivate = yield* vault.seal(context(kid), Redacted.make(JSON.stringify(jwk)))
  const expiresAtMs = signsFromMs + signsForMs + trustedAfterMs
  yield* store.add({ kid, publicX: jwk.x!, sealedPrivate, nowMs, signsFromMs, expiresAtMs })
  const key = yield* Effect.promise(() => importJWK(jwk, "EdDSA"))
  return { kid, key, signsFromMs, expiresAtMs } satisfies SigningKey
})

/** Where keys are kept; the one that signs from the latest moment comes first. */
interface KeyStore {
  readonly list: (nowMs: EpochMs) => Effect.Effect<ReadonlyArray<KeyRow>, SqlError.SqlError>
  readonly add: (key: Parameters<AuthStore["keys"]["add"]>[0]) => Effect.Effect<unknown, SqlError.SqlError>
}

/** The keys of this node. */
export interface KeyRing {
  /** The key to sign with now. */
  readonly current: Effect.Effect<SigningKey, SqlError.SqlError, Vault>
  /** Reads the keys again and makes the next one when its time has come. */
  readonly maintain: Effect.Effect<void, SqlError.SqlError, Vault>
}

/** `onNew` runs after a key was added, before it signs. */
export const makeKeyRing = (store: KeyStore, onNew: Effect.Effect<void>): KeyRing => {
  let ring: ReadonlyArray<SigningKey> = []
  const one = Semaphore.makeUnsafe(1)
  // A token must be expired, by every node's clock, before its key is.
  const pick = (nowMs: EpochMs) =>
    ring.filter((key) => key.signsFromMs <= nowMs && key.expiresAtMs > nowMs + endingsMatterMs)
      .toSorted((a, b) => b.signsFromMs - a.signsFromMs)[0]

  const maintain = Effect.gen(function*() {
    const nowMs = yield* Clock.currentTimeMillis
    const held = new Map(ring.map((key) => [key.kid, key]))
    const own: Array<SigningKey> = []
    for (const row of yield* store.list(nowMs)) {
      const known = held.get(row.kid)
      // Another node's key opens in that node's vault only.
      const opened = known ?? Option.getOrUndefined(yield* Effect.option(openKey(row)))
      if (opened !== undefined) own.push(opened)
    }
    ring = own
    const newestMs = Math.max(...ring.map((key) => key.signsFromMs))
    const signsFromMs = pick(nowMs) === undefined ?
      nowMs :
      newestMs + signsForMs <= nowMs + leadMs ?
      Math.max(nowMs + leadMs, newestMs + signsForMs) :
      null
    if (signsFromMs === null) return
    ring = [...ring, yield* makeKey(store, nowMs, signsFromMs)]
    yield* onNew
  }).pipe(one.withPermits(1))

  return {
    maintain,
    current: Effect.gen(function*() {
      const held = pick(yield* Clock.currentTimeMillis)
      if (held !== undefined) return held
      yield* maintain
      return pick(yield* Clock.currentTimeMillis)!
    }),
  }
}

/** An access token for a session (RFC 9068), of which it never outlives the end. */
export const signAccessToken = Effect.fnUntraced(function*(signer: SigningKey, session: {
  readonly user: UserRow
  readonly sessionId: string
  readonly endsAtMs: EpochMs
  /** It is good for nothing but a change of the password. */
  readonly onlyPassword: boolean
}) {
  const seconds = Math.floor((yield* Clock.currentTimeMillis) / 1000)
  const expiresIn = Math.max(1, Math.min(lifetimes.accessToken, Math.floor(session.endsAtMs / 1000) - seconds))
  const jti = yield* uuid7
  const { onlyPassword, sessionId, user } = session
  const own = { sid: sessionId, name: user.username, roles: [...user.roles], client_id: "nightjar" }
  const token = yield* Effect.promise(() =>
    new SignJWT(onlyPassword ? { ...own, only: "password" } : own)
      .setProtectedHeader({ alg: "EdDSA", typ: tokenType, kid: signer.kid })
      .setIssuer(tokenIssuer)
      .setAudience(tokenAudience)
      .setSubject(user.id)
      .setJti(jti)
      .setIssuedAt(seconds)
      .setExpirationTime(seconds + expiresIn)
      .sign(signer.key)
  )
  return { token: Redacted.make(token), expiresIn }
})
