/** Users and their preferences, and the administrator who must stay. */
import { assert, describe, it } from "@effect/vitest"
import type { TwoNodes } from "../harness/two-nodes.ts"
import {
  administrator,
  auth,
  calling,
  code,
  expecting,
  includes,
  login,
  makeUser,
  other,
  password,
  signIn,
} from "./fixtures.ts"

export const users = (cluster: TwoNodes) => {
  describe("users", () => {
    it("are made, found, changed and deleted", async () => {
      const admin = await administrator(cluster.here)
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
      assert.strictEqual(made.headers.get("location"), `${auth}/users/${id}`)
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
      await expecting(200, login(cluster.there, "ann.lee"))
      const seen = await expecting(200, admin("GET", `users/${id}`))
      assert.strictEqual(seen.activeSessions, 1)
      assert.isNotNull(seen.lastSignInAt)

      await expecting(204, admin("DELETE", `users/${id}`))
      for (const [method, path] of [["GET", ""], ["DELETE", ""], ["PUT", ""], ["GET", "/roles"], ["POST", "/unlock"]]) {
        const body = method === "PUT" ? {} : undefined
        assert.strictEqual(await code(404, admin(method!, `users/${id}${path}`, body)), "user_not_found")
      }
      assert.strictEqual(await code(401, login(cluster.here, "ann.lee")), "invalid_credentials")
    })

    it("are listed by text, role and state, page by page", async () => {
      const admin = await administrator(cluster.here)
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
      const admin = await administrator(cluster.here)
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

      const fresh = await signIn(cluster.here, "fresh", initial)
      assert.isTrue(fresh.user.mustChangePassword)
      for (const node of [cluster.here, cluster.there]) {
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
      const refused = await fresh.call("POST", "auth/password", {
        currentPassword: initial,
        newPassword: "FRESH air 12",
      })
      includes(refused.body, { code: "password_refused", rules: ["containsUsername"] })
      await expecting(204, fresh.call("POST", "auth/password", { currentPassword: initial, newPassword: other }))
      const free = await expecting(200, fresh.call("POST", "auth/refresh", { refreshToken: fresh.refreshToken }))
      assert.isFalse(free.user.mustChangePassword)
      await expecting(200, calling(cluster.there, free.accessToken)("GET", "/camera/api/v1/cameras"))
    })

    it("keep preferences of their own", async () => {
      const admin = await administrator(cluster.here)
      await makeUser(admin, "prefs")
      const { call } = await signIn(cluster.here, "prefs")
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

  describe("the last administrator", () => {
    it("can be neither deleted, disabled nor stripped, however many try at once", async () => {
      const { call: admin, user } = await signIn(cluster.here, "admin")
      for (
        const answer of [
          admin("DELETE", `users/${user.id}`),
          admin("PUT", `users/${user.id}`, { enabled: false }),
          admin("PUT", `users/${user.id}`, { roles: ["viewer"] }),
          admin("DELETE", `users/${user.id}/roles/admin`),
        ]
      ) assert.strictEqual(await code(409, answer), "last_administrator")

      for (let round = 0; round < 3; round++) {
        const admin = await administrator(cluster.here)
        const ids = [user.id as string]
        for (let n = 0; n < 5; n++) ids.push(await makeUser(admin, `boss${round}${n}`, { roles: ["admin"] }))
        const elsewhere = await administrator(cluster.there)
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
          const answer = await login(cluster.here, name)
          if (answer.status === 200) left.set(name, (answer.body.user.roles as Array<string>).includes("admin"))
        }
        const survivors = [...left].filter(([, is]) => is)
        assert.strictEqual(survivors.length, 1, told.join())
        // The next round begins with `admin` again.
        const survivor = (await signIn(cluster.here, survivors[0]![0])).call
        await expecting(200, survivor("PUT", `users/${user.id}`, { enabled: true, roles: ["admin"] }))
        const restored = await administrator(cluster.here)
        for (const id of ids.slice(1)) await expecting(204, restored("DELETE", `users/${id}`))
      }
    }, 60_000)
  })
}
