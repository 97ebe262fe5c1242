/**
 * Asking an entity that may be anywhere, or nowhere just now; and answering as one.
 *
 * Invariants
 * 1. An answer comes within the time limit; whatever the cluster itself has to say (no owner, its mailbox full, moved in
 *    mid-call) is `DependencyUnavailable`.
 * 2. A former owner answers that its entity is moving: who asks again reaches the new one.
 */
import { Acting, actingHeader, actingOf } from "#schema/acting.ts"
import type { ControlElsewhere } from "#schema/federation-failover.ts"
import type { StaleEpoch } from "#schema/ownership.ts"
import { DependencyUnavailable } from "#schema/problem.ts"
import { Duration, Effect } from "effect"
import type { ClusterError } from "effect/cluster"

/** Longer than an entity's own limit, so that the entity's word comes first. */
export const askLimit = Duration.seconds(15)

type ClusterFailure =
  | ClusterError.MailboxFull
  | ClusterError.AlreadyProcessingMessage
  | ClusterError.PersistenceError
  | ClusterError.EntityNotAssignedToRunner

const clusterFailures: ReadonlySet<string> = new Set(
  [
    "MailboxFull",
    "AlreadyProcessingMessage",
    "PersistenceError",
    "EntityNotAssignedToRunner",
  ] satisfies ReadonlyArray<ClusterFailure["_tag"]>,
)

const noOwner = () =>
  new DependencyUnavailable({
    dependency: "node",
    message: "The node that serves this does not answer; try again in a moment.",
  })

/** Runs a call of an entity's client. */
export const ask = <A, E extends { readonly _tag: string }, R>(
  call: Effect.Effect<A, E, R>,
): Effect.Effect<A, Exclude<E, ClusterFailure> | DependencyUnavailable, R> =>
  Effect.timeoutOrElse(call, { duration: askLimit, orElse: () => Effect.fail(noOwner()) }).pipe(
    Effect.catch((error): Effect.Effect<never, Exclude<E, ClusterFailure> | DependencyUnavailable> =>
      clusterFailures.has(error._tag) ? Effect.fail(noOwner()) : Effect.fail(error as Exclude<E, ClusterFailure>)
    ),
  )

/** What an entity answers on a node that does not serve it (any more). */
export const moving = (): DependencyUnavailable =>
  new DependencyUnavailable({ dependency: "node", message: "This is moving to another node; try again in a moment." })

/** For what is tried again by itself: another node has control now. */
export const later = <A, E extends { readonly _tag: string }, R>(
  work: Effect.Effect<A, E, R>,
): Effect.Effect<A, Exclude<E, ControlElsewhere> | DependencyUnavailable, R> =>
  work.pipe(
    Effect.catch((error): Effect.Effect<never, Exclude<E, ControlElsewhere> | DependencyUnavailable> =>
      error._tag === "ControlElsewhere" ? Effect.fail(moving()) : Effect.fail(error as Exclude<E, ControlElsewhere>)
    ),
  )

/** The work of an entity's handler, cut off at `limit`. */
export const serve = <A, E extends { readonly _tag: string }, R>(
  limit: Duration.Duration,
  work: Effect.Effect<A, E, R>,
): Effect.Effect<A, Exclude<E, StaleEpoch> | DependencyUnavailable, R> =>
  Effect.timeoutOrElse(work, {
    duration: limit,
    orElse: () =>
      Effect.fail(
        new DependencyUnavailable({ dependency: "database", message: "The owner did not answer in time; try again." }),
      ),
  }).pipe(Effect.catch((error): Effect.Effect<never, Exclude<E, StaleEpoch> | DependencyUnavailable> =>
    error._tag === "StaleEpoch" ? Effect.fail(moving()) : Effect.fail(error as Exclude<E, StaleEpoch>)
  ))

/** Handlers of an entity that know on whose behalf they are asked ({@link Acting}). */
export const onBehalf = <H extends Readonly<Record<string, unknown>>>(handlers: H): H =>
  Object.fromEntries(
    Object.entries(handlers).map(([tag, handler]) => {
      const handle = handler as (
        request: { readonly headers: Readonly<Record<string, string | undefined>> },
      ) => Effect.Effect<unknown>
      return [
        tag,
        (request: Parameters<typeof handle>[0]) =>
          Effect.provideService(handle(request), Acting, actingOf(request.headers[actingHeader])),
      ]
    }),
  ) as H
