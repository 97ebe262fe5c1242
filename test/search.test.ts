/** The search service over made-up footage, and the arithmetic beneath it. */
import { dayInterval, monthDays } from "#actors/behaviour/search-calendar.ts"
import { clip, lengthOf, pixelGaps, pixelLength, pixelSpans, sessionsOf } from "#actors/behaviour/search-timeline.ts"
import { layer as searchLayer } from "#actors/behaviour/search.ts"
import { type Footage, Recordings } from "#actors/protocol/record.ts"
import { Search } from "#actors/protocol/search.ts"
import type { Interval } from "#schema/common.ts"
import { RecordingNotFound } from "#schema/record-config.ts"
import type { Gap, GapCause, Span } from "#schema/record.ts"
import { CalendarDate, TimeZoneName } from "#schema/search.ts"
import { nodeId, recordingId, recordingToken } from "#test/fixtures/footage.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Schema } from "effect"
import { TestClock } from "effect/testing"

const t0 = Date.parse("2026-03-01T12:00:00.000Z")
const second = 1000
const hour = 3_600_000

const span = (start: number, end: number, epoch = 1): Span => ({ start, end, kind: "continuous", nodeId, epoch })
const gap = (start: number, end: number, cause: GapCause = "camera_offline"): Gap => ({ start, end, cause })

/** Answers `footage` by clipping what `now` says; everything else is not asked. */
const recordings = (now: () => { readonly spans: ReadonlyArray<Span>; readonly gaps: ReadonlyArray<Gap> }) =>
  Layer.succeed(
    Recordings,
    {
      footage: (token, interval): Effect.Effect<Footage, RecordingNotFound> =>
        token === recordingToken ?
          Effect.succeed({
            recordingId,
            recordingToken,
            expected: interval,
            spans: clip(now().spans, interval),
            gaps: clip(now().gaps, interval),
          }) :
          Effect.fail(new RecordingNotFound({ id: token })),
    } as Recordings["Service"],
  )

const searching = (now: () => { readonly spans: ReadonlyArray<Span>; readonly gaps: ReadonlyArray<Gap> }) =>
  searchLayer.pipe(Layer.provide(recordings(now)))

const day = { start: t0, end: t0 + 24 * hour }

describe("timelines", () => {
  it.effect("tell spans and gaps, and refuse what is no interval", () =>
    Effect.gen(function*() {
      const search = yield* Search
      const timeline = yield* search.timeline(recordingToken, { start: t0 + hour, end: t0 + 3 * hour })
      assert.deepStrictEqual(timeline.spans, [span(t0 + hour, t0 + 2 * hour)])
      assert.deepStrictEqual(timeline.gaps, [gap(t0 + 2 * hour, t0 + 3 * hour)])
      const backwards = yield* Effect.flip(search.timeline(recordingToken, { start: t0, end: t0 }))
      assert.strictEqual(backwards._tag, "InvalidInput")
      const endless = yield* Effect.flip(search.timeline(recordingToken, { start: 0, end: t0 }))
      assert.strictEqual(endless._tag, "InvalidInput")
    }).pipe(
      Effect.provide(
        searching(() => ({ spans: [span(t0, t0 + 2 * hour)], gaps: [gap(t0 + 2 * hour, t0 + 4 * hour)] })),
      ),
    ))

  const Lengths = Schema.Array(Schema.Struct({
    ms: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 400_000 })),
    what: Schema.Literals(["span", "gap", "other gap"]),
  })).check(Schema.isMaxLength(60))

  it.effect.prop("for a viewport hold every moment and no more than a pixel beyond it", [
    Lengths,
    Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 400 })),
  ], ([lengths, pixels]) =>
    Effect.sync(() => {
      let at = t0
      const spans: Array<Span> = []
      const gaps: Array<Gap> = []
      for (const { ms, what } of lengths) {
        if (what === "span") spans.push(span(at, at + ms))
        else gaps.push(gap(at, at + ms, what === "gap" ? "camera_offline" : "node_down"))
        at += ms
      }
      const view = { start: t0 + 1234, end: t0 + 7_234_567 }
      const pixelMs = pixelLength(view, pixels)
      const shownSpans = pixelSpans(spans, view, pixelMs)
      const shownGaps = pixelGaps(gaps, view, pixelMs)
      const pairs: ReadonlyArray<readonly [ReadonlyArray<Interval>, ReadonlyArray<Interval>]> = [
        [clip(spans, view), shownSpans],
        [clip(gaps, view), shownGaps],
      ]
      for (const [real, shown] of pairs) {
        assert.isAtMost(shown.length, pixels)
        for (const [i, one] of shown.entries()) {
          assert.isBelow(one.start, one.end)
          assert.isTrue(i === 0 || shown[i - 1]!.end <= one.start, "in order, without overlap")
          assert.isTrue((one.start - view.start) % pixelMs === 0)
          assert.isTrue((one.end - view.start) % pixelMs === 0 || one.end === view.end)
          assert.isTrue(
            real.some((it) => it.start < one.start + pixelMs && it.end > one.start),
            "begins with something real",
          )
        }
        for (const it of real) {
          assert.strictEqual(lengthOf(clip(shown, it)), it.end - it.start, "nothing real is left out")
        }
      }
      assert.strictEqual(shownGaps.reduce((sum, one) => sum + one.missingMs, 0), lengthOf(clip(gaps, view)))
      assert.strictEqual(shownGaps.reduce((sum, one) => sum + one.count, 0), clip(gaps, view).length)
    }))

  it.effect("for a viewport never lose a short gap", () =>
    Effect.gen(function*() {
      const search = yield* Search
      const range = yield* search.timelineRange(recordingToken, day, 100)
      assert.strictEqual(range.pixelMs, 864_000)
      assert.deepStrictEqual(range.spans, [span(day.start, day.end)])
      assert.deepStrictEqual(range.gaps, [{
        start: t0,
        end: t0 + 864_000,
        cause: "packet_loss",
        count: 1,
        missingMs: 40,
      }])
    }).pipe(Effect.provide(searching(() => ({
      spans: [span(t0, t0 + 5 * second), span(t0 + 5 * second + 40, day.end)],
      gaps: [gap(t0 + 5 * second, t0 + 5 * second + 40, "packet_loss")],
    })))))
})

describe("updates", () => {
  it.effect("tell the present again, and start over when the past changed", () => {
    let state = { spans: [span(t0, t0 + hour)], gaps: [] as Array<Gap> }
    return Effect.gen(function*() {
      const search = yield* Search
      yield* TestClock.setTime(t0 + hour)
      const first = yield* search.timelineUpdates(recordingToken, { start: t0 - hour, cursor: null })
      assert.isTrue(first.reset)
      assert.deepStrictEqual(first.spans, state.spans)
      assert.strictEqual(first.start, t0 - hour)

      yield* TestClock.setTime(t0 + hour + 10 * second)
      state = {
        spans: [span(t0, t0 + hour + 2 * second)],
        gaps: [gap(t0 + hour + 2 * second, t0 + hour + 10 * second)],
      }
      const second_ = yield* search.timelineUpdates(recordingToken, { start: null, cursor: first.cursor })
      assert.isFalse(second_.reset)
      assert.strictEqual(second_.start, t0 + hour - 60 * second)
      assert.deepStrictEqual(second_.spans, [span(t0 + hour - 60 * second, t0 + hour + 2 * second)])
      assert.deepStrictEqual(second_.gaps, state.gaps)

      state = { ...state, spans: [span(t0 + 10 * second, t0 + hour + 2 * second)] }
      const third = yield* search.timelineUpdates(recordingToken, { start: null, cursor: second_.cursor })
      assert.isTrue(third.reset)
      assert.strictEqual(third.start, t0 - hour)
      assert.deepStrictEqual(third.spans, state.spans)

      const wrong = yield* Effect.flip(search.timelineUpdates(recordingToken, { start: null, cursor: "nonsense" }))
      assert.strictEqual(wrong._tag, "InvalidCursor")
    }).pipe(Effect.provide(searching(() => state)))
  })
})

describe("sessions", () => {
  it("join what touches, whoever recorded it", () => {
    assert.deepStrictEqual(sessionsOf([span(0, 10), span(10, 20, 2), span(25, 30), span(30, 31), span(40, 41)]), [
      { start: 0, end: 20, durationMs: 20 },
      { start: 25, end: 31, durationMs: 6 },
      { start: 40, end: 41, durationMs: 1 },
    ])
  })

  it.effect("come in pages", () =>
    Effect.gen(function*() {
      const search = yield* Search
      const starts: Array<number> = []
      let cursor: string | null = null
      do {
        const page: { items: ReadonlyArray<{ start: number }>; nextCursor: string | null } = yield* search.sessions(
          recordingToken,
          day,
          {
            limit: 2,
            cursor,
          },
        )
        assert.isAtMost(page.items.length, 2)
        starts.push(...page.items.map((item) => (item.start - t0) / hour))
        cursor = page.nextCursor
      } while (cursor !== null)
      assert.deepStrictEqual(starts, [0, 2, 4, 6, 8])
    }).pipe(Effect.provide(searching(() => ({
      spans: [0, 2, 4, 6, 8].map((h) => span(t0 + h * hour, t0 + (h + 1) * hour)),
      gaps: [],
    })))))
})

describe("calendars", () => {
  it("know days of 23, 24 and 25 hours, midnights that do not exist, and days that never were", () => {
    const hours = (date: string, zone: string) => lengthOf([dayInterval(date, zone)]) / hour
    assert.strictEqual(hours("2026-03-29", "Europe/Berlin"), 23)
    assert.strictEqual(hours("2026-10-25", "Europe/Berlin"), 25)
    assert.strictEqual(hours("2026-06-01", "Europe/Berlin"), 24)
    assert.strictEqual(hours("2026-10-04", "Australia/Lord_Howe"), 23.5)
    // Clocks went from 24:00 to 01:00: the day begins at 01:00.
    assert.strictEqual(
      new Date(dayInterval("2018-11-04", "America/Sao_Paulo").start).toISOString(),
      "2018-11-04T03:00:00.000Z",
    )
    assert.strictEqual(hours("2018-11-04", "America/Sao_Paulo"), 23)
    // Clocks went from 24:00 back to 23:00 of the same day.
    assert.strictEqual(hours("2018-02-17", "America/Sao_Paulo"), 25)
    // Clocks went from 01:00 back to 00:00: midnight came twice, the first counts.
    assert.strictEqual(hours("2026-11-01", "America/Havana"), 25)
    assert.strictEqual(hours("2011-12-30", "Pacific/Apia"), 0)
  })

  it("cut a month into days without rest", () => {
    for (
      const [month, zone] of [
        ["2026-03", "Europe/Berlin"],
        ["2018-11", "America/Sao_Paulo"],
        ["2011-12", "Pacific/Apia"],
        ["2024-02", "UTC"],
        ["2026-11", "America/Havana"],
      ] as const
    ) {
      const days = monthDays(month, zone)
      for (let i = 1; i < days.length; i++) {
        assert.strictEqual(days[i]!.start, days[i - 1]!.end, `${zone} ${days[i]!.date}`)
      }
    }
    assert.strictEqual(monthDays("2024-02", "UTC").length, 29)
  })

  it.effect("count what was recorded on each date of the zone", () =>
    Effect.gen(function*() {
      const search = yield* Search
      const month = yield* search.calendarMonth(recordingToken, "2026-03", "Asia/Tokyo")
      assert.deepStrictEqual(month.dates.map((one) => [one.date, one.recordedMs / hour, one.missingMs / hour]), [
        ["2026-03-01", 3, 0],
        ["2026-03-02", 1, 2],
      ])
      const day = yield* search.calendarDay(recordingToken, "2026-03-02", "Asia/Tokyo")
      assert.strictEqual(new Date(day.start).toISOString(), "2026-03-01T15:00:00.000Z")
      assert.deepStrictEqual(day.spans, [span(t0 + 3 * hour, t0 + 4 * hour)])
      assert.strictEqual(day.missingMs, 2 * hour)
    }).pipe(
      Effect.provide(
        searching(() => ({ spans: [span(t0, t0 + 4 * hour)], gaps: [gap(t0 + 4 * hour, t0 + 6 * hour)] })),
      ),
    ))

  it("accept dates and zones that exist", () => {
    const valid = (schema: Schema.Schema<string>, text: string) => Schema.is(schema)(text)
    assert.isTrue(valid(CalendarDate, "2024-02-29"))
    assert.isFalse(valid(CalendarDate, "2026-02-29"))
    assert.isFalse(valid(CalendarDate, "2026-2-9"))
    assert.isTrue(valid(TimeZoneName, "America/Argentina/Buenos_Aires"))
    assert.isTrue(valid(TimeZoneName, "UTC"))
    assert.isFalse(valid(TimeZoneName, "+09:00"))
    assert.isFalse(valid(TimeZoneName, "Europe/Atlantis"))
  })
})
