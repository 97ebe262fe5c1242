/** What live pictures ask of the node: where a stream is, its token, and what is kept of the wall for its user. */
import type { RecordingId, StreamId } from "#schema/common.ts"
import { call } from "./api.ts"

export const mediaPathOf = (streamId: StreamId) =>
  call((api) => api.camera.mediaPath({ params: { stream_id: streamId } }))

export const freshStreamToken = (streamId: StreamId) =>
  call((api) => api.camera.refreshStreamToken({ params: { stream_id: streamId } }))

/** Since when a recording misses pictures; null while it misses none. */
export const missingSince = async (id: RecordingId): Promise<number | null> =>
  (await call((api) => api.record.recordingEventStatus({ params: { id } }))).openGap?.since ?? null

/** A JSON object of the dashboard's own making, kept for the signed-in user. */
export const readPreferences = async () => (await call((api) => api.users.preferences())).body

/** A JSON merge patch (RFC 7396). */
export const changePreferences = async (payload: Readonly<Record<string, unknown>>) =>
  (await call((api) => api.users.updatePreferences({ headers: {}, payload }))).body
