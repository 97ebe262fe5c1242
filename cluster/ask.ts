/**
 * Asking an entity that may be anywhere, or nowhere just now.
 *
 * Invariants
 * 1. An answer comes within the time limit; whatever the cluster itself has to say (no owner, its mailbox full, moved in
 *    mid-call) is `DependencyUnavailable`.
 */
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
