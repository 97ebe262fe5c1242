/**
 * What other nodes show through this one.
 *
 * Invariants
 * 1. {@link FederatedChannels} is answered from the database of this node; {@link Federated} asks the others, all at once and each
 *    within its time, so that a slow one costs no more than that.
 */
import type {
  FederatedCalendar,
  FederatedChannel,
  FederatedReplay,
  FederatedSessionId,
  FederatedTimeline,
  OfferedChannel,
  RemapReport,
} from "#schema/bff-federation.ts"
import type {
  ChannelId,
  EpochMs,
  Interval,
  NodeId,
  PageOf,
  PageRequest,
  RecordingId,
  RecordingToken,
  ReplaySessionId,
} from "#schema/common.ts"
import type { NodeNotFound, PeerRefused, PeerUnreachable } from "#schema/federation.ts"
import type { Principal, Reach, UserPrincipal } from "#schema/permission.ts"
import type { DependencyUnavailable, InvalidCursor, InvalidInput } from "#schema/problem.ts"
import type { RecordingNotFound } from "#schema/record-config.ts"
import type {
  FootageNotFound,
  ReplayFileNotFound,
  ReplaySessionEnded,
  ReplaySessionNotFound,
  ReplayUriRequest,
} from "#schema/replay.ts"
import { Context, type Effect, type Scope, type Stream } from "effect"
import type { ReplayGrant } from "./replay.ts"

type Answer<A, E = never> = Effect.Effect<A, E | DependencyUnavailable>

export class FederatedChannels extends Context.Service<FederatedChannels, {
  /** By id; what lies within `within`. */
  readonly list: (
    nodeId: NodeId | null,
    page: PageRequest,
    within: Reach,
  ) => Answer<PageOf<FederatedChannel>, InvalidCursor>
  readonly get: (id: ChannelId) => Answer<FederatedChannel | null>
  /** The channel of another node whose footage has this token. */
  readonly byToken: (token: RecordingToken) => Answer<FederatedChannel | null>
  /** The channels of a node that its camera or channel of this id is, or has. */
  readonly ofSubject: (nodeId: NodeId, remoteId: string) => Answer<ReadonlyArray<FederatedChannel>>
  /** Of these, those that are not channels of other nodes. */
  readonly missing: (ids: ReadonlyArray<ChannelId>) => Answer<ReadonlySet<string>>
}>()("nightjar/actors/FederatedChannels") {}

/** Bytes of a file that another node has, on their way. */
export interface RelayedMedia {
  readonly status: number
  /** What the other node says of the body: length, range, type, validators. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: Stream.Stream<Uint8Array, PeerUnreachable>
}

/** A file that this node has itself: what its footage is read by. */
export interface OwnFile {
  readonly token: RecordingToken
  readonly recordingId: RecordingId
  readonly start: EpochMs
  readonly end: EpochMs | null
  readonly speed: number
  readonly createdAt: EpochMs
  readonly filename: string
  /** The sign-in that it is shown to. */
  readonly loginSessionId: string
}

export type FileFound =
  | { readonly kind: "relayed"; readonly media: RelayedMedia }
  | { readonly kind: "own"; readonly file: OwnFile }

/** What a player asks a session for, and how. */
export interface RelayRequest {
  readonly filename: string
  readonly headers: Readonly<Record<string, string>>
}

type OfSession<A, E = never> = Answer<A, E | ReplaySessionNotFound | ReplaySessionEnded>

export class Federated extends Context.Service<Federated, {
  /** What this node shows to whoever asks. */
  readonly offered: (to: Principal) => Answer<ReadonlyArray<OfferedChannel>>
  /** Asks the node for its channels and brings the mapping in line. */
  readonly remap: (
    nodeId: NodeId,
    onBehalfOf: string,
  ) => Answer<RemapReport, NodeNotFound | PeerUnreachable | PeerRefused>
  /** All that this node and the paired ones hold. `RecordingNotFound`: all have answered, and none knows it. */
  readonly timeline: (
    token: RecordingToken,
    interval: Interval,
    who: UserPrincipal,
  ) => Answer<FederatedTimeline, RecordingNotFound | InvalidInput>
  /** Days of a month (`YYYY-MM`) with footage, as {@link timeline}. */
  readonly calendar: (
    token: RecordingToken,
    month: string,
    timeZone: string,
    who: UserPrincipal,
  ) => Answer<FederatedCalendar, RecordingNotFound | InvalidInput>
  /** A session over whatever nodes hold the footage. */
  readonly open: (
    request: ReplayUriRequest,
    who: UserPrincipal,
  ) => Answer<FederatedReplay, RecordingNotFound | FootageNotFound | InvalidInput | PeerUnreachable | PeerRefused>
  /** A playlist of a session, sewn from those of the nodes; under the id of this node. */
  readonly playlist: (
    id: FederatedSessionId,
    nodeId: NodeId,
    name: "master.m3u8" | "playlist.m3u8" | "subtitle-playlist.m3u8",
  ) => OfSession<
    { readonly text: string; readonly etag: string },
    ReplayFileNotFound | FootageNotFound | PeerUnreachable | PeerRefused
  >
  /** A playlist of this node's own replay where other members of the cluster have a part in it; null: none has. */
  readonly ofReplay: (
    id: ReplaySessionId,
    grant: ReplayGrant,
    name: "master.m3u8" | "playlist.m3u8" | "subtitle-playlist.m3u8",
  ) => OfSession<
    { readonly text: string; readonly etag: string } | null,
    FootageNotFound | PeerUnreachable | PeerRefused
  >
  /** A playlist of this node's own replay whose footage has all gone to other nodes since it was opened; null: nobody has it. */
  readonly gone: (
    id: ReplaySessionId,
    grant: ReplayGrant,
    name: "master.m3u8" | "playlist.m3u8" | "subtitle-playlist.m3u8",
  ) => OfSession<{ readonly text: string; readonly etag: string } | null, PeerUnreachable | PeerRefused>
  /** What of a growing playlist of this node's own replay is at another node by now is not called gone. */
  readonly unmoved: (id: ReplaySessionId, grant: ReplayGrant, text: string) => Answer<string>
  /** A file of this node's own replay that has gone to another node, by its name in words of time; null: nobody has it. */
  readonly departed: (
    id: ReplaySessionId,
    grant: ReplayGrant,
    request: RelayRequest,
  ) => Effect.Effect<FileFound | null, DependencyUnavailable, Scope.Scope>
  /** A file of the session from the node that has it, or from the one that it has gone to since. */
  readonly relay: (id: FederatedSessionId, nodeId: NodeId, request: RelayRequest) => Effect.Effect<
    FileFound,
    | ReplaySessionNotFound
    | ReplaySessionEnded
    | ReplayFileNotFound
    | PeerUnreachable
    | PeerRefused
    | DependencyUnavailable,
    Scope.Scope
  >
}>()("nightjar/actors/Federated") {}
