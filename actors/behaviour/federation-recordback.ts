/**
 * The services `RecordBacks` and `RecordBackJobs`: a fiber a job drives the machine of `cluster/recordback.ts` and keeps its state.
 *
 * Invariants
 * 1. A state is in the database before anything is done on behalf of it; a restart goes on from there.
 * 2. One fiber a job: it is entered before anything waits, and reads the job once it is. What an administrator asks stops what runs, and
 *    is answered when the new state is kept; what the job ended too early to hear is asked anew.
 * 3. While this node's database is away a job waits; it has no attempt for it.
 */
import { RecordBackJobs, RecordBacks } from "#actors/protocol/federation-recordback.ts"
import { FailoverStore } from "#actors/store/federation-failover.ts"
import { type JobRow, RecordBackStore } from "#actors/store/federation-recordback.ts"
import { Ownership } from "#cluster/ownership.ts"
import { makeMeter, type Meter } from "#cluster/recordback-rate.ts"
import { isEnded, type JobEvent, type JobState, type Step, step } from "#cluster/recordback.ts"
import type { PageRequest } from "#schema/common.ts"
import { Uuid7 } from "#schema/common.ts"
import { cursorOf, pageFrom } from "#schema/cursor.ts"
import { type RecordBackJob, RecordBackNotFound, RecordBackStateConflict } from "#schema/federation-recordback.ts"
import type { RecordBackProgress } from "#schema/federation.ts"
import {
  Cause,
  Clock,
  Context,
  Deferred,
  Duration,
  Effect,
  Layer,
  PubSub,
  Queue,
  Schedule,
  Schema,
  Stream,
} from "effect"
import { chore } from "./chore.ts"
import { makePlanner } from "./federation-recordback-plan.ts"
import { makeSend, type SendKey } from "./federation-recordback-send.ts"
import { makeTold } from "./federation-recordback-told.ts"
import { upkeepOfJobs } from "./federation-recordback-upkeep.ts"

/** Between looks for the end of files that still grow. */
const growingPause = Duration.seconds(2)
/** While the database is away. */
const databasePause = Duration.seconds(2)
/** A limit that was set holds within this. */
const limitEvery = Duration.seconds(2)
/** Changes that wait for a slow reader: the oldest go, a later one tells as much. */
const changesKept = 64
/** Administrators at one job at once. */
const mostAsked = 16

const listCursor = cursorOf("recordBackJobs", Uuid7)

interface Asked {
  readonly event: JobEvent
  readonly reply: Deferred.Deferred<boolean>
}

/** A job that runs. */
interface Running {
  readonly inbox: Queue.Queue<Asked>
  readonly meter: Meter
  /** Nobody reads the inbox any more. */
  readonly left: Deferred.Deferred<void>
}

const stateOf = ({ attempt, dueMs, reason, refusals, state }: JobRow): JobState => ({
  phase: state,
  attempt,
  refusals,
  dueMs,
  reason,
})

const failed = (reason: string, refused: boolean): JobEvent => ({ _tag: "Failed", reason, refused })

export interface RecordBackOptions {
  /** Bytes a second that leave this node for all jobs together; 0: as fast as it goes. */
  readonly rate: Effect.Effect<number>
  /** So long footage stays after it came home: what a player was told of before is still there, ms. */
  readonly keptMs: number
}

/**
 * What the administrator allows, within what this node's configuration does: asked again and again, so that it holds for what is
 * under way.
 */
const makeLimit = Effect.fnUntraced(function*(own: Effect.Effect<number>) {
  const [{ nodeId }, settings] = yield* Effect.all([Ownership, FailoverStore])
  let allowed = 0
  const look = Effect.map(settings.settings(nodeId), ({ settings: { recordBackMiB } }) => {
    allowed = (recordBackMiB ?? 0) * 2 ** 20
  })
  yield* Effect.forkScoped(Effect.repeat(chore("Looking at record-back's limit", look), Schedule.spaced(limitEvery)))
  return Effect.map(own, (most) => allowed === 0 ? most : most === 0 ? allowed : Math.min(most, allowed))
})

const make = Effect.fnUntraced(function*(options: RecordBackOptions) {
  const [{ nodeId }, store] = yield* Effect.all([Ownership, RecordBackStore])
  const planner = yield* makePlanner(options.keptMs)
  const scope = yield* Effect.scope
  const changes = yield* PubSub.sliding<string>(changesKept)
  const told = yield* makeTold
  const limit = yield* makeLimit(options.rate)
  const running = new Map<string, Running>()
  const keys = new Map<string, SendKey>()
  const moved = (id: string) => Effect.asVoid(PubSub.publish(changes, id))
  const idle = makeMeter()
  const meterOf = (id: string): Meter => running.get(id)?.meter ?? idle
  const send = yield* makeSend({ planner, rate: limit, moved, meterOf, refused: told.refused })
  yield* upkeepOfJobs(planner)

  /** Waits for the end of what grows, then for nothing. */
  const planned = Effect.fnUntraced(function*(job: JobRow) {
    while ((yield* planner.plan(job)) > 0) yield* Effect.sleep(growingPause)
  })

  const run = Effect.fnUntraced(function*(job: JobRow, next: Step): Effect.fn.Return<JobEvent, unknown> {
    switch (next.command) {
      case "plan":
        yield* planned(job)
        return { _tag: "Planned" }
      case "fetchKey":
        keys.set(job.id, yield* send.transferKey(job))
        return { _tag: "KeyFetched" }
      case "transfer": {
        const key = keys.get(job.id)
        if (key === undefined) return failed("the transfer key is not known", false)
        return { _tag: (yield* send.session(job, key)) ? "Advanced" : "Sent" }
      }
      case "verify": {
        yield* planned(job)
        yield* planner.release(job.id)
        const key = keys.get(job.id)
        if (key === undefined) return failed("the transfer key is not known", false)
        yield* send.tellGaps(job, key)
        const { left, lost } = yield* store.totals(job.id)
        return { _tag: "Verified", left, lost }
      }
      case "wait": {
        const nowMs = yield* Clock.currentTimeMillis
        yield* Effect.sleep(Math.max(0, (next.state.dueMs ?? nowMs) - nowMs))
        return { _tag: "Due" }
      }
      case "rest":
        return yield* Effect.never
    }
  })

  /** What an attempt ended with. */
  const outcome = (job: JobRow, next: Step): Effect.Effect<JobEvent> =>
    Effect.catchCause(run(job, next), (cause) => {
      const error = cause.reasons.find(Cause.isFailReason)?.error
      if (Schema.is(Schema.Struct({ _tag: Schema.Literal("DependencyUnavailable") }))(error)) {
        return Effect.andThen(Effect.sleep(databasePause), Effect.suspend(() => outcome(job, next)))
      }
      const refused =
        Schema.is(Schema.Struct({ _tag: Schema.Literal("PeerRefused"), theirStatus: Schema.Int }))(error) &&
        error.theirStatus !== 503 && error.theirStatus !== 429
      if (error instanceof Error) return Effect.succeed(failed(error.message, refused))
      // Who stops the job does not come here; this was something that it waited for.
      return Cause.hasInterruptsOnly(cause) ?
        Effect.succeed(failed("it was broken off", false)) :
        Effect.as(Effect.logError("A record-back job broke", cause), failed("it broke; the log tells more", true))
    })

  const keep = Effect.fnUntraced(function*(job: JobRow, state: JobState, before: JobState) {
    const { id } = job
    const { attempt, dueMs, phase, reason, refusals } = state
    const endedMs = isEnded(phase) ? yield* Clock.currentTimeMillis : null
    yield* Effect.retry(store.change(id, { state: phase, attempt, refusals, dueMs, reason }, endedMs), {
      schedule: Schedule.spaced(databasePause),
    })
    yield* told.changed(job, before.phase, phase, reason)
    yield* moved(id)
  })

  /** Invariant 2. Null: there is one already. */
  const enter = Effect.fnUntraced(function*(id: string) {
    const inbox = yield* Queue.bounded<Asked>(mostAsked)
    const entered: Running = { inbox, meter: makeMeter(), left: yield* Deferred.make<void>() }
    if (running.has(id)) return null
    running.set(id, entered)
    return entered
  })
  const leave = (id: string, { left }: Running) =>
    Effect.suspend(() => {
      running.delete(id)
      keys.delete(id)
      return Deferred.succeed(left, undefined)
    })

  const conduct = Effect.fnUntraced(function*(job: JobRow, first: Step, { inbox }: Running) {
    let next = first
    let kept = stateOf(job)
    const keepNext = Effect.suspend(() => {
      const before = kept
      kept = next.state
      return keep(job, next.state, before)
    })
    while (true) {
      yield* keepNext
      if (isEnded(next.state.phase)) return
      const heard: JobEvent | Asked = yield* Effect.raceFirst(outcome(job, next), Queue.take(inbox))
      const asked = "reply" in heard ? heard : null
      const moved = step(next.state, asked === null ? heard as JobEvent : asked.event, yield* Clock.currentTimeMillis)
      if (moved !== null) next = moved
      if (asked === null) continue
      if (moved !== null) {
        if (asked.event._tag === "Retry") yield* Effect.ignore(store.again(job.id))
        yield* keepNext
      }
      yield* Deferred.succeed(asked.reply, moved !== null)
    }
  })

  /** Goes on with `work` in a fiber of its own. */
  const drive = (id: string, entered: Running, work: Effect.Effect<void, unknown>) =>
    work.pipe(
      Effect.ensuring(leave(id, entered)),
      Effect.catchCause((cause) =>
        Cause.hasInterruptsOnly(cause) ? Effect.interrupt : Effect.logError("A record-back job stopped", cause)
      ),
      Effect.forkIn(scope),
      Effect.asVoid,
    )

  /** Goes on where the job stands, unless somebody does or it has ended. */
  const resume = (id: string) =>
    Effect.gen(function*() {
      const entered = yield* enter(id)
      if (entered === null) return
      const work = Effect.gen(function*() {
        const job = yield* Effect.retry(store.get(id), { schedule: Schedule.spaced(databasePause) })
        if (job === null || isEnded(job.state)) return
        const next = step(stateOf(job), { _tag: "Restarted" }, yield* Clock.currentTimeMillis)
        if (next !== null) yield* conduct(job, next, entered)
      })
      yield* drive(id, entered, work)
    }).pipe(Effect.uninterruptible)

  const progressOf = Effect.fnUntraced(function*(job: JobRow) {
    const { bytesDone, bytesTotal, segmentsDone, segmentsTotal } = yield* store.totals(job.id)
    const nowMs = yield* Clock.currentTimeMillis
    const rateBps = job.state === "transferring" ? meterOf(job.id).rateBps(nowMs) : null
    const left = (bytesTotal - bytesDone) * 8_000
    return {
      state: job.state,
      segmentsDone,
      segmentsTotal,
      bytesDone,
      bytesTotal,
      rateBps,
      estimatedEnd: rateBps === null || rateBps === 0 ? null : Math.round(nowMs + left / rateBps),
      reason: job.reason,
    } satisfies RecordBackProgress
  })
  const jobOf = Effect.fnUntraced(function*(job: JobRow) {
    return {
      id: job.id,
      homeNodeId: job.homeNodeId,
      servingNodeId: nodeId,
      ...yield* progressOf(job),
      attempt: job.attempt,
      nextAttemptAt: job.dueMs,
      createdAt: job.createdMs,
      endedAt: job.endedMs,
    } satisfies RecordBackJob
  })
  const find = Effect.fnUntraced(function*(id: string) {
    return (yield* store.get(id)) ?? (yield* new RecordBackNotFound({ id }))
  })

  /** Whether that had a meaning; null: it ended before it heard. */
  const tell = Effect.fnUntraced(function*({ inbox, left }: Running, event: JobEvent) {
    const reply = yield* Deferred.make<boolean>()
    const heard = Effect.andThen(Queue.offer(inbox, { event, reply }), Deferred.await(reply))
    return yield* Effect.raceFirst(heard, Effect.as(Deferred.await(left), null))
  })

  /** What an administrator asks, of a job that has ended; null: it runs again. */
  const reopen = (id: string, event: JobEvent) =>
    Effect.uninterruptibleMask((restore) =>
      Effect.gen(function*() {
        const entered = yield* enter(id)
        if (entered === null) return null
        const begin = Effect.gen(function*() {
          const job = yield* find(id)
          const next = step(stateOf(job), event, yield* Clock.currentTimeMillis)
          if (next === null) return null
          if (event._tag === "Retry") yield* store.again(id)
          yield* store.change(id, { ...next.state, state: next.state.phase }, null)
          return { job, next }
        })
        const begun = yield* Effect.onError(restore(begin), () => leave(id, entered))
        yield* begun === null ? leave(id, entered) : drive(id, entered, conduct(begun.job, begun.next, entered))
        return begun !== null
      })
    )

  /** What an administrator asks, of a job that runs or has ended. */
  const ask = Effect.fnUntraced(function*(id: string, event: JobEvent, asked: string) {
    yield* find(id)
    let heard: boolean | null = null
    while (heard === null) {
      const runs = running.get(id)
      heard = yield* runs === undefined ? reopen(id, event) : tell(runs, event)
    }
    const job = yield* find(id)
    return heard ? yield* jobOf(job) : yield* new RecordBackStateConflict({ id, state: job.state, asked })
  })

  // Invariant 1.
  yield* store.open(nodeId).pipe(
    Effect.retry(Schedule.spaced(databasePause)),
    Effect.flatMap((jobs) => Effect.forEach(jobs, ({ id }) => resume(id), { discard: true })),
    Effect.forkIn(scope),
  )

  const backs = RecordBacks.of({
    begin: Effect.fn("RecordBacks.begin")(function*({ firstEpoch, homeNodeId, lastEpoch, rerouteId: id, slot }) {
      yield* store.add({ id, homeNodeId, slot, firstEpoch, lastEpoch }, nodeId, yield* Clock.currentTimeMillis)
      yield* resume(id)
    }),
    progressOf: (id) => Effect.flatMap(store.get(id), (job) => job === null ? Effect.succeed(null) : progressOf(job)),
    isOver: Effect.fnUntraced(function*(id) {
      const state = (yield* store.get(id))?.state
      return state === "done" || (state === "partial" && (yield* planner.gone(id)))
    }),
    changes: () => Effect.succeed(Stream.fromPubSub(changes)),
  })
  const jobs = RecordBackJobs.of({
    list: Effect.fnUntraced(function*(request: PageRequest) {
      const after = yield* listCursor.decode(request.cursor)
      const rows = yield* store.list(nodeId, after, request.limit + 1)
      const page = pageFrom({
        rows,
        limit: request.limit,
        cursor: listCursor,
        position: ({ id }) => id,
        item: (job) => job,
      })
      return { ...page, items: yield* Effect.forEach(page.items, jobOf) }
    }),
    pause: (id) => ask(id, { _tag: "Pause" }, "be paused"),
    resume: (id) => ask(id, { _tag: "Resume" }, "be resumed"),
    retry: (id) => ask(id, { _tag: "Retry" }, "be retried"),
  })
  return Context.mergeAll(Context.make(RecordBacks, backs), Context.make(RecordBackJobs, jobs))
})

export const layer = (options: RecordBackOptions) => Layer.effectContext(make(options))
