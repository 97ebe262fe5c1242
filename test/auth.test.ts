/** Tokens and passwords without a database: what is let in, and everything that must not be. */
import { makePasswords } from "#actors/behaviour/auth-passwords.ts"
import { AccessTokensLive } from "#actors/behaviour/auth-tokens.ts"
import { AccessTokens, type TokenTrust } from "#actors/protocol/auth.ts"
import { waitAfter } from "#actors/store/auth-throttle.ts"
import { defaultSecuritySettings } from "#schema/auth-security.ts"
import { lifetimes, type PublicJwk } from "#schema/auth.ts"
import { anonymous, decide, type Permission, permissionNames, type ResourceKey } from "#schema/permission.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Redacted } from "effect"
import { TestClock } from "effect/testing"
import {
  calculateJwkThumbprint,
  exportJWK,
  generateKeyPair,
  importJWK,
  type JWK,
  type JWTPayload,
  SignJWT,
  UnsecuredJWT,
} from "jose"
import { createHmac } from "node:crypto"
import { principal, userId } from "./http-fixtures.ts"

const sid = "0190163d-8694-7395-8ad4-5b8a3f3d0a02"

interface Signer {
  readonly jwk: PublicJwk
  readonly private: JWK
}

const makeSigner = Effect.promise(async (): Promise<Signer> => {
  const pair = await generateKeyPair("EdDSA", { crv: "Ed25519", extractable: true })
  const full = await exportJWK(pair.privateKey)
  const kid = await calculateJwkThumbprint(full)
  return { jwk: { kty: "OKP", crv: "Ed25519", x: full.x!, kid, alg: "EdDSA", use: "sig" }, private: full }
})

const trusting = (signers: ReadonlyArray<Signer>, ended: ReadonlyArray<string> = []): TokenTrust => ({
  keys: signers.map(({ jwk }) => ({ jwk, expiresAtMs: 90 * 86_400_000 })),
  roles: [{ role: "viewer", permissions: ["camera:live"], resources: "all" }, {
    role: "admin",
    permissions: ["*"],
    resources: "all",
  }],
  users: { roles: new Map([[userId, ["viewer"]]]), complete: true },
  endedSessions: new Set(ended),
  security: defaultSecuritySettings,
})

const goodClaims = {
  iss: "nightjar",
  aud: "nightjar",
  sub: userId as string,
  jti: "j",
  sid,
  name: "ann",
  roles: ["viewer"],
}

/** A token as this product makes it, but for what is changed. */
const sign = (
  signer: Signer,
  change: { readonly claims?: JWTPayload; readonly header?: Record<string, string>; readonly lifeSeconds?: number } =
    {},
) =>
  Effect.gen(function*() {
    // The test's clock starts at 0 and only moves where a test says so; tokens are made at its beginning.
    const seconds = 0
    return yield* Effect.promise(async () => {
      const key = await importJWK(signer.private, "EdDSA")
      const life = change.lifeSeconds ?? lifetimes.accessToken
      const header = { alg: "EdDSA", typ: "at+jwt", kid: signer.jwk.kid, ...change.header }
      const jwt = new SignJWT({ ...goodClaims, iat: seconds, exp: seconds + life, ...change.claims })
      return Redacted.make(await jwt.setProtectedHeader(header).sign(key))
    })
  })

const base64url = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url")

const refuses = Effect.fnUntraced(function*(token: Redacted.Redacted, why: string) {
  const tokens = yield* AccessTokens
  const exit = yield* Effect.exit(tokens.verify(token))
  assert.isTrue(Exit.isFailure(exit), why)
  const error = yield* Effect.flip(tokens.verify(token))
  assert.strictEqual(error._tag, "Unauthenticated", why)
})

describe("an access token", () => {
  const test = (name: string, run: () => Effect.Effect<void, unknown, AccessTokens>) =>
    it.effect(name, () => Effect.provide(run(), AccessTokensLive))

  test("speaks for its user with what the roles grant now", () =>
    Effect.gen(function*() {
      const tokens = yield* AccessTokens
      const signer = yield* makeSigner
      yield* tokens.trust(trusting([signer]))
      const user = yield* tokens.verify(yield* sign(signer))
      assert.strictEqual(user.userId, userId)
      assert.strictEqual(user.sessionId, sid)
      assert.deepStrictEqual(user.grants, [{ role: "viewer", permissions: ["camera:live"], resources: "all" }])
    }))

  test("of a user who is gone is refused; roles are those of now, whatever the token says", () =>
    Effect.gen(function*() {
      const tokens = yield* AccessTokens
      const signer = yield* makeSigner
      const users = (held: ReadonlyArray<readonly [string, ReadonlyArray<string>]>, complete = true) =>
        tokens.trust({ ...trusting([signer]), users: { roles: new Map(held), complete } })
      const token = yield* sign(signer)
      const roles = Effect.map(tokens.verify(token), (user) => user.grants.map((grant) => grant.role))
      yield* users([[userId, ["admin"]]])
      assert.deepStrictEqual(yield* roles, ["admin"])
      yield* users([[userId, []]])
      assert.deepStrictEqual(yield* roles, [])
      yield* users([])
      yield* refuses(token, "nobody knows the user any more")
      yield* users([], false)
      assert.deepStrictEqual(yield* roles, ["viewer"], "more users than are kept")
    }))

  test("gets the same grants from what has not changed", () =>
    Effect.gen(function*() {
      const tokens = yield* AccessTokens
      const signer = yield* makeSigner
      const token = yield* sign(signer)
      const grants = Effect.map(tokens.verify(token), (user) => user.grants)
      yield* tokens.trust(trusting([signer]))
      const before = yield* grants
      yield* tokens.trust(trusting([signer]))
      assert.strictEqual(yield* grants, before)
      const narrowed = { role: "viewer", permissions: ["camera:live"], resources: new Set<ResourceKey>() }
      yield* tokens.trust({ ...trusting([signer]), roles: [narrowed] })
      assert.deepStrictEqual(yield* grants, [narrowed])
    }))

  test("cannot be judged before the keys were read", () =>
    Effect.gen(function*() {
      const tokens = yield* AccessTokens
      const error = yield* Effect.flip(tokens.verify(yield* sign(yield* makeSigner)))
      assert.strictEqual(error._tag, "DependencyUnavailable")
      yield* refuses(Redacted.make(""), "no token needs no keys")
    }))

  test("of another key, type, issuer or audience is refused", () =>
    Effect.gen(function*() {
      const tokens = yield* AccessTokens
      const signer = yield* makeSigner
      const other = yield* makeSigner
      yield* tokens.trust(trusting([signer]))
      yield* refuses(yield* sign(other), "unknown key")
      yield* refuses(yield* sign(other, { header: { kid: signer.jwk.kid } }), "known id, other key")
      yield* refuses(yield* sign(signer, { header: { typ: "JWT" } }), "an id token is no access token")
      yield* refuses(yield* sign(signer, { claims: { iss: "somebody" } }), "issuer")
      yield* refuses(yield* sign(signer, { claims: { aud: "elsewhere" } }), "audience")
      yield* refuses(yield* sign(signer, { claims: { sub: "nobody" } }), "subject")
      yield* refuses(yield* sign(signer, { claims: { sid: undefined } }), "session")
      yield* refuses(yield* sign(signer, { claims: { jti: undefined as never } }), "id")
      yield* refuses(Redacted.make("x".repeat(5000)), "length")
      yield* refuses(Redacted.make("a.b.c"), "nonsense")
    }))

  test("without a signature, or with one by the public key as a secret, is refused", () =>
    Effect.gen(function*() {
      const tokens = yield* AccessTokens
      const signer = yield* makeSigner
      yield* tokens.trust(trusting([signer]))
      const claims = { ...goodClaims, iat: 0, exp: lifetimes.accessToken }
      yield* refuses(Redacted.make(new UnsecuredJWT(claims).encode()), "alg none")
      for (const secret of [signer.jwk.x, JSON.stringify(signer.jwk), Buffer.from(signer.jwk.x, "base64url")]) {
        const head = `${base64url({ alg: "HS256", typ: "at+jwt", kid: signer.jwk.kid })}.${base64url(claims)}`
        const mac = createHmac("sha256", secret).update(head).digest("base64url")
        yield* refuses(Redacted.make(`${head}.${mac}`), "alg HS256")
      }
      const [, body, signature] = Redacted.value(yield* sign(signer)).split(".")
      const noneHead = base64url({ alg: "none", typ: "at+jwt", kid: signer.jwk.kid })
      yield* refuses(Redacted.make(`${noneHead}.${body}.${signature}`), "header exchanged")
      yield* refuses(Redacted.make(`${noneHead}.${body}.`), "signature taken away")
    }))

  test("is refused once it is expired, also when it was good before", () =>
    Effect.gen(function*() {
      const tokens = yield* AccessTokens
      const signer = yield* makeSigner
      yield* tokens.trust(trusting([signer]))
      const token = yield* sign(signer)
      yield* tokens.verify(token)
      yield* TestClock.adjust("9 minutes")
      yield* tokens.verify(token)
      yield* TestClock.adjust("121 seconds")
      yield* refuses(token, "expired")
      // One that claims a longer life than we give is not ours.
      yield* refuses(yield* sign(signer, { lifeSeconds: 86_400 }), "issued too long ago")
    }))

  test("is refused once its session ended, here at once or elsewhere with the next news", () =>
    Effect.gen(function*() {
      const tokens = yield* AccessTokens
      const signer = yield* makeSigner
      yield* tokens.trust(trusting([signer]))
      const token = yield* sign(signer)
      yield* tokens.verify(token)
      yield* tokens.trust(trusting([signer], [sid]))
      yield* refuses(token, "ended elsewhere")
      yield* tokens.trust(trusting([signer]))
      yield* tokens.verify(token)
      yield* tokens.endSession(sid)
      yield* refuses(token, "ended here")
      yield* tokens.trust(trusting([signer]))
      yield* refuses(token, "news that are older than the end do not bring it back")
    }))

  test("goes with its key", () =>
    Effect.gen(function*() {
      const tokens = yield* AccessTokens
      const signer = yield* makeSigner
      const next = yield* makeSigner
      yield* tokens.trust(trusting([signer]))
      const token = yield* sign(signer)
      yield* tokens.verify(token)
      yield* tokens.trust(trusting([next]))
      yield* refuses(token, "key is gone")
      assert.deepStrictEqual((yield* tokens.jwks).keys, [next.jwk])
    }))
})

describe("a password", () => {
  it.live("matches its own hash only, in any Unicode form", () =>
    Effect.gen(function*() {
      const passwords = yield* makePasswords
      const hash = yield* passwords.hash(Redacted.make("Cafe\u0301 au lait"))
      assert.match(hash, /^\$argon2id\$v=19\$m=19456,t=2,p=1\$/)
      assert.isTrue((yield* passwords.verify(Redacted.make("Caf\u00e9 au lait"), hash)).matches)
      assert.isFalse((yield* passwords.verify(Redacted.make("Cafe au lait"), hash)).matches)
      assert.isFalse((yield* passwords.verify(Redacted.make("anything"), null)).matches)
      assert.isFalse((yield* passwords.verify(Redacted.make("anything"), "$argon2id$nonsense")).matches)
    }))

  it.live("whose hash cost less than today's is told apart", () =>
    Effect.gen(function*() {
      const passwords = yield* makePasswords
      const cheap = "$argon2id$v=19$m=8192,t=1,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
      assert.deepStrictEqual(yield* passwords.verify(Redacted.make("x"), cheap), { matches: false, outdated: true })
    }))

  it.live("is refused rather than queued without end", () =>
    Effect.gen(function*() {
      const passwords = yield* makePasswords
      const many = Array.from({ length: 70 }, () => Effect.exit(passwords.verify(Redacted.make("x"), null)))
      const exits = yield* Effect.all(many, { concurrency: "unbounded" })
      assert.strictEqual(exits.filter(Exit.isFailure).length, 6)
    }))
})

describe("the wait after a failure", () => {
  it("doubles from a second to a quarter of an hour", () => {
    assert.deepStrictEqual(
      [1, 4, 5, 6, 7, 14, 15, 1000].map((failures) =>
        waitAfter(failures, 5, { firstMs: 1000, longestMs: 900_000 }) / 1000
      ),
      [
        0,
        0,
        1,
        2,
        4,
        512,
        900,
        900,
      ],
    )
  })
})

describe("a decision", () => {
  it("grants everything to an administrator, and nothing to nobody", () => {
    for (const permission of permissionNames) {
      assert.isTrue(decide(principal("admin"), permission).allowed)
      assert.isFalse(decide(anonymous, permission).allowed)
    }
  })

  it("keeps viewers from changing, and operators from managing", () => {
    const held = (role: "viewer" | "operator") =>
      permissionNames.filter((name) => decide(principal(role), name).allowed)
    assert.deepStrictEqual(held("viewer").filter((name) => /:(write|configure|ptz|export)$/.test(name)), [])
    const kept: ReadonlyArray<Permission> = [
      "user:write",
      "permission:write",
      "system:write",
      "audit:read",
    ]
    assert.deepStrictEqual(held("operator").filter((name) => kept.includes(name)), [])
  })
})
