/** What live pictures ask of the node: where a stream is, its token, and what is kept of the wall for its user. */
import type { MediaPath } from "#schema/camera.ts"
import type { ChannelId, RecordingId, StreamId } from "#schema/common.ts"
import type { StreamRole } from "#schema/record.ts"
import { call } from "./api.ts"

/** Where live pictures come from: asked each time they are begun. */
export interface LiveSource {
  readonly path: () => Promise<MediaPath>
  /** Another token for the same. */
  readonly renew: () => Promise<Pick<MediaPath, "token" | "expiresAt">>
}

/** Through this node, by WebRTC from where it is: the session stands in its paths, and needs no token. */
const pathAtOther = async (channelId: ChannelId, streamId: StreamId, role: StreamRole): Promise<MediaPath> => {
  const { snapshotUri, uri, whepUri } = await call((api) =>
    api.bffLive.federatedLive({ params: { channelId }, payload: { role } })
  )
  return {
    streamId,
    path: "",
    whepUrl: whepUri,
    whepLimit: null,
    hlsUrl: null,
    rtspUrl: null,
    liveHlsUrl: uri,
    liveHlsLimit: null,
    snapshotUrl: snapshotUri,
    token: "",
    expiresAt: Number.MAX_SAFE_INTEGER,
  }
}

/** `remote`: the channel as it is known here, where it is another node's. */
export const liveSource = (streamId: StreamId, role: StreamRole, remote: ChannelId | null): LiveSource => ({
  path: () =>
    remote === null ?
      call((api) => api.camera.mediaPath({ params: { stream_id: streamId } })) :
      pathAtOther(remote, streamId, role),
  renew: () => call((api) => api.camera.refreshStreamToken({ params: { stream_id: streamId } })),
})

/** Since when a recording misses pictures; null while it misses none. */
export const missingSince = async (id: RecordingId): Promise<number | null> =>
  (await call((api) => api.record.recordingEventStatus({ params: { id } }))).openGap?.since ?? null

/** A JSON object of the dashboard's own making, kept for the signed-in user. */
export const readPreferences = async () => (await call((api) => api.users.preferences())).body

/** A JSON merge patch (RFC 7396). */
export const changePreferences = async (payload: Readonly<Record<string, unknown>>) =>
  (await call((api) => api.users.updatePreferences({ headers: {}, payload }))).body
