/** The pure parts of record-back: cutting and comparing, seals, receipts, the life of a job, pace. */
import {
  checkedTransferKey,
  makeDataKey,
  makeTransferKeys,
  readReceipt,
  signReceipt,
} from "#actors/behaviour/federation-recordback-keys.ts"
import {
  aged,
  clockOffset,
  coverageOf,
  cutTo,
  type Piece,
  segmentsOf,
  unite,
  verdictOf,
  without,
} from "#cluster/recordback-manifest.ts"
import { makeMeter, take } from "#cluster/recordback-rate.ts"
import { type Bound, nonceBytes, opener, sealedBytes, sealer } from "#cluster/recordback-seal.ts"
import { initialJob, isEnded, type JobEvent, type JobState, step } from "#cluster/recordback.ts"
import { NodeId, RecordingId } from "#schema/common.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted, Schema } from "effect"
import { TestClock } from "effect/testing"
import { generateKeyPairSync, randomBytes } from "node:crypto"

const int = (minimum: number, maximum: number) => Schema.Int.check(Schema.isBetween({ minimum, maximum }))
const Fragment = Schema.Struct({ bytes: int(1, 900), key: Schema.Boolean, hole: int(0, 4), lastsMs: int(1, 1_000) })
const File = Schema.Array(Fragment).check(Schema.isMinLength(1), Schema.isMaxLength(40))

/** Fragments of a file; every so often bytes are missing between two of them. */
const piecesOf = (fragments: typeof File.Type): ReadonlyArray<Piece> => {
  let offset = 100
  let startMs = 1_000
  return fragments.map(({ bytes, hole, key, lastsMs }, i) => {
    offset += hole === 4 ? 7 : 0
    const piece = { startMs, endMs: startMs + lastsMs, offset, bytes, key: key || i === 0 }
    offset += bytes
    startMs += lastsMs
    return piece
  })
}

const Span = Schema.Struct({ start: int(0, 300), length: int(0, 80) })
const Spans = Schema.Array(Span).check(Schema.isMaxLength(8))
const spansOf = (spans: typeof Spans.Type) => spans.map(({ length, start }) => ({ start, end: start + length }))
const holds = (spans: ReadonlyArray<{ readonly start: number; readonly end: number }>, at: number) =>
  spans.some(({ end, start }) => start <= at && at < end)

describe("a manifest", () => {
  it.prop(
    "holds every fragment once, in order, below the bound unless one fragment alone is larger",
    [File],
    ([file]) => {
      const pieces = piecesOf(file)
      const segments = segmentsOf(pieces, { from: 0, to: pieces.length }, 1_000)
      assert.deepStrictEqual(segments.flatMap(({ from, to }) => pieces.slice(from, to)), pieces)
      for (const { from, to } of segments) {
        const run = pieces.slice(from, to)
        const last = run.at(-1)!
        const length = last.offset + last.bytes - run[0]!.offset
        assert.strictEqual(length, run.reduce((sum, { bytes }) => sum + bytes, 0), "its bytes stand together")
        assert.isTrue(length <= 1_000 || run.length === 1)
      }
    },
  )

  it.prop("cut to what is wanted holds all of that, in whole fragments, from where decoding begins", [File, Spans], ([
    file,
    spans,
  ]) => {
    const pieces = piecesOf(file)
    const keep = spansOf(spans).map(({ end, start }) => ({ start: start * 50, end: end * 50 + 1 }))
    const runs = cutTo(pieces, { from: 0, to: pieces.length }, keep)
    const kept = new Set(runs.flatMap(({ from, to }) => Array.from({ length: to - from }, (_, n) => from + n)))
    pieces.forEach((piece, at) => {
      const wanted = keep.some(({ end, start }) => piece.startMs < end && piece.endMs > start)
      if (wanted) assert.isTrue(kept.has(at))
      // One more than wanted only to begin where decoding can.
      if (kept.has(at) && !wanted) assert.isTrue(kept.has(at + 1) && !pieces[at + 1]!.key)
    })
    assert.isTrue(runs.every(({ from, to }) => to > from))
  })

  it.prop("what is covered and what is kept are the segment, and have nothing in common", [Spans, Spans, Span], ([
    files,
    gaps,
    segment,
  ]) => {
    const covered = coverageOf(spansOf(files), spansOf(gaps))
    const [of] = spansOf([{ ...segment, length: segment.length + 1 }])
    const verdict = verdictOf(of!, covered, 0, 0)
    const keep = verdict.state === "wanted" ? [of!] : verdict.state === "cut" ? verdict.keep : []
    for (let at = of!.start; at < of!.end; at++) {
      assert.isFalse(holds(keep, at) && holds(covered, at) && verdict.state === "cut")
      // A hole of a few milliseconds is no footage to be sent for.
      if (!holds(covered, at) && !holds(keep, at)) {
        const hole = without(of!, covered).find((one) => one.start <= at && at < one.end)!
        assert.isAtMost(hole.end - hole.start, 10)
      }
    }
  })

  it("is judged by one clock where two nodes disagree by an hour", () => {
    const hour = 3_600_000
    const { errorMs, offsetMs: shift } = clockOffset(1_000, hour + 1_020, 1_040)
    assert.deepStrictEqual({ shift, errorMs }, { shift: hour, errorMs: 21 })
    assert.strictEqual(aged({ offsetMs: shift, errorMs }, hour).errorMs, 21 + 1_800)
    const ours = unite([{ start: hour + 1_000, end: hour + 5_000 }])
    assert.deepStrictEqual(verdictOf({ start: 1_000, end: 5_000 }, ours, shift, 0), { state: "covered" })
    assert.deepStrictEqual(verdictOf({ start: 1_000, end: 9_000 }, ours, shift, 0), {
      state: "cut",
      keep: [{ start: 5_000, end: 9_000 }],
    })
    assert.deepStrictEqual(clockOffset(1_000, 1_015, 1_040), { offsetMs: 0, errorMs: 0 }, "as equal as can be told")
    assert.deepStrictEqual(
      clockOffset(1_000, 2_000, 3_000),
      { offsetMs: 0, errorMs: 1_001 },
      "too slow an answer to tell",
    )
    // What came of the same file before is told by its own clock.
    const same = [{ start: 6_000, end: 8_000 }]
    assert.deepStrictEqual(verdictOf({ start: 6_000, end: 8_000 }, [], shift, errorMs, same), { state: "covered" })
    assert.deepStrictEqual(verdictOf({ start: 8_000, end: 9_000 }, [], shift, errorMs, same), { state: "wanted" })
    assert.deepStrictEqual(verdictOf({ start: 1_000, end: 9_000 }, ours, shift, 0, same), {
      state: "cut",
      keep: [{ start: 5_000, end: 6_000 }, { start: 8_000, end: 9_000 }],
    })
    // What may be covered and may not is kept.
    assert.deepStrictEqual(verdictOf({ start: 2_000, end: 9_000 }, ours, shift, errorMs), {
      state: "cut",
      keep: [{ start: 5_000 - errorMs, end: 9_000 }],
    })
  })
})

const bound: Bound = {
  recordingId: RecordingId.make("01934b3e-000a-7000-8000-000000000001"),
  epoch: 2,
  sequence: 7,
  startMs: 1_000,
  durationMs: 2_000,
  bytes: 5_000,
  frontBytes: 300,
  sha256: "0".repeat(64),
}
const key = randomBytes(32)
const session = "01934b3e-2000-7000-8000-000000000001"
const plain = randomBytes(bound.frontBytes + bound.bytes)

const sealed = () => {
  const seal = sealer(key, randomBytes(nonceBytes), session, bound)
  return Buffer.concat([seal.head, seal.update(plain.subarray(0, 999)), seal.update(plain.subarray(999)), seal.end()])
}

/** What opens of the sealed bytes in chunks of that length; null where it does not hold. */
const opened = (bytes: Uint8Array, chunk: number, of = bound, id = session, by = key) => {
  const open = opener(by, id, of)
  const parts: Array<Uint8Array> = []
  for (let at = 0; at < bytes.length; at += chunk) {
    const part = open.update(bytes.subarray(at, at + chunk))
    if (part === null) return null
    parts.push(Buffer.from(part))
  }
  return open.end() ? Buffer.concat(parts) : null
}

describe("a sealed segment", () => {
  it.prop("opens whatever chunks it comes in", [int(1, 6_000)], ([chunk]) => {
    const bytes = sealed()
    assert.strictEqual(bytes.length, sealedBytes(bound))
    assert.isTrue(opened(bytes, chunk)?.equals(plain))
  })

  it.prop(
    "does not open where a bit is another, bytes are missing or more come",
    [int(0, 5_327), int(0, 7)],
    ([at, bit]) => {
      const bytes = sealed()
      bytes[at]! ^= 1 << bit
      assert.isNull(opened(bytes, 700))
      const whole = sealed()
      assert.isNull(opened(whole.subarray(0, at), 700))
      assert.isNull(opened(Buffer.concat([whole, Buffer.alloc(1)]), 700))
    },
  )

  it("does not open as another one, of another session, or under another key", () => {
    const bytes = sealed()
    const others: ReadonlyArray<Partial<Bound>> = [
      { recordingId: RecordingId.make("01934b3e-000a-7000-8000-000000000002") },
      { epoch: 3 },
      { sequence: 8 },
      { startMs: 1_001 },
      { durationMs: 1_999 },
      { bytes: 4_999, frontBytes: 301 },
      { sha256: "1".repeat(64) },
    ]
    for (const other of others) assert.isNull(opened(bytes, 4_096, { ...bound, ...other }))
    assert.isNull(opened(bytes, 4_096, bound, "01934b3e-2000-7000-8000-000000000002"))
    assert.isNull(opened(bytes, 4_096, bound, session, randomBytes(32)))
    assert.isTrue(opened(bytes, 4_096)?.equals(plain))
  })
})

const a = NodeId.make("01934b3e-000e-7000-8000-00000000aaaa")
const b = NodeId.make("01934b3e-000e-7000-8000-00000000bbbb")
const reroute = "01934b3e-1000-7000-8000-000000000001"
const signing = () => {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519")
  return { privateKey, publicKey: publicKey.export({ format: "jwk" }).x ?? "" }
}

describe("keys and receipts", () => {
  it.effect("an envelope opens for its reroute and its two nodes only, for as long as its key is valid", () =>
    Effect.gen(function*() {
      const own = signing()
      const keys = makeTransferKeys(a, own.privateKey)
      const told = yield* keys.current
      assert.isNotNull(yield* checkedTransferKey(told, a, own.publicKey))
      assert.isNull(yield* checkedTransferKey(told, b, own.publicKey))
      assert.isNull(yield* checkedTransferKey(told, a, signing().publicKey))
      assert.isNull(yield* checkedTransferKey({ ...told, publicKey: signing().publicKey }, a, own.publicKey))
      const route = { rerouteId: reroute, from: b, to: a }
      const { dataKey, envelope } = yield* makeDataKey(told, route)
      const found = yield* keys.open(told.keyId, envelope, route)
      assert.isTrue(found !== null && found !== "forged" && Redacted.value(dataKey).equals(Redacted.value(found)))
      assert.strictEqual(yield* keys.open(told.keyId, envelope, { ...route, from: a }), "forged")
      assert.strictEqual(yield* keys.open(told.keyId, `${envelope}x`, route), "forged")
      assert.isNull(yield* keys.open(reroute, envelope, route))
      yield* TestClock.adjust("61 minutes")
      const next = yield* keys.current
      assert.notStrictEqual(next.keyId, told.keyId)
      assert.notStrictEqual(yield* keys.open(told.keyId, envelope, route), null, "the one before still opens")
      yield* TestClock.adjust("60 minutes")
      assert.isNull(yield* keys.open(told.keyId, envelope, route))
    }))

  it.effect("a receipt counts by the key of its node, unchanged, and is no transfer key", () =>
    Effect.gen(function*() {
      const own = signing()
      const claims = {
        rerouteId: reroute,
        homeNodeId: a,
        servingNodeId: b,
        recordingId: bound.recordingId,
        epoch: 2,
        sequence: 7,
        sha256: "a".repeat(64),
        state: "stored" as const,
        timeMs: 1,
      }
      const receipt = yield* signReceipt(claims, own.privateKey)
      assert.deepStrictEqual(yield* readReceipt(receipt, own.publicKey), claims)
      assert.isNull(yield* readReceipt(receipt, signing().publicKey))
      const [head, body, signature] = receipt.split(".")
      const forged = Buffer.from(JSON.stringify({ ...claims, sequence: 8 })).toString("base64url")
      assert.isNotNull(body)
      assert.isNull(yield* readReceipt([head, forged, signature].join("."), own.publicKey))
      assert.isNull(yield* readReceipt((yield* makeTransferKeys(a, own.privateKey).current).signature, own.publicKey))
    }))
})

const Happening = Schema.Literals([
  "Planned",
  "KeyFetched",
  "Advanced",
  "Sent",
  "Complete",
  "Left",
  "Lost",
  "Away",
  "Refused",
  "Due",
  "Restarted",
  "Pause",
  "Resume",
  "Retry",
])
const eventOf = (happening: typeof Happening.Type): JobEvent => {
  switch (happening) {
    case "Complete":
      return { _tag: "Verified", left: 0, lost: 0 }
    case "Left":
      return { _tag: "Verified", left: 2, lost: 1 }
    case "Lost":
      return { _tag: "Verified", left: 0, lost: 1 }
    case "Away":
      return { _tag: "Failed", reason: "away", refused: false }
    case "Refused":
      return { _tag: "Failed", reason: "no", refused: true }
    default:
      return { _tag: happening }
  }
}

describe("a job", () => {
  it.prop("ends done only with all of it home, keeps a pause, and goes on from every state", [
    Schema.Array(Happening).check(Schema.isMaxLength(60)),
  ], ([happenings]) => {
    let state: JobState = initialJob
    let nowMs = 0
    for (const happening of happenings) {
      nowMs += 30_000
      const before = state
      const next = step(state, eventOf(happening), nowMs)
      if (next === null) continue
      state = next.state
      if (state.phase === "done" && before.phase !== "done") assert.strictEqual(happening, "Complete")
      if (state.phase === "partial" && before.phase !== "partial") assert.strictEqual(happening, "Lost")
      if (before.phase === "paused" && state.phase !== "paused") assert.strictEqual(happening, "Resume")
      if (state.phase === "retryWait") assert.isAtMost(state.dueMs! - nowMs, 60_000)
      assert.strictEqual(state.dueMs !== null, state.phase === "retryWait")
      assert.strictEqual(next.command === "rest", isEnded(state.phase) || state.phase === "paused")
    }
    // Whatever happened, a person and a working home node bring it to its end.
    const toEnd: ReadonlyArray<typeof Happening.Type> = [
      "Planned",
      "Resume",
      "Retry",
      "Restarted",
      "KeyFetched",
      "Advanced",
      "Sent",
      "Complete",
    ]
    for (const happening of toEnd) state = step(state, eventOf(happening), nowMs)?.state ?? state
    assert.strictEqual(state.phase, "done")
  })

  it("waits without end for a home node that is away, and gives up on one that refuses", () => {
    const tried = (happening: "Away" | "Refused", times: number) => {
      let state = step(initialJob, { _tag: "Planned" }, 0)!.state
      let nowMs = 0
      for (let i = 0; i < times && !isEnded(state.phase); i++) {
        state = step(state, eventOf(happening), nowMs)!.state
        nowMs = state.dueMs ?? nowMs
        state = step(state, { _tag: "Due" }, nowMs)?.state ?? state
      }
      return state.phase
    }
    assert.strictEqual(tried("Away", 10_000), "keyExchange")
    assert.strictEqual(tried("Refused", 20), "failed")
  })
})

describe("the pace", () => {
  it.prop("never lets more go than the rate, and a burst", [
    int(1_000, 100_000),
    Schema.Array(Schema.Struct({ bytes: int(1, 50_000), pauseMs: int(0, 2_000) })).check(Schema.isMaxLength(40)),
  ], ([rate, sends]) => {
    let bucket = { tokens: 0, atMs: 0 }
    let nowMs = 0
    let sent = 0
    for (const { bytes, pauseMs } of sends) {
      nowMs += pauseMs
      const taken = take(bucket, rate, bytes, nowMs)
      bucket = taken.bucket
      nowMs += taken.waitMs
      sent += bytes
      assert.isAtMost(sent, rate * nowMs / 1000 + rate * 0.25 + 1)
    }
    assert.strictEqual(take(bucket, 0, 1e9, nowMs).waitMs, 0)
  })

  it("is shown for the last half minute, in bits", () => {
    const meter = makeMeter()
    assert.isNull(meter.rateBps(0))
    for (let at = 0; at <= 60_000; at += 1_000) meter.add(1_000_000, at)
    assert.approximately(meter.rateBps(60_000)!, 8_000_000, 400_000)
    assert.isNull(meter.rateBps(100_000))
  })
})
