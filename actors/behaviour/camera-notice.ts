/**
 * What of a camera's notices is told, and when. No effects: time is handed in.
 *
 * Invariants
 * 1. Something is told when it differs from what was told last: what a camera says again, or says because somebody began to listen,
 *    is told once. What was never told counts as not being so.
 * 2. Motion and tampering of one channel is one thing, however many detectors of the camera notice it: it begins with the first and
 *    ends with the last.
 * 3. At most {@link burst} tellings at once and {@link perSecond} a second of a camera. What comes and goes beyond that is counted;
 *    what stays is told as soon as there is room.
 * 4. Bounds: {@link maxThings} things of a camera, as many detectors of each.
 */
import type { DeviceNotice, NoticeKind } from "#schema/camera-event.ts"

/** A camera with sixteen inputs that all change at once, and some. */
const burst = 30
/** Motion that begins or ends each second, for ever, is no news. */
const perSecond = 1
const maxThings = 64

/** Something to be told. `active` null: it happened in a moment. */
export interface NoticeTelling {
  readonly thing: string
  readonly active: boolean | null
  readonly notice: DeviceNotice
}

interface Thing {
  readonly detectors: Set<string>
  /** Told of in this subscription: until then it is what it was. */
  seen: boolean
  notice: DeviceNotice
}

const motionless: ReadonlySet<NoticeKind> = new Set<NoticeKind>(["motion", "tamper"])

export class CameraNotices {
  private readonly things = new Map<string, Thing>()
  /** Things that were told to be so. */
  private readonly told: Set<string>
  private tokens = burst
  private filledMs = Number.NEGATIVE_INFINITY
  private missed = 0
  private moments: Array<NoticeTelling> = []

  /** `told`: what was told to be so before this process. */
  constructor(told: Iterable<string> = []) {
    this.told = new Set([...told].slice(0, maxThings))
  }

  /** A new subscription: the camera tells anew how everything is. */
  begin(): void {
    for (const thing of this.things.values()) {
      thing.detectors.clear()
      thing.seen = false
    }
  }

  /** `place`: what tells channels of the camera apart. */
  see(notice: DeviceNotice, place: string): void {
    const name = motionless.has(notice.kind) ?
      `${notice.kind}/${place}` :
      `${notice.kind}/${place}/${notice.source ?? ""}`
    if (notice.active === null) {
      if (notice.initial) return
      if (this.moments.length >= burst) this.missed += 1
      else this.moments.push({ thing: name, active: null, notice })
      return
    }
    const thing = this.things.get(name) ?? this.add(name, notice)
    if (thing === null) {
      this.missed += 1
      return
    }
    thing.seen = true
    const before = thing.detectors.size > 0
    if (!notice.active) thing.detectors.delete(notice.detector)
    else if (thing.detectors.size < maxThings) thing.detectors.add(notice.detector)
    const now = thing.detectors.size > 0
    // It was to be told, and is over before it was.
    if (before !== now && now === this.told.has(name) && !notice.initial) this.missed += 1
    if (before !== now || now !== this.told.has(name)) thing.notice = notice
  }

  /** What is to be told now, and counts as told then. */
  due(nowMs: number): ReadonlyArray<NoticeTelling> {
    const since = nowMs - this.filledMs
    this.tokens = since >= burst / perSecond * 1000 ? burst : Math.min(burst, this.tokens + since / 1000 * perSecond)
    this.filledMs = nowMs
    const telling: Array<NoticeTelling> = []
    for (const [name, { detectors, notice, seen }] of this.things) {
      const active = detectors.size > 0
      if (!seen || active === this.told.has(name) || this.tokens < 1) continue
      this.tokens -= 1
      if (active) this.told.add(name)
      else this.told.delete(name)
      telling.push({ thing: name, active, notice })
    }
    for (const moment of this.moments) {
      if (this.tokens < 1) this.missed += 1
      else {
        this.tokens -= 1
        telling.push(moment)
      }
    }
    this.moments = []
    return telling
  }

  /** Counts what the camera told beyond what it may. */
  leaveOut(count: number): void {
    this.missed += count
  }

  /** How much was left out since this was asked last. */
  takeMissed(): number {
    const count = this.missed
    this.missed = 0
    return count
  }

  /** Things that were told to be so, for the next process. */
  on(): ReadonlyArray<string> {
    return [...this.told]
  }

  private add(name: string, notice: DeviceNotice): Thing | null {
    if (this.things.size >= maxThings) return null
    const made = { detectors: new Set<string>(), seen: true, notice }
    this.things.set(name, made)
    return made
  }
}
