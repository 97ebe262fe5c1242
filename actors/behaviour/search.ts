/**
 * The search service: timelines, calendars and sessions, computed from the footage of a recording each time they are asked.
 *
 * Invariants
 * 1. Updates are exact without a change log: the cursor holds a fingerprint of all that it stands for, and where that
 *    changed the answer starts over (`reset`).
 * 2. Answers are bounded: intervals by `longestIntervalMs`, pixels by their schema, pages by their limit.
 */
import { type Footage, Recordings } from "#actors/protocol/record.ts"
import { longestIntervalMs, Search } from "#actors/protocol/search.ts"
import { EpochMs, type Interval, type RecordingToken } from "#schema/common.ts"
import { cursorOf, pageFrom } from "#schema/cursor.ts"
import { InvalidInput } from "#schema/problem.ts"
import { Clock, Effect, Layer, Schema } from "effect"
import { createHash } from "node:crypto"
import { datesOf, dayInterval, monthDays } from "./search-calendar.ts"
import { clip, lengthOf, pixelGaps, pixelLength, pixelSpans, sessionsOf } from "./search-timeline.ts"

/** Footage this young may still change: it grows, and gaps are told when they end. */
const unsettledMs = 60_000
/** What updates give when they are asked for the first time without a start. */
const defaultUpdateMs = 86_400_000

const sessionCursor = cursorOf("sessions", EpochMs)
const updateCursor = cursorOf("timeline", Schema.Struct({ start: EpochMs, until: EpochMs, print: Schema.String }))

const checked = (interval: Interval): Effect.Effect<Interval, InvalidInput> => {
  if (interval.end <= interval.start) return Effect.fail(InvalidInput.at("/query/end", "must lie after the start"))
  if (interval.end - interval.start > longestIntervalMs) {
    return Effect.fail(
      InvalidInput.at("/query/end", `must lie at most ${longestIntervalMs / 86_400_000} days after the start`),
    )
  }
  return Effect.succeed(interval)
}

/** Tells two states of an interval apart. */
const printOf = ({ gaps, spans }: Pick<Footage, "spans" | "gaps">, within: Interval): string => {
  const hash = createHash("sha1")
  for (const span of clip(spans, within)) {
    hash.update(`s${span.start},${span.end},${span.kind},${span.nodeId},${span.epoch};`)
  }
  for (const gap of clip(gaps, within)) hash.update(`g${gap.start},${gap.end},${gap.cause};`)
  return hash.digest("base64url")
}

const updates = (recordings: Recordings["Service"]): Search["Service"]["timelineUpdates"] =>
  Effect.fnUntraced(function*(token, from) {
    const known = yield* updateCursor.decode(from.cursor)
    const now = yield* Clock.currentTimeMillis
    const start = known?.start ?? from.start ?? now - defaultUpdateMs
    const whole = yield* checked({ start, end: Math.max(now, known?.until ?? now) })
    const footage = yield* recordings.footage(token, whole)
    const unchanged = known !== null && printOf(footage, { start, end: known.until }) === known.print
    const shown = { start: unchanged ? known.until : start, end: whole.end }
    const until = Math.max(start, whole.end - unsettledMs)
    return {
      recordingToken: token,
      reset: !unchanged,
      ...shown,
      spans: clip(footage.spans, shown),
      gaps: clip(footage.gaps, shown),
      cursor: updateCursor.encode({ start, until, print: printOf(footage, { start, end: until }) }),
    }
  })

const calendar = (
  footageOf: (token: RecordingToken, interval: Interval) => ReturnType<Recordings["Service"]["footage"]>,
) => {
  const calendarDay: Search["Service"]["calendarDay"] = Effect.fnUntraced(function*(token, date, timeZone) {
    const day = dayInterval(date, timeZone)
    const { gaps, spans } = yield* footageOf(token, day)
    return {
      recordingToken: token,
      date,
      timeZone,
      ...day,
      recordedMs: lengthOf(spans),
      missingMs: lengthOf(gaps),
      spans,
      gaps,
    }
  })

  const calendarMonth: Search["Service"]["calendarMonth"] = Effect.fnUntraced(function*(token, month, timeZone) {
    const days = monthDays(month, timeZone)
    const whole = { start: days[0]?.start ?? 0, end: days.at(-1)?.end ?? 0 }
    return { recordingToken: token, month, timeZone, dates: datesOf(days, yield* footageOf(token, whole)) }
  })
  return { calendarDay, calendarMonth }
}

export const layer: Layer.Layer<Search, never, Recordings> = Layer.effect(
  Search,
  Effect.gen(function*() {
    const recordings = yield* Recordings

    /** A day that a zone skipped has no footage, but the recording must exist all the same. */
    const footageOf = (token: RecordingToken, interval: Interval) =>
      interval.end > interval.start ?
        recordings.footage(token, interval) :
        Effect.map(recordings.footage(token, { start: interval.start, end: interval.start + 1 }), (footage) => ({
          ...footage,
          expected: null,
          spans: [],
          gaps: [],
        }))

    return Search.of({
      timeline: Effect.fnUntraced(function*(token, asked) {
        const interval = yield* checked(asked)
        const { gaps, spans } = yield* recordings.footage(token, interval)
        return { recordingToken: token, ...interval, spans, gaps }
      }),

      timelineRange: Effect.fnUntraced(function*(token, asked, pixels) {
        const view = yield* checked(asked)
        const { gaps, spans } = yield* recordings.footage(token, view)
        const pixelMs = pixelLength(view, pixels)
        return {
          recordingToken: token,
          ...view,
          pixelMs,
          spans: pixelSpans(spans, view, pixelMs),
          gaps: pixelGaps(gaps, view, pixelMs),
        }
      }),

      timelineUpdates: updates(recordings),
      ...calendar(footageOf),

      sessions: Effect.fnUntraced(function*(token, asked, page) {
        const interval = yield* checked(asked)
        const after = yield* sessionCursor.decode(page.cursor)
        const { spans } = yield* recordings.footage(token, interval)
        return pageFrom({
          rows: sessionsOf(spans).filter((session) => after === null || session.start > after),
          limit: page.limit,
          cursor: sessionCursor,
          position: (session) => session.start,
          item: (session) => session,
        })
      }),
    })
  }),
)
