/**
 * The door to browsers that watch a live stream by WebRTC (WHEP). Its room: `media/webrtc/`.
 *
 * Invariants
 * 1. Pictures and sounds are the camera's own, never encoded anew: H.264 without B-frames, G.711 and Opus. What a browser cannot
 *    play is refused with the reason; sound that it cannot play is left out, and said so.
 * 2. A stream is framed into packets once for all its viewers; what is done for each of them is a header and the encryption.
 * 3. At most {@link WebRtcViewersConfig.maxViewers}, half of them of one holder. A viewer ends as soon as whoever let it in says so, looked for every half second.
 */
import type { EpochMs, StreamId } from "#schema/common.ts"
import type { AudioCodec, VideoCodec } from "#schema/media.ts"
import { Context, Data, type Effect } from "effect"
import type { PeerEnd, SdpRefused, WebRtcBusy, WebRtcClosed, WebRtcPeer } from "./webrtc.ts"

/** This node does not serve the stream. */
export class WatchUnknown extends Data.TaggedError("WatchUnknown") {}
/** The camera delivers nothing at the moment. */
export class WatchSilent extends Data.TaggedError("WatchSilent") {}
/** WebRTC cannot carry it as it is, and nothing is encoded anew. */
export class WatchUnplayable extends Data.TaggedError("WatchUnplayable")<{
  readonly why: "h265" | "reordered"
}> {}

/** Who watches. */
export interface WatchHolder {
  /** For lists: the login session. */
  readonly id: string
  readonly userAgent: string | null
  /** Asked again and again: whether it may go on. */
  readonly holds: Effect.Effect<boolean>
}

/** Why there is no sound: the camera sends none, the browser wants none, or cannot play it. */
export type WatchSound = "pcmu" | "pcma" | "opus" | "none" | "unwanted" | "unplayable"

export interface OutgoingPeer extends WebRtcPeer {
  readonly sound: WatchSound
}

export interface WebRtcSession {
  readonly id: string
  readonly streamId: StreamId
  readonly remote: string | null
  readonly userAgent: string | null
  readonly holder: string
  readonly state: "connecting" | "connected" | "ended"
  readonly since: EpochMs
  readonly sound: WatchSound
  readonly sentBytes: number
  readonly sentPackets: number
  /** Packets sent once more because the viewer had lost them. */
  readonly resentPackets: number
  /** Pictures left out because the viewer's line was too thin. */
  readonly skippedPictures: number
  /** Key pictures that it asked for. */
  readonly keyRequests: number
  /** By its own reports; null before the first. */
  readonly lostPackets: number | null
  readonly jitterMs: number | null
  readonly rttMs: number | null
}

export interface WebRtcViewersConfig {
  readonly maxViewers: number
}

export class WebRtcViewers extends Context.Service<WebRtcViewers, {
  readonly config: WebRtcViewersConfig
  /** Answers a browser that wants to watch. Waits for the camera's first picture, 10 s at most. */
  readonly watch: (streamId: StreamId, offer: string, holder: WatchHolder) => Effect.Effect<
    OutgoingPeer,
    SdpRefused | WebRtcClosed | WebRtcBusy | WatchUnknown | WatchSilent | WatchUnplayable
  >
  /** A viewer of the stream by its id; null: there is none. */
  readonly viewer: (streamId: StreamId, id: string) => WebRtcPeer | null
  readonly sessions: () => ReadonlyArray<WebRtcSession>
  /** Whether there was such a viewer. */
  readonly end: (id: string) => boolean
  /** How viewers ended since the start. */
  readonly endings: () => Readonly<Partial<Record<PeerEnd, number>>>
}>()("nightjar/media/WebRtcViewers") {}

/** What WebRTC leaves out of such a stream; null: nothing. B-frames are known only once it is watched. */
export const watchLimit = (video: VideoCodec | null, audio: AudioCodec | null): string | null => {
  if (video === "h265") {
    return "The pictures are H.265, which browsers do not take by WebRTC: watch another stream, or live HLS."
  }
  return audio === "aac" ? "The sound is AAC, which browsers do not take by WebRTC: pictures alone." : null
}
