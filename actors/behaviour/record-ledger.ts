/**
 * Keeps the database's index of this node's footage and its gap ledger in step with what the recorder supervisor did: a fiber
 * that reads the local journal, and what it does when the database, or the journal, has
 * lost something.
 *
 * Invariants
 * 1. An entry is acknowledged only after the transaction that holds it has committed; the position in the database decides
 *    where reading goes on. A database that was away for days catches up completely, {@link batchSize} entries a transaction.
 * 2. After an overflow of the journal, and after each further one, the index is rebuilt from the disk before reading goes on.
 * 3. Entries of an older epoch than the row they would change are refused, and told in the log.
 * 4. An older database is noticed at start and brought up to date; a new one is told of and left to a person.
 */
import { RecordLedger } from "#actors/protocol/record.ts"
import { RecordLedgerStore } from "#actors/store/record-ledger.ts"
import { RecordStore } from "#actors/store/record.ts"
import { Ownership } from "#cluster/ownership.ts"
import { RecorderSupervisor } from "#media/recorder.ts"
import { allTime } from "#schema/common.ts"
import { type IndexReport, mostListed } from "#schema/record-index.ts"
import type { SegmentFile } from "#schema/record.ts"
import { Clock, Duration, Effect, Layer, Semaphore } from "effect"
import { batchOf } from "./record-journal.ts"
import { makeRebuild } from "./record-rebuild.ts"
import { makeRecovery } from "./record-recovery.ts"
import { makeGapTeller } from "./record-told.ts"

/** Entries of a transaction: at some 400 bytes each, one statement carries 200 KB at most. */
const batchSize = 500
/** Entries that come close together go in one transaction. */
const gatherTime = Duration.millis(300)
/** A wake-up that came between a look and the wait behind it is made up for within this. */
const lookAgain = Duration.seconds(10)
/** Between attempts while the database is away: short enough to be complete a moment after it returns. */
const retryEvery = Duration.seconds(2)
type Unheard = Effect.Success<typeof makeRecovery>["unheard"]

/** One step along the journal: answers the position it reached, the same if there was nothing to read. */
const makeStep = <E, R>(rebuild: Effect.Effect<unknown, E, R>) =>
  Effect.gen(function*() {
    const [{ nodeId }, store, records, supervisor] = yield* Effect.all([
      Ownership,
      RecordLedgerStore,
      RecordStore,
      RecorderSupervisor,
    ])
    const tellGaps = yield* makeGapTeller
    /** The newest loss of the journal that the index was rebuilt for. */
    let covered = Number.NEGATIVE_INFINITY

    const apply = Effect.fnUntraced(function*(position: number) {
      const entries = yield* supervisor.journal(position, batchSize)
      if (entries.length === 0) return position
      const { events, ledger } = batchOf(entries, nodeId, yield* Clock.currentTimeMillis)
      // First, as they may be told twice; what follows counts once.
      yield* records.addEvents(events)
      yield* tellGaps(events)
      const { refused } = yield* store.apply(ledger)
      if (refused > 0) {
        yield* Effect.logWarning("Entries of the journal were refused: older epoch, or a recording that is gone", {
          refused,
        })
      }
      yield* supervisor.acknowledge(ledger.position)
      return ledger.position
    })
    /** A loss that comes while entries behind an earlier one are read is greater than what was covered. */
    const makeGood = Effect.fnUntraced(function*(lostAt: number, position: number) {
      yield* Effect.logWarning("The journal has lost entries; the index is rebuilt from the disk")
      yield* rebuild
      covered = lostAt
      // Where nothing is left to read, nobody else would acknowledge the loss.
      if ((yield* supervisor.journal(position, 1)).length > 0) return
      const nowMs = yield* Clock.currentTimeMillis
      yield* store.apply({ nodeId, files: [], goneFiles: [], gaps: [], keptFrom: [], position: lostAt, nowMs })
      yield* supervisor.acknowledge(lostAt)
    })
    return Effect.fnUntraced(function*(position: number) {
      const lostAt = yield* supervisor.journalLostAt
      if (lostAt !== null && lostAt > covered) yield* makeGood(lostAt, position)
      return yield* apply(position)
    })
  })

/**
 * What a start finds. A database that has read less of the journal than was once acknowledged is an older one: it is brought up to
 * date. One that never read it and knows nothing of what is here is new: a person is told, and decides.
 */
const makeCheck = <E, R>(reindex: Effect.Effect<unknown, E, R>, unheard: Unheard) =>
  Effect.gen(function*() {
    const supervisor = yield* RecorderSupervisor
    return Effect.fnUntraced(function*(position: number | null) {
      if (position !== null && (yield* supervisor.journalAcknowledged) > position) {
        yield* Effect.logWarning(
          "The database is older than what this node has recorded (a restored backup?); it is brought up to date from the disks",
        )
        yield* reindex
        return
      }
      const { footage, ids } = yield* unheard
      if (ids.size === 0) return
      const files = [...footage.values()].reduce((sum, all) => sum + all.length, 0)
      yield* Effect.logWarning(
        `The database does not know what this node has: cameras, streams and recordings ${ids.size}, files of footage ${files}. ` +
          "Nothing is deleted and recording goes on; to bring them back, run: nightjar doctor --reindex",
      )
    })
  })

const make = Effect.gen(function*() {
  const [{ nodeId }, store, supervisor] = yield* Effect.all([Ownership, RecordLedgerStore, RecorderSupervisor])
  const rebuild = yield* makeRebuild
  const { recover, unheard } = yield* makeRecovery
  const step = yield* makeStep(rebuild({ keptFrom: [], tell: () => undefined }))
  /** Reading and rebuilding write the same rows. */
  const one = yield* Semaphore.make(1)

  const reindex = Effect.fn("RecordLedger.reindex")(function*(tell: (progress: number) => void) {
    const { cameras, keptFrom, recordings } = yield* recover
    const part = yield* one.withPermits(1)(rebuild({ keptFrom, tell }))
    return {
      ...part,
      recordingsRecovered: recordings,
      camerasRecovered: cameras.length,
      recovered: cameras.slice(0, mostListed),
    } satisfies IndexReport
  })
  const check = yield* makeCheck(reindex(() => undefined), unheard)
  let checked = false

  const follow = Effect.gen(function*() {
    const known = yield* store.position(nodeId)
    if (!checked) yield* check(known)
    checked = true
    let position = (yield* store.position(nodeId)) ?? 0
    while (true) {
      const reached: number = yield* one.withPermits(1)(step(position))
      if (reached === position) {
        // A loss that left nothing to read is made good by the next step, not by the next entry.
        if ((yield* supervisor.journalLostAt) === null) {
          yield* Effect.timeoutOption(supervisor.awaitJournal(position), lookAgain)
        }
        yield* Effect.sleep(gatherTime)
      }
      position = reached
    }
  })
  yield* follow.pipe(
    Effect.catchTag("DependencyUnavailable", () => Effect.logDebug("The journal waits for the database")),
    Effect.catchCause((cause) => Effect.logError("The journal could not be read into the database", cause)),
    Effect.andThen(Effect.sleep(retryEvery)),
    Effect.forever,
    Effect.forkScoped,
  )
  /** Rows alone: the journal tells what this node recorded, and it recorded none of it. */
  const rows = Effect.fnUntraced(
    function*(change: { readonly files: ReadonlyArray<SegmentFile>; readonly gone: ReadonlyArray<SegmentFile> }) {
      yield* store.apply({
        nodeId,
        files: change.files.map((file) => ({ ...file, nodeId })),
        goneFiles: change.gone.map(({ id }) => id),
        gaps: [],
        keptFrom: [],
        position: 0,
        nowMs: yield* Clock.currentTimeMillis,
      })
    },
  )
  return RecordLedger.of({
    position: () => store.position(nodeId),
    reindex,
    adopted: (files) => rows({ files, gone: [] }),
    released: (gone) => rows({ files: [], gone }),
    recordingsOf: store.recordingsOf,
    gapsOf: Effect.fnUntraced(function*(id) {
      const own = supervisor.gaps(id, allTime)
      const known = new Set(own.map((gap) => gap.id))
      const rest = (yield* store.gapsOf(id, nodeId)).filter((gap) => !known.has(gap.id))
      return [...own, ...rest].filter(({ endMs }) => endMs !== null).sort((a, b) => a.startMs - b.startMs)
    }),
  })
})

export const layer = Layer.effect(RecordLedger, make)
