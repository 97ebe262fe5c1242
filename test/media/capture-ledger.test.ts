/**
 * The gap ledger, judged by a checker that shares no code with it: a row of milliseconds, each recorded or not. A walk that
 * fails names its seed.
 */
import { readLedger, reconcile } from "#media/capture/ledger-store.ts"
import { type Ledger, type LedgerChange, makeLedger, supersedes } from "#media/capture/ledger.ts"
import { encodeLine } from "#media/capture/line-log.ts"
import type { RecordingId } from "#schema/common.ts"
import type { GapCause, LedgerGap } from "#schema/record.ts"
import { describe, expect, it } from "@effect/vitest"

const recordingId = "01900000-0000-7000-8000-000000000001" as RecordingId

/** Mulberry32. */
const randomFrom = (seed: number) => {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
  }
}

const newLedger = () => {
  let id = 0
  return makeLedger({ recordingId, toleranceMs: 1, maxGaps: 10_000, newId: () => `g${id++}` })
}

const causes: ReadonlyArray<GapCause> = [
  "camera_offline",
  "camera_frozen",
  "auth_failed",
  "stream_invalid",
  "disk_full",
  "operator_paused",
  "starting",
]

/** Every millisecond that is expected and past is recorded or in exactly one gap. */
const judge = (
  seed: number,
  step: number,
  ledger: Ledger,
  recorded: ReadonlyMap<number, number>,
  expected: ReadonlySet<number>,
  now: number,
) => {
  const { gaps, mark, open } = ledger.snapshot()
  const all: Array<LedgerGap> = open === null ? [...gaps] : [...gaps, open]
  const missing = new Map<number, string>()
  for (const gap of all) {
    const end = Math.min(gap.endMs ?? now, now)
    for (let t = gap.startMs; t < end; t++) {
      if (missing.has(t)) {
        throw new Error(`seed ${seed} step ${step}: ${t} is in the gaps ${missing.get(t)} and ${gap.id}`)
      }
      missing.set(t, gap.id)
    }
  }
  const until = open === null ? Math.min(mark, now) : now
  for (const t of expected) {
    if (t >= until) continue
    const [isRecorded, isMissing] = [recorded.has(t), missing.has(t)]
    if (isRecorded === isMissing) {
      throw new Error(
        `seed ${seed} step ${step}: ${t} is ${
          isRecorded ? "recorded and in a gap" : "neither recorded nor in a gap"
        }; now ${now}`,
      )
    }
  }
  for (const t of missing.keys()) {
    if (!expected.has(t)) throw new Error(`seed ${seed} step ${step}: ${t} is in a gap although nothing was expected`)
  }
}

const walk = (seed: number, clockSteps: boolean) => {
  const random = randomFrom(seed)
  const upTo = (n: number) => Math.floor(random() * n)
  const ledger = newLedger()
  /** How often: an hour that happens twice may be recorded twice. */
  const recorded = new Map<number, number>()
  const expected = new Set<number>()
  let now = 10_000
  let assigned = false
  let flowing = false
  let lastStart = now
  const pass = (ms: number) => {
    for (let t = now; t < now + ms; t++) if (assigned) expected.add(t)
    now += ms
  }
  const footage = (from: number, to: number) => {
    if (!assigned) return
    for (let t = from; t < to; t++) recorded.set(t, (recorded.get(t) ?? 0) + 1)
  }
  for (let step = 0; step < 150; step++) {
    const kind = upTo(clockSteps ? 10 : 9)
    if (kind === 0 && !assigned) {
      assigned = true
      flowing = false
      ledger.expect(now, "starting", "")
      pass(1 + upTo(20))
    } else if (kind === 1 && assigned && upTo(4) === 0) {
      if (flowing) ledger.missing("operator_paused", "", now)
      ledger.withdraw(now)
      assigned = false
      flowing = false
      pass(upTo(30))
    } else if (kind === 2 && flowing) {
      flowing = false
      ledger.missing(causes[upTo(causes.length)]!, "", now)
      pass(upTo(40))
    } else if (kind === 3 && assigned && !flowing) {
      ledger.missing(causes[upTo(causes.length)]!, "", now)
      pass(upTo(40))
    } else if (kind === 4 && flowing) {
      // The last fragments never reached the disk.
      const from = Math.max(lastStart, now - 1 - upTo(15))
      for (let t = from; t < now; t++) {
        const count = recorded.get(t) ?? 0
        if (count > 1) recorded.set(t, count - 1)
        else recorded.delete(t)
      }
      ledger.lost({ start: from, end: now }, "disk_error", "")
      flowing = false
      ledger.missing("disk_error", "", now)
    } else if (kind === 9 && upTo(3) === 0) {
      const back = 1 + upTo(200)
      flowing = false
      if (assigned) ledger.missing("clock_step", "", now)
      now -= back
      for (const t of expected) if (t >= now) expected.delete(t)
      const ahead = [...recorded.keys()].filter((t) => t >= now).sort((a, b) => a - b).map((t) => ({
        start: t,
        end: t + 1,
      }))
      ledger.setBack(now, ahead)
      lastStart = now
    } else if (assigned) {
      // A fragment, often right after the one before, sometimes after a hole nobody announced.
      const hole = flowing && upTo(5) > 0 ? 0 : upTo(12)
      pass(hole)
      const from = now
      pass(1 + upTo(20))
      if (!flowing || hole > 0) lastStart = from
      ledger.resume(from, "packet_loss", "")
      ledger.extend(now)
      footage(from, now)
      flowing = true
    } else pass(1 + upTo(20))
    ledger.tick(now)
    judge(seed, step, ledger, recorded, expected, now)
  }
}

describe("gap ledger", () => {
  it("random walks: recorded and gaps are what was expected, nothing twice, nothing left out", () => {
    for (let seed = 1; seed <= 120; seed++) walk(seed, false)
  })

  it("random walks with a clock that is set back", () => {
    for (let seed = 1; seed <= 120; seed++) walk(seed, true)
  })

  it("keeps the first cause, except where another says more", () => {
    const ledger = newLedger()
    ledger.expect(0, "starting", "")
    ledger.missing("auth_failed", "wrong password", 100)
    ledger.missing("camera_frozen", "", 200)
    ledger.missing("camera_offline", "", 300)
    ledger.missing("operator_paused", "", 400)
    ledger.missing("starting", "", 500)
    ledger.resume(600, "packet_loss", "")
    expect(ledger.snapshot().gaps.map((gap) => [gap.startMs, gap.endMs, gap.cause])).toEqual([
      [0, 100, "starting"],
      [100, 200, "auth_failed"],
      [200, 400, "camera_frozen"],
      [400, 500, "operator_paused"],
      [500, 600, "starting"],
    ])
    expect(supersedes("camera_offline", "camera_frozen")).toBe(false)
    expect(supersedes("packet_loss", "camera_offline")).toBe(true)
  })

  it("tells a hole nobody announced once, as closed", () => {
    const ledger = newLedger()
    ledger.expect(0, "starting", "")
    ledger.resume(0, "packet_loss", "")
    ledger.extend(1_000)
    const changes = ledger.resume(1_040, "packet_loss", "1 packet lost")
    expect(changes.map((change) => change._tag)).toEqual(["GapClosed"])
    expect(ledger.between({ start: 0, end: 5_000 })).toMatchObject([{
      startMs: 1_000,
      endMs: 1_040,
      cause: "packet_loss",
    }])
  })

  it("forgets what is older than the footage and keeps no more gaps than it may", () => {
    const ledger = makeLedger({ recordingId, toleranceMs: 1, maxGaps: 3, newId: () => "x" })
    ledger.expect(0, "starting", "")
    for (let i = 0; i < 6; i++) {
      ledger.resume(i * 100 + 10, "packet_loss", "")
      ledger.extend(i * 100 + 100)
    }
    expect(ledger.snapshot().gaps.map((gap) => gap.startMs)).toEqual([300, 400, 500])
    expect(ledger.forget(450)).toBe(2)
    expect(ledger.snapshot().gaps.map((gap) => gap.startMs)).toEqual([500])
  })
})

describe("a ledger that starts again", () => {
  let id = 0
  const newId = () => `n${id++}`
  const gap = (startMs: number, endMs: number | null, cause: GapCause): LedgerGap => ({
    id: newId(),
    recordingId,
    startMs,
    endMs,
    cause,
    detail: "",
  })

  it("puts the time without a process down to the node, from the last stored fragment on", () => {
    const { snapshot } = reconcile(
      recordingId,
      { since: 0, gaps: [gap(0, 100, "starting")], open: null },
      [{ start: 100, end: 5_000 }],
      9_000,
      newId,
    )
    expect(snapshot.open).toMatchObject({ startMs: 5_000, endMs: null, cause: "node_down" })
    expect(snapshot.mark).toBe(5_000)
  })

  it("goes on with the gap that was open, and explains the fragments lost before it", () => {
    const record = { since: 0, gaps: [gap(0, 100, "starting")], open: gap(6_000, null, "camera_offline") }
    const { snapshot } = reconcile(recordingId, record, [{ start: 100, end: 5_000 }], 9_000, newId)
    expect(snapshot.open).toMatchObject({ startMs: 6_000, cause: "camera_offline" })
    expect(snapshot.gaps.at(-1)).toMatchObject({ startMs: 5_000, endMs: 6_000, cause: "node_down" })
  })

  it("believes the footage where the log missed the end of a gap", () => {
    const record = { since: 0, gaps: [], open: gap(0, null, "starting") }
    const { snapshot } = reconcile(recordingId, record, [{ start: 300, end: 5_000 }], 9_000, newId)
    expect(snapshot.gaps).toMatchObject([{ startMs: 0, endMs: 300, cause: "starting" }])
    expect(snapshot.open).toMatchObject({ startMs: 5_000, cause: "node_down" })
  })

  it("tells of footage that is gone from the middle, and not of what retention took from the front", () => {
    const { snapshot } = reconcile(
      recordingId,
      { since: 0, gaps: [], open: null },
      [{ start: 4_000, end: 5_000 }, { start: 6_000, end: 9_000 }],
      9_000,
      newId,
    )
    expect(snapshot.gaps.map((g) => [g.startMs, g.endMs, g.cause])).toEqual([[5_000, 6_000, "segment_missing"]])
    expect(snapshot.open).toBe(null)
    expect(snapshot.mark).toBe(9_000)
  })

  it("explains nothing that was not expected", () => {
    const { snapshot } = reconcile(
      recordingId,
      { since: null, gaps: [], open: null },
      [{ start: 0, end: 500 }],
      9_000,
      newId,
    )
    expect(snapshot).toMatchObject({ since: null, open: null, gaps: [] })
  })

  it("reads its lines: the newest about a gap counts, one without length is none, a torn one is skipped", () => {
    const lines = [
      JSON.stringify({ _tag: "Expected", at: 10 }),
      JSON.stringify({ _tag: "GapOpened", gap: { ...gap(10, null, "starting"), id: "a" } }),
      JSON.stringify({ _tag: "GapClosed", gap: { ...gap(10, 20, "starting"), id: "a" } }),
      JSON.stringify({ _tag: "GapClosed", gap: { ...gap(30, 30, "packet_loss"), id: "b" } }),
      "{ not JSON",
    ]
    expect(readLedger(lines)).toMatchObject({ since: 10, open: null, gaps: [{ id: "a", startMs: 10, endMs: 20 }] })
    expect(encodeLine("{}")).toMatch(/^[0-9a-f]{8} \{\}\n$/)
  })

  it("lets go of what came from another node, and takes over its causes, a millisecond like the next", () => {
    const wordless = ["node_down", "takeover", "starting"]
    for (let seed = 1; seed <= 60; seed++) {
      const random = randomFrom(seed)
      const upTo = (n: number) => Math.floor(random() * n)
      const ledger = newLedger()
      const told: Array<LedgerChange> = [...ledger.expect(0, "starting", "")]
      let now = 0
      for (let step = 0; step < 12; step++) {
        now += upTo(30)
        if (upTo(2) === 0) {
          told.push(...ledger.missing(upTo(2) === 0 ? "node_down" : causes[upTo(causes.length)]!, "", now))
        } else {
          told.push(...ledger.resume(now, "packet_loss", ""))
          now += 1 + upTo(30)
          ledger.extend(now)
        }
      }
      const causesAt = () =>
        Array.from({ length: now }, (_, t) => ledger.between({ start: t, end: t + 1 }).map((gap) => gap.cause))
      const before = causesAt()
      const spans: Array<{ start: number; end: number }> = []
      for (let at = upTo(40); at < now - 10; at += 10 + upTo(60)) spans.push({ start: at, end: at + 1 + upTo(9) })
      told.push(...ledger.cover(spans))
      const covered = causesAt()
      const words = spans.map(({ end }, i) => ({
        start: end,
        end: Math.min(now, end + 1 + (i % 7)),
        cause: (["auth_failed", "node_down"] as const)[i % 2]!,
        detail: "there",
      })).filter(({ end, start }) => end > start)
      told.push(...ledger.explain(words))
      const after = causesAt()
      for (let t = 0; t < now; t++) {
        const within = ({ end, start }: { start: number; end: number }) => start <= t && t < end
        const left = spans.some(within) ? [] : before[t]!
        expect(covered[t], `seed ${seed} at ${t}`).toEqual(left)
        const word = words.find(within)
        const cause = left[0]
        const said = word !== undefined && cause !== undefined && wordless.includes(cause) ? [word.cause] : left
        expect(after[t], `seed ${seed} at ${t}`).toEqual(said)
      }
      // What was written down says the same, and the ledger goes on.
      const record = readLedger(told.map((change) => JSON.stringify(change)))
      const key = ({ cause, endMs, startMs }: LedgerGap) => `${startMs} ${endMs} ${cause}`
      const { gaps, mark, open } = ledger.snapshot()
      expect(record.gaps.map(key).sort()).toEqual(gaps.map(key).sort())
      expect(record.open).toEqual(open)
      if (open !== null) expect(mark).toBe(open.startMs)
      expect(ledger.cover(spans)).toEqual([])
      ledger.resume(now + 5, "packet_loss", "")
      expect(ledger.snapshot().open).toBe(null)
    }
  })

  it("leaves no sliver beside another gap unexplained", () => {
    let id = 0
    const make = () => makeLedger({ recordingId, toleranceMs: 10, maxGaps: 100, newId: () => `g${id++}` })
    const told = (ledger: Ledger) => ledger.snapshot().gaps.map(({ cause, endMs, startMs }) => [startMs, endMs, cause])
    const twoCauses = () => {
      const ledger = make()
      ledger.expect(0, "starting", "")
      ledger.resume(1_000, "starting", "")
      ledger.extend(74_000)
      ledger.missing("node_down", "", 74_000)
      ledger.missing("camera_offline", "", 80_998)
      return ledger
    }
    const begun = twoCauses()
    begun.cover([{ start: 81_000, end: 90_000 }])
    begun.resume(95_000, "packet_loss", "")
    expect(told(begun)).toEqual([
      [0, 1_000, "starting"],
      [74_000, 80_998, "node_down"],
      [80_998, 81_000, "camera_offline"],
      [90_000, 95_000, "camera_offline"],
    ])
    const ended = twoCauses()
    ended.resume(95_000, "packet_loss", "")
    ended.cover([{ start: 75_000, end: 80_990 }])
    ended.cover([{ start: 74_000, end: 75_000 }])
    expect(told(ended).slice(1)).toEqual([[80_990, 80_998, "node_down"], [80_998, 95_000, "camera_offline"]])
    const brief = twoCauses()
    brief.resume(81_003, "packet_loss", "")
    expect(told(brief).slice(1)).toEqual([[74_000, 80_998, "node_down"], [80_998, 81_003, "camera_offline"]])
    const rounded = twoCauses()
    rounded.resume(95_000, "packet_loss", "")
    // Footage lies on both sides of what is left.
    rounded.cover([{ start: 73_000, end: 80_990 }, { start: 80_994, end: 85_000 }, { start: 85_009, end: 95_000 }])
    expect(told(rounded).slice(1)).toEqual([])
  })
})
