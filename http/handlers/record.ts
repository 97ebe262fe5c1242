/** Handlers of the record group: from the contract to {@link Recordings} and {@link IndexRebuilds}, and nothing else. */
import { IndexRebuilds, Recordings } from "#actors/protocol/record.ts"
import { allTime } from "#schema/common.ts"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { acceptedAt, createdAt, expectedVersion, nightjar, pageRequest, withVersion } from "../contract/conventions.ts"
import { RecordGroup } from "../contract/record.ts"

export const RecordHandlers = HttpApiBuilder.group(
  nightjar.add(RecordGroup),
  "record",
  Effect.fnUntraced(function*(handlers) {
    const [recordings, rebuilds] = yield* Effect.all([Recordings, IndexRebuilds])
    return handlers
      .handle("recordings", ({ query }) => {
        const { cursor: _cursor, limit: _limit, ...filter } = query
        return recordings.list(filter, pageRequest(query))
      })
      .handle("createRecording", ({ payload }) =>
        Effect.map(recordings.create(payload), (made) => createdAt(`/record/api/v1/recordings/${made.id}`, made)))
      .handle("recordingsByChannel", ({ params, query }) =>
        recordings.byChannel(params.channel_id, pageRequest(query)))
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
      .handle(
        "recordingEventHistory",
        ({ params, query }) =>
          recordings.eventHistory(
            params.id,
            { start: query.start ?? allTime.start, end: query.end ?? allTime.end },
            pageRequest(query),
          ),
      )
      .handle("recordingCoverage", ({ params, query }) => recordings.coverage(params.id, query))
      .handle("recordingSettings", () => Effect.map(recordings.settings(), withVersion))
      .handle(
        "updateRecordingSettings",
        ({ headers, payload }) =>
          Effect.flatMap(expectedVersion(headers), (version) =>
            Effect.map(recordings.updateSettings(payload, version), withVersion)),
      )
      .handle(
        "refreshPartitions",
        () => Effect.map(recordings.refreshPartitions(), (items) => ({ items, nextCursor: null })),
      )
      .handle(
        "rebuildIndex",
        () => Effect.map(rebuilds.start(), (job) => acceptedAt(`/record/api/v1/storage/index/rebuild/${job.id}`, job)),
      )
      .handle("indexRebuild", ({ params }) => rebuilds.get(params.id))
  }),
)
