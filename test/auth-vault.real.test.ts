/** Renewing the master key over a real database: nothing is left under the old key, and no kill makes a secret unreadable. */
import { masterKeyLayer } from "#actors/behaviour/auth-vault.ts"
import { MasterKeyRenewal } from "#actors/protocol/auth-vault.ts"
import { sealedColumns } from "#actors/store/auth-vault.ts"
import * as Identity from "#cluster/identity.ts"
import * as Keys from "#cluster/keyring.ts"
import * as Vaults from "#cluster/vault.ts"
import * as Database from "#ops/database.ts"
import { keyIdOf, MasterKeys, NodeVault, SharedKeys, Vault } from "#schema/vault.ts"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { afterAll, assert, beforeAll, it } from "@effect/vitest"
import { Context, Effect, Layer, Logger, Redacted, Schedule, type Scope, Stream, SubscriptionRef } from "effect"
import { SqlClient } from "effect/sql"
import { type ChildProcess, spawn } from "node:child_process"
import { randomUUID } from "node:crypto"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { startPostgres } from "./harness/event-maker.ts"

const folder = mkdtempSync(join(tmpdir(), "nightjar-rekey-"))
const cameras = 250
let postgres: Awaited<ReturnType<typeof startPostgres>>
const running = new Set<ChildProcess>()

beforeAll(async () => {
  postgres = await startPostgres(folder)
}, 120_000)
afterAll(async () => {
  for (const one of running) one.kill("SIGKILL")
  await postgres.end()
  rmSync(folder, { recursive: true, force: true })
})

/** The node's vault as it stands on the disk, and the database. */
const opened = <A, E>(
  use: Effect.Effect<A, E, Vault | MasterKeys | SqlClient.SqlClient | Identity.NodeIdentity | Scope.Scope>,
) =>
  use.pipe(
    Effect.provide(Identity.layer({ dataFolder: folder })),
    Effect.provide(Vaults.layer({ dataFolder: folder, masterKey: null })),
    Effect.provide(Database.layer({ url: Redacted.make(postgres.url), applicationName: "test", maxConnections: 2 })),
    Effect.provide(NodeFileSystem.layer),
    Effect.scoped,
  )

const uuid = () => randomUUID().replace(/^(.{14})./, "$17")

/** A secret in every sealed column, and many cameras; answers what was sealed, by table and key. */
const fill = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const vault = yield* Vault
  const secrets = new Map<string, string>()
  const seal = Effect.fnUntraced(function*(table: string, key: string) {
    const column = sealedColumns.find((one) => one.table === table)!
    secrets.set(`${table} ${key}`, `secret of ${table} ${key}`)
    return yield* vault.seal(column.context(key), Redacted.make(`secret of ${table} ${key}`))
  })
  const now = new Date(0)
  const [user, rule, channel] = [uuid(), uuid(), uuid()]
  const ids = Array.from({ length: cameras }, uuid)
  for (const id of ids) {
    yield* sql`
      INSERT INTO camera (id, slot, home_node_id, name, description, driver, enabled, sealed_password, position, status, reason,
        created_at, updated_at, version)
      VALUES (${id}, 's', ${id}, ${id}, '', 'rtsp', true, ${yield* seal(
      "camera",
      id,
    )}, 0, 'registered', '', ${now}, ${now}, 1)`
  }
  const [camera = ""] = ids
  yield* sql`
    INSERT INTO camera_channel (id, camera_id, number, name, active, created_at, updated_at, version)
    VALUES (${channel}, ${camera}, 1, '', true, ${now}, ${now}, 1)`
  yield* sql`
    INSERT INTO camera_stream (id, camera_id, channel_id, role, source_url, transport, enabled, sealed_password, status, reason,
      created_at, updated_at, version)
    VALUES (${camera}, ${camera}, ${channel}, 'main', 'rtsp://x/', 'tcp', true, ${yield* seal("camera_stream", camera)},
      'registered', '', ${now}, ${now}, 1)`
  yield* sql`
    INSERT INTO auth_user (id, username, username_key, password_hash, created_at, password_changed_at)
    VALUES (${user}, 'ann', 'ann', '', ${now}, ${now})`
  yield* sql`
    INSERT INTO auth_second_factor (user_id, sealed_secret, created_at)
    VALUES (${user}, ${yield* seal("auth_second_factor", user)}, ${now})`
  yield* sql`
    INSERT INTO auth_signing_key (kid, public_x, sealed_private, created_at, signs_from, expires_at)
    VALUES ('kid', '', ${yield* seal("auth_signing_key", "kid")}, ${now}, ${now}, ${now})`
  const [node, peer] = [uuid(), uuid()]
  yield* sql`
    INSERT INTO node (node_id, slot, name, address, signing_key, transfer_key, created_at, started_at)
    VALUES (${node}, 'n00', 'n', 'a', 's', 't', ${now}, ${now})`
  yield* sql`
    INSERT INTO auth_peer (id, node_id, peer_id, name, address, signing_key, transfer_key, roles, media_read_enforcement,
      guardian_granted, sealed_token, token_expires_at, paired_at)
    VALUES (${peer}, ${node}, ${peer}, 'p', 'a', 's', 't', '{}', true, false, ${yield* seal(
    "auth_peer",
    peer,
  )}, ${now}, ${now})`
  yield* sql`
    INSERT INTO auth_smtp (host, port, security, sealed_password, from_address, allow_unverified, version)
    VALUES ('h', 1, 'tls', ${yield* seal("auth_smtp", "true")}, 'f', false, 1)`
  yield* sql`
    INSERT INTO camera_job (id, kind, node_id, created_at) VALUES (${camera}, 'bulk', ${camera}, ${now})`
  yield* sql`
    INSERT INTO camera_job_item (id, job_id, number, name, outcome, detail, camera_id, sealed_input)
    VALUES (${camera}, ${camera}, 0, 'n', 'waiting', '', ${camera}, ${yield* seal("camera_job_item", camera)})`
  const entry = `camera/${camera}/${uuid()}`
  yield* sql`
    INSERT INTO federation_journal (id, home_node_id, epoch, at, made_by, kind, thing_id, camera_id, sealed_after)
    VALUES (${entry}, ${node}, 1, ${now}, 'ann', 'camera', ${camera}, ${camera}, ${yield* seal(
    "federation_journal",
    entry,
  )})`
  yield* sql`
    INSERT INTO federation_conflict (id, node_id, guardian_node_id, kind, thing_id, camera_id, field, base, here, there,
      sealed_there, there_by, there_at, in_force)
    VALUES (${camera}, ${node}, ${node}, 'camera', ${camera}, ${camera}, 'password', 'false', 'false', 'true',
      ${yield* seal("federation_conflict", camera)}, 'ann', ${now}, 'there')`
  yield* sql`
    INSERT INTO license (id, sealed_key, high_water) VALUES (1, ${yield* seal("license", "1")}, ${now})
    ON CONFLICT (id) DO UPDATE SET sealed_key = excluded.sealed_key`
  yield* sql`
    INSERT INTO notification_rule SELECT (jsonb_populate_record(NULL::notification_rule, ${
    JSON.stringify({
      id: rule,
      name: "r",
      active: true,
      filter: {},
      types: [],
      cooldown_seconds: 0,
      recipients: {},
      channels: {},
      created_at: now,
      updated_at: now,
      version: 1,
    })
  }::jsonb)).*`
  yield* sql`
    INSERT INTO notification_webhook (id, rule_id, url, sealed_secret, node_id)
    VALUES (${camera}, ${rule}, 'u', ${yield* seal("notification_webhook", camera)}, ${camera})`
  yield* sql`
    INSERT INTO notification_push_key (node_id, public_key, sealed_private, created_at)
    VALUES (${camera}, '', ${yield* seal("notification_push_key", camera)}, ${now})`
  yield* sql`
    INSERT INTO notification_push (id, user_id, endpoint_hash, service, sealed, node_id, user_agent, created_at)
    VALUES (${camera}, ${user}, ${new Uint8Array(32)}, '', ${yield* seal(
    "notification_push",
    camera,
  )}, ${camera}, '', ${now})`
  return secrets
})

/** Opens everything; answers under which keys it is sealed. */
const readAll = Effect.fnUntraced(function*(secrets: ReadonlyMap<string, string>) {
  const sql = yield* SqlClient.SqlClient
  const vault = yield* Vault
  const under = new Set<string | null>()
  let read = 0
  for (const { column, context, key, table } of sealedColumns) {
    const rows = yield* sql<{ readonly key: string; readonly sealed: string }>`
      SELECT ${sql(key)}::text AS key, ${sql(column)} AS sealed FROM ${sql(table)} WHERE ${sql(column)} IS NOT NULL`
    for (const row of rows) {
      const secret = Redacted.value(yield* vault.open(context(row.key), row.sealed))
      assert.strictEqual(secret, secrets.get(`${table} ${row.key}`))
      under.add(keyIdOf(row.sealed))
      read += 1
    }
  }
  assert.strictEqual(read, secrets.size)
  // Built before this ran: it opened too.
  yield* Identity.NodeIdentity
  return under
})

const untilSettled = Effect.gen(function*() {
  const renewal = yield* MasterKeyRenewal
  while ((yield* renewal.state()).state !== "settled") yield* Effect.sleep("20 millis")
})

/** Runs the process, kills it `afterMs` after it was up, and answers what it said. */
const runAndKill = (afterMs: number) =>
  Effect.promise(() =>
    new Promise<string>((resolve, reject) => {
      const child = spawn(
        process.execPath,
        [join(import.meta.dirname, "harness", "key-node.ts"), folder, postgres.url],
        { stdio: ["ignore", "pipe", "pipe"] },
      )
      running.add(child)
      let text = ""
      let told = ""
      child.stderr.on("data", (chunk: Buffer) => (told += chunk.toString()))
      child.stdout.on("data", (chunk: Buffer) => {
        if (text === "") setTimeout(() => child.kill("SIGKILL"), afterMs)
        text += chunk.toString()
      })
      child.once("close", (_code, signal) => {
        running.delete(child)
        if (signal === "SIGKILL") resolve(text)
        else reject(new Error(`it ended by itself: ${told}`))
      })
    })
  )

it.live("a renewal leaves nothing under the old key, whatever moment it is killed at", () =>
  Effect.gen(function*() {
    const secrets = yield* opened(fill)
    assert.deepStrictEqual(
      [...new Set([...secrets.keys()].map((key) => key.split(" ")[0] ?? ""))].toSorted(),
      [...new Set(sealedColumns.map(({ table }) => table))].toSorted(),
    )

    // Whole: from one key to the next.
    const keys = yield* opened(Effect.flatMap(MasterKeys, ({ ids }) => ids))
    yield* opened(
      Effect.gen(function*() {
        const sealed = yield* Identity.sealedIdentity(folder)
        const options = Effect.succeed({ files: [sealed], settle: "50 millis" as const })
        const renewal = Context.get(yield* Layer.build(masterKeyLayer(options)), MasterKeyRenewal)
        const begun = yield* renewal.rotate()
        assert.deepStrictEqual([begun.state, begun.olderKeyIds], ["resealing", [keys.sealing]])
        yield* Effect.provideService(untilSettled, MasterKeyRenewal, renewal)
        assert.deepStrictEqual([...(yield* readAll(secrets))], [begun.keyId])
        assert.deepStrictEqual([...(yield* sealed.keys)], [begun.keyId])
        const { older, sealing } = yield* Effect.flatMap(MasterKeys, ({ ids }) => ids)
        assert.deepStrictEqual([sealing, [...older]], [begun.keyId, []])
      }).pipe(Effect.provide(NodeFileSystem.layer)),
    )

    // Killed at moments that no one chose; the seed makes them the same each time.
    let seed = 20_261_121
    let rotations = 0
    // A slow machine gets longer lives, so that it rotates at all.
    for (let kill = 0; kill < 8 || (rotations < 2 && kill < 40); kill++) {
      seed = (seed * 1_103_515_245 + 12_345) & 0x7fff_ffff
      rotations += ((yield* runAndKill(seed % (700 + 100 * kill))).match(/settled/g) ?? []).length
      const under = yield* opened(readAll(secrets))
      const { older, sealing } = yield* opened(Effect.flatMap(MasterKeys, ({ ids }) => ids))
      for (const id of under) assert.include([sealing, ...older], id)
    }
    assert.isAtLeast(rotations, 2)

    // The next start ends what the last kill left.
    const left = yield* opened(
      Effect.gen(function*() {
        const options = Effect.map(
          Identity.sealedIdentity(folder),
          (file) => ({ files: [file], settle: "50 millis" as const }),
        )
        const renewal = Context.get(yield* Layer.build(masterKeyLayer(options)), MasterKeyRenewal)
        yield* Effect.provideService(untilSettled, MasterKeyRenewal, renewal)
        const { older, sealing } = yield* Effect.flatMap(MasterKeys, ({ ids }) => ids)
        return { older, same: [...(yield* readAll(secrets))].every((id) => id === sealing) }
      }).pipe(Effect.provide(NodeFileSystem.layer)),
    )
    assert.deepStrictEqual(left, { older: [], same: true })

    // A member of a cluster seals for all of it; what it signs tokens with stays its own.
    yield* opened(Effect.gen(function*() {
      const own = yield* Vault
      const held = { clusterId: uuid(), keys: [Keys.firstKey()] as const, current: true }
      const keyring = yield* SubscriptionRef.make<Keys.Held | null>(held)
      const common = Keys.sharedVault(own, keyring)
      const shared = Layer.mergeAll(
        Layer.succeed(Vault, common),
        Layer.succeed(NodeVault, own),
        Layer.succeed(SharedKeys, Stream.map(SubscriptionRef.changes(keyring), Keys.idsOf)),
      )
      yield* Layer.build(
        masterKeyLayer(Effect.succeed({ files: [], settle: "50 millis" as const })).pipe(Layer.provide(shared)),
      )
      const ids = Effect.provideService(readAll(secrets), Vault, common)
      const { sealing } = yield* Effect.flatMap(MasterKeys, (keys) => keys.ids)
      const wanted = [Keys.idOf(held.keys[0]), sealing]
      const sql = yield* SqlClient.SqlClient
      yield* Effect.repeat(
        sql<{ readonly n: number }>`
          SELECT count(*)::int AS n FROM camera WHERE split_part(sealed_password, '.', 2) = ${sealing}`,
        { until: ([row]) => row?.n === 0, schedule: Schedule.spaced("100 millis") },
      ).pipe(Effect.timeout("60 seconds"))
      yield* Effect.repeat(ids, {
        until: (all) => all.size === 2 && wanted.every((id) => all.has(id)),
        schedule: Schedule.spaced("100 millis"),
      }).pipe(Effect.timeout("60 seconds"))
      const [key] = yield* sql<{ readonly sealed: string }>`SELECT sealed_private AS sealed FROM auth_signing_key`
      assert.strictEqual(keyIdOf(key!.sealed), sealing)
      // One more key: what stood under the one before comes under it.
      const next = { ...held, keys: Keys.withNext(held) }
      assert.isTrue(Keys.succeeds(held, next.keys))
      yield* SubscriptionRef.set(keyring, next)
      const later = [Keys.idOf(next.keys[0]), sealing]
      yield* Effect.repeat(ids, {
        until: (all) => all.size === 2 && later.every((id) => all.has(id)),
        schedule: Schedule.spaced("100 millis"),
      }).pipe(Effect.timeout("60 seconds"))
    }))
  }).pipe(Effect.provide(Logger.layer([]))), 240_000)
