/** The audit log without a database: hashes, texts, the queue's manners, heads on the disk, and what of HTTP becomes an entry. */
import {
  auditSeal,
  canonical,
  canonicalEntry,
  entryOf,
  hashFits,
  linkFacts,
  settleFact,
} from "#actors/behaviour/auth-audit-chain.ts"
import { dayBounds, daysOf } from "#actors/behaviour/auth-audit-days.ts"
import { makeAuditHeads } from "#actors/behaviour/auth-audit-heads.ts"
import { AuditTrail } from "#actors/protocol/auth-audit.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import { csvOf } from "#http/handlers/auth-audit.ts"
import { type AuditFact, auditLimits, type QueuedFact } from "#schema/auth-audit.ts"
import { NodeId } from "#schema/common.ts"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Logger, type Schema } from "effect"
import { generateKeyPairSync } from "node:crypto"
import { readFileSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { auditTrailOf, madeUpFact, temporary } from "./harness/audit-node.ts"
import { canonicalJson } from "./harness/audit-tamper.ts"
import { random } from "./media/random.ts"

const nodeId = NodeId.make("0190163d-8694-7395-8ad4-5b8a3f3d0a01")
const identity = NodeIdentity.of({
  nodeId,
  createdMs: 0,
  signing: { privateKey: generateKeyPairSync("ed25519").privateKey, publicKey: "" },
  transfer: { privateKey: generateKeyPairSync("x25519").privateKey, publicKey: "" },
})
const seal = auditSeal(identity)
const genesis = { sequence: 0, hash: "0".repeat(64) }
const idOf = (n: number) => `0190163d-8694-7395-8ad4-${n.toString(16).padStart(12, "0")}`
const queued = (n: number, fact: AuditFact = madeUpFact(n)): QueuedFact => ({
  ...settleFact(fact),
  id: idOf(n),
  timeMs: 1_700_000_000_000 + n,
  nodeId,
})

describe("canonical JSON (RFC 8785)", () => {
  it("writes numbers as appendix B has them", () => {
    const bits = (hex: string) => Buffer.from(hex, "hex").readDoubleBE()
    const vectors: ReadonlyArray<readonly [string, string]> = [
      ["0000000000000000", "0"],
      ["8000000000000000", "0"],
      ["0000000000000001", "5e-324"],
      ["8000000000000001", "-5e-324"],
      ["7fefffffffffffff", "1.7976931348623157e+308"],
      ["ffefffffffffffff", "-1.7976931348623157e+308"],
      ["4340000000000000", "9007199254740992"],
      ["c340000000000000", "-9007199254740992"],
      ["4430000000000000", "295147905179352830000"],
      ["44b52d02c7e14af5", "9.999999999999997e+22"],
      ["44b52d02c7e14af6", "1e+23"],
      ["44b52d02c7e14af7", "1.0000000000000001e+23"],
      ["444b1ae4d6e2ef4e", "999999999999999700000"],
      ["444b1ae4d6e2ef4f", "999999999999999900000"],
      ["444b1ae4d6e2ef50", "1e+21"],
      ["3eb0c6f7a0b5ed8c", "9.999999999999997e-7"],
      ["3eb0c6f7a0b5ed8d", "0.000001"],
      ["41b3de4355555553", "333333333.3333332"],
      ["41b3de4355555557", "333333333.33333343"],
      ["becbf647612f3696", "-0.0000033333333333333333"],
      ["43143ff3c1cb0959", "1424953923781206.2"],
    ]
    for (const [hex, text] of vectors) assert.strictEqual(canonical(bits(hex)), text, hex)
  })

  it("sorts members by UTF-16 units and escapes as sections 3.2.2 and 3.2.3 show", () => {
    const sorted = JSON.parse(
      "{\"\\u20ac\":\"Euro Sign\",\"\\r\":\"Carriage Return\",\"\\ufb33\":\"Hebrew Letter Dalet With Dagesh\",\"1\":\"One\"," +
        "\"\\ud83d\\ude00\":\"Emoji: Grinning Face\",\"\\u0080\":\"Control\",\"\\u00f6\":\"Latin Small Letter O With Diaeresis\"}",
    ) as object
    assert.deepStrictEqual(Object.values(JSON.parse(canonical(sorted)) as object).length, 7)
    assert.match(
      canonical(sorted),
      /Carriage Return.*One.*Control.*Latin Small Letter O.*Euro Sign.*Emoji: Grinning Face.*Hebrew Letter/,
    )
    const sample: unknown = JSON.parse(
      "{\"numbers\":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001]," +
        "\"string\":\"\\u20ac$\\u000F\\u000aA'\\u0042\\u0022\\u005c\\\\\\\"\\/\",\"literals\":[null,true,false]}",
    )
    assert.strictEqual(
      canonical(sample),
      "{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27]," +
        "\"string\":\"€$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}",
    )
  })
})

describe("a link of the chain", () => {
  it("is hashed over the canonical JSON of what the interface shows, whatever it holds", () => {
    const next = random(7)
    const text = () =>
      Array.from({ length: next(12) }, () => String.fromCharCode(next(4) === 0 ? next(0x10000) : next(128))).join("")
    const value = (depth: number): Schema.Json => {
      const kind = next(depth > 3 ? 4 : 6)
      if (kind === 0) return text()
      if (kind === 1) return (next(2 ** 31) - 2 ** 30) * 10 ** (next(40) - 20)
      if (kind === 2) return next(2) === 0
      if (kind === 3) return null
      const members = Array.from({ length: next(4) }, () => value(depth + 1))
      return kind === 4 ? members : Object.fromEntries(members.map((one) => [text(), one]))
    }
    for (let round = 0; round < 100; round++) {
      const facts = Array.from({ length: 1 + next(4) }, (_, n) =>
        queued(n, {
          ...madeUpFact(next(1000)),
          userAgent: text(),
          detail: { [text()]: value(0), [text()]: value(0) },
        }))
      let { hash: previous } = genesis
      for (const [i, row] of linkFacts(seal)(genesis, facts).entries()) {
        const { hash, time, ...members } = entryOf(row)
        const shown = { ...members, time: new Date(time).toISOString() }
        assert.strictEqual(canonicalEntry(row), canonicalJson(shown))
        assert.strictEqual(canonicalEntry(row), canonical(shown))
        assert.deepStrictEqual([row.sequence, row.previousHash], [i + 1, previous])
        assert.isTrue(hashFits(row) && seal.fits(hash, row.mac))
        previous = hash
      }
    }
  })

  it("is shown though somebody wrote nonsense into its detail", () => {
    const [row] = linkFacts(seal)(genesis, [queued(8)])
    for (const detail of ["{", "[1]", "null", ""]) {
      assert.deepStrictEqual(entryOf({ ...row!, detail }).detail, { unreadable: detail })
    }
  })

  it("does not fit when a member is another, nor under another node's key", () => {
    const [row] = linkFacts(seal)(genesis, [queued(8)])
    assert.isTrue(hashFits(row!))
    for (const [name, value] of Object.entries(row!) as ReadonlyArray<readonly [string, unknown]>) {
      if (name === "mac") continue
      const other = typeof value === "number" ? value + 1 : `${String(value)}0`
      assert.isFalse(hashFits({ ...row!, [name]: other }), name)
    }
    assert.isFalse(hashFits({ ...row!, detail: "not JSON" }))
    assert.isFalse(hashFits({ ...row!, timeMs: Number.MAX_VALUE }))
    const stranger = auditSeal({
      ...identity,
      signing: { privateKey: generateKeyPairSync("ed25519").privateKey, publicKey: "" },
    })
    assert.isFalse(seal.fits(row!.hash, stranger.mac(row!.hash)))
    assert.isFalse(seal.fits(row!.hash, ""))
  })

  it("takes no text that PostgreSQL or canonical JSON would refuse, and none without end", () => {
    const wild: AuditFact = {
      ...madeUpFact(1),
      action: "a".repeat(10_000),
      userAgent: "\u0000\ud800" + "é".repeat(10_000),
      actor: { kind: "user", id: "\udfff", name: "\u0000", sessionId: null },
      detail: { "\u0000": "\ud83d", infinite: Number.POSITIVE_INFINITY, list: ["\u0000"] },
    }
    const settled = settleFact(wild)
    assert.strictEqual(settled.action.length, auditLimits.action)
    assert.strictEqual(settled.userAgent.length, auditLimits.userAgent)
    assert.notInclude(JSON.stringify(settled), "\\u0000")
    assert.notInclude(JSON.stringify(settled), "\\ud83d")
    assert.strictEqual(settled.detail["infinite"], null)
    assert.isTrue(hashFits(linkFacts(seal)(genesis, [queued(1, wild)])[0]!))
    const large = settleFact({ ...wild, detail: { text: Array.from({ length: 50 }, () => "x".repeat(1000)) } })
    assert.match(String(large.detail["omitted"]), /characters/)
  })
})

/** A reader of RFC 4180 of its own. */
const parseCsv = (text: string): ReadonlyArray<ReadonlyArray<string>> => {
  const records: Array<Array<string>> = [[]]
  const field = /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n|$)/y
  while (field.lastIndex < text.length) {
    const match = field.exec(text)
    if (match === null) throw new Error(`not RFC 4180 at ${text.slice(0, 40)}`)
    records.at(-1)!.push(match[1]?.replaceAll("\"\"", "\"") ?? match[2]!)
    if (match[3] === "\r\n") records.push([])
  }
  return records.filter((record) => record.length > 0)
}

describe("the CSV export", () => {
  it("is read back by another reader, and no text of it is a formula", () => {
    const texts = [
      "=1+1",
      "+1",
      "-1",
      "@SUM(A1)",
      "\t=1",
      "\r=1",
      "a,b",
      "say \"so\"",
      "two\r\nlines",
      "\n=1",
      "plain",
      "",
    ]
    assert.deepStrictEqual(
      parseCsv(csvOf([texts, texts.toReversed()])),
      [texts, texts.toReversed()].map((record) => record.map((text) => /^[=+\-@\t\r]/.test(text) ? `'${text}` : text)),
    )
    assert.strictEqual(csvOf([[-5, null]]), "-5,\r\n")
    const next = random(3)
    for (let round = 0; round < 500; round++) {
      const record = Array.from(
        { length: 3 },
        () => Array.from({ length: next(6) }, () => "=+-@\t\r\n\",' aé;"[next(14)]).join(""),
      )
      for (const text of parseCsv(csvOf([record]))[0]!) assert.notMatch(text, /^[=+\-@\t\r]/)
    }
  })
})

describe("days", () => {
  it("are those of the calendar, also where the clocks change", () => {
    const start = Date.parse("2026-03-28T12:00:00Z")
    const { bounds, dates } = dayBounds(start, Date.parse("2026-03-30T12:00:00Z"), "Europe/Berlin")
    assert.deepStrictEqual(dates, ["2026-03-28", "2026-03-29", "2026-03-30"])
    const hours = bounds.slice(1).map((bound, i) => (bound - bounds[i]!) / 3_600_000)
    assert.deepStrictEqual(hours, [24, 23, 24])
    const days = daysOf(dates, [
      { day: 1, outcome: "success", group: "camera", count: 3 },
      { day: 1, outcome: "refused", group: "camera", count: 2 },
    ])
    assert.deepStrictEqual(days.map((day) => day.total), [0, 5, 0])
    assert.deepStrictEqual(days[1], {
      date: "2026-03-29",
      total: 5,
      outcomes: { success: 3, failure: 0, refused: 2 },
      groups: { camera: 5 },
    })
  })
})

/** One life of a trail. */
const trail = <A, E>(folder: string, use: (trail: AuditTrail["Service"]) => Effect.Effect<A, E>, maxBytes?: number) =>
  Effect.flatMap(AuditTrail, use).pipe(Effect.provide(auditTrailOf(folder, maxBytes)), Effect.provide(Logger.layer([])))
/** Everything in its queue. */
const waiting = (one: AuditTrail["Service"]) =>
  Effect.gen(function*() {
    const facts: Array<QueuedFact> = []
    let position = 0
    while (true) {
      const page = yield* one.queue.read(position, 1000)
      if (page.length === 0) return facts
      facts.push(...page.flatMap(({ fact }) => fact === null ? [] : [fact]))
      position = page.at(-1)!.position
    }
  })

describe("the trail", () => {
  it.effect("keeps what was recorded and says of a call that never ended that it did not", () =>
    Effect.gen(function*() {
      const folder = yield* temporary
      yield* trail(folder, (one) =>
        Effect.gen(function*() {
          yield* one.record(madeUpFact(1))
          const ended = yield* one.admit(madeUpFact(2))
          yield* one.admit(madeUpFact(3))
          yield* ended.end({ ...madeUpFact(2), outcome: "failure", status: 409 })
          assert.deepStrictEqual((yield* waiting(one)).map((fact) => fact.status), [200, 409])
          // What is still open is not let go, so that a kill now does not lose it.
          yield* one.queue.acknowledge(Number.MAX_SAFE_INTEGER)
        }))
      yield* trail(folder, (one) =>
        Effect.map(waiting(one), (facts) => {
          const last = facts.at(-1)!
          assert.strictEqual(last.outcome, "failure")
          assert.match(String(last.detail["interrupted"]), /node ended/)
          assert.strictEqual(last.traceId, madeUpFact(3).traceId)
        }))
    }))

  it.effect("admits no change when it is full, keeps the place of what it admitted, and counts what it left out", () =>
    Effect.gen(function*() {
      const folder = yield* temporary
      yield* trail(folder, (one) =>
        Effect.gen(function*() {
          const admitted = yield* one.admit(madeUpFact(1))
          let taken = 0
          while ((yield* Effect.result(one.record(madeUpFact(2))))._tag === "Success") taken++
          assert.isAbove(taken, 10)
          assert.isFalse(one.hasRoom())
          assert.strictEqual((yield* Effect.flip(one.admit(madeUpFact(3))))._tag, "AuditUnavailable")
          yield* one.note(madeUpFact(4))
          assert.strictEqual(one.state().dropped, 2)
          yield* admitted.end(madeUpFact(1))
          assert.strictEqual((yield* waiting(one)).length, taken + 1)
          assert.isAtMost(one.state().queuedBytes, one.state().limitBytes)
          yield* one.queue.acknowledge(Number.MAX_SAFE_INTEGER)
          yield* one.admit(madeUpFact(5))
        }), 100_000)
    }))

  it.effect("lets a flood of refusals in at a measured rate only", () =>
    Effect.gen(function*() {
      const folder = yield* temporary
      yield* trail(folder, (one) =>
        Effect.gen(function*() {
          yield* Effect.all(Array.from({ length: 700 }, () => one.note(madeUpFact(1))), { concurrency: "unbounded" })
          assert.strictEqual((yield* waiting(one)).length, 500)
          assert.strictEqual(one.state().dropped, 200)
          assert.isTrue(one.records("none", "refused"))
          yield* one.configure({ retentionDays: 1, recordRefusals: false, recordSignIns: false, recordViews: false })
          const kinds = ["change", "export", "view", "signIn", "signOut", "none"] as const
          assert.deepStrictEqual(kinds.filter((kind) => one.records(kind, "success")), ["change", "export"])
          assert.deepStrictEqual(kinds.filter((kind) => one.records(kind, "refused")), [])
        }))
    }))
})

describe("signed heads", () => {
  it.effect("believe only what this node signed, forgive a torn end, and stay below their bound", () =>
    Effect.gen(function*() {
      const path = join(yield* temporary, "audit-heads.jsonl")
      const heads = yield* makeAuditHeads({ path, identity })
      assert.deepStrictEqual(yield* heads.read, { heads: [], damaged: 0 })
      yield* heads.sign({ sequence: 1, hash: "a" })
      yield* heads.sign({ sequence: 5, hash: "b" })
      assert.strictEqual(statSync(path).mode & 0o777, 0o600)
      const whole = readFileSync(path, "utf8")
      writeFileSync(path, whole.slice(0, -20))
      const torn = yield* makeAuditHeads({ path, identity })
      assert.deepStrictEqual(yield* torn.read, { heads: [{ sequence: 1, hash: "a" }], damaged: 0 })
      yield* torn.sign({ sequence: 7, hash: "c" })
      assert.deepStrictEqual((yield* torn.read).heads.map((head) => head.sequence), [1, 7])
      const stranger = yield* makeAuditHeads({
        path,
        identity: { ...identity, signing: { privateKey: generateKeyPairSync("ed25519").privateKey, publicKey: "" } },
      })
      assert.deepStrictEqual(yield* stranger.read, { heads: [], damaged: 3 })

      writeFileSync(path, whole.repeat(6000))
      yield* torn.sign({ sequence: 9, hash: "d" })
      assert.isBelow(statSync(path).size, 4 << 20)
      const thinned = yield* torn.read
      assert.deepStrictEqual([thinned.heads[0]?.sequence, thinned.heads.at(-1)?.sequence], [1, 9])
    }).pipe(Effect.provide(NodeFileSystem.layer)))
})
