/** From a home node's configuration to the streams that are held of it, and to where their recordings begin. Pure. */
import type { ShadowStream } from "#media/shadow.ts"
import type { EpochMs, NodeId, RecordingId, StreamId } from "#schema/common.ts"
import type { FailoverBundle } from "#schema/federation-bundle.ts"
import { Redacted } from "effect"

export type Configured = Pick<FailoverBundle, "cameras" | "recordings">

/** Streams that the home node records and that can be called; phones come by themselves, and come to it alone. */
export const shadowedOf = ({ cameras, recordings }: Configured, nodeId: NodeId): ReadonlyArray<ShadowStream> => {
  const recorded = new Set(
    recordings.filter(({ enabled }) => enabled).map(({ channelId, role }) => `${channelId}/${role}`),
  )
  return cameras.filter(({ driver, enabled }) => enabled && driver !== "mobile").flatMap((camera) =>
    camera.channels.filter(({ active }) => active).flatMap((channel) =>
      channel.streams.filter(({ enabled, role }) => enabled && recorded.has(`${channel.id}/${role}`)).map(
        (stream): ShadowStream => {
          const { password, username } = stream.username !== null || stream.password !== null ? stream : camera
          return {
            streamId: stream.id,
            cameraId: camera.id,
            channelId: channel.id,
            cameraName: camera.name,
            channelName: channel.name,
            role: stream.role,
            driver: "rtsp",
            url: stream.sourceUrl,
            username,
            password: password === null ? null : Redacted.make(password),
            transport: stream.transport,
            nodeId,
            epoch: 0,
            enabled: true,
            recording: null,
          }
        },
      )
    )
  )
}

/** Since when each recording of the bundle will have footage here: what is held begins before the home node was lost. */
export const beginnings = (
  { cameras, recordings }: Configured,
  held: ReadonlyMap<StreamId, EpochMs>,
  lostMs: EpochMs,
): ReadonlyMap<RecordingId, EpochMs> => {
  const streams = new Map(
    cameras.flatMap(({ channels }) =>
      channels.flatMap((channel) =>
        channel.streams.map(({ id, role }) => [`${channel.id}/${role}`, held.get(id)] as const)
      )
    ),
  )
  return new Map(
    recordings.map(({ channelId, id, role }) => [id, Math.min(lostMs, streams.get(`${channelId}/${role}`) ?? lostMs)]),
  )
}
