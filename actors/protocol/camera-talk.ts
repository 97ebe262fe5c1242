/**
 * Talking to a camera: messages of the entity `CameraTalk`, which knows who does, and the service that speaks.
 *
 * Invariants
 * 1. There is one such entity a camera in the cluster: whoever wants to talk asks it first, on whatever node he is.
 * 2. A lease that its node does not renew is over after {@link leaseMs}: a node that died keeps nobody silent.
 */
import type { DeviceError, OnvifOperationUnsupported } from "#schema/camera-device.ts"
import {
  type TalkBackElsewhere,
  type TalkBackNotOpen,
  TalkBackTaken,
  type TalkBackUnsupported,
  type TalkCodec,
  TalkLease,
  type TalkOfferRefused,
  type TalkSession,
  type TalkStatus,
} from "#schema/camera-talk.ts"
import type { StreamNotFound } from "#schema/camera.ts"
import type { StreamId } from "#schema/common.ts"
import { ControlElsewhere } from "#schema/federation-failover.ts"
import { shardGroupOf } from "#schema/ownership.ts"
import type { UserPrincipal } from "#schema/permission.ts"
import { DependencyUnavailable } from "#schema/problem.ts"
import { Context, type Effect, Schema } from "effect"
import { ClusterSchema, Entity } from "effect/cluster"
import { Rpc } from "effect/rpc"

/** Longer than a node may be out of touch for a moment, shorter than somebody waits for his turn. */
export const leaseMs = 10_000

/** Entity id: `<slot>/<cameraId>`. */
export const CameraTalkActor = Entity.make("CameraTalk", [
  /** Takes or renews; false: it was ended meanwhile. */
  Rpc.make("Hold", {
    payload: { lease: TalkLease },
    success: Schema.Boolean,
    error: Schema.Union([TalkBackTaken, ControlElsewhere, DependencyUnavailable]),
  }),
  /** Ends the lease of that id, wherever it is held; another one stays. */
  Rpc.make("End", { payload: { id: Schema.String }, error: DependencyUnavailable }),
  Rpc.make("Current", { success: Schema.NullOr(TalkLease), error: DependencyUnavailable }),
]).annotate(ClusterSchema.ShardGroup, shardGroupOf)

/** The caller's own voice on its way to the camera. */
export interface Speaker {
  readonly codec: TalkCodec
  /** An RTP packet, valid during the call. */
  readonly hear: (packet: Buffer, from: number, to: number) => void
  /** Returns when the session is over. */
  readonly ended: Effect.Effect<void>
  readonly close: Effect.Effect<void>
}

export interface TalkOpening {
  readonly via: "http" | "rtsp"
  /** Of the talker. */
  readonly address: string
  readonly userAgent: string
  /** Whether the talker may go on, asked again and again; what this node knows of its own people if left out. */
  readonly holds?: Effect.Effect<boolean>
}

type Of<A, E = never> = Effect.Effect<A, E | StreamNotFound | DependencyUnavailable>

export class TalkBack extends Context.Service<TalkBack, {
  /** Connects to the camera and holds it for the caller; what he holds already is answered as it is. */
  readonly open: (
    streamId: StreamId,
    who: UserPrincipal,
    opening: TalkOpening,
  ) => Of<TalkSession, TalkBackTaken | TalkBackUnsupported | Exclude<DeviceError, OnvifOperationUnsupported>>
  /** By its holder, or by one who may change the camera. */
  readonly close: (streamId: StreamId, who: UserPrincipal) => Of<void, TalkBackNotOpen | TalkBackTaken>
  readonly status: (streamId: StreamId, who: UserPrincipal) => Of<TalkStatus>
  readonly speaker: (streamId: StreamId, who: UserPrincipal) => Of<Speaker, TalkBackNotOpen | TalkBackElsewhere>
  /** Answers a browser's offer of its microphone; the one before it, if any, is hung up. */
  readonly offer: (streamId: StreamId, who: UserPrincipal, offer: string) => Of<
    { readonly id: string; readonly answer: string },
    TalkBackNotOpen | TalkBackElsewhere | TalkOfferRefused
  >
}>()("nightjar/actors/TalkBack") {}
