/** The permission service and what it narrows, on two nodes of one cluster: real processes, REST alone. */
import { trustLayer } from "#actors/behaviour/auth-trust.ts"
import { Trust } from "#actors/protocol/auth-trust.ts"
import * as Database from "#ops/database.ts"
import { EmbeddedPostgres, layer as postgresLayer } from "#ops/host/postgres.ts"
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Exit, Layer, Logger, Redacted, Schedule, Scope } from "effect"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll } from "vitest"
import { makeNode, type NodeProcess } from "./harness/node-process.ts"
import {
  addCamera,
  type Answer,
  base,
  type Body,
  type Call,
  calling,
  code,
  expecting,
  makeGroup,
  makeRole,
  makeUser,
  password,
  tokenOf,
  unknownId,
  viewing,
} from "./permission-fixtures.ts"

const folder = mkdtempSync(join(tmpdir(), "nightjar-permission-"))
const scope = Effect.runSync(Scope.make())
let url = Redacted.make("")
let here: NodeProcess
let there: NodeProcess

beforeAll(async () => {
  const data = join(folder, "postgres")
  const postgres = await Effect.runPromise(
    Layer.buildWithScope(postgresLayer({ dataFolder: data, copies: join(folder, "copies") }), scope).pipe(
      Effect.provide(Logger.layer([])),
    ),
  )
  url = await Effect.runPromise(Context.get(postgres, EmbeddedPostgres).url)
  const settings = { NIGHTJAR_DATABASE_URL: Redacted.value(url), NIGHTJAR_ADMIN_PASSWORD: password }
  here = await makeNode(join(folder, "here"), settings)
  there = await makeNode(join(folder, "there"), settings)
  await here.start()
  await there.start()
}, 120_000)

afterAll(async () => {
  await Promise.all([here?.stop(), there?.stop()])
  await Effect.runPromise(Scope.close(scope, Exit.void))
  rmSync(folder, { recursive: true, force: true })
}, 60_000)

describe("the permission service", () => {
  it("keeps resource groups: made, nested, changed, deleted", async () => {
    const admin = calling(here, await tokenOf(here, "admin"))
    const made = await admin("POST", `${base}/resource-groups`, { name: "Site", description: "All of it" })
    assert.strictEqual(made.status, 201)
    assert.strictEqual(made.headers.get("location"), `${base}/resource-groups/${made.body.id}`)
    assert.deepInclude(made.body, { name: "Site", parentId: null, resourceCount: 0, groupCount: 0, version: 1 })
    const site = made.body.id
    const hall = await makeGroup(admin, "Hall", site)
    assert.strictEqual(
      await code(409, admin("POST", `${base}/resource-groups`, { name: "SITE" })),
      "resource_group_name_taken",
    )
    assert.strictEqual(
      await code(422, admin("POST", `${base}/resource-groups`, { name: "x", parentId: unknownId })),
      "invalid_input",
    )
    assert.strictEqual(await code(400, admin("POST", `${base}/resource-groups`, { name: " " })), "bad_request")
    const circle = await expecting(
      422,
      admin("PUT", `${base}/resource-groups/${site}`, { name: "Site", parentId: hall }),
    )
    assert.include(circle.detail, "nested in itself")
    assert.strictEqual(await code(409, admin("DELETE", `${base}/resource-groups/${site}`)), "resource_group_nested")

    const stale = { "if-match": "\"7\"" }
    const put = (name: string, headers = {}) =>
      admin("PUT", `${base}/resource-groups/${hall}`, { name, parentId: site }, headers)
    assert.strictEqual(await code(412, put("Great hall", stale)), "version_conflict")
    assert.strictEqual((await expecting(200, put("Great hall", { "if-match": "\"1\"" }))).version, 2)
    assert.strictEqual((await admin("GET", `${base}/resource-groups/${hall}`)).headers.get("etag"), "\"2\"")

    let deepest = hall
    for (let level = 3; level <= 8; level++) deepest = await makeGroup(admin, `Level ${level}`, deepest)
    const deeper = await expecting(
      422,
      admin("POST", `${base}/resource-groups`, { name: "Level 9", parentId: deepest }),
    )
    assert.include(deeper.detail, "8 deep")
    const other = await makeGroup(admin, "Other")
    assert.strictEqual(
      await code(422, admin("PUT", `${base}/resource-groups/${site}`, { name: "Site", parentId: other })),
      "invalid_input",
    )

    const page = await expecting(200, admin("GET", `${base}/resource-groups?limit=3`))
    assert.lengthOf(page.items, 3)
    const rest = await expecting(200, admin("GET", `${base}/resource-groups?limit=500&cursor=${page.nextCursor}`))
    const names = [...page.items, ...rest.items].map((group) => group.name)
    assert.deepStrictEqual(names, names.toSorted((a: string, b: string) => a.toLowerCase() < b.toLowerCase() ? -1 : 1))
    assert.lengthOf(names, 9)
    const nested = await expecting(200, admin("GET", `${base}/resource-groups?parentId=${site}`))
    assert.deepStrictEqual(nested.items.map((group) => group.name), ["Great hall"])
    assert.lengthOf((await expecting(200, admin("GET", `${base}/resource-groups?text=LEVEL`))).items, 6)

    await expecting(204, admin("DELETE", `${base}/resource-groups/${other}`))
    for (const method of ["GET", "DELETE"]) {
      assert.strictEqual(await code(404, admin(method, `${base}/resource-groups/${other}`)), "resource_group_not_found")
    }
    assert.strictEqual(
      await code(404, admin("PUT", `${base}/resource-groups/${other}`, { name: "y" })),
      "resource_group_not_found",
    )
  })

  it("fills groups with what exists, and what is deleted leaves them", async () => {
    const admin = calling(here, await tokenOf(here, "admin"))
    const group = await makeGroup(admin, "Members")
    const at = `${base}/resource-groups/${group}/resources`
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
      await code(404, admin("POST", `${base}/resource-groups/${unknownId}/resources`, { resources })),
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
      await code(404, admin("DELETE", `${base}/resource-groups/${unknownId}/resources`, { resources })),
      "resource_group_not_found",
    )
  })

  it("changes what roles grant; built-in ones stay, and nobody gives more than they hold", async () => {
    const admin = calling(here, await tokenOf(here, "admin"))
    const list = await expecting(200, admin("GET", `${base}/permissions`))
    assert.deepInclude(list.items.find((one) => one.permission === "permission:write"), {
      administrative: true,
      scope: null,
    })
    await makeRole(admin, "guard", ["camera:read"])
    const at = `${base}/roles/guard/permissions`
    const permissions = (body: Body) => body.permissions
    assert.deepStrictEqual(permissions(await expecting(200, admin("GET", at))), ["camera:read"])
    const added = await admin("POST", at, { permissions: ["camera:live", "camera:read"] })
    assert.deepStrictEqual(permissions(added.body), ["camera:read", "camera:live"])
    assert.strictEqual(added.headers.get("etag"), "\"2\"")
    const assign = (names: ReadonlyArray<string>, headers = {}) => admin("PUT", at, { permissions: names }, headers)
    assert.strictEqual(await code(412, assign([], { "if-match": "\"1\"" })), "version_conflict")
    assert.deepStrictEqual(permissions(await expecting(200, assign(["recording:read"]))), ["recording:read"])
    assert.deepStrictEqual(permissions(await expecting(200, admin("DELETE", at, { permissions: ["camera:read"] }))), [
      "recording:read",
    ])
    assert.strictEqual(await code(400, assign(["camera:fly"])), "bad_request")
    for (const method of ["POST", "PUT", "DELETE"]) {
      for (const [role, expected] of [["admin", 409], ["viewer", 409], ["nobody", 404]] as const) {
        const answer = admin(method, `${base}/roles/${role}/permissions`, { permissions: ["camera:read"] })
        assert.strictEqual(await code(expected, answer), expected === 409 ? "role_built_in" : "role_not_found")
      }
    }
    const everything = await expecting(200, admin("GET", `${base}/roles/admin/permissions`))
    assert.deepInclude(everything, { everything: true, builtIn: true })
    assert.strictEqual(await code(404, admin("GET", `${base}/roles/nobody/permissions`)), "role_not_found")

    await makeRole(admin, "keeper", ["permission:read", "permission:write", "camera:read"])
    await makeUser(admin, "kim", ["keeper"])
    const kim = calling(here, await tokenOf(here, "kim"))
    assert.strictEqual(await code(403, kim("POST", at, { permissions: ["user:write"] })), "forbidden")
    assert.strictEqual(
      await code(403, kim("POST", `${base}/roles/keeper/permissions`, { permissions: ["camera:write"] })),
      "forbidden",
    )
    await expecting(200, kim("POST", at, { permissions: ["camera:read"] }))
    await expecting(200, kim("DELETE", at, { permissions: ["recording:read"] }))
  })
})

describe("resource groups", () => {
  it("narrow what is seen, done, watched and searched, and say why", async () => {
    const admin = calling(here, await tokenOf(here, "admin"))
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
        admin("POST", "/record/api/v1/recordings", { channelId, mode: "continuous", enabled: true, retentionDays: 1 }),
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
      admin("POST", `${base}/resource-groups/${floor}/resources`, {
        resources: [{ kind: "camera", id: lobby.id }, { kind: "channel", id: second.id }],
      }),
    )
    await makeRole(admin, "lobby", viewing)
    const assigned = await expecting(200, admin("POST", `${base}/roles/lobby/resource-groups/${building}`))
    assert.deepInclude(assigned, { role: "lobby", allResources: false })
    await makeUser(admin, "vera", ["lobby"])
    const vera = calling(here, await tokenOf(here, "vera"))

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
      vera("POST", "/replay/api/v1/replay/uri", { recordingToken, start: new Date(Date.now() - 60_000).toISOString() })
    assert.strictEqual(await code(404, replay(outside.recordingToken)), "recording_not_found")
    const session = await expecting(201, replay(inside.recordingToken))
    await expecting(200, vera("GET", `/replay/api/v1/replay/session/${session.sessionId}`))
    await expecting(201, replay(half.recordingToken))
    await expecting(200, vera("GET", `/search/api/v1/recordings/${half.recordingToken}/timeline?${day}`))
    await expecting(200, vera("GET", `/camera/api/v1/streams/${stream(lobby)}/media-path`))

    // What was opened while it was allowed ends with the permission, though its URL needs no token.
    const media = async () => (await fetch(`${here.url}${session.uri}`)).status
    const granted = (method: string) =>
      admin(method, `${base}/resource-groups/${floor}/resources`, { resources: [{ kind: "camera", id: lobby.id }] })
    assert.notStrictEqual(await media(), 410)
    await expecting(200, granted("DELETE"))
    assert.strictEqual(await media(), 410)
    await expecting(200, granted("POST"))
    assert.notStrictEqual(await media(), 410)

    // Seen, but not allowed.
    await expecting(
      200,
      admin("POST", `${base}/roles/lobby/permissions`, { permissions: ["camera:write", "recording:write"] }),
    )
    await makeRole(admin, "watcher", ["camera:read"])
    await expecting(200, admin("PUT", `${base}/roles/watcher/resource-groups`, { groupIds: [] }))
    const yardOnly = await makeGroup(admin, "Yard only")
    await expecting(
      200,
      admin("POST", `${base}/resource-groups/${yardOnly}/resources`, { resources: [{ kind: "camera", id: yard.id }] }),
    )
    await expecting(200, admin("POST", `${base}/roles/watcher/resource-groups/${yardOnly}`))
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
    assert.strictEqual(await code(403, vera("PUT", "/camera/api/v1/cameras/reorder", { ids: [lobby.id] })), "forbidden")
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
    const check = (call: Call, body: unknown) => expecting(200, call("POST", `${base}/permissions/check`, body))
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
      await code(403, vera("POST", `${base}/permissions/check`, { ...live, username: "admin" })),
      "forbidden",
    )
    assert.strictEqual(
      await code(404, admin("POST", `${base}/permissions/check`, { ...live, username: "nobody" })),
      "user_not_found",
    )
    assert.strictEqual(await code(400, vera("POST", `${base}/permissions/check`, { items: [] })), "bad_request")

    const own = await expecting(200, vera("GET", `${base}/users/vera/resource-groups`))
    assert.strictEqual(own.allResources, false)
    assert.deepStrictEqual(own.items.map((group) => [group.name, group.via]), [["Building", ["lobby"]], [
      "Ground floor",
      ["lobby"],
    ], ["Yard only", ["watcher"]]])
    assert.strictEqual(await code(403, vera("GET", `${base}/users/admin/resource-groups`)), "forbidden")
    assert.isTrue((await expecting(200, admin("GET", `${base}/users/admin/resource-groups`))).allResources)
    assert.strictEqual(await code(404, admin("GET", `${base}/users/nobody/resource-groups`)), "user_not_found")
  })

  it("narrow a role until somebody says that they do not; built-in roles never", async () => {
    const admin = calling(here, await tokenOf(here, "admin"))
    await addCamera(admin, "Anything")
    await makeRole(admin, "narrow", ["camera:read"])
    await makeUser(admin, "nora", ["narrow"])
    const nora = calling(here, await tokenOf(here, "nora"))
    const count = async () => (await expecting(200, nora("GET", "/camera/api/v1/cameras"))).items.length
    const at = `${base}/roles/narrow/resource-groups`
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
    await expecting(204, admin("DELETE", `${base}/resource-groups/${empty}`))
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
      const path = `${base}/roles/${role}/resource-groups`
      assert.strictEqual(await code(status, admin("PUT", path, { groupIds: [] })), expected)
      assert.strictEqual(await code(status, admin("POST", `${path}/${other}`)), expected)
      assert.strictEqual(await code(status, admin("DELETE", `${path}/${other}`)), expected)
    }
    assert.strictEqual(await code(404, admin("GET", `${base}/roles/nobody/resource-groups`)), "role_not_found")
  })

  it("keep somebody whose own roles are narrowed from giving more", async () => {
    const admin = calling(here, await tokenOf(here, "admin"))
    const [mine, foreign] = [await addCamera(admin, "Mine"), await addCamera(admin, "Foreign")]
    const group = await makeGroup(admin, "Tenant")
    const add = (call: Call, id: string) =>
      call("POST", `${base}/resource-groups/${group}/resources`, { resources: [{ kind: "camera", id }] })
    await expecting(200, add(admin, mine.id))
    await makeRole(admin, "tenant", ["permission:read", "permission:write", "camera:read"])
    await expecting(200, admin("PUT", `${base}/roles/tenant/resource-groups`, { groupIds: [group] }))
    await makeUser(admin, "tess", ["tenant"])
    const tess = calling(here, await tokenOf(here, "tess"))
    assert.strictEqual(await code(403, add(tess, foreign.id)), "forbidden")
    await expecting(200, add(tess, mine.id))
    assert.strictEqual(
      await code(403, tess("PUT", `${base}/roles/tenant/resource-groups`, { groupIds: [], allResources: true })),
      "forbidden",
    )
    const wide = await makeGroup(admin, "Wide")
    await expecting(
      200,
      admin("POST", `${base}/resource-groups/${wide}/resources`, { resources: [{ kind: "camera", id: foreign.id }] }),
    )
    assert.strictEqual(await code(403, tess("POST", `${base}/roles/tenant/resource-groups/${wide}`)), "forbidden")
    assert.strictEqual(
      await code(403, tess("PUT", `${base}/resource-groups/${wide}`, { name: "Wide", parentId: group })),
      "forbidden",
    )
    // Whoever manages permissions and reaches no camera cannot open cameras to others, nor to himself by another role.
    await makeRole(admin, "clerk", ["permission:read", "permission:write"])
    await makeUser(admin, "carl", ["clerk", "tenant"])
    const carl = calling(here, await tokenOf(here, "carl"))
    assert.strictEqual(await code(403, add(carl, foreign.id)), "forbidden")
    const nest = (parentId: string) => carl("PUT", `${base}/resource-groups/${wide}`, { name: "Wide", parentId })
    assert.strictEqual(await code(403, nest(group)), "forbidden")
    await expecting(200, nest(await makeGroup(carl, "Nobody's")))
    // Refused means unchanged.
    const after = await expecting(200, admin("GET", `${base}/roles/tenant/resource-groups`))
    assert.deepStrictEqual(after.items.map((one) => one.id), [group])
  })
})

describe("a change of who may do what", () => {
  const soon = async (what: string, holds: () => Promise<boolean>) => {
    for (let tries = 0; tries < 200; tries++) {
      if (await holds()) return
      await new Promise((resolve) => setTimeout(resolve, 25))
    }
    assert.fail(`never came: ${what}`)
  }

  it("holds for the next request where it was made, and on the other node soon after", async () => {
    const admin = calling(here, await tokenOf(here, "admin"))
    const camera = await addCamera(admin, "Shared")
    const group = await makeGroup(admin, "Shared group")
    await makeRole(admin, "sharing", ["camera:read"])
    await expecting(200, admin("PUT", `${base}/roles/sharing/resource-groups`, { groupIds: [group] }))
    const user = await makeUser(admin, "sam", ["sharing"])
    // A user made here signs in there.
    const token = await tokenOf(there, "sam")
    const [near, far] = [calling(here, token), calling(there, token)]
    const path = `/camera/api/v1/cameras/${camera.id}`
    const members = `${base}/resource-groups/${group}/resources`
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
      () => admin("PUT", `${base}/roles/sharing/resource-groups`, { groupIds: [], allResources: true }),
      200,
    )
    await both(
      "a permission less",
      () => admin("DELETE", `${base}/roles/sharing/permissions`, { permissions: ["camera:read"] }),
      403,
    )
    await both("another role", () => admin("POST", `/auth/api/v1/users/${user.id}/roles/viewer`), 200)
    await both("that role less", () => admin("DELETE", `/auth/api/v1/users/${user.id}/roles/viewer`), 403)
    await both("switched off", () => admin("PUT", `/auth/api/v1/users/${user.id}`, { enabled: false }), 401)
  })

  it("is heard of by a notice, not only by the regular reading", () =>
    Effect.runPromise(Effect.scoped(Effect.gen(function*() {
      const node = Layer.build(
        trustLayer("1 hour").pipe(
          Layer.provide(Database.layerClient({ url, applicationName: "test", maxConnections: 2 })),
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
