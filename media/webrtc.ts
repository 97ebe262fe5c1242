/**
 * The door to browsers: WebRTC by one offer and one answer, as WHIP (RFC 9725) and WHEP carry them. Its room: `media/webrtc/`.
 *
 * Invariants
 * 1. An answer is whole: all candidates are in it, and nothing that comes later is needed to connect. What {@link WebRtcPeer.trickle}
 *    is told changes nothing, since a lite agent makes no checks of its own.
 * 2. Only the addresses of the configured interfaces are listened on, one port for all peers: by UDP, and by TCP for those that UDP does
 *    not reach. What it announces besides are the additional hosts of the settings.
 * 3. At most {@link WebRtcConfig.maxPeers} peers; of those that never connect the oldest goes when another comes.
 * 4. A peer ends once, and tells why; it ends with the door in any case.
 */
import { Context, Data, type Effect, type Redacted } from "effect"
import type { SenderReport } from "./rtp/rtcp.ts"
import type { SdpRefused } from "./webrtc/offer.ts"
import type { PeerEnd } from "./webrtc/peer.ts"

export type { SdpRefused } from "./webrtc/offer.ts"
export type { PeerEnd } from "./webrtc/peer.ts"

/** Nothing listens for WebRTC at the moment: no interface, or no free port. */
export class WebRtcClosed extends Data.TaggedError("WebRtcClosed") {}
/** There are as many peers as there may be. */
export class WebRtcBusy extends Data.TaggedError("WebRtcBusy") {}

/** As browsers take it (`RTCIceServer`). For them alone: this node needs no STUN or TURN to be found. */
export interface IceServer {
  readonly url: string
  readonly username: string | null
  readonly credential: Redacted.Redacted | null
}

export type IncomingTrack = "video" | "audio"
export type IncomingAudio = "opus" | "pcmu" | "pcma"

/** What is taken of a browser that sends. */
export interface IncomingWish {
  /** H.264 (RFC 6184, packetization-mode 1). */
  readonly video: "required" | "none"
  /** The first that is offered; none of them: refused where `audioRequired`, else without sound. */
  readonly audio: ReadonlyArray<IncomingAudio>
  readonly audioRequired: boolean
  /** What the browser is told that it may send, bits a second. */
  readonly maxBitrate: number
}

/** Plain callbacks, none of which may throw; none comes after `onEnd`. */
export interface IncomingEvents {
  /** Keys are agreed upon: packets follow. */
  readonly onConnected: () => void
  /** A whole RTP packet in memory of its own, as it came: in any order, lost ones are asked for again meanwhile. */
  readonly onRtp: (track: IncomingTrack, packet: Buffer, arrivalMs: number) => void
  readonly onSenderReport: (track: IncomingTrack, report: SenderReport, arrivalMs: number) => void
  /** Once. */
  readonly onEnd: (reason: PeerEnd) => void
}

/** What a track of a browser is, for a depacketiser. */
export interface IncomingFormat {
  readonly codec: "h264" | IncomingAudio
  readonly payloadType: number
  readonly clockHz: number
  readonly channels: number
}

export interface WebRtcPeer {
  /** For addresses: cannot be guessed. */
  readonly id: string
  /** SDP. */
  readonly answer: string
  readonly state: () => "connecting" | "connected" | "ended"
  /** `address:port`; null before it was heard from. */
  readonly remote: () => string | null
  /**
   * An SDP fragment (RFC 8840) with candidates of the other side. `mismatch`: it is of other ICE credentials, that is a restart,
   * which is not offered; `malformed`: it is no fragment.
   */
  readonly trickle: (fragment: string) => "taken" | "mismatch" | "malformed"
  readonly close: () => void
}

/** A browser that sends. */
export interface IncomingPeer extends WebRtcPeer {
  readonly video: IncomingFormat | null
  readonly audio: IncomingFormat | null
  /** Asks for a key picture (PLI); more than one in half a second is one. */
  readonly requestKeyPicture: () => void
  readonly statistics: () => {
    readonly receivedBytes: number
    readonly receivedPackets: number
    readonly lostPackets: number
  }
}

export interface WebRtcConfig {
  /** Null while nothing listens. */
  readonly port: number | null
  readonly addresses: ReadonlyArray<string>
  readonly additionalHosts: ReadonlyArray<string>
  readonly peers: number
  readonly maxPeers: number
}

export class WebRtc extends Context.Service<WebRtc, {
  readonly config: () => WebRtcConfig
  /** What browsers are to use besides, as `Link: <…>; rel="ice-server"` (RFC 9725, section 4.6). */
  readonly iceServers: ReadonlyArray<IceServer>
  /** Answers a browser that sends: a phone, a microphone. */
  readonly receive: (
    offer: string,
    wish: IncomingWish,
    events: IncomingEvents,
  ) => Effect.Effect<IncomingPeer, SdpRefused | WebRtcClosed | WebRtcBusy>
}>()("nightjar/media/WebRtc") {}
