/** Browsers that send: the answer to their offer, their packets, what they are asked for. */
import type { IncomingWish, PeerEnd } from "#media/webrtc.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { until } from "./rtsp-server-fixtures.ts"
import { client, ignored, rtp, webRtc } from "./webrtc-peers.ts"

const phone: IncomingWish = { video: "required", audio: ["opus"], audioRequired: false, maxBitrate: 4_000_000 }
const microphone: IncomingWish = { video: "none", audio: ["pcmu", "pcma"], audioRequired: true, maxBitrate: 64_000 }

describe("a browser that sends", () => {
  it.live("brings its pictures and sounds, and hears what is missing", () =>
    Effect.scoped(Effect.gen(function*() {
      const service = yield* webRtc()
      const sender = yield* client({ direction: "SendOnly", video: "h264", audio: "opus" })
      const got: Array<readonly [string, number, string]> = []
      const ends: Array<PeerEnd> = []
      const peer = yield* service.receive(sender.offer, phone, {
        ...ignored,
        onRtp: (track, packet) => got.push([track, packet.readUInt16BE(2), packet.toString("utf8", 12)]),
        onEnd: (reason) => ends.push(reason),
      })
      assert.deepStrictEqual([peer.video?.codec, peer.audio?.codec, peer.audio?.clockHz], ["h264", "opus", 48_000])
      const asked: Array<Buffer> = []
      sender.video!.onMessage((message) => asked.push(message))
      sender.connection.setRemoteDescription(peer.answer, "answer")
      yield* until("a connection", () => sender.connection.state() === "connected" && peer.state() === "connected")
      for (const sequence of [65_534, 65_535, 2]) {
        sender.video!.sendMessageBinary(rtp(102, 4711, sequence, 90_000, Buffer.from(`picture ${sequence}`)))
      }
      sender.audio!.sendMessageBinary(rtp(111, 4712, 7, 960, Buffer.from("sound 7")))
      yield* until("the packets", () => got.length === 4)
      assert.deepStrictEqual(got.filter(([track]) => track === "video"), [
        ["video", 65_534, "picture 65534"],
        ["video", 65_535, "picture 65535"],
        ["video", 2, "picture 2"],
      ])
      assert.deepStrictEqual(got.filter(([track]) => track === "audio"), [["audio", 7, "sound 7"]])
      const nack = (sequence: number) => (bytes: Buffer) => bytes[1] === 205 && bytes.readUInt16BE(12) === sequence
      yield* until("a question for the lost ones", () => asked.some(nack(0)))
      assert.strictEqual(asked.find(nack(0))!.readUInt16BE(14), 1)
      peer.requestKeyPicture()
      yield* until("a question for a key picture", () =>
        asked.some((bytes) => bytes[1] === 206 && (bytes[0]! & 31) === 1))
      yield* until("a report", () =>
        asked.some((bytes) => bytes[1] === 201))
      assert.strictEqual(peer.statistics().lostPackets, 2)
      peer.close()
      peer.close()
      assert.deepStrictEqual(ends, ["closed"])
      assert.strictEqual(service.config().peers, 0)
    })))

  it.live("speaks by microphone alone", () =>
    Effect.scoped(Effect.gen(function*() {
      const service = yield* webRtc()
      const sender = yield* client({ direction: "SendOnly", audio: "pcma" })
      let heard = ""
      const peer = yield* service.receive(sender.offer, microphone, {
        ...ignored,
        onRtp: (_track, packet) => {
          heard = packet.toString("utf8", 12)
        },
      })
      assert.deepStrictEqual(peer.audio, { codec: "pcma", payloadType: 8, clockHz: 8000, channels: 1 })
      sender.connection.setRemoteDescription(peer.answer, "answer")
      yield* until("a connection", () => sender.audio!.isOpen() && peer.state() === "connected")
      sender.audio!.sendMessageBinary(rtp(8, 4712, 1, 160, Buffer.from("hello")))
      yield* until("a sound", () => heard === "hello")
    })))

  it.live("is refused with the reason", () =>
    Effect.scoped(Effect.gen(function*() {
      const service = yield* webRtc()
      const { offer } = yield* client({ direction: "SendOnly", video: "vp8" })
      const problem = (text: string, wish: IncomingWish) =>
        service.receive(text, wish, ignored).pipe(
          Effect.flip,
          Effect.map((error) => error._tag === "SdpRefused" ? error.problem : error._tag),
        )
      assert.strictEqual(yield* problem(offer, phone), "it does not send H.264")
      assert.strictEqual(yield* problem(offer, microphone), "it sends no pcmu or pcma")
      assert.strictEqual(yield* problem("hello", phone), "it is no session description")
    })))

  it.live("must hold the key of its certificate", () =>
    Effect.scoped(Effect.gen(function*() {
      const service = yield* webRtc()
      const sender = yield* client({ direction: "SendOnly", audio: "pcmu" })
      const ends: Array<PeerEnd> = []
      const digit = /(a=fingerprint:sha-256 )(.)/i
      const forged = sender.offer.replace(digit, (_all, head: string, first: string) =>
        `${head}${first === "0" ? "1" : "0"}`)
      const peer = yield* service.receive(forged, microphone, {
        ...ignored,
        onEnd: (reason) =>
          ends.push(reason),
      })
      sender.connection.setRemoteDescription(peer.answer, "answer")
      yield* until("an end", () => ends.length > 0)
      assert.deepStrictEqual(ends, ["failed"])
    })))
})
