/**
 * Hostile bytes for everything that reads what a camera sends as text: no exception but `Malformed`, bounded results, and the
 * same result however the bytes are cut.
 */
import { parseAacConfig } from "#media/codec/aac.ts"
import { maxSide } from "#media/codec/bits.ts"
import { isRecoveryPoint264, parsePps264, parseSps264, slicePps264, type Sps } from "#media/codec/h264.ts"
import { parsePps265, parseSps265, parseVps265, slicePps265 } from "#media/codec/h265.ts"
import { Malformed } from "#media/codec/malformed.ts"
import { authorization, parseChallenges, strongest } from "#media/rtsp/auth.ts"
import { Framer, maxBodyBytes } from "#media/rtsp/framer.ts"
import { parseHead, parseSession, parseTransport } from "#media/rtsp/message.ts"
import { parseSdp } from "#media/rtsp/sdp.ts"
import { chooseTracks, makeTracks } from "#media/rtsp/tracks.ts"
import { baseUrl, controlUrl, parseRtspUrl } from "#media/rtsp/url.ts"
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { random } from "./random.ts"
import { everyMutation } from "./rtp-seeds.ts"
import { interleaved } from "./scripted-camera.ts"

/** `null` where it is malformed; any other exception is a finding. */
const allowed = <A>(parse: () => A): A | null => {
  try {
    return parse()
  } catch (error) {
    if (error instanceof Malformed) return null
    throw error
  }
}

/** What a framer makes of the bytes, cut where `cut` says; an error ends it. */
const framed = (bytes: Buffer, cut: () => number): ReadonlyArray<string> => {
  const got: Array<string> = []
  const framer = new Framer({
    onPacket: (channel, packet, from, to) => got.push(`${channel} ${packet.toString("latin1", from, to)}`),
    onMessage: ({ body, head }) => {
      assert.isAtMost(body.length, maxBodyBytes)
      got.push(`${JSON.stringify(head)} ${body.toString("latin1")}`)
    },
  })
  const result = allowed(() => {
    for (let at = 0; at < bytes.length;) {
      const chunk = Buffer.from(bytes.subarray(at, at + cut()))
      framer.feed(chunk, chunk.length)
      // The buffer is used again for the next read: nothing may still point into it.
      chunk.fill(0x24)
      at += chunk.length
    }
    return true
  })
  return [...got, result === null ? "malformed" : "fine"]
}

describe("the framer", () => {
  it("makes the same of mutated connections however they are cut", () => {
    everyMutation("framer", 150, (bytes) => {
      const whole = framed(bytes, () => 65_536)
      const next = random(bytes.length)
      assert.deepStrictEqual(framed(bytes, () => 1 + next(2000)), whole)
      assert.deepStrictEqual(framed(bytes, () => 1 + next(5)), whole)
    })
  })

  const Piece = Schema.Union([
    Schema.Struct({
      channel: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 255 })),
      payload: Schema.String,
    }),
    Schema.Struct({ status: Schema.Int.check(Schema.isBetween({ minimum: 100, maximum: 999 })), body: Schema.String }),
  ])

  it.prop("gives back what was put together", [Schema.Array(Piece), Schema.Int], ([pieces, seed]) => {
    const bytes = Buffer.concat(pieces.map((piece) =>
      "channel" in piece ?
        interleaved(piece.channel, Buffer.from(piece.payload)) :
        Buffer.from(
          `RTSP/1.0 ${piece.status} X\r\nContent-Length: ${Buffer.byteLength(piece.body)}\r\n\r\n${piece.body}`,
        )
    ))
    const next = random(seed)
    assert.deepStrictEqual(framed(bytes, () => 1 + next(40)), [
      ...pieces.map((piece) =>
        "channel" in piece ?
          `${piece.channel} ${Buffer.from(piece.payload).toString("latin1")}` :
          `${
            JSON.stringify({
              kind: "response",
              status: piece.status,
              reason: "X",
              headers: [["content-length", String(Buffer.byteLength(piece.body))]],
            })
          } ${Buffer.from(piece.body).toString("latin1")}`
      ),
      "fine",
    ])
  })
})

describe("texts", () => {
  it("heads, sessions and transports are total", () => {
    const check = (bytes: Buffer) => {
      const text = bytes.toString("latin1")
      const head = parseHead(text)
      if (head !== null) assert.isAtMost(head.headers.length, 100)
      const { timeoutSeconds } = parseSession(text)
      assert.isTrue(timeoutSeconds === null || timeoutSeconds > 0)
      const { interleaved: channels, serverPort } = parseTransport(text)
      assert.isTrue(channels === null || channels.every((channel) => channel >= 0 && channel < 256))
      assert.isTrue(serverPort === null || serverPort.every((port) => port < 65_536))
    }
    everyMutation("head", 500, check)
    everyMutation("transport", 500, check)
  })

  it("session descriptions are total, bounded, and what is chosen of them can be run", () => {
    everyMutation("sdp", 400, (bytes) => {
      const sdp = parseSdp(bytes.toString("utf8"))
      assert.isAtMost(sdp.media.length, 32)
      for (const { formats } of sdp.media) {
        assert.isAtMost(formats.length, 16)
        assert.isTrue(formats.every(({ encoding, clockRate }) => encoding === "" || clockRate > 0))
      }
      const choice = chooseTracks(sdp)
      if (typeof choice === "string") return
      const tracks = makeTracks(choice, true, { onParameters: () => {}, onUnit: () => {}, onLoss: () => {} })
      for (const track of [tracks.video, tracks.audio]) track?.push(bytes, 0, bytes.length, 0)
    })
  })

  it("challenges are total, and an answer is one line", () => {
    everyMutation("challenge", 1500, (bytes) => {
      const challenge = strongest(parseChallenges(bytes.toString("utf8").split("\n")))
      if (challenge === null) return
      const request = { method: "DESCRIBE", url: "rtsp://cam/", count: 1, cnonce: "0f" }
      const value = authorization(challenge, { username: "u", password: "hunter2" }, request)
      if (challenge.scheme === "digest") assert.notInclude(value, "hunter2")
    })
  })

  it("addresses are whole or refused, and lead nowhere else", () => {
    everyMutation("url", 2000, (bytes) => {
      const url = allowed(() => parseRtspUrl(bytes.toString("utf8")))
      if (url === null) return
      assert.isTrue(url.port > 0 && url.port < 65_536 && url.host !== "")
      assert.match(url.text, /^rtsp:\/\/[\x21-\x7e]+$/)
      assert.notMatch(url.text.slice(7).split(/[/?]/)[0]!, /@/)
      const told = bytes.toString("latin1")
      assert.match(controlUrl(baseUrl(url, told), told), /^rtsps?:\/\/[\x21-\x7e]*$/i)
    })
  })

  it.prop("nothing that is a string can harm them", [Schema.String], ([text]) => {
    parseHead(text)
    parseSdp(text)
    parseSdp(`m=video 0 RTP/AVP 96\na=fmtp:96 ${text}\na=rtpmap:96 ${text}`)
    parseChallenges([text, `Digest ${text}`, `Digest nonce="${text}"`])
    parseTransport(text)
    parseSession(text)
    allowed(() => parseRtspUrl(text))
    allowed(() => parseRtspUrl(`rtsp://${text}`))
  })
})

describe("codec configurations", () => {
  const fine = (sps: Sps | null) =>
    assert.isTrue(sps === null || (sps.width > 0 && sps.height > 0 && sps.width <= maxSide && sps.height <= maxSide))

  it("mutated parameter sets have a size that can be, or are refused", () => {
    everyMutation("sps-h264", 3000, (bytes) => {
      fine(allowed(() => parseSps264(bytes)))
      allowed(() => parsePps264(bytes))
      assert.isAtLeast(slicePps264(bytes), -1)
      isRecoveryPoint264(bytes)
    })
    everyMutation("sps-h265", 3000, (bytes) => {
      fine(allowed(() => parseSps265(bytes)))
      allowed(() => parsePps265(bytes))
      allowed(() => parseVps265(bytes))
      assert.isAtLeast(slicePps265(bytes), -1)
    })
  })

  it("mutated AAC configurations have a rate and a frame, or are refused", () => {
    everyMutation("aac-config", 2000, (bytes) => {
      const config = allowed(() => parseAacConfig(bytes))
      if (config === null) return
      assert.isTrue(config.coreRate >= 1000 && config.outputRate <= 192_000 && config.frameSamples > 0)
    })
  })
})
