/** What forms of the dashboard work out without a browser: the hours of a week, faults of input in words. */
import { toldFaults, unsentFaults } from "#http/web/faults.ts"
import { fullHours, hourKey, type Week, weekOf, wholeWeek, windowsOf } from "#http/web/week.ts"
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"

const sorted = (week: Week) => [...week].sort()

describe("the hours of a week", () => {
  it.prop("are the same as windows and back", [
    Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 7 * 24 - 1 }))),
  ], ([hours]) => {
    const week: Week = new Set(hours.map((hour) => hourKey(Math.floor(hour / 24), hour % 24)))
    assert.deepStrictEqual(sorted(weekOf(windowsOf(week))), sorted(week))
  })

  it("shares a window among days with the same hours", () => {
    assert.deepStrictEqual(windowsOf(wholeWeek).map(({ days, ...rest }) => [days.length, rest]), [
      [7, { start: "00:00", end: "24:00" }],
    ])
  })

  it("takes a window that ends before it begins into the next day, from Sunday into Monday", () => {
    const week = weekOf([{ days: ["sunday"], start: "22:00", end: "02:00" }])
    assert.deepStrictEqual(sorted(week), [hourKey(0, 0), hourKey(0, 1), hourKey(6, 22), hourKey(6, 23)])
  })

  it("tells a schedule that is finer than hours, and shows every hour that it touches", () => {
    const windows = [{ days: ["monday" as const], start: "08:30", end: "09:15" }]
    assert.isFalse(fullHours(windows))
    assert.deepStrictEqual(sorted(weekOf(windows)), [hourKey(0, 8), hourKey(0, 9)])
  })
})

describe("faults of input", () => {
  it("that the client found are told by field, patterns without the pattern", () => {
    const message = "Expected a string matching the RegExp ^a$\n  at [\"displayName\"]\n" +
      "Expected a value with a length of at least 1\n  at [\"channels\"][\"0\"][\"url\"]"
    assert.strictEqual(
      unsentFaults(message),
      "Display name: is not of the form that it must have; Channels 1 url: expected a value with a length of at least 1",
    )
    assert.strictEqual(unsentFaults("Something else"), "Something else")
  })

  it("that the node found are told by their pointer", () => {
    assert.strictEqual(
      toldFaults([{ pointer: "/payload/email", message: "Expected a mail address" }]),
      "Email: expected a mail address",
    )
  })
})
