/** Parameter sets and codec configurations: what ffprobe says of the same bytes, and what must be refused. */
import { parseAacConfig } from "#media/codec/aac.ts"
import { BitReader, maxSetBytes, unescape } from "#media/codec/bits.ts"
import { isRecoveryPoint264, parsePps264, parseSps264, slicePps264 } from "#media/codec/h264.ts"
import { parseSps265, slicePps265 } from "#media/codec/h265.ts"
import { Malformed } from "#media/codec/malformed.ts"
import { ParameterSets } from "#media/codec/parameters.ts"
import { initSegment } from "#media/fmp4/init-writer.ts"
import { assert, describe, it } from "@effect/vitest"

const hex = (text: string) => Uint8Array.from(Buffer.from(text, "hex"))

/** Made by libx264 and libx265; sizes as ffprobe reads them from the same streams. */
const sps264 = [
  ["1080p, cropped from 1088", "67640028acd940780227e5c044000003000400000300283c60c658", 1920, 1080, "avc1.640028"],
  ["interlaced", "67640016acd940b424d8088000000300800000050f8a14cb", 720, 576, "avc1.640016"],
  ["4:4:4, odd crop", "67f4000c919b282e37cf3e022000000300200000030141e28532c0", 362, 202, "avc1.f4000c"],
  ["4:2:2, 10 bit", "677a0020b6cd9405005df8fc044000000300400000030283c60c6580", 1280, 722, "avc1.7a0020"],
  ["baseline", "6742c00ad9020db0110000030001000003000a0f122648", 128, 96, "avc1.42c00a"],
  ["grey", "6764001ff36503f049e263f016c80000030008000003005078c18cb0", 1000, 562, "avc1.64001f"],
] as const
const sps265 = [
  [
    "main",
    "42010101600000030090000003000003005da007d2008e7c996566924caf0168080000030008000003002840",
    1000,
    562,
    "hvc1.1.6.L93.90",
  ],
  [
    "4:2:2, 10 bit",
    "4201010408000003009d08000003000078b003c08010e4d96566924caf0168080000030008000003002840",
    1920,
    1080,
    "hvc1.4.10.L120.9d.8",
  ],
  [
    "4:4:4",
    "4201010408000003009e0800000300003c90014101f3e7cb2b349265780b404000000300400000030142",
    320,
    242,
    "hvc1.4.10.L60.9e.8",
  ],
] as const

const refused = (parse: () => unknown): Malformed => {
  try {
    parse()
  } catch (error) {
    if (error instanceof Malformed) return error
    throw error
  }
  return assert.fail("it was accepted")
}

describe("sequence parameter sets", () => {
  it.each(sps264)("H.264 %s", (_, bytes, width, height, codecs) => {
    assert.deepStrictEqual(parseSps264(hex(bytes)), { id: 0, vpsId: 0, width, height, codecs })
  })

  it.each(sps265)("H.265 %s", (_, bytes, width, height, codecs) => {
    assert.deepStrictEqual(parseSps265(hex(bytes)), { id: 0, vpsId: 0, width, height, codecs })
  })

  it("are refused where they end too early, with the bit", () => {
    const error = refused(() => parseSps264(hex(sps264[0][1]).subarray(0, 8)))
    assert.deepStrictEqual([error.what, error.unit, error.detail], ["H.264 SPS", "bit", "ends too early"])
    assert.isAtLeast(error.at, 56)
    refused(() => parseSps265(hex(sps265[0][1]).subarray(0, 20)))
  })

  it("are refused where they are too long or crop everything away", () => {
    assert.match(refused(() => parseSps264(new Uint8Array(maxSetBytes + 1))).message, /8193 bytes are more than 8192/)
    // Baseline: five zeros, no gaps, 1 by 1 macroblock, frames only, and a crop of 7 chroma samples left and right.
    const bits = ["11111", "0", "1110", "1", "00010000001000", "11"].join("").padEnd(32, "0")
    const sps = hex(`6742000a${Number.parseInt(bits, 2).toString(16).padStart(8, "0")}`)
    assert.match(refused(() => parseSps264(sps)).message, /a picture of -12x16 cannot be/)
  })

  it("drop emulation prevention bytes", () => {
    assert.deepStrictEqual([...unescape(hex("000003010000030300000300"))], [0, 0, 1, 0, 0, 3, 0, 0, 0])
  })

  it("bound exp-Golomb codes", () => {
    const reader = new BitReader("test", new Uint8Array(64))
    assert.match(refused(() => reader.ue()).message, /too long/)
    assert.strictEqual(new BitReader("test", hex("a0")).ue(), 0)
    assert.strictEqual(new BitReader("test", hex("60")).ue(), 2)
    assert.strictEqual(new BitReader("test", hex("60")).se(), -1)
    assert.strictEqual(new BitReader("test", hex("00000001fffffffe")).ue(), 2 ** 32 - 2)
  })
})

describe("slices and supplemental information", () => {
  it("name their picture parameter set", () => {
    // first_mb 0, slice_type 7, pps 0: 1 0001000 1
    assert.strictEqual(slicePps264(hex("65888040")), 0)
    // first_mb 0, slice_type 5 (00110), pps 3 (00100)
    assert.strictEqual(slicePps264(hex("419880")), 3)
    assert.strictEqual(slicePps264(hex("65")), -1)
    // IDR: first slice, no output of prior pictures, pps 0
    assert.strictEqual(slicePps265(hex("2601af")), 0)
    assert.strictEqual(slicePps265(hex("26")), -1)
  })

  it("tell a recovery point, also behind another message", () => {
    assert.isTrue(isRecoveryPoint264(hex("060601c480")))
    assert.isTrue(isRecoveryPoint264(hex("06010212340601c480")))
    assert.isFalse(isRecoveryPoint264(hex("0606014080")))
    assert.isFalse(isRecoveryPoint264(hex("0605ffffffffff")))
  })
})

describe("AudioSpecificConfig", () => {
  it.each(
    [
      ["AAC-LC 16 kHz mono", "1408", 2, 16000, 16000, 1, 1024, "mp4a.40.2"],
      ["AAC-LC 48 kHz stereo", "1190", 2, 48000, 48000, 2, 1024, "mp4a.40.2"],
      ["HE-AAC, explicit", "2b8a0800", 5, 22050, 44100, 1, 2048, "mp4a.40.5"],
      ["HE-AAC, backward compatible", "131056e598", 2, 24000, 48000, 2, 2048, "mp4a.40.2"],
      ["960 samples", "140c", 2, 16000, 16000, 1, 960, "mp4a.40.2"],
    ] as const,
  )("%s", (_, config, objectType, coreRate, outputRate, channels, frameSamples, codecs) => {
    assert.deepStrictEqual(parseAacConfig(hex(config)), {
      objectType,
      coreRate,
      outputRate,
      channels,
      frameSamples,
      codecs,
    })
  })

  it("is refused where it is not general audio, has no rate, or ends", () => {
    refused(() => parseAacConfig(hex("4408")))
    refused(() => parseAacConfig(hex("1688")))
    refused(() => parseAacConfig(hex("14")))
    refused(() => parseAacConfig(new Uint8Array(65)))
  })
})

describe("ParameterSets", () => {
  const [big, small] = [hex(sps264[0][1]), hex(sps264[4][1])]
  const pps = hex("68ebe3cb22c0")
  const key = hex("65888040")

  it("are known from the SDP before the stream says anything", () => {
    const sets = new ParameterSets("h264")
    sets.seed([hex("6700"), hex("0102"), big, pps])
    const before = sets.inForce
    assert.isNull(before)
    assert.isTrue(sets.selectAny())
    assert.strictEqual(sets.inForce?.width, 1920)
    assert.isFalse(sets.selectAny())
    assert.isFalse(sets.select(key))
  })

  it("change only where the bytes do", () => {
    const sets = new ParameterSets("h264")
    sets.offer(big)
    sets.offer(pps)
    assert.isTrue(sets.select(key))
    sets.offer(Uint8Array.from(big))
    assert.isFalse(sets.select(key))
    sets.offer(small)
    assert.isTrue(sets.select(key))
    assert.deepStrictEqual([sets.inForce?.width, sets.inForce?.codecs], [128, "avc1.42c00a"])
    assert.deepStrictEqual(sets.takeExtras().map((nal) => Buffer.from(nal).toString("hex")), [
      Buffer.from(big).toString("hex"),
      Buffer.from(big).toString("hex"),
    ])
  })

  it("that are taken make the front of a file, however damaged they came", () => {
    const whole = {
      h264: [sps264[0][1], Buffer.from(pps).toString("hex")],
      h265: ["40010c01ffff01600000030090000003000003005d959809", sps265[0][1], "4401c172b46240"],
    }
    let state = 1
    const chance = (bound: number) => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
      return Math.floor(state / 0x1_0000_0000 * bound)
    }
    for (const codec of ["h264", "h265"] as const) {
      let taken = 0
      for (let round = 0; round < 20_000; round++) {
        const sets = new ParameterSets(codec)
        sets.seed(whole[codec].map((text) => {
          const nal = hex(text)
          for (let i = 0; i < 3; i++) nal[2 + chance(nal.length - 2)] = chance(256)
          return nal
        }))
        sets.selectAny()
        if (sets.inForce === null) continue
        taken++
        assert.isAbove(initSegment({ video: sets.inForce, audio: null }).length, 100)
      }
      assert.isAbove(taken, 100, codec)
    }
  })

  it("need the whole chain: no SPS, no parameters; H.265 also wants its VPS", () => {
    const sets = new ParameterSets("h264")
    sets.offer(pps)
    assert.isFalse(sets.select(key))
    const sets265 = new ParameterSets("h265")
    sets265.seed([hex(sps265[0][1]), hex("4401c172b46240")])
    assert.isFalse(sets265.selectAny())
    sets265.offer(hex("40010c01ffff01600000030090000003000003005d959809"))
    assert.isTrue(sets265.selectAny())
    assert.strictEqual(sets265.inForce?.codecs, "hvc1.1.6.L93.90")
  })

  it("follow the slice to the set that it uses and keep the others in the unit", () => {
    const sets = new ParameterSets("h264")
    const other = hex("6857ac59")
    assert.deepStrictEqual([parsePps264(pps).id, parsePps264(other).id], [0, 1])
    sets.offer(big)
    sets.offer(pps)
    sets.offer(other)
    assert.isTrue(sets.select(key))
    assert.strictEqual(sets.inForce?.pps[1], pps[1])
    assert.deepStrictEqual(sets.takeExtras().map((nal) => nal[1]), [other[1]])
    assert.deepStrictEqual(sets.takeExtras(), [])
  })

  it("refuse what is no set", () => {
    const sets = new ParameterSets("h264")
    refused(() => sets.offer(key))
    refused(() => sets.offer(hex("6764")))
  })
})
