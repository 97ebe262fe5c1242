/**
 * The search service: what was recorded when, as timelines and calendars. Events, metadata and persons are not here yet.
 */
import { Instant, Page, RecordingToken } from "#schema/common.ts"
import { InvalidCursor, InvalidInput } from "#schema/problem.ts"
import { RecordingNotFound } from "#schema/record-config.ts"
import {
  CalendarDate,
  CalendarDay,
  CalendarMonth,
  CalendarMonthDates,
  Pixels,
  RecordedSession,
  Timeline,
  TimelineRange,
  TimelineUpdates,
  TimeZoneName,
} from "#schema/search.ts"
import { Effect, Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { access, AccessControl, Conventions } from "./access.ts"
import { pageQuery } from "./conventions.ts"
import { problems } from "./errors.ts"

const params = { recordingToken: RecordingToken }
const interval = { start: Instant, end: Instant }
const timeZone = TimeZoneName.pipe(Schema.withDecodingDefaultKey(Effect.succeed("UTC")))
const base = "/search/api/v1/recordings/:recordingToken"

const doc = (summary: string, description: string) => OpenApi.annotations({ summary, description })

export class SearchGroup extends HttpApiGroup.make("search")
  .add(
    HttpApiEndpoint.get("timeline", `${base}/timeline`, {
      params,
      query: interval,
      success: Timeline,
      error: problems(RecordingNotFound, InvalidInput),
    }).annotateMerge(
      access("recording:search", { on: { kind: "recordingToken", param: "recordingToken" }, orPeer: true }),
    )
      .annotateMerge(
        doc(
          "Get the timeline",
          "Spans recorded and gaps with their causes; together they are what was expected. At most 400 days.",
        ),
      ),
    HttpApiEndpoint.get("timelineRange", `${base}/timeline/range`, {
      params,
      query: { ...interval, pixels: Pixels.pipe(Schema.withDecodingDefaultKey(Effect.succeed(1_000))) },
      success: TimelineRange,
      error: problems(RecordingNotFound, InvalidInput),
    }).annotateMerge(
      access("recording:search", { on: { kind: "recordingToken", param: "recordingToken" }, orPeer: true }),
    )
      .annotateMerge(
        doc(
          "Get the timeline for a viewport range",
          "Rounded outwards to `pixels` columns (1 to 10,000, 1,000 if left out), so that its size does not depend on the footage. " +
            "A gap never vanishes: a pixel with pictures and a gap is in both lists.",
        ),
      ),
    HttpApiEndpoint.get("timelineUpdates", `${base}/timeline/updates`, {
      params,
      query: { start: Schema.optionalKey(Instant), cursor: pageQuery.cursor },
      success: TimelineUpdates,
      error: problems(RecordingNotFound, InvalidInput, InvalidCursor),
    }).annotateMerge(access("recording:search", { on: { kind: "recordingToken", param: "recordingToken" } }))
      .annotateMerge(
        doc(
          "Get incremental timeline updates",
          "First without `cursor`: everything from `start` (24 hours ago if left out) to now. Then with the cursor of the answer " +
            "before: replace what you have from the answer's `start` on. `reset` tells that earlier parts changed too.",
        ),
      ),
    HttpApiEndpoint.get("calendarDay", `${base}/calendar/day`, {
      params,
      query: { date: CalendarDate, timeZone },
      success: CalendarDay,
      error: problems(RecordingNotFound, InvalidInput),
    }).annotateMerge(access("recording:search", { on: { kind: "recordingToken", param: "recordingToken" } }))
      .annotateMerge(
        doc(
          "Recorded intervals of a day",
          "The day of the time zone (IANA name, UTC if left out), which may have 23 or 25 hours.",
        ),
      ),
    HttpApiEndpoint.get("calendarMonth", `${base}/calendar/month`, {
      params,
      query: { month: CalendarMonth, timeZone },
      success: CalendarMonthDates,
      error: problems(RecordingNotFound, InvalidInput),
    }).annotateMerge(access("recording:search", { on: { kind: "recordingToken", param: "recordingToken" } }))
      .annotateMerge(doc("Dates with recordings in a month", "`month` is YYYY-MM; dates are those of the time zone.")),
    HttpApiEndpoint.get("sessions", `${base}/sessions`, {
      params,
      query: { ...interval, ...pageQuery },
      success: Page(RecordedSession),
      error: problems(RecordingNotFound, InvalidInput, InvalidCursor),
    }).annotateMerge(access("recording:search", { on: { kind: "recordingToken", param: "recordingToken" } }))
      .annotateMerge(
        doc("List sessions of a recording", "Footage without interruption, cut to the interval, by start."),
      ),
  )
  .middleware(Conventions)
  .middleware(AccessControl)
  .annotateMerge(OpenApi.annotations({ title: "Search", description: "What was recorded when." }))
{}
