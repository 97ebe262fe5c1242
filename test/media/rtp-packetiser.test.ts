/** What the packetisers make is what the depacketisers read, whatever the sizes; and RTCP there and back. */
import { ParameterSets } from "#media/codec/parameters.ts"
import { AacDepacketiser, g711Ticks, opusTicks, WholePacketDepacketiser } from "#media/rtp/audio.ts"
import type { Depacketiser } from "#media/rtp/depacketiser.ts"
import { H264Depacketiser } from "#media/rtp/h264.ts"
import { H265Depacketiser } from "#media/rtp/h265.ts"
import {
  makeAudioPacketiser,
  makeVideoPacketiser,
  maxPayloadBytes,
  type Packetiser,
  type Packets,
} from "#media/rtp/packetiser.ts"
import { TrackReceiver } from "#media/rtp/receiver.ts"
import {
  goodbyePacket,
  parseReceptionReports,
  parseRtcp,
  receiverReportPacket,
  senderReportPacket,
} from "#media/rtp/rtcp.ts"
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { camera } from "./access-units.ts"
import { random } from "./random.ts"
import { lengthPrefixed } from "./rtp-packets.ts"

const options = { channel: 0, payloadType: 96, ssrc: 0xfedc_ba98, sequence: 65_530 }

/** The packets, without what frames them. */
const cut = ({ bytes, starts }: Packets): ReadonlyArray<Buffer> =>
  starts.map((start, index) => {
    const end = starts[index + 1] ?? bytes.length
    assert.strictEqual(bytes[start], 0x24)
    assert.strictEqual(bytes.readUInt16BE(start + 2), end - start - 4)
    return bytes.subarray(start + 4, end)
  })

interface Unit {
  readonly data: string
  readonly key: boolean
  readonly ticks: number
}

const receive = (
  clockRate: number,
  make: (take: (data: Uint8Array, key: boolean, ticks: number) => void) => Depacketiser,
) => {
  const units: Array<Unit> = []
  let losses = 0
  const receiver = new TrackReceiver({
    payloadType: 96,
    clockRate,
    depacketiser: make((data, key, ticks) => units.push({ data: Buffer.from(data).toString("hex"), key, ticks })),
    onLoss: (count) => {
      losses += count
    },
  })
  return {
    units,
    losses: () => losses,
    push: (packets: Packets | null) => {
      assert.isNotNull(packets)
      const all = cut(packets!)
      all.forEach((packet, index) => {
        assert.isAtMost(packet.length, maxPayloadBytes + 12)
        assert.strictEqual(packet.readUInt32BE(8), options.ssrc)
        if (index < all.length - 1) assert.strictEqual(packet[1]! & 0x80, 0)
        receiver.push(packet, 0, packet.length, 0)
      })
      assert.strictEqual(packets!.payloadBytes, all.reduce((sum, packet) => sum + packet.length - 12, 0))
    },
  }
}

const video = (codec: "h264" | "h265", sets: ReadonlyArray<Uint8Array>) =>
  receive(90_000, (onUnit) => {
    const known = new ParameterSets(codec)
    known.seed(sets)
    const all = { sets: known, onParameters: () => {}, onUnit }
    return codec === "h264" ? new H264Depacketiser(all) : new H265Depacketiser({ ...all, orderNumbers: false })
  })

const footage = {
  h264: camera({ video: "main-640x360-25.h264", seconds: 2, startMs: 0 }),
  h265: camera({ video: "main-640x360-25.h265", seconds: 2, startMs: 0 }),
}

/** A NAL unit of a picture: its header, `first` bit set, then `length` bytes of noise. */
const slice = (codec: "h264" | "h265", key: boolean, length: number, first: boolean, next: (below: number) => number) =>
  Buffer.from([
    ...(codec === "h264" ? [key ? 0x65 : 0x41] : [key ? 19 << 1 : 1 << 1, 1]),
    first ? 0x88 : 0x10,
    ...Array.from({ length }, () => next(256)),
  ])

describe("video", () => {
  for (const codec of ["h264", "h265"] as const) {
    it(`${codec}: footage comes out as it went in, with the sets in front of key pictures and across the wrap`, () => {
      const { parameters: { video: { pps, sps, vps } }, units } = footage[codec]
      const sets = [vps, sps, pps].filter((set) => set.length > 0)
      // The sets come in the stream alone: nothing is known beforehand.
      const reader = video(codec, [])
      const packetiser = makeVideoPacketiser(codec, options)
      for (const unit of units) reader.push(packetiser.unit(unit.data, unit.ticks, unit.key ? sets : []))
      assert.deepStrictEqual(
        reader.units,
        units.map(({ data, key, ticks }) => ({ data: Buffer.from(data).toString("hex"), key, ticks })),
      )
      assert.strictEqual(reader.losses(), 0)
      assert.isBelow(packetiser.sequence, options.sequence)
    })

    it.prop(`${codec}: pictures of any slices`, [
      Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 6000 }))).check(
        Schema.isMinLength(1),
        Schema.isMaxLength(6),
      ),
      Schema.Int,
    ], ([lengths, seed]) => {
      const next = random(seed)
      const { video: { pps, sps, vps } } = footage[codec].parameters
      const reader = video(codec, [vps, sps, pps].filter((set) => set.length > 0))
      const packetiser = makeVideoPacketiser(codec, options)
      const pictures = [true, false, false].map((key) =>
        lengthPrefixed(lengths.map((length, index) => slice(codec, key, length, index === 0, next)))
      )
      pictures.forEach((picture, index) => reader.push(packetiser.unit(picture, index * 3600)))
      assert.deepStrictEqual(reader.units.map(({ data }) => data), pictures.map((picture) => picture.toString("hex")))
    })
  }

  it.prop("what is no picture becomes nothing or packets, never an exception", [Schema.Uint8Array], ([bytes]) => {
    for (const codec of ["h264", "h265"] as const) {
      const packets = makeVideoPacketiser(codec, options).unit(bytes, 0)
      if (packets !== null) cut(packets)
    }
  })

  it("lengths that lead beyond the unit are no picture", () => {
    const packetiser = makeVideoPacketiser("h264", options)
    assert.isNull(packetiser.unit(Uint8Array.of(0, 0, 0, 9, 0x65, 1), 0))
    assert.isNull(packetiser.unit(Uint8Array.of(0, 0, 0, 2, 0x65, 1, 0), 0))
    assert.isNull(packetiser.unit(Uint8Array.of(0xff, 0xff, 0xff, 0xff, 0x65, 1), 0))
    assert.isNull(packetiser.unit(new Uint8Array(0), 0))
    assert.strictEqual(packetiser.sequence, options.sequence)
  })
})

const aac = { sizeBits: 13, indexBits: 3, indexDeltaBits: 3, frameTicks: 1024 }

describe("audio", () => {
  const codecs: Record<
    "aac" | "pcmu" | "opus",
    readonly [Packetiser, (onUnit: (data: Uint8Array, key: boolean, ticks: number) => void) => Depacketiser, number]
  > = {
    aac: [makeAudioPacketiser("aac", options), (onUnit) => new AacDepacketiser(aac, onUnit), 16_000],
    pcmu: [
      makeAudioPacketiser("pcmu", options),
      (onUnit) => new WholePacketDepacketiser(g711Ticks(1), onUnit),
      8000,
    ],
    opus: [makeAudioPacketiser("opus", options), (onUnit) => new WholePacketDepacketiser(opusTicks, onUnit), 48_000],
  }
  const files = { aac: "tone-16000.aac", pcmu: "tone-8000.pcmu", opus: "tone-48000.opus" } as const
  for (const codec of ["aac", "pcmu", "opus"] as const) {
    it(`${codec}: frames come out as they went in`, () => {
      const { units } = camera({ video: "sub-320x180-10.h264", audio: files[codec], seconds: 2, startMs: 0 })
      const frames = units.filter(({ track }) => track === "audio")
      const [packetiser, make, clockRate] = codecs[codec]
      const reader = receive(clockRate, make)
      for (const frame of frames) reader.push(packetiser.unit(frame.data, frame.ticks))
      assert.deepStrictEqual(
        reader.units.map(({ data, ticks }) => [data, ticks]),
        frames.map(({ data, ticks }) => [Buffer.from(data).toString("hex"), ticks]),
      )
      assert.isAbove(frames.length, 20)
    })
  }

  it.prop("AAC frames of any length are whole again", [
    Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 8191 }))).check(Schema.isMaxLength(8)),
    Schema.Int,
  ], ([lengths, seed]) => {
    const next = random(seed)
    const packetiser = makeAudioPacketiser("aac", options)
    const reader = receive(16_000, (onUnit) => new AacDepacketiser(aac, onUnit))
    const frames = lengths.map((length) => Buffer.from(Array.from({ length }, () => next(256))))
    frames.forEach((frame, index) => reader.push(packetiser.unit(frame, index * 1024)))
    assert.deepStrictEqual(reader.units.map(({ data }) => data), frames.map((frame) => frame.toString("hex")))
  })

  it("what does not fit into the format becomes nothing", () => {
    assert.isNull(makeAudioPacketiser("aac", options).unit(new Uint8Array(8192), 0))
    assert.isNull(makeAudioPacketiser("opus", options).unit(new Uint8Array(65_536), 0))
    assert.isNull(makeAudioPacketiser("pcma", options).unit(new Uint8Array(0), 0))
  })
})

describe("RTCP", () => {
  it("sender reports and goodbyes are read as they were written", () => {
    const report = {
      ssrc: 0xdead_beef,
      wallMs: 1_795_000_000_123,
      rtpTimestamp: 0xffff_fff0,
      packets: 7,
      payloadBytes: 8,
    }
    const bytes = Buffer.concat([senderReportPacket(report), goodbyePacket(report.ssrc)])
    const [first, second] = parseRtcp(bytes, 0, bytes.length)
    assert.deepInclude(first, {
      kind: "senderReport",
      ssrc: report.ssrc,
      wallMs: report.wallMs,
      rtpTimestamp: 0xffff_fff0,
    })
    assert.deepStrictEqual(second, { kind: "goodbye", ssrcs: [report.ssrc] })
  })

  it("reception reports are read as they were written", () => {
    const report = {
      receiverSsrc: 1,
      senderSsrc: 0xffff_fffe,
      fractionLost: 25,
      totalLost: -3,
      highestSequence: 70_000,
      jitter: 90,
      lastReport: 0x1234_5678,
      delay: 65_536,
    }
    const bytes = receiverReportPacket(report)
    assert.deepStrictEqual(parseReceptionReports(bytes, 0, bytes.length), [report])
  })

  it.prop("any bytes give reports or none", [Schema.Uint8Array], ([bytes]) => {
    const all = Buffer.from(bytes)
    assert.isAtMost(parseReceptionReports(all, 0, all.length).length, all.length / 24)
  })
})
