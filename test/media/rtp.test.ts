/** RTP with video: loss, order, wrap-around, what becomes of packets of each codec. */
import { ParameterSets } from "#media/codec/parameters.ts"
import { H264Depacketiser } from "#media/rtp/h264.ts"
import { H265Depacketiser } from "#media/rtp/h265.ts"
import { TrackReceiver } from "#media/rtp/receiver.ts"
import type { VideoParameters } from "#schema/media.ts"
import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import {
  aggregate264,
  aggregate265,
  collect,
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
