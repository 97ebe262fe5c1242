/**
 * The process whose CPU `live.ts` reads: one stream of 4 Mbit/s (`live-stream.ts`) for viewers by WebRTC, by this product or, with
 * `--peer`, by werift as it comes. Prints its HTTP port; an offer that is posted there is answered. Ends with its input.
 */
import { makeVideoPacketiser } from "#media/rtp/packetiser.ts"
import { WebRtcViewers } from "#media/webrtc-viewers.ts"
import { WebRtc } from "#media/webrtc.ts"
import { layer } from "#media/webrtc/live.ts"
import { layer as viewersLayer } from "#media/webrtc/viewers.ts"
import { StreamId } from "#schema/common.ts"
import { Effect, Layer, Logger } from "effect"
import { createServer } from "node:http"
import { text } from "node:stream/consumers"
import { MediaStreamTrack, RTCPeerConnection, useH264 } from "werift"
import { webRtcOptions } from "../media/webrtc-peers.ts"
import { parameters, playedStreams, playStream } from "./live-stream.ts"

type Answer = (offer: string) => Promise<string>

const serve = (answer: Answer): void => {
  const server = createServer((request, response) => {
    void text(request).then(answer).then((sdp) => response.end(sdp), (error: unknown) => {
      response.statusCode = 500
      response.end(String(error))
    })
  })
  server.listen(0, "127.0.0.1", () => {
    const address = server.address()
    process.stdout.write(`${typeof address === "object" && address !== null ? address.port : 0}\n`)
  })
}

const own = Effect.gen(function*() {
  const viewers = yield* WebRtcViewers
  const webRtc = yield* WebRtc
  while (webRtc.config().port === null) yield* Effect.sleep(10)
  const run = Effect.runPromiseWith(yield* Effect.context<never>())
  const holder = { id: "bench", userAgent: null, holds: Effect.succeed(true) }
  const stream = StreamId.make("01900000-0000-7000-8000-0000000000aa")
  serve((offer) => run(Effect.map(viewers.watch(stream, offer, holder), (peer) => peer.answer)))
  return yield* Effect.never
}).pipe(
  Effect.provide(viewersLayer.pipe(Layer.provideMerge(layer(webRtcOptions)), Layer.provide(playedStreams()))),
  Effect.provide(Logger.layer([])),
)

/** Packets are made once here too; each viewer's are written by its own connection. */
const stock = (): void => {
  const tracks: Array<MediaStreamTrack> = []
  const packetiser = makeVideoPacketiser("h264", { channel: 0, payloadType: 102, ssrc: 1, sequence: 0 })
  playStream((unit) => {
    const { pps, sps } = parameters.video
    const packets = packetiser.unit(unit.data, unit.ticks, unit.key ? [sps, pps] : [])
    packets?.starts.forEach((start, index) => {
      const packet = packets.bytes.subarray(start + 4, packets.starts[index + 1] ?? packets.bytes.length)
      for (const track of tracks) track.writeRtp(packet)
    })
  })
  serve(async (offer) => {
    const connection = new RTCPeerConnection({
      iceServers: [],
      iceUseIpv6: false,
      iceAdditionalHostAddresses: ["127.0.0.1"],
      codecs: { video: [useH264({ payloadType: 102 })] },
    })
    const track = new MediaStreamTrack({ kind: "video" })
    connection.addTransceiver(track, { direction: "sendonly" })
    await connection.setRemoteDescription({ type: "offer", sdp: offer })
    await connection.setLocalDescription(await connection.createAnswer())
    connection.connectionStateChange.subscribe((state) => {
      if (state === "connected") tracks.push(track)
      else tracks.splice(tracks.indexOf(track) >>> 0, 1)
    })
    return connection.localDescription!.sdp
  })
}

process.stdin.resume().on("end", () => process.exit(0))
if (process.argv.includes("--peer")) stock()
else void Effect.runPromise(own)
