/** What resource groups narrow: seen, done, watched, searched, given on. */
import { assert, describe, it } from "@effect/vitest"
import type { TwoNodes } from "../harness/two-nodes.ts"
import {
  addCamera,
  type Body,
  type Call,
  calling,
  code,
  expecting,
  makeGroup,
  makeRole,
  makeUser,
  permissions,
  tokenOf,
  unknownId,
  viewing,
} from "./fixtures.ts"

export const narrowing = (cluster: TwoNodes) => {
  describe("resource groups", () => {
    it("narrow what is seen, done, watched and searched, and say why", async () => {
      const admin = calling(cluster.here, await tokenOf(cluster.here, "admin"))
      const [lobby, yard, gate] = [
        await addCamera(admin, "Lobby"),
        await addCamera(admin, "Yard"),
        await addCamera(admin, "Gate"),
      ]
      const second = await expecting(
        201,
        admin("POST", `/camera/api/v1/cameras/${gate.id}/channels`, {
          name: "Gate back",
          streams: [{ role: "main", sourceUrl: "rtsp://127.0.0.1:9/back" }],
        }),
      )
      const record = (channelId: string) =>
        expecting(
          201,
          admin("POST", "/record/api/v1/recordings", {
            channelId,
            mode: "continuous",
            enabled: true,
            retentionDays: 1,
          }),
        )
      const [inside, outside, half] = [
        await record(lobby.channels[0]!.id),
        await record(yard.channels[0]!.id),
        await record(second.id),
      ]

      const building = await makeGroup(admin, "Building")
      const floor = await makeGroup(admin, "Ground floor", building)
      await expecting(
        200,
        admin("POST", `${permissions}/resource-groups/${floor}/resources`, {
          resources: [{ kind: "camera", id: lobby.id }, { kind: "channel", id: second.id }],
        }),
      )
      await makeRole(admin, "lobby", viewing)
      const assigned = await expecting(200, admin("POST", `${permissions}/roles/lobby/resource-groups/${building}`))
      assert.deepInclude(assigned, { role: "lobby", allResources: false })
      await makeUser(admin, "vera", { roles: ["lobby"] })
      const vera = calling(cluster.here, await tokenOf(cluster.here, "vera"))

      const names = async (path: string) => (await expecting(200, vera("GET", path))).items.map((one) => one.name)
      for (const path of ["cameras", "cameras/search?q=a", "cameras/status/registered"]) {
        const all = await names(`/camera/api/v1/${path}`)
        assert.notInclude(all, "Yard", path)
      }
      const seen = await expecting(200, vera("GET", "/camera/api/v1/cameras"))
      assert.deepStrictEqual(seen.items.map((one) => one.name), ["Lobby", "Gate"])
      assert.deepStrictEqual(seen.items[1]!.channels.map((one) => one.id), [second.id])
      const partly = await expecting(200, vera("GET", `/camera/api/v1/cameras/${gate.id}`))
      assert.lengthOf(partly.channels, 1)
      assert.lengthOf((await expecting(200, vera("GET", `/camera/api/v1/cameras/${gate.id}/channels`))).items, 1)
      assert.lengthOf((await expecting(200, admin("GET", `/camera/api/v1/cameras/${gate.id}`))).channels, 2)

      const tokens = (body: Body) => body.items.map((one) => one.recordingToken)
      assert.deepStrictEqual(tokens(await expecting(200, vera("GET", "/record/api/v1/recordings"))), [
        inside.recordingToken,
        half.recordingToken,
      ])
      const byChannel = (id: string) => vera("GET", `/record/api/v1/recordings/by-channel/${id}`)
      assert.lengthOf((await expecting(200, byChannel(yard.channels[0]!.id))).items, 0)
      assert.lengthOf((await expecting(200, byChannel(second.id))).items, 1)

      // What is not shown does not exist: the same words as for an id that nobody has, but for the id.
      const day = "start=2026-01-01T00:00:00Z&end=2026-01-02T00:00:00Z"
      const stream = (camera: { channels: ReadonlyArray<{ streams: ReadonlyArray<{ id: string }> }> }) =>
        camera.channels[0]!.streams[0]!.id
      const hidden: ReadonlyArray<readonly [string, string, (id: string) => string, string]> = [
        ["GET", yard.id, (id) => `/camera/api/v1/cameras/${id}`, ""],
        ["GET", yard.id, (id) => `/camera/api/v1/cameras/${id}/channels`, ""],
        ["GET", yard.channels[0]!.id, (id) => `/camera/api/v1/channels/${id}`, ""],
        ["GET", yard.channels[0]!.id, (id) => `/camera/api/v1/channels/${id}/streams`, ""],
        ["GET", stream(yard), (id) => `/camera/api/v1/streams/${id}`, ""],
        ["GET", stream(yard), (id) => `/camera/api/v1/streams/${id}/media-path`, ""],
        ["POST", stream(yard), (id) => `/camera/api/v1/streams/${id}/token/refresh`, ""],
        ["GET", outside.id, (id) => `/record/api/v1/recordings/${id}`, ""],
        ["GET", outside.id, (id) => `/record/api/v1/recordings/${id}/event-status`, ""],
        ["GET", outside.id, (id) => `/record/api/v1/recordings/${id}/event-history`, ""],
        ["GET", outside.id, (id) => `/record/api/v1/recordings/${id}/coverage?${day}`, ""],
        ["GET", outside.recordingToken, (id) => `/search/api/v1/recordings/${id}/timeline?${day}`, ""],
        ["GET", outside.recordingToken, (id) => `/search/api/v1/recordings/${id}/timeline/range?${day}`, ""],
        ["GET", outside.recordingToken, (id) => `/search/api/v1/recordings/${id}/timeline/updates`, ""],
        ["GET", outside.recordingToken, (id) => `/search/api/v1/recordings/${id}/calendar/day?date=2026-01-01`, ""],
        ["GET", outside.recordingToken, (id) => `/search/api/v1/recordings/${id}/calendar/month?month=2026-01`, ""],
        ["GET", outside.recordingToken, (id) => `/search/api/v1/recordings/${id}/sessions?${day}`, ""],
        ["GET", outside.recordingToken, (id) => `/replay/api/v1/replay/info/${id}`, ""],
      ]
      const said = (body: Body, id: string) => {
        const { traceId: _trace, ...rest } = body as Body & { readonly traceId: string }
        return JSON.stringify(rest).replaceAll(id, "<id>")
      }
      for (const [method, id, path] of hidden) {
        const there = await expecting(404, vera(method, path(id)))
        const nowhere = await expecting(404, vera(method, path(unknownId)))
        assert.strictEqual(said(there, id), said(nowhere, unknownId), path(id))
        // It is not the path that is wrong.
        assert.strictEqual((await admin(method, path(id))).status, 200, path(id))
      }
      for (const [, id, path] of hidden.filter(([, id]) => id === yard.id).slice(0, 1)) {
        assert.strictEqual((await vera("GET", path(id).replace(yard.id, lobby.id))).status, 200)
      }
      const replay = (recordingToken: string) =>
        vera("POST", "/replay/api/v1/replay/uri", {
          recordingToken,
          start: new Date(Date.now() - 60_000).toISOString(),
        })
      assert.strictEqual(await code(404, replay(outside.recordingToken)), "recording_not_found")
      const session = await expecting(201, replay(inside.recordingToken))
      await expecting(200, vera("GET", `/replay/api/v1/replay/session/${session.sessionId}`))
      await expecting(201, replay(half.recordingToken))
      await expecting(200, vera("GET", `/search/api/v1/recordings/${half.recordingToken}/timeline?${day}`))
      await expecting(200, vera("GET", `/camera/api/v1/streams/${stream(lobby)}/media-path`))

      // What was opened while it was allowed ends with the permission, though its URL needs no token.
      const media = async () => (await fetch(`${cluster.here.url}${session.uri}`)).status
      const granted = (method: string) =>
        admin(method, `${permissions}/resource-groups/${floor}/resources`, {
          resources: [{ kind: "camera", id: lobby.id }],
        })
      assert.notStrictEqual(await media(), 410)
      await expecting(200, granted("DELETE"))
      assert.strictEqual(await media(), 410)
      await expecting(200, granted("POST"))
      assert.notStrictEqual(await media(), 410)

      // Seen, but not allowed.
      await expecting(
        200,
        admin("POST", `${permissions}/roles/lobby/permissions`, { permissions: ["camera:write", "recording:write"] }),
      )
      await makeRole(admin, "watcher", ["camera:read"])
      await expecting(200, admin("PUT", `${permissions}/roles/watcher/resource-groups`, { groupIds: [] }))
      const yardOnly = await makeGroup(admin, "Yard only")
      await expecting(
        200,
        admin("POST", `${permissions}/resource-groups/${yardOnly}/resources`, {
          resources: [{ kind: "camera", id: yard.id }],
        }),
      )
      await expecting(200, admin("POST", `${permissions}/roles/watcher/resource-groups/${yardOnly}`))
      const veraId = (await expecting(200, admin("GET", "/auth/api/v1/users?text=vera"))).items[0]!.id
      await expecting(200, admin("POST", `/auth/api/v1/users/${veraId}/roles/watcher`))
      await expecting(200, vera("GET", `/camera/api/v1/cameras/${yard.id}`))
      const rename = (id: string) => vera("PUT", `/camera/api/v1/cameras/${id}`, { name: "Renamed" })
      const refused = await expecting(403, rename(yard.id))
      assert.include(refused.detail, "no resource group of it contains this camera")
      assert.strictEqual(await code(403, vera("DELETE", `/camera/api/v1/cameras/${yard.id}`)), "forbidden")
      assert.strictEqual(await code(403, rename(gate.id)), "forbidden", "of which one channel is his")
      assert.strictEqual(await code(404, rename(unknownId)), "camera_not_found")
      await expecting(200, rename(lobby.id))
      assert.strictEqual(
        await code(403, vera("POST", `/camera/api/v1/channels/${yard.channels[0]!.id}/toggle`, {})),
        "forbidden",
      )
      await expecting(200, vera("POST", `/camera/api/v1/channels/${second.id}/toggle`, { enabled: true }))
      // What concerns everything takes a role that is not narrowed.
      assert.strictEqual(
        await code(403, vera("PUT", "/camera/api/v1/cameras/reorder", { ids: [lobby.id] })),
        "forbidden",
      )
      assert.strictEqual(
        await code(403, vera("POST", "/camera/api/v1/cameras", { name: "x", driver: "rtsp", streams: [] })),
        "forbidden",
      )
      const recordYard = {
        channelId: yard.channels[0]!.id,
        role: "sub",
        mode: "continuous",
        enabled: true,
        retentionDays: 1,
      }
      assert.strictEqual(await code(403, vera("POST", "/record/api/v1/recordings", recordYard)), "forbidden")
      assert.strictEqual(
        await code(422, vera("POST", "/record/api/v1/recordings", { ...recordYard, channelId: unknownId })),
        "recording_channel_not_found",
      )
      assert.strictEqual(
        await code(404, vera("POST", `/record/api/v1/recordings/${outside.id}/toggle`, {})),
        "recording_not_found",
      )

      // The answers of the check are those of the doors.
      const check = (call: Call, body: unknown) =>
        expecting(200, call("POST", `${permissions}/permissions/check`, body))
      const live = { permission: "camera:live", resource: { kind: "camera", id: lobby.id } }
      const why = await check(vera, live)
      assert.deepStrictEqual(why.via, ["lobby"])
      assert.include(why.reason, "through the resource groups Ground floor")
      const many = await check(vera, {
        items: [
          live,
          { permission: "camera:live", resource: { kind: "camera", id: yard.id } },
          { permission: "camera:live" },
          { permission: "user:write" },
          { permission: "camera:live", resource: { kind: "channel", id: second.id } },
          { permission: "recording:replay", resource: { kind: "recording", id: half.id } },
          { permission: "camera:live", resource: { kind: "camera", id: unknownId } },
        ],
      })
      assert.deepStrictEqual(many.items.map((one) => one.allowed), [
        true,
        false,
        true,
        false,
        true,
        true,
        false,
      ])
      const [, , , , , , nowhere] = many.items
      assert.include(nowhere!.reason, "There is no such camera")
      const about = await check(admin, { ...live, username: "VERA" })
      assert.deepStrictEqual(about, why)
      assert.strictEqual(
        await code(403, vera("POST", `${permissions}/permissions/check`, { ...live, username: "admin" })),
        "forbidden",
      )
      assert.strictEqual(
        await code(404, admin("POST", `${permissions}/permissions/check`, { ...live, username: "nobody" })),
        "user_not_found",
      )
      assert.strictEqual(
        await code(400, vera("POST", `${permissions}/permissions/check`, { items: [] })),
        "bad_request",
      )

      const own = await expecting(200, vera("GET", `${permissions}/users/vera/resource-groups`))
      assert.strictEqual(own.allResources, false)
      assert.deepStrictEqual(own.items.map((group) => [group.name, group.via]), [["Building", ["lobby"]], [
        "Ground floor",
        ["lobby"],
      ], ["Yard only", ["watcher"]]])
      assert.strictEqual(await code(403, vera("GET", `${permissions}/users/admin/resource-groups`)), "forbidden")
      assert.isTrue((await expecting(200, admin("GET", `${permissions}/users/admin/resource-groups`))).allResources)
      assert.strictEqual(await code(404, admin("GET", `${permissions}/users/nobody/resource-groups`)), "user_not_found")
    })

    it("narrow a role until somebody says that they do not; built-in roles never", async () => {
      const admin = calling(cluster.here, await tokenOf(cluster.here, "admin"))
      await addCamera(admin, "Anything")
      await makeRole(admin, "narrow", ["camera:read"])
      await makeUser(admin, "nora", { roles: ["narrow"] })
      const nora = calling(cluster.here, await tokenOf(cluster.here, "nora"))
      const count = async () => (await expecting(200, nora("GET", "/camera/api/v1/cameras"))).items.length
      const at = `${permissions}/roles/narrow/resource-groups`
      const groups = async () => {
        const { allResources, items } = await expecting(200, admin("GET", at))
        return [allResources, items.length]
      }
      assert.isAbove(await count(), 0)
      assert.deepStrictEqual(await groups(), [true, 0])
      const empty = await makeGroup(admin, "Empty")
      await expecting(200, admin("POST", `${at}/${empty}`))
      assert.deepStrictEqual([await count(), ...await groups()], [0, false, 1])
      await expecting(204, admin("DELETE", `${at}/${empty}`))
      assert.deepStrictEqual([await count(), ...await groups()], [0, false, 0])
      assert.strictEqual(await code(404, admin("DELETE", `${at}/${empty}`)), "resource_group_not_assigned")
      await expecting(200, admin("PUT", at, { groupIds: [empty] }))
      assert.strictEqual(await code(422, admin("PUT", at, { groupIds: [empty], allResources: true })), "invalid_input")
      assert.strictEqual(await code(422, admin("PUT", at, { groupIds: [empty, unknownId] })), "invalid_input")
      await expecting(204, admin("DELETE", `${permissions}/resource-groups/${empty}`))
      assert.deepStrictEqual([await count(), ...await groups()], [0, false, 0])
      await expecting(200, admin("PUT", at, { groupIds: [], allResources: true }))
      assert.isAbove(await count(), 0)
      assert.strictEqual(await code(404, admin("POST", `${at}/${unknownId}`)), "resource_group_not_found")
      const other = await makeGroup(admin, "Other again")
      for (
        const [role, expected] of [["admin", "role_built_in"], ["operator", "role_built_in"], [
          "nobody",
          "role_not_found",
        ]]
      ) {
        const status = expected === "role_built_in" ? 409 : 404
        const path = `${permissions}/roles/${role}/resource-groups`
        assert.strictEqual(await code(status, admin("PUT", path, { groupIds: [] })), expected)
        assert.strictEqual(await code(status, admin("POST", `${path}/${other}`)), expected)
        assert.strictEqual(await code(status, admin("DELETE", `${path}/${other}`)), expected)
      }
      assert.strictEqual(await code(404, admin("GET", `${permissions}/roles/nobody/resource-groups`)), "role_not_found")
    })

    it("keep somebody whose own roles are narrowed from giving more", async () => {
      const admin = calling(cluster.here, await tokenOf(cluster.here, "admin"))
      const [mine, foreign] = [await addCamera(admin, "Mine"), await addCamera(admin, "Foreign")]
      const group = await makeGroup(admin, "Tenant")
      const add = (call: Call, id: string) =>
        call("POST", `${permissions}/resource-groups/${group}/resources`, { resources: [{ kind: "camera", id }] })
      await expecting(200, add(admin, mine.id))
      await makeRole(admin, "tenant", ["permission:read", "permission:write", "camera:read"])
      await expecting(200, admin("PUT", `${permissions}/roles/tenant/resource-groups`, { groupIds: [group] }))
      await makeUser(admin, "tess", { roles: ["tenant"] })
      const tess = calling(cluster.here, await tokenOf(cluster.here, "tess"))
      assert.strictEqual(await code(403, add(tess, foreign.id)), "forbidden")
      await expecting(200, add(tess, mine.id))
      assert.strictEqual(
        await code(
          403,
          tess("PUT", `${permissions}/roles/tenant/resource-groups`, { groupIds: [], allResources: true }),
        ),
        "forbidden",
      )
      const wide = await makeGroup(admin, "Wide")
      await expecting(
        200,
        admin("POST", `${permissions}/resource-groups/${wide}/resources`, {
          resources: [{ kind: "camera", id: foreign.id }],
        }),
      )
      assert.strictEqual(
        await code(403, tess("POST", `${permissions}/roles/tenant/resource-groups/${wide}`)),
        "forbidden",
      )
      assert.strictEqual(
        await code(403, tess("PUT", `${permissions}/resource-groups/${wide}`, { name: "Wide", parentId: group })),
        "forbidden",
      )
      // Whoever manages permissions and reaches no camera cannot open cameras to others, nor to himself by another role.
      await makeRole(admin, "keyholder", ["permission:read", "permission:write"])
      await makeUser(admin, "carl", { roles: ["keyholder", "tenant"] })
      const carl = calling(cluster.here, await tokenOf(cluster.here, "carl"))
      assert.strictEqual(await code(403, add(carl, foreign.id)), "forbidden")
      const nest = (parentId: string) =>
        carl("PUT", `${permissions}/resource-groups/${wide}`, { name: "Wide", parentId })
      assert.strictEqual(await code(403, nest(group)), "forbidden")
      await expecting(200, nest(await makeGroup(carl, "Nobody's")))
      // Refused means unchanged.
      const after = await expecting(200, admin("GET", `${permissions}/roles/tenant/resource-groups`))
      assert.deepStrictEqual(after.items.map((one) => one.id), [group])
    })
  })
}
