/**
 * Writes what the recorder supervisor observes to the database, where every node reads it: one mechanism for streams and
 * recordings.
 *
 * Invariants
 * 1. What was missed (a slow moment, a database that was away) is written by the next round: each round compares everything
 *    with what was last written.
 * 2. What has no row yet (a recording that is being brought back from the disk) is not written, and tried again.
 * 3. At most one write in {@link quietTime}, whatever a camera does.
 */
import { RecorderSupervisor } from "#media/recorder.ts"
import type { DependencyUnavailable } from "#schema/problem.ts"
import { Duration, Effect, Schedule, type Scope, Stream } from "effect"

/** Pause after a write: a person sees a change within it, a camera that flaps costs two writes a second. */
const quietTime = Duration.millis(500)
/** All states are compared this often, for what no change told of. */
const compareEvery = Duration.seconds(10)

interface Observed<A> {
  /** For the log. */
  readonly what: string
  readonly seen: Effect.Effect<ReadonlyArray<A>>
  readonly idOf: (seen: A) => string
  /** Equal for what need not be written again. */
  readonly markOf: (seen: A) => string
  /** Answers the ids of those whose rows there are. */
  readonly write: (changed: ReadonlyArray<A>) => Effect.Effect<ReadonlySet<string>, DependencyUnavailable>
}

/** Follows the supervisor for as long as the scope is open. */
export const writeObserved = <A>(
  { idOf, markOf, seen, what, write }: Observed<A>,
): Effect.Effect<void, never, RecorderSupervisor | Scope.Scope> =>
  Effect.gen(function*() {
    const supervisor = yield* RecorderSupervisor
    const written = new Map<string, string>()
    const round = Effect.gen(function*() {
      const all = yield* seen
      const changed = all.filter((one) => written.get(idOf(one)) !== markOf(one))
      const done = changed.length > 0 ? yield* write(changed) : new Set<string>()
      const absent = new Set(changed.map(idOf).filter((id) => !done.has(id)))
      written.clear()
      for (const one of all) if (!absent.has(idOf(one))) written.set(idOf(one), markOf(one))
    }).pipe(
      // The next round writes it.
      Effect.catchTag("DependencyUnavailable", () => Effect.void),
      Effect.catchCause((cause) => Effect.logError(`The state of ${what} could not be written`, cause)),
    )
    yield* Stream.merge(supervisor.changes, Stream.fromSchedule(Schedule.spaced(compareEvery))).pipe(
      Stream.buffer({ capacity: 1, strategy: "sliding" }),
      Stream.runForEach(() => Effect.andThen(round, Effect.sleep(quietTime))),
      Effect.forkScoped,
    )
  })
