/** What can be put on the wall: a channel of a camera is one picture, in up to two qualities. */
import type { Camera, CameraStatus, CameraStream } from "#schema/camera.ts"
import type { CameraId, ChannelId, RecordingId, RecordingToken } from "#schema/common.ts"
import type { Recording } from "#schema/record-config.ts"
import type { StreamRole } from "#schema/record.ts"

export interface WallPicture {
  readonly id: ChannelId
  readonly cameraId: CameraId
  readonly name: string
  /** Name of the other node whose channel it is; null: this node's. */
  readonly node: string | null
  readonly status: CameraStatus
  readonly reason: string
  readonly streams: ReadonlyArray<CameraStream>
  /** Its recording; null where there is none, or none that the user may see. */
  readonly recording: { readonly id: RecordingId | null; readonly recordingToken: RecordingToken } | null
}

export const picturesOf = (
  cameras: ReadonlyArray<Camera>,
  recordings: ReadonlyArray<Recording>,
): ReadonlyArray<WallPicture> =>
  cameras.flatMap((camera) =>
    camera.channels.map((channel) => ({
      id: channel.id,
      cameraId: camera.id,
      name: camera.channels.length > 1 ? `${camera.name}: ${channel.name}` : camera.name,
      node: null,
      status: camera.enabled && channel.active ? channel.status : "disabled" as const,
      reason: channel.reason,
      streams: channel.streams,
      recording: recordings.find((one) => one.channelId === channel.id) ?? null,
    }))
  )

/** The stream of a role, or the other one where it is missing or switched off. */
export const streamOf = ({ streams }: WallPicture, role: StreamRole): CameraStream | null => {
  const enabled = streams.filter((one) => one.enabled)
  return enabled.find((one) => one.role === role) ?? enabled[0] ?? null
}

/** Pictures whose name has every word that was typed. */
export const found = (pictures: ReadonlyArray<WallPicture>, text: string): ReadonlyArray<WallPicture> => {
  const words = text.toLowerCase().split(/\s+/).filter((word) => word !== "")
  return pictures.filter(({ name }) => words.every((word) => name.toLowerCase().includes(word)))
}
