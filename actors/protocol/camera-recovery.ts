/**
 * Cameras that a database does not know and that this node still does: from its assignments, or from the headers of footage.
 * A service of its own, because the record slice finds them and the camera slice writes them.
 *
 * Invariants
 * 1. Recovering is idempotent: what is there stays as it is.
 * 2. A camera of which only footage tells is switched off.
 */
import type { CameraHome } from "#schema/camera-change.ts"
import type { CameraId, ChannelId, StreamId } from "#schema/common.ts"
import type { DependencyUnavailable } from "#schema/problem.ts"
import type { StreamRole } from "#schema/record.ts"
import { Context, type Effect, type Redacted } from "effect"

export interface FoundStream {
  readonly id: StreamId
  readonly role: StreamRole
  /** Null: only its footage is left. */
  readonly source: {
    readonly url: string
    readonly transport: "tcp" | "udp"
    readonly username: string | null
    readonly password: Redacted.Redacted | null
    readonly enabled: boolean
  } | null
}

export interface FoundCamera {
  readonly id: CameraId
  readonly name: string
  readonly channels: ReadonlyArray<{
    readonly id: ChannelId
    /** Empty: named after its number. */
    readonly name: string
    readonly streams: ReadonlyArray<FoundStream>
  }>
}

export class CameraRecovery extends Context.Service<CameraRecovery, {
  /** Of these ids of cameras and streams, those that the database has never heard of: neither there nor deleted. */
  readonly strangers: (
    ids: ReadonlyArray<CameraId | StreamId>,
  ) => Effect.Effect<ReadonlySet<string>, DependencyUnavailable>
  /**
   * Where the database serves a slot of this node with a smaller epoch than its captures already have, the epoch grows to
   * theirs: otherwise every assignment would be refused as stale. Cameras that are not known count for the home slot.
   */
  readonly raiseEpochs: (
    captures: ReadonlyArray<{ readonly cameraId: CameraId; readonly epoch: number }>,
  ) => Effect.Effect<void, DependencyUnavailable>
  /** Makes what is missing of a camera; null, and a line in the log, where that cannot be. */
  readonly recover: (
    camera: FoundCamera,
  ) => Effect.Effect<CameraHome & { readonly made: boolean } | null, DependencyUnavailable>
}>()("nightjar/actors/CameraRecovery") {}
