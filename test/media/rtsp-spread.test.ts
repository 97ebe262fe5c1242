/** A recorded interval of which two nodes have shares, by RTSP: every picture once, on one line, from wherever it lies. */
import { makeFragmentBuilder } from "#media/fmp4.ts"
import type { RtspFootage } from "#media/rtsp-server.ts"
import { clockText } from "#media/rtsp-server/play-request.ts"
import { Storage } from "#media/storage.ts"
import type { NodeId } from "#schema/common.ts"
import type { Viewer } from "#test/camera-simulator/viewer.ts"
import { assert, it } from "@effect/vitest"
import { Context, Effect, Layer, Stream } from "effect"
import { camera } from "./access-units.ts"
import { identityOf } from "./made-up-files.ts"
import { temporaryStorage } from "./recorded.ts"
import { dialled, stage, until } from "./rtsp-server-fixtures.ts"

const startMs = 1_795_000_000_000
const pictureMs = 40
const { parameters, units } = camera({ video: "main-640x360-25.h264", seconds: 12, startMs })
const [own, other] = [identityOf(1), { ...identityOf(1, 2), nodeId: identityOf(2).nodeId }]
const holder = other.nodeId as NodeId

/** Writes pictures `[from, to)` as the node of `identity` does, by a clock that is ahead by `aheadMs`. */
const keep = Effect.fnUntraced(
  function*(storage: Storage["Service"], identity: typeof own, from: number, to: number, aheadMs = 0) {
    const begin = startMs + from * pictureMs + aheadMs
    const writer = yield* storage.create(identity, parameters, { sequence: 0, startMs: begin })
    const builder = makeFragmentBuilder({
      parameters,
      decodeTicks: from * 7,
      wallMs: (ticks) => startMs + aheadMs + Math.round(ticks / 90),
      onFragment: (fragment) => {
        if (!writer.append(fragment)) throw new Error("the queue of the writer is full")
      },
    })
    for (const unit of units.slice(from, to)) builder.push(unit)
    builder.flush()
    return yield* writer.seal
  },
)

/** What is read of the other node: `reads` counts, and answers stop once `away`. */
const remote = (storage: Storage["Service"], life: { reads: number; away: boolean }): RtspFootage => ({
  kind: "footage",
  files: storage.files(own.recordingId, { start: 0, end: startMs * 2 }).map((file) => ({ holder, file })),
  index: (_, file) => Effect.orElseSucceed(storage.index(file), () => null),
  bytes: (_, file, range) =>
    Effect.suspend(() => {
      life.reads++
      if (life.away) return Effect.succeed(null)
      return storage.bytes(file, range).pipe(
        Stream.runCollect,
        Effect.map((chunks): Uint8Array | null => Buffer.concat(chunks)),
        Effect.orElseSucceed(() => null),
      )
    }),
})

/** Pictures `[0, 150)` lie here, `[100, 250)` there, by a clock that is ahead by 7 ms. */
const scene = Effect.fnUntraced(function*(query = "") {
  const elsewhere = Context.get(yield* Layer.build(temporaryStorage), Storage)
  yield* keep(elsewhere, other, 100, 250, 7)
  const life = { reads: 0, away: false }
  const made = yield* stage({}, undefined, () => Effect.sync(() => remote(elsewhere, life)))
  yield* keep(made.storage, own, 0, 150)
  return { ...yield* dialled(made.port, query), life }
})

/** First packets of pictures, with what the header extension tells. */
const firstsOf = (viewer: Viewer) => {
  const packets = viewer.packets.filter(({ channel }) => channel === 0).map(({ bytes }) => bytes)
  packets.slice(1).forEach((bytes, index) => {
    const before = packets[index]!
    assert.strictEqual(bytes.readUInt16BE(2), (before.readUInt16BE(2) + 1) & 0xffff, "sequence numbers go on")
    assert.strictEqual(bytes.readUInt32BE(8), before.readUInt32BE(8), "one source")
  })
  return packets.filter((_, index) => index === 0 || (packets[index - 1]![1]! & 0x80) !== 0).map((bytes) => ({
    timestamp: bytes.readUInt32BE(4),
    wallMs: (bytes[0]! & 0x10) === 0 ?
      null :
      (bytes.readUInt32BE(16) - 2_208_988_800) * 1000 + bytes.readUInt32BE(20) * 1000 / 2 ** 32,
    discontinuity: (bytes[0]! & 0x10) !== 0 && (bytes[24]! & 0x20) !== 0,
  }))
}

const ended = (viewer: Viewer) =>
  viewer.packets.some(({ bytes, channel }) => channel === 1 && bytes.includes(Buffer.from([0x81, 203, 0, 1])))
const replay = ["Require: onvif-replay", "Rate-Control: no", "Immediate: yes"]
const step = (to: number, from: number) => (to - from + 2 ** 32) % 2 ** 32

it.live("all of both, as fast as it is taken: each picture once and in order, the change of nodes marked", () =>
  Effect.gen(function*() {
    const { ask, base, life, viewer } = yield* scene()
    const reply = yield* ask("PLAY", replay, base)
    assert.match(reply.headers.get("range") ?? "", new RegExp(`^clock=${clockText(startMs)}-`))
    yield* until("the end", () => ended(viewer))
    const pictures = firstsOf(viewer)
    assert.lengthOf(pictures, 250)
    const breaks = pictures.flatMap(({ discontinuity }, index) => discontinuity && index > 0 ? [index] : [])
    assert.lengthOf(breaks, 1)
    assert.isAtLeast(breaks[0]!, 100)
    assert.isAtMost(breaks[0]!, 150)
    pictures.forEach(({ timestamp, wallMs }, index) => {
      const ms = index * pictureMs + (index < breaks[0]! ? 0 : 7)
      assert.approximately(wallMs!, startMs + ms, 2)
      assert.approximately(step(timestamp, pictures[0]!.timestamp), ms * 90, 100, `picture ${index}`)
    })
    assert.isAbove(life.reads, 4)

    // Once more, from the middle of what lies there, and backwards over the change.
    const before = viewer.packets.length
    const again = yield* ask("PLAY", [...replay, `Range: clock=${clockText(startMs + 8_000)}-`], base)
    assert.match(again.headers.get("range") ?? "", new RegExp(`^clock=${clockText(startMs + 6_007)}-`))
    assert.strictEqual(again.status, 200)
    const back = yield* ask("PLAY", [...replay, "Scale: -1.0", `Range: clock=${clockText(startMs + 9_000)}-`], base)
    assert.strictEqual(back.status, 200)
    yield* until(
      "its end",
      () => viewer.packets.slice(before).some(({ channel, bytes }) => channel === 0 && (bytes[24]! & 0x10) !== 0),
    )
  }))

it.live("paced: one straight line over the change; what cannot be had any more is left out", () =>
  Effect.gen(function*() {
    const query = `&start=${new Date(startMs + 3_000).toISOString()}&end=${new Date(startMs + 9_000).toISOString()}`
    const { ask, base, life, viewer } = yield* scene(query)
    const reply = yield* ask("PLAY", [], base)
    assert.match(reply.headers.get("rtp-info") ?? "", /trackID=0;seq=\d+;rtptime=\d+/)
    yield* until("pictures of the other node", () => firstsOf(viewer).length > 110)
    life.away = true
    yield* until("the end", () => ended(viewer))
    const pictures = firstsOf(viewer)
    assert.isAbove(pictures.length, 110)
    assert.isBelow(pictures.length, 225)
    pictures.slice(1).forEach(({ timestamp }, index) =>
      assert.strictEqual(step(timestamp, pictures[index]!.timestamp), 3_600, `picture ${index}`)
    )
  }))
