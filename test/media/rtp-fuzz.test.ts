/**
 * Hostile packets: no exception, units that are whole, no more bytes out than in, and losses that add up. A seed is a list of
 * packets, each behind its length in 16 bits; what mutates is the list's bytes or a packet's.
 */
import type { TrackReceiver } from "#media/rtp/receiver.ts"
import { Reorder } from "#media/rtp/reorder.ts"
import { parseRtcp } from "#media/rtp/rtcp.ts"
import { parseSdp } from "#media/rtsp/sdp.ts"
import { chooseTracks, makeTracks } from "#media/rtsp/tracks.ts"
import type { AccessUnit, TrackParameters } from "#schema/media.ts"
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { random } from "./random.ts"
import { rtpPacket } from "./rtp-packets.ts"
import { corpus, everyMutation } from "./rtp-seeds.ts"

const packetsIn = (bytes: Buffer): ReadonlyArray<Buffer> => {
  const packets: Array<Buffer> = []
  for (let at = 0; at + 2 <= bytes.length;) {
    const length = bytes.readUInt16BE(at)
    packets.push(bytes.subarray(at + 2, at + 2 + length))
    at += 2 + length
  }
  return packets
}

const sdpOf = (name: string) => corpus("sdp").find((seed) => seed.name.startsWith(name))!.bytes.toString()
const gst = "gst-1.22-h264-aac-digest-tcp"
const videoSdp = { h264: sdpOf(gst), h265: sdpOf("gst-1.22-h265") }

interface Outcome {
  readonly units: Array<AccessUnit>
  readonly parameters: Array<TrackParameters>
  losses: number
}

/** Feeds one track of what an SDP describes. */
const run = (sdp: string, track: "video" | "audio", packets: ReadonlyArray<Buffer>): Outcome => {
  const outcome: Outcome = { units: [], parameters: [], losses: 0 }
  const choice = chooseTracks(parseSdp(sdp))
  if (typeof choice === "string") throw new Error(choice)
  const tracks = makeTracks(choice, true, {
    onParameters: (parameters) => outcome.parameters.push(parameters),
    onUnit: (unit) => {
      outcome.units.push({ ...unit, data: Buffer.from(unit.data) })
    },
    onLoss: (count) => {
      assert.isAtLeast(count, 1)
      outcome.losses += count
    },
  })
  const receiver: TrackReceiver | null = tracks[track]
  // One buffer for all packets, as in the socket's reads: whoever keeps a view of it is found out.
  const shared = Buffer.alloc(70_000)
  for (const packet of packets) {
    packet.copy(shared, 7)
    receiver?.push(shared, 7, 7 + packet.length, 0)
    shared.fill(0xee)
  }
  return outcome
}

const wholeNals = (data: Uint8Array): boolean => {
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.length)
  let at = 0
  while (at + 4 <= bytes.length) at += 4 + bytes.readUInt32BE(at)
  return at === bytes.length && at > 4
}

const check = (sdp: string, track: "video" | "audio", packets: ReadonlyArray<Buffer>) => {
  const { losses, parameters, units } = run(sdp, track, packets)
  const bytesIn = packets.reduce((sum, packet) => sum + packet.length, 0)
  const bytesOut = units.reduce((sum, { data }) => sum + data.length, 0)
  // A NAL unit in an aggregate gains two bytes of length and sets kept aside may come once more.
  assert.isAtMost(bytesOut, bytesIn * 4 + 4096)
  assert.isAtMost(losses, packets.length * 65_536)
  for (const { data, durationTicks, ticks } of units) {
    assert.isTrue(Number.isSafeInteger(ticks) && durationTicks >= 0)
    if (track === "video") assert.isTrue(wholeNals(data))
  }
  if (track === "video" && units.length > 0) assert.isAtLeast(parameters.length, 1)
}

describe("mutated packets", () => {
  for (const codec of ["h264", "h265"] as const) {
    it(codec, () => {
      everyMutation(`rtp-${codec}`, 400, (bytes) => check(videoSdp[codec], "video", packetsIn(bytes)))
    })

    it(`${codec}, each packet by itself`, () => {
      const next = random(7)
      for (const { bytes } of corpus(`rtp-${codec}`)) {
        for (let round = 0; round < 200; round++) {
          const packets = packetsIn(bytes).map((packet) => {
            const copy = Buffer.from(packet)
            // Headers and the first bytes of payloads are where decisions are made.
            if (copy.length > 0 && next(4) === 0) copy[next(Math.min(copy.length, 20))]! ^= 1 << next(8)
            return copy
          })
          check(videoSdp[codec], "video", packets.filter(() => next(10) > 0))
        }
      }
    })
  }

  it("audio", () => {
    // Audio units wait for the video's parameters, so the depacketisers are reached through their receivers alone.
    everyMutation("rtp-aac", 500, (bytes) => check(videoSdp.h264, "audio", packetsIn(bytes)))
    everyMutation("rtp-opus", 500, (bytes) => check(sdpOf("bare-line-feeds"), "audio", packetsIn(bytes)))
  })

  it("RTCP", () => {
    everyMutation("rtcp", 2000, (bytes) => {
      assert.isAtMost(parseRtcp(bytes, 0, bytes.length).length, bytes.length / 4)
    })
  })
})

describe("loss", () => {
  it.prop("is counted exactly, and costs exactly the pictures it touches", [
    Schema.Array(Schema.Struct({
      packets: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 6 })),
      lost: Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 5 }))),
    })),
  ], ([pictures]) => {
    const [sps, pps] = ["6742c00ad9020db0110000030001000003000a0f122648", "68cb8c0480"].map((hex) =>
      Buffer.from(hex, "hex")
    )
    let sequence = 65_500
    const sent: Array<Buffer> = [sps!, pps!].map((nal) => rtpPacket({ sequence: sequence++, timestamp: 0 }, nal))
    let lost = 0
    let whole = 0
    let trailing = 0
    pictures.forEach(({ lost: indices, packets }, picture) => {
      const missing = new Set(indices.filter((index) => index < packets))
      for (let index = 0; index < packets; index++) {
        // Slices of one picture: the first begins with a 1 bit (first_mb_in_slice 0), the others do not.
        const slice = Buffer.from([0x65, index === 0 ? 0x88 : 0x48, 0x80, index])
        const packet = rtpPacket(
          { sequence: sequence++, timestamp: picture * 3600 + 1, marker: index === packets - 1 },
          slice,
        )
        if (missing.has(index)) trailing++
        else {
          sent.push(packet)
          lost += trailing
          trailing = 0
        }
      }
      // A picture whose marker is lost is known to be incomplete as soon as the next packet comes.
      if (missing.size === 0) whole++
    })
    const { losses, units } = run(videoSdp.h264, "video", sent)
    assert.strictEqual(losses, lost)
    assert.strictEqual(units.length, whole)
  })

  it.prop("of order is mended within the window", [Schema.Array(Schema.Int), Schema.Int], ([keys, seed]) => {
    const next = random(seed)
    const packets = keys.map((_, index) =>
      rtpPacket({ sequence: (65_530 + index) & 0xffff, timestamp: 0 }, Buffer.alloc(1))
    )
    const out: Array<number> = []
    const reorder = new Reorder((packet) => out.push(packet.readUInt16BE(2)))
    const window: Array<Buffer> = []
    const flush = (least: number) => {
      while (window.length > least) reorder.push(window.splice(next(window.length), 1)[0]!, 0)
    }
    // The first packet tells where counting begins.
    for (const [index, packet] of packets.entries()) {
      if (index === 0) reorder.push(packet, 0)
      else window.push(packet)
      flush(20)
    }
    flush(0)
    assert.deepStrictEqual(out, packets.map((packet) => packet.readUInt16BE(2)))
  })
})
