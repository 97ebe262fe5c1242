/** A whole node: a stream is watched by WHEP, by libdatachannel and by Chromium, with every picture of the camera, until the session ends. */
import { isRtp, lossyRelay } from "#test/harness/lossy-relay.ts"
import { brokenGroups, framesOf, gapsIn } from "#test/harness/whep-frames.ts"
import { withChromium } from "#test/harness/whep-page.ts"
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { existsSync } from "node:fs"
import { startSimulator } from "./camera-simulator/simulator.ts"
import { adminPassword, wholeNode } from "./harness/whole-node.ts"
import { random } from "./media/random.ts"
import { until } from "./media/rtsp-server-fixtures.ts"
import { client } from "./media/webrtc-peers.ts"
import { Watching } from "./media/webrtc-watching.ts"

const call = (url: string, method: string, token: string, body?: string, type = "application/json") =>
  Effect.promise(async () => {
    const response = await fetch(url, {
      method,
      headers: { "content-type": type, ...(token === "" ? {} : { authorization: `Bearer ${token}` }) },
      ...(body === undefined ? {} : { body }),
    })
    return { status: response.status, headers: response.headers, text: await response.text() }
  })

const ask = (base: string, method: string, path: string, token: string, body?: unknown) =>
  Effect.map(call(`${base}${path}`, method, token, body === undefined ? undefined : JSON.stringify(body)), (answer) => {
    assert.isBelow(answer.status, 300, `${method} ${path}: ${answer.text}`)
    return (answer.text === "" ? {} : JSON.parse(answer.text)) as Record<string, unknown>
  })

interface Made {
  readonly channels: ReadonlyArray<{ readonly streams: ReadonlyArray<{ readonly id: string }> }>
}

const camera = (name: string, sources: ReadonlyArray<string>) => ({
  name,
  driver: "rtsp",
  username: "admin",
  password: "swordfish",
  streams: sources.map((sourceUrl, index) => ({ role: index === 0 ? "main" : "sub", sourceUrl })),
})

/** Of the simulated camera: two seconds of 25 pictures. */
const groupLength = 50

const chromiumLacks = !existsSync("/usr/bin/chromium")

const signedIn = Effect.fnUntraced(function*(base: string) {
  const login = { username: "admin", password: adminPassword }
  return (yield* ask(base, "POST", "/auth/api/v1/auth/login", "", login))["accessToken"] as string
})

it.live(
  `a stream is watched by WebRTC for as long as the session${chromiumLacks ? " (Chromium is not installed)" : ""}`,
  () =>
    Effect.gen(function*() {
      const simulator = yield* Effect.acquireRelease(
        Effect.promise(() =>
          startSimulator({
            cameras: [{}, {
              profiles: [
                { name: "main", video: "main-640x360-25.h265", audio: "pcmu" },
                { name: "sub", video: "sub-320x180-10.h264", audio: "none" },
              ],
            }],
          })
        ),
        (running) => Effect.promise(() => running.close()),
      )
      const { base } = yield* wholeNode({
        NIGHTJAR_WEBRTC_UDP_PORTS: "0",
        NIGHTJAR_ICE_SERVERS: "stun:192.0.2.1:3478,turn:me:s%22crit@192.0.2.1:3478",
      })
      const admin = yield* signedIn(base)
      const urls = simulator.cameras.map((one) => [one.url("main"), one.url("sub")])
      const made = yield* Effect.forEach(urls, (sources, index) =>
        ask(base, "POST", "/camera/api/v1/cameras", admin, camera(`Camera ${index}`, sources)))
      const [main, modern] = made.map((one) =>
        (one as unknown as Made).channels[0]!.streams
      )
      const token = yield* signedIn(base)
      const pathOf = (id: string) => ask(base, "GET", `/camera/api/v1/streams/${id}/media-path`, token)
      const path = yield* pathOf(main![0]!.id)
      const whepUrl = path["whepUrl"] as string
      const streamToken = path["token"] as string
      assert.strictEqual(whepUrl, `/camera/api/v1/streams/${main![0]!.id}/whep`)

      const browser = yield* client({ direction: "RecvOnly", video: "h264", audio: "pcmu" })
      const post = (url: string, with_: string, offer = browser.offer) =>
        call(base + url, "POST", with_, offer, "application/sdp")
      // The token decides; so does the offer.
      for (const wrong of ["", admin, "x".repeat(100)]) assert.strictEqual((yield* post(whepUrl, wrong)).status, 401)
      assert.strictEqual((yield* post(whepUrl.replace(main![0]!.id, modern![0]!.id), streamToken)).status, 401)
      assert.strictEqual((yield* post(whepUrl, streamToken, "v=0\r\n")).status, 406)
      assert.strictEqual((yield* call(base + whepUrl, "POST", streamToken, "{}")).status, 415)

      const answered = yield* post(whepUrl, streamToken)
      assert.strictEqual(answered.status, 201, answered.text)
      assert.strictEqual(answered.headers.get("content-type"), "application/sdp")
      assert.strictEqual(answered.headers.get("nightjar-sound"), "unplayable")
      assert.include(answered.headers.get("link")!, "<stun:192.0.2.1:3478>; rel=\"ice-server\"")
      assert.include(answered.headers.get("link")!, "credential=\"s\\\"crit\"; credential-type=\"password\"")
      const location = answered.headers.get("location")!
      assert.match(location, new RegExp(`^${whepUrl}/[\\w-]{24}$`))
      const watching = new Watching(browser.video!, browser.audio)
      browser.connection.setRemoteDescription(answered.text, "answer")
      yield* until("a hundred pictures", () => watching.pictures.length >= 100)
      assert.deepStrictEqual(gapsIn(framesOf(watching)), [])
      watching.report()

      // A fragment of this session, of another, of none.
      const patch = (body: string) => call(base + location, "PATCH", "", body, "application/trickle-ice-sdpfrag")
      const ufrag = /a=ice-ufrag:(\S+)/.exec(browser.offer)![1]!
      assert.strictEqual(
        (yield* patch(`a=ice-ufrag:${ufrag}\r\nm=video 9 UDP/TLS/RTP/SAVPF 0\r\na=mid:0\r\n`)).status,
        204,
      )
      assert.strictEqual((yield* patch("a=ice-ufrag:other\r\n")).status, 422)
      assert.strictEqual((yield* patch("garbage")).status, 406)

      const sessions = "/camera/api/v1/media-proxy/webrtc/sessions"
      const listed = (yield* ask(base, "GET", sessions, admin))["items"] as ReadonlyArray<Record<string, unknown>>
      assert.strictEqual(listed.length, 1)
      assert.deepInclude(listed[0], {
        streamId: main![0]!.id,
        state: "connected",
        sound: "unplayable",
        skippedPictures: 0,
      })

      // H.265 is refused with the name of a stream that can be watched.
      const modernPath = yield* pathOf(modern![0]!.id)
      yield* Effect.gen(function*() {
        const sub = yield* pathOf(modern![1]!.id)
        assert.strictEqual((yield* post(sub["whepUrl"] as string, sub["token"] as string)).status, 201)
      })
      const refused = yield* post(modernPath["whepUrl"] as string, modernPath["token"] as string)
      assert.strictEqual(refused.status, 501)
      assert.deepInclude(JSON.parse(refused.text), { code: "not_for_web_rtc", why: "h265" })

      if (!chromiumLacks) {
        const port = Number(/^a=candidate:1 1 udp \d+ \S+ (\d+)/m.exec(answered.text)![1])
        const relay = yield* lossyRelay(port)
        const chance = random(7)
        relay.lose = (bytes) => isRtp(bytes) && chance(100) < 2
        const seen = yield* Effect.promise(() =>
          withChromium(async (open) => {
            const page = await open({ base, whepUrl, token: streamToken, through: relay.port })
            return page.until(({ decoded, nacks }) => decoded >= 120 && nacks > 0, 60_000)
          })
        )
        assert.deepStrictEqual(seen.errors, [])
        assert.isAtLeast(seen.decoded, 120)
        // What is lost on the way is sent again. A browser that a busy machine held up for long gives up waiting, and goes on at a key
        // picture, its own (PLI) or the camera's: once at most, of all that was lost.
        assert.isAbove(relay.lost, 3)
        const broken = brokenGroups(seen.frames, groupLength)
        assert.isAtMost(broken.length, 1, `${seen.plis} PLI, ${gapsIn(seen.frames).join()}`)
        // Where UDP does not pass, by TCP. On a busy machine a browser's time for finding a path may run out; then it asks again, as the
        // dashboard does.
        const byTcp = yield* Effect.promise(() =>
          withChromium(async (open) => {
            for (let tries = 1;; tries++) {
              const page = await open({ base, whepUrl, token: streamToken })
              const begun = await page.until(({ decoded }) => decoded >= 25, 40_000)
              if (begun.decoded < 25 && tries < 3) continue
              return page.until(({ decoded }) => decoded >= begun.decoded + 50, 60_000)
            }
          }, ["--webrtc-ip-handling-policy=disable_non_proxied_udp"])
        )
        assert.deepStrictEqual(byTcp.errors, [])
        assert.strictEqual(byTcp.protocol, "tcp", `the browser's connection is ${byTcp.state}`)
        assert.isAtLeast(byTcp.decoded, 75)
        assert.deepStrictEqual(gapsIn(byTcp.frames), [])
      }

      // Put out by id, by its own hand, with the login session.
      assert.strictEqual((yield* call(`${base}${sessions}/${"x".repeat(24)}`, "DELETE", admin)).status, 404)
      const id = location.split("/").at(-1)!
      assert.strictEqual((yield* call(`${base}${sessions}/${id}`, "DELETE", admin)).status, 204)
      assert.strictEqual((yield* call(base + location, "DELETE", "")).status, 404)
      const again = yield* client({ direction: "RecvOnly", video: "h264" })
      const second = yield* post(whepUrl, streamToken, again.offer)
      assert.strictEqual((yield* call(base + second.headers.get("location")!, "DELETE", "")).status, 204)
      const last = yield* client({ direction: "RecvOnly", video: "h264" })
      const third = yield* post(whepUrl, streamToken, last.offer)
      last.connection.setRemoteDescription(third.text, "answer")
      const late = new Watching(last.video!, null)
      yield* until("pictures", () => late.pictures.length > 10)
      yield* ask(base, "POST", "/auth/api/v1/auth/logout", token)
      const left = () =>
        Effect.map(ask(base, "GET", sessions, admin), ({ items }) => (items as ReadonlyArray<unknown>).length)
      for (let i = 0; i < 100 && (yield* left()) > 0; i++) yield* Effect.sleep(100)
      assert.strictEqual(yield* left(), 0)
      assert.strictEqual((yield* post(whepUrl, streamToken)).status, 401)
    }),
  { timeout: 240_000 },
)
