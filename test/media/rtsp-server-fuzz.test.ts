/** Hostile bytes for everything that reads what a player sends: no exception but `Malformed`, the same result however they are cut. */
import { Malformed } from "#media/codec/malformed.ts"
import { showsAccount, tokenOf } from "#media/rtsp-server/credentials.ts"
import { maxBodyBytes, maxHeadBytes, RequestReader } from "#media/rtsp-server/request-reader.ts"
import { targetOf, wishesOf } from "#media/rtsp-server/transport.ts"
import { assert, describe, it } from "@effect/vitest"
import { Redacted, Schema } from "effect"
import { Effect } from "effect"
import { connect } from "node:net"
import { random } from "./random.ts"
import { mutate } from "./rtp-seeds.ts"
import { footage, stage, streamId, token, until } from "./rtsp-server-fixtures.ts"

const url = `rtsp://127.0.0.1:8554/live/${streamId}`
const request = (method: string, ...headers: Array<string>) =>
  Buffer.from([`${method} ${url}/trackID=0?token=${token} RTSP/1.0`, "CSeq: 7", ...headers, "", ""].join("\r\n"))
const seeds = [
  Buffer.concat([
    request("OPTIONS"),
    request("DESCRIBE", "Accept: application/sdp", "Authorization: Basic YTpi"),
    request("SETUP", "Transport: RTP/AVP/TCP;unicast;interleaved=0-1,RTP/AVP;unicast;client_port=5000-5001"),
    request("PLAY", "Session: 0123456789abcdef", "Range: npt=now-"),
    Buffer.from([0x24, 1, 0, 8, 0x80, 201, 0, 1, 0, 0, 0, 1]),
    request("GET_PARAMETER", "Session: 0123456789abcdef", "Content-Length: 4"),
    Buffer.from("ping"),
    request("TEARDOWN", "Session: 0123456789abcdef"),
  ]),
  Buffer.concat([
    request(
      "SETUP",
      "Transport: RTP/AVP/UDP;unicast;client_port=40000-40001;mode=\"PLAY\"",
      "Authorization: Digest username=\"a\"",
    ),
    Buffer.from([0x24, 3, 0, 12, 0x81, 201, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2]),
    request("PAUSE"),
  ]),
  Buffer.concat([
    request("DESCRIBE", "Require: www.onvif.org/ver20/backchannel"),
    request("SETUP", "Require: www.onvif.org/ver20/backchannel", "Transport: RTP/AVP/TCP;unicast;interleaved=4-5"),
    Buffer.from([0x24, 4, 0, 16, 0x80, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 1, 2, 3, 4]),
    Buffer.from(
      request("DESCRIBE", "Accept: application/sdp").toString().replace(
        /\/live\/.*?\?/,
        "/recording/01900000-0000-7000-8000-00000000000b?start=2026-11-21T20:00:00Z&end=2026-11-21T21:00:00Z&",
      ),
    ),
    request("PLAY", "Require: onvif-replay", "Range: clock=20261121T200000Z-", "Scale: -2.0", "Rate-Control: no"),
  ]),
]

const everyMutation = (times: number, check: (bytes: Buffer, next: (below: number) => number) => void) =>
  seeds.forEach((seed, index) => {
    for (let round = 0; round <= times; round++) {
      const next = random(index * 100_003 + round)
      const bytes = round === 0 ? seed : mutate(seed, seeds[next(seeds.length)]!, next)
      try {
        check(bytes, next)
      } catch (error) {
        throw new Error(`seed ${index}, round ${round}: ${bytes.toString("base64").slice(0, 2000)}`, { cause: error })
      }
    }
  })

const read = (bytes: Buffer, cut: () => number): ReadonlyArray<string> => {
  const got: Array<string> = []
  const reader = new RequestReader({
    onRequest: (head) => got.push(JSON.stringify(head)),
    onPacket: (channel, packet, from, to) => got.push(`${channel} ${packet.toString("latin1", from, to)}`),
  })
  try {
    for (let at = 0; at < bytes.length;) {
      const chunk = Buffer.from(bytes.subarray(at, at + cut()))
      reader.feed(chunk)
      chunk.fill(0x24)
      at += chunk.length
    }
  } catch (error) {
    if (!(error instanceof Malformed)) throw error
    got.push("malformed")
  }
  return got
}

describe("requests", () => {
  it("mutated connections give the same however they are cut", () => {
    everyMutation(600, (bytes, next) => {
      const whole = read(bytes, () => 65_536)
      assert.deepStrictEqual(read(bytes, () => 1 + next(300)), whole)
      assert.deepStrictEqual(read(bytes, () => 1 + next(4)), whole)
    })
    assert.lengthOf(read(seeds[0]!, () => 65_536), 7)
  })

  it("heads, bodies and packets beyond their bounds end it", () => {
    const malformed = (bytes: Buffer) => assert.strictEqual(read(bytes, () => 1000).at(-1), "malformed")
    malformed(Buffer.from("GET_PARAMETER ".padEnd(maxHeadBytes + 2, "x")))
    malformed(request("OPTIONS", `X: ${"y".repeat(maxHeadBytes)}`))
    malformed(request("GET_PARAMETER", `Content-Length: ${maxBodyBytes + 1}`))
    malformed(Buffer.from([0x24, 0, 0xff, 0xff]))
    malformed(Buffer.from("GET / HTTP/1.1\r\n\r\n"))
  })

  it.prop("any text is a target, wishes and credentials, or none", [Schema.String], ([text]) => {
    const account = { username: "a", password: Redacted.make("b") }
    for (
      const one of [
        text,
        `rtsp://${text}@h:1/live/${streamId}`,
        `rtsp://h/live/${streamId}${text}`,
        `rtsp://${text}/live/${streamId}`,
      ]
    ) {
      const target = targetOf(one)
      if (target !== null) assert.match(target.base, /^rtsp:\/\/[^\s/]+\/live\/[0-9a-f-]{36}\/$/)
    }
    for (const one of [text, `RTP/AVP;client_port=${text}`, `RTP/AVP/TCP;interleaved=${text}`]) {
      for (const wish of wishesOf(one)) {
        if (wish.kind === "udp") assert.isTrue(Math.min(wish.rtpPort, wish.rtcpPort) >= 1024)
        else assert.isTrue(wish.channel === null || wish.channel < 255)
      }
    }
    for (const authorization of [text, `Basic ${text}`, `Digest ${text}`, `Digest nonce="n", username=${text}`]) {
      assert.isFalse(showsAccount(account, "n", { method: "PLAY", url, authorization }))
      tokenOf(text, authorization)
    }
  })

  it.live("a server that was sent mutated connections still serves", () =>
    Effect.gen(function*() {
      const { hub, port, server } = yield* stage()
      hub.parameters(footage().parameters)
      for (const unit of footage().units) hub.unit(unit)
      const sockets = Array.from({ length: 200 }, (_, round) => {
        const next = random(round)
        const socket = connect(port, "127.0.0.1")
        socket.on("error", () => socket.destroy())
        socket.resume()
        socket.end(mutate(seeds[round % seeds.length]!, seeds[next(seeds.length)]!, next))
        return socket
      })
      yield* until("all of them to be answered", () => sockets.every(({ closed }) => closed))
      yield* until("nobody to be left", () => server.sessions().length === 0)
      const answer: Array<string> = []
      const last = connect(port, "127.0.0.1")
      last.on("data", (bytes: Buffer) => answer.push(bytes.toString()))
      last.write(request("DESCRIBE"))
      yield* until("an answer", () => answer.join("").includes("m=video"))
      last.destroy()
    }))
})
