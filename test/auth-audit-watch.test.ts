/** The audit log is looked after: what a look finds is told, and all of it is looked at in turn. */
import * as Watch from "#actors/behaviour/auth-audit-watch.ts"
import { AuditLog } from "#actors/protocol/auth-audit.ts"
import { Events } from "#actors/protocol/event.ts"
import type { AuditVerification } from "#schema/auth-audit.ts"
import type { EventDraft } from "#schema/event.ts"
import { DependencyUnavailable } from "#schema/problem.ts"
import { assert, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { TestClock } from "effect/testing"

const length = 50_000
const partLength = 20_000

/** A log of `length` entries that is verified in parts, with one bad entry or none. */
const watched = (badAt: () => number | null, away: () => boolean = () => false) => {
  const asked: Array<number | null> = []
  const told: Array<EventDraft> = []
  const verify = ({ from }: { readonly from: number | null }) =>
    Effect.suspend((): Effect.Effect<AuditVerification, DependencyUnavailable> => {
      if (away()) return Effect.fail(new DependencyUnavailable({ dependency: "database", message: "away" }))
      asked.push(from)
      const first = from ?? 1
      const to = Math.min(length, first + partLength - 1)
      const bad = badAt()
      const fault = bad !== null && bad >= first && bad <= to ?
        { sequence: bad, id: null, reason: "missing" as const, explanation: "gone" } :
        null
      const next = to === length || fault !== null ? null : to + 1
      const head = { sequence: length, hash: "" }
      return Effect.succeed({
        intact: fault === null,
        complete: next === null,
        next,
        from: first,
        to,
        checked: to - first + 1,
        signedHeads: 0,
        head,
        fault,
      })
    })
  const layer = Watch.layer.pipe(
    Layer.provide(Layer.succeed(AuditLog, { verify } as unknown as AuditLog["Service"])),
    Layer.provide(Layer.succeed(Events, Events.of({ publish: (draft) => Effect.sync(() => void told.push(draft)) }))),
  )
  return { asked, told, layer }
}

it.effect("part by part, the newest entries each time, and from the start again", () => {
  const { asked, layer, told } = watched(() => null)
  return Effect.gen(function*() {
    yield* TestClock.adjust("3 hours")
    assert.deepStrictEqual(asked, [null, 40_000, 20_001, 40_000, 40_001, null, 40_000])
    assert.deepStrictEqual(told, [])
  }).pipe(Effect.provide(layer))
})

it.effect("what is found is told by one id, and what was done lately at the next look", () => {
  let bad: number | null = null
  const { layer, told } = watched(() => bad)
  return Effect.gen(function*() {
    yield* TestClock.adjust("10 minutes")
    bad = 49_000
    yield* TestClock.adjust("1 hour")
    assert.deepStrictEqual(told.map(({ type, subject, data }) => ({ type, subject, data })), [
      {
        type: "audit.tampered",
        subject: "49000",
        data: { sequence: 49_000, reason: "missing", explanation: "gone" },
      },
    ])
    yield* TestClock.adjust("3 hours")
    assert.strictEqual(new Set(told.map(({ id }) => id)).size, 1)
  }).pipe(Effect.provide(layer))
})

it.effect("goes on after the database was away", () => {
  let away = true
  const { asked, layer } = watched(() => null, () => away)
  return Effect.gen(function*() {
    yield* TestClock.adjust("2 hours")
    assert.deepStrictEqual(asked, [])
    away = false
    yield* TestClock.adjust("1 hour")
    assert.deepStrictEqual(asked, [null, 40_000])
  }).pipe(Effect.provide(layer))
})
