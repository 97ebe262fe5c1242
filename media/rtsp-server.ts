/**
 * The door to players by RTSP 1.0 (RFC 2326): live streams at `rtsp://<host>:<port>/live/<stream id>`, recorded footage at
 * `rtsp://<host>:<port>/recording/<recording token>?start=&end=` with what ONVIF adds for replay (Streaming Specification, section 6).
 * Its room: `media/rtsp-server/`.
 *
 * Invariants
 * 1. One view of the hub serves all readers of a stream: a unit is framed into packets once and written as often as there are
 *    readers.
 * 2. Nothing but OPTIONS is answered before {@link RtspGate} has let the caller in.
 * 3. A reader that does not keep up loses whole groups of pictures, and is closed once it is 4 MiB behind. It never slows down
 *    the camera, the recording or another reader.
 * 4. A port that is taken costs this door, not the node.
 * 5. What another node serves is passed on to it; this node gives what comes back, and no more.
 * 6. Recorded pictures are sent as they are stored, and read no faster than the player takes them.
 * 7. Footage that several members of the cluster have shares of is one session: each share is read where it lies.
 */
import type { TalkCodec } from "#schema/camera-talk.ts"
import type { EpochMs, NodeId, RecordingId, RecordingToken, StreamId } from "#schema/common.ts"
import type { SegmentFile } from "#schema/record.ts"
import { Context, Data, type Effect, type Redacted, type Scope, type Stream } from "effect"
import type { IndexEntry } from "./storage.ts"

/** Who was let in. */
export interface RtspGrant {
  /** For lists: the login session, or the account. */
  readonly holder: string
  /** Where it is for recorded footage: the recording that its token names. */
  readonly recordingId: RecordingId | null
}

/** The loudspeaker of a camera, held by one who was let in. */
export interface RtspTalk {
  readonly codec: TalkCodec
  /** `packet[from, to)`: RTP, valid during the call. */
  readonly hear: (packet: Buffer, from: number, to: number) => void
  /** Returns when it is held no more. */
  readonly ended: Effect.Effect<void>
}

export class RtspTalkRefused extends Data.TaggedError("RtspTalkRefused")<{
  readonly reason: "unsupported" | "taken" | "notAllowed" | "away"
}> {}

/** Somebody who was not let in. */
export interface RtspRefusal {
  readonly address: string
  readonly userAgent: string
  /** `live/<stream id>`, `recording/<token>/<interval>`. */
  readonly what: string
  /** Too many failures from there: the account is not looked at for a while. */
  readonly locked: boolean
}

/** Not let in: the token is unknown, has expired, or opens another stream. */
export class RtspRefused extends Data.TaggedError("RtspRefused") {}
/** Nobody can be let in at the moment. */
export class RtspGateClosed extends Data.TaggedError("RtspGateClosed") {}

/** What a player asks for; an end of an interval that is left open is null. */
export type RtspWhat =
  | { readonly kind: "live"; readonly streamId: StreamId }
  | {
    readonly kind: "recording"
    readonly recordingToken: RecordingToken
    readonly startMs: EpochMs | null
    readonly endMs: EpochMs | null
  }

/** A player's connection, carried to or from another node. */
export interface RtspLine {
  readonly send: (bytes: Uint8Array) => void
  /** Ends with the line. */
  readonly received: Stream.Stream<Uint8Array>
}

/** Files of one recording on other nodes of the cluster, read there piece by piece. What cannot be had is null: a gap. */
export interface RtspFootage {
  readonly kind: "footage"
  readonly files: ReadonlyArray<{ readonly holder: NodeId; readonly file: SegmentFile }>
  readonly index: (holder: NodeId, file: SegmentFile) => Effect.Effect<ReadonlyArray<IndexEntry> | null>
  /** Bytes `[from, to)` of the file, all of them. */
  readonly bytes: (
    holder: NodeId,
    file: SegmentFile,
    range: { readonly from: number; readonly to: number },
  ) => Effect.Effect<Uint8Array | null>
}

/** Where something is that this node does not have, or not all of. */
export type RtspElsewhere = { readonly kind: "line"; readonly line: RtspLine } | RtspFootage

/** Decides who may read what; given to this floor by those who know users. */
export class RtspGate extends Context.Service<RtspGate, {
  /** By the token of a stream. */
  readonly enter: (
    streamId: StreamId,
    token: Redacted.Redacted,
  ) => Effect.Effect<RtspGrant, RtspRefused | RtspGateClosed>
  /** Recorded footage, by the token of a stream of its channel, or the access token of a user. */
  readonly replay: (
    recordingToken: RecordingToken,
    token: Redacted.Redacted,
  ) => Effect.Effect<RtspGrant, RtspRefused | RtspGateClosed>
  /**
   * A line, until the scope closes, to the node that serves it instead of this one; of footage that several nodes have shares of, what
   * the others have. Null: this one serves it, or nobody.
   */
  readonly elsewhere: (what: RtspWhat) => Effect.Effect<RtspElsewhere | null, RtspGateClosed, Scope.Scope>
  /** For the account, which may read all; null: there is no such recording. */
  readonly recordingOf: (recordingToken: RecordingToken) => Effect.Effect<RecordingId | null, RtspGateClosed>
  /** Lets one who was let in to a live stream talk to its camera, until the scope closes. */
  readonly talk: (
    grant: RtspGrant,
    streamId: StreamId,
    from: Pick<RtspRefusal, "address" | "userAgent">,
  ) => Effect.Effect<RtspTalk, RtspTalkRefused, Scope.Scope>
  readonly refused: (refusal: RtspRefusal) => Effect.Effect<void>
  /** Asked again and again while somebody reads; tokens themselves may expire meanwhile. */
  readonly holds: (grant: RtspGrant) => Effect.Effect<boolean>
}>()("nightjar/media/RtspGate") {}

/** One reader's session. */
export interface RtspSession {
  readonly id: string
  readonly streamId: StreamId
  /** Null: live. */
  readonly recordingToken: RecordingToken | null
  /** `address:port`. */
  readonly remote: string
  readonly userAgent: string | null
  readonly holder: string
  readonly transport: "tcp" | "udp"
  readonly state: "ready" | "playing"
  readonly since: EpochMs
  readonly sentBytes: number
  readonly sentPackets: number
  /** Pictures that this reader was too slow for. */
  readonly skippedPictures: number
  /** As its last reports say: of the tracks together; null before the first. */
  readonly lostPackets: number | null
  /** The largest of its tracks, milliseconds. */
  readonly jitterMs: number | null
}

/** A stream with readers, or that had some a moment ago. */
export interface RtspStream {
  readonly streamId: StreamId
  readonly since: EpochMs
  /** Known once the camera has delivered. */
  readonly ready: boolean
  /** Codecs, video first. */
  readonly tracks: ReadonlyArray<string>
  /** Framed for readers, once. */
  readonly bytes: number
  readonly packets: number
  readonly readers: number
}

/** What the door is like; numbers are those of its room. */
export interface RtspConfig {
  readonly port: number | null
  readonly transports: ReadonlyArray<"tcp" | "udp">
  readonly hasAccount: boolean
  readonly maxReaders: number
  readonly sessionTimeoutSeconds: number
  readonly maxBehindBytes: number
}

export class RtspServer extends Context.Service<RtspServer, {
  /** Null while nothing listens. */
  readonly port: () => number | null
  readonly config: () => RtspConfig
  readonly streams: () => ReadonlyArray<RtspStream>
  readonly sessions: () => ReadonlyArray<RtspSession>
  /** Ends every live session of the stream; answers how many. */
  readonly disconnect: (streamId: StreamId) => number
  /** A player's connection that another node carries to this door, until the scope closes; in frames (`rtsp-server/line.ts`). */
  readonly join: Effect.Effect<RtspLine, RtspGateClosed, Scope.Scope>
}>()("nightjar/media/RtspServer") {}
