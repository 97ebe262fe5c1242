/** Users, roles, rules and sessions, on two nodes of one cluster: real processes, REST alone. */
import { EmbeddedPostgres, layer as postgresLayer } from "#ops/host/postgres.ts"
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Exit, Layer, Logger, Redacted, Scope } from "effect"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll } from "vitest"
import { makeNode, type NodeProcess, sleep } from "./harness/node-process.ts"

const folder = mkdtempSync(join(tmpdir(), "nightjar-users-"))
const password = "correct horse battery"
const other = "another fine long one"
const scope = Effect.runSync(Scope.make())
const base = "/auth/api/v1"
const unknownId = "0190163d-8694-7395-8ad4-5b8a3f3d0aff"
let here: NodeProcess
let there: NodeProcess

/** What the tests look at in answers; each states what it expects to be there. */
interface Body {
  readonly id: string
  readonly name: string
  readonly username: string
  readonly code: string
  readonly version: number
  readonly accessToken: string
  readonly refreshToken: string
  readonly user: Body
  readonly items: ReadonlyArray<Body>
  readonly nextCursor: string | null
  readonly roles: ReadonlyArray<string>
  readonly users: ReadonlyArray<string>
  readonly rules: ReadonlyArray<string>
  readonly initialPassword: string
  readonly mustChangePassword: boolean
  readonly activeSessions: number
  readonly lastSignInAt: string | null
  readonly lockedUntil: string | null
  readonly retryAfterSeconds: number
  readonly passwordMinLength: number
  readonly current: boolean
}

interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly body: Body
}

type Call = (method: string, path: string, body?: unknown, headers?: Record<string, string>) => Promise<Answer>

const calling = (node: NodeProcess, token: string): Call => async (method, path, body, headers = {}) => {
  const response = await fetch(`${node.url}${path.startsWith("/") ? path : `${base}/${path}`}`, {
    method,
    headers: { "content-type": "application/json", authorization: `Bearer ${token}`, ...headers },
    signal: AbortSignal.timeout(20_000),
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const text = await response.text()
  const json = (response.headers.get("content-type") ?? "").includes("json")
  return { status: response.status, headers: response.headers, body: (json ? JSON.parse(text) : {}) as Body }
}

/** The answer's body; fails with the problem where the status is another. */
const expecting = async (status: number, answer: Promise<Answer>) => {
  const got = await answer
  assert.strictEqual(got.status, status, JSON.stringify(got.body))
  return got.body
}
const code = async (status: number, answer: Promise<Answer>) => (await expecting(status, answer)).code as string

const login = (node: NodeProcess, username: string, secret = password) =>
  calling(node, "")("POST", "auth/login", { username, password: secret })
const signIn = async (node: NodeProcess, username: string, secret = password) => {
  const body = await expecting(200, login(node, username, secret))
  return {
    call: calling(node, body.accessToken as string),
    token: body.accessToken as string,
    refreshToken: body.refreshToken as string,
    user: body.user,
  }
}
const administrator = async (node = here) => (await signIn(node, "admin")).call

const includes = (body: object | undefined, members: object) => assert.deepInclude(body ?? {}, members)

const makeUser = async (call: Call, username: string, more: Record<string, unknown> = {}) =>
  (await expecting(201, call("POST", "users", { username, password, mustChangePassword: false, ...more }))).id as string

/** Changes security settings for as long as `use` runs. */
const underRules = async (rules: Record<string, unknown>, use: () => Promise<void>) => {
  const call = await administrator()
  const { version: _, ...before } = await expecting(200, call("GET", "settings/security"))
  await expecting(200, call("POST", "settings/security", rules))
  try {
    await use()
  } finally {
    await expecting(200, call("POST", "settings/security", before))
  }
}

/** Milliseconds until a call answers so; fails after five seconds. */
const until = async (status: number, ask: () => Promise<Answer>) => {
  const begun = performance.now()
  for (;;) {
    if ((await ask()).status === status) return performance.now() - begun
    assert.isBelow(performance.now() - begun, 5_000, `never ${status}`)
    await sleep(20)
  }
}

beforeAll(async () => {
  const data = join(folder, "postgres")
  const postgres = await Effect.runPromise(
    Layer.buildWithScope(postgresLayer({ dataFolder: data, copies: join(folder, "copies") }), scope).pipe(
      Effect.provide(Logger.layer([])),
    ),
  )
  const url = await Effect.runPromise(Context.get(postgres, EmbeddedPostgres).url)
  const settings = { NIGHTJAR_DATABASE_URL: Redacted.value(url), NIGHTJAR_ADMIN_PASSWORD: password }
  here = await makeNode(join(folder, "here"), settings)
  there = await makeNode(join(folder, "there"), settings)
  await here.start()
  await there.start()
  // Wrong passwords of these tests come from one address.
  await expecting(200, (await administrator())("POST", "settings/security", { lockoutAddressFailures: 10_000 }))
}, 120_000)

afterAll(async () => {
  await Promise.all([here?.stop(), there?.stop()])
  await Effect.runPromise(Scope.close(scope, Exit.void))
  rmSync(folder, { recursive: true, force: true })
}, 60_000)

describe("users", () => {
  it("are made, found, changed and deleted", async () => {
    const admin = await administrator()
    const made = await admin("POST", "users", {
      username: "Ann.Lee",
      password,
      displayName: "Ann Lee",
      email: "ann@example.org",
      roles: ["viewer"],
      mustChangePassword: false,
    })
    assert.strictEqual(made.status, 201, JSON.stringify(made.body))
    const id = made.body.id as string
    assert.strictEqual(made.headers.get("location"), `${base}/users/${id}`)
    assert.strictEqual(made.headers.get("etag"), `"${made.body.version}"`)
    assert.notProperty(made.body, "initialPassword")
    assert.notInclude(JSON.stringify(made.body), password)
    includes(made.body, { roles: ["viewer"], enabled: true, mustChangePassword: false, lockedUntil: null })
    assert.strictEqual(await code(409, admin("POST", "users", { username: "ann.lee", password })), "username_taken")
    assert.strictEqual(
      await code(404, admin("POST", "users", { username: "x1", password, roles: ["nothing"] })),
      "role_not_found",
    )
    for (const body of [{ username: "a b", password }, { username: "x2", password, displayName: "a\u0000b" }, {}]) {
      assert.strictEqual(await code(400, admin("POST", "users", body)), "bad_request")
    }

    const changed = await admin("PUT", `users/${id}`, { displayName: "Ann", timeZone: "Asia/Seoul" }, {
      "if-match": made.headers.get("etag")!,
    })
    assert.strictEqual(changed.status, 200)
    includes(changed.body, { displayName: "Ann", email: "ann@example.org", timeZone: "Asia/Seoul" })
    const stale = { "if-match": made.headers.get("etag")! }
    assert.strictEqual(await code(412, admin("PUT", `users/${id}`, { displayName: "B" }, stale)), "version_conflict")
    assert.strictEqual(await code(412, admin("DELETE", `users/${id}`, undefined, stale)), "version_conflict")
    assert.strictEqual(await code(409, admin("PUT", `users/${id}`, { username: "admin" })), "username_taken")
    await expecting(200, login(there, "ann.lee"))
    const seen = await expecting(200, admin("GET", `users/${id}`))
    assert.strictEqual(seen.activeSessions, 1)
    assert.isNotNull(seen.lastSignInAt)

    await expecting(204, admin("DELETE", `users/${id}`))
    for (const [method, path] of [["GET", ""], ["DELETE", ""], ["PUT", ""], ["GET", "/roles"], ["POST", "/unlock"]]) {
      const body = method === "PUT" ? {} : undefined
      assert.strictEqual(await code(404, admin(method!, `users/${id}${path}`, body)), "user_not_found")
    }
    assert.strictEqual(await code(401, login(here, "ann.lee")), "invalid_credentials")
  })

  it("are listed by text, role and state, page by page", async () => {
    const admin = await administrator()
    for (const n of [1, 2, 3, 4, 5]) {
      await makeUser(admin, `list${n}`, {
        enabled: n !== 5,
        roles: n % 2 === 0 ? ["operator"] : [],
        email: `l${n}@x.org`,
      })
    }
    const names = (answer: { items: ReadonlyArray<{ username: string }> }) => answer.items.map((one) => one.username)
    assert.deepStrictEqual(names(await expecting(200, admin("GET", "users?text=LIST"))), [
      "list1",
      "list2",
      "list3",
      "list4",
      "list5",
    ])
    assert.deepStrictEqual(names(await expecting(200, admin("GET", "users?text=l3@x"))), ["list3"])
    assert.deepStrictEqual(names(await expecting(200, admin("GET", "users?text=list&role=operator"))), [
      "list2",
      "list4",
    ])
    assert.deepStrictEqual(names(await expecting(200, admin("GET", "users?text=list&enabled=false"))), ["list5"])
    assert.deepStrictEqual(names(await expecting(200, admin("GET", "users?text=%25"))), [])
    const paged: Array<string> = []
    let cursor: string | null = ""
    while (cursor !== null) {
      const after: string = cursor === "" ? "" : `&cursor=${cursor}`
      const page = await expecting(200, admin("GET", `users?text=list&limit=2${after}`))
      paged.push(...names(page))
      cursor = page.nextCursor
    }
    assert.deepStrictEqual(paged, ["list1", "list2", "list3", "list4", "list5"])
    assert.strictEqual(await code(400, admin("GET", "users?cursor=nonsense")), "invalid_cursor")
    assert.strictEqual(await code(400, admin("GET", "users?text=a%00b")), "bad_request")
  })

  it("who were given a password change it before anything else", async () => {
    const admin = await administrator()
    const made = await admin("POST", "users", { username: "fresh", roles: ["viewer"] }, {
      "idempotency-key": "fresh-1",
    })
    assert.strictEqual(made.status, 201)
    const initial = made.body.initialPassword as string
    assert.match(initial, /^[a-zA-Z0-9]{20,}$/)
    assert.strictEqual(made.headers.get("cache-control"), "no-store")
    // What tells a secret is not kept: the same request is a new one.
    const again = await admin("POST", "users", { username: "fresh", roles: ["viewer"] }, {
      "idempotency-key": "fresh-1",
    })
    assert.strictEqual(again.status, 409)
    assert.notInclude(JSON.stringify(await expecting(200, admin("GET", `users/${made.body.id}`))), initial)

    const fresh = await signIn(here, "fresh", initial)
    assert.isTrue(fresh.user.mustChangePassword)
    for (const node of [here, there]) {
      const call = calling(node, fresh.token)
      for (const path of ["/camera/api/v1/cameras", "users/me/preferences", "auth/sessions"]) {
        assert.strictEqual(await code(403, call("GET", path)), "password_change_required")
      }
      await expecting(200, call("GET", "auth/profile"))
      await expecting(200, call("POST", "auth/heartbeat"))
    }
    const check = { permission: "camera:live" }
    assert.strictEqual(
      await code(403, fresh.call("POST", "/permission/api/v1/permissions/check", check)),
      "password_change_required",
    )
    const refused = await fresh.call("POST", "auth/password", { currentPassword: initial, newPassword: "FRESH air 12" })
    includes(refused.body, { code: "password_refused", rules: ["containsUsername"] })
    await expecting(204, fresh.call("POST", "auth/password", { currentPassword: initial, newPassword: other }))
    const free = await expecting(200, fresh.call("POST", "auth/refresh", { refreshToken: fresh.refreshToken }))
    assert.isFalse(free.user.mustChangePassword)
    await expecting(200, calling(there, free.accessToken)("GET", "/camera/api/v1/cameras"))
  })

  it("keep preferences of their own", async () => {
    const admin = await administrator()
    await makeUser(admin, "prefs")
    const { call } = await signIn(here, "prefs")
    const empty = await call("GET", "users/me/preferences")
    assert.deepStrictEqual<unknown>([empty.body, empty.headers.get("etag")], [{}, `"0"`])
    const first = { layout: { tiles: 4, muted: true }, "__proto__x": 1, list: [1, { a: null }] }
    assert.deepStrictEqual<unknown>(await expecting(200, call("PATCH", "users/me/preferences", first)), first)
    const patched = await call("PATCH", "users/me/preferences", { layout: { muted: null }, list: [] }, {
      "content-type": "application/merge-patch+json",
    })
    assert.deepStrictEqual<unknown>(patched.body, { layout: { tiles: 4 }, "__proto__x": 1, list: [] })
    assert.strictEqual(patched.headers.get("etag"), `"2"`)
    assert.strictEqual(
      await code(412, call("PATCH", "users/me/preferences", {}, { "if-match": `"1"` })),
      "version_conflict",
    )
    const big = { text: "x".repeat(70_000) }
    assert.strictEqual(await code(422, call("PATCH", "users/me/preferences", big)), "invalid_input")
    let deep: unknown = 1
    for (let i = 0; i < 30; i++) deep = { deep }
    assert.strictEqual(await code(422, call("PATCH", "users/me/preferences", deep)), "invalid_input")
    assert.strictEqual(await code(400, call("PATCH", "users/me/preferences", [1])), "bad_request")
    assert.deepStrictEqual<unknown>(await expecting(200, admin("GET", "users/me/preferences")), {})
    const many = Array.from({ length: 8 }, (_, n) => call("PATCH", "users/me/preferences", { [`n${n}`]: n }))
    for (const answer of await Promise.all(many)) assert.strictEqual(answer.status, 200)
    const all = await expecting(200, call("GET", "users/me/preferences"))
    assert.deepStrictEqual(Object.keys(all).filter((name) => /^n\d$/.test(name)).length, 8)
  })
})

describe("roles", () => {
  it("are made, changed, listed and deleted, but for those that come with the product", async () => {
    const admin = await administrator()
    const made = await admin("POST", "roles", { name: "Night shift", permissions: ["camera:read", "camera:live"] })
    assert.strictEqual(made.status, 201, JSON.stringify(made.body))
    const path = "roles/Night%20shift"
    assert.strictEqual(made.headers.get("location"), `${base}/${path}`)
    assert.deepStrictEqual<unknown>(await expecting(200, admin("GET", path)), made.body)
    includes(made.body, { builtIn: false, users: 0, description: "", version: 1 })
    assert.strictEqual(await code(409, admin("POST", "roles", { name: "night SHIFT" })), "role_name_taken")
    assert.strictEqual(
      await code(400, admin("POST", "roles", { name: "x", permissions: ["camera:fly"] })),
      "bad_request",
    )
    const changed = await expecting(200, admin("PUT", path, { description: "At night" }, { "if-match": `"1"` }))
    includes(changed, { description: "At night", permissions: ["camera:read", "camera:live"], version: 2 })
    assert.strictEqual(await code(412, admin("PUT", path, {}, { "if-match": `"1"` })), "version_conflict")
    const { items } = await expecting(200, admin("GET", "roles"))
    assert.includeMembers(items.map((role: { name: string }) => role.name), [
      "Night shift",
      "admin",
      "operator",
      "viewer",
    ])
    for (const method of ["PUT", "DELETE"]) {
      assert.strictEqual(
        await code(409, admin(method, "roles/admin", method === "PUT" ? {} : undefined)),
        "role_built_in",
      )
      assert.strictEqual(
        await code(404, admin(method, "roles/none", method === "PUT" ? {} : undefined)),
        "role_not_found",
      )
    }
    assert.strictEqual(await code(404, admin("GET", "roles/none/users")), "role_not_found")
    await expecting(204, admin("DELETE", path))
  })

  it("tell who holds them when they are to be deleted", async () => {
    const admin = await administrator()
    await expecting(201, admin("POST", "roles", { name: "held" }))
    const ids: Array<string> = []
    for (let n = 10; n < 32; n++) ids.push(await makeUser(admin, `held${n}`, { roles: ["held"] }))
    const { body, status } = await admin("DELETE", "roles/held")
    assert.strictEqual(status, 409)
    includes(body, { code: "role_held", count: 22 })
    assert.deepStrictEqual(body.users, Array.from({ length: 20 }, (_, n) => `held${n + 10}`))
    const page = await expecting(200, admin("GET", "roles/held/users?limit=3"))
    assert.deepStrictEqual(page.items.map((user: { username: string }) => user.username), [
      "held10",
      "held11",
      "held12",
    ])
    assert.isString(page.nextCursor)
    await Promise.all(ids.map((id) => expecting(204, admin("DELETE", `users/${id}`))))
    await expecting(204, admin("DELETE", "roles/held"))
  }, 30_000)

  it("are granted and revoked, from the next request on, on every node", async () => {
    const admin = await administrator()
    const id = await makeUser(admin, "granted")
    const { token } = await signIn(here, "granted")
    const cameras = (node: NodeProcess) => calling(node, token)("GET", "/camera/api/v1/cameras")
    await expecting(403, cameras(here))
    const granted = await expecting(200, admin("POST", `users/${id}/roles/viewer`))
    assert.deepStrictEqual(granted.roles, ["viewer"])
    await expecting(200, cameras(here))
    await until(200, () => cameras(there))
    assert.strictEqual((await expecting(200, admin("POST", `users/${id}/roles/viewer`))).version, granted.version)
    const { items } = await expecting(200, admin("GET", `users/${id}/roles`))
    includes(items[0], { name: "viewer", builtIn: true })
    await expecting(204, admin("DELETE", `users/${id}/roles/viewer`))
    await expecting(403, cameras(here))
    await until(403, () => cameras(there))
    assert.strictEqual(await code(404, admin("DELETE", `users/${id}/roles/viewer`)), "role_not_found")
    assert.strictEqual(await code(404, admin("POST", `users/${id}/roles/none`)), "role_not_found")
    assert.strictEqual(await code(404, admin("POST", `users/${unknownId}/roles/viewer`)), "user_not_found")
  })

  it("give nothing away that the giver does not hold", async () => {
    const admin = await administrator()
    await expecting(
      201,
      admin("POST", "roles", { name: "clerk", permissions: ["user:read", "user:write", "camera:live"] }),
    )
    const clerkId = await makeUser(admin, "clerk", { roles: ["clerk"] })
    const bossId = (await signIn(here, "admin")).user.id as string
    const { call } = await signIn(here, "clerk")
    for (
      const answer of [
        call("POST", `users/${clerkId}/roles/admin`),
        call("POST", "users", { username: "mole", password, roles: ["admin"] }),
        call("PUT", `users/${clerkId}`, { roles: ["clerk", "operator"] }),
        call("PUT", `users/${bossId}`, { password: other }),
        call("PUT", `users/${bossId}`, { enabled: false }),
        call("DELETE", `users/${bossId}`),
        call("DELETE", `users/${bossId}/roles/admin`),
        call("POST", "roles", { name: "mole", permissions: ["system:write"] }),
        call("PUT", "roles/clerk", { permissions: ["user:write", "system:write"] }),
        call("PUT", `users/${clerkId}`, { password: other }),
      ]
    ) assert.strictEqual(await code(403, answer), "forbidden")
    await expecting(201, call("POST", "roles", { name: "watchers", permissions: ["camera:live"] }))
    await expecting(201, call("POST", "users", { username: "watcher", password, roles: ["watchers"] }))
    await expecting(200, login(here, "admin"))
  })
})

describe("the last administrator", () => {
  it("can be neither deleted, disabled nor stripped, however many try at once", async () => {
    const { call: admin, user } = await signIn(here, "admin")
    for (
      const answer of [
        admin("DELETE", `users/${user.id}`),
        admin("PUT", `users/${user.id}`, { enabled: false }),
        admin("PUT", `users/${user.id}`, { roles: ["viewer"] }),
        admin("DELETE", `users/${user.id}/roles/admin`),
      ]
    ) assert.strictEqual(await code(409, answer), "last_administrator")

    for (let round = 0; round < 3; round++) {
      const admin = await administrator()
      const ids = [user.id as string]
      for (let n = 0; n < 5; n++) ids.push(await makeUser(admin, `boss${round}${n}`, { roles: ["admin"] }))
      const elsewhere = await administrator(there)
      // Each attacks all, in every way, over both nodes; somebody must be left to see it.
      const attacks = ids.flatMap((id, n) => {
        const call = n % 2 === 0 ? admin : elsewhere
        return [
          () => call("DELETE", `users/${id}/roles/admin`),
          () => call("PUT", `users/${id}`, { enabled: false }),
          () => call("PUT", `users/${id}`, { roles: [] }),
        ][(n + round) % 3]!
      })
      const answers = await Promise.all(attacks.map((attack) => attack()))
      const told = answers.map(({ body, status }) => `${status} ${body?.code ?? ""}`)
      assert.include(told.join(), "409 last_administrator", told.join())
      const left = new Map<string, boolean>()
      for (const name of ["admin", ...ids.slice(1).map((_, n) => `boss${round}${n}`)]) {
        const answer = await login(here, name)
        if (answer.status === 200) left.set(name, (answer.body.user.roles as Array<string>).includes("admin"))
      }
      const survivors = [...left].filter(([, is]) => is)
      assert.strictEqual(survivors.length, 1, told.join())
      // The next round begins with `admin` again.
      const survivor = (await signIn(here, survivors[0]![0])).call
      await expecting(200, survivor("PUT", `users/${user.id}`, { enabled: true, roles: ["admin"] }))
      const restored = await administrator()
      for (const id of ids.slice(1)) await expecting(204, restored("DELETE", `users/${id}`))
    }
  }, 60_000)
})

describe("rules", () => {
  it("are read, changed and refused", async () => {
    const admin = await administrator()
    const before = await admin("GET", "settings/security")
    includes(before.body, { passwordMinLength: 10, sessionLimitAction: "endOldest" })
    assert.strictEqual(await code(400, admin("POST", "settings/security", { passwordMinLength: 2 })), "bad_request")
    assert.strictEqual(
      await code(422, admin("POST", "settings/security", { lockoutFirstSeconds: 3600 })),
      "invalid_input",
    )
    assert.strictEqual(
      await code(412, admin("POST", "settings/security", {}, { "if-match": `"${before.body.version + 1}"` })),
      "version_conflict",
    )
    await underRules({ passwordMinLength: 14 }, async () => {
      const config = await expecting(200, calling(here, "")("GET", "auth/config"))
      assert.strictEqual(config.passwordMinLength, 14)
      const there200 = () => calling(there, "")("GET", "auth/config")
      for (let n = 0; (await there200()).body.passwordMinLength !== 14; n++) {
        assert.isBelow(n, 200, "the other node never heard of it")
        await sleep(20)
      }
    })
  })

  it("of passwords: length, history, name, common ones, age", async () => {
    const admin = await administrator()
    const id = await makeUser(admin, "ruled")
    const change = async (currentPassword: string, newPassword: string) =>
      (await signIn(here, "ruled", currentPassword)).call("POST", "auth/password", { currentPassword, newPassword })
    const rules = async (answer: Promise<Answer>) => (await expecting(422, answer)).rules
    assert.deepStrictEqual(await rules(change(password, "short")), ["tooShort"])
    assert.deepStrictEqual(await rules(change(password, "Ruled")), ["tooShort", "containsUsername"])
    assert.deepStrictEqual(await rules(change(password, "QWERTYuiop")), ["common"])
    assert.deepStrictEqual(await rules(change(password, password)), ["usedBefore"])
    await expecting(204, change(password, "second password"))
    await expecting(204, change("second password", "third password"))
    assert.deepStrictEqual(await rules(change("third password", password)), ["usedBefore"])
    await expecting(204, change("third password", "fourth password"))
    // Three are remembered.
    await expecting(204, change("fourth password", password))
    assert.deepStrictEqual(await rules(admin("PUT", `users/${id}`, { password: "fourth password" })), ["usedBefore"])
    assert.deepStrictEqual(await rules(admin("POST", "users", { username: "weak", password: "123456789" })), [
      "tooShort",
      "common",
    ])
    // Somebody else's choice is to be replaced.
    await expecting(200, admin("PUT", `users/${id}`, { password: other }))
    assert.isTrue((await signIn(here, "ruled", other)).user.mustChangePassword)
  }, 60_000)

  it("of sessions: a limit that refuses, and one that ends the oldest", async () => {
    const admin = await administrator()
    await makeUser(admin, "limited")
    const first = await signIn(here, "limited")
    const second = await signIn(there, "limited")
    await underRules({ sessionsPerUser: 2, sessionLimitAction: "refuse" }, async () => {
      const refused = await login(here, "limited")
      assert.strictEqual(refused.status, 409)
      includes(refused.body, { code: "session_limit_reached", limit: 2 })
      await expecting(204, first.call("POST", "auth/logout"))
      const many = await Promise.all(Array.from({ length: 4 }, (_, n) => login(n % 2 === 0 ? here : there, "limited")))
      assert.deepStrictEqual(many.map(({ status }) => status).toSorted((a, b) => a - b), [200, 409, 409, 409])
    })
    await underRules({ sessionsPerUser: 2, sessionLimitAction: "endOldest" }, async () => {
      const third = await signIn(here, "limited")
      await until(401, () => calling(there, second.token)("GET", "auth/profile"))
      await expecting(200, third.call("GET", "auth/profile"))
    })
  }, 30_000)
})

describe("sessions", () => {
  it("are listed, and one of the own is ended", async () => {
    const admin = await administrator()
    const id = await makeUser(admin, "seats")
    const one = await signIn(here, "seats")
    const two = await signIn(there, "seats")
    const own = await expecting(200, one.call("GET", "auth/sessions"))
    assert.deepStrictEqual(own.items.map((session: { current: boolean }) => session.current), [false, true])
    includes(own.items[0], { userId: id, username: "seats", address: "127.0.0.1" })
    const first = await expecting(200, admin("GET", `users/${id}/sessions?limit=1`))
    assert.strictEqual(first.items[0]!.id, own.items[0]!.id)
    const rest = await expecting(200, admin("GET", `users/${id}/sessions?limit=1&cursor=${first.nextCursor}`))
    assert.deepStrictEqual([rest.items[0]!.id, rest.nextCursor], [own.items[1]!.id, null])
    const adminOwn = await expecting(200, admin("GET", "auth/sessions"))
    assert.strictEqual(
      await code(404, one.call("DELETE", `auth/sessions/${adminOwn.items[0]!.id}`)),
      "session_not_found",
      "somebody else's",
    )
    await expecting(204, one.call("DELETE", `auth/sessions/${own.items[0]!.id}`))
    await until(401, () => two.call("GET", "auth/profile"))
    await expecting(200, one.call("GET", "auth/profile"))
    assert.strictEqual(await code(404, admin("GET", `users/${unknownId}/sessions`)), "user_not_found")
  })

  it("end on every node within two seconds: terminated, disabled, deleted, signed out, password set", async () => {
    const admin = await administrator()
    const ways: Record<string, (id: string, own: Call) => Promise<Answer>> = {
      terminated: (id) => admin("POST", `sessions/${id}/terminate`),
      disabled: (id) => admin("PUT", `users/${id}`, { enabled: false }),
      deleted: (id) => admin("DELETE", `users/${id}`),
      "signed-out": (_id, own) => own("POST", "auth/logout"),
      "password-set": (id) => admin("PUT", `users/${id}`, { password: other }),
    }
    for (const [name, way] of Object.entries(ways)) {
      const id = await makeUser(admin, name)
      const { call, refreshToken, token } = await signIn(here, name)
      const elsewhere = calling(there, token)
      await expecting(200, elsewhere("GET", "auth/profile"))
      const done = await way(id, call)
      assert.isBelow(done.status, 300, JSON.stringify(done.body))
      if (name === "terminated") assert.deepStrictEqual<unknown>(done.body, { ended: 1 })
      await expecting(401, call("GET", "auth/profile"))
      assert.isBelow(await until(401, () => elsewhere("GET", "auth/profile")), 2_000, name)
      const refresh = elsewhere("POST", "auth/refresh", { refreshToken })
      assert.strictEqual(await code(401, refresh), "invalid_refresh_token", name)
    }
    assert.strictEqual(await code(404, admin("POST", `sessions/${unknownId}/terminate`)), "user_not_found")
  }, 30_000)
})

describe("a lock after failed sign-ins", () => {
  it("is seen, survives a restart, and is released by an administrator", async () => {
    const admin = await administrator()
    const id = await makeUser(admin, "clumsy")
    await underRules({ lockoutAccountFailures: 3, lockoutFirstSeconds: 600 }, async () => {
      for (let n = 0; n < 3; n++) {
        assert.strictEqual(await code(401, login(n === 1 ? there : here, "clumsy", "wrong")), "invalid_credentials")
      }
      const locked = await login(here, "clumsy")
      assert.strictEqual(locked.status, 429)
      assert.isAbove(locked.body.retryAfterSeconds, 500)
      const until = (await expecting(200, admin("GET", `users/${id}`))).lockedUntil
      assert.isAbove(Date.parse(until ?? ""), Date.now() + 500_000)

      await there.kill()
      await there.start()
      assert.strictEqual(await code(429, login(there, "clumsy")), "sign_in_locked")
      assert.strictEqual((await expecting(200, admin("GET", "users?text=clumsy"))).items[0]!.lockedUntil, until)

      assert.isNull((await expecting(200, admin("POST", `users/${id}/unlock`))).lockedUntil)
      await expecting(200, login(there, "clumsy"))
    })
  }, 60_000)
})
