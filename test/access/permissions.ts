/** Resource groups and what roles grant. */
import { assert, describe, it } from "@effect/vitest"
import type { TwoNodes } from "../harness/two-nodes.ts"
import {
  addCamera,
  type Body,
  calling,
  code,
  expecting,
  makeGroup,
  makeRole,
  makeUser,
  permissions,
  tokenOf,
  unknownId,
} from "./fixtures.ts"

export const permissionService = (cluster: TwoNodes) => {
  describe("the permission service", () => {
    it("keeps resource groups: made, nested, changed, deleted", async () => {
      const admin = calling(cluster.here, await tokenOf(cluster.here, "admin"))
      const made = await admin("POST", `${permissions}/resource-groups`, { name: "Site", description: "All of it" })
      assert.strictEqual(made.status, 201)
      assert.strictEqual(made.headers.get("location"), `${permissions}/resource-groups/${made.body.id}`)
      assert.deepInclude(made.body, { name: "Site", parentId: null, resourceCount: 0, groupCount: 0, version: 1 })
      const site = made.body.id
      const hall = await makeGroup(admin, "Hall", site)
      assert.strictEqual(
        await code(409, admin("POST", `${permissions}/resource-groups`, { name: "SITE" })),
        "resource_group_name_taken",
      )
      assert.strictEqual(
        await code(422, admin("POST", `${permissions}/resource-groups`, { name: "x", parentId: unknownId })),
        "invalid_input",
      )
      assert.strictEqual(await code(400, admin("POST", `${permissions}/resource-groups`, { name: " " })), "bad_request")
      const circle = await expecting(
        422,
        admin("PUT", `${permissions}/resource-groups/${site}`, { name: "Site", parentId: hall }),
      )
      assert.include(circle.detail, "nested in itself")
      assert.strictEqual(
        await code(409, admin("DELETE", `${permissions}/resource-groups/${site}`)),
        "resource_group_nested",
      )

      const stale = { "if-match": "\"7\"" }
      const put = (name: string, headers = {}) =>
        admin("PUT", `${permissions}/resource-groups/${hall}`, { name, parentId: site }, headers)
      assert.strictEqual(await code(412, put("Great hall", stale)), "version_conflict")
      assert.strictEqual((await expecting(200, put("Great hall", { "if-match": "\"1\"" }))).version, 2)
      assert.strictEqual((await admin("GET", `${permissions}/resource-groups/${hall}`)).headers.get("etag"), "\"2\"")

      let deepest = hall
      for (let level = 3; level <= 8; level++) deepest = await makeGroup(admin, `Level ${level}`, deepest)
      const deeper = await expecting(
        422,
        admin("POST", `${permissions}/resource-groups`, { name: "Level 9", parentId: deepest }),
      )
      assert.include(deeper.detail, "8 deep")
      const other = await makeGroup(admin, "Other")
      assert.strictEqual(
        await code(422, admin("PUT", `${permissions}/resource-groups/${site}`, { name: "Site", parentId: other })),
        "invalid_input",
      )

      const page = await expecting(200, admin("GET", `${permissions}/resource-groups?limit=3`))
      assert.lengthOf(page.items, 3)
      const rest = await expecting(
        200,
        admin("GET", `${permissions}/resource-groups?limit=500&cursor=${page.nextCursor}`),
      )
      const names = [...page.items, ...rest.items].map((group) => group.name)
      assert.deepStrictEqual(
        names,
        names.toSorted((a: string, b: string) => a.toLowerCase() < b.toLowerCase() ? -1 : 1),
      )
      assert.lengthOf(names, 9)
      const nested = await expecting(200, admin("GET", `${permissions}/resource-groups?parentId=${site}`))
      assert.deepStrictEqual(nested.items.map((group) => group.name), ["Great hall"])
      assert.lengthOf((await expecting(200, admin("GET", `${permissions}/resource-groups?text=LEVEL`))).items, 6)

      await expecting(204, admin("DELETE", `${permissions}/resource-groups/${other}`))
      for (const method of ["GET", "DELETE"]) {
        assert.strictEqual(
          await code(404, admin(method, `${permissions}/resource-groups/${other}`)),
          "resource_group_not_found",
        )
      }
      assert.strictEqual(
        await code(404, admin("PUT", `${permissions}/resource-groups/${other}`, { name: "y" })),
        "resource_group_not_found",
      )
    })

    it("fills groups with what exists, and what is deleted leaves them", async () => {
      const admin = calling(cluster.here, await tokenOf(cluster.here, "admin"))
      const group = await makeGroup(admin, "Members")
      const at = `${permissions}/resource-groups/${group}/resources`
      const one = await addCamera(admin, "M1")
      const two = await addCamera(admin, "M2")
      const resources = [{ kind: "camera", id: one.id }, { kind: "channel", id: two.channels[0]!.id }]
      const added = await expecting(200, admin("POST", at, { resources }))
      assert.deepInclude(added, { resourceCount: 2, version: 2 })
      // Again: nothing is new.
      assert.deepInclude(await expecting(200, admin("POST", at, { resources })), { resourceCount: 2, version: 2 })
      assert.strictEqual(await code(412, admin("POST", at, { resources }, { "if-match": "\"1\"" })), "version_conflict")
      for (
        const stranger of [
          { kind: "camera", id: unknownId },
          { kind: "camera", id: "x" },
          { kind: "channel", id: one.id },
          { kind: "recording", id: unknownId },
          { kind: "layout", id: unknownId },
        ]
      ) {
        const refused = await expecting(422, admin("POST", at, { resources: [resources[0], stranger] }))
        assert.deepStrictEqual(refused.errors.map((fault) => fault.pointer), [
          "/payload/resources/1",
        ])
      }
      assert.strictEqual(await code(400, admin("POST", at, { resources: [] })), "bad_request")
      assert.strictEqual(
        await code(404, admin("POST", `${permissions}/resource-groups/${unknownId}/resources`, { resources })),
        "resource_group_not_found",
      )
      const kinds = (body: Body) => body.items.map((member) => member.kind)
      assert.deepStrictEqual(kinds(await expecting(200, admin("GET", at))), ["camera", "channel"])
      const first = await expecting(200, admin("GET", `${at}?limit=1`))
      assert.deepStrictEqual(kinds(await expecting(200, admin("GET", `${at}?limit=1&cursor=${first.nextCursor}`))), [
        "channel",
      ])
      assert.deepStrictEqual(kinds(await expecting(200, admin("GET", `${at}?kind=channel`))), ["channel"])
      await expecting(204, admin("DELETE", `/camera/api/v1/cameras/${two.id}`))
      assert.deepStrictEqual(kinds(await expecting(200, admin("GET", at))), ["camera"])
      assert.strictEqual((await expecting(200, admin("DELETE", at, { resources }))).resourceCount, 0)
      assert.strictEqual((await expecting(200, admin("DELETE", at, { resources }))).resourceCount, 0)
      assert.strictEqual(
        await code(404, admin("DELETE", `${permissions}/resource-groups/${unknownId}/resources`, { resources })),
        "resource_group_not_found",
      )
    })

    it("changes what roles grant; built-in ones stay, and nobody gives more than they hold", async () => {
      const admin = calling(cluster.here, await tokenOf(cluster.here, "admin"))
      const list = await expecting(200, admin("GET", `${permissions}/permissions`))
      assert.deepInclude(list.items.find((one) => one.permission === "permission:write"), {
        administrative: true,
        scope: null,
      })
      await makeRole(admin, "guard", ["camera:read"])
      const at = `${permissions}/roles/guard/permissions`
      const granted = (body: Body) => body.permissions
      assert.deepStrictEqual(granted(await expecting(200, admin("GET", at))), ["camera:read"])
      const added = await admin("POST", at, { permissions: ["camera:live", "camera:read"] })
      assert.deepStrictEqual(granted(added.body), ["camera:read", "camera:live"])
      assert.strictEqual(added.headers.get("etag"), "\"2\"")
      const assign = (names: ReadonlyArray<string>, headers = {}) => admin("PUT", at, { permissions: names }, headers)
      assert.strictEqual(await code(412, assign([], { "if-match": "\"1\"" })), "version_conflict")
      assert.deepStrictEqual(granted(await expecting(200, assign(["recording:read"]))), ["recording:read"])
      assert.deepStrictEqual(granted(await expecting(200, admin("DELETE", at, { permissions: ["camera:read"] }))), [
        "recording:read",
      ])
      assert.strictEqual(await code(400, assign(["camera:fly"])), "bad_request")
      for (const method of ["POST", "PUT", "DELETE"]) {
        for (const [role, expected] of [["admin", 409], ["viewer", 409], ["nobody", 404]] as const) {
          const answer = admin(method, `${permissions}/roles/${role}/permissions`, { permissions: ["camera:read"] })
          assert.strictEqual(await code(expected, answer), expected === 409 ? "role_built_in" : "role_not_found")
        }
      }
      const everything = await expecting(200, admin("GET", `${permissions}/roles/admin/permissions`))
      assert.deepInclude(everything, { everything: true, builtIn: true })
      assert.strictEqual(await code(404, admin("GET", `${permissions}/roles/nobody/permissions`)), "role_not_found")

      await makeRole(admin, "keeper", ["permission:read", "permission:write", "camera:read"])
      await makeUser(admin, "kim", { roles: ["keeper"] })
      const kim = calling(cluster.here, await tokenOf(cluster.here, "kim"))
      assert.strictEqual(await code(403, kim("POST", at, { permissions: ["user:write"] })), "forbidden")
      assert.strictEqual(
        await code(403, kim("POST", `${permissions}/roles/keeper/permissions`, { permissions: ["camera:write"] })),
        "forbidden",
      )
      await expecting(200, kim("POST", at, { permissions: ["camera:read"] }))
      await expecting(200, kim("DELETE", at, { permissions: ["recording:read"] }))
    })
  })
}
