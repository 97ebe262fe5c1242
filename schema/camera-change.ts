/**
 * Changes of cameras on their way from the service to the entity and to the database: complete, checked, passwords sealed.
 *
 * Invariants
 * 1. A password is here only as the vault sealed it, under the context {@link cameraSecret} or {@link streamSecret}.
 */
import { Schema } from "effect"
import { DriverKind, Transport } from "./camera.ts"
import { CameraId, ChannelId, NodeId, StreamId } from "./common.ts"
import type { Slot } from "./ownership.ts"
import { StreamRole } from "./record.ts"

export const cameraSecret = (id: CameraId): string => `camera/${id}/password`
/** What an item of a job is to do, until it is done. */
export const cameraJobSecret = (itemId: string): string => `camera/job-item/${itemId}`
export const streamSecret = (id: StreamId): string => `stream/${id}/password`

/** A part of the credentials on its way to the database: left out, it stays; `null` removes it. */
const Credential = Schema.optionalKey(Schema.NullOr(Schema.String))

export const NewStream = Schema.Struct({
  id: StreamId,
  role: StreamRole,
  sourceUrl: Schema.String,
  transport: Transport,
  enabled: Schema.Boolean,
  /** Left out: false. */
  onDemand: Schema.optionalKey(Schema.Boolean),
  username: Schema.NullOr(Schema.String),
  sealedPassword: Schema.NullOr(Schema.String),
})
/** A stream as it is first written. */
export type NewStream = typeof NewStream.Type

export const NewChannel = Schema.Struct({
  id: ChannelId,
  /** Null: named after its number. */
  name: Schema.NullOr(Schema.String),
  active: Schema.Boolean,
  streams: Schema.Array(NewStream),
})
/** A channel with its streams as it is first written. */
export type NewChannel = typeof NewChannel.Type

export const CameraInformation = Schema.Struct({
  manufacturer: Schema.NullOr(Schema.String),
  model: Schema.NullOr(Schema.String),
  firmware: Schema.NullOr(Schema.String),
  serial: Schema.NullOr(Schema.String),
})
/** What a camera tells of itself. */
export type CameraInformation = typeof CameraInformation.Type

export const NewCamera = Schema.Struct({
  id: CameraId,
  homeNodeId: NodeId,
  name: Schema.String,
  description: Schema.String,
  driver: DriverKind,
  /** Where its own protocol is spoken; null for families without one. */
  host: Schema.NullOr(Schema.String),
  port: Schema.NullOr(Schema.Int),
  enabled: Schema.Boolean,
  username: Schema.NullOr(Schema.String),
  sealedPassword: Schema.NullOr(Schema.String),
  /** Nodes of earlier versions do not send these two. */
  tags: Schema.optionalKey(Schema.Array(Schema.String)),
  information: Schema.optionalKey(CameraInformation),
  channels: Schema.Array(NewChannel),
})
/** A camera as it is first written, whole. */
export type NewCamera = typeof NewCamera.Type

export const CameraChange = Schema.Struct({
  name: Schema.String,
  description: Schema.String,
  enabled: Schema.Boolean,
  /** Left out, they stay. */
  tags: Schema.optionalKey(Schema.Array(Schema.String)),
  /** Where it is asked from now on; its streams on the old host go with it. Left out: where it was. */
  endpoint: Schema.optionalKey(Schema.Struct({ host: Schema.String, port: Schema.Int })),
  username: Credential,
  sealedPassword: Credential,
})
export type CameraChange = typeof CameraChange.Type

export const StreamChange = Schema.Struct({
  sourceUrl: Schema.String,
  transport: Transport,
  enabled: Schema.Boolean,
  /** Left out, it stays. */
  onDemand: Schema.optionalKey(Schema.Boolean),
  username: Credential,
  sealedPassword: Credential,
})
export type StreamChange = typeof StreamChange.Type

/** Where an entity that acts on behalf of a camera lives. */
export interface CameraHome {
  readonly cameraId: CameraId
  readonly slot: Slot
}

/** Where a channel lies. */
export interface ChannelPlace {
  readonly cameraId: CameraId
  readonly channelId: ChannelId
}
