/**
 * The audit log over PostgreSQL: takes facts from this node's queue into the chain, signs where it ends, shortens it, answers.
 *
 * Invariants
 * 1. A fact leaves the queue after the transaction that wrote it; one that is brought again changes nothing.
 * 2. Every second that had entries, this node follows the chain to its end and signs it outside of the database; where the
 *    chain does not fit it signs nothing and says so in its log.
 * 3. Retention takes the oldest only and is itself an entry.
 */
import { AuditLog, AuditTrail } from "#actors/protocol/auth-audit.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import { AuditEntryNotFound, type AuditFact, type AuditFilter, systemActor } from "#schema/auth-audit.ts"
import { cursorOf, pageFrom } from "#schema/cursor.ts"
import { InvalidInput, VersionConflict } from "#schema/problem.ts"
import { Clock, Effect, type FileSystem, Layer, Option, Schedule, Schema, Semaphore, Stream } from "effect"
import type { SqlClient } from "effect/sql"
import { answered, databaseAway } from "../store/answer.ts"
import { AuditChainStore, type ChainPoint } from "../store/auth-audit-chain.ts"
import { AuditLogStore } from "../store/auth-audit.ts"
import { auditSeal, entryOf, linkFacts } from "./auth-audit-chain.ts"
import { dayBounds, daysOf, mostDays } from "./auth-audit-days.ts"
import { makeAuditHeads } from "./auth-audit-heads.ts"
import { anchorText, verifyChain, verifyLimits } from "./auth-audit-verify.ts"
import { chore } from "./chore.ts"

export interface AuditLogOptions {
  /** File of signed heads, outside of the database. */
  readonly headsPath: string
}

/** Rows of one transaction: what 1,000 busy clients cause in a second. */
const batchRows = 500
const pageRows = 1000
const signEvery = "1 second"
const shortenEvery = "1 hour"
/** Rows that retention takes in one transaction: it holds the head meanwhile. */
const shortenRows = 10_000
const dayMs = 86_400_000
const statsDays = 30
/** A claim is in the chain within a moment; a database that is slower than this counts as away. */
const claimWait = { schedule: Schedule.spaced("50 millis"), times: 100 } as const

const cursor = cursorOf("audit", Schema.Struct({ sequence: Schema.Int }))
const timeZoneKnown = (name: string): boolean =>
  Intl.supportedValuesOf("timeZone").includes(name) || name === "UTC" || name === "Etc/UTC"

const make = Effect.fnUntraced(function*(options: AuditLogOptions) {
  const trail = yield* AuditTrail
  const identity = yield* NodeIdentity
  const chain = yield* AuditChainStore
  const store = yield* AuditLogStore
  const seal = auditSeal(identity)
  const heads = yield* makeAuditHeads({ path: options.headsPath, identity })
  const link = linkFacts(seal)
  /** A walk keeps a core and a connection busy; whoever asks meanwhile waits, as long as a request may. */
  const oneWalk = yield* Semaphore.make(1)

  const system = (action: string, detail: AuditFact["detail"]): AuditFact => ({
    action,
    outcome: "success",
    actor: systemActor,
    address: "",
    userAgent: "",
    resource: null,
    status: null,
    traceId: null,
    origin: "server",
    detail,
  })

  /** Invariant 1, for ever. */
  const move = Effect.gen(function*() {
    let position = trail.queue.acknowledged()
    while (true) {
      yield* trail.queue.awaitEntry(position)
      const page = yield* trail.queue.read(position, batchRows)
      const last = page.at(-1)
      if (last === undefined) {
        yield* Effect.sleep("1 second")
        continue
      }
      const facts = page.flatMap(({ fact }) => fact === null ? [] : [fact])
      if (facts.length > 0) yield* chain.append(facts, link)
      position = last.position
      yield* trail.queue.acknowledge(position)
    }
  })

  let signed: ChainPoint | null = yield* Effect.orElseSucceed(heads.newest, () => null)
  let complaint = ""

  /** Invariant 2. */
  const sign = Effect.gen(function*() {
    yield* Effect.flatMap(store.settings, trail.configure)
    const head = yield* chain.head
    if (head.sequence === (signed?.sequence ?? 0) && head.hash === (signed?.hash ?? head.hash)) return
    const known = { heads: signed === null ? [] : [signed], damaged: 0 }
    const result = yield* chain.snapshot(verifyChain({
      store: chain,
      seal,
      known,
      from: signed?.sequence ?? null,
      to: null,
      limits: { ...verifyLimits, budgetMs: Number.POSITIVE_INFINITY },
    }))
    if (result.fault === null) {
      if (result.head.sequence > 0) yield* heads.sign(result.head)
      signed = result.head
      complaint = ""
      return
    }
    const text = `The audit log was tampered with at entry ${result.fault.sequence}: ${result.fault.explanation}`
    if (text !== complaint) yield* Effect.logError(text)
    complaint = text
  })

  /** Invariant 3. */
  const shorten = Effect.gen(function*() {
    const { retentionDays } = yield* store.settings
    const beforeMs = (yield* Clock.currentTimeMillis) - retentionDays * dayMs
    let gone = 0
    while (true) {
      const count = yield* chain.shorten(beforeMs, shortenRows, (last) => ({
        ...last,
        nodeId: identity.nodeId,
        mac: seal.mac(anchorText(last)),
      }))
      gone += count
      if (count < shortenRows) break
    }
    if (gone > 0) {
      const before = new Date(beforeMs).toISOString()
      yield* trail.record(system("audit.shortened", { entries: gone, before, retentionDays }))
    }
  })

  const byId = Effect.fnUntraced(function*(id: string) {
    const row = yield* store.byId(id)
    return row === null ? yield* new AuditEntryNotFound({ id }) : entryOf(row)
  })

  /** Invariant of the protocol: one page in memory, no connection between pages. */
  const pages = (filter: AuditFilter, upTo: number) =>
    Stream.paginate(
      0,
      (after: number) =>
        Effect.map(answered(store.oldest(filter, { after, upTo }, pageRows)), (rows) => {
          const last = rows.at(-1)
          const more = rows.length === pageRows && last !== undefined
          return [[rows.map(entryOf)] as const, more ? Option.some(last.sequence) : Option.none<number>()] as const
        }),
    )

  const service = AuditLog.of({
    list: Effect.fnUntraced(function*(filter, page) {
      const at = yield* cursor.decode(page.cursor)
      const rows = yield* store.newest(filter, at?.sequence ?? Number.MAX_SAFE_INTEGER, page.limit + 1)
      return pageFrom({
        rows,
        limit: page.limit,
        cursor,
        position: ({ sequence }) => ({ sequence }),
        item: entryOf,
      })
    }, answered),
    get: (id) => answered(byId(id)),
    export: (filter) => answered(Effect.map(chain.head, ({ sequence }) => pages(filter, sequence))),
    claim: Effect.fnUntraced(function*(claim, who) {
      const id = yield* trail.record({
        ...who,
        action: `claim.${claim.action}`,
        outcome: claim.outcome ?? "success",
        resource: claim.resource ?? null,
        status: null,
        origin: "claim",
        detail: claim.detail ?? {},
      })
      return yield* answered(byId(id)).pipe(
        Effect.retry({ ...claimWait, while: (error) => error._tag === "AuditEntryNotFound" }),
        Effect.catchTag("AuditEntryNotFound", () => Effect.fail(databaseAway())),
      )
    }),
    settings: () => answered(store.settings),
    updateSettings: Effect.fnUntraced(function*(next, expected) {
      const updated = yield* store.updateSettings(next, expected)
      if (updated === null) {
        return yield* new VersionConflict({ message: "The audit settings were changed by somebody else" })
      }
      yield* trail.configure(updated)
      return updated
    }, answered),
    stats: Effect.fnUntraced(function*({ timeZone, ...range }) {
      if (!timeZoneKnown(timeZone)) return yield* InvalidInput.at("/query/timeZone", "There is no such time zone")
      const end = range.end ?? (yield* Clock.currentTimeMillis)
      const start = range.start ?? end - (statsDays - 1) * dayMs
      if (end <= start) return yield* InvalidInput.at("/query/end", "must lie after the start")
      const { bounds, dates } = dayBounds(start, end, timeZone)
      if (dates.length > mostDays) {
        return yield* InvalidInput.at("/query/start", `the range may touch ${mostDays} days at most`)
      }
      return { timeZone, days: daysOf(dates, yield* store.counts(bounds)) }
    }, answered),
    verify: Effect.fnUntraced(
      function*({ from, to }) {
        const known = yield* Effect.orDie(heads.read)
        return yield* chain.snapshot(verifyChain({ store: chain, seal, known, from, to, limits: verifyLimits }))
      },
      oneWalk.withPermits(1),
      answered,
    ),
  })
  return { service, move, sign, shorten }
})

/** The audit log, for as long as the database is reached; moves, signs and shortens meanwhile. */
export const auditLogLayer = (options: AuditLogOptions): Layer.Layer<
  AuditLog,
  never,
  AuditTrail | NodeIdentity | SqlClient.SqlClient | FileSystem.FileSystem
> =>
  Layer.effect(
    AuditLog,
    Effect.gen(function*() {
      const log = yield* make(options)
      yield* Effect.forkScoped(
        Effect.repeat(chore("Taking in what the audit queue holds", log.move), Schedule.spaced("1 second")),
      )
      yield* Effect.forkScoped(Effect.repeat(chore("Signing the audit log", log.sign), Schedule.spaced(signEvery)))
      yield* Effect.forkScoped(
        Effect.repeat(chore("Shortening the audit log", log.shorten), Schedule.spaced(shortenEvery)),
      )
      return log.service
    }),
  )
