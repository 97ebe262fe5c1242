/** The ring of a shadowed stream: what it holds of real footage, and that nothing makes it hold more than it may, or half a group. */
import { blockBytes, entryBytes, RingMemory, type RingSink, StreamRing } from "#media/capture/ring.ts"
import type { AccessUnit, TrackParameters } from "#schema/media.ts"
import { assert, describe, it } from "@effect/vitest"
import { camera, type CameraOptions } from "./access-units.ts"
import { parametersOf } from "./capture-harness.ts"
import { random } from "./random.ts"

const startMs = Date.parse("2026-03-01T12:00:00.000Z")
const holdMs = 30_000
const mebi = 1024 * 1024

/** A ring on clocks that a test sets; the monotonic one begins elsewhere. */
const stage = (maxBytes = 64 * mebi, memory = new RingMemory(512 * mebi)) => {
  const time = { nowMs: startMs, setMs: 0 }
  const ring = new StreamRing({
    holdMs,
    maxBytes,
    memory,
    wallMs: () => time.nowMs + time.setMs,
    monotonicMs: () => time.nowMs - startMs + 7_777,
  })
  const give = (unit: AccessUnit) => {
    time.nowMs = Math.max(time.nowMs, unit.arrivalMs)
    // What a driver hands over is its own buffer, which it uses again.
    const data = Uint8Array.from(unit.data)
    ring.unit({ ...unit, data })
    data.fill(0xee)
  }
  return { give, memory, ring, time }
}

type Given = { readonly parameters: TrackParameters } | { readonly unit: AccessUnit } | { readonly told: string }

/** All of it, as a recorder with this much room at a time would get it. */
const pourOut = (ring: StreamRing, roomBytes = Number.POSITIVE_INFINITY): ReadonlyArray<Given> => {
  const given: Array<Given> = []
  for (let turn = 0; turn < 100_000; turn++) {
    let room = roomBytes
    const sink: RingSink = {
      parameters: (parameters) => given.push({ parameters }),
      unit: (unit) => {
        room -= unit.data.length
        given.push({ unit: { ...unit, data: Uint8Array.from(unit.data) } })
      },
      loss: (packets) => given.push({ told: `loss ${packets}` }),
      interrupt: (cause) => given.push({ told: cause }),
    }
    if (ring.pour(sink, () => room)) return given
  }
  throw new Error("it is never empty")
}
const unitsOf = (given: ReadonlyArray<Given>) => given.flatMap((one) => "unit" in one ? [one.unit] : [])
const toldOf = (given: ReadonlyArray<Given>) => given.flatMap((one) => "told" in one ? [one.told] : [])

const footage: ReadonlyArray<readonly [name: string, options: Pick<CameraOptions, "video" | "audio">]> = [
  ["H.264", { video: "main-640x360-25.h264" }],
  ["H.264 with reordered pictures", { video: "bframes-320x180-25.h264" }],
  ["H.265", { video: "main-640x360-25.h265" }],
  ["H.264 and AAC", { video: "main-640x360-25.h264", audio: "tone-16000.aac" }],
  ["H.265 and G.711", { video: "main-640x360-25.h265", audio: "tone-8000.pcmu" }],
]

describe("ring", () => {
  for (const [name, options] of footage) {
    it(`${name}: the newest half minute and no more than a group besides, byte for byte`, () => {
      const { give, memory, ring } = stage()
      const { parameters, units } = camera({ ...options, seconds: 50, startMs, senderOffsetMs: 40 })
      ring.parameters(parameters)
      for (const unit of units) {
        give(unit)
        assert.strictEqual(ring.bytes(), memory.inUse())
      }
      const keys = units.filter(({ key, track }) => track === "video" && key).map(({ arrivalMs }) => arrivalMs)
      const groupMs = keys[1]! - keys[0]!
      const given = pourOut(ring)
      const held = unitsOf(given)
      const first = held[0]!
      const newest = units.at(-1)!.arrivalMs
      assert.deepInclude(first, { track: "video", key: true })
      assert.isAtLeast(newest - first.arrivalMs, holdMs)
      assert.isAtMost(newest - first.arrivalMs, holdMs + groupMs + 40)
      assert.deepStrictEqual(
        held,
        units.slice(-held.length).map((unit) => ({ ...unit, data: Uint8Array.from(unit.data) })),
      )
      assert.deepStrictEqual(given[0], { parameters })
      assert.deepStrictEqual(toldOf(given), [])
      ring.clear()
      assert.strictEqual(memory.inUse(), 0)
    })
  }

  it("bounded as it likes, it begins with a key picture and has no hole that it does not tell", () => {
    for (let seed = 1; seed <= 25; seed++) {
      const pick = random(seed)
      const memory = new RingMemory((2 + pick(6)) * mebi / 2)
      const rings = [0, 1].map(() => stage((2 + pick(6)) * blockBytes, memory))
      const sent = rings.map((): Array<AccessUnit> => [])
      const [groupOf, largest] = [1 + pick(40), 1_000 + pick(50_000)]
      for (const { ring } of rings) ring.parameters(parametersOf(640))
      for (let n = 0; n < 250; n++) {
        for (const [i, { give, ring }] of rings.entries()) {
          if (pick(97) === 0) ring.interrupt("camera_offline", "went")
          if (pick(61) === 0) ring.loss(1 + pick(9))
          const data = new Uint8Array(1 + pick(largest)).fill(n)
          const key = n % groupOf === 0
          const unit: AccessUnit = {
            track: "video",
            data,
            key,
            ticks: n * 3_600,
            durationTicks: 0,
            arrivalMs: startMs + n * 40,
            senderMs: null,
          }
          give(unit)
          sent[i]!.push(unit)
          assert.isAtMost(ring.bytes(), memory.maxBytes + 2 * entryBytes, `seed ${seed}`)
          assert.strictEqual(memory.inUse(), rings[0]!.ring.bytes() + rings[1]!.ring.bytes(), `seed ${seed}`)
        }
      }
      for (const [i, { ring }] of rings.entries()) {
        // Until something else is told, each unit follows the one before; after a break a key picture comes.
        let after: AccessUnit | null = null
        for (const one of pourOut(ring, 1 + pick(100_000))) {
          if ("told" in one && !one.told.startsWith("loss")) after = null
          if (!("unit" in one)) continue
          const { unit } = one
          const place: number = sent[i]!.findIndex(({ ticks }) => ticks === unit.ticks)
          if (after === null) assert.isTrue(unit.key, `seed ${seed}`)
          else assert.strictEqual(sent[i]![place - 1]?.ticks, after.ticks, `seed ${seed}`)
          assert.strictEqual(Buffer.compare(unit.data, sent[i]![place]!.data), 0, `seed ${seed}`)
          after = unit
        }
        ring.clear()
      }
      assert.strictEqual(memory.inUse(), 0, `seed ${seed}`)
    }
  })

  it("a group that is larger than the ring may be is not held in part", () => {
    const { give, ring } = stage(2 * blockBytes)
    ring.parameters(parametersOf(640))
    const one = { track: "video", ticks: 0, durationTicks: 0, senderMs: null } as const
    const data = new Uint8Array(blockBytes / 2)
    for (let n = 0; n < 40; n++) give({ ...one, data, key: n % 20 === 0, ticks: n, arrivalMs: startMs + n })
    assert.strictEqual(ring.heldMs(), 0)
    assert.deepStrictEqual(pourOut(ring), [{ parameters: parametersOf(640) }])
  })

  it("what the disk is too slow for while it is poured out is named", () => {
    const { give, ring } = stage(8 * blockBytes)
    ring.parameters(parametersOf(640))
    const told: Array<string> = []
    const units: Array<number> = []
    const sink: RingSink = {
      parameters: () => undefined,
      unit: ({ ticks }) => units.push(ticks),
      loss: () => undefined,
      interrupt: (cause) => told.push(cause),
    }
    for (let n = 0; n < 400; n++) {
      const data = new Uint8Array(blockBytes / 8)
      give({
        track: "video",
        data,
        key: n % 10 === 0,
        ticks: n,
        durationTicks: 0,
        arrivalMs: startMs + n * 40,
        senderMs: null,
      })
      // A disk that takes one unit of three.
      let room = n >= 40 && n % 3 === 0 ? 1 : 0
      if (n >= 40) ring.pour(sink, () => room--)
    }
    assert.isAtLeast(told.length, 1)
    assert.deepStrictEqual(new Set(told), new Set(["disk_slow"]))
    assert.deepStrictEqual(units, units.toSorted((a, b) => a - b))
    assert.strictEqual(new Set(units).size, units.length)
  })

  it("times are told by the node's clock as it is when the ring is poured out", () => {
    const { give, ring, time } = stage()
    const { parameters, units } = camera({ video: "main-640x360-25.h264", seconds: 20, startMs })
    ring.parameters(parameters)
    for (const unit of units) {
      // Set back by an hour in the middle.
      const set = unit.arrivalMs > startMs + 10_000 ? -3_600_000 : 0
      give({ ...unit, arrivalMs: unit.arrivalMs })
      if (set !== 0 && time.setMs === 0) time.setMs = set
    }
    const first = ring.sinceMs()
    const held = unitsOf(pourOut(ring))
    assert.strictEqual(first, held[0]!.arrivalMs)
    assert.strictEqual(held[0]!.arrivalMs, units[0]!.arrivalMs - 3_600_000)
  })
})
