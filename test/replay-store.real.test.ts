/** The store of replay sessions on a real PostgreSQL: fence, limits, expiry, configuration. */
import { type ReplaySessionRow, ReplayStore } from "#actors/store/replay.ts"
import * as Database from "#ops/database.ts"
import { EmbeddedPostgres } from "#ops/host/postgres.ts"
import type { NodeId, UserId } from "#schema/common.ts"
import { slots } from "#schema/ownership.ts"
import { defaultReplayConfig } from "#schema/replay.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { postgresLayer } from "./harness/postgres.ts"
import { identityOf } from "./media/made-up-files.ts"

const t0 = Date.parse("2026-03-01T12:00:00.123Z")
const nodeId = "01934b3e-000e-7000-8000-000000000001" as NodeId
const userId = "01934b3e-000f-7000-8000-000000000001" as UserId
const slot = slots[7]!
const writer = { slot, epoch: 3 }
const { recordingId, recordingToken } = identityOf(1)

const row = (n: number, more: Partial<ReplaySessionRow> = {}): ReplaySessionRow => ({
  digest: String(n).padStart(43, "d"),
  slot,
  nodeId,
  recordingId,
  recordingToken,
  userId,
  loginSessionId: "01934b3e-0010-7000-8000-000000000001",
  start: t0,
  end: null,
  speed: 0.25,
  createdAt: t0 + n,
  expiresAt: t0 + 60_000,
  revokedAt: null,
  ...more,
})

const withStore = <A, E>(use: (store: ReplayStore["Service"]) => Effect.Effect<A, E, SqlClient.SqlClient>) =>
  Effect.gen(function*() {
    const folder = yield* Effect.acquireRelease(
      Effect.sync(() => mkdtempSync(join(tmpdir(), "nightjar-replay-"))),
      (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true })),
    )
    const postgres = Layer.effectContext(
      Layer.build(postgresLayer({ dataFolder: folder, copies: join(folder, "copies") })),
    )
    const database = Layer.unwrap(Effect.gen(function*() {
      const { url } = yield* EmbeddedPostgres
      return Database.layer({ url: yield* url, applicationName: "test", maxConnections: 4 })
    }))
    return yield* Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const now = new Date(t0)
      yield* sql`INSERT INTO node (node_id, slot, name, address, signing_key, transfer_key, created_at, started_at)
        VALUES (${nodeId}, ${slot}, 'n', 'a', 'k', 'k', ${now}, ${now})`
      yield* sql`INSERT INTO group_owner (slot, node_id, epoch, changed_at) VALUES (${slot}, ${nodeId}, 3, ${now})`
      return yield* use(yield* ReplayStore)
    }).pipe(Effect.provide(ReplayStore.layer.pipe(Layer.provideMerge(database), Layer.provide(postgres))))
  }).pipe(Effect.scoped)

describe("the store of replay sessions", () => {
  it.live("keeps what it was given, under the epoch in force only", () =>
    withStore((store) =>
      Effect.gen(function*() {
        yield* store.insert(writer, row(1, { end: t0 + 5 }), 10)
        assert.deepStrictEqual(yield* store.get(row(1).digest), row(1, { end: t0 + 5 }))
        assert.isNull(yield* store.get(row(2).digest))
        const stale = yield* Effect.flip(store.insert({ ...writer, epoch: 2 }, row(2), 10))
        assert.strictEqual(stale._tag, "StaleEpoch")
        assert.isNull(yield* store.get(row(2).digest))
        yield* store.revoke(writer, row(1).digest, t0 + 9)
        yield* store.revoke(writer, row(1).digest, t0 + 99)
        assert.strictEqual((yield* store.get(row(1).digest))?.revokedAt, t0 + 9, "the first revocation stands")

        for (const n of [2, 3, 4]) yield* store.insert(writer, row(n), 2)
        const active = yield* store.ofUser(userId, t0 + 10)
        assert.deepStrictEqual(active.map(({ digest }) => digest).toSorted(), [row(3).digest, row(4).digest])
        assert.deepStrictEqual(yield* store.ofUser(userId, t0 + 60_000), [])
        yield* store.prune(t0 + 60_000)
        assert.isNotNull(yield* store.get(row(4).digest))
        yield* store.prune(t0 + 60_001)
        assert.isNull(yield* store.get(row(4).digest))

        assert.deepStrictEqual(yield* store.config(), { ...defaultReplayConfig, version: 1 })
        const changed = { ...defaultReplayConfig, sessionSeconds: 600 }
        assert.deepStrictEqual(yield* store.saveConfig(changed, 1), { ...changed, version: 2 })
        assert.strictEqual((yield* Effect.flip(store.saveConfig(changed, 1)))._tag, "VersionConflict")
        assert.deepStrictEqual(yield* store.saveConfig({ ...changed, sessionsPerUser: 1 }, null), {
          ...changed,
          sessionsPerUser: 1,
          version: 3,
        })
        assert.strictEqual((yield* store.config()).version, 3)
        // Two at a time: neither overwrites the other unseen.
        const both = yield* Effect.all([1, 2].map(() => Effect.exit(store.saveConfig(changed, 3))), { concurrency: 2 })
        assert.strictEqual(both.filter((exit) => exit._tag === "Success").length, 1)
      })
    ))
})
