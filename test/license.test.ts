/** The licence without a database: its states, the hardware it is bound to, the vendor's signatures, what stays forbidden to send to. */
import { makeHardware } from "#actors/behaviour/license-hardware.ts"
import { openLicense, openStatement, readVendorKeys } from "#actors/behaviour/license-keys.ts"
import { isForbiddenAddress, post } from "#actors/channels/outbound.ts"
import { HardwareFacts } from "#actors/protocol/license.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import { readSettings } from "#ops/config.ts"
import { NodeId } from "#schema/common.ts"
import {
  byAnything,
  byTime,
  clockToleranceMs,
  type InstalledFacts,
  judge,
  jumpBelievedMs,
  type LicenseFacts,
  matchHardware,
  timeSeen,
} from "#schema/license-state.ts"
import { HardwareId, LicenseClaims, type LicenseState, licenseStates } from "#schema/license.ts"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Layer, Logger, Schema } from "effect"
import { createHmac, generateKeyPairSync } from "node:crypto"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { createServer } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { claims as payload, dayMs, sign, vendorKey } from "./license-vendor.ts"

const nowMs = Date.parse("2026-11-21T12:00:00Z")
const node = NodeId.make("0190163d-8694-7395-8ad4-5b8a3f3d0a01")
const decode = Schema.decodeUnknownSync(LicenseClaims)
const genuine = (change: Record<string, unknown> = {}, more: Partial<InstalledFacts> = {}): InstalledFacts => ({
  genuine: true,
  claims: decode(payload(nowMs, change)),
  mode: "offline",
  hardware: null,
  vendor: "active",
  confirmedAtMs: nowMs,
  ...more,
} as InstalledFacts)
const facts = (installed: InstalledFacts | null, more: Partial<LicenseFacts> = {}): LicenseFacts => ({
  installed,
  keyRegistered: false,
  released: false,
  highWaterMs: 0,
  ...more,
})
const stateAt = (of: LicenseFacts, atMs: number) => judge(of, atMs).state
const end = nowMs + 365 * dayMs

describe("the state of a licence", () => {
  it("is what is known of it", () => {
    const cases: ReadonlyArray<readonly [LicenseFacts, number, LicenseState]> = [
      [facts(null), nowMs, "none"],
      [facts(null, { released: true }), nowMs, "released"],
      [facts(null, { keyRegistered: true, released: true }), nowMs, "pendingActivation"],
      [facts(genuine()), nowMs - 2 * dayMs, "pendingActivation"],
      [facts(genuine()), nowMs, "valid"],
      [facts(genuine({ notAfter: null })), nowMs + 10_000 * dayMs, "valid"],
      [facts(genuine()), end - 30 * dayMs - 1, "valid"],
      [facts(genuine()), end - 30 * dayMs, "expiring"],
      [facts(genuine()), end - 1, "expiring"],
      [facts(genuine()), end, "grace"],
      [facts(genuine()), end + 7 * dayMs - 1, "grace"],
      [facts(genuine()), end + 7 * dayMs, "expired"],
      [facts(genuine({ graceDays: 0 })), end, "expired"],
      [facts(genuine({ verifyDays: 7 })), nowMs + 7 * dayMs - 1, "valid"],
      [facts(genuine({ verifyDays: 7 })), nowMs + 7 * dayMs, "grace"],
      [facts(genuine({ verifyDays: 7 })), nowMs + 14 * dayMs, "restricted"],
      [facts(genuine({}, { vendor: "suspended" })), nowMs, "restricted"],
      [facts(genuine({}, { vendor: "revoked" })), nowMs, "invalid"],
      [facts({ genuine: false, detail: "forged" }), nowMs, "invalid"],
      [
        facts(genuine({}, { hardware: { matches: false, matching: 1, named: 3, needed: 2, nodeId: node } })),
        nowMs,
        "invalid",
      ],
      [facts(genuine(), { highWaterMs: nowMs + clockToleranceMs }), nowMs, "valid"],
      [facts(genuine(), { highWaterMs: nowMs + clockToleranceMs + 1 }), nowMs, "restricted"],
    ]
    for (const [of, atMs, expected] of cases) assert.strictEqual(stateAt(of, atMs), expected, judge(of, atMs).reason)
    assert.deepStrictEqual(new Set(cases.map(([, , state]) => state)), new Set(licenseStates))
  })

  it("gains no day by a clock that is set back", () => {
    const over = facts(genuine(), { highWaterMs: end + 8 * dayMs })
    assert.strictEqual(stateAt(over, nowMs), "expired")
    const noticed = judge(facts(genuine(), { highWaterMs: nowMs + dayMs }), nowMs)
    assert.isTrue(noticed.setBack && noticed.restricted)
    // Nobody is restricted by a clock where there is no licence.
    assert.isFalse(judge(facts(null, { highWaterMs: nowMs + dayMs }), nowMs).restricted)
  })

  const between = (minimum: number, maximum: number) => Schema.Int.check(Schema.isBetween({ minimum, maximum }))
  const Day = between(-500, 1500)
  /** What is drawn to make facts of, in days from now. */
  const Drawn = Schema.Struct({
    kind: Schema.Literals(["nothing", "forged", "genuine", "genuine", "genuine"]),
    begins: Day,
    lasts: Schema.NullOr(between(1, 1000)),
    graceDays: between(0, 60),
    verifyDays: Schema.NullOr(between(1, 366)),
    confirmed: Day,
    vendor: Schema.Literals(["active", "active", "suspended", "revoked"]),
    strange: Schema.Literals([false, false, false, true]),
    keyRegistered: Schema.Boolean,
    released: Schema.Boolean,
    highWater: Day,
  })
  const factsOf = (drawn: typeof Drawn.Type): LicenseFacts => {
    const { begins, graceDays, lasts, verifyDays } = drawn
    const text = (day: number) => new Date(nowMs + day * dayMs).toISOString()
    const dates = { notBefore: text(begins), notAfter: lasts === null ? null : text(begins + lasts) }
    return {
      installed: drawn.kind === "nothing" ?
        null :
        drawn.kind === "forged" ?
        { genuine: false, detail: "forged" } :
        genuine({ ...dates, graceDays, verifyDays }, {
          vendor: drawn.vendor,
          confirmedAtMs: nowMs + drawn.confirmed * dayMs,
          hardware: { matches: !drawn.strange, matching: drawn.strange ? 1 : 2, named: 3, needed: 2, nodeId: node },
        }),
      keyRegistered: drawn.keyRegistered,
      released: drawn.released,
      highWaterMs: nowMs + drawn.highWater * dayMs,
    }
  }
  const many = { arbitrary: { runs: 1000 } }

  it.prop(
    "changes by time only as stated, and never back",
    [Drawn, Schema.Array(between(0, 200))],
    ([drawn, steps]) => {
      const of = factsOf(drawn)
      let atMs = of.highWaterMs
      let before = stateAt(of, atMs)
      for (const step of steps) {
        atMs += step * dayMs
        const after = stateAt(of, atMs)
        assert.isTrue(after === before || byTime[before].includes(after), `${before} became ${after}`)
        before = after
      }
    },
    many,
  )

  it.prop("changes by anything else only as stated", [Drawn, Drawn, Day, Day], ([from, to, day, later]) => {
    const before = stateAt(factsOf(from), nowMs + day * dayMs)
    const after = stateAt(factsOf(to), nowMs + later * dayMs)
    // What the service never does: give back what is not there, install what is over, revoked, forged or of another machine,
    // forget that something was given back.
    const nothing = before === "none" || before === "released"
    if (after === "none" || (nothing && ["expired", "invalid", "released"].includes(after))) return
    assert.isTrue(after === before || byAnything[before].includes(after), `${before} to ${after}`)
  }, many)

  it.prop("restricts exactly in the three states that say so, and tells until when there is grace", [Drawn, Day], ([
    drawn,
    day,
  ]) => {
    const of = factsOf(drawn)
    const judged = judge(of, nowMs + day * dayMs)
    assert.strictEqual(judged.restricted, ["restricted", "expired", "invalid"].includes(judged.state))
    assert.strictEqual(judged.graceUntilMs !== null, judged.state === "grace")
    assert.isNotEmpty(judged.reason)
    if (judged.graceUntilMs === null) return
    // At the end of the grace it is over, and not before.
    assert.isTrue(judge(of, judged.graceUntilMs).restricted)
    assert.strictEqual(stateAt({ ...of, highWaterMs: 0 }, judged.graceUntilMs - 1), "grace")
  }, many)
})

describe("the latest time that was seen", () => {
  it("moves on with the clock, stays when it goes back, and believes a leap only when it lasts", () => {
    let seen = timeSeen({ highWaterMs: nowMs, jumpSinceSteadyMs: null }, nowMs + 60_000, 0)
    assert.strictEqual(seen.highWaterMs, nowMs + 60_000)
    assert.strictEqual(timeSeen(seen, nowMs - 90 * dayMs, 0).highWaterMs, nowMs + 60_000)
    const future = nowMs + 20_000 * dayMs
    seen = timeSeen(seen, future, 1000)
    assert.strictEqual(seen.highWaterMs, nowMs + 60_000)
    // The clock was put right again: the leap is forgotten.
    const right = timeSeen(seen, nowMs + 120_000, 61_000)
    assert.deepStrictEqual(right, { highWaterMs: nowMs + 120_000, jumpSinceSteadyMs: null })
    seen = timeSeen(seen, future + jumpBelievedMs - 1, 1000 + jumpBelievedMs - 1)
    assert.strictEqual(seen.highWaterMs, nowMs + 60_000)
    seen = timeSeen(seen, future + jumpBelievedMs, 1000 + jumpBelievedMs)
    assert.strictEqual(seen.highWaterMs, future + jumpBelievedMs)
  })

  it.prop("never goes back by itself", [
    Schema.Array(Schema.Tuple([
      Schema.Int.check(Schema.isBetween({ minimum: -1e12, maximum: 1e12 })),
      Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 1e7 })),
    ])),
  ], ([steps]) => {
    let seen = { highWaterMs: nowMs, jumpSinceSteadyMs: null as number | null }
    let steady = 0
    for (const [offset, passed] of steps) {
      steady += passed
      const next = timeSeen(seen, nowMs + offset, steady)
      assert.isAtLeast(next.highWaterMs, seen.highWaterMs)
      seen = next
    }
  })
})

describe("the hardware", () => {
  it("is the same machine as long as more than half of what the licence names is", () => {
    const licensed = "nj1.m:aa.b:bb.e:cc+dd.n:ee"
    const cases: ReadonlyArray<readonly [string, boolean, number]> = [
      ["nj1.m:aa.b:bb.e:cc+dd.n:ee", true, 4],
      ["nj1.m:aa.b:bb.e:dd+zz.n:ee", true, 4],
      ["nj1.m:zz.b:bb.e:cc.n:ee", true, 3],
      ["nj1.m:aa.n:ee", false, 2],
      ["nj1", false, 0],
    ]
    for (const [own, matches, matching] of cases) {
      assert.deepStrictEqual(matchHardware(licensed, own), { matches, matching, named: 4, needed: 3 })
    }
    assert.deepStrictEqual(matchHardware("nj1.n:ee", "nj1.m:aa.n:ee"), {
      matches: true,
      matching: 1,
      named: 1,
      needed: 1,
    })
  })

  const hardware = (values: Record<"machine" | "board" | "network", ReadonlyArray<string>>) =>
    Effect.flatten(makeHardware).pipe(
      Effect.provideService(HardwareFacts, {
        read: Effect.succeed(
          (["machine", "board", "network"] as const).map((name) => ({ name, values: values[name], detail: "told" })),
        ),
      }),
      Effect.provideService(NodeIdentity, { nodeId: node } as NodeIdentity["Service"]),
    )

  it.effect("is told hashed, in a fixed order, with what is missing named", () =>
    Effect.gen(function*() {
      const values = { machine: ["3f6c0e7e2a"], board: [], network: ["52:54:00:aa:bb:cc", "52:54:00:aa:bb:dd"] }
      const one = yield* hardware(values)
      const other = yield* hardware({ ...values, network: values.network.toReversed() })
      assert.strictEqual(one.hardwareId, other.hardwareId)
      assert.isTrue(Schema.is(HardwareId)(one.hardwareId), one.hardwareId)
      assert.deepStrictEqual(one.sources.map(({ available, name }) => [name, available]), [
        ["machine", true],
        ["board", false],
        ["network", true],
        ["node", true],
      ])
      for (const secret of [...values.machine, ...values.network, "aabbcc"]) {
        assert.notInclude(JSON.stringify(one), secret)
      }
      const moved = yield* hardware({ ...values, network: ["52:54:00:aa:bb:dd"] })
      assert.isTrue(matchHardware(one.hardwareId, moved.hardwareId).matches)
    }))
})

describe("the vendor's signature", () => {
  const rejection = (text: string, keys: Parameters<typeof openLicense>[1]) =>
    Effect.map(Effect.flip(openLicense(text, keys)), ({ reason }) => reason)

  const keysIn = (jwks: unknown) =>
    Effect.gen(function*() {
      const folder = mkdtempSync(join(tmpdir(), "nightjar-license-"))
      yield* Effect.addFinalizer(() => Effect.sync(() => rmSync(folder, { recursive: true, force: true })))
      writeFileSync(join(folder, "keys.json"), typeof jwks === "string" ? jwks : JSON.stringify(jwks))
      return yield* readVendorKeys(join(folder, "keys.json"))
    }).pipe(Effect.scoped, Effect.provide(Layer.mergeAll(NodeFileSystem.layer, Logger.layer([]))))

  it.effect("is checked with trusted keys, one algorithm and one type", () =>
    Effect.gen(function*() {
      const key = yield* vendorKey("2026")
      const stranger = yield* vendorKey("2026")
      const unknown = yield* vendorKey("other")
      const keys = yield* keysIn({ keys: [key.jwk] })
      const good = yield* sign(key, payload(nowMs))
      assert.strictEqual((yield* openLicense(`\n${good}\n`, keys)).licenseId, "L-1")
      const [head, body, signature] = good.split(".") as [string, string, string]
      const other = Buffer.from(JSON.stringify(payload(nowMs, { channels: 1000 }))).toString("base64url")
      const encode = (json: unknown) => Buffer.from(JSON.stringify(json)).toString("base64url")
      const typ = "nightjar-license+jws"
      const none = `${encode({ alg: "none", typ, kid: "2026" })}.${body}.`
      // The public key as a shared secret: algorithm confusion.
      const hmacHead = encode({ alg: "HS256", typ, kid: "2026" })
      const mac = createHmac("sha256", Buffer.from(String(key.jwk["x"]), "base64url")).update(`${hmacHead}.${body}`)
      const cases: ReadonlyArray<readonly [string, string]> = [
        [yield* sign(stranger, payload(nowMs)), "forged"],
        [yield* sign(unknown, payload(nowMs)), "unknownKey"],
        [yield* sign(key, payload(nowMs), { typ: "nightjar-license-statement+jws" }), "forged"],
        [yield* sign(key, payload(nowMs), { typ: "JWT" }), "forged"],
        [`${head}.${other}.${signature}`, "forged"],
        [none, "forged"],
        [`${hmacHead}.${body}.${mac.digest("base64url")}`, "forged"],
        ["not a licence", "malformed"],
        [yield* sign(key, { licenseId: "L-1" }), "malformed"],
        [yield* sign(key, payload(nowMs, { notAfter: "1999-01-01T00:00:00Z" })), "malformed"],
        [yield* sign(key, payload(nowMs, { hardwareId: "nj2.m:aa" })), "malformed"],
      ]
      for (const [text, reason] of cases) assert.strictEqual(yield* rejection(text, keys), reason, text)
      // A licence does not pass for a statement.
      assert.strictEqual((yield* Effect.flip(openStatement(good, keys))).reason, "forged")
    }))

  it.effect("trusts nobody where the key set is missing or no key set", () =>
    Effect.gen(function*() {
      const key = yield* vendorKey("2026")
      const text = yield* sign(key, payload(nowMs))
      const private_ = generateKeyPairSync("rsa", { modulusLength: 2048 }).publicKey.export({ format: "jwk" })
      for (const jwks of ["", "{", { keys: [{ ...private_, kid: "2026" }] }, { keys: [{ kid: "2026" }] }]) {
        const keys = yield* keysIn(jwks)
        assert.strictEqual(keys.size, 0)
        assert.strictEqual(yield* rejection(text, keys), "unknownKey")
      }
    }))
})

describe("what is sent to somebody else's server", () => {
  it("never goes to link-local, multicast or unspecified addresses, and may stay in the house", () => {
    for (
      const address of [
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "fe80::1",
        "fd00:ec2::254",
        "0.0.0.0",
        "224.0.0.1",
        "::",
        "x",
      ]
    ) assert.isTrue(isForbiddenAddress(address), address)
    for (const address of ["127.0.0.1", "192.168.1.2", "10.0.0.1", "fd12::1", "::1", "203.0.113.7"]) {
      assert.isFalse(isForbiddenAddress(address), address)
    }
  })

  it.live("ends in time, follows no redirect, reads no more than it may", () =>
    Effect.gen(function*() {
      const server = createServer((request, response) => {
        if (request.url === "/silent") return
        if (request.url === "/moved") return void response.writeHead(307, { location: "/long" }).end()
        response.end("x".repeat(100_000))
      })
      yield* Effect.acquireRelease(
        Effect.promise(() => new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))),
        () =>
          Effect.promise(() => {
            server.closeAllConnections()
            return new Promise<void>((resolve) => server.close(() => resolve()))
          }),
      )
      const address = server.address()
      const base = `http://127.0.0.1:${typeof address === "object" ? address?.port : 0}`
      const to = (url: string, timeoutMs = 5000) =>
        post({ url: new URL(url), headers: {}, body: "{}", timeoutMs, maxAnswerBytes: 1000 })
      const long = yield* to(`${base}/long`)
      assert.deepStrictEqual([long.status, long.body.length, long.cut], [200, 1000, true])
      assert.strictEqual((yield* to(`${base}/moved`)).status, 307)
      assert.strictEqual((yield* Effect.flip(to(`${base}/silent`, 100))).reason, "timeout")
      assert.strictEqual((yield* Effect.flip(to("http://169.254.169.254/latest"))).reason, "forbidden")
      assert.strictEqual((yield* Effect.flip(to(`https://127.0.0.1:${new URL(base).port}/`))).reason, "certificate")
      assert.strictEqual((yield* Effect.flip(to("http://127.0.0.1:1/"))).reason, "connection")
    }).pipe(Effect.scoped))

  it.effect("is only said in the clear to this machine", () =>
    Effect.gen(function*() {
      for (const server of ["http://licence.example", "ftp://127.0.0.1", "https://user@licence.example", "nonsense"]) {
        assert.isTrue(Exit.isFailure(yield* Effect.exit(readSettings({ NIGHTJAR_LICENSE_SERVER: server }))), server)
      }
      for (const server of ["", "https://licence.example/path", "http://127.0.0.1:8081", "http://[::1]:8081"]) {
        assert.isTrue(Exit.isSuccess(yield* Effect.exit(readSettings({ NIGHTJAR_LICENSE_SERVER: server }))), server)
      }
    }))
})
