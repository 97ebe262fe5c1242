/**
 * The service `Federated`: what other nodes show through this one, put together.
 *
 * Invariants
 * 1. An answer that other nodes contribute to comes within their time limit, and names each of them.
 */
import { Federated } from "#actors/protocol/bff-federation.ts"
import type { FederatedCalendar, FederatedTimeline } from "#schema/bff-federation.ts"
import { InvalidInput } from "#schema/problem.ts"
import { Effect, Layer } from "effect"
import { ChannelMapping } from "./bff-mapping.ts"
import { makeReplay } from "./bff-replay.ts"
import { datesOf, monthDays } from "./search-calendar.ts"
import { clip } from "./search-timeline.ts"

/** As long as this node's own timelines are. */
const longestIntervalMs = 400 * 86_400_000

export const layer = Layer.effect(
  Federated,
  Effect.gen(function*() {
    const mapping = yield* ChannelMapping
    const { departed, gather, gone, ofReplay, open, playlist, relay, unmoved } = yield* makeReplay
    return Federated.of({
      offered: mapping.offered,
      remap: mapping.remap,
      timeline: Effect.fn("Federated.timeline")(function*(token, { end, start }, who) {
        if (end <= start) return yield* InvalidInput.at("/query/end", "must lie after the start")
        if (end - start > longestIntervalMs) {
          return yield* InvalidInput.at("/query/end", "must lie at most 400 days after")
        }
        const { gaps, partial, sources, spans } = yield* gather(token, { start, end }, who.username, "paired nodes too")
        return {
          recordingToken: token,
          start,
          end,
          spans: clip(spans, { start, end }).map(({ holder, ...span }) => ({ ...span, holderNodeId: holder })),
          gaps: clip(gaps, { start, end }),
          partial,
          sources,
        } satisfies FederatedTimeline
      }),
      calendar: Effect.fn("Federated.calendar")(function*(token, month, timeZone, who) {
        const days = monthDays(month, timeZone)
        const whole = { start: days[0]?.start ?? 0, end: days.at(-1)?.end ?? 0 }
        const { gaps, partial, sources, spans } = yield* gather(token, whole, who.username, "paired nodes too")
        return {
          recordingToken: token,
          month,
          timeZone,
          dates: datesOf(days, { gaps, spans }),
          partial,
          sources,
        } satisfies FederatedCalendar
      }),
      open,
      ofReplay,
      playlist,
      relay,
      departed,
      gone,
      unmoved,
    })
  }),
)
