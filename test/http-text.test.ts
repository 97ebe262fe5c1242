/** Texts that no service can keep are refused at the door. */
import { unkeptTexts } from "#http/handlers/http-text.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { json, webHandler } from "./http-fixtures.ts"

describe("texts that cannot be kept", () => {
  it("are found wherever they are, in names too, and told by their place", () => {
    assert.deepStrictEqual(unkeptTexts("{\"a\":{\"b/c\":[\"x\",\"\\u0000\"]}}"), ["/a/b~1c/1"])
    assert.deepStrictEqual(unkeptTexts("\"\\ud800\""), [""])
    assert.deepStrictEqual(unkeptTexts("{\"x\\udc00\":1}"), ["/x\uFFFD"])
    assert.deepStrictEqual(unkeptTexts("{\"x\\u0000\":1}"), ["/x\uFFFD"])
  })

  it("are none of those that look alike", () => {
    assert.deepStrictEqual(unkeptTexts("[\"\\\\u0000\", \"\\ud83e\\udd89\", \"\\u0001\", \"🦉\"]"), [])
    assert.deepStrictEqual(unkeptTexts("{\"a\":\"\\u0000\""), [])
  })

  it("do not exhaust anything", () => {
    const deep = `${"[".repeat(200_000)}"\\u0000"${"]".repeat(200_000)}`
    assert.deepStrictEqual(unkeptTexts(deep), ["/0".repeat(32)])
    assert.strictEqual(unkeptTexts(`[${Array.from({ length: 1_000 }, () => "\"\\u0000\"").join()}]`).length, 20)
  })

  it.effect("are a 400 that names them, in a body as in a target", () =>
    Effect.gen(function*() {
      const call = yield* webHandler()
      const body = yield* call("/auth/api/v1/auth/login", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: "{\"username\":\"a\\u0000\",\"password\":\"\\ud800\"}",
      })
      assert.strictEqual(body.status, 400)
      const { code, errors } = yield* json(body)
      assert.strictEqual(code, "bad_request")
      assert.sameMembers((errors as ReadonlyArray<{ pointer: string }>).map(({ pointer }) => pointer), [
        "/payload/username",
        "/payload/password",
      ])
      for (const path of ["/auth/api/v1/users/%00/roles", "/auth/api/v1/users?text=a%00"]) {
        const response = yield* call(path, { token: "admin" })
        assert.strictEqual(response.status, 400)
        assert.strictEqual(response.headers.get("content-type"), "application/problem+json")
      }
    }))
})
