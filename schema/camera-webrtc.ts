/** Live streams by WebRTC: who watches, and what is answered where a browser cannot. */
import { Schema } from "effect"
import { Instant, StreamId } from "./common.ts"

/** Unguessable: whoever knows it may change or end that session. */
export const WebRtcSessionId = Schema.String.check(Schema.isPattern(/^[A-Za-z0-9_-]{24}$/)).pipe(
  Schema.brand("WebRtcSessionId"),
)

export const WebRtcViewing = Schema.Struct({
  id: Schema.String,
  streamId: StreamId,
  /** `address:port` that it is sent to; null before the browser was heard from. */
  remote: Schema.NullOr(Schema.String),
  userAgent: Schema.NullOr(Schema.String),
  /** The login session whose token let it in. */
  holder: Schema.String,
  state: Schema.Literals(["connecting", "connected", "ended"]),
  since: Instant,
  /** What it hears, or why nothing: the camera has no sound, the browser wants none, or cannot play it. */
  sound: Schema.Literals(["pcmu", "pcma", "opus", "none", "unwanted", "unplayable"]),
  sentBytes: Schema.Int,
  sentPackets: Schema.Int,
  /** Sent once more because they were lost. */
  resentPackets: Schema.Int,
  /** Pictures left out because the line was too thin. */
  skippedPictures: Schema.Int,
  keyRequests: Schema.Int,
  /** By the browser's own reports; null before the first. */
  lostPackets: Schema.NullOr(Schema.Int),
  jitterMs: Schema.NullOr(Schema.Int),
  rttMs: Schema.NullOr(Schema.Int),
}).annotate({ identifier: "WebRtcViewing" })
export type WebRtcViewing = typeof WebRtcViewing.Type

/** The offer is malformed, or asks for nothing that there is. */
export class OfferRefused extends Schema.TaggedError<OfferRefused>()("OfferRefused", { problem: Schema.String }, {
  httpApiStatus: 406,
}) {
  override get message(): string {
    return `The offer cannot be answered: ${this.problem}.`
  }
}

/** The camera's pictures are of a kind that WebRTC does not carry, and nothing is encoded anew. */
export class NotForWebRtc extends Schema.TaggedError<NotForWebRtc>()("NotForWebRtc", {
  why: Schema.Literals(["h265", "reordered"]),
  /** Another stream of the same channel that WebRTC carries, as far as known. */
  alternativeStreamId: Schema.NullOr(StreamId),
}, { httpApiStatus: 501 }) {
  override get message(): string {
    const what = this.why === "h265" ? "H.265" : "H.264 with B-frames"
    const instead = this.alternativeStreamId === null ?
      "" :
      ` stream ${this.alternativeStreamId} of the same channel, or`
    return `The stream is ${what}, which WebRTC does not carry: watch${instead} live HLS.`
  }
}

/** Never existed, or has ended. */
export class WebRtcSessionNotFound
  extends Schema.TaggedError<WebRtcSessionNotFound>()("WebRtcSessionNotFound", {}, { httpApiStatus: 404 })
{
  override get message(): string {
    return "There is no such WebRTC session (any more)."
  }
}

/** ICE credentials other than those of the offer: a restart, which a lite agent on a fixed port has no use for. */
export class IceRestartUnsupported
  extends Schema.TaggedError<IceRestartUnsupported>()("IceRestartUnsupported", {}, { httpApiStatus: 422 })
{
  override get message(): string {
    return "ICE cannot be restarted within a session; make a new one."
  }
}
