/** Rules of passwords, what may be given away, throttle subjects, merge patches: pure, without a database. */
import { mustHold } from "#actors/behaviour/auth-guard.ts"
import type { Passwords } from "#actors/behaviour/auth-passwords.ts"
import { brokenRules, checkNewPassword, mustChange, passwordExpiry } from "#actors/behaviour/auth-policy.ts"
import { accountSubject, addressSubject } from "#actors/store/auth-throttle.ts"
import { defaultSecuritySettings, type SecuritySettings } from "#schema/auth-security.ts"
import { depthOf, mergePatch } from "#schema/merge-patch.ts"
import type { Grant } from "#schema/permission.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Redacted } from "effect"
import { principal } from "./http-fixtures.ts"

const rules = (change: Partial<SecuritySettings> = {}): SecuritySettings => ({ ...defaultSecuritySettings, ...change })
const broken = (password: string, username = "ann.lee", settings = rules()) =>
  brokenRules(Redacted.make(password), username, settings)

describe("a new password", () => {
  it("counts characters, not bytes", () => {
    assert.deepStrictEqual(broken("가나다라마바사아자"), ["tooShort"])
    assert.deepStrictEqual(broken("가나다라마바사아자차"), [])
    assert.deepStrictEqual(broken("\u{1F600}".repeat(9)), ["tooShort"])
    assert.deepStrictEqual(broken("\u{1F600}".repeat(10)), [])
    // One character, typed as two.
    assert.deepStrictEqual(broken("e\u0301".repeat(9)), ["tooShort"])
  })

  it("does not contain its user's name, in any case or form", () => {
    assert.deepStrictEqual(broken("my ANN.LEE pass"), ["containsUsername"])
    assert.deepStrictEqual(broken("my ａｎｎ.lee pass"), ["containsUsername"])
    assert.deepStrictEqual(broken("my ANN.LEE pass", "ann.lee", rules({ passwordForbidUsername: false })), [])
    assert.deepStrictEqual(broken("abracadabra", "ab"), [], "two letters are in too many words")
  })

  it("is none that everybody takes", () => {
    assert.deepStrictEqual(broken("1234567890"), ["common"])
    assert.deepStrictEqual(broken("Password123"), ["common"])
    assert.deepStrictEqual(broken("Password123", "ann.lee", rules({ passwordForbidCommon: false })), [])
    assert.deepStrictEqual(broken("password"), ["tooShort", "common"])
  })

  it.effect("is compared with as many of before as the rules say, and only where it is good otherwise", () =>
    Effect.gen(function*() {
      const asked: Array<string | null> = []
      const passwords = {
        hash: () => Effect.succeed(""),
        verify: (given: Redacted.Redacted, hash: string | null) =>
          Effect.sync(() => {
            asked.push(hash)
            return { matches: hash === `hash of ${Redacted.value(given)}`, outdated: false }
          }),
      } satisfies Passwords["Service"]
      const owner = { username: "ann", before: ["hash of current one", "hash of second one", "hash of third one."] }
      const check = (password: string, passwordHistory: number) =>
        Effect.exit(checkNewPassword(passwords, Redacted.make(password), owner, rules({ passwordHistory })))
      assert.isTrue(Exit.isFailure(yield* check("second one", 2)))
      assert.deepStrictEqual(asked.splice(0), owner.before.slice(0, 2))
      assert.isTrue(Exit.isSuccess(yield* check("third one.", 2)))
      assert.isTrue(Exit.isFailure(yield* check("third one.", 3)))
      asked.splice(0)
      assert.isTrue(Exit.isSuccess(yield* check("current one", 0)))
      assert.isTrue(Exit.isFailure(yield* check("short", 3)))
      assert.deepStrictEqual(asked, [])
    }))

  it("ages by days", () => {
    const day = 86_400_000
    assert.isNull(passwordExpiry(5, rules()))
    assert.strictEqual(passwordExpiry(5, rules({ passwordMaxAgeDays: 30 })), 5 + 30 * day)
    const user = { mustChangePassword: false, passwordChangedAt: new Date(0) }
    assert.isFalse(mustChange(user, rules({ passwordMaxAgeDays: 30 }), 30 * day - 1))
    assert.isTrue(mustChange(user, rules({ passwordMaxAgeDays: 30 }), 30 * day))
    assert.isTrue(mustChange({ ...user, mustChangePassword: true }, rules(), 1))
  })
})

describe("giving away", () => {
  const who = (...grants: ReadonlyArray<Grant>) => ({ ...principal("viewer"), grants })
  const all = (...permissions: ReadonlyArray<string>): Grant => ({ role: "r", permissions, resources: "all" })
  const may = (grants: ReadonlyArray<Grant>, ...permissions: ReadonlyArray<string>) =>
    Effect.map(Effect.exit(mustHold(who(...grants), [{ permissions }], "no")), Exit.isSuccess)

  it.effect("takes holding it, everywhere", () =>
    Effect.gen(function*() {
      assert.isTrue(yield* may([all("camera:live"), all("user:write")], "user:write", "camera:live"))
      assert.isFalse(yield* may([all("camera:live")], "camera:live", "user:write"))
      assert.isTrue(yield* may([all("*")], "*", "camera:live"))
      assert.isFalse(yield* may([all("camera:live")], "*"))
      assert.isFalse(yield* may([{ role: "r", permissions: ["*"], resources: new Set() }], "camera:live"), "narrowed")
      assert.isTrue(yield* may([]))
    }))
})

describe("what failures are counted for", () => {
  it("is a name in any form, and an address as its owner holds it", () => {
    assert.strictEqual(accountSubject("Ann"), accountSubject("ａｎｎ"))
    assert.notStrictEqual(accountSubject("Ann"), accountSubject("Anna"))
    assert.isBelow(accountSubject("x".repeat(100_000)).length, 60)
    assert.isNull(addressSubject(""))
    assert.strictEqual(addressSubject("192.0.2.7"), "address:192.0.2.7")
    assert.notStrictEqual(addressSubject("192.0.2.7"), addressSubject("192.0.2.8"))
    // Whoever has one IPv6 address has 2^64.
    assert.strictEqual(addressSubject("2001:db8:1:2::1"), addressSubject("2001:db8:1:2:ffff::9"))
    assert.notStrictEqual(addressSubject("2001:db8:1:2::1"), addressSubject("2001:db8:1:3::1"))
  })
})

describe("a merge patch", () => {
  /** RFC 7396, appendix A. */
  const examples: ReadonlyArray<readonly [target: string, patch: string, result: string]> = [
    ["{\"a\":\"b\"}", "{\"a\":\"c\"}", "{\"a\":\"c\"}"],
    ["{\"a\":\"b\"}", "{\"b\":\"c\"}", "{\"a\":\"b\",\"b\":\"c\"}"],
    ["{\"a\":\"b\"}", "{\"a\":null}", "{}"],
    ["{\"a\":\"b\",\"b\":\"c\"}", "{\"a\":null}", "{\"b\":\"c\"}"],
    ["{\"a\":[\"b\"]}", "{\"a\":\"c\"}", "{\"a\":\"c\"}"],
    ["{\"a\":\"c\"}", "{\"a\":[\"b\"]}", "{\"a\":[\"b\"]}"],
    ["{\"a\":{\"b\":\"c\"}}", "{\"a\":{\"b\":\"d\",\"c\":null}}", "{\"a\":{\"b\":\"d\"}}"],
    ["{\"a\":[{\"b\":\"c\"}]}", "{\"a\":[1]}", "{\"a\":[1]}"],
    ["[\"a\",\"b\"]", "[\"c\",\"d\"]", "[\"c\",\"d\"]"],
    ["{\"a\":\"b\"}", "[\"c\"]", "[\"c\"]"],
    ["{\"a\":\"foo\"}", "null", "null"],
    ["{\"a\":\"foo\"}", "\"bar\"", "\"bar\""],
    ["{\"e\":null}", "{\"a\":1}", "{\"e\":null,\"a\":1}"],
    ["[1,2]", "{\"a\":\"b\",\"c\":null}", "{\"a\":\"b\"}"],
    ["{}", "{\"a\":{\"bb\":{\"ccc\":null}}}", "{\"a\":{\"bb\":{}}}"],
  ]
  it.each(examples)("of %s by %s is %s", (target, patch, result) => {
    assert.deepStrictEqual(mergePatch(JSON.parse(target), JSON.parse(patch)), JSON.parse(result))
  })

  it("takes __proto__ for a name like any other", () => {
    const merged = mergePatch({}, JSON.parse("{\"__proto__\":{\"admin\":true}}")) as Record<string, unknown>
    assert.deepStrictEqual(Object.keys(merged), ["__proto__"])
    assert.isUndefined(merged["admin"])
    assert.isUndefined(({} as Record<string, unknown>)["admin"])
  })

  it("has a depth that is counted without a stack", () => {
    assert.deepStrictEqual([depthOf(1, 9), depthOf({}, 9), depthOf({ a: [1] }, 9)], [0, 1, 2])
    const deep = JSON.parse(`${"[".repeat(400_000)}${"]".repeat(400_000)}`) as unknown
    assert.isAbove(depthOf(deep, 16), 16)
  })
})
