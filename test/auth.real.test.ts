/** Identity from outside: a server on a socket, a real PostgreSQL behind it, and `fetch`. */
import { assert, it } from "@effect/vitest"
import { Effect, Logger, type Scope } from "effect"
import { createRemoteJWKSet, decodeProtectedHeader, jwtVerify } from "jose"
import { mkdirSync } from "node:fs"
import { adminPassword, auth, caller, folder, node, startControl, startHttp, usePostgres } from "./auth-server.ts"

usePostgres()

const live = (name: string, run: () => Effect.Effect<void, unknown, Scope.Scope>) =>
  it.live(name, () => run().pipe(Effect.provide(Logger.layer([]))))

live("signs in, and the token verifies by the published keys", () =>
  Effect.gen(function*() {
    const { base, call, control, login } = yield* node
    assert.deepStrictEqual(control.first, [{ username: "admin", password: null }])
    const { body, headers, status } = yield* login("ADMIN")
    assert.strictEqual(status, 200)
    assert.strictEqual(headers.get("cache-control"), "no-store")
    assert.strictEqual(body["tokenType"], "Bearer")
    assert.strictEqual(body["expiresIn"], 600)
    const token = body["accessToken"] as string
    assert.strictEqual(decodeProtectedHeader(token).typ, "at+jwt")
    const keys = createRemoteJWKSet(new URL(`${base}/.well-known/jwks.json`))
    const { payload } = yield* Effect.promise(() =>
      jwtVerify(token, keys, { issuer: "nightjar", audience: "nightjar", typ: "at+jwt" })
    )
    assert.strictEqual(payload.sub, (body["user"] as { id: string }).id)
    assert.deepStrictEqual((body["user"] as { roles: unknown }).roles, ["admin"])
    assert.strictEqual((yield* call("GET", "/health/detailed", { token })).status, 200)
    assert.strictEqual((yield* call("GET", "/health/detailed", { token: `${token}x` })).status, 401)
    const beat = yield* call("POST", `${auth}/heartbeat`, { token })
    assert.strictEqual(beat.status, 200)
    assert.isAbove(Date.parse(beat.body["expiresAt"] as string), Date.parse(beat.body["serverTime"] as string))
  }))

live("rotates refresh tokens, and a replayed one ends the session", () =>
  Effect.gen(function*() {
    const { call, control, login } = yield* node
    const first = (yield* login()).body
    const second = yield* call("POST", `${auth}/refresh`, { body: { refreshToken: first["refreshToken"] } })
    assert.strictEqual(second.status, 200)
    assert.notStrictEqual(second.body["refreshToken"], first["refreshToken"])
    const token = second.body["accessToken"]
    assert.strictEqual((yield* call("GET", `${auth}/profile`, { token })).status, 200)
    const replay = yield* call("POST", `${auth}/refresh`, { body: { refreshToken: first["refreshToken"] } })
    assert.strictEqual(replay.status, 401)
    assert.strictEqual(replay.body["code"], "invalid_refresh_token")
    // The thief's and the owner's alike.
    assert.strictEqual(
      (yield* call("POST", `${auth}/refresh`, { body: { refreshToken: second.body["refreshToken"] } })).status,
      401,
    )
    assert.strictEqual((yield* call("GET", `${auth}/profile`, { token })).status, 401)
    assert.strictEqual((yield* call("POST", `${auth}/refresh`, { body: { refreshToken: "made up" } })).status, 401)
    const [told] = control.events
    assert.deepInclude(told, { type: "session.terminated" })
    assert.strictEqual((told!.data as { readonly reason: string }).reason, "replay")
  }))

live("keeps a session alive by heartbeats, but not beyond its longest life", () =>
  Effect.gen(function*() {
    const { call, login, sql } = yield* node
    const { accessToken: token, refreshToken } = (yield* login()).body
    const day = 86_400_000
    const beat = Effect.map(call("POST", `${auth}/heartbeat`, { token }), ({ body }) =>
      Date.parse(body["expiresAt"] as string) - Date.parse(body["serverTime"] as string))
    yield* sql`UPDATE auth_session SET expires_at = now() + interval '5 minutes'`
    assert.strictEqual(yield* beat, 7 * day)
    yield* sql`UPDATE auth_session SET created_at = now() - interval '29 days'`
    assert.isAtMost(yield* beat, day)
    assert.isAbove(yield* beat, day - 60_000)
    // Its time is over: for the tables at once, for tokens as soon as the node reads again.
    yield* sql`UPDATE auth_session SET expires_at = now() - interval '1 second'`
    assert.strictEqual((yield* call("POST", `${auth}/heartbeat`, { token })).status, 401)
    assert.strictEqual((yield* call("POST", `${auth}/refresh`, { body: { refreshToken } })).status, 401)
    const refused = Effect.map(call("GET", "/health/detailed", { token }), ({ status }) =>
      status === 401)
    yield* Effect.repeat(Effect.delay(refused, "50 millis"), { until: (done) => done, times: 100 })
    assert.isTrue(yield* refused)
  }))

live("takes no characters that the database cannot hold", () =>
  Effect.gen(function*() {
    const { call, login } = yield* node
    assert.strictEqual((yield* login("ad\u0000min")).status, 400)
    const token = (yield* login()).body["accessToken"]
    for (const body of [{ displayName: "a\u0000b" }, { email: "a\u0000@b" }]) {
      assert.strictEqual((yield* call("PATCH", `${auth}/profile`, { token, body })).status, 400)
    }
    // Half of a pair is no character: whoever judges it, it is no mistake of ours.
    assert.include([400, 401], (yield* login("ad\ud800min")).status)
  }))

live("lets one of two win who refresh with the same token at once", () =>
  Effect.gen(function*() {
    const { call, login } = yield* node
    const { refreshToken } = (yield* login()).body
    const once = call("POST", `${auth}/refresh`, { body: { refreshToken } })
    const answers = yield* Effect.all(Array.from({ length: 6 }, () => once), { concurrency: "unbounded" })
    assert.deepStrictEqual(answers.map(({ status }) => status).toSorted((a, b) => a - b), [
      200,
      401,
      401,
      401,
      401,
      401,
    ])
  }))

live("keeps a browser's refresh token in a cookie that scripts cannot read", () =>
  Effect.gen(function*() {
    const { call } = yield* node
    const signedIn = yield* call("POST", `${auth}/login`, {
      body: { username: "admin", password: adminPassword, cookie: true },
    })
    assert.notProperty(signedIn.body, "refreshToken")
    const cookie = signedIn.headers.get("set-cookie")!
    for (const part of ["nightjar_refresh=", "HttpOnly", "SameSite=Strict", "Path=/auth/api/v1/auth"]) {
      assert.include(cookie, part)
    }
    assert.notInclude(cookie, "Secure")
    const jar = { cookie: cookie.split(";")[0]! }
    const foreign = yield* call("POST", `${auth}/refresh`, {
      body: {},
      headers: { ...jar, "sec-fetch-site": "cross-site" },
    })
    assert.strictEqual(foreign.status, 401)
    const again = yield* call("POST", `${auth}/refresh`, {
      body: {},
      headers: { ...jar, "sec-fetch-site": "same-origin" },
    })
    assert.strictEqual(again.status, 200)
    assert.notProperty(again.body, "refreshToken")
    const token = again.body["accessToken"]
    const out = yield* call("POST", `${auth}/logout`, { token })
    assert.strictEqual(out.status, 204)
    assert.include(out.headers.get("set-cookie")!, "Max-Age=0")
    assert.strictEqual((yield* call("GET", `${auth}/profile`, { token })).status, 401)
    const newJar = { cookie: again.headers.get("set-cookie")!.split(";")[0]! }
    assert.strictEqual((yield* call("POST", `${auth}/refresh`, { body: {}, headers: newJar })).status, 401)
  }))

live("tells a wrong password and an unknown name apart to nobody, and makes both wait", () =>
  Effect.gen(function*() {
    const { control, login, sql } = yield* node
    const { events, work } = control
    // The first wait is a second: a busy machine takes longer than that for one attempt.
    yield* sql`INSERT INTO auth_security (settings, version) VALUES ('{"lockoutFirstSeconds": 300}'::jsonb, 1)
      ON CONFLICT ("only") DO UPDATE SET settings = auth_security.settings || excluded.settings`
    for (const name of ["admin", "nobody"]) {
      const before = { ...work }
      events.splice(0)
      for (let attempt = 0; attempt < 5; attempt++) {
        const wrong = yield* login(name, "wrong")
        assert.strictEqual(wrong.status, 401)
        assert.strictEqual(wrong.body["code"], "invalid_credentials")
      }
      const locked = yield* login(name, name === "admin" ? adminPassword : "wrong")
      // The costly part, by number: time would tell the name.
      assert.deepStrictEqual(work, { hashes: before.hashes, checks: before.checks + 5 })
      const failed = { type: "user.signin.failed", subject: name, data: { username: name, address: "127.0.0.1" } }
      assert.deepInclude(events[0] as object, failed)
      assert.deepStrictEqual(events.map(({ type }) => type), [
        ...Array.from({ length: 5 }, () => "user.signin.failed"),
        "user.signin.locked",
      ])
      assert.strictEqual(locked.status, 429)
      assert.strictEqual(locked.body["code"], "sign_in_locked")
      assert.strictEqual(locked.headers.get("retry-after"), String(locked.body["retryAfterSeconds"]))
    }
    yield* sql`UPDATE auth_throttle SET locked_until = now() - interval '1 second'`
    // The right password clears the count.
    assert.strictEqual((yield* login()).status, 200)
    assert.strictEqual((yield* login("admin", "wrong")).status, 401)
  }))

live("changes profile, name and password of the caller", () =>
  Effect.gen(function*() {
    const { call, login } = yield* node
    const token = (yield* login()).body["accessToken"]
    const other = (yield* login()).body
    const profile = yield* call("GET", `${auth}/profile`, { token })
    const stale = profile.headers.get("etag")!
    const changed = yield* call("PATCH", `${auth}/profile`, {
      token,
      body: { displayName: "Ann", timeZone: "Asia/Seoul" },
      headers: { "if-match": stale },
    })
    assert.strictEqual(changed.status, 200)
    assert.strictEqual(changed.body["displayName"], "Ann")
    assert.strictEqual(changed.body["email"], null)
    assert.strictEqual(
      (yield* call("PATCH", `${auth}/profile`, { token, body: { displayName: "Bob" }, headers: { "if-match": stale } }))
        .status,
      412,
    )
    assert.strictEqual(
      (yield* call("GET", `${auth}/profile`, { token, headers: { "if-none-match": changed.headers.get("etag")! } }))
        .status,
      304,
    )

    assert.strictEqual(
      (yield* call("POST", `${auth}/username`, { token, body: { username: "root", password: "wrong" } })).status,
      401,
    )
    const renamed = yield* call("POST", `${auth}/username`, {
      token,
      body: { username: "root", password: adminPassword },
    })
    assert.strictEqual(renamed.body["username"], "root")
    assert.strictEqual((yield* login()).status, 401)

    const short = yield* call("POST", `${auth}/password`, {
      token,
      body: { currentPassword: adminPassword, newPassword: "short" },
    })
    assert.strictEqual(short.status, 422)
    assert.deepStrictEqual(short.body["rules"], ["tooShort"])
    assert.notInclude(JSON.stringify(short.body), adminPassword)
    const next = "a much better password"
    assert.strictEqual(
      (yield* call("POST", `${auth}/password`, { token, body: { currentPassword: adminPassword, newPassword: next } }))
        .status,
      204,
    )
    assert.strictEqual((yield* login("root")).status, 401)
    assert.strictEqual((yield* login("root", next)).status, 200)
    // This session goes on, the other one does not.
    assert.strictEqual((yield* call("GET", `${auth}/profile`, { token })).status, 200)
    assert.strictEqual((yield* call("GET", `${auth}/profile`, { token: other["accessToken"] })).status, 401)
    assert.strictEqual(
      (yield* call("POST", `${auth}/refresh`, { body: { refreshToken: other["refreshToken"] } })).status,
      401,
    )
  }))

live("keeps no secret readable in the database", () =>
  Effect.gen(function*() {
    const { login, sql } = yield* node
    const { body } = yield* login()
    const dump = JSON.stringify(
      yield* Effect.all([
        sql`SELECT * FROM auth_user`,
        sql`SELECT * FROM auth_session`,
        sql`SELECT encode(hash, 'escape'), encode(hash, 'base64'), session_id::text FROM auth_refresh_token`,
        sql`SELECT * FROM auth_signing_key`,
      ]),
    )
    for (const secret of [adminPassword, body["refreshToken"], body["accessToken"]]) {
      assert.notInclude(dump, String(secret))
    }
    assert.notMatch(dump, /"d"\s*:/)
    assert.match(dump, /\$argon2id\$/)
  }))

live("serves what needs no database while there is none, and says 503 to the rest", () =>
  Effect.gen(function*() {
    const { call, control, login, unpublish } = yield* node
    const token = (yield* login()).body["accessToken"]
    yield* unpublish
    yield* control.end
    assert.strictEqual((yield* call("GET", "/health/detailed", { token })).status, 200)
    assert.strictEqual(
      (yield* call("POST", "/permission/api/v1/permissions/check", { token, body: { permission: "camera:live" } }))
        .status,
      200,
    )
    const away = yield* call("GET", `${auth}/profile`, { token })
    assert.strictEqual(away.status, 503)
    assert.strictEqual(away.body["code"], "dependency_unavailable")
    assert.isNotNull(away.headers.get("retry-after"))
    assert.strictEqual((yield* login()).status, 503)
  }))

live(
  "shares keys, sessions and counts between nodes on one database, each with a vault of its own",
  () =>
    Effect.gen(function*() {
      const { call, login, sql, url } = yield* node
      const otherFolder = yield* folder
      mkdirSync(otherFolder, { recursive: true })
      const http = yield* startHttp
      const control = yield* startControl({ url, vaultFolder: otherFolder, tokens: http.tokens, adminPassword: null })
      yield* http.late.publish(control.context)
      const callOther = caller(http.base)
      assert.deepStrictEqual(control.first, [], "admin is made once")
      const keys = yield* sql`SELECT kid FROM auth_signing_key`
      assert.strictEqual(keys.length, 2)
      const there =
        (yield* callOther("POST", `${auth}/login`, { body: { username: "admin", password: adminPassword } })).body
      const here = (yield* login()).body
      const settled = Effect.sleep("2500 millis")
      yield* settled
      assert.strictEqual((yield* call("GET", `${auth}/profile`, { token: there["accessToken"] })).status, 200)
      assert.strictEqual((yield* callOther("GET", `${auth}/profile`, { token: here["accessToken"] })).status, 200)
      yield* call("POST", `${auth}/logout`, { token: here["accessToken"] })
      yield* settled
      assert.strictEqual((yield* callOther("GET", "/health/detailed", { token: here["accessToken"] })).status, 401)
    }),
)

live(
  "repeats the answer of an idempotent request from PostgreSQL, and frees a key after an error",
  () =>
    Effect.gen(function*() {
      const { call, login, sql } = yield* node
      const token = (yield* login()).body["accessToken"]
      const headers = { "idempotency-key": "once" }
      const change = { token, headers, body: { username: "boss", password: "wrong" } }
      assert.strictEqual((yield* call("POST", `${auth}/username`, change)).status, 401)
      const right = { token, headers, body: { username: "boss", password: adminPassword } }
      const first = yield* call("POST", `${auth}/username`, right)
      assert.strictEqual(first.status, 200)
      const again = yield* call("POST", `${auth}/username`, right)
      assert.strictEqual(again.headers.get("idempotency-replayed"), "true")
      assert.strictEqual(again.headers.get("etag"), first.headers.get("etag"))
      assert.deepStrictEqual(again.body, first.body)
      const kept = yield* sql<{ readonly n: number }>`SELECT count(*)::int AS n FROM http_idempotency`
      assert.strictEqual(kept[0]!.n, 1)
    }),
)

live("bounds bodies, and tells too large ones", () =>
  Effect.gen(function*() {
    const { base } = yield* startHttp
    const call = caller(base)
    const large = yield* call("POST", `${auth}/login`, { body: { username: "a", password: "x".repeat(2000) } })
    assert.strictEqual(large.status, 413)
    assert.strictEqual(large.body["code"], "payload_too_large")
    assert.strictEqual((yield* call("GET", "/metrics")).status, 200)
    assert.strictEqual((yield* call("GET", "/metrics", { headers: { "x-forwarded-for": "203.0.113.9" } })).status, 401)
  }))
