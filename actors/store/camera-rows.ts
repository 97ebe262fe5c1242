/**
 * Rows of the camera tables and the models they make.
 *
 * Invariants
 * 1. A stream that is switched off, by itself or by its channel or camera, is `disabled` whatever was last observed of it.
 */
import type { CapabilitySetOf } from "#schema/camera-offer.ts"
import {
  type Camera,
  type CameraStatus,
  type CameraStream,
  type Channel,
  type DriverKind,
  statusOf,
  type Transport,
} from "#schema/camera.ts"
import type { CameraId, ChannelId, EpochMs, NodeId, StreamId } from "#schema/common.ts"
import type { AudioCodec, VideoCodec } from "#schema/media.ts"
import type { Slot } from "#schema/ownership.ts"
import type { StreamRole } from "#schema/record.ts"

interface Written {
  readonly created_at: Date
  readonly updated_at: Date
  readonly version: number
}

export interface CameraRow extends Written {
  readonly id: CameraId
  readonly slot: Slot
  readonly home_node_id: NodeId
  readonly name: string
  readonly description: string
  readonly driver: DriverKind
  readonly host: string | null
  readonly port: number | null
  readonly enabled: boolean
  readonly username: string | null
  readonly sealed_password: string | null
  readonly tags: ReadonlyArray<string>
  readonly manufacturer: string | null
  readonly model: string | null
  readonly firmware: string | null
  readonly serial: string | null
  readonly position: number
  readonly status: CameraStatus
  readonly reason: string
}

export interface ChannelRow extends Written {
  readonly id: ChannelId
  readonly camera_id: CameraId
  readonly number: number
  readonly name: string
  readonly active: boolean
}

export interface StreamRow extends Written {
  readonly id: StreamId
  readonly camera_id: CameraId
  readonly channel_id: ChannelId
  readonly role: StreamRole
  readonly source_url: string
  readonly transport: Transport
  readonly enabled: boolean
  readonly on_demand: boolean
  readonly username: string | null
  readonly sealed_password: string | null
  readonly codec: VideoCodec | null
  readonly width: number | null
  readonly height: number | null
  readonly audio_codec: AudioCodec | null
  readonly status: CameraStatus
  readonly reason: string
}

const written = (row: Written) => ({
  createdAt: row.created_at.getTime(),
  updatedAt: row.updated_at.getTime(),
  version: row.version,
})

/** What a person sees of a stream: what was observed, unless it is switched off. */
export const effectiveStatus = (
  row: Pick<StreamRow, "status" | "reason">,
  wanted: boolean,
): { readonly status: CameraStatus; readonly reason: string } => {
  if (!wanted) return { status: "disabled", reason: "" }
  return row.status === "disabled" ? { status: "registered", reason: "" } : { status: row.status, reason: row.reason }
}

const streamOf = (row: StreamRow, wanted: boolean): CameraStream => ({
  id: row.id,
  channelId: row.channel_id,
  cameraId: row.camera_id,
  role: row.role,
  sourceUrl: row.source_url,
  transport: row.transport,
  enabled: row.enabled,
  onDemand: row.on_demand,
  username: row.username,
  hasPassword: row.sealed_password !== null,
  codec: row.codec,
  width: row.width,
  height: row.height,
  audioCodec: row.audio_codec,
  ...effectiveStatus(row, wanted && row.enabled),
  ...written(row),
})

const byRole = (a: StreamRow, b: StreamRow) => (a.role < b.role ? -1 : 1)

const channelOf = (camera: Pick<CameraRow, "enabled">, row: ChannelRow, streams: ReadonlyArray<StreamRow>): Channel => {
  const own = streams.filter((stream) => stream.channel_id === row.id).sort(byRole)
    .map((stream) => streamOf(stream, camera.enabled && row.active))
  return {
    id: row.id,
    cameraId: row.camera_id,
    number: row.number,
    name: row.name,
    active: row.active,
    ...statusOf(own),
    streams: own,
    ...written(row),
  }
}

/** Puts the rows of several cameras together; `cameras` gives the order. */
export const assemble = (rows: {
  readonly cameras: ReadonlyArray<CameraRow>
  readonly channels: ReadonlyArray<ChannelRow>
  readonly streams: ReadonlyArray<StreamRow>
}): ReadonlyArray<Camera> =>
  rows.cameras.map((row) => {
    const streams = rows.streams.filter((stream) => stream.camera_id === row.id)
    const channels = rows.channels.filter((channel) => channel.camera_id === row.id).sort((a, b) => a.number - b.number)
      .map((channel) => channelOf(row, channel, streams))
    return {
      id: row.id,
      name: row.name,
      description: row.description,
      driver: row.driver,
      host: row.host,
      port: row.port,
      enabled: row.enabled,
      username: row.username,
      hasPassword: row.sealed_password !== null,
      tags: row.tags,
      manufacturer: row.manufacturer,
      model: row.model,
      firmware: row.firmware,
      serial: row.serial,
      ...statusOf(channels.flatMap((channel) => channel.streams)),
      position: row.position,
      homeNodeId: row.home_node_id,
      channels,
      ...written(row),
    }
  })

/** Who writes, and when. */
export interface Writer {
  readonly slot: Slot
  readonly epoch: number
  readonly nowMs: EpochMs
}

/** What was seen of a stream; null members were not seen this time and stay as they are. */
export interface Observation {
  readonly streamId: StreamId
  readonly status: CameraStatus
  readonly reason: string
  readonly codec: VideoCodec | null
  readonly width: number | null
  readonly height: number | null
  readonly audioCodec: AudioCodec | null
}

/** Where a camera's own protocol is spoken, and as whom. */
export interface EndpointRow {
  readonly driver: DriverKind
  readonly host: string | null
  readonly port: number | null
  readonly username: string | null
  readonly sealedPassword: string | null
  /** Ids of its channels. */
  readonly channels: ReadonlyArray<string>
  /** What administrators set of it and of its channels. */
  readonly capabilities: ReadonlyArray<CapabilitySetOf>
}

/** Everything a capture of a stream needs to know, secrets sealed. */
export interface CaptureRow {
  readonly cameraId: CameraId
  readonly channelId: ChannelId
  readonly streamId: StreamId
  readonly driver: DriverKind
  readonly role: "main" | "sub"
  readonly url: string
  readonly transport: "tcp" | "udp"
  /** Camera, channel and stream are switched on. */
  readonly enabled: boolean
  readonly onDemand: boolean
  readonly cameraUsername: string | null
  readonly cameraPassword: string | null
  readonly streamUsername: string | null
  readonly streamPassword: string | null
  readonly cameraName: string
  readonly channelName: string
}
