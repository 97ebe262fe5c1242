/** WebRTC by TCP: frames however they are cut, strangers, slow readers, and a client of another implementation that has no UDP. */
import { makeVideoPacketiser } from "#media/rtp/packetiser.ts"
import type { Feed } from "#media/rtsp-server/feed.ts"
import { frameOf, Frames } from "#media/webrtc/frames.ts"
import { PacketMemories } from "#media/webrtc/packet-memory.ts"
import type { Path } from "#media/webrtc/path.ts"
import type { Peer, PeerEnd } from "#media/webrtc/peer.ts"
import { Connections } from "#media/webrtc/tcp.ts"
import { Viewer } from "#media/webrtc/viewer.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { createSocket } from "node:dgram"
import { type AddressInfo, connect, createServer, type Socket } from "node:net"
import { classes, Message, methods, parseMessage } from "werift"
import { random } from "./random.ts"
import { until } from "./rtsp-server-fixtures.ts"
import { byTcp, client, ignored, rtp, webRtc } from "./webrtc-peers.ts"

describe("frames", () => {
  const read = (chunks: ReadonlyArray<Buffer>, limit: number) => {
    const frames: Array<Buffer> = []
    const reader = new Frames({
      limit: () => limit,
      onFrame: (frame) => {
        frames.push(frame)
        return true
      },
    })
    return { frames, whole: chunks.every((chunk) => reader.read(chunk)) }
  }
  const cut = (bytes: Buffer, next: (below: number) => number): ReadonlyArray<Buffer> => {
    const chunks: Array<Buffer> = []
    for (let at = 0; at < bytes.length;) {
      const length = 1 + next(next(3) === 0 ? 3 : 3_000)
      chunks.push(Buffer.from(bytes.subarray(at, at + length)))
      at += length
    }
    return chunks
  }

  it("are the same however the stream is cut", () => {
    const next = random(11)
    for (let round = 0; round < 200; round++) {
      const sent = Array.from({ length: 1 + next(12) }, () => {
        const length = [next(4), next(1_500), 65_535][next(20) === 0 ? 2 : next(2)]!
        return Buffer.alloc(length, 1 + next(255))
      })
      const { frames, whole } = read(cut(Buffer.concat(sent.map(frameOf)), next), 65_535)
      assert.isTrue(whole)
      assert.deepStrictEqual(frames, sent.filter(({ length }) => length > 0))
    }
  })

  it("of anything are no longer than allowed, and end at one that would be", () => {
    const next = random(12)
    let ended = 0
    for (let round = 0; round < 500; round++) {
      const bytes = Buffer.from(Array.from({ length: next(4_000) }, () => next(next(2) === 0 ? 6 : 256)))
      const limit = next(2_000)
      const { frames, whole } = read(cut(bytes, next), limit)
      assert.isTrue(frames.every(({ length }) => length > 0 && length <= limit))
      if (!whole) ended++
    }
    assert.isAbove(ended, 100)
  })
})

const connected = (port: number) =>
  Effect.acquireRelease(
    Effect.callback<Socket>((resume) => {
      const socket = connect(port, "127.0.0.1", () => resume(Effect.succeed(socket)))
      socket.on("error", () => {})
      socket.on("data", () => {})
    }),
    (socket) => Effect.sync(() => socket.destroy()),
  )

/** Connections of their own, by a clock of their own. Each that says something is taken. */
const counter = Effect.gen(function*() {
  const clock = { nowMs: 0 }
  const paths: Array<Path> = []
  const closed: Array<Path> = []
  const connections = new Connections({
    nowMs: () => clock.nowMs,
    onFrame: (path) => {
      if (!paths.includes(path)) paths.push(path)
      path.taken()
    },
    onClose: (path) => closed.push(path),
  })
  const accepted: Array<Socket> = []
  const server = yield* Effect.acquireRelease(
    Effect.callback<ReturnType<typeof createServer>>((resume) => {
      const one = createServer({ noDelay: true }, (socket) => {
        accepted.push(socket)
        connections.accept(socket)
      })
      one.listen(0, "127.0.0.1", () => resume(Effect.succeed(one)))
    }),
    (one) => Effect.sync(() => one.close()),
  )
  return { accepted, clock, closed, connections, paths, port: (server.address() as AddressInfo).port }
})

describe("a connection", () => {
  it.live("of a stranger ends with what is no check, or without one", () =>
    Effect.scoped(Effect.gen(function*() {
      const service = yield* webRtc({ tcp: true })
      const port = service.config().port!
      const check = new Message(methods.BINDING, classes.REQUEST).setAttribute("USERNAME", "no:body")
        .addMessageIntegrity(Buffer.from("wrong")).addFingerprint().bytes
      const dtls = Buffer.from("16fefd0000000000000000", "hex")
      for (const nonsense of [Buffer.from("GET / HTTP/1.1\r\n\r\n"), frameOf(dtls), frameOf(Buffer.alloc(1_300))]) {
        const socket = yield* connected(port)
        socket.write(nonsense)
        yield* until("an end", () => socket.closed)
      }
      // One that is, by nobody's password, has five seconds more.
      const speaker = yield* connected(port)
      speaker.write(frameOf(Buffer.from(check)))
      yield* until("its end", () => speaker.closed)
    })), { timeout: 60_000 })

  it.live(
    "makes room for a newer one where too many wait, and waits for five seconds",
    () =>
      Effect.scoped(Effect.gen(function*() {
        const { accepted, clock, closed, connections, port } = yield* counter
        for (let i = 0; i < 256; i++) yield* connected(port)
        yield* until("all of them", () => accepted.length === 256)
        assert.strictEqual(connections.size, 256)
        clock.nowMs = 4_000
        yield* connected(port)
        yield* until("the end of the oldest", () => closed.length === 1)
        assert.isTrue(accepted[0]!.closed)
        clock.nowMs = 4_999
        connections.tick(clock.nowMs)
        assert.isTrue(accepted.slice(1).every(({ destroyed }) => !destroyed))
        clock.nowMs = 5_000
        connections.tick(clock.nowMs)
        yield* until("the end of all but one", () => connections.size === 1)
        assert.isFalse(accepted[256]!.destroyed)
      })),
    { timeout: 60_000 },
  )

  it.live(
    "that is not read keeps no more than its bound, and ends when its peer has left",
    () =>
      Effect.scoped(Effect.gen(function*() {
        const { accepted, clock, closed, connections, paths, port } = yield* counter
        const socket = yield* connected(port)
        socket.pause()
        socket.write(frameOf(Buffer.from(new Message(methods.BINDING, classes.REQUEST).bytes)))
        yield* until("a path", () => paths.length === 1)
        const path = paths[0]!
        let most = 0
        for (let i = 0; i < 30_000; i++) {
          path.send(Buffer.alloc(1_200, i))
          most = Math.max(most, accepted[0]!.writableLength)
          if (i % 100 === 99) yield* Effect.sleep(1)
        }
        assert.isTrue(path.full())
        assert.isAtMost(most, 512 * 1024)
        assert.isAbove(most, 500 * 1024)
        path.left()
        clock.nowMs = 4_999
        connections.tick(clock.nowMs)
        assert.strictEqual(closed.length, 0)
        clock.nowMs = 5_000
        connections.tick(clock.nowMs)
        yield* until("its end", () => closed.length === 1 && connections.size === 0)
      })),
    { timeout: 60_000 },
  )
})

describe("a viewer whose line takes too little", () => {
  const packetiser = makeVideoPacketiser("h264", { channel: 0, payloadType: 96, ssrc: 1, sequence: 0 })
  /** A picture of five packets. */
  const picture = (number: number) => {
    const nal = Buffer.alloc(4 + 5 * 1_390, number)
    nal.writeUInt32BE(nal.length - 4)
    nal[4] = 0x41
    return packetiser.unit(nal, number * 3_000)!
  }
  const begin = () => {
    const memories = new PacketMemories()
    const clock = { nowMs: 0 }
    const line = { full: false }
    const times: Array<number> = []
    const ends: Array<PeerEnd> = []
    const feed = {
      ssrc: () => 1,
      stale: false,
      parameters: { video: { codec: "h264" } },
      join: () => {},
      leave: () => {},
    } as unknown as Feed
    const viewer = new Viewer(feed, { video: 102, audio: null, sequences: [1, 1] }, {
      nowMs: () => clock.nowMs,
      onPace: () => {},
      onOver: () => {},
    })
    viewer.attach({
      memoryFor: (length: number) => memories.take(length + 10),
      sendRtp: (memory: { bytes: Buffer }) => {
        const time = memory.bytes.readUInt32BE(64 + 4) / 3_000
        if (times.at(-1) !== time) times.push(time)
      },
      end: (reason: PeerEnd) => {
        ends.push(reason)
        viewer.onEnd(reason)
      },
      get full() {
        return line.full
      },
    } as unknown as Peer)
    viewer.onConnected()
    const send = (from: number, to: number) => {
      for (let number = from; number < to; number++) viewer.send("video", picture(number), number % 10 === 0)
    }
    const settle = () => {
      for (let i = 0; i < 100 && viewer.pace(); i++) clock.nowMs += 4
    }
    return { clock, line, times, ends, viewer, send, settle }
  }

  it("misses the rest of a group, and goes on with the next key picture", () => {
    const { ends, line, send, settle, times, viewer } = begin()
    send(0, 4)
    settle()
    line.full = true
    send(4, 27)
    settle()
    assert.deepStrictEqual(times, [0, 1, 2, 3])
    line.full = false
    settle()
    send(27, 30)
    settle()
    assert.deepStrictEqual(times, [0, 1, 2, 3, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29])
    assert.strictEqual(viewer.statistics.skippedPictures, 16)
    assert.deepStrictEqual(ends, [])
  })

  it("is ended where it does not catch up for half a minute", () => {
    const { clock, ends, line, send, viewer } = begin()
    send(0, 4)
    line.full = true
    for (let number = 4; ends.length === 0 && number < 2_000; number++) {
      send(number, number + 1)
      clock.nowMs += 100
      viewer.pace()
    }
    assert.deepStrictEqual(ends, ["slow"])
    assert.approximately(clock.nowMs, 30_000, 1_000)
  })
})

describe("a browser", () => {
  const wish = { video: "required", audio: [], audioRequired: false, maxBitrate: 4_000_000 } as const

  it.live("without UDP is connected by TCP and heard", () =>
    Effect.scoped(Effect.gen(function*() {
      const service = yield* webRtc({ tcp: true, additionalHosts: ["192.0.2.9:7000"] })
      const sender = yield* client({ direction: "SendOnly", video: "h264" }, { tcp: true })
      let packets = 0
      const peer = yield* service.receive(sender.offer, wish, { ...ignored, onRtp: () => packets++ })
      const candidates = [...peer.answer.matchAll(/^a=candidate:(\S+) 1 (\S+) (\d+) (\S+ \d+) typ host(.*)\r$/gm)]
      const port = service.config().port!
      assert.deepStrictEqual(candidates.map(([, , protocol, , at, more]) => [protocol, at, more]), [
        ["udp", "192.0.2.9 7000", ""],
        ["udp", `127.0.0.1 ${port}`, ""],
        ["tcp", "192.0.2.9 7000", " tcptype passive"],
        ["tcp", `127.0.0.1 ${port}`, " tcptype passive"],
      ])
      const priorities = candidates.map(([, , , priority]) => Number(priority))
      assert.deepStrictEqual(priorities, priorities.toSorted((a, b) => b - a))
      assert.strictEqual(new Set(candidates.map(([, foundation]) => foundation)).size, 4)
      sender.connection.setRemoteDescription(byTcp(peer.answer).replace(/^.*192\.0\.2\.9.*\r\n/m, ""), "answer")
      yield* until("a connection", () => peer.state() === "connected" && sender.video!.isOpen())
      for (let i = 0; i < 50; i++) sender.video!.sendMessageBinary(rtp(102, 4711, i, 3_000, Buffer.alloc(1_000, 1)))
      yield* until("its packets", () => packets === 50)
    })))

  it.live("goes on by UDP when its connection ends", () =>
    Effect.scoped(Effect.gen(function*() {
      const service = yield* webRtc({ tcp: true })
      const { offer } = yield* client({ direction: "SendOnly", video: "h264" })
      const peer = yield* service.receive(offer, wish, ignored)
      const ufragOf = (text: string) => /^a=ice-ufrag:(\S+)/m.exec(text)![1]!
      const password = Buffer.from(/^a=ice-pwd:(\S+)/m.exec(peer.answer)![1]!)
      const check = () =>
        Buffer.from(
          new Message(methods.BINDING, classes.REQUEST).setAttribute(
            "USERNAME",
            `${ufragOf(peer.answer)}:${ufragOf(offer)}`,
          )
            .setAttribute("USE-CANDIDATE", null).addMessageIntegrity(password).addFingerprint().bytes,
        )
      const port = service.config().port!
      const udp = yield* Effect.acquireRelease(Effect.sync(() => createSocket("udp4")), (socket) =>
        Effect.sync(() => socket.close()))
      udp.send(check(), port, "127.0.0.1")
      yield* until("a path", () =>
        peer.remote() !== null)
      const first = `127.0.0.1:${udp.address().port}`
      assert.strictEqual(peer.remote(), first)
      const tcp = yield* connected(port)
      const answers: Array<Buffer> = []
      tcp.on("data", (bytes: Buffer) => answers.push(bytes))
      tcp.write(frameOf(check()))
      yield* until("another", () => peer.remote() === `127.0.0.1:${tcp.localPort}`)
      yield* until("an answer", () => answers.length > 0)
      const [answer] = answers
      assert.strictEqual(answer!.readUInt16BE(0), answer!.length - 2)
      const mapped = parseMessage(answer!.subarray(2), password)?.getAttributeValue("XOR-MAPPED-ADDRESS")
      assert.deepStrictEqual(mapped, ["127.0.0.1", tcp.localPort])
      tcp.destroy()
      yield* until("the first again", () => peer.remote() === first)
      const again = yield* connected(port)
      again.write(frameOf(check()))
      yield* until("a new connection", () => peer.remote() === `127.0.0.1:${again.localPort}`)
      peer.close()
      yield* until("its end", () => again.closed)
    })))

  it.live("is offered UDP alone where TCP is off", () =>
    Effect.scoped(Effect.gen(function*() {
      const service = yield* webRtc()
      const { offer } = yield* client({ direction: "SendOnly", video: "h264" })
      const { answer } = yield* service.receive(offer, wish, ignored)
      assert.notInclude(answer, "tcptype")
      const refused = connect(service.config().port!, "127.0.0.1")
      const errors: Array<Error> = []
      refused.on("error", (error) => errors.push(error))
      yield* until("a refusal", () => errors.length > 0)
    })))
})
