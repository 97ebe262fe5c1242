/**
 * The service `IndexRebuilds`: runs `RecordLedger.reindex` in the background and remembers how it went.
 *
 * Invariants
 * 1. At most one runs on this node. What runs tells how far it is from memory; what has ended, from the database.
 * 2. A rebuild that a dead process left running is run again at the next start: it is idempotent.
 * 3. While the database is away it waits, at most {@link patience} times {@link pause}; then it has failed.
 */
import { IndexRebuilds, RecordLedger } from "#actors/protocol/record.ts"
import { RecordRebuildStore } from "#actors/store/record-rebuild.ts"
import { Ownership } from "#cluster/ownership.ts"
import { type IndexRebuild, IndexRebuildNotFound } from "#schema/record-index.ts"
import { uuid7 } from "#schema/uuid.ts"
import { Cause, Clock, Duration, Effect, Layer, Schedule, Semaphore } from "effect"

const pause = Duration.seconds(3)
const patience = 100

const make = Effect.gen(function*() {
  const [ledger, store, { nodeId }] = yield* Effect.all([RecordLedger, RecordRebuildStore, Ownership])
  const scope = yield* Effect.scope
  const one = yield* Semaphore.make(1)
  let current: IndexRebuild | null = null

  const waiting = { schedule: Schedule.spaced(pause), times: patience } as const

  const end = (job: IndexRebuild, change: Pick<IndexRebuild, "state" | "error" | "report">) =>
    Effect.gen(function*() {
      const ended = { ...job, ...change, progress: 1, endedAt: yield* Clock.currentTimeMillis }
      current = ended
      yield* Effect.retry(store.put(ended), waiting)
    })

  const run = (job: IndexRebuild) =>
    ledger.reindex((progress) => {
      if (current?.id === job.id) current = { ...current, progress: Math.max(current.progress, progress) }
    }).pipe(
      Effect.retry(waiting),
      Effect.flatMap((report) => end(job, { state: "ready", error: null, report })),
      Effect.catchCause((cause) =>
        Cause.hasInterruptsOnly(cause) ? Effect.interrupt : Effect.gen(function*() {
          yield* Effect.logError("The index could not be rebuilt", cause)
          const problem = Cause.squash(cause)
          const error = problem instanceof Error ? problem.message : "it broke; the log tells more"
          yield* end(job, { state: "failed", error, report: null })
        })
      ),
      Effect.catchCause((cause) => Effect.logError("How the rebuild of the index went could not be kept", cause)),
    )
  const begin = (job: IndexRebuild) =>
    Effect.gen(function*() {
      current = job
      yield* Effect.forkIn(run(job), scope)
      return job
    })

  const start = one.withPermits(1)(Effect.gen(function*() {
    if (current?.state === "running") return current
    const job: IndexRebuild = {
      id: yield* uuid7,
      nodeId,
      state: "running",
      progress: 0,
      error: null,
      report: null,
      startedAt: yield* Clock.currentTimeMillis,
      endedAt: null,
    }
    yield* store.put(job)
    return yield* begin(job)
  }))

  // Invariant 2.
  const left = yield* Effect.catchTag(store.running(nodeId), "DependencyUnavailable", () => Effect.succeed(null))
  if (left !== null) yield* begin({ ...left, progress: 0 })

  return IndexRebuilds.of({
    start: () => start,
    get: (id) =>
      Effect.suspend(() => current?.id === id ? Effect.succeed(current) : store.get(id)).pipe(
        Effect.flatMap((found) =>
          found === null ? Effect.fail(new IndexRebuildNotFound({ id })) : Effect.succeed(found)
        ),
      ),
  })
})

export const layer = Layer.effect(IndexRebuilds, make)
