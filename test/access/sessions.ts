/** Rules of passwords and sessions, the sessions, and locks. */
import { assert, describe, it } from "@effect/vitest"
import { sleep } from "../harness/node-process.ts"
import type { TwoNodes } from "../harness/two-nodes.ts"
import {
  administrator,
  type Answer,
  type Call,
  calling,
  code,
  expecting,
  includes,
  login,
  makeUser,
  other,
  password,
  signIn,
  underRules,
  unknownId,
  until,
} from "./fixtures.ts"

export const sessions = (cluster: TwoNodes) => {
  describe("rules", () => {
    it("are read, changed and refused", async () => {
      const admin = await administrator(cluster.here)
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
      await underRules(cluster.here, { passwordMinLength: 14 }, async () => {
        const config = await expecting(200, calling(cluster.here, "")("GET", "auth/config"))
        assert.strictEqual(config.passwordMinLength, 14)
        const there200 = () => calling(cluster.there, "")("GET", "auth/config")
        for (let n = 0; (await there200()).body.passwordMinLength !== 14; n++) {
          assert.isBelow(n, 200, "the other node never heard of it")
          await sleep(20)
        }
      })
    })

    it("of passwords: length, history, name, common ones, age", async () => {
      const admin = await administrator(cluster.here)
      const id = await makeUser(admin, "ruled")
      const change = async (currentPassword: string, newPassword: string) =>
        (await signIn(cluster.here, "ruled", currentPassword)).call("POST", "auth/password", {
          currentPassword,
          newPassword,
        })
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
      assert.isTrue((await signIn(cluster.here, "ruled", other)).user.mustChangePassword)
    }, 60_000)

    it("of sessions: a limit that refuses, and one that ends the oldest", async () => {
      const admin = await administrator(cluster.here)
      await makeUser(admin, "limited")
      const first = await signIn(cluster.here, "limited")
      const second = await signIn(cluster.there, "limited")
      await underRules(cluster.here, { sessionsPerUser: 2, sessionLimitAction: "refuse" }, async () => {
        const refused = await login(cluster.here, "limited")
        assert.strictEqual(refused.status, 409)
        includes(refused.body, { code: "session_limit_reached", limit: 2 })
        await expecting(204, first.call("POST", "auth/logout"))
        const many = await Promise.all(
          Array.from({ length: 4 }, (_, n) => login(n % 2 === 0 ? cluster.here : cluster.there, "limited")),
        )
        assert.deepStrictEqual(many.map(({ status }) => status).toSorted((a, b) => a - b), [200, 409, 409, 409])
      })
      await underRules(cluster.here, { sessionsPerUser: 2, sessionLimitAction: "endOldest" }, async () => {
        const third = await signIn(cluster.here, "limited")
        await until(401, () => calling(cluster.there, second.token)("GET", "auth/profile"))
        await expecting(200, third.call("GET", "auth/profile"))
      })
    }, 30_000)
  })

  describe("sessions", () => {
    it("are listed, and one of the own is ended", async () => {
      const admin = await administrator(cluster.here)
      const id = await makeUser(admin, "seats")
      const one = await signIn(cluster.here, "seats")
      const two = await signIn(cluster.there, "seats")
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
      const admin = await administrator(cluster.here)
      const ways: Record<string, (id: string, own: Call) => Promise<Answer>> = {
        terminated: (id) => admin("POST", `sessions/${id}/terminate`),
        disabled: (id) => admin("PUT", `users/${id}`, { enabled: false }),
        deleted: (id) => admin("DELETE", `users/${id}`),
        "signed-out": (_id, own) => own("POST", "auth/logout"),
        "password-set": (id) => admin("PUT", `users/${id}`, { password: other }),
      }
      for (const [name, way] of Object.entries(ways)) {
        const id = await makeUser(admin, name)
        const { call, refreshToken, token } = await signIn(cluster.here, name)
        const elsewhere = calling(cluster.there, token)
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
      const admin = await administrator(cluster.here)
      const id = await makeUser(admin, "clumsy")
      await underRules(cluster.here, { lockoutAccountFailures: 3, lockoutFirstSeconds: 600 }, async () => {
        for (let n = 0; n < 3; n++) {
          assert.strictEqual(
            await code(401, login(n === 1 ? cluster.there : cluster.here, "clumsy", "wrong")),
            "invalid_credentials",
          )
        }
        const locked = await login(cluster.here, "clumsy")
        assert.strictEqual(locked.status, 429)
        assert.isAbove(locked.body.retryAfterSeconds, 500)
        const until = (await expecting(200, admin("GET", `users/${id}`))).lockedUntil
        assert.isAbove(Date.parse(until ?? ""), Date.now() + 500_000)

        await cluster.there.kill()
        await cluster.there.start()
        assert.strictEqual(await code(429, login(cluster.there, "clumsy")), "sign_in_locked")
        assert.strictEqual((await expecting(200, admin("GET", "users?text=clumsy"))).items[0]!.lockedUntil, until)

        assert.isNull((await expecting(200, admin("POST", `users/${id}/unlock`))).lockedUntil)
        await expecting(200, login(cluster.there, "clumsy"))
      })
    }, 60_000)
  })
}
