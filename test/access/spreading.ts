/** How a change of who may do what reaches the other node. */
import { trustLayer } from "#actors/behaviour/auth-trust.ts"
import { Trust } from "#actors/protocol/auth-trust.ts"
import * as Database from "#ops/database.ts"
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer, Schedule } from "effect"
import type { TwoNodes } from "../harness/two-nodes.ts"
import {
  addCamera,
  type Answer,
  calling,
  expecting,
  makeGroup,
  makeRole,
  makeUser,
  permissions,
  tokenOf,
} from "./fixtures.ts"

export const spreading = (cluster: TwoNodes) => {
  describe("a change of who may do what", () => {
    const soon = async (what: string, holds: () => Promise<boolean>) => {
      for (let tries = 0; tries < 200; tries++) {
        if (await holds()) return
        await new Promise((resolve) => setTimeout(resolve, 25))
      }
      assert.fail(`never came: ${what}`)
    }

    it("holds for the next request where it was made, and on the other node soon after", async () => {
      const admin = calling(cluster.here, await tokenOf(cluster.here, "admin"))
      const camera = await addCamera(admin, "Shared")
      const group = await makeGroup(admin, "Shared group")
      await makeRole(admin, "sharing", ["camera:read"])
      await expecting(200, admin("PUT", `${permissions}/roles/sharing/resource-groups`, { groupIds: [group] }))
      const userId = await makeUser(admin, "sam", { roles: ["sharing"] })
      // A user made here signs in there.
      const token = await tokenOf(cluster.there, "sam")
      const [near, far] = [calling(cluster.here, token), calling(cluster.there, token)]
      const path = `/camera/api/v1/cameras/${camera.id}`
      const members = `${permissions}/resource-groups/${group}/resources`
      const resources = [{ kind: "camera", id: camera.id }]
      const both = async (what: string, change: () => Promise<Answer>, status: number) => {
        assert.isBelow((await change()).status, 300, what)
        assert.strictEqual((await near("GET", path)).status, status, `${what}: at once`)
        await soon(`${what}: there`, async () => (await far("GET", path)).status === status)
      }
      await both("nothing yet", () => admin("GET", members), 404)
      await both("a member more", () => admin("POST", members, { resources }), 200)
      await both("a member less", () => admin("DELETE", members, { resources }), 404)
      await both(
        "not narrowed",
        () => admin("PUT", `${permissions}/roles/sharing/resource-groups`, { groupIds: [], allResources: true }),
        200,
      )
      await both(
        "a permission less",
        () => admin("DELETE", `${permissions}/roles/sharing/permissions`, { permissions: ["camera:read"] }),
        403,
      )
      await both("another role", () => admin("POST", `/auth/api/v1/users/${userId}/roles/viewer`), 200)
      await both("that role less", () => admin("DELETE", `/auth/api/v1/users/${userId}/roles/viewer`), 403)
      await both("switched off", () => admin("PUT", `/auth/api/v1/users/${userId}`, { enabled: false }), 401)
    })

    it("is heard of by a notice, not only by the regular reading", () =>
      Effect.runPromise(Effect.scoped(Effect.gen(function*() {
        const node = Layer.build(
          trustLayer("1 hour").pipe(
            Layer.provide(Database.layerClient({ url: cluster.url, applicationName: "test", maxConnections: 2 })),
          ),
        )
        const [one, other] = [Context.get(yield* node, Trust), Context.get(yield* node, Trust)]
        let own = 0
        let heard = 0
        yield* one.reads(
          "own",
          Effect.sync(() => {
            own += 1
          }),
        )
        yield* other.reads(
          "other",
          Effect.sync(() => {
            heard += 1
          }),
        )
        // The other listens a moment after it was built.
        yield* Effect.repeat(one.changed, { schedule: Schedule.spaced("50 millis"), until: () => heard >= 3 }).pipe(
          Effect.timeout("20 seconds"),
        )
        const before = own
        yield* one.changed
        assert.isAtLeast(own, before + 1)
      }))))
  })
}
