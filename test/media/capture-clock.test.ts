/** The media clock against cameras that drift, stall, jump and lie. */
import { makeMediaClock } from "#media/capture/clock.ts"
import { planRetry } from "#media/capture/retry.ts"
import { describe, expect, it } from "@effect/vitest"

const start = 1_760_000_000_000
const frameTicks = 3_600

interface Frame {
  readonly ticks: number
  readonly arrivalMs: number
  readonly senderMs: number | null
}

/** `truth` is when the frame was taken; `lateMs` how long it was under way. */
const frame = (ticks: number, truth: number, lateMs: number, senderMs: number | null = null): Frame => ({
  ticks,
  arrivalMs: Math.round(truth + lateMs),
  senderMs,
})

const lateness = (i: number) => 5 + (i * 7919 % 97)

describe("media clock", () => {
  it("follows a camera that drifts, without a step and without going back", () => {
    for (const ppm of [-200, -50, 0, 50, 200]) {
      const clock = makeMediaClock()
      let previous = 0
      for (let i = 0; i < 25 * 3_600; i++) {
        const truth = start + i * 40 * (1 + ppm / 1_000_000)
        const unit = frame(i * frameTicks, truth, lateness(i))
        if (i === 0) clock.restart(unit, null, false)
        else expect(clock.observe(unit)).toBe("continues")
        const wall = clock.wallMs(unit.ticks)
        if (i > 0 && (wall - previous < 38 || wall - previous > 42)) {
          throw new Error(`frame ${i} advances by ${wall - previous} ms at ${ppm} ppm`)
        }
        previous = wall
        if (i > 25 * 60 && Math.abs(wall - truth) > 120) {
          throw new Error(`frame ${i} is ${wall - truth} ms off at ${ppm} ppm`)
        }
      }
    }
  })

  it("believes sender reports while they are plausible, and approaches them slowly", () => {
    const clock = makeMediaClock()
    for (let i = 0; i < 25 * 1_800; i++) {
      const truth = start + i * 40
      const unit = frame(i * frameTicks, truth, lateness(i), i < 100 ? null : truth - 300)
      if (i === 0) clock.restart(unit, null, false)
      else expect(clock.observe(unit)).toBe("continues")
    }
    const last = (25 * 1_800 - 1) * frameTicks
    expect(Math.abs(clock.wallMs(last) - (start + (25 * 1_800 - 1) * 40 - 300))).toBeLessThan(20)
    expect(clock.offsetMs()).toBeLessThan(-300)
  })

  it("does not believe a camera that lives in another century", () => {
    const clock = makeMediaClock()
    for (let i = 0; i < 25 * 600; i++) {
      const truth = start + i * 40
      const unit = frame(i * frameTicks, truth, lateness(i), i * 40)
      if (i === 0) clock.restart(unit, null, false)
      else expect(clock.observe(unit)).toBe("continues")
      expect(Math.abs(clock.wallMs(unit.ticks) - truth)).toBeLessThan(120)
    }
    expect(clock.offsetMs()).toBeLessThan(-1_000_000_000)
  })

  it("takes a stall and the burst after it for what it is", () => {
    const clock = makeMediaClock()
    for (let i = 0; i < 500; i++) {
      const truth = start + i * 40
      const unit = frame(i * frameTicks, truth, i >= 200 && i < 300 ? (300 - i) * 40 : 5)
      if (i === 0) clock.restart(unit, null, false)
      else expect(clock.observe(unit)).toBe("continues")
      expect(Math.abs(clock.wallMs(unit.ticks) - truth)).toBeLessThan(25)
    }
  })

  it("sees a jump of the ticks either way, and goes on where footage ended", () => {
    for (const jump of [90_000 * 3_600, -90_000 * 3_600, 90_000 * 2, -90_000 * 2]) {
      const clock = makeMediaClock()
      for (let i = 0; i < 100; i++) {
        const unit = frame(i * frameTicks, start + i * 40, 5)
        if (i === 0) clock.restart(unit, null, false)
        else clock.observe(unit)
      }
      const endMs = clock.wallMs(100 * frameTicks)
      const unit = frame(100 * frameTicks + jump, start + 4_000, 9)
      expect(clock.observe(unit)).toBe("jumped")
      clock.restart(unit, endMs, true)
      expect(clock.wallMs(unit.ticks)).toBe(endMs)
      expect(clock.observe(frame(unit.ticks + frameTicks, start + 4_040, 5))).toBe("continues")
    }
  })

  it("does not hide a pause between two connections, and does not go back over footage", () => {
    const clock = makeMediaClock()
    clock.restart(frame(0, start, 5), start - 300, false)
    expect(clock.wallMs(0)).toBe(start + 5)
    clock.restart(frame(0, start, 5), start + 400, false)
    expect(clock.wallMs(0)).toBe(start + 400)
  })

  it("moves by exactly the step of the node's clock", () => {
    for (const step of [7_200_000, -7_200_000]) {
      const clock = makeMediaClock()
      for (let i = 0; i < 200; i++) {
        const unit = frame(i * frameTicks, start + i * 40 + (i >= 100 ? step : 0), 5)
        if (i === 0) clock.restart(unit, null, false)
        else {
          // Half a second passes until anybody notices.
          if (i === 112) {
            expect(clock.stepped(step, unit.arrivalMs)).toBe(true)
            clock.step(step)
            expect(clock.stepped(step, unit.arrivalMs)).toBe(false)
          }
          expect(clock.observe(unit)).toBe("continues")
        }
      }
      expect(Math.abs(clock.wallMs(200 * frameTicks) - (start + 5 + 200 * 40 + step))).toBeLessThan(5)
    }
  })

  it("notices time that the camera left out without telling", () => {
    const clock = makeMediaClock()
    let verdict = "continues"
    let i = 0
    for (; i < 2_000 && verdict === "continues"; i++) {
      const pauses = Math.min(3, Math.floor(i / 200)) * 2_500
      const unit = frame(i * frameTicks, start + i * 40 + pauses, 5)
      if (i === 0) clock.restart(unit, null, false)
      else verdict = clock.observe(unit)
    }
    expect(verdict).toBe("lost")
  })

  it("lets pictures be shown in another order than they come", () => {
    const clock = makeMediaClock()
    const order = [0, 3, 1, 2, 6, 4, 5, 9, 7, 8, 12, 10, 11]
    order.forEach((picture, i) => {
      const unit = frame(picture * frameTicks, start + i * 40, 5)
      if (i === 0) clock.restart(unit, null, false)
      else expect(clock.observe(unit)).toBe("continues")
    })
  })
})

describe("retry", () => {
  it("waits between 1 and 30 s, longer for a refused password, hardly at all after a good run", () => {
    for (const random of [0, 0.3, 0.999]) {
      let attempt = 0
      for (let i = 0; i < 12; i++) {
        const plan = planRetry(attempt, { mediaMs: 0, authFailed: false }, random)
        expect(plan.delayMs).toBeGreaterThanOrEqual(1_000)
        expect(plan.delayMs).toBeLessThanOrEqual(30_000)
        attempt = plan.attempt
      }
      const auth = planRetry(attempt, { mediaMs: 0, authFailed: true }, random)
      expect(auth.delayMs).toBeGreaterThanOrEqual(30_000)
      expect(auth.delayMs).toBeLessThanOrEqual(300_000)
      expect(planRetry(attempt, { mediaMs: 31_000, authFailed: false }, random)).toEqual({
        delayMs: Math.round(random * 200),
        attempt: 0,
      })
    }
  })
})
