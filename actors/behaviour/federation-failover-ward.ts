/**
 * One protection as its fiber drives it: events go into the state machine, its state goes on record, its commands are carried out.
 *
 * Invariants
 * 1. One event at a time; the state is on record before a command of it is carried out. Where it cannot be recorded the state stays as it
 *    was, and what follows from time alone is given again with the next tick.
 * 2. The outcome of a command is told until it is on record.
 */
import type { FailoverStore, ProtectionRow } from "#actors/store/federation-failover.ts"
import { Protection, type ProtectionCommand, type ProtectionEvent } from "#cluster/protection-state.ts"
import { step } from "#cluster/protection.ts"
import type { DependencyUnavailable } from "#schema/problem.ts"
import { Effect, Schedule, Schema, Semaphore } from "effect"
import { monotonicMs } from "./federation-failover-heartbeat.ts"

const encodeState = Schema.encodeSync(Schema.toCodecJson(Protection))

/** Told twice a second and more; what they change is known again a moment after a restart. */
const passing: ReadonlySet<ProtectionEvent["type"]> = new Set([
  "tick",
  "heartbeat",
  "answered",
  "homeAsked",
  "settings",
])

/** So often at most it goes on record that the home node was heard. */
const heardEveryMs = 5_000

export interface Ward {
  readonly state: () => Protection
  /** As it is on record; parts of it change by their own writes. */
  readonly row: () => ProtectionRow
  readonly change: (change: Partial<ProtectionRow>) => void
  readonly tell: (event: ProtectionEvent) => Effect.Effect<void, DependencyUnavailable>
  /** Until it is on record. */
  readonly outcome: (event: ProtectionEvent) => Effect.Effect<void>
  /** Last sign of the home node, by this node's wall clock, a few seconds old where a process before heard it; null: never. */
  readonly heardMs: () => number | null
  readonly heard: (wallMs: number) => Effect.Effect<void>
}

export const makeWard = Effect.fnUntraced(
  function*(
    kept: ProtectionRow,
    begin: Protection,
    store: FailoverStore["Service"],
    carryOut: (ward: Ward, command: ProtectionCommand) => Effect.Effect<void>,
  ) {
    const one = yield* Semaphore.make(1)
    const scope = yield* Effect.scope
    let row = kept
    let state = begin
    let { heardMs } = kept
    /** On record. */
    let keptMs = heardMs ?? 0

    const tell = (event: ProtectionEvent): Effect.Effect<void, DependencyUnavailable> =>
      one.withPermits(1)(
        Effect.gen(function*() {
          const next = step(state, event, yield* monotonicMs)
          if (next.commands.length > 0 || next.state.tag !== state.tag || !passing.has(event.type)) {
            yield* store.setState(row.id, encodeState(next.state))
            row = { ...row, version: row.version + 1 }
          }
          state = next.state
          for (const command of next.commands) {
            yield* Effect.forkIn(
              carryOut(ward, command).pipe(
                Effect.catchCause((cause) =>
                  Effect.logError("A command of a protection failed", { command: command.type, cause })
                ),
              ),
              scope,
            )
          }
        }).pipe(Effect.uninterruptible),
      )
    const ward: Ward = {
      state: () => state,
      row: () => row,
      change: (change) => {
        row = { ...row, ...change }
      },
      tell,
      outcome: (event) => Effect.orDie(Effect.retry(tell(event), Schedule.spaced("1 second"))),
      heardMs: () => heardMs,
      heard: (wallMs) =>
        Effect.suspend(() => {
          heardMs = wallMs
          if (Math.abs(wallMs - keptMs) < heardEveryMs) return Effect.void
          keptMs = wallMs
          return Effect.ignore(store.setHeard(row.id, wallMs))
        }),
    }
    return ward
  },
)
