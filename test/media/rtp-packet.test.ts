/** RTP below and beside video: headers, audio payloads, reports, reordering, the memory that units are put together in. */
import { AacDepacketiser, g711Ticks, opusTicks, WholePacketDepacketiser } from "#media/rtp/audio.ts"
import { TrackReceiver } from "#media/rtp/receiver.ts"
import { Reorder, reorderCapacity } from "#media/rtp/reorder.ts"
import { parseRtcp, receiverReportPacket } from "#media/rtp/rtcp.ts"
import { UnitBuffer } from "#media/rtp/unit-buffer.ts"
import { assert, describe, it } from "@effect/vitest"
import { collect, rtpPacket } from "./rtp-packets.ts"

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
