/** RTP: loss, order, wrap-around, what becomes of packets of each codec. */
import { ParameterSets } from "#media/codec/parameters.ts"
import { AacDepacketiser, g711Ticks, opusTicks, WholePacketDepacketiser } from "#media/rtp/audio.ts"
import type { UnitSink } from "#media/rtp/depacketiser.ts"
import { H264Depacketiser } from "#media/rtp/h264.ts"
import { H265Depacketiser } from "#media/rtp/h265.ts"
import { TrackReceiver } from "#media/rtp/receiver.ts"
import { Reorder, reorderCapacity } from "#media/rtp/reorder.ts"
import { parseRtcp, receiverReportPacket } from "#media/rtp/rtcp.ts"
import { UnitBuffer } from "#media/rtp/unit-buffer.ts"
import type { VideoParameters } from "#schema/media.ts"
import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import {
  aggregate264,
  aggregate265,
  fragments264,
  fragments265,
  lengthPrefixed,
  nalUnits,
  rtpPacket,
} from "./rtp-packets.ts"

const fixture = (name: string) => readFileSync(new URL(`../fixtures/media/${name}`, import.meta.url))
const nals264 = nalUnits(fixture("sub-320x180-10.h264"))
const type264 = (nal: Uint8Array) => nal[0]! & 31
const sps = nals264.find((nal) => type264(nal) === 7)!
const pps = nals264.find((nal) => type264(nal) === 8)!
const idr = nals264.find((nal) => type264(nal) === 5)!
const slices = nals264.filter((nal) => type264(nal) === 1)
const nals265 = nalUnits(fixture("main-640x360-25.h265"))
const type265 = (nal: Uint8Array) => (nal[0]! >> 1) & 63
const sets265 = [32, 33, 34].map((type) => nals265.find((nal) => type265(nal) === type)!)
const pictures265 = nals265.filter((nal) => type265(nal) < 32)

interface Got {
  readonly units: Array<
    { readonly data: Buffer; readonly key: boolean; readonly ticks: number; readonly duration: number }
  >
  readonly parameters: Array<VideoParameters>
  readonly losses: Array<number>
}

const collect = () => {
  const got: Got = { units: [], parameters: [], losses: [] }
  const onUnit: UnitSink = (data, key, ticks, duration) => {
    got.units.push({ data: Buffer.from(data), key, ticks, duration })
  }
  return { got, onUnit }
}

const video = (codec: "h264" | "h265" = "h264", orderNumbers = false) => {
  const { got, onUnit } = collect()
  const options = {
    sets: new ParameterSets(codec),
    onParameters: (parameters: VideoParameters) => got.parameters.push(parameters),
    onUnit,
  }
  const depacketiser = codec === "h264" ?
    new H264Depacketiser(options) :
    new H265Depacketiser({ ...options, orderNumbers })
  const receiver = new TrackReceiver({
    payloadType: 96,
    clockRate: 90_000,
    depacketiser,
    onLoss: (count) => got.losses.push(count),
  })
  let sequence = 65_530
  let timestamp = 2 ** 32 - 9000
  return {
    got,
    receiver,
    depacketiser,
    skip: (count = 1) => {
      sequence += count
    },
    jump: (ticks: number) => {
      timestamp = (timestamp + ticks) >>> 0
    },
    /** Sends one picture's payloads, the last with the marker. */
    picture: (payloads: ReadonlyArray<Uint8Array>, drop: ReadonlyArray<number> = [], marker = true) => {
      payloads.forEach((payload, index) => {
        const packet = rtpPacket({ sequence, timestamp, marker: marker && index === payloads.length - 1 }, payload)
        sequence++
        if (!drop.includes(index)) receiver.push(packet, 0, packet.length, 1000)
      })
      timestamp = (timestamp + 3600) >>> 0
    },
  }
}

describe("H.264 payloads", () => {
  it("single NAL units, STAP-A and FU-A give the same units, without parameter sets", () => {
    const camera = video()
    camera.picture([sps, pps, idr])
    camera.picture([aggregate264([sps, pps]), ...fragments264(idr, 300)])
    camera.picture([slices[0]!])
    camera.picture(fragments264(slices[1]!, 100))
    assert.deepStrictEqual(
      camera.got.units.map(({ data, key }) => [data.toString("hex"), key]),
      [[[idr], true], [[idr], true], [[slices[0]!], false], [[slices[1]!], false]].map((
        [nals, key],
      ) => [lengthPrefixed(nals as Array<Buffer>).toString("hex"), key]),
    )
    assert.strictEqual(camera.got.parameters.length, 1)
    assert.deepStrictEqual([camera.got.parameters[0]!.width, camera.got.parameters[0]!.height], [320, 180])
    assert.deepStrictEqual(camera.got.losses, [])
  })

  it("unwraps sequence numbers and timestamps", () => {
    const camera = video()
    for (let i = 0; i < 12; i++) camera.picture(i === 0 ? [sps, pps, idr] : [slices[i]!])
    assert.deepStrictEqual(
      camera.got.units.map(({ ticks }) => ticks),
      Array.from({ length: 12 }, (_, i) => 2 ** 32 - 9000 + i * 3600),
    )
    assert.deepStrictEqual(camera.got.losses, [])
  })

  it("presentation times of B-frames go back and forth across the wrap", () => {
    const camera = video()
    camera.picture([sps, pps, idr])
    camera.jump(7200)
    camera.picture([slices[0]!])
    camera.jump(-10_800)
    camera.picture([slices[1]!])
    const first = 2 ** 32 - 9000
    assert.deepStrictEqual(camera.got.units.map(({ ticks }) => ticks - first), [0, 10_800, 3600])
  })

  it("drops the unit of a lost packet, wherever in it, and no other; tells the exact count", () => {
    for (const dropped of [[0], [1], [4], [0, 1, 2, 3, 4], [2, 3]]) {
      const camera = video()
      camera.picture([sps, pps, ...fragments264(idr, 500)])
      const middle = fragments264(slices[0]!, Math.ceil((slices[0]!.length - 1) / 5))
      assert.strictEqual(middle.length, 5)
      camera.picture(middle, dropped)
      camera.picture([slices[1]!])
      assert.deepStrictEqual(
        camera.got.units.map(({ data }) => data.length),
        [idr.length + 4, slices[1]!.length + 4],
        `dropped ${dropped.join()}`,
      )
      assert.strictEqual(camera.got.losses.reduce((sum, count) => sum + count, 0), dropped.length)
    }
  })

  it("drops a unit whose first slice was lost even though later slices came", () => {
    const camera = video()
    camera.picture([sps, pps, idr])
    const later = Buffer.from(slices[0]!)
    later[1] = later[1]! & 0x7f
    camera.picture([slices[0]!, later], [0])
    camera.picture([slices[1]!])
    assert.strictEqual(camera.got.units.length, 2)
  })

  it("drops what stands before the first beginning, silently", () => {
    const camera = video()
    const cut = fragments264(idr, 500).slice(1)
    camera.picture([sps, pps, ...cut], [0, 1, 2])
    camera.picture([sps, pps, idr])
    assert.strictEqual(camera.got.units.length, 1)
    assert.deepStrictEqual(camera.got.losses, [])
    assert.strictEqual(camera.receiver.malformed, 0)
  })

  it("ends units without markers at the next timestamp", () => {
    const camera = video()
    camera.picture([sps, pps, idr], [], false)
    camera.picture([slices[0]!], [], false)
    assert.strictEqual(camera.got.units.length, 1)
    camera.picture([slices[1]!], [], false)
    assert.strictEqual(camera.got.units.length, 2)
  })

  it("survives a camera that sets the marker on every packet", () => {
    const camera = video()
    const second = Buffer.from(slices[0]!)
    second[1] = second[1]! & 0x7f
    let sequence = 0
    for (let i = 0; i < 5; i++) {
      for (const nal of i === 0 ? [sps, pps, idr, second] : [slices[0]!, second]) {
        const packet = rtpPacket({ sequence: sequence++, timestamp: i * 3600, marker: true }, nal)
        camera.receiver.push(packet, 0, packet.length, 0)
      }
    }
    // The first picture is cut before the camera is found out; the last is still open.
    assert.deepStrictEqual(
      camera.got.units.slice(1).map(({ data }) => data.length),
      Array(3).fill(slices[0]!.length * 2 + 8),
    )
    assert.deepStrictEqual(camera.got.losses, [])
  })

  it("tells new parameters before the unit that needs them", () => {
    const order: Array<string> = []
    const sets = new ParameterSets("h264")
    const depacketiser = new H264Depacketiser({
      sets,
      onParameters: ({ width }) => order.push(`parameters ${width}`),
      onUnit: (_, key) => order.push(key ? "key" : "picture"),
    })
    const wide = nalUnits(fixture("wide-800x352-25.h264"))
    const units = [[sps, pps, idr], [slices[0]!], [sps, pps, idr], [
      wide[0]!,
      wide[1]!,
      wide.find((nal) => type264(nal) === 5)!,
    ]]
    units.forEach((nals, i) => {
      const payload = nals.map((nal) => Buffer.from(nal))
      for (const nal of payload) depacketiser.push(nal, 0, nal.length, i * 3600, nal === payload.at(-1))
    })
    assert.deepStrictEqual(order, ["parameters 320", "key", "picture", "key", "parameters 800", "key"])
  })

  it("counts malformed payloads and drops their unit", () => {
    const camera = video()
    camera.picture([sps, pps, idr])
    for (const payload of [[0], [28], [24], [24, 0, 0, 1], [24, 0, 9, 65], [25, 1, 2], [30, 1], [31, 1]]) {
      camera.picture([slices[0]!, Buffer.from(payload)])
    }
    camera.picture([slices[1]!])
    assert.strictEqual(camera.got.units.length, 2)
    assert.strictEqual(camera.receiver.malformed, 8)
    assert.strictEqual(camera.receiver.malformedInARow, 0)
  })

  it("refuses a unit beyond the bound and goes on", () => {
    const camera = video()
    camera.picture([sps, pps, idr])
    const huge = Buffer.alloc(17 * 1024 * 1024, 1)
    huge[0] = 65
    camera.picture(fragments264(huge.subarray(0, 2 ** 24 - 8), 60_000))
    assert.strictEqual(camera.got.units.length, 2)
    camera.picture(fragments264(huge, 60_000))
    camera.picture([slices[0]!])
    assert.strictEqual(camera.got.units.length, 3)
  })

  it("counts a sender that begins anew, and a new source, as one lost packet", () => {
    const camera = video()
    camera.picture([sps, pps, idr])
    camera.skip(-20_000)
    camera.picture([slices[0]!])
    camera.picture([slices[1]!])
    assert.deepStrictEqual([camera.got.losses, camera.got.units.length], [[1], 3])
    const packet = rtpPacket({ sequence: 7, timestamp: 0, ssrc: 99, marker: true }, slices[2]!)
    camera.receiver.push(packet, 0, packet.length, 0)
    assert.deepStrictEqual(camera.got.losses, [1, 1])
  })

  it("ignores a repeated packet", () => {
    const camera = video()
    camera.picture([sps, pps, idr])
    camera.skip(-1)
    camera.picture([idr])
    camera.picture([slices[0]!])
    assert.deepStrictEqual([camera.got.losses, camera.got.units.length], [[], 2])
  })
})

describe("H.265 payloads", () => {
  it("single NAL units, aggregation packets and fragments give the same units", () => {
    const camera = video("h265")
    camera.picture([...sets265, pictures265[0]!])
    camera.picture([aggregate265(sets265), ...fragments265(pictures265[0]!, 700)])
    camera.picture(fragments265(pictures265[1]!, 90))
    camera.picture([aggregate265([pictures265[2]!])])
    assert.deepStrictEqual(
      camera.got.units.map(({ data, key }) => [data.equals(lengthPrefixed([pictures265[0]!])), data.length, key]),
      [0, 0, 1, 2].map((i) => [i === 0, pictures265[i]!.length + 4, i === 0]),
    )
    assert.deepStrictEqual(
      camera.got.parameters.map(({ codecs, height, width }) => [codecs.slice(0, 7), width, height]),
      [
        ["hvc1.1.", 640, 360],
      ],
    )
  })

  it("skips decoding order numbers where the SDP announces them", () => {
    const camera = video("h265", true)
    const numbered = (nal: Buffer) => Buffer.concat([nal.subarray(0, 2), Buffer.from([0, 7]), nal.subarray(2)])
    const pieces = fragments265(pictures265[0]!, 700)
    camera.picture([
      ...sets265.map(numbered),
      Buffer.concat([pieces[0]!.subarray(0, 3), Buffer.from([0, 8]), pieces[0]!.subarray(3)]),
      ...pieces.slice(1),
    ])
    camera.picture([numbered(pictures265[1]!)])
    assert.deepStrictEqual(camera.got.units.map(({ data }) => data), [
      lengthPrefixed([pictures265[0]!]),
      lengthPrefixed([pictures265[1]!]),
    ])
  })

  it("drops the unit of a lost fragment", () => {
    const camera = video("h265")
    camera.picture([...sets265, pictures265[0]!])
    camera.picture(fragments265(pictures265[1]!, 50), [1])
    camera.picture([pictures265[2]!])
    assert.deepStrictEqual([camera.got.units.length, camera.got.losses], [2, [1]])
  })
})

describe("audio payloads", () => {
  const layout = { sizeBits: 13, indexBits: 3, indexDeltaBits: 3, frameTicks: 1024 }
  const aacPacket = (sizes: ReadonlyArray<number>, bytes: number) => {
    const packet = Buffer.alloc(2 + sizes.length * 2 + bytes, 0xaa)
    packet.writeUInt16BE(sizes.length * 16)
    sizes.forEach((size, i) => packet.writeUInt16BE(size << 3, 2 + i * 2))
    return packet
  }

  it("several AAC frames in one packet, each with its time", () => {
    const { got, onUnit } = collect()
    const packet = aacPacket([3, 5, 2], 10)
    assert.isTrue(new AacDepacketiser(layout, onUnit).push(packet, 0, packet.length, 5000))
    assert.deepStrictEqual(got.units.map(({ data, duration, ticks }) => [data.length, ticks, duration]), [
      [3, 5000, 1024],
      [5, 6024, 1024],
      [2, 7048, 1024],
    ])
  })

  it("an AAC frame over several packets, and one of which a piece is lost", () => {
    const { got, onUnit } = collect()
    const aac = new AacDepacketiser(layout, onUnit)
    const push = (bytes: number, ticks: number) => {
      const packet = aacPacket([25], bytes)
      return aac.push(packet, 0, packet.length, ticks)
    }
    assert.deepStrictEqual([push(10, 0), push(10, 0), push(5, 0)], [true, true, true])
    assert.isTrue(push(10, 1024))
    aac.lost()
    assert.isTrue(push(5, 1024))
    assert.isTrue(push(10, 2048) && push(10, 2048) && push(5, 2048))
    assert.deepStrictEqual(got.units.map(({ data, ticks }) => [data.length, ticks]), [[25, 0], [25, 2048]])
  })

  it("malformed AAC headers are refused", () => {
    const aac = new AacDepacketiser(layout, () => assert.fail("a unit came out"))
    for (const payload of ["00", "0000", "0008aa", "00100000", "ffff0010aa"]) {
      const bytes = Buffer.from(payload, "hex")
      assert.isFalse(aac.push(bytes, 0, bytes.length, 0), payload)
    }
  })

  it("G.711 lasts a tick a byte and channel, Opus what its first byte says", () => {
    const { got, onUnit } = collect()
    const g711 = new WholePacketDepacketiser(g711Ticks(1), onUnit)
    assert.isTrue(g711.push(Buffer.alloc(160), 0, 160, 0))
    assert.strictEqual(got.units[0]!.duration, 160)
    const opus = (hex: string) => {
      const bytes = Buffer.from(hex, "hex")
      return opusTicks(bytes, 0, bytes.length)
    }
    // CELT 20 ms, SILK 60 ms, two hybrid frames of 10 ms, three CELT frames of 2.5 ms, 63 frames of 60 ms, nothing behind code 3.
    assert.deepStrictEqual(["f8", "18", "61", "e303", "1b3f", "e3"].map(opus), [960, 2880, 960, 360, 0, 0])
  })
})

describe("RTP packets", () => {
  const whole = () => {
    const { got, onUnit } = collect()
    const receiver = new TrackReceiver({
      payloadType: 0,
      clockRate: 8000,
      depacketiser: new WholePacketDepacketiser(g711Ticks(1), onUnit),
      onLoss: (count) => got.losses.push(count),
    })
    return { got, push: (packet: Buffer) => receiver.push(packet, 0, packet.length, 5000), receiver }
  }

  it("contributing sources, extension and padding are left out", () => {
    const { got, push } = whole()
    const plain = rtpPacket({ sequence: 1, timestamp: 5, payloadType: 0 }, Buffer.from("payload"))
    const dressed = Buffer.concat([
      plain.subarray(0, 12),
      Buffer.alloc(8),
      Buffer.from([0xbe, 0xde, 0, 1, 9, 9, 9, 9]),
      plain.subarray(12),
      Buffer.from([0, 0, 3]),
    ])
    dressed[0] = 0x80 | 0x20 | 0x10 | 2
    push(dressed)
    assert.strictEqual(got.units[0]!.data.toString(), "payload")
  })

  it("what is no RTP is counted and nothing else", () => {
    const { got, push, receiver } = whole()
    const plain = rtpPacket({ sequence: 1, timestamp: 5, payloadType: 0 }, Buffer.from("payload"))
    push(plain.subarray(0, 11))
    for (const first of [0x00, 0x40, 0x8f, 0x90, 0xb0]) {
      const packet = Buffer.from(plain)
      packet[0] = first
      packet[packet.length - 1] = 255
      if (first === 0x90) packet.writeUInt16BE(1000, 14)
      push(packet)
    }
    assert.deepStrictEqual([receiver.malformed, got.units.length, got.losses], [6, 0, []])
  })

  it("comfort noise is not sound; a payload type other than announced is, where the camera sticks to it", () => {
    const announced = whole()
    announced.push(rtpPacket({ sequence: 1, timestamp: 0, payloadType: 0 }, Buffer.alloc(80)))
    announced.push(rtpPacket({ sequence: 2, timestamp: 80, payloadType: 13 }, Buffer.alloc(1)))
    announced.push(rtpPacket({ sequence: 3, timestamp: 160, payloadType: 0 }, Buffer.alloc(80)))
    assert.deepStrictEqual([announced.got.units.length, announced.got.losses], [2, []])
    const other = whole()
    other.push(rtpPacket({ sequence: 1, timestamp: 0, payloadType: 99 }, Buffer.alloc(80)))
    other.push(rtpPacket({ sequence: 2, timestamp: 80, payloadType: 99 }, Buffer.alloc(80)))
    assert.strictEqual(other.got.units.length, 2)
  })

  it("a sender report gives the camera's wall clock, also across the timestamp's wrap", () => {
    const { push, receiver } = whole()
    push(rtpPacket({ sequence: 1, timestamp: 2 ** 32 - 80, payloadType: 0 }, Buffer.alloc(80)))
    assert.isNull(receiver.senderMs(2 ** 32 - 80))
    const report = Buffer.alloc(28)
    report.writeUInt32BE(0x80c80006, 0)
    report.writeUInt32BE(0x1234, 4)
    report.writeUInt32BE(1_700_000_000 + 2_208_988_800, 8)
    report.writeUInt32BE(0x8000_0000, 12)
    report.writeUInt32BE(2 ** 32 - 80, 16)
    const [parsed] = parseRtcp(report, 0, report.length)
    assert.deepStrictEqual(parsed, {
      kind: "senderReport",
      ssrc: 0x1234,
      wallMs: 1_700_000_000_500,
      rtpTimestamp: 2 ** 32 - 80,
      ntpMiddle: parsed?.kind === "senderReport" ? parsed.ntpMiddle : -1,
    })
    if (parsed?.kind === "senderReport") receiver.onSenderReport(parsed, 5000)
    push(rtpPacket({ sequence: 2, timestamp: 0, payloadType: 0 }, Buffer.alloc(80)))
    assert.strictEqual(receiver.senderMs(2 ** 32), 1_700_000_000_510)
  })

  it("reception is reported as RFC 3550 counts it", () => {
    const { push, receiver } = whole()
    assert.isNull(receiver.reception(1, 5000))
    for (const sequence of [65_534, 65_535, 0, 3, 4]) {
      push(rtpPacket({ sequence, timestamp: sequence * 80, payloadType: 0 }, Buffer.alloc(80)))
    }
    const report = receiver.reception(7, 5000)!
    assert.deepStrictEqual([report.senderSsrc, report.totalLost, report.highestSequence, report.fractionLost], [
      0x1234,
      2,
      0x10004,
      Math.floor(2 * 256 / 7),
    ])
    const packet = receiverReportPacket(report)
    assert.strictEqual(packet.toString("hex", 0, 20), "81c90007" + "00000007" + "00001234" + "49000002" + "00010004")
    assert.strictEqual(packet.length % 4, 0)
    assert.strictEqual(receiver.reception(7, 5000)!.fractionLost, 0)
  })

  it("a goodbye names its sources; RTCP that is cut off ends the reading", () => {
    const bye = Buffer.from("81cb000100001234", "hex")
    assert.deepStrictEqual(parseRtcp(bye, 0, 8), [{ kind: "goodbye", ssrcs: [0x1234] }])
    assert.deepStrictEqual(parseRtcp(bye, 0, 7), [])
    assert.deepStrictEqual(parseRtcp(Buffer.from("00000000", "hex"), 0, 4), [])
  })
})

describe("Reorder", () => {
  const run = (sequences: ReadonlyArray<number | readonly [number, number]>) => {
    const out: Array<number> = []
    const reorder = new Reorder((packet) => out.push(packet.readUInt16BE(2)))
    for (const entry of sequences) {
      const [sequence, at] = typeof entry === "number" ? [entry, 0] : entry
      reorder.push(rtpPacket({ sequence, timestamp: 0 }, Buffer.alloc(1)), at)
    }
    return { out, reorder }
  }

  it("puts packets in order, drops repeats and late ones", () => {
    assert.deepStrictEqual(run([65_534, 0, 65_535, 3, 2, 2, 1, 1, 4]).out, [65_534, 65_535, 0, 1, 2, 3, 4])
  })

  it("gives a missing packet up after its time", () => {
    const { out } = run([1, [3, 10], [4, 50], [5, 100], [6, 111], [2, 112], [7, 113]])
    assert.deepStrictEqual(out, [1, 3, 4, 5, 6, 7])
  })

  it("holds no more than its capacity", () => {
    const beyond = Array.from({ length: reorderCapacity + 5 }, (_, i) => 2 + i)
    const { out } = run([0, ...beyond])
    assert.deepStrictEqual(out.slice(0, 3), [0, 2, 3])
    assert.strictEqual(out.length, beyond.length + 1)
  })

  it("follows a sender that begins anew", () => {
    assert.deepStrictEqual(run([30_000, 30_002, 5, 6, 7]).out, [30_000, 30_002, 5, 6, 7])
  })
})

describe("UnitBuffer", () => {
  it("grows, hands out whole units, uses its memory again, refuses what is too long", () => {
    const buffer = new UnitBuffer(100_000)
    const write = (text: string) => {
      const bytes = Buffer.from(text)
      return buffer.append(bytes, 0, bytes.length)
    }
    const take = () => Buffer.from(buffer.take()).toString()
    assert.isTrue(write("first unit"))
    assert.strictEqual(take(), "first unit")
    assert.isTrue(write("second ") && write("x".repeat(50_000)))
    assert.strictEqual(take(), `second ${"x".repeat(50_000)}`)
    assert.isTrue(write("x".repeat(100_000)))
    assert.isFalse(write("y"))
    buffer.truncate(0)
    assert.isTrue(write("third"))
    const third = buffer.take()
    assert.isTrue(write("fourth"))
    assert.strictEqual(third.buffer, buffer.take().buffer)
  })
})
