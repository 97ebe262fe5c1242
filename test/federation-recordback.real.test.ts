/** Footage comes home: over two storages, with both nodes dying on the way. */
import { unite } from "#cluster/recordback-manifest.ts"
import { makeFragmentBuilder } from "#media/fmp4.ts"
import type { FileIdentity, Storage } from "#media/storage.ts"
import * as Database from "#ops/database.ts"
import { fragmentsOfFile } from "#schema/federation-recordback.ts"
import type { RecordBackProgress } from "#schema/federation.ts"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { execFile } from "node:child_process"
import { hash } from "node:crypto"
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { camera } from "./media/access-units.ts"
import { fragmentsFrom, identityOf, parameters } from "./media/made-up-files.ts"
import { everything, life, optionsIn, t0 } from "./media/storage-life.ts"
import { epochs, homeId, line, liveHome, liveServing, orderOf, servingId, stage } from "./recordback-stage.ts"

const run = promisify(execFile)
const reroute = "01934b3e-1000-7000-8000-000000000001"
const made = identityOf(1)
const seen = identityOf(2)
const ofServing = (identity: FileIdentity): FileIdentity => ({ ...identity, nodeId: servingId, epoch: epochs.away })
const ofHome = (identity: FileIdentity): FileIdentity => ({ ...identity, nodeId: homeId, epoch: epochs.before })

type Door = Storage["Service"]

/** A sealed file of fragments of a second, a MiB each unless their pictures have other `bytes`. */
const writeMade = (
  storage: Door,
  identity: FileIdentity,
  sequence: number,
  startMs: number,
  seconds: number,
  bytes = 100_000,
) =>
  Effect.gen(function*() {
    const writer = yield* storage.create(identity, parameters, { sequence, startMs })
    for (const fragment of fragmentsFrom(startMs, seconds, bytes)) {
      while (!writer.append({ ...fragment })) yield* Effect.sleep(10)
    }
    return yield* writer.seal
  })

/** What the simulated camera's pictures are, for a player to read. */
const writeSeen = (storage: Door, identity: FileIdentity, startMs: number) =>
  Effect.gen(function*() {
    const { parameters: tracks, units } = camera({ video: "sub-320x180-10.h264", seconds: 20, startMs })
    const writer = yield* storage.create(identity, tracks, { sequence: 0, startMs })
    const builder = makeFragmentBuilder({
      parameters: tracks,
      decodeTicks: 0,
      wallMs: (ticks) => startMs + ticks / 90,
      onFragment: (fragment) => assert.isTrue(writer.append(fragment)),
    })
    for (const unit of units) builder.push(unit)
    builder.flush()
    return yield* writer.seal
  })

/** Hash of each fragment, by its start. */
const fragmentsOf = (storage: Door, identity: FileIdentity, nodeId: string) =>
  Effect.gen(function*() {
    const found: Array<readonly [startMs: number, sha256: string]> = []
    for (const file of storage.files(identity.recordingId, everything)) {
      if (file.nodeId !== nodeId) continue
      const bytes = readFileSync(storage.path(file))
      for (const { bytes: length, offset, startMs } of yield* storage.index(file)) {
        found.push([startMs, hash("sha256", bytes.subarray(offset, offset + length))])
      }
    }
    return found.sort((a, b) => a[0] - b[0])
  })

const endOf = (backs: { readonly progressOf: (id: string) => Effect.Effect<RecordBackProgress | null, unknown> }) =>
  Effect.gen(function*() {
    const ended = new Set(["done", "partial", "failed"])
    for (let tries = 0; tries < 1200; tries++) {
      const progress = yield* Effect.orDie(backs.progressOf(reroute))
      if (progress !== null && ended.has(progress.state)) return progress
      yield* Effect.sleep(100)
    }
    return yield* Effect.die(new Error("it does not end"))
  })

describe("record-back", () => {
  it.live(
    "survives the death of either node, sends nothing twice but what was on its way, and keeps what the home node has",
    () =>
      Effect.gen(function*() {
        const { home, serving } = yield* stage
        const to = line()
        const recordings = [made, seen]
        // Ten to twenty seconds into the first file the home node recorded itself: a one-way cut.
        yield* life(optionsIn(home.root), (storage) => writeMade(storage, ofHome(made), 0, t0 + 10_000, 10))
        const before = yield* life(optionsIn(serving.root), (storage) =>
          Effect.gen(function*() {
            yield* writeMade(storage, ofServing(made), 0, t0, 40)
            yield* writeMade(storage, ofServing(made), 1, t0 + 40_000, 40)
            yield* writeMade(storage, ofServing(made), 2, t0 + 80_000, 20)
            yield* writeSeen(storage, ofServing(seen), t0)
            return {
              made: yield* fragmentsOf(storage, made, servingId),
              seen: yield* fragmentsOf(storage, seen, servingId),
            }
          }))

        const offline = { id: "gap", recordingId: made.recordingId, startMs: t0 + 100_000, endMs: t0 + 110_000 }
        serving.gaps = [{ ...offline, cause: "camera_offline", detail: "it does not answer" }]

        // First life of both: the serving node dies with segments on their way.
        yield* Effect.scoped(Effect.gen(function*() {
          yield* liveHome(to, home, serving, recordings)
          yield* Effect.scoped(Effect.gen(function*() {
            const stuck = yield* Deferred.make<void>()
            to.onSegment = () =>
              to.sent.length > 3 ? Effect.andThen(Deferred.succeed(stuck, undefined), Effect.never) : Effect.void
            const { backs } = yield* liveServing(to, serving, home, recordings)
            yield* backs.begin(orderOf(reroute))
            yield* backs.begin(orderOf(reroute))
            yield* Deferred.await(stuck)
            yield* Effect.sleep(200)
          }))
          // Second life: the home node dies under a segment.
        }))
        const afterServing = to.sent.length
        yield* Effect.scoped(Effect.gen(function*() {
          const died = yield* Deferred.make<void>()
          to.onSegment = () =>
            to.sent.length > afterServing + 2 ?
              Effect.andThen(Deferred.succeed(died, undefined), Effect.never) :
              Effect.void
          const { backs, jobs, storage } = yield* liveServing(to, serving, home, recordings)
          yield* Effect.scoped(Effect.andThen(liveHome(to, home, serving, recordings), Deferred.await(died)))
          to.onSegment = () => Effect.void
          assert.isAbove(storage.files(made.recordingId, everything).length, 0, "nothing goes before it is home")
          // The serving node's requests hang at the dead process: a pause lets go of them.
          assert.strictEqual((yield* jobs.pause(reroute)).state, "paused")
          assert.strictEqual((yield* Effect.flip(jobs.pause(reroute)))._tag, "RecordBackStateConflict")
          const { home: door, storage: disks } = yield* liveHome(to, home, serving, recordings)
          yield* jobs.resume(reroute)
          const ended = yield* endOf(backs)
          assert.deepInclude(ended, { state: "done", reason: "" })
          assert.strictEqual(storage.files(made.recordingId, everything).length, 0, "all of it is home and leaves here")
          assert.deepStrictEqual(serving.released.length, 4)
          assert.strictEqual((yield* jobs.list({ limit: 10, cursor: null })).items[0]?.id, reroute)

          // Every fragment that the home node had not, byte for byte, and hardly more.
          const after = yield* fragmentsOf(disks, made, servingId)
          const wanted = before.made.filter(([startMs]) => startMs < t0 + 10_000 || startMs >= t0 + 20_000)
          assert.deepStrictEqual(after, wanted)
          assert.deepStrictEqual(yield* fragmentsOf(disks, seen, servingId), before.seen)
          assert.deepStrictEqual(readdirSync(join(home.root, "main", "quarantine")), [])
          const files = disks.files(made.recordingId, everything)
          assert.deepStrictEqual([...new Set(files.map(({ nodeId, epoch }) => `${nodeId} ${epoch}`))].sort(), [
            `${homeId} ${epochs.before}`,
            `${servingId} ${epochs.away}`,
          ])
          assert.deepStrictEqual(
            home.adopted.map(({ id }) => id).sort(),
            [...files, ...disks.files(seen.recordingId, everything)].filter((file) => file.nodeId === servingId)
              .map(({ id }) => id).sort(),
          )
          // The gap ledger at home lets go of what came, and hears why the rest is missing.
          const covered = unite(
            home.amended.filter((one) => one.recordingId === made.recordingId).flatMap((one) => one.covered),
          )
          assert.deepStrictEqual(covered, [{ start: t0, end: t0 + 10_000 }, { start: t0 + 20_000, end: t0 + 100_000 }])
          assert.deepInclude(home.amended.flatMap((one) => one.explained), {
            start: t0 + 100_000,
            end: t0 + 110_000,
            cause: "camera_offline",
            detail: "n: it does not answer",
          })
          assert.deepStrictEqual(serving.told.filter((type) => type.startsWith("failover.recordback.")), [
            "failover.recordback.started",
            "failover.recordback.paused",
            "failover.recordback.resumed",
          ])
          // Twice only what was on its way when one of them died: three at a time, two deaths and a pause.
          const twice = to.sent.length - new Set(to.sent).size
          assert.isAtMost(twice, 9)
          const [playable] = disks.files(seen.recordingId, everything)
          const probed = yield* Effect.promise(() =>
            run("ffprobe", [
              "-v",
              "error",
              "-count_frames",
              "-show_entries",
              "stream=nb_read_frames",
              "-of",
              "csv=p=0",
              disks.path(playable!),
            ])
          )
          assert.deepStrictEqual([probed.stderr, probed.stdout.trim()], ["", "200"])
          assert.strictEqual(
            (yield* Effect.flip(door.take(servingId, {
              sessionId: reroute,
              recordingId: made.recordingId,
              epoch: 2,
              sequence: 0,
            }, Stream.empty)))._tag,
            "RecordBackSessionNotFound",
          )
        }))
        // What nobody waits for any more, or nobody has touched for a week, is let go; receipts are kept for a season.
        const at = (name: string) => join(home.root, "main", "quarantine", `${name}.part`)
        const [old, young, stray] = ["1", "2", "3"].map((n) => `01934b3e-9000-7000-8000-00000000000${n}`) as [
          string,
          string,
          string,
        ]
        for (const name of [old, young, stray]) writeFileSync(at(name), "a part")
        const kept = yield* Effect.scoped(Effect.gen(function*() {
          const sql = yield* SqlClient.SqlClient
          const rows = (file: string, sequence: number, state: string, days: number) =>
            sql`INSERT INTO recordback_incoming (serving_node_id, recording_id, epoch, sequence, reroute_id, source_file, file_id, at,
              bytes, sha256, front_sha256, state, updated_at)
              VALUES (${servingId}, ${made.recordingId}, 9, ${sequence}, ${reroute}, ${file}, ${file}, 0, 1, '', '', ${state},
              now() - ${days} * interval '1 day')`
          yield* rows(old, 1, "held", 8)
          yield* rows(old, 2, "wanted", 8)
          yield* rows(young, 3, "held", 8)
          yield* rows(young, 4, "wanted", 6)
          yield* rows(stray, 5, "stored", 91)
          yield* rows(stray, 6, "stored", 89)
          yield* liveHome(to, home, serving, recordings)
          return yield* sql<{ readonly sequence: string }>`
            SELECT sequence::text FROM recordback_incoming WHERE epoch = 9 ORDER BY sequence`
        })).pipe(
          Effect.provide(Database.layer({ url: home.url, applicationName: "test", maxConnections: 2 })),
          Effect.orDie,
        )
        assert.deepStrictEqual(kept.map(({ sequence }) => sequence), ["3", "4", "6"])
        assert.deepStrictEqual([old, young, stray].map((name) => existsSync(at(name))), [false, true, false])
        // What came home is found by a scan alone, whoever recorded it.
        yield* life(optionsIn(home.root), (storage) =>
          Effect.gen(function*() {
            const scanned = yield* storage.scan({ repair: false })
            assert.isTrue(scanned.every(({ file, tornBytes }) => file.sealed && tornBytes === 0))
            assert.deepStrictEqual(yield* fragmentsOf(storage, seen, servingId), before.seen)
          }))
      }).pipe(Effect.scoped),
    { timeout: 180_000 },
  )

  it.live(
    "knows what came home before by its name: after a death between disk and database, without its database, with another clock",
    () =>
      Effect.gen(function*() {
        const { home, serving } = yield* stage
        const to = line()
        const before = yield* life(optionsIn(serving.root), (storage) =>
          Effect.gen(function*() {
            for (const n of [0, 1, 2]) yield* writeMade(storage, ofServing(made), n, t0 + n * 20_000, 20, 1_000)
            return yield* fragmentsOf(storage, made, servingId)
          }))
        const query = <A>(use: (sql: SqlClient.SqlClient) => Effect.Effect<A, unknown>) =>
          Effect.flatMap(SqlClient.SqlClient, use).pipe(
            Effect.provide(Database.layer({ url: home.url, applicationName: "test", maxConnections: 2 })),
            Effect.orDie,
          )

        // Both die when the first file is among the recordings and in no database.
        const adopting = yield* Deferred.make<void>()
        home.adopting = Effect.andThen(Deferred.succeed(adopting, undefined), Effect.never)
        to.onSegment = ({ sequence }) => sequence < fragmentsOfFile ? Effect.void : Effect.never
        yield* Effect.scoped(Effect.gen(function*() {
          yield* liveHome(to, home, serving, [made])
          const { backs } = yield* liveServing(to, serving, home, [made])
          yield* backs.begin(orderOf(reroute))
          yield* Deferred.await(adopting)
        }))
        home.adopting = Effect.void
        to.onSegment = () => Effect.void
        assert.lengthOf(home.adopted, 0)

        // The home node stores it by itself: nobody has to ask.
        yield* Effect.scoped(Effect.gen(function*() {
          const { storage } = yield* liveHome(to, home, serving, [made])
          const isStored = query((sql) => sql`SELECT 1 FROM recordback_incoming WHERE state = 'stored'`)
          while ((yield* isStored).length === 0) yield* Effect.sleep(50)
          assert.deepStrictEqual(home.adopted, storage.files(made.recordingId, everything))
          assert.lengthOf(home.adopted, 1)
        }))
        const sent = to.sent.length

        // Of its database nothing is left, and its clock has been set back: by the clock it would have the next five seconds too.
        yield* query((sql) => sql`DELETE FROM recordback_incoming`)
        to.aheadMs = -5_000
        yield* Effect.scoped(Effect.gen(function*() {
          const { storage } = yield* liveHome(to, home, serving, [made])
          const { backs } = yield* liveServing(to, serving, home, [made])
          assert.deepInclude(yield* endOf(backs), { state: "done", reason: "" })
          assert.deepStrictEqual(yield* fragmentsOf(storage, made, servingId), before)
          assert.lengthOf(storage.files(made.recordingId, everything), 3)
          assert.deepStrictEqual(
            to.sent.slice(sent).sort(),
            [1, 2].map((n) => `${made.recordingId}/${n * fragmentsOfFile}`),
          )
        }))
      }).pipe(Effect.scoped),
    { timeout: 180_000 },
  )
})
