/** Live pictures of other nodes' channels through this one. */
import type { FederatedSessionId } from "#schema/bff-federation.ts"
import type { FederatedLive } from "#schema/bff-live.ts"
import type { LiveFileNotFound, LiveSessionNotFound } from "#schema/camera-live.ts"
import type { TalkBackNotOpen, TalkSession } from "#schema/camera-talk.ts"
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

/** An answer in SDP; the codec of the sound, or why there is none; ICE servers as a `Link` header has them. */
export interface WhepRelayed {
  readonly answer: string
  readonly sound: string | null
  readonly links: string | null
}

export class FederatedLives extends Context.Service<FederatedLives, {
  /** `id`: of the channel as it is known here. The other node judges anew, for this node. */
  readonly open: (
    id: ChannelId,
    role: StreamRole,
    who: UserPrincipal,
  ) => Effect.Effect<FederatedLive, ChannelNotFound | PeerUnreachable | PeerRefused | DependencyUnavailable>
  /** Passes an SDP offer on to the other node and keeps what it answers alive while the viewer may; the one before it is hung up. */
  readonly whep: (id: FederatedSessionId, offer: string) => Effect.Effect<
    WhepRelayed,
    LiveSessionNotFound | PeerUnreachable | PeerRefused | DependencyUnavailable
  >
  /** Holds the camera of a channel, as it is known here, for the caller at the node that serves it. */
  readonly openTalk: (
    id: ChannelId,
    who: UserPrincipal,
  ) => Effect.Effect<TalkSession, ChannelNotFound | PeerUnreachable | PeerRefused | DependencyUnavailable>
  /** Passes the offer of a microphone on, within a session of the caller. */
  readonly offerTalk: (id: ChannelId, who: UserPrincipal, offer: string) => Effect.Effect<
    WhepRelayed,
    TalkBackNotOpen | PeerUnreachable | PeerRefused | DependencyUnavailable
  >
  readonly closeTalk: (id: ChannelId, who: UserPrincipal) => Effect.Effect<
    void,
    TalkBackNotOpen | DependencyUnavailable
  >
  readonly endWhep: (id: FederatedSessionId) => Effect.Effect<void, LiveSessionNotFound | DependencyUnavailable>
  readonly file: (id: FederatedSessionId, request: LiveRelayRequest) => Effect.Effect<
    LiveRelayed,
    LiveSessionNotFound | LiveFileNotFound | PeerUnreachable | PeerRefused | DependencyUnavailable,
    Scope.Scope
  >
}>()("nightjar/actors/FederatedLives") {}
