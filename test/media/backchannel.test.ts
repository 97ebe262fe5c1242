/** A talker's packets on their way to a camera: put into order and time, and spoken to simulated loudspeakers. */
import { openBackchannel } from "#media/backchannel/client.ts"
import { frameSamples, Voice } from "#media/backchannel/voice.ts"
import { RtspTalkRefused } from "#media/rtsp-server.ts"
import { startSimulator } from "#test/camera-simulator/simulator.ts"
import { Viewer } from "#test/camera-simulator/viewer.ts"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Redacted } from "effect"
import { random } from "./random.ts"
import { mutate } from "./rtp-seeds.ts"
import { footage, stage, token, until } from "./rtsp-server-fixtures.ts"
import { rtspTalker, speak, talkRequire } from "./talker.ts"

/** A packet whose payload tells its samples' positions. */
const packet = (timestamp: number, length = frameSamples, type = 0): Buffer => {
  const bytes = Buffer.alloc(12 + length)
  bytes[0] = 0x80
  bytes[1] = type
  bytes.writeUInt32BE(timestamp >>> 0, 4)
  for (let i = 0; i < length; i++) bytes[12 + i] = ((timestamp + i) >>> 0) % 251
  return bytes
}

const voiceOf = () =>
  new Voice({ codec: "pcmu", inputType: 0, outputType: 0, ssrc: 7, sequence: 65_534, timestamp: 0xffff_ff00 })

const hear = (voice: Voice, bytes: Buffer, nowMs: number) => voice.hear(bytes, 0, bytes.length, nowMs)

/** Everything that leaves up to a moment, looked for every 10 ms. */
const leaving = (voice: Voice, fromMs: number, toMs: number): ReadonlyArray<Buffer> => {
  const out: Array<Buffer> = []
  for (let nowMs = fromMs; nowMs <= toMs; nowMs += 10) {
    for (let frame = voice.take(nowMs); frame !== null; frame = voice.take(nowMs)) out.push(frame)
  }
  return out
}

const payloads = (frames: ReadonlyArray<Buffer>) => Buffer.concat(frames.map((frame) => frame.subarray(12)))
const samples = (from: number, count: number) =>
  Buffer.from(Array.from({ length: count }, (_, i) => ((from + i) >>> 0) % 251))

describe("a voice in order and time", () => {
  it("packets of any size, swapped and across the end of 32 bits, leave as one stream of 20 ms", () => {
    const voice = voiceOf()
    const first = 0xffff_ff80
    const cuts = [160, 80, 240, 20, 300, 160]
    let at = first
    const packets = cuts.map((length) => {
      const one = packet(at, length)
      at += length
      return one
    })
    for (const i of [0, 2, 1, 4, 3, 5]) assert.isTrue(hear(voice, packets[i]!, 1_000))
    assert.isNull(voice.take(1_059))
    const out = leaving(voice, 1_060, 1_060 + 5 * 20)
    assert.lengthOf(out, 6)
    assert.deepStrictEqual(payloads(out), samples(first, 960))
    assert.deepStrictEqual(out.map((frame) => frame.readUInt16BE(2)), [65_534, 65_535, 0, 1, 2, 3])
    assert.deepStrictEqual(out.map((frame) => frame[1]), [0x80, 0, 0, 0, 0, 0])
    assert.deepStrictEqual(
      out.map((frame) => frame.readUInt32BE(4)),
      Array.from({ length: 6 }, (_, i) => (0xffff_ff00 + i * 160) % 2 ** 32),
    )
  })

  it("a process that stood still for 300 ms loses nothing of what was said meanwhile and 200 ms ahead of time", () => {
    const voice = voiceOf()
    for (let i = 0; i < 5; i++) hear(voice, packet(i * 160), i * 20)
    const before = leaving(voice, 0, 100)
    assert.isTrue(voice.isLate(400))
    for (let i = 5; i < 30; i++) assert.isTrue(hear(voice, packet(i * 160), 400))
    assert.deepStrictEqual(payloads([...before, ...leaving(voice, 400, 640)]), samples(0, 30 * 160))
    assert.isFalse(voice.isLate(640))
    assert.strictEqual(voice.dropped, 0)
  })

  it("what is lost is silence, what comes too late is dropped, and after a pause a new beginning is marked", () => {
    const voice = voiceOf()
    for (const i of [0, 1, 3, 4]) hear(voice, packet(i * 160), 0)
    const out = leaving(voice, 60, 160)
    assert.deepStrictEqual(out[2]!.subarray(12), Buffer.alloc(160, 0xff))
    assert.deepStrictEqual(payloads(out.slice(3, 5)), samples(480, 320))
    assert.isFalse(hear(voice, packet(320), 160))
    assert.strictEqual(voice.dropped, 1)
    const silence = leaving(voice, 170, 2_000)
    assert.isAtMost(silence.length, 10)
    assert.isNull(voice.dueMs)
    hear(voice, packet(50_000), 3_000)
    const [again] = leaving(voice, 3_060, 3_060)
    assert.strictEqual(again![1], 0x80)
    const passed = (again!.readUInt32BE(4) - out[0]!.readUInt32BE(4) + 2 ** 32) % 2 ** 32
    assert.approximately(passed, 3_000 * 8, 160)
  })

  it("a flood, and a talker whose clock is fast, cost no more than half a second", () => {
    const voice = voiceOf()
    for (let i = 0; i < 10_000; i++) hear(voice, packet(i * 160), 0)
    assert.isAtMost(leaving(voice, 60, 10_000).length, 40)
    let sent = 0
    const fast = voiceOf()
    let got = 0
    for (let nowMs = 0; nowMs < 20_000; nowMs += 10) {
      while (sent * 160 < nowMs * 8 * 1.05) hear(fast, packet(sent++ * 160), nowMs)
      got += leaving(fast, nowMs, nowMs).length
    }
    assert.approximately(got, 1_000, 10)
    assert.isAbove(fast.dropped, 10)
  })

  it("any bytes are heard or dropped, and only whole packets leave", () => {
    const seeds = [packet(0), packet(160, 1), Buffer.concat([Buffer.from([0xb1, 0]), packet(320).subarray(2)])]
    for (let round = 0; round < 5_000; round++) {
      const next = random(round)
      const voice = voiceOf()
      for (let i = 0; i < 5; i++) {
        const bytes = mutate(seeds[next(3)]!, seeds[next(3)]!, next)
        const from = next(4)
        voice.hear(bytes, Math.min(from, bytes.length), bytes.length, i * 20)
        for (const frame of leaving(voice, i * 20 + 60, i * 20 + 60)) assert.lengthOf(frame, 172)
      }
    }
  })
})

const options = (url: string, password = "swordfish") => ({
  url,
  username: "admin",
  password: Redacted.make(password),
  transport: "tcp" as const,
  requestTimeoutMs: 20_000,
  drainEveryMs: 0,
})

const simulated = (loudspeaker: "none" | "pcmu" | "pcma" | "g726") =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(() => startSimulator({ cameras: [{ loudspeaker }] })),
      (running) => Effect.promise(() => running.close()),
    ),
    ({ cameras }) => cameras[0]!,
  )

describe("a camera that listens", () => {
  it.live("hears what is said, in the codec it takes, and that it is over", () =>
    Effect.gen(function*() {
      const camera = yield* simulated("pcma")
      yield* Effect.scoped(Effect.gen(function*() {
        const channel = yield* openBackchannel(options(camera.url("main")))
        assert.strictEqual(channel.codec, "pcma")
        yield* speak(50, (i) => channel.hear(packet(i * 160, 160, 8), 0, 172))
        yield* until("all of it", () => camera.loudspeaker.heard.packets >= 50)
        assert.strictEqual(channel.statistics().droppedPackets, 0)
      }))
      const { missing, payload, payloadTypes, steady } = camera.loudspeaker.heard
      assert.deepStrictEqual({ missing, payloadTypes, steady }, { missing: 0, payloadTypes: [8], steady: true })
      assert.deepStrictEqual(payload.subarray(0, 8_000), samples(0, 8_000))
      yield* until("a teardown", () => camera.report().requests["TEARDOWN"] === 1)
    }))

  it.live("cameras without a loudspeaker for us, and refused passwords, are told apart", () =>
    Effect.gen(function*() {
      const reasonOf = (loudspeaker: "none" | "pcmu" | "g726", password?: string) =>
        Effect.gen(function*() {
          const camera = yield* simulated(loudspeaker)
          const { reason } = yield* Effect.flip(Effect.scoped(openBackchannel(options(camera.url("main"), password))))
          return reason
        })
      assert.strictEqual(yield* reasonOf("none"), "unsupported")
      assert.strictEqual(yield* reasonOf("g726"), "unsupported")
      assert.strictEqual(yield* reasonOf("pcmu", "wrong"), "unauthorized")
    }))

  it.live("a camera that goes away ends it", () =>
    Effect.gen(function*() {
      const camera = yield* simulated("pcmu")
      const channel = yield* openBackchannel(options(camera.url("main")))
      camera.disconnect()
      assert.strictEqual((yield* Effect.flip(channel.ended)).reason, "closed")
    }))
})

describe("a player that talks", () => {
  it.live("asks for the part to talk on, is heard on its channel alone, and is cut off with the camera", () =>
    Effect.gen(function*() {
      const heard: Array<Buffer> = []
      const over = yield* Deferred.make<void>()
      const { hub, server, url } = yield* stage({}, () =>
        Effect.succeed({
          codec: "pcma",
          hear: (bytes, from, to) => heard.push(Buffer.from(bytes.subarray(from, to))),
          ended: Deferred.await(over),
        }))
      const { parameters, units } = footage()
      hub.parameters(parameters)
      for (const unit of units) hub.unit(unit)
      const { ask, closed, said, send } = yield* rtspTalker(`${url}?token=${token}`)
      const talk = talkRequire
      assert.strictEqual(yield* ask("DESCRIBE", ""), 200)
      assert.notInclude(said(), "sendonly")
      assert.strictEqual(yield* ask("SETUP", "/trackID=2", "Transport: RTP/AVP/TCP;interleaved=4-5"), 404)
      assert.strictEqual(yield* ask("DESCRIBE", "", talk), 200)
      assert.match(said(), /m=audio 0 RTP\/AVP 8\r\na=rtpmap:8 PCMA\/8000\r\na=sendonly\r\na=control:trackID=2/)
      assert.strictEqual(yield* ask("SETUP", "/trackID=2", talk, "Transport: RTP/AVP;client_port=5000-5001"), 461)
      assert.strictEqual(yield* ask("SETUP", "/trackID=0", talk, "Transport: RTP/AVP/TCP;interleaved=0-1"), 200)
      const session = `Session: ${/Session: (\w+)/.exec(said())![1]}`
      assert.strictEqual(
        yield* ask("SETUP", "/trackID=2", talk, session, "Transport: RTP/AVP/TCP;interleaved=1-2"),
        461,
      )
      assert.strictEqual(
        yield* ask("SETUP", "/trackID=2", talk, session, "Transport: RTP/AVP/TCP;interleaved=4-5"),
        200,
      )
      assert.strictEqual(yield* ask("PLAY", "", talk, session), 200)
      for (const channel of [4, 5, 6, 4]) send(channel, packet(channel * 160, 80, 8))
      yield* until("two packets", () => heard.length === 2)
      assert.deepStrictEqual(heard[0], packet(640, 80, 8))
      assert.lengthOf(server.sessions(), 1)
      yield* Deferred.succeed(over, undefined)
      yield* until("the end", closed)
    }))

  it.live("who may not, or not now, is told so", () =>
    Effect.gen(function*() {
      const answers = { unsupported: 551, taken: 453, notAllowed: 403, away: 503 } as const
      for (const reason of ["unsupported", "taken", "notAllowed", "away"] as const) {
        yield* Effect.scoped(Effect.gen(function*() {
          const { hub, url } = yield* stage({}, () => Effect.fail(new RtspTalkRefused({ reason })))
          const { parameters, units } = footage({ seconds: 1 })
          hub.parameters(parameters)
          for (const unit of units) hub.unit(unit)
          const viewer = yield* Effect.promise(() => Viewer.connect(`${url}?token=${token}`, null))
          const reply = yield* Effect.promise(() => viewer.ask("DESCRIBE", `${url}?token=${token}`, [talkRequire]))
          assert.strictEqual(reply?.status, answers[reason])
          viewer.close()
        }))
      }
    }))
})
