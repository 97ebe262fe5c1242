/** Roles: what they are, who holds them, and who may give them. */
import { assert, describe, it } from "@effect/vitest"
import { type NodeProcess } from "../harness/node-process.ts"
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
  unknownId,
  until,
} from "./fixtures.ts"

export const roles = (cluster: TwoNodes) => {
  describe("roles", () => {
    it("are made, changed, listed and deleted, but for those that come with the product", async () => {
      const admin = await administrator(cluster.here)
      const made = await admin("POST", "roles", { name: "Night shift", permissions: ["camera:read", "camera:live"] })
      assert.strictEqual(made.status, 201, JSON.stringify(made.body))
      const path = "roles/Night%20shift"
      assert.strictEqual(made.headers.get("location"), `${auth}/${path}`)
      assert.deepStrictEqual<unknown>(await expecting(200, admin("GET", path)), made.body)
      includes(made.body, { builtIn: false, users: 0, description: "", version: 1, ptzPriority: 50 })
      assert.strictEqual(await code(400, admin("POST", "roles", { name: "x", ptzPriority: 101 })), "bad_request")
      assert.strictEqual(await code(409, admin("POST", "roles", { name: "night SHIFT" })), "role_name_taken")
      assert.strictEqual(
        await code(400, admin("POST", "roles", { name: "x", permissions: ["camera:fly"] })),
        "bad_request",
      )
      const changed = await expecting(
        200,
        admin("PUT", path, { description: "At night", ptzPriority: 70 }, {
          "if-match": `"1"`,
        }),
      )
      includes(changed, {
        ptzPriority: 70,
        description: "At night",
        permissions: ["camera:read", "camera:live"],
        version: 2,
      })
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
      const admin = await administrator(cluster.here)
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
      const admin = await administrator(cluster.here)
      const id = await makeUser(admin, "granted")
      const { token } = await signIn(cluster.here, "granted")
      const cameras = (node: NodeProcess) => calling(node, token)("GET", "/camera/api/v1/cameras")
      await expecting(403, cameras(cluster.here))
      const granted = await expecting(200, admin("POST", `users/${id}/roles/viewer`))
      assert.deepStrictEqual(granted.roles, ["viewer"])
      await expecting(200, cameras(cluster.here))
      await until(200, () => cameras(cluster.there))
      assert.strictEqual((await expecting(200, admin("POST", `users/${id}/roles/viewer`))).version, granted.version)
      const { items } = await expecting(200, admin("GET", `users/${id}/roles`))
      includes(items[0], { name: "viewer", builtIn: true })
      await expecting(204, admin("DELETE", `users/${id}/roles/viewer`))
      await expecting(403, cameras(cluster.here))
      await until(403, () => cameras(cluster.there))
      assert.strictEqual(await code(404, admin("DELETE", `users/${id}/roles/viewer`)), "role_not_found")
      assert.strictEqual(await code(404, admin("POST", `users/${id}/roles/none`)), "role_not_found")
      assert.strictEqual(await code(404, admin("POST", `users/${unknownId}/roles/viewer`)), "user_not_found")
    })

    it("give nothing away that the giver does not hold", async () => {
      const admin = await administrator(cluster.here)
      await expecting(
        201,
        admin("POST", "roles", { name: "clerk", permissions: ["user:read", "user:write", "camera:live"] }),
      )
      const clerkId = await makeUser(admin, "clerk", { roles: ["clerk"] })
      const bossId = (await signIn(cluster.here, "admin")).user.id as string
      const { call } = await signIn(cluster.here, "clerk")
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
      await expecting(200, login(cluster.here, "admin"))
    })
  })
}
