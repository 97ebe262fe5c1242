/** Live pictures of other nodes' channels through this one. */
import type { FederatedSessionId } from "#schema/bff-federation.ts"
import type { FederatedLive } from "#schema/bff-live.ts"
import type { LiveFileNotFound, LiveSessionNotFound } from "#schema/camera-live.ts"
import type { ChannelNotFound } from "#schema/camera.ts"
import type { ChannelId } from "#schema/common.ts"
import type { PeerRefused, PeerUnreachable } from "#schema/federation.ts"
import type { UserPrincipal } from "#schema/permission.ts"
import type { DependencyUnavailable } from "#schema/problem.ts"
import type { StreamRole } from "#schema/record.ts"
import { Context, type Effect, type Scope } from "effect"
import type { RelayedMedia } from "./bff-federation.ts"

/** A file of a session, and how it is asked for. */
export interface LiveRelayRequest {
  readonly filename: string
  /** With its question mark, or empty. */
  readonly query: string
  readonly headers: Readonly<Record<string, string>>
}

/** The multivariant playlist, which is here, or a file on its way. */
export type LiveRelayed =
  | { readonly kind: "master"; readonly text: string; readonly etag: string }
  | { readonly kind: "media"; readonly media: RelayedMedia }

export class FederatedLives extends Context.Service<FederatedLives, {
  /** `id`: of the channel as it is known here. The other node judges anew, for this node. */
  readonly open: (
    id: ChannelId,
    role: StreamRole,
    who: UserPrincipal,
  ) => Effect.Effect<FederatedLive, ChannelNotFound | PeerUnreachable | PeerRefused | DependencyUnavailable>
  readonly file: (id: FederatedSessionId, request: LiveRelayRequest) => Effect.Effect<
    LiveRelayed,
    LiveSessionNotFound | LiveFileNotFound | PeerUnreachable | PeerRefused | DependencyUnavailable,
    Scope.Scope
  >
}>()("nightjar/actors/FederatedLives") {}
