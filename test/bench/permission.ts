/**
 * What a decision costs: 10,000 cameras, 200 resource groups that nest, 50 roles, on a real PostgreSQL.
 *
 *   npm run bench:permission -- [--checks 200000] [--json FILE]
 *
 * How it is measured
 * 1. A check is `decide` about a recording, its channel and its camera, of a user with 1, 5 and 50 narrowed roles, each time for
 *    another camera; CPU is user and system time of this process (`process.cpuUsage`).
 * 2. A list is a page of 100 cameras of the store, filtered by what such a user reaches; its statements are counted by the spans
 *    that the SQL client makes of each.
 * 3. What a node does after a change is read again and computed again, measured from the version to the sets.
 *
 * Exits with 1 where a check takes 50 µs or more, or a list more than three statements.
 */
import * as RoleReaches from "#actors/behaviour/permission-reach.ts"
import { RoleReach } from "#actors/protocol/permission.ts"
import { CameraStore } from "#actors/store/camera.ts"
import * as Database from "#ops/database.ts"
import { EmbeddedPostgres, layer as postgresLayer } from "#ops/host/postgres.ts"
import { UserId } from "#schema/common.ts"
import { decide, type Grant, reach, type ResourceRef, type UserPrincipal } from "#schema/permission.ts"
import { Context, Effect, Layer, Logger, Tracer } from "effect"
import { SqlClient } from "effect/sql"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { parseArgs } from "node:util"

const { values } = parseArgs({ options: { checks: { type: "string", default: "200000" }, json: { type: "string" } } })
const checks = Number(values.checks)

const size = { cameras: 10_000, groups: 200, roles: 50, groupsOfRole: 8, groupsOfCamera: 2 } as const
const limits = { checkMicroseconds: 50, statements: 3 } as const

const id = (kind: number, n: number) => `0190163d-8694-7${kind}00-8000-${n.toString(16).padStart(12, "0")}`
const cameraId = (n: number) => id(1, n)
const channelId = (n: number) => id(2, n)

/** Groups form trees of four children a node; a camera is in two groups; a role has eight groups. */
const fill = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const numbers = (count: number) => sql`generate_series(0, ${count - 1}::int) AS n`
  const made = (kind: number, n: string) =>
    sql.literal(`('0190163d-8694-7${kind}00-8000-' || lpad(to_hex(${n}), 12, '0'))::uuid`)
  yield* sql`
    INSERT INTO camera (id, slot, home_node_id, name, description, driver, enabled, position, status, reason, created_at,
      updated_at, version)
    SELECT ${made(1, "n")}, 'n00', ${made(9, "0")}, 'Camera ' || n, '', 'rtsp', true, n, 'online', '', now(), now(), 1
    FROM ${numbers(size.cameras)}`
  yield* sql`
    INSERT INTO camera_channel (id, camera_id, number, name, active, created_at, updated_at, version)
    SELECT ${made(2, "n")}, ${made(1, "n")}, 1, 'Channel', true, now(), now(), 1 FROM ${numbers(size.cameras)}`
  yield* sql`
    INSERT INTO camera_stream (id, camera_id, channel_id, role, source_url, transport, enabled, status, reason, created_at,
      updated_at, version)
    SELECT ${made(3, "n")}, ${made(1, "n")}, ${
    made(2, "n")
  }, 'main', 'rtsp://camera.example/' || n, 'tcp', true, 'online', '',
      now(), now(), 1 FROM ${numbers(size.cameras)}`
  yield* sql`
    INSERT INTO permission_group (id, parent_id, name, name_key, description, created_at, updated_at, version)
    SELECT ${made(4, "n")}, CASE WHEN n < 8 THEN NULL ELSE ${
    made(4, "n / 4 - 1")
  } END, 'Group ' || n, 'group ' || n, '',
      now(), now(), 1 FROM ${numbers(size.groups)} ORDER BY n`
  for (let copy = 0; copy < size.groupsOfCamera; copy++) {
    yield* sql`
      INSERT INTO permission_member (group_id, kind, resource_id, added_at)
      SELECT ${made(4, `(n * 7 + ${copy * 61}) % ${size.groups}`)}, 'camera', ${made(1, "n")}::text, now()
      FROM ${numbers(size.cameras)} ON CONFLICT DO NOTHING`
  }
  yield* sql`
    INSERT INTO auth_role (name, description, built_in, permissions)
    SELECT 'role ' || n, '', false, ARRAY['camera:read', 'camera:live', 'recording:read', 'recording:replay']
    FROM ${numbers(size.roles)}`
  yield* sql`
    INSERT INTO permission_role (role, all_resources, version)
    SELECT 'role ' || n, false, 1 FROM ${numbers(size.roles)}`
  yield* sql`
    INSERT INTO permission_role_group (role, group_id)
    SELECT 'role ' || n, ${made(4, `(n * 13 + k * 29) % ${size.groups}`)}
    FROM ${numbers(size.roles)}, generate_series(0, ${size.groupsOfRole - 1}::int) AS k ON CONFLICT DO NOTHING`
  yield* sql`ANALYZE`
})

const micros = <A>(work: () => A): readonly [number, A] => {
  const before = process.cpuUsage()
  const answer = work()
  const used = process.cpuUsage(before)
  return [used.user + used.system, answer]
}

const userOf = (grants: ReadonlyArray<Grant>): UserPrincipal => ({
  kind: "user",
  userId: UserId.make("0190163d-8694-7395-8ad4-5b8a3f3d0a01"),
  username: "bench",
  sessionId: "0190163d-8694-7395-8ad4-5b8a3f3d0a02",
  grants,
})

const thing = (n: number): ReadonlyArray<ResourceRef> => [
  { kind: "recording", id: id(5, n) },
  { kind: "channel", id: channelId(n) },
  { kind: "camera", id: cameraId(n) },
]

const counting = () => {
  let statements = 0
  const tracer = Tracer.make({
    span: (options) => {
      if (options.kind === "client") statements += 1
      return new Tracer.NativeSpan(options)
    },
  })
  return { tracer, statements: () => statements }
}

const measure = (grants: ReadonlyArray<Grant>, count: number) =>
  Effect.gen(function*() {
    const user = userOf(grants.slice(0, count))
    const things = Array.from({ length: size.cameras }, (_, n) => thing(n))
    const ask = (times: number) => {
      let allowed = 0
      for (let n = 0; n < times; n++) {
        if (decide(user, "recording:replay", things[(n * 31) % size.cameras]).allowed) allowed += 1
      }
      return allowed
    }
    ask(checks / 10)
    const [used, allowed] = micros(() => ask(checks))
    const [united, within] = micros(() => reach(user, "camera:read"))
    const store = yield* CameraStore
    const { statements, tracer } = counting()
    yield* store.list({}, 101, null, within)
    const began = process.hrtime.bigint()
    const page = yield* Effect.withTracer(store.list({}, 101, null, within), tracer)
    const listMs = Number(process.hrtime.bigint() - began) / 1e6
    return {
      roles: count,
      checkMicroseconds: used / checks,
      allowedShare: allowed / checks,
      reachedCameras: within === "all" ? size.cameras : within.camera.size,
      reachMs: united / 1000,
      listStatements: statements(),
      listItems: page.length,
      listMs,
    }
  })

const program = (url: Parameters<typeof Database.layer>[0]["url"]) =>
  Effect.gen(function*() {
    yield* fill
    const source = yield* RoleReach
    const sql = yield* SqlClient.SqlClient
    const timed = Effect.gen(function*() {
      const before = process.cpuUsage()
      const began = process.hrtime.bigint()
      const read = yield* source.read
      const used = process.cpuUsage(before)
      return { read, cpuMs: (used.user + used.system) / 1000, ms: Number(process.hrtime.bigint() - began) / 1e6 }
    })
    yield* timed
    const unchanged = yield* timed
    yield* sql`UPDATE permission_group SET version = version + 1 WHERE id = ${id(4, 0)}`
    const changed = yield* timed
    const grants = [...changed.read].map(([role, resources]): Grant => ({
      role,
      permissions: ["camera:read", "camera:live", "recording:read", "recording:replay"],
      resources,
    }))
    const results = yield* Effect.forEach([1, 5, size.roles], (count) => measure(grants, count))
    return {
      size,
      checks,
      rereadMs: changed.ms,
      rereadCpuMs: changed.cpuMs,
      unchangedMs: unchanged.ms,
      unchangedCpuMs: unchanged.cpuMs,
      results,
    }
  }).pipe(
    Effect.provide(
      Layer.mergeAll(RoleReaches.layer, CameraStore.layer).pipe(
        Layer.provideMerge(Database.layer({ url, applicationName: "bench", maxConnections: 4 })),
      ),
    ),
  )

const folder = mkdtempSync(join(tmpdir(), "nightjar-bench-permission-"))
const report = await Effect.runPromise(
  Effect.scoped(Effect.gen(function*() {
    const postgres = yield* Layer.build(postgresLayer({ dataFolder: folder, copies: join(folder, "copies") }))
    return yield* program(yield* Context.get(postgres, EmbeddedPostgres).url)
  })).pipe(Effect.provide(Logger.layer([]))),
).finally(() => rmSync(folder, { recursive: true, force: true }))

const print = (line: string) => process.stdout.write(`${line}\n`)
print(`${size.cameras} cameras, ${size.groups} groups, ${size.roles} roles; ${checks} checks each`)
print(
  `read again after a change: ${report.rereadMs.toFixed(1)} ms (${
    report.rereadCpuMs.toFixed(1)
  } ms CPU of the node); ` +
    `unchanged: ${report.unchangedMs.toFixed(1)} ms`,
)
print("roles  µs/check  allowed  cameras reached  reach ms  statements/list  list ms")
for (const one of report.results) {
  print([
    String(one.roles).padEnd(6),
    one.checkMicroseconds.toFixed(2).padEnd(9),
    one.allowedShare.toFixed(2).padEnd(8),
    String(one.reachedCameras).padEnd(16),
    one.reachMs.toFixed(1).padEnd(9),
    String(one.listStatements).padEnd(16),
    one.listMs.toFixed(1),
  ].join(" "))
}
if (values.json !== undefined) writeFileSync(values.json, JSON.stringify(report, null, 2))
const missed = report.results.filter((one) =>
  one.checkMicroseconds >= limits.checkMicroseconds || one.listStatements > limits.statements ||
  one.listStatements === 0
)
process.exitCode = missed.length > 0 ? 1 : 0
