/**
 * Looks after the audit log by itself: a log that was tampered with is told to whoever may read it, not only to whoever asks.
 *
 * Invariants
 * 1. Each node goes round the whole chain again and again, one part ({@link AuditLog} bounds it) an hour: the part that begins
 *    where the last one ended, and the part with the newest entries.
 * 2. One fault is told once, by whichever node finds it first: its event has one id.
 */
import { AuditLog } from "#actors/protocol/auth-audit.ts"
import { Events } from "#actors/protocol/event.ts"
import type { AuditFault } from "#schema/auth-audit.ts"
import { Effect, Layer, Schedule } from "effect"
import { chore } from "./chore.ts"

const lookEvery = "1 hour"
/** Entries before the newest that each look sees, whatever else it sees: what was done lately is found within the hour. */
const newest = 10_000

const make = Effect.gen(function*() {
  const [log, events] = yield* Effect.all([AuditLog, Events])
  let from: number | null = null

  const tell = ({ explanation, reason, sequence }: AuditFault) =>
    events.publish({
      type: "audit.tampered",
      id: `audit.tampered/${sequence}/${reason}`,
      subject: String(sequence),
      resource: [],
      data: { sequence, reason, explanation },
    })

  const look = Effect.gen(function*() {
    const part = yield* log.verify({ from, to: null })
    from = part.next
    if (part.fault !== null) return yield* tell(part.fault)
    if (part.complete) return
    const recent = yield* log.verify({ from: Math.max(1, part.head.sequence - newest), to: null })
    if (recent.fault !== null) yield* tell(recent.fault)
  })

  yield* Effect.forkScoped(Effect.repeat(chore("Looking after the audit log", look), Schedule.spaced(lookEvery)))
})

export const layer = Layer.effectDiscard(make)
