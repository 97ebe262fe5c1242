/**
 * Tells everybody of gaps that opened and closed, with the camera and the channel they are of.
 *
 * Invariants
 * 1. The same gap told twice is told once: its event has an id made from it.
 * 2. Where a recording is not assigned to this node any more, the database says where it belongs; if that does not know it
 *    either, only those who may see every recording hear of it.
 */
import { Events } from "#actors/protocol/event.ts"
import { type NewEvent, RecordStore } from "#actors/store/record.ts"
import { RecorderSupervisor } from "#media/recorder.ts"
import type { RecordingId } from "#schema/common.ts"
import { eventTypes } from "#schema/event.ts"
import type { ResourceRef } from "#schema/permission.ts"
import { Effect, Schema } from "effect"

const opened = "recording.gap.opened"
/** The events of a recording hold its gaps as anything else; here the shape of the registry is asked for. */
const gapData = Schema.decodeUnknownEffect(Schema.toEncoded(eventTypes[opened].data))

export const makeGapTeller = Effect.gen(function*() {
  const [events, records, supervisor] = yield* Effect.all([Events, RecordStore, RecorderSupervisor])

  const placesOf = Effect.fnUntraced(function*(ids: ReadonlySet<RecordingId>) {
    const places = new Map<RecordingId, ReadonlyArray<ResourceRef>>()
    const add = (id: RecordingId, channelId: string, cameraId: string) =>
      places.set(id, [{ kind: "recording", id }, { kind: "channel", id: channelId }, { kind: "camera", id: cameraId }])
    for (const { cameraId, channelId, recording } of yield* supervisor.assignments) {
      if (recording !== null && ids.has(recording.recordingId)) add(recording.recordingId, channelId, cameraId)
    }
    for (const id of ids) {
      if (places.has(id)) continue
      const found = yield* records.get({ id })
      if (found === null) places.set(id, [{ kind: "recording", id }])
      else add(id, found.recording.channelId, found.recording.cameraId)
    }
    return places
  })

  /** Returns when all are on disk. */
  return Effect.fnUntraced(function*(gaps: ReadonlyArray<NewEvent>) {
    if (gaps.length === 0) return
    const places = yield* placesOf(new Set(gaps.map(({ recordingId }) => recordingId)))
    const tell = Effect.fnUntraced(function*({ data, id, recordingId, timeMs, type }: NewEvent) {
      yield* events.publish({
        type: type === opened ? opened : "recording.gap.closed",
        id,
        subject: recordingId,
        timeMs,
        resource: places.get(recordingId) ?? [],
        data: yield* Effect.orDie(gapData({ recordingId, ...data })),
      })
    })
    // They share one sync of the disk; the journal's batches bound their number.
    yield* Effect.forEach(gaps, tell, { concurrency: "unbounded", discard: true })
  })
})
