/** The audit log on a real PostgreSQL: the way into the chain over kills, tampering of every kind, retention, questions. */
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import { Effect, Exit, Logger, type Redacted, Scope, Stream } from "effect"
import { spawn } from "node:child_process"
import { createHash } from "node:crypto"
import { readFileSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { auditNode, auditPostgres, emptied, fill, madeUpFact, settled, temporary } from "./harness/audit-node.ts"
import { canonicalJson, keepOriginal, tampered, tamperings } from "./harness/audit-tamper.ts"

const shared = Scope.makeUnsafe()
let server: Redacted.Redacted
beforeAll(async () => {
  server = await Effect.runPromise(auditPostgres.pipe(Scope.provide(shared), Effect.provide(Logger.layer([]))))
})
afterAll(() => Effect.runPromise(Scope.close(shared, Exit.void)))

const live = (name: string, run: Effect.Effect<void, unknown, Scope.Scope>) =>
  it.live(name, () => run.pipe(Effect.scoped, Effect.provide(Logger.layer([]))))
/** A node with an empty database. */
const nodeIn = (folder: string) =>
  Effect.flatMap(Effect.suspend(() => emptied(server)), (url) => auditNode(url, folder))

const everything = { limit: 500, cursor: null }

/** Lets a process record into the queue of `folder`, kills it after `lines` answers; the answers. */
const recordAndKill = (folder: string, lines: number) =>
  Effect.promise(async () => {
    const writer = spawn(process.execPath, [join(import.meta.dirname, "harness/audit-writer.ts"), folder], {
      stdio: ["ignore", "pipe", "inherit"],
    })
    const gone = new Promise((resolve) => writer.once("exit", resolve))
    const told: Array<string> = []
    for await (const line of createInterface({ input: writer.stdout })) {
      told.push(line)
      if (told.length >= lines) writer.kill("SIGKILL")
    }
    await gone
    return told
  })

describe("the audit log", () => {
  live(
    "loses nothing that was told as recorded when the node is killed without a database, and doubles nothing",
    Effect.gen(function*() {
      const folder = yield* temporary
      const told = yield* recordAndKill(folder, 150)
      told.push(...(yield* recordAndKill(folder, 90)).map((line) => `${line} again`))
      const node = yield* nodeIn(folder)
      yield* settled(node)
      const rows = yield* node.sql<{ readonly trace: string; readonly outcome: string; readonly detail: string }>`
        SELECT trace_id AS trace, outcome, detail FROM auth_audit`
      // The second process begins its numbers anew.
      for (const name of new Set(told.map((line) => line.replace(" again", "")))) {
        const count = told.filter((line) => line.replace(" again", "") === name).length
        const found = rows.filter((row) => row.trace === name)
        assert.isAtLeast(found.length, count, name)
        assert.isAtMost(found.length, 2, name)
        if (name.startsWith("open-")) {
          assert.deepStrictEqual(new Set(found.map((row) => row.outcome)), new Set(["failure"]))
          assert.include(found[0]!.detail, "interrupted")
        }
      }
      assert.isTrue(told.some((line) => line.startsWith("open-")))
      // A batch whose answer was lost comes again: the chain has it already.
      const [before] = yield* node.sql`SELECT count(*)::int AS count FROM auth_audit`
      const again = yield* node.trail.queue.read(0, 500)
      assert.strictEqual(again.length, 0, "the queue is empty")
      assert.strictEqual((yield* node.log.verify({ from: null, to: null })).checked, before!["count"])
    }),
  )

  live(
    "finds the first bad entry after every kind of tampering, and none where there was none",
    Effect.gen(function*() {
      const node = yield* nodeIn(yield* temporary)
      yield* fill(node, 400)
      const last = yield* settled(node)
      assert.strictEqual(last, 400)
      const clean = yield* node.log.verify({ from: null, to: null })
      assert.deepStrictEqual([clean.intact, clean.complete, clean.checked, clean.fault], [true, true, 400, null])
      assert.strictEqual(statSync(node.headsPath).mode & 0o777, 0o600)
      yield* keepOriginal(node.sql)
      for (const way of tamperings) {
        for (let some = 0; some < (way === "edit of a column" ? 19 : 2); some++) {
          const at = { k: 7 + ((some * 89) % 390), last, some }
          yield* tampered(node.sql, way, at, (firstBad) =>
            Effect.map(node.log.verify({ from: null, to: null }), (found) => {
              assert.isFalse(found.intact, `${way} at ${at.k} (${some})`)
              assert.strictEqual(found.fault?.sequence, firstBad, `${way} at ${at.k} (${some}): ${found.fault?.reason}`)
            }))
        }
      }
      const again = yield* node.log.verify({ from: null, to: null })
      assert.deepStrictEqual([again.intact, again.checked], [true, 400])

      // What was truncated and grown again is another log than the one that was signed.
      yield* node.sql`DELETE FROM auth_audit WHERE sequence > 390`
      yield* node.sql`
        UPDATE auth_audit_head SET (sequence, hash) = (SELECT sequence, hash FROM auth_audit WHERE sequence = 390)`
      yield* Effect.all(
        Array.from({ length: 20 }, (_, n) => node.trail.record(madeUpFact(n))),
        {
          concurrency: "unbounded",
        },
      )
      while (node.trail.state().queuedBytes > 0) {
        yield* Effect.sleep("20 millis")
      }
      const rewritten = yield* node.log.verify({ from: null, to: null })
      assert.strictEqual(rewritten.fault?.reason, "rewritten")
      assert.isAtMost(rewritten.fault!.sequence, 391)

      // A head that was changed on the disk vouches for nothing.
      const lines = readFileSync(node.headsPath, "utf8")
      writeFileSync(node.headsPath, lines.replaceAll(/.\.([\w-]{10})/g, "A.$1"))
      const unsigned = yield* node.log.verify({ from: null, to: null })
      assert.deepStrictEqual([unsigned.fault?.reason, unsigned.signedHeads], ["headSignature", 0])
    }),
  )

  live(
    "answers lists, exports, counts and claims; retention takes the old end and leaves a chain that still holds",
    Effect.gen(function*() {
      const node = yield* nodeIn(yield* temporary)
      yield* fill(node, 1500)
      const { log, sql } = node

      const first = yield* log.list({ action: "camera." }, { limit: 10, cursor: null })
      const second = yield* log.list({ action: "camera." }, { limit: 10, cursor: first.nextCursor })
      const sequences = [...first.items, ...second.items].map((entry) => entry.sequence)
      assert.deepStrictEqual(sequences, sequences.toSorted((a, b) => b - a))
      assert.strictEqual(new Set(sequences).size, 20)
      assert.isTrue([...first.items, ...second.items].every((entry) => entry.action.startsWith("camera.")))
      const some = (yield* log.list({ outcome: "refused", user: "user-7" }, everything)).items
      assert.isNotEmpty(some)
      assert.isTrue(some.every((entry) => entry.outcome === "refused" && entry.actor.id === "user-7"))
      const about = (yield* log.list({ resource: "camera:camera-47" }, everything)).items
      assert.isNotEmpty(about)
      assert.isTrue(about.every((entry) => entry.resource?.id === "camera-47"))
      assert.isEmpty((yield* log.list({ text: "100%_" }, everything)).items)
      assert.isNotEmpty((yield* log.list({ text: "ZOË 3" }, everything)).items)
      assert.strictEqual((yield* log.get(first.items[0]!.id)).id, first.items[0]!.id)
      assert.strictEqual(
        (yield* Effect.flip(log.get("0190163d-8694-7395-8ad4-5b8a3f3d0a01")))._tag,
        "AuditEntryNotFound",
      )

      // Anybody can follow an export with nothing but SHA-256 and RFC 8785.
      const pages = yield* Stream.runCollect(yield* log.export({}))
      let previous = "0".repeat(64)
      for (const [i, { hash, ...entry }] of pages.flat().entries()) {
        assert.strictEqual(entry.sequence, i + 1)
        assert.strictEqual(entry.previousHash, previous)
        const shown = { ...entry, time: new Date(entry.time).toISOString() }
        assert.strictEqual(createHash("sha256").update(canonicalJson(shown)).digest("hex"), hash)
        previous = hash
      }

      const stats = yield* log.stats({ start: null, end: null, timeZone: "Pacific/Auckland" })
      assert.strictEqual(stats.days.reduce((sum, day) => sum + day.total, 0), 1500)
      const refused = pages.flat().filter((entry) => entry.outcome === "refused").length
      assert.strictEqual(stats.days.reduce((sum, day) => sum + day.outcomes.refused, 0), refused)
      for (const wrong of [{ timeZone: "Mars/Olympus" }, { timeZone: "UTC", start: 2, end: 1 }]) {
        const error = yield* Effect.flip(log.stats({ start: null, end: null, ...wrong }))
        assert.strictEqual(error._tag, "InvalidInput")
      }

      const actor = { kind: "user", id: "u", name: "Ann", sessionId: "s" } as const
      const who = { actor, address: "192.0.2.1", userAgent: "", traceId: null }
      const claim = yield* log.claim({ action: "door.opened", detail: { actor: "somebody else" } }, who)
      assert.deepStrictEqual([claim.action, claim.origin, claim.actor], ["claim.door.opened", "claim", actor])

      const settings = yield* log.settings()
      const changed = yield* log.updateSettings(
        { ...settings, retentionDays: 30, recordViews: false },
        settings.version,
      )
      assert.isFalse(node.trail.records("view", "success"))
      assert.isTrue(node.trail.records("change", "success"))
      assert.strictEqual((yield* Effect.flip(log.updateSettings(changed, settings.version)))._tag, "VersionConflict")

      // What is older than the thousandth entry goes.
      const last = yield* settled(node)
      const [border] = yield* sql<{ readonly ms: number }>`
        SELECT time_ms::float8 AS ms FROM auth_audit WHERE sequence = 1000`
      const gone = yield* node.shorten(border!.ms)
      assert.isAbove(gone, 0)
      const whole = yield* log.verify({ from: null, to: null })
      assert.deepStrictEqual([whole.intact, whole.from, whole.checked], [true, gone + 1, last - gone])
      yield* sql`DELETE FROM auth_audit WHERE sequence = ${gone + 1}`
      assert.deepStrictEqual((yield* log.verify({ from: null, to: null })).fault?.sequence, gone + 1)
    }),
  )
})
