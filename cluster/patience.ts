/** Waiting for work that may not let itself be interrupted: a query that a hung server never answers, a call into a hung disk. */
import { type Duration, Effect, Fiber, type Option } from "effect"

/**
 * Its result, or nothing after `limit`. The work is interrupted then, but not waited for; whoever calls this often bounds how
 * much of it there can be.
 */
export const atMost = <A, E, R>(
  work: Effect.Effect<A, E, R>,
  limit: Duration.Input,
): Effect.Effect<Option.Option<A>, E, R> =>
  Effect.flatMap(
    Effect.forkDetach(work),
    (fiber) =>
      Fiber.join(fiber).pipe(Effect.timeoutOption(limit), Effect.ensuring(Effect.sync(() => fiber.interruptUnsafe()))),
  )
