/**
 * What every node keeps in memory of the database in order to decide without asking it: who holds which role, what roles
 * grant, which sessions ended, which addresses may manage. Here a slice says what it reads, and that it changed something.
 *
 * Invariants
 * 1. Whoever changed something of this calls {@link Trust.changed} after the change is committed and before he answers: then
 *    this node has read it again, so the change holds for the next request; the other nodes read within moments.
 * 2. Where a notice is lost (the connection broke, a node was away) everything is read again within two seconds all the same.
 * 3. What was read while the database could be reached stays valid while it cannot.
 */
import { Context, type Effect, type Scope } from "effect"
import type { SqlError } from "effect/sql"

export class Trust extends Context.Service<Trust, {
  /** Something was changed and committed: tells the other nodes, and reads again on this one. Never fails: see invariant 2. */
  readonly changed: Effect.Effect<void>
  /** Reads again: for whoever came upon something that another node must have changed just now. Never fails. */
  readonly fresh: Effect.Effect<void>
  /** Reads now and, until the scope closes, after each change and every two seconds. Fails only if the first reading does. */
  readonly reads: <E>(
    what: string,
    read: Effect.Effect<void, E | SqlError.SqlError>,
  ) => Effect.Effect<void, E | SqlError.SqlError, Scope.Scope>
}>()("nightjar/actors/Trust") {}
