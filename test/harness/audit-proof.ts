/** The proof of the audit log: every tampering is found at the right entry, a long export costs no memory. */
import { AuditLog } from "#actors/protocol/auth-audit.ts"
import type { AuditVerification } from "#schema/auth-audit.ts"
import { Cause, Effect, Exit, Layer, Logger, Stream } from "effect"
import { webHandler } from "../http-fixtures.ts"
import { random } from "../media/random.ts"
import { type AuditNode, auditNode, auditPostgres, fill, settled, temporary } from "./audit-node.ts"
import { keepOriginal, needsWhole, tampered, tamperings, touchesRest } from "./audit-tamper.ts"
import type { Report } from "./report.ts"

export interface AuditProofOptions {
  readonly entries: number
  readonly tamperings: number
  /** How many of them are looked for from the first entry on; the others from up to 2,000 entries before theirs. */
  readonly whole: number
  /** Entries of the export whose memory is measured; 0 for none. */
  readonly exported: number
  readonly seed: number
}

const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`
const timed = <A, E, R>(work: Effect.Effect<A, E, R>) =>
  Effect.gen(function*() {
    const begun = performance.now()
    const answer = yield* work
    return [answer, performance.now() - begun] as const
  })

/** Verifies to the end, in as many parts as it takes. */
const verifyAll = (node: AuditNode, begin: number | null = null) =>
  Effect.gen(function*() {
    let parts = 0
    let checked = 0
    let from = begin
    while (true) {
      const answer: AuditVerification = yield* node.log.verify({ from, to: null })
      parts++
      checked += answer.checked
      if (answer.complete) return { intact: answer.intact, checked, parts, fault: answer.fault }
      from = answer.next
    }
  })

const proveTamperings = Effect.fnUntraced(function*(report: Report, node: AuditNode, options: AuditProofOptions) {
  const next = random(options.seed)
  const last = yield* settled(node)
  yield* keepOriginal(node.sql)
  let wrong = 0
  const reasons = new Map<string, number>()
  const counts = new Map<string, number>()
  let wholes = 0
  let slowestMs = 0
  for (let i = 0; i < options.tamperings; i++) {
    const way = tamperings[i % tamperings.length]!
    // What touches all that follows is undone row by row: all but one of forty lie in the last thousand.
    const far = !touchesRest(way) || next(40) === 0
    const k = far ? 7 + next(last - 10) : last - 4 - next(Math.min(1000, last - 11))
    const whole = needsWhole(way) || wholes < options.whole && i % Math.ceil(options.tamperings / options.whole) === 0
    if (whole && !needsWhole(way)) wholes++
    const from = whole ? null : Math.max(1, k - 1 - next(2000))
    yield* tampered(node.sql, way, { k, last, some: next(1 << 20) }, (firstBad) =>
      Effect.gen(function*() {
        const [answer, ms] = yield* timed(verifyAll(node, from))
        slowestMs = Math.max(slowestMs, ms)
        const found = answer.fault?.sequence
        reasons.set(answer.fault?.reason ?? "none", (reasons.get(answer.fault?.reason ?? "none") ?? 0) + 1)
        counts.set(way, (counts.get(way) ?? 0) + 1)
        if (answer.intact || found !== firstBad) {
          wrong++
          report.fault(`${way} at ${k}: first bad ${firstBad}, told ${found ?? "none"}`)
        }
      }))
    if ((i + 1) % 100 === 0) report.say(`${i + 1} tamperings, ${wrong} not found at the right entry`)
  }
  report.say(`${wholes} of them looked for from the first entry on, the slowest look took ${seconds(slowestMs)}`)
  report.say(`ways: ${[...counts].map(([name, count]) => `${name} ${count}`).join(", ")}`)
  report.say(`told as: ${[...reasons].map(([name, count]) => `${name} ${count}`).join(", ")}`)
  const after = yield* verifyAll(node)
  report.check(after.intact && after.checked === last, "after all was undone the log is intact")
})

/** Copies of entries behind the chain: an export does not look at hashes, and a million links would take minutes to make. */
const multiply = (node: AuditNode, have: number, want: number) =>
  Effect.gen(function*() {
    for (let from = have; from < want; from += have) {
      const count = Math.min(have, want - from)
      yield* node.sql`
        INSERT INTO auth_audit SELECT sequence + ${from}, gen_random_uuid(), ${
        node.sql.literal(
          "time_ms, node_id, action, outcome, actor_kind, actor_id, actor_name, session_id, address, user_agent, " +
            "resource_kind, resource_id, status, trace_id, origin, detail, previous_hash, hash, mac",
        )
      } FROM auth_audit WHERE sequence <= ${count}`
    }
    yield* node.sql`UPDATE auth_audit_head SET sequence = ${want}`
  })

/** Takes a whole answer, as a client that keeps nothing of it; how many lines it had, and how much memory this process took more. */
const drain = Effect.fnUntraced(function*(answer: Response) {
  globalThis.gc?.()
  const before = process.memoryUsage().rss
  let highest = before
  let lines = 0
  let bytes = 0
  yield* Effect.promise(async () => {
    for await (const chunk of answer.body!) {
      bytes += chunk.length
      lines += Buffer.from(chunk).toString("latin1").split("\n").length - 1
      highest = Math.max(highest, process.memoryUsage().rss)
    }
  })
  return { lines, bytes, grownMiB: (highest - before) / (1 << 20) }
})

const proveExport = Effect.fnUntraced(function*(report: Report, node: AuditNode, options: AuditProofOptions) {
  yield* multiply(node, options.entries, options.exported)
  let pulled = 0
  const log = AuditLog.of({
    ...node.log,
    export: (filter) => Effect.map(node.log.export(filter), Stream.tap(() => Effect.sync(() => pulled++))),
  })
  const call = yield* webHandler({}, Layer.succeed(AuditLog, log))
  // A line for each entry, and those of the header or of the brackets.
  for (const [kind, more] of [["csv", 1], ["json", 2]] as const) {
    const answer = yield* call(`/auth/api/v1/audit/export/${kind}`, { token: "admin" })
    const [{ bytes, grownMiB, lines }, ms] = yield* timed(drain(answer))
    const mib = (bytes / (1 << 20)).toFixed(0)
    report.say(`${kind}: ${mib} MiB in ${seconds(ms)}, memory grew by ${grownMiB.toFixed(0)} MiB at its highest`)
    report.check(lines === options.exported + more, `${kind}: ${lines} lines for ${options.exported} entries`)
    report.check(grownMiB < 192, `${kind}: an export takes less than 192 MiB`)
  }
  // A client that reads a little and goes.
  pulled = 0
  const reader = (yield* call("/auth/api/v1/audit/export/csv", { token: "admin" })).body!.getReader()
  yield* Effect.promise(() => reader.read())
  yield* Effect.sleep("2 seconds")
  const ahead = pulled
  yield* Effect.promise(() => reader.cancel())
  yield* Effect.sleep("1 second")
  report.say(`a client that reads one piece and waits: ${ahead} pages were read; none after it went away`)
  report.check(ahead < 20 && pulled <= ahead + 1, `${ahead} pages ahead, ${pulled - ahead} after the client had gone`)
})

/** Fills a log, tampers with it, verifies; then exports a long one. */
export const proveAudit = async (report: Report, options: AuditProofOptions): Promise<void> => {
  const run = Effect.gen(function*() {
    const node = yield* auditNode(yield* auditPostgres, yield* temporary)
    const [, fillMs] = yield* timed(fill(node, options.entries))
    report.say(`${options.entries} entries recorded, chained and signed in ${seconds(fillMs)}`)
    const [clean, ms] = yield* timed(verifyAll(node))
    report.say(`verified from the first entry on in ${seconds(ms)}, in ${clean.parts} part(s)`)
    report.check(
      clean.intact && clean.checked === options.entries,
      `${clean.checked} checked: an untouched log is intact, every entry checked`,
    )
    yield* proveTamperings(report, node, options)
    if (options.exported > 0) yield* proveExport(report, node, options)
  })
  const exit = await Effect.runPromiseExit(run.pipe(Effect.scoped, Effect.provide(Logger.layer([]))))
  if (Exit.isFailure(exit)) report.fault(Cause.pretty(exit.cause))
}
