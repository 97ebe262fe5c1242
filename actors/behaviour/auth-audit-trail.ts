/**
 * Facts on their way into the audit log: kept on this node's disk until the database has them.
 *
 * Invariants
 * 1. What must be recorded (changes, sign-ins) has its place before it is done: an intent on the disk, and room for what came
 *    of it. Where there is no room it is refused.
 * 2. A process that dies in between leaves the intent; the next one makes an entry of it that says so.
 * 3. Refusals and views take at most three quarters of the queue, and refusals at most {@link notesPerSecond}: nobody fills
 *    the place of changes from outside. What was left out is counted and told by an entry `audit.dropped`.
 */
import { type AuditQueue, AuditTrail } from "#actors/protocol/auth-audit.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import { makeSpool, type Spool, type SpoolFailed } from "#cluster/spool.ts"
import {
  type AuditFact,
  type AuditSettingsUpdate,
  AuditUnavailable,
  defaultAuditSettings,
  QueuedFact,
  systemActor,
} from "#schema/auth-audit.ts"
import type { NodeId } from "#schema/common.ts"
import { uuid7 } from "#schema/uuid.ts"
import { Clock, Effect, type FileSystem, Layer, Option, Schedule, Schema } from "effect"
import { settleFact } from "./auth-audit-chain.ts"

export interface AuditTrailOptions {
  /** Holds nothing but the queue. */
  readonly folder: string
  /** Most bytes that wait. */
  readonly maxBytes: number
}

/** About 50,000 entries: a day of an office without its database. */
export const auditQueueBytes = 32 << 20
/** Most a settled fact takes as a line: 5.3 thousand UTF-16 units of text, escaped or in UTF-8, with the names around it. */
const longestLineBytes = 20 << 10
const notesPerSecond = 50
const notesAtOnce = 500
const tellDroppedEvery = "10 seconds"

/** `begun`: somebody is about to do it. */
const Line = Schema.fromJsonString(Schema.Struct({ begun: Schema.optionalKey(Schema.Literal(true)), fact: QueuedFact }))
const encodeLine = Schema.encodeSync(Line)
const decodeLine = Schema.decodeUnknownOption(Line)

/** As many at once as {@link notesAtOnce}, {@link notesPerSecond} in the long run. */
const makeBucket = () => {
  let tokens = notesAtOnce
  let atMs = 0
  return (nowMs: number): boolean => {
    tokens = Math.min(notesAtOnce, tokens + (Math.max(0, nowMs - atMs) * notesPerSecond) / 1000)
    atMs = nowMs
    if (tokens < 1) return false
    tokens--
    return true
  }
}

const queued = (fact: AuditFact, nodeId: NodeId) =>
  Effect.gen(function*(): Effect.fn.Return<QueuedFact> {
    return { ...settleFact(fact), id: yield* uuid7, timeMs: yield* Clock.currentTimeMillis, nodeId }
  })

/** Intents without an end that an earlier process left become entries that say so. */
const settleIntents = Effect.fnUntraced(function*(spool: Spool) {
  const open = new Map<string, QueuedFact>()
  let position = 0
  while (true) {
    const page = yield* spool.read(position, 1000)
    if (page.length === 0) break
    for (const entry of page) {
      position = entry.position
      const line = Option.getOrNull(decodeLine(entry.json))
      if (line?.begun === true) open.set(line.fact.id, line.fact)
      else if (line !== null) open.delete(line.fact.id)
    }
  }
  const lines = Array.from(open.values(), (fact) =>
    encodeLine({
      fact: { ...fact, outcome: "failure", detail: { ...fact.detail, interrupted: "The node ended while this ran" } },
    }))
  if (lines.length > 0) yield* spool.append(lines)
})

/** What the chain reads: facts, without intents. It never acknowledges past an intent that is still open. */
const makeQueue = (spool: Spool, open: ReadonlyMap<string, number>): AuditQueue => ({
  read: (after, limit) =>
    spool.read(after, limit).pipe(
      Effect.catchTag("SpoolFailed", (error) =>
        Effect.as(Effect.logWarning("The audit queue cannot be read", error.message), [])),
      Effect.map((entries) =>
        entries.map(({ json, position }) => {
          const line = Option.getOrNull(decodeLine(json))
          return { position, fact: line === null || line.begun === true ? null : line.fact }
        })
      ),
    ),
  awaitEntry: (after) => spool.awaitEntry(after),
  acknowledge: (position) =>
    Effect.suspend(() => spool.acknowledge(Math.min(position, ...Array.from(open.values(), (begun) => begun - 1)))),
  acknowledged: () => spool.acknowledged(),
})

const make = Effect.fnUntraced(function*(options: AuditTrailOptions) {
  const { nodeId } = yield* NodeIdentity
  const spool = yield* makeSpool(options)
  const scope = yield* Effect.scope
  /** Positions of intents that this process has not ended yet. */
  const open = new Map<string, number>()
  const mayNote = makeBucket()
  let settings: AuditSettingsUpdate = defaultAuditSettings
  let reserved = 0
  let dropped = 0
  let told = 0

  yield* settleIntents(spool).pipe(
    Effect.catch((error) =>
      Effect.logWarning("Calls that an earlier run did not end could not be noted", error.message)
    ),
  )

  const lose = Effect.sync(() => {
    dropped++
  })
  const room = (share: number) => spool.bytes() + reserved + longestLineBytes <= options.maxBytes * share
  const append = (line: typeof Line.Type) => Effect.suspend(() => spool.append([encodeLine(line)]))

  const record = Effect.fnUntraced(function*(fact: AuditFact, share: number) {
    if (!room(share)) return yield* Effect.andThen(lose, Effect.fail(new AuditUnavailable()))
    const ready = yield* queued(fact, nodeId)
    yield* Effect.mapError(Effect.tapError(append({ fact: ready }), () => lose), () => new AuditUnavailable())
    return ready.id
  }, Effect.uninterruptible)

  const admit = Effect.fnUntraced(function*(intent: AuditFact) {
    // The intent, and what came of it.
    const held = longestLineBytes
    if (spool.bytes() + reserved + 2 * held > options.maxBytes) return yield* new AuditUnavailable()
    reserved += held
    const fact = yield* queued(intent, nodeId)
    const begun = yield* append({ begun: true, fact }).pipe(
      Effect.mapError(() => new AuditUnavailable()),
      Effect.onError(() =>
        Effect.sync(() => {
          reserved -= held
        })
      ),
    )
    open.set(fact.id, begun)
    const done = Effect.sync(() => {
      reserved -= held
      open.delete(fact.id)
    })
    return {
      end: (outcome: AuditFact) => {
        const line = { fact: { ...settleFact(outcome), id: fact.id, timeMs: fact.timeMs, nodeId } }
        return append(line).pipe(
          Effect.andThen(done),
          // Its place stays taken until the disk takes it, so what waits like this is bounded as well.
          Effect.catch((error) =>
            Effect.logWarning("An audit entry waits for the disk", error.message).pipe(
              Effect.andThen(
                append(line).pipe(
                  Effect.retry(Schedule.spaced("1 second")),
                  Effect.andThen(done),
                  Effect.forkIn(scope),
                ),
              ),
            )
          ),
          Effect.asVoid,
          Effect.uninterruptible,
        )
      },
    }
  }, Effect.uninterruptible)

  const tellDropped = Effect.gen(function*() {
    const count = dropped - told
    if (count === 0 || !room(1)) return
    const fact = yield* queued({
      action: "audit.dropped",
      outcome: "failure",
      actor: systemActor,
      address: "",
      userAgent: "",
      resource: null,
      status: null,
      traceId: null,
      origin: "server",
      detail: { count },
    }, nodeId)
    yield* Effect.ignore(Effect.tap(append({ fact }), () =>
      Effect.sync(() => {
        told += count
      })))
  })
  yield* Effect.forkScoped(Effect.repeat(tellDropped, Schedule.spaced(tellDroppedEvery)))

  return AuditTrail.of({
    records: (kind, outcome) => {
      if (kind === "signIn" || kind === "signOut") return settings.recordSignIns
      if (outcome === "refused") return settings.recordRefusals
      return kind === "view" ? settings.recordViews : kind !== "none"
    },
    hasRoom: () => room(1),
    record: (fact) => record(fact, 1),
    note: (fact) =>
      Effect.gen(function*() {
        if (!mayNote(yield* Clock.currentTimeMillis)) return yield* lose
        yield* Effect.ignore(record(fact, 0.75))
      }),
    admit,
    configure: (next) =>
      Effect.sync(() => {
        settings = next
      }),
    queue: makeQueue(spool, open),
    state: () => ({ queuedBytes: spool.bytes() + reserved, limitBytes: options.maxBytes, dropped }),
  })
})

/** The way into the audit log, for as long as the node lives. */
export const auditTrailLayer = (
  options: AuditTrailOptions,
): Layer.Layer<AuditTrail, SpoolFailed, NodeIdentity | FileSystem.FileSystem> => Layer.effect(AuditTrail, make(options))
