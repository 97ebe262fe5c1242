/** What this browser can play, by the way that the pictures come. */
import type { VideoCodec } from "#schema/media.ts"
import type { WayName } from "./stream-way.ts"

/** Words for a stream that this browser has no decoder for. */
export const noDecoder = "This browser cannot decode H.265, which this stream is sent in."

const decodesInWebrtc = (): boolean =>
  RTCRtpReceiver.getCapabilities("video")?.codecs.some(({ mimeType }) => /\/h265$/i.test(mimeType)) ?? false

const decodesInHls = (): boolean => MediaSource.isTypeSupported("video/mp4; codecs=\"hvc1.1.6.L93.B0\"")

const known = new Map<WayName, boolean>()

const decodesH265 = (way: WayName): boolean => {
  const can = known.get(way) ?? (way === "webrtc" ? decodesInWebrtc() : decodesInHls())
  known.set(way, can)
  return can
}

/** Why this browser cannot play a codec by a way; null: it can, or nothing speaks against trying. */
export const hindrance = (codec: VideoCodec | null, way: WayName): string | null => {
  if (way === "stills") return null
  if (way === "webrtc" && !("RTCPeerConnection" in window)) return "This browser has no WebRTC, or it is switched off."
  if (way !== "webrtc" && !("MediaSource" in window)) return "This browser has no Media Source Extensions."
  return codec === "h265" && !decodesH265(way) ? noDecoder : null
}
