/**
 * The keys that sign access tokens. Each node signs with a key of its own, sealed under its vault; every node verifies with
 * the public halves of all, which stand in PostgreSQL.
 *
 * Invariants
 * 1. A key signs for {@link signsForMs} and is trusted a day longer, so no token outlives its key.
 * 2. A private key is in PostgreSQL only sealed, and in memory as a key that cannot be exported.
 */
import { lifetimes } from "#schema/auth.ts"
import type { EpochMs } from "#schema/common.ts"
import { uuid7 } from "#schema/uuid.ts"
import { Vault } from "#schema/vault.ts"
import { Clock, Effect, Redacted, Schema } from "effect"
import { calculateJwkThumbprint, type CryptoKey, exportJWK, generateKeyPair, importJWK, SignJWT } from "jose"
import type { AuthStore, KeyRow, UserRow } from "../store/auth.ts"
import { tokenAudience, tokenIssuer, tokenType } from "./auth-tokens.ts"

const dayMs = 86_400_000
export const signsForMs = 90 * dayMs
const trustedForMs = signsForMs + dayMs

export interface SigningKey {
  readonly kid: string
  readonly key: CryptoKey | Uint8Array
  readonly createdAtMs: EpochMs
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
  return { kid: row.kid, key, createdAtMs: row.createdAt.getTime() } satisfies SigningKey
})

const makeKey = Effect.fnUntraced(function*(store: AuthStore, nowMs: EpochMs) {
  const vault = yield* Vault
  const pair = yield* Effect.promise(() => generateKeyPair("EdDSA", { crv: "Ed25519", extractable: true }))
  const jwk = yield* Effect.promise(() => exportJWK(pair.privateKey))
  const kid = yield* Effect.promise(() => calculateJwkThumbprint(jwk))
  const sealedPrivate = yield* vault.seal(context(kid), Redacted.make(JSON.stringify(jwk)))
  yield* store.keys.add({ kid, publicX: jwk.x!, sealedPrivate, nowMs, expiresAtMs: nowMs + trustedForMs })
  const key = yield* Effect.promise(() => importJWK(jwk, "EdDSA"))
  return { kid, key, createdAtMs: nowMs } satisfies SigningKey
})

/** The newest key that this node can open and that still signs; a new one where there is none. */
export const signingKey = Effect.fnUntraced(function*(store: AuthStore, held: SigningKey | null) {
  const nowMs = yield* Clock.currentTimeMillis
  if (held !== null && held.createdAtMs + signsForMs > nowMs) return held
  for (const row of yield* store.keys.list(nowMs)) {
    if (row.createdAt.getTime() + signsForMs <= nowMs) continue
    // Another node's key opens in that node's vault only.
    const opened = yield* Effect.option(openKey(row))
    if (opened._tag === "Some") return opened.value
  }
  return yield* makeKey(store, nowMs)
})

/** An access token for a session (RFC 9068). */
export const signAccessToken = Effect.fnUntraced(function*(signer: SigningKey, user: UserRow, sessionId: string) {
  const seconds = Math.floor((yield* Clock.currentTimeMillis) / 1000)
  const jti = yield* uuid7
  const token = yield* Effect.promise(() =>
    new SignJWT({ sid: sessionId, name: user.username, roles: [...user.roles], client_id: "nightjar" })
      .setProtectedHeader({ alg: "EdDSA", typ: tokenType, kid: signer.kid })
      .setIssuer(tokenIssuer)
      .setAudience(tokenAudience)
      .setSubject(user.id)
      .setJti(jti)
      .setIssuedAt(seconds)
      .setExpirationTime(seconds + lifetimes.accessToken)
      .sign(signer.key)
  )
  return Redacted.make(token)
})
