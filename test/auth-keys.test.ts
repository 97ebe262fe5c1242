/** Signing keys over months on a virtual clock, and their tokens as OpenSSL sees them. */
import { leadMs, makeKeyRing, signAccessToken, signsForMs } from "#actors/behaviour/auth-keys.ts"
import { AccessTokensLive, clockTolerance, endingsMatterMs } from "#actors/behaviour/auth-tokens.ts"
import { AccessTokens } from "#actors/protocol/auth.ts"
import type { UserRow } from "#actors/store/auth-users.ts"
import type { KeyRow } from "#actors/store/auth.ts"
import { defaultSecuritySettings } from "#schema/auth-security.ts"
import type { PublicJwk } from "#schema/auth.ts"
import { Vault, VaultError } from "#schema/vault.ts"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Fiber, Layer, Redacted, Stream } from "effect"
import { TestClock } from "effect/testing"
import { decodeProtectedHeader } from "jose"
import { execFileSync } from "node:child_process"
import { createPublicKey } from "node:crypto"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

const hour = 3_600_000
const day = 24 * hour
const sessionId = "0190163d-8694-7395-8ad4-5b8a3f3d0a02"

const user = {
  id: "0190163d-8694-7395-8ad4-5b8a3f3d0a01",
  username: "ann",
  roles: ["viewer"],
} as unknown as UserRow

/** A vault that opens its own only. */
const vault = (name: string) =>
  Layer.succeed(Vault, {
    seal: (context, secret) => Effect.succeed(`${name}|${context}|${Redacted.value(secret)}`),
    open: (context, sealed) =>
      sealed.startsWith(`${name}|${context}|`) ?
        Effect.succeed(Redacted.make(sealed.slice(name.length + context.length + 2))) :
        Effect.fail(new VaultError({ reason: "forged", context })),
  })

/** The table of keys, and a node that reads what it trusts when it is told to. */
const world = () => {
  const rows: Array<KeyRow & { readonly publishedMs: number }> = []
  const store = {
    list: (nowMs: number) =>
      Effect.sync(() =>
        rows.filter((row) => row.expiresAt.getTime() > nowMs).sort((a, b) =>
          b.signsFrom.getTime() - a.signsFrom.getTime()
        )
      ),
    add: (key: {
      readonly kid: string
      readonly publicX: string
      readonly sealedPrivate: string
      readonly nowMs: number
      readonly signsFromMs: number
      readonly expiresAtMs: number
    }) =>
      Effect.sync(() => {
        const { expiresAtMs, kid, nowMs, publicX, sealedPrivate, signsFromMs } = key
        const times = { publishedMs: nowMs, signsFrom: new Date(signsFromMs), expiresAt: new Date(expiresAtMs) }
        rows.push({ kid, publicX, sealedPrivate, ...times })
        return []
      }),
  }
  const trust = Effect.gen(function*() {
    const tokens = yield* AccessTokens
    const keys = yield* store.list(yield* Clock.currentTimeMillis)
    yield* tokens.trust({
      keys: keys.map((row) => ({ jwk: jwkOf(row), expiresAtMs: row.expiresAt.getTime() })),
      roles: [],
      users: { roles: new Map([[user.id, []]]), complete: true },
      endedSessions: new Set(),
      security: defaultSecuritySettings,
    })
  })
  return { rows, store, trust }
}

const jwkOf = ({ kid, publicX }: KeyRow): PublicJwk => ({
  kty: "OKP",
  crv: "Ed25519",
  x: publicX,
  kid,
  alg: "EdDSA",
  use: "sig",
})

const signed = Effect.fnUntraced(function*(ring: ReturnType<typeof makeKeyRing>) {
  const nowMs = yield* Clock.currentTimeMillis
  const endsAtMs = nowMs + day
  const { token } = yield* signAccessToken(yield* ring.current, { user, sessionId, endsAtMs, onlyPassword: false })
  return token
})
const kidOf = (token: Redacted.Redacted) => decodeProtectedHeader(Redacted.value(token)).kid!

describe("signing keys", () => {
  it.effect("change ahead of use: no verifier meets a key that was not published long before", () => {
    const { rows, store, trust } = world()
    return Effect.gen(function*() {
      const tokens = yield* AccessTokens
      const ring = makeKeyRing(store, Effect.void)
      yield* ring.maintain
      // A verifier that reads once an hour, far more seldom than any node does.
      yield* trust
      let token = yield* signed(ring)
      const signers = new Set([kidOf(token)])
      /** Whether the verifier knows the key that signs now; where it is another one than before, and once a day, by a token too. */
      const look = Effect.fnUntraced(function*(daily: boolean) {
        const { kid } = yield* ring.current
        const known = (yield* tokens.jwks).keys.map((key) => key.kid)
        assert.include(known, kid)
        const changed = kid !== kidOf(token)
        if (!changed && !daily) return
        const before = token
        token = yield* signed(ring)
        assert.strictEqual(kidOf(token), kid)
        signers.add(kid)
        // By what was read a while ago, the new token is good; the last one is while its key is known.
        yield* tokens.verify(token)
        if (changed) assert.include(known, kidOf(before))
      })
      for (let now = 0; now < 200 * day; now += leadMs) {
        const daily = now % day === 0
        yield* TestClock.adjust("8 minutes")
        yield* ring.maintain
        yield* look(daily)
        yield* TestClock.adjust("51 minutes")
        yield* ring.maintain
        yield* look(false)
        yield* trust
        yield* TestClock.adjust("1 minute")
      }
      assert.strictEqual(signers.size, 3, "one a quarter")
      assert.strictEqual(rows.length, 3, "and not one more")
      for (const [n, { publishedMs, signsFrom }] of rows.entries()) {
        if (n > 0) assert.isAtLeast(signsFrom.getTime() - publishedMs, leadMs)
        assert.approximately(signsFrom.getTime(), n * signsForMs, n * leadMs)
      }
    }).pipe(Effect.provide([AccessTokensLive, vault("one")]))
  }, 60_000)

  it.effect("are kept until the last token they signed has expired by every clock", () => {
    const { store, trust } = world()
    return Effect.gen(function*() {
      const tokens = yield* AccessTokens
      const ring = makeKeyRing(store, Effect.void)
      yield* ring.maintain
      yield* TestClock.setTime(signsForMs - leadMs)
      yield* ring.maintain
      yield* TestClock.setTime(signsForMs - 30_000)
      const last = yield* signed(ring)
      yield* TestClock.adjust("9 minutes")
      yield* ring.maintain
      yield* trust
      assert.notStrictEqual(kidOf(yield* signed(ring)), kidOf(last))
      yield* tokens.verify(last)
      assert.strictEqual((yield* tokens.jwks).keys.length, 2)
      yield* TestClock.setTime(signsForMs + 2 * day)
      yield* trust
      assert.strictEqual((yield* tokens.jwks).keys.length, 1, "then it goes")
    }).pipe(Effect.provide([AccessTokensLive, vault("one")]))
  })

  it.effect("of a node that was away for months: the old one does not sign, a new one does at once", () => {
    const { rows, store } = world()
    let told = 0
    return Effect.gen(function*() {
      const news = Effect.sync(() => void told++)
      const first = makeKeyRing(store, news)
      yield* first.current
      yield* TestClock.setTime(signsForMs + day - endingsMatterMs + 1)
      const token = yield* signed(makeKeyRing(store, news))
      assert.notStrictEqual(kidOf(token), rows[0]!.kid, "a token of it would outlive it")
      assert.strictEqual(told, 2, "the other nodes are told before it signs")
      yield* TestClock.setTime(400 * day)
      yield* signed(makeKeyRing(store, news))
      assert.strictEqual(told, 3)
    }).pipe(Effect.provide(vault("one")))
  })

  it.effect("are each node's own: one does not sign with what another's vault holds, but goes on with its own", () => {
    const { rows, store } = world()
    return Effect.gen(function*() {
      const one = makeKeyRing(store, Effect.void)
      const two = makeKeyRing(store, Effect.void)
      const token = yield* signed(one).pipe(Effect.provide(vault("one")))
      const other = yield* signed(two).pipe(Effect.provide(vault("two")))
      assert.notStrictEqual(kidOf(token), kidOf(other))
      const again = makeKeyRing(store, Effect.void)
      assert.strictEqual(kidOf(yield* signed(again).pipe(Effect.provide(vault("two")))), kidOf(other))
      assert.strictEqual(rows.length, 2)
    })
  })
})

describe("an access token", () => {
  it.effect("is tolerated a minute around its time, and not a second more", () => {
    const { store, trust } = world()
    return Effect.gen(function*() {
      const tokens = yield* AccessTokens
      const ring = makeKeyRing(store, Effect.void)
      yield* TestClock.setTime(10 * day)
      const token = yield* signed(ring)
      yield* trust
      assert.strictEqual(clockTolerance, 60)
      const at = (seconds: number) => TestClock.setTime(10 * day + seconds * 1000)
      const refused = Effect.map(Effect.flip(tokens.verify(token)), (error) => error._tag)
      yield* at(-61)
      assert.strictEqual(yield* refused, "Unauthenticated", "from the future")
      yield* at(-60)
      yield* tokens.verify(token)
      yield* at(600 + 59)
      yield* tokens.verify(token)
      yield* at(600 + 60)
      assert.strictEqual(yield* refused, "Unauthenticated", "expired")
      // Neither answer is remembered instead of looked at.
      yield* at(300)
      yield* tokens.verify(token)
    }).pipe(Effect.provide([AccessTokensLive, vault("one")]))
  })

  it.effect("never outlives its session", () => {
    const { store } = world()
    return Effect.gen(function*() {
      const ring = makeKeyRing(store, Effect.void)
      const short = { user, sessionId, endsAtMs: 90_500, onlyPassword: false }
      assert.strictEqual((yield* signAccessToken(yield* ring.current, short)).expiresIn, 90)
      const long = { ...short, endsAtMs: day }
      assert.strictEqual((yield* signAccessToken(yield* ring.current, long)).expiresIn, 600)
    }).pipe(Effect.provide(vault("one")))
  })

  it.effect("for a change of the password alone grants nothing", () => {
    const { store, trust } = world()
    return Effect.gen(function*() {
      const tokens = yield* AccessTokens
      const ring = makeKeyRing(store, Effect.void)
      const session = { user, sessionId, endsAtMs: day, onlyPassword: true }
      const { token } = yield* signAccessToken(yield* ring.current, session)
      yield* trust
      const who = yield* tokens.verify(token)
      assert.isTrue(who.mustChangePassword)
      assert.deepStrictEqual(who.grants, [])
    }).pipe(Effect.provide([AccessTokensLive, vault("one")]))
  })

  it.effect("verifies with OpenSSL by the published key, and a changed one does not", () => {
    const { store, trust } = world()
    const folder = mkdtempSync(join(tmpdir(), "nightjar-token-"))
    const at = (name: string) => join(folder, name)
    return Effect.gen(function*() {
      const tokens = yield* AccessTokens
      const ring = makeKeyRing(store, Effect.void)
      const token = Redacted.value(yield* signed(ring))
      yield* trust
      const { keys } = yield* tokens.jwks
      const [head = "", body = "", signature = ""] = token.split(".")
      const jwk = keys.find(({ kid }) => kid === kidOf(Redacted.make(token)))!
      writeFileSync(at("key.pem"), createPublicKey({ key: jwk, format: "jwk" }).export({ type: "spki", format: "pem" }))
      writeFileSync(at("signature"), Buffer.from(signature, "base64url"))
      const verify = (text: string) => {
        writeFileSync(at("signed"), text)
        const files = ["-inkey", at("key.pem"), "-in", at("signed"), "-sigfile", at("signature")]
        try {
          return execFileSync("openssl", ["pkeyutl", "-verify", "-pubin", "-rawin", ...files], { encoding: "utf8" })
            .trim()
        } catch (error) {
          return `refused with ${(error as { readonly status: number }).status}`
        }
      }
      assert.strictEqual(verify(`${head}.${body}`), "Signature Verified Successfully")
      const claims = JSON.parse(Buffer.from(body, "base64url").toString()) as object
      const forged = Buffer.from(JSON.stringify({ ...claims, roles: ["admin"] })).toString("base64url")
      assert.strictEqual(verify(`${head}.${forged}`), "refused with 1")
    }).pipe(
      Effect.ensuring(Effect.sync(() => rmSync(folder, { recursive: true, force: true }))),
      Effect.provide([AccessTokensLive, vault("one")]),
    )
  })
})

describe("the end of a session", () => {
  it.effect("is told once to whoever waits, wherever it ended, and to those who come too late", () =>
    Effect.gen(function*() {
      const { trust } = world()
      const tokens = yield* AccessTokens
      const told: Array<string> = []
      const heard: Array<string> = []
      const wait = (id: string) =>
        Effect.forkChild(Effect.andThen(tokens.untilEnded(id), Effect.sync(() => told.push(id))))
      yield* Effect.forkChild(Stream.runForEach(tokens.ended, (id) => Effect.sync(() => heard.push(id))))
      yield* wait("here")
      yield* wait("there")
      yield* wait("never")
      const gone = yield* wait("here")
      yield* Effect.yieldNow
      yield* Fiber.interrupt(gone)
      yield* TestClock.adjust(1)
      yield* tokens.endSession("here")
      yield* tokens.endSession("here")
      yield* TestClock.adjust(1)
      assert.deepStrictEqual(told, ["here"])
      yield* trust
      const known = {
        keys: [],
        roles: [],
        users: { roles: new Map(), complete: true },
        security: defaultSecuritySettings,
      }
      yield* tokens.trust({ ...known, endedSessions: new Set(["here", "there"]) })
      yield* tokens.trust({ ...known, endedSessions: new Set(["here", "there"]) })
      yield* TestClock.adjust(1)
      assert.deepStrictEqual(told, ["here", "there"])
      assert.deepStrictEqual(heard, ["here", "there"])
      yield* tokens.untilEnded("there")
      assert.isTrue(yield* tokens.hasEnded("there"))
      assert.isFalse(yield* tokens.hasEnded("never"))
    }).pipe(Effect.provide(AccessTokensLive)))
})
