/**
 * What a guardian needs of a home node to serve its cameras: cameras with channels, streams and passwords, and what is to be recorded
 * of them. It leaves the home node only signed by it and encrypted to one guardian (`cluster/bundle.ts`).
 *
 * Invariants
 * 1. Ids are the home node's own: footage recorded elsewhere belongs to the same recordings.
 * 2. A bundle is for one guardian: opened elsewhere, or opened as another home node's, it is refused.
 */
import { Effect, Schema } from "effect"
import { CameraInformation, NewCamera, NewChannel, NewStream } from "./camera-change.ts"
import { CapabilitySet } from "./camera-offer.ts"
import { EpochMs, NodeId } from "./common.ts"
import { NewRecording } from "./record-config.ts"

/** Cameras of one home node: more do not fit the answer that carries a bundle. */
export const maxBundleCameras = 2_000

const { sealedPassword: _ofStream, ...streamFields } = NewStream.fields
const { sealedPassword: _ofCamera, channels: _channels, tags: _tags, information: _told, ...cameraFields } =
  NewCamera.fields
const { streams: _streams, name: _name, ...channelFields } = NewChannel.fields

const Password = Schema.NullOr(Schema.String.check(Schema.isMaxLength(4_096)))

/** What administrators set of it, by name; nodes of earlier versions do not tell. */
const Capabilities = Schema.Array(CapabilitySet).pipe(Schema.withDecodingDefaultKey(Effect.succeed([])))

export const BundledStream = Schema.Struct({
  ...streamFields,
  onDemand: Schema.Boolean,
  password: Password,
})

export const BundledChannel = Schema.Struct({
  ...channelFields,
  /** Within its camera, from 1; what was deleted leaves holes. */
  number: Schema.Int,
  name: Schema.String,
  capabilities: Capabilities,
  streams: Schema.Array(BundledStream),
})

export const BundledCamera = Schema.Struct({
  ...cameraFields,
  tags: Schema.Array(Schema.String),
  information: CameraInformation,
  password: Password,
  capabilities: Capabilities,
  channels: Schema.Array(BundledChannel),
})
export type BundledCamera = typeof BundledCamera.Type

export const FailoverBundle = Schema.Struct({
  format: Schema.Literal("nightjar-failover-bundle"),
  version: Schema.Literal(1),
  homeNodeId: NodeId,
  guardianNodeId: NodeId,
  name: Schema.String,
  madeMs: EpochMs,
  /** Of the home node's slot when it was made. */
  epoch: Schema.Int,
  /** As the home node's heartbeats tell it: while it is the same, nothing has changed. */
  digest: Schema.String,
  /** What all its recordings bring together, measured where it can be. */
  ingestBps: Schema.Int,
  cameras: Schema.Array(BundledCamera).check(Schema.isMaxLength(maxBundleCameras)),
  recordings: Schema.Array(NewRecording),
})
export type FailoverBundle = typeof FailoverBundle.Type
