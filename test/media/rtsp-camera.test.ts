/** The driver against cameras that answer badly, late, strangely or not at all. */
import { drivers } from "#media/drivers/registry.ts"
import type { SourceError, SourceListener, SourceOptions } from "#media/source.ts"
import type { AccessUnit, TrackParameters } from "#schema/media.ts"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Redacted } from "effect"
import { createCipheriv } from "node:crypto"
import { createSocket } from "node:dgram"
import { readFileSync } from "node:fs"
import { nalUnits, rtpPacket } from "./rtp-packets.ts"
import { interleaved, type Request, type Script, sdp, startScriptedCamera } from "./scripted-camera.ts"

const nals = nalUnits(readFileSync(new URL("../fixtures/media/sub-320x180-10.h264", import.meta.url)))
const sps = nals.find((nal) => (nal[0]! & 31) === 7)!
const pps = nals.find((nal) => (nal[0]! & 31) === 8)!
const idr = nals.find((nal) => (nal[0]! & 31) === 5)!
const slice = nals.find((nal) => (nal[0]! & 31) === 1)!

/** A key picture and some more, as RTP packets. */
const pictures = (count: number): ReadonlyArray<Buffer> => {
  let sequence = 100
  return Array.from({ length: count }, (_, i) => i === 0 ? [sps, pps, idr] : [slice]).flatMap((picture, i) =>
    picture.map((nal, j) =>
      rtpPacket({ sequence: sequence++, timestamp: i * 3600, marker: j === picture.length - 1 }, nal)
    )
  )
}
const stream = (count: number, channel = 0) =>
  Buffer.concat(pictures(count).map((packet) => interleaved(channel, packet)))

/** The same random bytes every time. Some of them look like packets. */
const noise = (count: number) =>
  createCipheriv("aes-128-ctr", Buffer.alloc(16), Buffer.alloc(16)).update(Buffer.alloc(count))

const camera = (script?: Script) =>
  Effect.acquireRelease(
    Effect.promise(() => startScriptedCamera(script)),
    (running) => Effect.promise(() => running.close()),
  )

interface Watched {
  readonly units: Array<AccessUnit>
  readonly parameters: Array<TrackParameters>
  losses: number
  readonly fiber: Fiber.Fiber<never, SourceError>
  /** Suspends until so many units have come. */
  readonly have: (count: number) => Effect.Effect<void>
}

const watch = (url: string, options: Partial<SourceOptions> = {}, listener: Partial<SourceListener> = {}) =>
  Effect.gen(function*() {
    const units: Array<AccessUnit> = []
    const parameters: Array<TrackParameters> = []
    const waiting: Array<{ readonly count: number; readonly done: Deferred.Deferred<void> }> = []
    const watched = {
      units,
      parameters,
      losses: 0,
      have: (count: number) =>
        Effect.suspend(() => {
          if (units.length >= count) return Effect.void
          const done = Deferred.makeUnsafe<void>()
          waiting.push({ count, done })
          return Deferred.await(done)
        }),
    }
    const fiber = yield* drivers.rtsp.open({
      url,
      username: null,
      password: null,
      transport: "tcp",
      requestTimeoutMs: 5000,
      drainEveryMs: 0,
      ...options,
    }, {
      onParameters: (told) => parameters.push(told),
      onUnit: (unit) => {
        units.push({ ...unit, data: Buffer.from(unit.data) })
        for (const { count, done } of waiting) if (units.length >= count) Deferred.doneUnsafe(done, Exit.void)
      },
      onLoss: (count) => {
        watched.losses += count
      },
      ...listener,
    }).pipe(Effect.forkScoped)
    return Object.assign(watched, { fiber }) as Watched
  })

const failure = (watched: Watched) => Effect.flip(Fiber.join(watched.fiber))
const login = { username: "admin", password: Redacted.make("hunter2") }
const digest = "WWW-Authenticate: Digest realm=\"cam\", nonce=\"n1\", qop=\"auth\""

describe("a session", () => {
  it.live("delivers, keeps itself alive by what the camera offers, and says goodbye", () =>
    Effect.gen(function*() {
      const running = yield* camera(({ method }) => {
        if (method === "SETUP") {
          return { headers: ["Transport: RTP/AVP/TCP;interleaved=0-1", "Session: 4711;timeout=2"] }
        }
        return method === "PLAY" ? { after: stream(5) } : undefined
      })
      const watched = yield* watch(running.url, { drainEveryMs: 20 })
      yield* watched.have(5)
      assert.deepStrictEqual(watched.units.map(({ key, ticks }) => [key, ticks]), [
        [true, 0],
        [false, 3600],
        [false, 7200],
        [false, 10_800],
        [false, 14_400],
      ])
      assert.strictEqual(watched.parameters.length, 1)
      const alive: Request = yield* Effect.promise(() => running.seen("GET_PARAMETER"))
      assert.strictEqual(alive.headers["session"], "4711")
      yield* Fiber.interrupt(watched.fiber)
      assert.deepStrictEqual(
        running.requests.map(({ method, url }) => `${method} ${url.replace(running.url, "")}`).filter((line) =>
          !line.startsWith("GET_")
        ),
        ["OPTIONS ", "DESCRIBE ", "SETUP /trackID=0", "SETUP /trackID=1", "PLAY /", "TEARDOWN /"],
      )
    }))

  it.live("takes RTP before the answer to PLAY, on channels that the camera chose, between blank lines and noise", () =>
    Effect.gen(function*() {
      let track = 0
      const running = yield* camera(({ headers, method, url }) => {
        const ok = `rtsp/1.0 200 ok\r\ncseq:${headers["cseq"]}\r\n`
        if (method === "OPTIONS") return `${ok}\r\n`
        if (method === "DESCRIBE") {
          const absolute = sdp.replace("a=control:trackID=0", `a=control:${url}/trackID=0`)
          return `${ok}content-type: application/sdp\r\ncontent-length:${absolute.length}\r\n\r\n${absolute}`
        }
        if (method === "SETUP") {
          const first = 10 + 4 * track++
          return `${ok}session:77\r\ntransport:RTP/AVP/TCP;unicast;interleaved=${first}-${first + 1}\r\n\r\n`
        }
        return method === "PLAY" ?
          { before: Buffer.concat([stream(3, 10), Buffer.from("\r\n\0\0spurious")]) } :
          undefined
      })
      const watched = yield* watch(running.url)
      yield* watched.have(3)
      assert.strictEqual(watched.losses, 0)
      assert.deepStrictEqual(running.requests.filter(({ method }) => method === "SETUP").map(({ url }) => url), [
        `${running.url}/trackID=0`,
        `${running.url}/trackID=1`,
      ])
    }))

  it.live("goes on without audio that the camera refuses to set up", () =>
    Effect.gen(function*() {
      const running = yield* camera(({ method, url }) => {
        if (method === "SETUP" && url.endsWith("1")) return { status: 461, headers: [] }
        return method === "PLAY" ? { after: stream(2) } : undefined
      })
      const watched = yield* watch(running.url)
      yield* watched.have(2)
      assert.isNull(watched.parameters[0]?.audio)
    }))

  it.live("reads an SDP that is shorter than announced, or of no announced length", () =>
    Effect.gen(function*() {
      for (const line of ["Content-Length: 9999", "Content-Type: application/sdp"]) {
        const running = yield* camera(({ headers, method }) => {
          if (method === "DESCRIBE") return `RTSP/1.0 200 OK\r\nCSeq: ${headers["cseq"]}\r\n${line}\r\n\r\n${sdp}`
          return method === "PLAY" ? { after: stream(1) } : undefined
        })
        const watched = yield* watch(running.url, { requestTimeoutMs: 2000 })
        yield* watched.have(1)
      }
    }))

  it.live("bears a camera that answers no keep-alive while it streams, and ends with one that forgot the session", () =>
    Effect.gen(function*() {
      const script = (status: number | null): Script => ({ method }, socket) => {
        if (method === "SETUP") {
          return { headers: ["Transport: RTP/AVP/TCP;interleaved=0-1", "Session: 4711;timeout=2"] }
        }
        if (method !== "GET_PARAMETER") return undefined
        socket.write(interleaved(1, Buffer.from("80c90001000012340000", "hex").subarray(0, 8)))
        return status === null ? null : { status, headers: [] }
      }
      const silent = yield* camera(script(null))
      const patient = yield* watch(silent.url, { requestTimeoutMs: 200 })
      yield* Effect.promise(() => silent.seen("GET_PARAMETER"))
      while (silent.requests.filter(({ method }) => method === "GET_PARAMETER").length < 2) yield* Effect.sleep(50)
      assert.isUndefined(patient.fiber.pollUnsafe())
      const forgetful = yield* camera(script(454))
      const ended = yield* watch(forgetful.url)
      assert.strictEqual((yield* failure(ended)).reason, "closed")
    }))

  it.live("answers what the camera asks", () =>
    Effect.gen(function*() {
      const answers: Array<string> = []
      const running = yield* camera(({ method }, socket) => {
        if (method !== "PLAY") return undefined
        socket.on("data", (chunk) => answers.push(chunk.toString()))
        return { after: Buffer.concat([Buffer.from("OPTIONS * RTSP/1.0\r\nCSeq: 9\r\n\r\n"), stream(2)]) }
      })
      const watched = yield* watch(running.url)
      yield* watched.have(2)
      while (answers.length === 0) yield* Effect.sleep(10)
      assert.match(answers.join(""), /^RTSP\/1.0 200 OK\r\nCSeq: 9\r\n/)
    }))
})

describe("authentication", () => {
  it.live("uses the strongest scheme, renews a nonce that went stale, and counts its uses", () =>
    Effect.gen(function*() {
      let expired = false
      const running = yield* camera(({ headers, method }) => {
        const sent = headers["authorization"] ?? ""
        const fresh = sent.includes(expired ? "nonce=\"n2\"" : "nonce=\"n1\"")
        if (!fresh) {
          const nonce = expired ? "n2\", stale=true" : "n1\""
          return {
            status: 401,
            headers: [
              "WWW-Authenticate: Basic realm=\"cam\"",
              `WWW-Authenticate: Digest realm="cam", qop="auth", algorithm=SHA-256, nonce="${nonce}`,
              digest,
            ],
          }
        }
        if (method === "DESCRIBE") expired = true
        return method === "PLAY" ? { after: stream(1) } : undefined
      })
      const watched = yield* watch(running.url, login)
      yield* watched.have(1)
      const sent = running.requests.map(({ headers }) => headers["authorization"] ?? "")
      assert.isTrue(sent.slice(1).every((line) => line.includes("algorithm=SHA-256")))
      assert.match(sent.at(-1) ?? "", /nonce="n2".*nc=00000003/)
      assert.isFalse(running.requests.some(({ text }) => text.includes("hunter2")))
    }))

  it.live("tries refused credentials once, and tells no secret", () =>
    Effect.gen(function*() {
      const running = yield* camera(() => ({ status: 401, headers: [digest] }))
      const error = yield* failure(yield* watch(`${running.url}?token=abc`.replace("://", "://x:y@"), login))
      assert.strictEqual(error.reason, "unauthorized")
      assert.strictEqual(running.requests.length, 2)
      assert.notMatch(JSON.stringify(error) + error.message, /hunter2|abc|x:y/)
      assert.deepStrictEqual([error.host, error.path], [`127.0.0.1:${running.port}`, "/live"])
      assert.isAbove(error.byte, 0)
      const without = yield* failure(yield* watch(running.url))
      assert.match(without.message, /asks for a user name/)
      const strange = yield* camera(() => ({ status: 401, headers: ["WWW-Authenticate: Negotiate"] }))
      assert.match((yield* failure(yield* watch(strange.url, login))).message, /not supported/)
    }))
})

describe("an end", () => {
  const cases: ReadonlyArray<readonly [string, SourceError["reason"], Script]> = [
    ["no such path", "notFound", ({ method }) => method === "DESCRIBE" ? { status: 404, headers: [] } : undefined],
    ["no session left", "refused", ({ method }) => method === "SETUP" ? { status: 453, headers: [] } : undefined],
    ["no answer", "timeout", ({ method }) => method === "DESCRIBE" ? null : undefined],
    ["no SDP", "protocol", ({ method }) => method === "DESCRIBE" ? { body: "<html>" } : undefined],
    [
      "no codec of ours",
      "unsupported",
      ({ method }) => method === "DESCRIBE" ? { body: "m=video 0 RTP/AVP 26\r\n" } : undefined,
    ],
    ["garbage", "protocol", ({ method }, socket) => {
      if (method !== "PLAY") return undefined
      socket.write(Buffer.alloc(200_000, "garbage"))
      return null
    }],
    ["random bytes in the middle of a stream", "protocol", ({ method }, socket) => {
      if (method !== "PLAY") return undefined
      socket.write(Buffer.concat([stream(3), noise(4_000_000)]))
      return null
    }],
    ["random bytes instead of an answer", "protocol", (_, socket) => {
      socket.write(noise(4_000_000))
      return null
    }],
    ["closed by the camera", "closed", ({ method }, socket) => {
      if (method === "PLAY") socket.end(stream(3))
      return method === "PLAY" ? null : undefined
    }],
    ["closed in the middle", "closed", ({ method }, socket) => {
      if (method === "PLAY") setTimeout(() => socket.end(), 100)
      return method === "PLAY" ? { after: stream(3) } : undefined
    }],
    ["reset in the middle", "closed", ({ method }, socket) => {
      if (method === "PLAY") setTimeout(() => socket.resetAndDestroy(), 100)
      return method === "PLAY" ? { after: stream(3) } : undefined
    }],
    ["RTCP BYE", "closed", ({ method }) =>
      method === "PLAY" ?
        { after: Buffer.concat([stream(3), interleaved(1, Buffer.from("81cb000100001234", "hex"))]) } :
        undefined],
    [
      "the camera's TEARDOWN",
      "closed",
      ({ method }) => method === "PLAY" ? { after: Buffer.from("TEARDOWN * RTSP/1.0\r\nCSeq: 1\r\n\r\n") } : undefined,
    ],
  ]
  for (const [name, reason, script] of cases) {
    it.live.each([0, 20])(`${name}: ${reason}, drained every %i ms`, (drainEveryMs) =>
      Effect.gen(function*() {
        const running = yield* camera(script)
        const error = yield* failure(yield* watch(running.url, { requestTimeoutMs: 1000, drainEveryMs }))
        assert.strictEqual(error.reason, reason, error.message)
        assert.include(error.message, `127.0.0.1:${running.port}/live`)
        while (running.sockets.size > 0) yield* Effect.sleep(5)
      }))
  }

  it.live("counts packets and bytes up to there", () =>
    Effect.gen(function*() {
      const running = yield* camera(cases[8]![2])
      const error = yield* failure(yield* watch(running.url))
      assert.strictEqual(error.packet, 5)
      assert.isAbove(error.byte, stream(3).length)
    }))

  it.live("nothing listens, and an address that cannot be", () =>
    Effect.gen(function*() {
      const running = yield* camera()
      yield* Effect.promise(() => running.close())
      assert.strictEqual((yield* failure(yield* watch(running.url))).reason, "unreachable")
      assert.strictEqual((yield* failure(yield* watch("http://admin:hunter2@cam/"))).reason, "unsupported")
    }))

  it.live("a fault in the consumer is a defect of this session alone", () =>
    Effect.gen(function*() {
      const running = yield* camera(({ method }) => method === "PLAY" ? { after: stream(2) } : undefined)
      const healthy = yield* watch(running.url)
      const watched = yield* watch(running.url, {}, {
        onUnit: () => {
          throw new Error("a bug")
        },
      })
      const exit = yield* Fiber.await(watched.fiber)
      assert.isTrue(Exit.hasDies(exit))
      yield* healthy.have(2)
    }))
})

describe("UDP", () => {
  it.live("puts packets in order, counts what is missing, ignores strangers", () =>
    Effect.gen(function*() {
      const sender = createSocket("udp4")
      const stranger = createSocket("udp4")
      yield* Effect.addFinalizer(() => Effect.sync(() => [sender.close(), stranger.close()]))
      yield* Effect.promise(() => new Promise<void>((resolve) => stranger.bind(0, "127.0.0.2", resolve)))
      const ports: Array<number> = []
      const running = yield* camera(({ headers, method }) => {
        if (method === "SETUP") {
          const match = /client_port=(\d+)-(\d+)/.exec(headers["transport"] ?? "")
          assert.isNotNull(match)
          assert.strictEqual(Number(match?.[1]) % 2, 0)
          assert.strictEqual(Number(match?.[2]), Number(match?.[1]) + 1)
          ports.push(Number(match?.[1]))
        }
        return undefined
      })
      const watched = yield* watch(running.url, { transport: "udp" })
      yield* Effect.promise(() => running.seen("PLAY"))
      const all = pictures(12)
      const order = [0, 2, 1, 3, 5, 4, 7, 8, 9, 10, 11, 12]
      // A stranger's datagram with a sequence number far ahead would be followed if it were looked at.
      stranger.send(rtpPacket({ sequence: 60_000, timestamp: 0, marker: true }, slice), ports[0]!, "127.0.0.1")
      for (const index of order) {
        sender.send(all[index]!, ports[0]!, "127.0.0.1")
        yield* Effect.sleep(1)
      }
      // The packet that never comes is given up once its time is over.
      yield* Effect.sleep(150)
      sender.send(all[13]!, ports[0]!, "127.0.0.1")
      yield* watched.have(11)
      assert.strictEqual(watched.losses, 1)
      assert.deepStrictEqual(watched.units.map(({ ticks }) => ticks / 3600), [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11])
      yield* Fiber.interrupt(watched.fiber)
      assert.strictEqual(running.requests.at(-1)?.method, "TEARDOWN")
    }))
})
