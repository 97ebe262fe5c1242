/** WebRTC clients for tests, on libdatachannel: no code is shared with ours. */
import { type IncomingEvents, WebRtc } from "#media/webrtc.ts"
import { layer, type WebRtcOptions } from "#media/webrtc/live.ts"
import { Context, Effect, Layer } from "effect"
import { Audio, PeerConnection, type Track, Video } from "node-datachannel"
import { until } from "./rtsp-server-fixtures.ts"

export const webRtcOptions: WebRtcOptions = {
  interfaces: [],
  httpHost: "127.0.0.1",
  ports: [0, 0],
  tcp: false,
  additionalHosts: [],
  iceServers: [],
}

export const webRtc = Effect.fnUntraced(function*(options: Partial<WebRtcOptions> = {}) {
  const service = Context.get(yield* Layer.build(layer({ ...webRtcOptions, ...options })), WebRtc)
  yield* until("a port", () => service.config().port !== null)
  return service
})

export interface Client {
  readonly connection: PeerConnection
  readonly video: Track | null
  readonly audio: Track | null
  readonly offer: string
}

interface Media {
  readonly direction: "SendOnly" | "RecvOnly"
  readonly video?: "h264" | "vp8"
  readonly audio?: "opus" | "pcmu" | "pcma"
}

const videoOf = ({ direction, video }: Media): Video | null => {
  if (video === undefined) return null
  const media = new Video("0", direction)
  if (video === "h264") media.addH264Codec(102)
  else media.addVP8Codec(102)
  if (direction === "SendOnly") media.addSSRC(4711, "sender")
  return media
}

const audioOf = ({ audio, direction }: Media): Audio | null => {
  if (audio === undefined) return null
  const media = new Audio("1", direction)
  if (audio === "opus") media.addOpusCodec(111)
  else media.addAudioCodec(audio === "pcmu" ? 0 : 8, audio.toUpperCase())
  if (direction === "SendOnly") media.addSSRC(4712, "sender")
  return media
}

/** A client with its offer. */
export const client = (media: Media, { tcp = false } = {}) =>
  Effect.gen(function*() {
    const connection = yield* Effect.acquireRelease(
      Effect.sync(() =>
        new PeerConnection("test", {
          iceServers: [],
          bindAddress: "127.0.0.1",
          disableAutoNegotiation: true,
          enableIceTcp: tcp,
        })
      ),
      (one) => Effect.sync(() => one.close()),
    )
    const [video, audio] = [videoOf(media), audioOf(media)]
    const tracks = {
      video: video === null ? null : connection.addTrack(video),
      audio: audio === null ? null : connection.addTrack(audio),
    }
    connection.setLocalDescription("offer")
    yield* until("an offer", () => connection.gatheringState() === "complete")
    return { connection, ...tracks, offer: connection.localDescription()!.sdp } satisfies Client
  })

/** The answer without what is reached by UDP. */
export const byTcp = (answer: string): string => answer.replaceAll(/^a=candidate:\S+ 1 udp .*\r\n/gm, "")

/** An RTP packet. */
export const rtp = (
  payloadType: number,
  ssrc: number,
  sequence: number,
  timestamp: number,
  payload: Buffer,
): Buffer => {
  const packet = Buffer.alloc(12 + payload.length)
  packet[0] = 0x80
  packet[1] = payloadType
  packet.writeUInt16BE(sequence & 0xffff, 2)
  packet.writeUInt32BE(timestamp >>> 0, 4)
  packet.writeUInt32BE(ssrc, 8)
  payload.copy(packet, 12)
  return packet
}

export const ignored: IncomingEvents = {
  onConnected: () => {},
  onRtp: () => {},
  onSenderReport: () => {},
  onEnd: () => {},
}
