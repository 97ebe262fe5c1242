/** Recorded intervals by RTSP, read by a small player that shares no code with the server: which pictures, in which time, how marked. */
import { readFragmentUnits } from "#media/fmp4/fragment-reader.ts"
import { Lockout } from "#media/rtsp-server/lockout.ts"
import { clockText, rangeOf, readPlay, scaleOf } from "#media/rtsp-server/play-request.ts"
import { leadAt } from "#media/rtsp-server/replay-timeline.ts"
import { targetOf } from "#media/rtsp-server/transport.ts"
import type { RequestHead } from "#media/rtsp/message.ts"
import type { Viewer } from "#test/camera-simulator/viewer.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { readFileSync } from "node:fs"
import { camera } from "./access-units.ts"
import { identityOf } from "./made-up-files.ts"
import { random } from "./random.ts"
import { record, type Run } from "./recorded.ts"
import { mutate } from "./rtp-seeds.ts"
import { dialled, stage, token, until } from "./rtsp-server-fixtures.ts"

const startMs = 1_795_000_000_000
const video = "main-640x360-25.h264"
const runs: ReadonlyArray<Run> = [
  { afterMs: 0, video, audio: "tone-8000.pcmu", seconds: 6 },
  { afterMs: 5_000, video, audio: "tone-8000.pcmu", seconds: 4 },
]
const pictureMs = 40

interface Picture {
  /** Of the payloads behind one another, header bytes of fragments apart. */
  readonly bytes: number
  readonly timestamp: number
  readonly mark: { readonly wallMs: number; readonly flags: string; readonly cseq: number } | null
}

/** Packets of the video channel as pictures. */
const picturesOf = (viewer: Viewer): ReadonlyArray<Picture> => {
  const pictures: Array<Picture> = []
  let open: { bytes: number; timestamp: number; mark: Picture["mark"] } | null = null
  for (const { bytes, channel } of viewer.packets) {
    if (channel !== 0) continue
    const extended = (bytes[0]! & 0x10) !== 0
    const at = extended ? 12 + 4 + bytes.readUInt16BE(14) * 4 : 12
    if (extended) assert.strictEqual(bytes.readUInt16BE(12), 0xabac)
    open ??= {
      bytes: 0,
      timestamp: bytes.readUInt32BE(4),
      mark: extended ?
        {
          wallMs: (bytes.readUInt32BE(16) - 2_208_988_800) * 1000 + bytes.readUInt32BE(20) * 1000 / 2 ** 32,
          flags: ["C", "E", "D", "T"].filter((_, bit) => (bytes[24]! & (0x80 >> bit)) !== 0).join(""),
          cseq: bytes[25]!,
        } :
        null,
    }
    const nal = bytes[at]! & 31
    open.bytes += nal === 28 ? bytes.length - at - 2 + ((bytes[at + 1]! & 0x80) === 0 ? 0 : 1) : bytes.length - at
    if ((bytes[1]! & 0x80) === 0) continue
    pictures.push(open)
    open = null
  }
  return pictures
}

const goodbyes = (viewer: Viewer) =>
  viewer.packets.filter(({ bytes, channel }) => channel % 2 === 1 && bytes.includes(Buffer.from([0x81, 203, 0, 1])))
    .length

/** Bytes of each picture as a player gets it, the parameter sets in front of key pictures included. */
const expected = (() => {
  const { parameters, units } = camera({ video, seconds: 6, startMs })
  const sets = parameters.video.sps.length + parameters.video.pps.length
  return units.filter(({ track }) => track === "video").map(({ data, key }) => {
    let bytes = key ? sets : 0
    for (let at = 0; at < data.length;) {
      const length = Buffer.from(data).readUInt32BE(at)
      bytes += length
      at += 4 + length
    }
    return { bytes, key }
  })
})()

const setUp = Effect.fnUntraced(function*(query = "", tracks: ReadonlyArray<number> = [0], recorded = runs) {
  const scene = yield* stage()
  const made = yield* record(scene.storage, startMs, recorded)
  return { ...scene, made, ...yield* dialled(scene.port, query, tracks) }
})

const replay = ["Require: onvif-replay", "Rate-Control: no", "Immediate: yes"]
const at = (ms: number) => clockText(startMs + ms)

describe("what of a recording is played", () => {
  it.live("all of it, as fast as it is taken: every picture once, with its time, the gap marked, then goodbye", () =>
    Effect.gen(function*() {
      const { ask, described, made, server, viewer } = yield* setUp("", [0, 1])
      assert.include(described.body, `a=range:clock=${at(0)}-`)
      const reply = yield* ask("PLAY", replay)
      assert.strictEqual(reply.status, 200)
      assert.match(reply.headers.get("range") ?? "", new RegExp(`^clock=${at(0)}-`))
      assert.match(reply.headers.get("rtp-info") ?? "", /trackID=0;seq=\d+;rtptime=\d+,.*trackID=1;/)
      yield* until("the end", () => goodbyes(viewer) === 2)
      const pictures = picturesOf(viewer)
      assert.lengthOf(pictures, made.pictures)
      const wanted = [...expected, ...expected.slice(0, 100)]
      assert.deepStrictEqual(pictures.map(({ bytes }) => bytes), wanted.map(({ bytes }) => bytes))
      pictures.forEach(({ mark, timestamp }, index) => {
        const wallMs = index < 150 ? index * pictureMs : 11_000 + (index - 150) * pictureMs
        assert.approximately(mark!.wallMs, startMs + wallMs, 2)
        // Times are those of recording: the gap is in them.
        assert.approximately((timestamp - pictures[0]!.timestamp + 2 ** 32) % 2 ** 32, wallMs * 90, 2)
        const edge = index === 0 ?
          "D" :
          index === 149 ?
          "E" :
          index === 150 ?
          "D" :
          index === made.pictures - 1 ?
          "ET" :
          ""
        assert.strictEqual(mark!.flags, `${wanted[index]!.key ? "C" : ""}${edge}`)
        assert.strictEqual(mark!.cseq, 4)
      })
      assert.isAbove(viewer.packets.filter(({ channel }) => channel === 2).length, 400)
      assert.deepInclude(server.sessions()[0], {
        recordingToken: identityOf(1).recordingToken,
        streamId: identityOf(1).streamId,
        state: "ready",
        holder: "session 1",
      })
      assert.lengthOf(server.streams(), 0)
    }))

  it.live("an interval: from the key picture before its start to its end, exactly, and not a picture more", () =>
    Effect.gen(function*() {
      const query = `&start=${new Date(startMs + 3_000).toISOString()}&end=${new Date(startMs + 4_500).toISOString()}`
      const { ask, base, viewer } = yield* setUp(query)
      assert.include(base, `/${startMs + 3_000}-${startMs + 4_500}/`)
      const reply = yield* ask("PLAY", replay, base)
      const keyAt = Math.floor(75 / 50) * 50
      assert.match(reply.headers.get("range") ?? "", new RegExp(`^clock=${at(keyAt * pictureMs)}-${at(4_500)}$`))
      yield* until("the end", () => goodbyes(viewer) === 1)
      assert.deepStrictEqual(
        picturesOf(viewer).map(({ mark }) => Math.round((mark!.wallMs - startMs) / pictureMs)),
        Array.from({ length: Math.ceil(4_500 / pictureMs) - keyAt }, (_, index) => keyAt + index),
      )
    }))

  it.live("paced: in the time that it takes, gaps skipped, with pause and seeking", () =>
    Effect.gen(function*() {
      const query = `&start=${new Date(startMs + 4_000).toISOString()}&end=${new Date(startMs + 13_000).toISOString()}`
      const { ask, base, described, viewer } = yield* setUp(query)
      assert.include(described.body, "a=range:npt=0-9.000")
      yield* ask("PLAY", [], base)
      yield* until("both sides of the gap", () => picturesOf(viewer).length > 60)
      const stamps = picturesOf(viewer).map(({ timestamp }) => timestamp)
      stamps.slice(1).forEach((stamp, index) =>
        assert.strictEqual((stamp - stamps[index]! + 2 ** 32) % 2 ** 32, 3600, `picture ${index}`)
      )
      assert.strictEqual((yield* ask("PAUSE", [], base)).status, 200)
      const paused = picturesOf(viewer).length
      assert.isBelow(paused, 100)
      yield* Effect.sleep(300)
      assert.lengthOf(picturesOf(viewer), paused)
      const sought = yield* ask("PLAY", ["Range: npt=8.5-"], base)
      assert.match(sought.headers.get("range") ?? "", /^npt=7\.000-9\.000$/)
      yield* until("the end", () => goodbyes(viewer) === 1)
      // The second run begins 7 s behind the start of the interval; its first group lasts two seconds.
      assert.lengthOf(picturesOf(viewer), paused + 50)
    }))

  it.live("speeds above one and `Frames: intra` are key pictures alone; backwards is group by group", () =>
    Effect.gen(function*() {
      const { ask, base, viewer } = yield* setUp()
      const timesAfter = (seen: number) =>
        picturesOf(viewer).slice(seen).map(({ mark }) => Math.round((mark!.wallMs - startMs) / 1000))
      const keys = yield* ask("PLAY", [...replay, "Frames: intra"], base)
      assert.strictEqual(keys.status, 200)
      yield* until("the end", () => goodbyes(viewer) === 1)
      assert.deepStrictEqual(timesAfter(0), [0, 2, 4, 11, 13])
      yield* ask("PLAY", [...replay, "Frames: intra/4000", `Range: clock=${at(0)}-`], base)
      yield* until("the second end", () => goodbyes(viewer) === 2)
      assert.deepStrictEqual(timesAfter(5), [0, 4, 11])

      const seen = picturesOf(viewer).length
      const back = yield* ask("PLAY", [...replay, "Scale: -1", `Range: clock=${at(14_000)}-${at(4_000)}`], base)
      assert.strictEqual(back.headers.get("scale"), "-1.0")
      yield* until("the third end", () => goodbyes(viewer) === 3)
      const order = picturesOf(viewer).slice(seen)
      const groups = order.filter(({ mark }) => mark!.flags.includes("C")).map(({ mark }) =>
        Math.round((mark!.wallMs - startMs) / 1000)
      )
      assert.deepStrictEqual(groups, [13, 11, 4])
      // Of the first group what begins before the asked moment, of the others all.
      assert.lengthOf(order, 25 + 50 + 50)
      assert.isFalse(order[25]!.mark!.flags.includes("D"))
      assert.isTrue(order[75]!.mark!.flags.includes("D"))

      const fast = yield* ask("PLAY", [`Range: clock=${at(0)}-${at(6_000)}`, "Scale: 5"], base)
      assert.strictEqual(fast.headers.get("scale"), "4.0")
      yield* until("the fourth end", () => goodbyes(viewer) === 4)
      const stamps = picturesOf(viewer).slice(-3).map(({ timestamp }) => timestamp)
      assert.deepStrictEqual(stamps.slice(1).map((stamp, index) => (stamp - stamps[index]! + 2 ** 32) % 2 ** 32), [
        45_000,
        45_000,
      ])
    }))

  it.live("what cannot be had is refused: another time, another codec's wish, datagrams as fast as they go", () =>
    Effect.gen(function*() {
      const { ask, base, server, gate } = yield* setUp()
      const status = (headers: ReadonlyArray<string>) => Effect.map(ask("PLAY", headers, base), (reply) => reply.status)
      assert.strictEqual(yield* status([`Range: clock=${at(60_000)}-${at(70_000)}`]), 457)
      assert.strictEqual(yield* status(["Range: smpte=1:0:0-"]), 457)
      assert.strictEqual(yield* status(["Frames: predicted"]), 456)
      assert.strictEqual(yield* status(["Scale: 0"]), 456)
      assert.strictEqual(yield* status(["Require: onvif-replay, com.example.magic"]), 551)
      const other = base.replace(
        /\/recording\/.*/,
        `/recording/${identityOf(1).recordingToken}?start=${new Date(0).toISOString()}&end=${
          new Date(1000).toISOString()
        }`,
      )
      assert.strictEqual((yield* ask("SETUP", [], `${other}&token=${token}`)).status, 459)
      assert.strictEqual((yield* ask("GET_PARAMETER", [], base)).status, 200)
      gate.holds = false
      yield* until("the end of it", () => server.sessions().length === 0)
    }))

  it.live("mutated wishes of a session are granted or refused, and it goes on", () =>
    Effect.gen(function*() {
      const { ask, base, server } = yield* setUp()
      const wishes = [`Range: clock=${at(1_000)}-${at(2_000)}`, "Range: npt=1.5-3", "Scale: -2.0", "Frames: intra/500"]
        .map((text) => Buffer.from(text))
      const seen = new Set<number>()
      for (let round = 0; round < 150; round++) {
        const next = random(round)
        const headers = Array.from({ length: 1 + next(3) }, () => {
          const seed = wishes[next(wishes.length)]!
          return round % 5 === 0 ? seed.toString() : mutate(seed, wishes[next(wishes.length)]!, next).toString("latin1")
        }).map((text) => text.replaceAll(/[\r\n]/g, " ").slice(0, 200))
          // An empty line ends the request.
          .filter((text) => text !== "")
        const reply = yield* ask("PLAY", [...headers, "Rate-Control: no", "Immediate: yes"], base)
        seen.add(reply.status)
      }
      assert.deepStrictEqual([...seen].toSorted((a, b) => a - b), [200, 456, 457])
      assert.lengthOf(server.sessions(), 1)
    }))

  it.live("a player that takes nothing is waited for, in bounded memory", () =>
    Effect.gen(function*() {
      const long = Array.from({ length: 10 }, (): Run => ({ afterMs: 0, video, seconds: 40 }))
      const { ask, base, made, server, viewer } = yield* setUp("", [0], long)
      viewer.stall()
      yield* Effect.forkScoped(ask("PLAY", replay, base))
      yield* until("a player", () => (server.sessions()[0]?.sentBytes ?? 0) > 0)
      let sent = 0
      yield* until("it to stand still", () => {
        const before = sent
        sent = server.sessions()[0]!.sentBytes
        return sent === before && sent > 0
      })
      assert.isBelow(sent, made.files.reduce((sum, { bytes }) => sum + bytes, 0))
    }))
})

describe("reading what players say", () => {
  const head = (...headers: ReadonlyArray<readonly [string, string]>): RequestHead => ({
    kind: "request",
    method: "PLAY",
    url: "rtsp://a/",
    headers,
  })

  it("pictures leave a second early, and the last two at twice the speed", () => {
    assert.deepStrictEqual([Infinity, 60, 2, 1, 0].map(leadAt), [1_000, 1_000, 1_000, 1_500, 2_000])
  })

  it("ranges and speeds", () => {
    assert.deepStrictEqual(rangeOf("clock=20261121T210605.5Z-"), {
      style: "clock",
      fromMs: Date.parse("2026-11-21T21:06:05.500Z"),
      toMs: null,
    })
    assert.deepStrictEqual(rangeOf("npt=1:02:03.25-4000"), { style: "npt", fromMs: 3_723_250, toMs: 4_000_000 })
    assert.deepStrictEqual(rangeOf("npt=now-"), { style: "npt", fromMs: 0, toMs: null })
    assert.deepStrictEqual(rangeOf("npt=4004285439.3600001-"), {
      style: "ntp",
      fromMs: Date.parse("2026-11-21T21:30:39.360Z"),
      toMs: null,
    })
    for (const wrong of ["clock=20260230T000000Z-", "npt=-", "npt=a-b", "clock=2026-", "bytes=0-1", "", "npt=1-2-3"]) {
      assert.isNull(rangeOf(wrong), wrong)
    }
    assert.deepStrictEqual(["1", "3.9", "100", "0.5", "-1", "-7"].map(scaleOf), [1, 2, 16, 1, -1, -4])
    assert.deepStrictEqual(["0", "x", "", "1e3"].map(scaleOf), [null, null, null, null])
    assert.deepStrictEqual(readPlay(head(["scale", "2"], ["rate-control", "no"])), {
      range: null,
      scale: 2,
      paced: false,
      keysEveryMs: 0,
      immediate: false,
    })
    assert.strictEqual(readPlay(head(["rate-control", "perhaps"])), 456)
  })

  it("mutated headers and addresses are read or refused, never thrown at", () => {
    const seeds = [
      "clock=20261121T210605.123Z-20261121T210705Z;time=19970123T143720Z",
      "npt=0:00:01.5-12",
      "intra/4000",
      "-16.0",
      `rtsp://a@127.0.0.1:8554/recording/${
        identityOf(1).recordingToken
      }?start=2026-11-21T21:06:05%2B01:00&end=2026-11-21T22:06:05Z/trackID=0`,
      `rtsp://[::1]/recording/${identityOf(1).recordingToken}/1795000000000-/trackID=1`,
    ].map((text) => Buffer.from(text))
    seeds.forEach((seed, index) => {
      for (let round = 0; round < 2_000; round++) {
        const next = random(index * 7_919 + round)
        const text = (round === 0 ? seed : mutate(seed, seeds[next(seeds.length)]!, next)).toString("latin1")
        const asked = readPlay(head(["range", text], ["scale", text], ["frames", text], ["rate-control", "no"]))
        if (typeof asked !== "number") assert.isTrue(Number.isInteger(asked.scale))
        const range = rangeOf(text)
        if (range?.style === "clock" && range.fromMs !== null) {
          assert.match(clockText(range.fromMs), /^\d{8}T\d{6}\.\d{3}Z$/)
        }
        const target = targetOf(text)
        if (target?.kind === "recording") {
          assert.deepInclude(targetOf(target.base), { startMs: target.startMs, endMs: target.endMs, track: null })
        }
      }
    })
    assert.deepInclude(targetOf(seeds[4]!.toString()), {
      startMs: Date.parse("2026-11-21T20:06:05Z"),
      endMs: Date.parse("2026-11-21T22:06:05Z"),
      track: "video",
    })
    assert.deepInclude(targetOf(seeds[5]!.toString()), { startMs: 1_795_000_000_000, endMs: null, track: "audio" })
  })

  it.live("fragments that are damaged are no fragments, and units never leave them", () =>
    Effect.gen(function*() {
      const { storage } = yield* stage()
      const { files } = yield* record(storage, startMs, runs.slice(0, 1))
      const [entry] = yield* storage.index(files[0]!)
      const whole = readFileSync(storage.path(files[0]!)).subarray(entry!.offset, entry!.offset + entry!.bytes)
      const units = readFragmentUnits(whole)!
      assert.lengthOf(units.filter(({ track }) => track === "video"), entry!.frames)
      for (let round = 0; round < 3_000; round++) {
        const next = random(round)
        const harmed = Buffer.from(whole.subarray(0, round % 3 === 0 ? next(whole.length) : whole.length))
        for (let i = 0; i < 1 + next(6) && harmed.length > 0; i++) {
          harmed[next(Math.min(harmed.length, 1_200))] = next(256)
        }
        for (const { data } of readFragmentUnits(harmed) ?? []) {
          assert.isTrue(data.byteOffset >= harmed.byteOffset)
          assert.isTrue(data.byteOffset + data.length <= harmed.byteOffset + harmed.length)
        }
      }
    }).pipe(Effect.scoped))
})

describe("guessing the account", () => {
  it("locks an address for longer and longer, forgets, and remembers no more than it may", () => {
    const lockout = new Lockout()
    for (let i = 0; i < 4; i++) lockout.failed("192.0.2.1", i)
    assert.isTrue(lockout.isOpen("192.0.2.1", 4))
    lockout.failed("192.0.2.1", 5)
    assert.isFalse(lockout.isOpen("192.0.2.1", 2_004))
    assert.isTrue(lockout.isOpen("192.0.2.1", 2_005))
    assert.isTrue(lockout.isOpen("192.0.2.2", 6))
    // Attempts during the lock change nothing.
    lockout.failed("192.0.2.1", 1_000)
    assert.isTrue(lockout.isOpen("192.0.2.1", 2_005))
    lockout.failed("192.0.2.1", 2_005)
    assert.isFalse(lockout.isOpen("192.0.2.1", 6_004))
    let nowMs = 10_000
    for (let i = 0; i < 20; i++) {
      lockout.failed("192.0.2.1", nowMs)
      nowMs += 300_000
      assert.isTrue(lockout.isOpen("192.0.2.1", nowMs), "five minutes at most")
    }
    lockout.failed("2001:db8:1:2:3::4", 0)
    for (let i = 0; i < 4; i++) lockout.failed(`2001:db8:1:2::${i}`, i)
    assert.isFalse(lockout.isOpen("2001:db8:1:2:ffff::1", 10))
    assert.isTrue(lockout.isOpen("2001:db8:1:3::1", 10))
    lockout.succeeded("2001:db8:1:2::9")
    assert.isTrue(lockout.isOpen("2001:db8:1:2::1", 10))
    for (let i = 0; i < 5; i++) lockout.failed("198.51.100.1", 0)
    for (let i = 0; i < 4_096; i++) lockout.failed(`203.0.${i >> 8}.${i & 255}`, 1)
    assert.isTrue(lockout.isOpen("198.51.100.1", 2), "the oldest was forgotten")
  })
})
