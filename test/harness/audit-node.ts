/** A real PostgreSQL with the audit log of one node on it, for tests and proofs; no HTTP. */
import { auditSeal } from "#actors/behaviour/auth-audit-chain.ts"
import { auditTrailLayer } from "#actors/behaviour/auth-audit-trail.ts"
import { anchorText } from "#actors/behaviour/auth-audit-verify.ts"
import { auditLogLayer } from "#actors/behaviour/auth-audit.ts"
import { AuditLog, AuditTrail } from "#actors/protocol/auth-audit.ts"
import { AuditChainStore } from "#actors/store/auth-audit-chain.ts"
import * as Identity from "#cluster/identity.ts"
import * as Vaults from "#cluster/vault.ts"
import * as Database from "#ops/database.ts"
import { EmbeddedPostgres } from "#ops/host/postgres.ts"
import type { AuditFact } from "#schema/auth-audit.ts"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { Context, Effect, Layer, type Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { postgresLayer } from "./postgres.ts"

export const temporary = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "nightjar-audit-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true })),
)

/** A server of its own; ends with the scope. */
export const auditPostgres = Effect.gen(function*() {
  const data = yield* temporary
  const postgres = yield* Layer.build(postgresLayer({ dataFolder: data, copies: join(data, "copies") }))
  return yield* Context.get(postgres, EmbeddedPostgres).url
})

/** A database with an empty log: one server serves the tests of a file one after the other. */
export const emptied = (url: Redacted.Redacted) =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    yield* sql`TRUNCATE auth_audit, auth_audit_anchor`
    yield* sql`UPDATE auth_audit_head SET sequence = 0, hash = decode(repeat('00', 32), 'hex')`
    yield* sql`DROP TABLE IF EXISTS original, original_head`
    return url
  }).pipe(Effect.provide(Database.layer({ url, applicationName: "audit", maxConnections: 1 })))

/** The trail and the identity of a node, without a database. */
export const auditTrailOf = (folder: string, maxBytes = 32 << 20) =>
  auditTrailLayer({ folder: join(folder, "audit-queue"), maxBytes }).pipe(
    Layer.provideMerge(Identity.layer({ dataFolder: folder })),
    Layer.provide(Vaults.layer({ dataFolder: folder, masterKey: null })),
    Layer.provideMerge(NodeFileSystem.layer),
  )

/** Everything of one node's audit log. */
export const auditNode = Effect.fnUntraced(function*(url: Redacted.Redacted, folder: string) {
  const services = auditLogLayer({ headsPath: join(folder, "audit-heads.jsonl") }).pipe(
    Layer.provideMerge(auditTrailOf(folder)),
    Layer.provideMerge(Database.layer({ url, applicationName: "audit", maxConnections: 6 })),
  )
  const context = yield* Layer.build(services)
  const identity = Context.get(context, Identity.NodeIdentity)
  const seal = auditSeal(identity)
  const chain = yield* Effect.provide(AuditChainStore, context)
  return {
    /** What retention does, with a time of the test's choice. */
    shorten: (beforeMs: number) =>
      chain.shorten(beforeMs, 10_000, (last) => ({
        ...last,
        nodeId: identity.nodeId,
        mac: seal.mac(anchorText(last)),
      })),
    log: Context.get(context, AuditLog),
    trail: Context.get(context, AuditTrail),
    sql: Context.get(context, SqlClient.SqlClient),
    headsPath: join(folder, "audit-heads.jsonl"),
  }
})
export type AuditNode = Effect.Success<ReturnType<typeof auditNode>>

const words = ["camera.add", "camera.update", "record.create", "auth.login", "replay.uri", "permission.assign"]

/** The `n`th of many plausible facts, with texts that are hard to hash alike. */
export const madeUpFact = (n: number): AuditFact => ({
  action: words[n % words.length]!,
  outcome: n % 11 === 0 ? "refused" : n % 7 === 0 ? "failure" : "success",
  actor: n % 5 === 0 ?
    { kind: "anonymous", id: null, name: null, sessionId: null } :
    { kind: "user", id: `user-${n % 40}`, name: `Zoë ${n % 40} ‮λ`, sessionId: `session-${n % 97}` },
  address: `192.0.2.${n % 250}`,
  userAgent: n % 3 === 0 ? "" : "Mozilla/5.0 \"quoted\", with = signs\tand tabs",
  resource: n % 4 === 0 ? null : { kind: "camera", id: `camera-${n % 300}` },
  status: n % 11 === 0 ? 403 : 200,
  traceId: n.toString(16).padStart(32, "0"),
  origin: "server",
  detail: n % 2 === 0 ? {} : { "€": n / 7, "\u0001": [n, null, true], nested: { z: "é", a: "\ud83d\ude00" } },
})

/** Records `count` facts as a node does, and waits until all are in the chain. */
export const fill = Effect.fnUntraced(function*(node: AuditNode, count: number, from = 0) {
  let next = from
  while (next < from + count) {
    const wave = Math.min(2000, from + count - next)
    const start = next
    // What does not fit would be counted, and told by an entry of its own.
    while (node.trail.state().queuedBytes > (8 << 20)) yield* Effect.sleep("50 millis")
    yield* Effect.all(Array.from({ length: wave }, (_, i) => node.trail.record(madeUpFact(start + i))), {
      concurrency: "unbounded",
      discard: true,
    })
    next += wave
  }
  yield* settled(node)
})

/** Waits until the queue is empty and the chain's end is signed. */
export const settled = Effect.fnUntraced(function*(node: AuditNode) {
  while (true) {
    const [row] = yield* node.sql<{ readonly sequence: number }>`
      SELECT sequence::float8 AS sequence FROM auth_audit_head`
    const whole = yield* node.log.verify({ from: row!.sequence, to: null })
    if (node.trail.state().queuedBytes === 0 && whole.intact && whole.signedHeads === 1) return row!.sequence
    yield* Effect.sleep("100 millis")
  }
})
