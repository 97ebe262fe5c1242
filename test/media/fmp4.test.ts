/** Fragmented MP4: what the writer makes, read back by our reader and by an independent one (mediabunny). */
import { initSegment, makeFragmentBuilder, readInit } from "#media/fmp4.ts"
import { childBox, descend, scanBoxes } from "#media/fmp4/box.ts"
import { getU32, getU64 } from "#media/fmp4/bytes.ts"
import { lineBytes, readFragmentLine } from "#media/fmp4/fragment-box.ts"
import { identityBox, readIdentity } from "#media/fmp4/identity-box.ts"
import type { Fragment } from "#media/storage.ts"
import type { AccessUnit, TrackParameters } from "#schema/media.ts"
import { assert, describe, it } from "@effect/vitest"
import { BufferSource, EncodedPacketSink, Input, type InputTrack, MP4 } from "mediabunny"
import { camera, type CameraOptions } from "./access-units.ts"
import { identityOf } from "./made-up-files.ts"

const t0 = Date.parse("2026-03-01T12:00:00.000Z")

interface Built {
  readonly fragments: ReadonlyArray<Fragment>
  readonly file: Buffer
  readonly next: number
}

/** Feeds units through a builder whose wall clock is `startMs` at the video tick `zero`. */
const build = (
  parameters: TrackParameters,
  units: ReadonlyArray<AccessUnit>,
  { decodeTicks = 0, zero = 0 }: { readonly decodeTicks?: number; readonly zero?: number } = {},
): Built => {
  const fragments: Array<Fragment> = []
  const builder = makeFragmentBuilder({
    parameters,
    decodeTicks,
    wallMs: (ticks) => t0 + Math.round((ticks - zero) / 90),
    onFragment: (fragment) => fragments.push(fragment),
  })
  for (const unit of units) builder.push(unit)
  builder.flush()
  assert.strictEqual(builder.pendingBytes(), 0)
  return {
    fragments,
    file: Buffer.concat([initSegment(parameters), ...fragments.map(({ data }) => data)]),
    next: builder.nextDecodeTicks(),
  }
}

const h264 = (more: Partial<CameraOptions> = {}) =>
  camera({ video: "main-640x360-25.h264", seconds: 5, startMs: t0, ...more })

/** Packets of one track as mediabunny finds them, in decode order. */
const packetsOf = async (track: InputTrack) => {
  const packets: Array<{ readonly at: number; readonly data: Uint8Array; readonly key: boolean }> = []
  for await (const packet of new EncodedPacketSink(track).packets()) {
    packets.push({ at: packet.timestamp, data: packet.data, key: packet.type === "key" })
  }
  return packets
}

const readForeign = async (file: Uint8Array) => {
  const input = new Input({ formats: [MP4], source: new BufferSource(file) })
  return { video: (await input.getPrimaryVideoTrack())!, audio: await input.getPrimaryAudioTrack() }
}

const equalBytes = (actual: Uint8Array | undefined, expected: Uint8Array) =>
  assert.isTrue(actual !== undefined && Buffer.compare(actual, expected) === 0)

/** Decode time and sample count of each track fragment. */
const runsOf = (fragment: Fragment) => {
  const bytes = Buffer.from(fragment.data)
  const moof = scanBoxes(bytes, 0, bytes.length).find((box) => box.type === "moof")!
  return scanBoxes(bytes, moof.content, moof.end).filter((box) => box.type === "traf").map((traf) => {
    const tfhd = childBox(bytes, traf, "tfhd")!
    const tfdt = childBox(bytes, traf, "tfdt")!
    const trun = childBox(bytes, traf, "trun")!
    return {
      track: getU32(bytes, tfhd.content + 4),
      time: getU64(bytes, tfdt.content + 4),
      samples: getU32(bytes, trun.content + 4),
      version: bytes[trun.content]!,
    }
  })
}

describe("an initialisation part", () => {
  const cases: ReadonlyArray<readonly [string, string, string | undefined]> = [
    ["H.264 main alone", "main-640x360-25.h264", undefined],
    ["H.264 high with AAC", "wide-800x352-25.h264", "tone-16000.aac"],
    ["H.264 baseline with G.711 µ-law", "sub-320x180-10.h264", "tone-8000.pcmu"],
    ["H.265 with G.711 A-law", "main-640x360-25.h265", "tone-8000.pcma"],
    ["H.265 with Opus", "main-640x360-25.h265", "tone-48000.opus"],
  ]
  it.each(cases)("tells the parameters it was made of: %s", (_, video, audio) => {
    const { parameters } = camera({ video, ...(audio === undefined ? {} : { audio }), seconds: 0, startMs: t0 })
    const bytes = initSegment(parameters)
    const read = readInit(Buffer.concat([bytes, Buffer.alloc(40)]))
    assert.deepStrictEqual(read, { parameters, bytes: bytes.length })
    equalBytes(initSegment(parameters), bytes)
  })

  it("has the chroma format and bit depths of the high profiles in avcC", () => {
    const { parameters } = camera({ video: "wide-800x352-25.h264", seconds: 0, startMs: t0 })
    const bytes = initSegment(parameters)
    const at = Buffer.from(bytes).indexOf("avcC")
    const size = getU32(bytes, at - 4)
    assert.deepStrictEqual([...bytes.subarray(at - 4 + size - 4, at - 4 + size)], [0xfd, 0xf8, 0xf8, 0])
  })

  it("has the same hvcC as another writer makes of the same sets", () => {
    // What x265 wrote for 320x240, 4:2:0, 10 bits, and the first 23 bytes of hvcC that ffmpeg made of it.
    const sps = Buffer.from(
      "42010102200000030090000003000003003ca00a080f1365959a4932bc05a02000000300200000030321",
      "hex",
    )
    const { parameters } = camera({ video: "main-640x360-25.h265", seconds: 0, startMs: t0 })
    const bytes = Buffer.from(initSegment({ ...parameters, video: { ...parameters.video, sps } }))
    const at = bytes.indexOf("hvcC") + 4
    assert.strictEqual(bytes.toString("hex", at, at + 23), "0102200000009000000000003cf000fcfdfafa00000f03")
  })

  it("carries an identity that is read back, behind it", () => {
    const description = {
      version: 1 as const,
      id: identityOf(1).streamId,
      ...identityOf(1),
      epoch: 3,
      sequence: 4,
      startMs: t0,
    }
    const box = identityBox(description)
    assert.deepStrictEqual(readIdentity(Buffer.concat([Buffer.alloc(5), box]), 5), { description, end: 5 + box.length })
    assert.isNull(readIdentity(box.subarray(0, box.length - 1), 0))
  })
})

describe("fragments", () => {
  it("begin at each key picture and last at most a second", () => {
    const { parameters, units } = h264()
    const { fragments, next } = build(parameters, units)
    assert.deepStrictEqual(fragments.map((fragment) => fragment.key), [true, false, true, false, true])
    assert.isTrue(fragments.every((fragment) => fragment.durationTicks === 90_000 && fragment.frames === 25))
    assert.deepStrictEqual(
      fragments.map(({ startMs, endMs }) => [startMs - t0, endMs - t0]),
      [0, 1, 2, 3, 4].map((s) => [s * 1000, s * 1000 + 1000]),
    )
    assert.deepStrictEqual(fragments.map(({ discontinuity }) => discontinuity), [true, false, false, false, false])
    assert.strictEqual(next, 5 * 90_000)
  })

  it("say of themselves what the index says of them", () => {
    const { parameters, units } = h264({ audio: "tone-16000.aac" })
    for (const fragment of build(parameters, units).fragments) {
      const bytes = Buffer.from(fragment.data)
      assert.strictEqual(bytes.length, fragment.bytes)
      const { headBytes: _, sample: __, ...line } = readFragmentLine(bytes)!
      const { data: ___, release: ____, ...rest } = fragment
      assert.deepStrictEqual(line, rest)
      assert.deepStrictEqual(scanBoxes(bytes, 0, bytes.length).map((box) => box.type), ["uuid", "moof", "mdat"])
      assert.strictEqual(scanBoxes(bytes, 0, bytes.length)[0]!.end, lineBytes)
    }
  })

  it("hold what was pushed although its memory and that of released fragments is used again", () => {
    const { parameters, units } = h264({ audio: "tone-16000.aac", seconds: 8 })
    const kept = build(parameters, units).fragments.map(({ data }) => Buffer.from(data))
    const again: Array<Buffer> = []
    const blocks = new Set<ArrayBufferLike>()
    const builder = makeFragmentBuilder({
      parameters,
      decodeTicks: 0,
      wallMs: (ticks) => t0 + Math.round(ticks / 90),
      onFragment: ({ data, release }) => {
        again.push(Buffer.from(data))
        blocks.add(data.buffer)
        release()
        release()
      },
    })
    const shared = Buffer.alloc(1 << 20)
    for (const unit of units) {
      shared.set(unit.data)
      builder.push({ ...unit, data: shared.subarray(0, unit.data.length) })
      shared.fill(0xee, 0, unit.data.length)
    }
    builder.flush()
    again.forEach((bytes, i) => equalBytes(bytes, kept[i]!))
    assert.strictEqual(again.length, kept.length)
    assert.isBelow(blocks.size, again.length)
  })

  it("drop what comes before the first key picture, audio too", () => {
    const { parameters, units } = h264({ audio: "tone-8000.pcmu" })
    const late = units.filter((unit) => unit.arrivalMs >= t0 + 100)
    const { fragments } = build(parameters, late, { zero: 0 })
    assert.strictEqual(fragments[0]!.startMs, t0 + 2000)
    assert.strictEqual(runsOf(fragments[0]!)[1]!.time, 0)
  })

  it("run on in decode time from where they are told", () => {
    const { parameters, units } = h264({ audio: "tone-48000.opus", videoTicks: 4_000_000_000, audioTicks: 77 })
    const { fragments, next } = build(parameters, units, { decodeTicks: 123_456_789_000, zero: 4_000_000_000 })
    assert.strictEqual(fragments[0]!.decodeTicks, 123_456_789_000)
    assert.strictEqual(fragments[0]!.startMs, t0)
    assert.isAtLeast(next, 123_456_789_000 + 5 * 90_000)
    assert.isAtMost(next, 123_456_789_000 + 5 * 90_000 + 1800)
  })

  it("continue without a hole after a discontinuity, on any ticks, and say so", () => {
    const { parameters, units } = h264()
    const fragments: Array<Fragment> = []
    let zero = 0
    let wall = t0
    const builder = makeFragmentBuilder({
      parameters,
      decodeTicks: 0,
      wallMs: (ticks) => wall + Math.round((ticks - zero) / 90),
      onFragment: (fragment) => fragments.push(fragment),
    })
    for (const unit of units.slice(0, 60)) builder.push(unit)
    builder.discontinuity()
    zero = 5_000_000
    wall = t0 + 60_000
    for (const unit of units.slice(0, 60)) builder.push({ ...unit, ticks: unit.ticks + zero })
    builder.flush()
    assert.deepStrictEqual(fragments.map(({ frames }) => frames), [25, 25, 10, 25, 25, 10])
    assert.deepStrictEqual(fragments.map(({ discontinuity }) => discontinuity), [
      true,
      false,
      false,
      true,
      false,
      false,
    ])
    let at = 0
    for (const fragment of fragments) {
      assert.strictEqual(fragment.decodeTicks, at)
      at += fragment.durationTicks
    }
    assert.strictEqual(fragments[2]!.endMs, t0 + 2400)
    assert.strictEqual(fragments[3]!.startMs, t0 + 60_000)
  })

  it("take a jump of the ticks for a discontinuity", () => {
    const { parameters, units } = h264()
    const jumped = units.map((unit, i) => i < 50 ? unit : { ...unit, ticks: unit.ticks + 9_000_000_000 })
    const { fragments } = build(parameters, jumped)
    assert.deepStrictEqual(fragments.map(({ discontinuity }) => discontinuity), [true, false, true, false, false])
    assert.deepStrictEqual(fragments.map(({ decodeTicks }) => decodeTicks), [0, 1, 2, 3, 4].map((s) => s * 90_000))
  })

  it("let a picture last as long as the camera is silent", () => {
    const { parameters, units } = h264()
    const paused = units.map((unit, i) => i < 30 ? unit : { ...unit, ticks: unit.ticks + 4 * 90_000 })
    const { fragments } = build(parameters, paused)
    assert.strictEqual(fragments.reduce((sum, { durationTicks }) => sum + durationTicks, 0), 9 * 90_000)
    assert.strictEqual(fragments.filter(({ durationTicks }) => durationTicks > 90_000).length, 1)
    assert.strictEqual(fragments.find(({ durationTicks }) => durationTicks > 90_000)!.frames, 1)
  })
})

describe("an independent reader", () => {
  it("finds every picture of H.264 with its time and bytes", async () => {
    const { parameters, units } = h264()
    const { video } = await readForeign(build(parameters, units).file)
    assert.strictEqual(await video.getCodecParameterString(), parameters.video.codecs)
    const packets = await packetsOf(video)
    assert.strictEqual(packets.length, 125)
    packets.forEach((packet, i) => {
      assert.closeTo(packet.at, i * 0.04, 1e-6)
      assert.strictEqual(packet.key, i % 50 === 0)
      equalBytes(packet.data, units[i]!.data)
    })
  })

  it("finds reordered pictures in decode order with their presentation times", async () => {
    const { parameters, units } = camera({
      video: "bframes-320x180-25.h264",
      seconds: 8,
      startMs: t0,
      videoTicks: 1_000,
    })
    const { file, fragments } = build(parameters, units, { zero: 1_000 })
    assert.isTrue(fragments.some((fragment) => runsOf(fragment)[0]!.version === 1))
    assert.isTrue(fragments.every(({ durationTicks }) => durationTicks <= 90_000))
    assert.strictEqual(fragments.reduce((sum, { frames }) => sum + frames, 0), 200)
    const packets = await packetsOf((await readForeign(file)).video)
    assert.strictEqual(packets.length, 200)
    const zero = units[0]!.ticks
    packets.forEach((packet, i) => {
      assert.closeTo(packet.at, (units[i]!.ticks - zero) / 90_000, 1e-6)
      equalBytes(packet.data, units[i]!.data)
    })
    for (const [i, fragment] of fragments.entries()) {
      const next = fragments[i + 1]
      if (next !== undefined) assert.strictEqual(fragment.decodeTicks + fragment.durationTicks, next.decodeTicks)
    }
  })

  it("finds H.265 as hvc1", async () => {
    const { parameters, units } = camera({ video: "main-640x360-25.h265", seconds: 3, startMs: t0 })
    const { video } = await readForeign(build(parameters, units).file)
    // The reader names every H.265 track after the other sample entry.
    assert.strictEqual(
      (await video.getCodecParameterString())?.toLowerCase(),
      parameters.video.codecs.replace("hvc1", "hev1").toLowerCase(),
    )
    assert.strictEqual((await packetsOf(video)).length, 75)
  })

  const sounds: ReadonlyArray<readonly [string, string, string]> = [
    ["AAC", "tone-16000.aac", "aac"],
    ["Opus", "tone-48000.opus", "opus"],
    ["G.711 µ-law", "tone-8000.pcmu", "ulaw"],
    ["G.711 A-law", "tone-8000.pcma", "alaw"],
  ]
  it.each(sounds)("finds every frame of %s in step with the pictures", async (_, file, codec) => {
    const { parameters, units } = h264({ audio: file, videoTicks: 90_000, audioTicks: 3_333 })
    const { audio, video } = await readForeign(build(parameters, units, { zero: 90_000 }).file)
    assert.strictEqual(await audio?.getCodec(), codec)
    assert.strictEqual((await packetsOf(video)).length, 125)
    const sent = units.filter((unit) => unit.track === "audio")
    const packets = await packetsOf(audio!)
    // PCM is split at will by the reader; bytes and beginnings must fit all the same.
    equalBytes(
      Buffer.concat(packets.map((packet) => packet.data)),
      Buffer.concat(sent.map((unit) => unit.data)).subarray(0, packets.reduce((n, { data }) => n + data.length, 0)),
    )
    assert.closeTo(
      packets.at(-1)!.at,
      (sent.at(-1)!.ticks - 3_333) / parameters.audio!.sampleRate,
      codec.endsWith("law") ? 0.3 : 0.002,
    )
    assert.closeTo(packets[0]!.at, 0, 0.002)
  })
})

describe("audio beside video", () => {
  const firstAudio = (options: Partial<CameraOptions>) => {
    const { parameters, units } = h264({ audio: "tone-8000.pcmu", audioTicks: 900_000, ...options })
    const run = build(parameters, units).fragments.flatMap(runsOf).find(({ track }) => track === 2)!
    return run.time / 8
  }

  it("goes by the sender reports where both tracks have them", () => {
    assert.closeTo(firstAudio({ audioLateMs: 300, senderOffsetMs: 7_200_000 }), 0, 1)
  })

  it("goes by arrival without them", () => {
    assert.closeTo(firstAudio({ audioLateMs: 300 }), 300, 1)
  })

  it("is moved when the clocks have drifted apart, and never goes back", () => {
    const { parameters, units } = h264({ audio: "tone-8000.pcmu", seconds: 60, senderOffsetMs: 0 })
    // The camera's audio clock runs 0.5% fast: 300 ms a minute.
    const drifting = units.map((unit) => {
      if (unit.track === "video") return unit
      const at = Math.round(t0 + (unit.ticks / 8) / 1.005)
      return { ...unit, senderMs: at, arrivalMs: at + 5 }
    }).sort((a, b) => a.arrivalMs - b.arrivalMs)
    const runs = build(parameters, drifting).fragments.flatMap((fragment) => {
      const audio = runsOf(fragment).find(({ track }) => track === 2)
      return audio === undefined ? [] : [{ at: audio.time / 8, video: fragment.decodeTicks / 90 }]
    })
    for (const [i, run] of runs.entries()) {
      assert.isAbove(run.at, runs[i - 1]?.at ?? -1)
      assert.closeTo(run.at, run.video, 100)
    }
  })
})

describe("the boxes of others", () => {
  it("are found on their path", () => {
    const { parameters } = h264()
    const bytes = initSegment(parameters)
    const moov = scanBoxes(bytes, 0, bytes.length)[1]!
    assert.isNotNull(descend(bytes, moov, "trak", "mdia", "minf", "stbl", "stsd"))
    assert.isNull(descend(bytes, moov, "trak", "nope"))
  })
})
