/** Handlers of the record group: from the contract to {@link Recordings} and {@link IndexRebuilds}, and nothing else. */
import { IndexRebuilds, Recordings } from "#actors/protocol/record.ts"
import { allTime } from "#schema/common.ts"
import { reach } from "#schema/permission.ts"
import { RecordingChannelNotFound, type RecordingFilter } from "#schema/record-config.ts"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { CurrentPrincipal } from "../contract/access.ts"
import { acceptedAt, createdAt, expectedVersion, nightjar, pageRequest, withVersion } from "../contract/conventions.ts"
import { RecordGroup } from "../contract/record.ts"
import { makeGuard } from "./http-resources.ts"

export const RecordHandlers = HttpApiBuilder.group(
  nightjar.add(RecordGroup),
  "record",
  Effect.fnUntraced(function*(handlers) {
    const [recordings, rebuilds] = yield* Effect.all([Recordings, IndexRebuilds])
    const guard = yield* makeGuard
    const list = (filter: RecordingFilter, query: Parameters<typeof pageRequest>[0]) =>
      Effect.flatMap(
        CurrentPrincipal,
        (who) => recordings.list(filter, pageRequest(query), reach(who, "recording:read")),
      )
    return handlers
      .handle("recordings", ({ query }) => {
        const { cursor: _cursor, limit: _limit, ...filter } = query
        return list(filter, query)
      })
      .handle("createRecording", ({ payload }) =>
        Effect.gen(function*() {
          const { channelId, role = "main" } = payload
          yield* guard(
            "recording:write",
            { kind: "channel", id: channelId },
            () => new RecordingChannelNotFound({ channelId, role }),
          )
          const made = yield* recordings.create(payload)
          return createdAt(`/record/api/v1/recordings/${made.id}`, made)
        }))
      .handle("recordingsByChannel", ({ params, query }) => list({ channelId: params.channel_id }, query))
      .handle("recording", ({ params }) => Effect.map(recordings.get(params.id), withVersion))
      .handle(
        "updateRecording",
        ({ headers, params, payload }) =>
          Effect.flatMap(expectedVersion(headers), (version) =>
            Effect.map(recordings.update(params.id, payload, version), withVersion)),
      )
      .handle(
        "deleteRecording",
        ({ headers, params }) =>
          Effect.flatMap(expectedVersion(headers), (version) => recordings.remove(params.id, version)),
      )
      .handle(
        "toggleRecording",
        ({ headers, params, payload }) =>
          Effect.flatMap(expectedVersion(headers), (version) =>
            Effect.map(recordings.toggle(params.id, payload.enabled ?? null, version), withVersion)),
      )
      .handle("recordingEventStatus", ({ params }) => recordings.eventStatus(params.id))
      .handle("recordingEventHistory", ({ params, query }) =>
        recordings.eventHistory(
          params.id,
          { start: query.start ?? allTime.start, end: query.end ?? allTime.end },
          pageRequest(query),
        ))
      .handle("recordingCoverage", ({ params, query }) => recordings.coverage(params.id, query))
      .handle("recordingSettings", () => Effect.map(recordings.settings(), withVersion))
      .handle("updateRecordingSettings", ({ headers, payload }) =>
        Effect.flatMap(expectedVersion(headers), (version) =>
          Effect.map(recordings.updateSettings(payload, version), withVersion)))
      .handle("refreshPartitions", () =>
        Effect.map(recordings.refreshPartitions(), (items) => ({ items, nextCursor: null })))
      .handle("rebuildIndex", () =>
        Effect.map(rebuilds.start(), (job) =>
          acceptedAt(`/record/api/v1/storage/index/rebuild/${job.id}`, job)))
      .handle("indexRebuild", ({ params }) =>
        rebuilds.get(params.id))
  }),
)
