/** The RTSP server, read by the product's own client and by a small player that shares no code with it. */
import { makeStreamHub } from "#media/capture/hub.ts"
import { drivers } from "#media/drivers/registry.ts"
import { LiveStreams } from "#media/hub.ts"
import { challenges, showsAccount } from "#media/rtsp-server/credentials.ts"
import { openFeed, silenceMs } from "#media/rtsp-server/feed.ts"
import { authorization, parseChallenges } from "#media/rtsp/auth.ts"
import type { SourceError } from "#media/source.ts"
import type { AccessUnit, TrackParameters } from "#schema/media.ts"
import { Viewer } from "#test/camera-simulator/viewer.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { connect, type Socket } from "node:net"
import { footage, stage, streamId, token, unknownId, until } from "./rtsp-server-fixtures.ts"

interface Watched {
  readonly units: Array<AccessUnit>
  readonly parameters: Array<TrackParameters>
  losses: number
  readonly fiber: Fiber.Fiber<never, SourceError>
}

const watch = (url: string, transport: "tcp" | "udp", password: string | null = null) =>
  Effect.gen(function*() {
    const units: Array<AccessUnit> = []
    const parameters: Array<TrackParameters> = []
    const watched = { units, parameters, losses: 0 }
    const fiber = yield* drivers.rtsp.open({
      url,
      username: password === null ? null : "reader",
      password: password === null ? null : Redacted.make(password),
      transport,
      requestTimeoutMs: 5000,
      drainEveryMs: 0,
    }, {
      onParameters: (told) => parameters.push(told),
      onUnit: (unit) => units.push({ ...unit, data: Uint8Array.from(unit.data) }),
      onLoss: (count) => {
        watched.losses += count
      },
    }).pipe(Effect.forkScoped)
    return Object.assign(watched, { fiber }) as Watched
  })

const of = (units: ReadonlyArray<AccessUnit>, track: "video" | "audio") =>
  units.filter((unit) => unit.track === track).map(({ data, key }) => [Buffer.from(data).toString("base64"), key])

const socketTo = (port: number) =>
  Effect.acquireRelease(
    Effect.callback<Socket>((resume) => {
      const socket = connect(port, "127.0.0.1", () => resume(Effect.succeed(socket)))
      socket.on("error", () => socket.destroy())
    }),
    (socket) => Effect.sync(() => socket.destroy()),
  )

describe("what is read", () => {
  const cases = [
    ["tcp", "main-640x360-25.h264", "tone-16000.aac"],
    ["udp", "main-640x360-25.h264", "tone-8000.pcmu"],
    ["tcp", "main-640x360-25.h265", "tone-48000.opus"],
    ["udp", "bframes-320x180-25.h264", "tone-8000.pcma"],
  ] as const
  for (const [transport, video, audio] of cases) {
    it.live(`${video} with ${audio} by ${transport} is what was fed: group so far, and everything after`, () =>
      Effect.gen(function*() {
        const { hub, server, url } = yield* stage()
        const { parameters, units } = footage({ video, audio })
        const half = units.length / 2
        hub.parameters(parameters)
        for (const unit of units.slice(0, half)) hub.unit(unit)
        const watched = yield* watch(`${url}?token=${token}`, transport)
        yield* until("the first pictures", () => watched.units.length > 0)
        for (const unit of units.slice(half)) {
          hub.unit(unit)
          yield* Effect.sleep(1)
        }
        const pictures = of(units, "video")
        const sounds = of(units, "audio")
        yield* until("the last picture", () => {
          const got = of(watched.units, "video")
          return got.at(-1)?.[0] === pictures.at(transport === "tcp" ? -1 : -2)?.[0] ||
            got.at(-1)?.[0] === pictures.at(-1)?.[0]
        })
        assert.strictEqual(watched.losses, 0)
        const gotPictures = of(watched.units, "video")
        const gotSounds = of(watched.units, "audio")
        assert.isTrue(watched.units.find(({ track }) => track === "video")!.key)
        const from = pictures.length - gotPictures.length
        assert.isAtLeast(gotPictures.length, pictures.length / 2)
        assert.deepStrictEqual(gotPictures, pictures.slice(from, from + gotPictures.length))
        const first = sounds.findIndex(([data]) => data === gotSounds[0]![0])
        assert.isAtLeast(gotSounds.length, sounds.length / 3)
        assert.isAtLeast(first, 0)
        assert.deepInclude(watched.parameters[0]!.video, {
          codec: parameters.video.codec,
          width: parameters.video.width,
          height: parameters.video.height,
        })
        assert.deepStrictEqual(watched.parameters[0]!.audio, parameters.audio)
        const [session] = server.sessions()
        assert.deepInclude(session, { streamId, transport, state: "playing", holder: "session 1", skippedPictures: 0 })
        assert.deepInclude(server.streams()[0], { streamId, ready: true, readers: 1 })
        yield* Fiber.interrupt(watched.fiber)
        yield* until("nobody to be left", () => server.sessions().length === 0)
      }))
  }

  it.live("times are the camera's: units keep their distance, also across a new connection to the camera", () =>
    Effect.gen(function*() {
      const { hub, url } = yield* stage()
      const first = footage({ seconds: 1 })
      const second = footage({ seconds: 1, startMs: 1_795_000_003_000, videoTicks: 77_000_000, audioTicks: 5 })
      hub.parameters(first.parameters)
      const watched = yield* watch(`${url}?token=${token}`, "tcp")
      yield* until("a viewer", () => hub.viewers() === 1)
      for (const unit of first.units) hub.unit(unit)
      yield* until("the first second", () => of(watched.units, "video").length >= 24)
      hub.end()
      hub.parameters(second.parameters)
      for (const unit of second.units) hub.unit(unit)
      yield* until("the second second", () => of(watched.units, "video").length >= 49)
      const ticks = watched.units.filter(({ track }) => track === "video").map((unit) => unit.ticks)
      assert.deepStrictEqual(
        ticks.slice(1, 24).map((at, index) => at - ticks[index]!),
        Array.from({ length: 23 }, () => 3600),
      )
      // Three seconds lie between the two beginnings.
      assert.strictEqual(ticks[25]! - ticks[0]!, 270_000)
      assert.strictEqual(watched.losses, 0)
      const told = watched.units.filter(({ senderMs }) => senderMs !== null)
      assert.isAbove(told.length, 0)
      for (const { senderMs } of told) assert.isAbove(senderMs!, 1_794_999_999_000)
    }))
})

describe("who is let in", () => {
  it.live("a token in the address or as password; nobody else; unknown streams only to those who are", () =>
    Effect.gen(function*() {
      const { gate, hub, port, server, url } = yield* stage()
      hub.parameters(footage().parameters)
      const ask = (target: string, login: { username: string; password: string } | null, headers: Array<string> = []) =>
        Effect.promise(async () => {
          const viewer = await Viewer.connect(url, login)
          const reply = await viewer.ask("DESCRIBE", target, headers)
          viewer.close()
          return reply
        })
      const stranger = yield* ask(url, null)
      assert.strictEqual(stranger?.status, 401)
      assert.strictEqual(stranger?.headers.get("www-authenticate"), "Basic realm=\"Nightjar\"")
      const basic = (text: string) => [`Authorization: Basic ${Buffer.from(text).toString("base64")}`]
      assert.strictEqual((yield* ask(`${url}?token=wrong`, null))?.status, 401)
      assert.strictEqual((yield* ask(url, null, basic("x:wrong")))?.status, 401)
      const good = yield* ask(`${url}?token=${token}`, null)
      assert.strictEqual(good?.status, 200)
      assert.include(good?.body, "H264/90000")
      assert.strictEqual(good?.headers.get("content-base"), `${url}/`)
      assert.strictEqual((yield* ask(url, null, basic(`anybody:${token}`)))?.status, 200)
      assert.strictEqual((yield* ask(url.replace(streamId, unknownId), null))?.status, 401)
      assert.strictEqual((yield* ask(`${url.replace(streamId, unknownId)}?token=${token}`, null))?.status, 404)
      assert.strictEqual((yield* ask(`rtsp://127.0.0.1:${port}/other`, null))?.status, 404)

      // Whose session ended is shown out.
      const viewer = yield* Effect.promise(() => Viewer.connect(`${url}?token=${token}`, null))
      yield* Effect.promise(() => viewer.ask("DESCRIBE"))
      assert.isFalse(viewer.closed)
      assert.strictEqual(server.sessions().length, 0)
      viewer.close()
      gate.holds = false
    }))

  it.live("the account of the door, by Digest with MD5 and SHA-256 and by Basic", () =>
    Effect.gen(function*() {
      const account = { username: "reader", password: Redacted.make("hunter2 hunter2") }
      const { hub, url } = yield* stage({ account })
      hub.parameters(footage().parameters)
      const viewer = yield* Effect.promise(() => Viewer.connect(url, null))
      const asked = { method: "DESCRIBE", url, count: 1, cnonce: "0f" }
      const offered = challenges(account, "4711")
      assert.lengthOf(offered, 3)
      for (const challenge of parseChallenges(offered)) {
        for (const password of ["hunter2 hunter2", "hunter3"]) {
          const text = authorization(challenge, { username: "reader", password }, asked)
          const right = password !== "hunter3"
          assert.strictEqual(showsAccount(account, "4711", { ...asked, authorization: text }), right)
          if (challenge.scheme === "basic") continue
          assert.isFalse(showsAccount(account, "4712", { ...asked, authorization: text }))
          assert.isFalse(showsAccount(account, "4711", { ...asked, url: `${url}x`, authorization: text }))
          assert.isFalse(showsAccount(account, "4711", { ...asked, method: "SETUP", authorization: text }))
        }
        assert.isFalse(showsAccount(null, "4711", { ...asked, authorization: "Basic OnJlYWRlcg==" }))
      }
      const told = yield* Effect.promise(() => viewer.ask("DESCRIBE"))
      assert.strictEqual(told?.status, 401)
      viewer.close()
      const watched = yield* watch(url, "tcp", "hunter2 hunter2")
      for (const unit of footage().units) hub.unit(unit)
      yield* until("pictures", () => watched.units.length > 10)
      const refused = yield* watch(url, "tcp", "wrong")
      assert.strictEqual((yield* Effect.flip(Fiber.join(refused.fiber))).reason, "unauthorized")
    }))
})

describe("a session", () => {
  it.live("describes, sets up, plays, pauses, goes on with a key picture, is torn down", () =>
    Effect.gen(function*() {
      const { hub, server, url } = yield* stage()
      const { parameters, units } = footage()
      hub.parameters(parameters)
      for (const unit of units) hub.unit(unit)
      const viewer = yield* Effect.promise(() => Viewer.connect(`${url}?token=${token}`, null))
      const ask = (method: string, target = url, headers: Array<string> = []) =>
        Effect.promise(() => viewer.ask(method, target, headers))
      assert.include((yield* ask("OPTIONS"))?.headers.get("public"), "GET_PARAMETER")
      assert.strictEqual((yield* ask("DESCRIBE", `${url}?token=${token}`))?.status, 200)
      assert.strictEqual((yield* ask("PLAY"))?.status, 454)
      const tcp = (channel: number) => [`Transport: RTP/AVP/TCP;unicast;interleaved=${channel}-${channel + 1}`]
      assert.strictEqual((yield* ask("SETUP", url, tcp(0)))?.status, 460)
      assert.strictEqual((yield* ask("SETUP", `${url}/trackID=7`, tcp(0)))?.status, 404)
      assert.strictEqual((yield* ask("SETUP", `${url}/trackID=0`, ["Transport: RTP/AVP;multicast"]))?.status, 461)
      const video = yield* ask("SETUP", `${url}/trackID=0`, tcp(10))
      assert.match(video!.headers.get("session")!, /^[0-9a-f]{16};timeout=60$/)
      assert.match(video!.headers.get("transport")!, /interleaved=10-11/)
      assert.strictEqual((yield* ask("SETUP", `${url}/trackID=1`, tcp(10)))?.status, 461)
      assert.strictEqual((yield* ask("SETUP", `${url}/trackID=1`, tcp(12)))?.status, 200)
      const played = yield* ask("PLAY")
      assert.strictEqual(played?.status, 200)
      yield* until("pictures and a report", () => viewer.packets.some(({ channel }) => channel === 11))
      const info = /url=(\S+)\/trackID=0;seq=(\d+);rtptime=(\d+)/.exec(played!.headers.get("rtp-info")!)!
      const first = viewer.packets.find(({ channel }) => channel === 10)!.bytes
      assert.deepStrictEqual([info[1], Number(info[2]), Number(info[3])], [
        url,
        first.readUInt16BE(2),
        first.readUInt32BE(4),
      ])
      // The wall clock comes along at once.
      assert.strictEqual(viewer.packets.find(({ channel }) => channel === 11)!.bytes[1], 200)
      assert.strictEqual((yield* ask("GET_PARAMETER"))?.status, 200)
      assert.strictEqual((yield* ask("SETUP", `${url}/trackID=1`, tcp(4)))?.status, 455)
      assert.strictEqual((yield* ask("PAUSE"))?.status, 200)
      assert.strictEqual(server.sessions()[0]?.state, "ready")
      const paused = viewer.packets.length
      for (const unit of units) hub.unit(unit)
      yield* ask("GET_PARAMETER")
      assert.strictEqual(viewer.packets.length, paused)
      assert.strictEqual((yield* ask("PLAY"))?.status, 200)
      yield* until("more pictures", () => viewer.packets.length > paused)
      assert.strictEqual((yield* ask("ANNOUNCE"))?.status, 501)
      assert.strictEqual((yield* ask("DESCRIBE", url, ["Require: something"]))?.status, 551)
      assert.strictEqual((yield* ask("TEARDOWN"))?.status, 200)
      yield* until("the end", () => viewer.closed)
      assert.deepStrictEqual(server.sessions(), [])
    }))

  it.live("ends when the stream's codec changes, and when it is told to", () =>
    Effect.gen(function*() {
      const { hub, server, url } = yield* stage()
      hub.parameters(footage().parameters)
      const watched = yield* watch(`${url}?token=${token}`, "tcp")
      yield* until("a session", () => server.sessions()[0]?.state === "playing")
      hub.parameters(footage({ video: "main-640x360-25.h265" }).parameters)
      assert.strictEqual((yield* Effect.flip(Fiber.join(watched.fiber))).reason, "closed")
      const again = yield* watch(`${url}?token=${token}`, "udp")
      yield* until("another session", () => server.sessions()[0]?.state === "playing")
      assert.strictEqual(server.disconnect(unknownId), 0)
      assert.strictEqual(server.disconnect(streamId), 1)
      assert.strictEqual((yield* Effect.flip(Fiber.join(again.fiber))).reason, "closed")
    }))
})

it.effect("a feed that heard nothing for half a minute ends its readers, who find a new one", () =>
  Effect.gen(function*() {
    const hubs = [makeStreamHub(() => {}), makeStreamHub(() => {})]
    let watched = 0
    const live = LiveStreams.of({
      parameters: () => null,
      watch: (_id, bounds) => Effect.sync(() => hubs[watched++]!.join(bounds).view),
    })
    const feed = (yield* openFeed(streamId).pipe(Effect.provideService(LiveStreams, live)))!
    const { parameters, units } = footage()
    hubs[0]!.parameters(parameters)
    yield* TestClock.adjust(1)
    let ended = 0
    feed.join({ send: () => {}, report: () => {}, end: () => ended++ })
    for (let seconds = 0; seconds < 60; seconds += 20) {
      hubs[0]!.unit(units[0]!)
      yield* TestClock.adjust("20 seconds")
    }
    assert.deepStrictEqual([ended, feed.stale], [0, false])
    yield* TestClock.adjust(silenceMs)
    assert.deepStrictEqual([ended > 0, feed.stale], [true, true])
  }))

describe("who is slow or hostile", () => {
  it.live("a reader that stops reading loses groups, is closed, and nobody else notices", () =>
    Effect.gen(function*() {
      const { hub, server, url } = yield* stage()
      const { parameters, units } = footage()
      hub.parameters(parameters)
      const slow = yield* Effect.promise(() => Viewer.connect(`${url}?token=${token}`, null))
      yield* Effect.promise(async () => {
        for (const track of [0, 1]) {
          const channels = `interleaved=${track * 2}-${track * 2 + 1}`
          await slow.ask("SETUP", `${url}/trackID=${track}?token=${token}`, [`Transport: RTP/AVP/TCP;${channels}`])
        }
        await slow.ask("PLAY")
      })
      slow.stall()
      const watched = yield* watch(`${url}?token=${token}`, "tcp")
      yield* until("both", () => server.sessions().filter(({ state }) => state === "playing").length === 2)
      let fed = 0
      let skipped = 0
      while (server.sessions().length === 2 && fed < 4_000) {
        for (const unit of units) hub.unit(unit)
        fed++
        skipped = Math.max(skipped, ...server.sessions().map(({ skippedPictures }) => skippedPictures))
        yield* Effect.sleep(1)
      }
      assert.strictEqual(server.sessions().length, 1)
      assert.isAbove(skipped, 0)
      yield* until("every picture", () => of(watched.units, "video").length >= fed * 100 - 1)
      assert.strictEqual(watched.losses, 0)
    }), 60_000)

  it.live("500 that connect and say nothing keep nobody out; what is no request is shown out", () =>
    Effect.gen(function*() {
      const { hub, port, url } = yield* stage()
      const { parameters, units } = footage()
      hub.parameters(parameters)
      const crowd = yield* Effect.forEach(Array.from({ length: 500 }, (_, i) => i), () => socketTo(port), {
        concurrency: 20,
      })
      for (const one of crowd.slice(250)) one.write("DESCRIBE rtsp://x")
      const watched = yield* watch(`${url}?token=${token}`, "tcp")
      for (const unit of units) hub.unit(unit)
      yield* until("pictures", () => watched.units.length > 10)
      yield* until(
        "the oldest to be gone",
        () => crowd.filter((one) => one.destroyed || one.readableEnded).length >= 240,
      )

      const rude = yield* socketTo(port)
      rude.write(Buffer.alloc(100))
      yield* until("the rude one to be gone", () => rude.closed)
    }))
})
