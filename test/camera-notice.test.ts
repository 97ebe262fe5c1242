/** What of a camera's notices is told: walks against the plain rule, and floods. */
import { CameraNotices, type NoticeTelling } from "#actors/behaviour/camera-notice.ts"
import type { DeviceNotice } from "#schema/camera-event.ts"
import { assert, describe, it } from "@effect/vitest"
import { random } from "./media/random.ts"

const notice = (active: boolean | null, more: Partial<DeviceNotice> = {}): DeviceNotice => ({
  kind: "motion",
  topic: "VideoSource/MotionAlarm",
  detector: "VideoSource/MotionAlarm",
  source: null,
  active,
  initial: false,
  deviceTimeMs: null,
  ...more,
})
const brief = (tellings: ReadonlyArray<NoticeTelling>) => tellings.map(({ active, thing }) => [thing, active])

describe("a state", () => {
  it("is told when it changes, and not when it is said again", () => {
    const one = new CameraNotices()
    one.see(notice(false, { initial: true }), "c")
    assert.deepStrictEqual(one.due(0), [])
    one.see(notice(true), "c")
    assert.deepStrictEqual(brief(one.due(1)), [["motion/c", true]])
    one.see(notice(true), "c")
    assert.deepStrictEqual(one.due(2), [])
    one.see(notice(false), "c")
    assert.deepStrictEqual(brief(one.due(3)), [["motion/c", false]])
    assert.strictEqual(one.takeMissed(), 0)
  })

  it("outlives a subscription, a restart of the camera and one of the node", () => {
    const before = new CameraNotices()
    before.see(notice(true), "c")
    before.due(0)
    before.begin()
    assert.deepStrictEqual(before.due(1), [], "nothing is told before the camera says how it is")
    before.see(notice(true, { initial: true }), "c")
    assert.deepStrictEqual(before.due(2), [])
    const after = new CameraNotices(before.on())
    after.see(notice(true, { initial: true }), "c")
    assert.deepStrictEqual(after.due(3), [])
    const ended = new CameraNotices(before.on())
    ended.see(notice(false, { initial: true }), "c")
    assert.deepStrictEqual(brief(ended.due(4)), [["motion/c", false]])
    assert.deepStrictEqual(ended.on(), [])
  })

  it("of several detectors begins with the first and ends with the last", () => {
    const one = new CameraNotices()
    const other = { detector: "RuleEngine/CellMotionDetector/Motion" }
    one.see(notice(true), "c")
    one.see(notice(true, other), "c")
    assert.deepStrictEqual(brief(one.due(0)), [["motion/c", true]])
    one.see(notice(false), "c")
    assert.deepStrictEqual(one.due(1), [])
    one.see(notice(false, other), "c")
    assert.deepStrictEqual(brief(one.due(2)), [["motion/c", false]])
  })

  it("of channels and of inputs is each its own", () => {
    const one = new CameraNotices()
    one.see(notice(true), "a")
    one.see(notice(true), "b")
    one.see(notice(true, { kind: "input", source: "1" }), "")
    one.see(notice(true, { kind: "input", source: "2" }), "")
    assert.lengthOf(one.due(0), 4)
  })

  it("that was so already when somebody began to listen is told once; a moment of then is not", () => {
    const one = new CameraNotices()
    one.see(notice(true, { initial: true }), "c")
    one.see(notice(null, { kind: "line", initial: true }), "c")
    assert.deepStrictEqual(brief(one.due(0)), [["motion/c", true]])
  })
})

describe("a flood", () => {
  it("of changes is told within the bound; what was left out is counted, and the last state is told", () => {
    const one = new CameraNotices()
    let told = 0
    const changes = 20_001
    for (let change = 0; change < changes; change += 1) {
      one.see(notice(change % 2 === 0), "c")
      told += one.due(change * 5).length
    }
    const seconds = changes * 5 / 1000
    assert.isTrue(told <= 30 + seconds + 1, String(told))
    assert.isTrue(told >= seconds)
    one.see(notice(true), "c")
    one.due(1e9)
    assert.deepStrictEqual(one.on(), ["motion/c"])
    assert.isTrue(one.takeMissed() > 9_000)
    assert.strictEqual(one.takeMissed(), 0)
  })

  it("of moments and of things is bounded and counted", () => {
    const one = new CameraNotices()
    for (let each = 0; each < 500; each += 1) one.see(notice(null, { kind: "line" }), "c")
    assert.lengthOf(one.due(0), 30)
    assert.strictEqual(one.takeMissed(), 470)
    for (let each = 0; each < 500; each += 1) one.see(notice(true, { kind: "input", source: String(each) }), "")
    assert.strictEqual(one.takeMissed(), 500 - 64)
  })
})

for (const seed of [1, 2, 3, 4]) {
  it(`what is told alternates, and with time to spare is what is (walk ${seed})`, () => {
    const next = random(seed)
    let one = new CameraNotices()
    const told = new Map<string, boolean>()
    const real = new Map<string, boolean>()
    let nowMs = 0
    const hear = () => {
      for (const { active, thing } of one.due(nowMs)) {
        assert.notStrictEqual(told.get(thing) ?? false, active, thing)
        told.set(thing, active!)
      }
    }
    for (let step = 0; step < 2_000; step += 1) {
      nowMs += next(3_000)
      const place = String(next(3))
      const kind = next(20)
      if (kind === 0) {
        one.begin()
        for (const [name, active] of real) one.see(notice(active, { initial: true }), name.slice("motion/".length))
      } else if (kind === 1) {
        one = new CameraNotices(one.on())
        for (const [name, active] of real) one.see(notice(active, { initial: true }), name.slice("motion/".length))
      } else {
        const active = next(2) === 1
        real.set(`motion/${place}`, active)
        one.see(notice(active), place)
      }
      hear()
    }
    nowMs += 100_000
    hear()
    for (const [thing, active] of real) assert.strictEqual(told.get(thing) ?? false, active)
  })
}
