/** Handlers of the search group: from the contract to {@link Search}, and nothing else. */
import { Search } from "#actors/protocol/search.ts"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { nightjar, pageRequest } from "../contract/conventions.ts"
import { SearchGroup } from "../contract/search.ts"

export const SearchHandlers = HttpApiBuilder.group(
  nightjar.add(SearchGroup),
  "search",
  Effect.fnUntraced(function*(handlers) {
    const search = yield* Search
    return handlers
      .handle("timeline", ({ params, query }) => search.timeline(params.recordingToken, query))
      .handle("timelineRange", ({ params, query }) => search.timelineRange(params.recordingToken, query, query.pixels))
      .handle("timelineUpdates", ({ params, query }) =>
        search.timelineUpdates(params.recordingToken, { start: query.start ?? null, cursor: query.cursor ?? null }))
      .handle("calendarDay", ({ params, query }) =>
        search.calendarDay(params.recordingToken, query.date, query.timeZone))
      .handle("calendarMonth", ({ params, query }) =>
        search.calendarMonth(params.recordingToken, query.month, query.timeZone))
      .handle("sessions", ({ params, query }) =>
        search.sessions(params.recordingToken, query, pageRequest(query)))
  }),
)
