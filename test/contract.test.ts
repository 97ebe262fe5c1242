/**
 * The served OpenAPI document against the contract's table.
 *
 * `contract/endpoints.tsv` lists every operation of the platform; `contract/missing.tsv` those that are not there yet. The
 * latter only shrinks: this test fails when a listed one exists and when one that is not listed is absent.
 */
import { Access, AccessControl, Conventions } from "#http/contract/access.ts"
import { Api } from "#http/contract/api.ts"
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Option } from "effect"
import { HttpApi } from "effect/http-api"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { json, webHandler } from "./http-fixtures.ts"

const lines = (name: string) =>
  readFileSync(join(import.meta.dirname, "contract", name), "utf8").trim().split("\n").slice(1).map((line) => {
    const [service = "", method = "", path = "", purpose = ""] = line.split("\t")
    return { service, method, path, purpose }
  })

/** Names of parameters do not matter to a caller; their places do. */
const keyOf = (method: string, path: string) => `${method.toUpperCase()} ${path.replace(/\{[^}]+\}/g, "{}")}`

const table = new Map(lines("endpoints.tsv").map((line) => [keyOf(line.method, line.path), line]))
const missing = new Set(lines("missing.tsv").map((line) => keyOf(line.method, line.path)))

const served = Effect.gen(function*() {
  const call = yield* webHandler()
  const document = (yield* json(yield* call("/openapi.json"))) as unknown as {
    readonly paths: Record<string, Record<string, Record<string, unknown>>>
  }
  return Object.entries(document.paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, operation]) => ({ key: keyOf(method, path), path, operation }))
  )
})

describe("the contract", () => {
  it("has a table whose lines are all different, and a list of missing ones within it", () => {
    assert.strictEqual(table.size, lines("endpoints.tsv").length)
    assert.deepStrictEqual([...missing].filter((key) => !table.has(key)), [])
    assert.strictEqual(missing.size, lines("missing.tsv").length)
  })

  it("lacks nothing of identity, access, licence and notification but the pairing of nodes, which comes with the federation", () => {
    const whole = new Set(["auth", "permission", "license", "notification"])
    const absent = lines("missing.tsv").filter((line) => whole.has(line.service))
    assert.deepStrictEqual(absent.filter(({ path }) => !path.startsWith("/auth/api/v1/federation/")), [])
  })

  it.effect("is served but for what is listed as missing", () =>
    Effect.gen(function*() {
      const there = new Set((yield* served).map((operation) => operation.key))
      assert.deepStrictEqual(
        [...table.keys()].filter((key) => !there.has(key) && !missing.has(key)),
        [],
        "absent, not listed",
      )
      assert.deepStrictEqual([...missing].filter((key) => there.has(key)), [], "listed as missing, but there")
    }))

  it.effect("marks every operation outside of the table, and none within", () =>
    Effect.gen(function*() {
      const wrong = (yield* served).filter(({ key, operation }) =>
        table.has(key) === (operation["x-nightjar-extension"] === true)
      )
      assert.deepStrictEqual(wrong.map(({ key }) => key), [])
    }))

  it.effect("names parameters as the table does", () =>
    Effect.gen(function*() {
      const wrong = (yield* served).filter(({ key, path }) => table.has(key) && table.get(key)!.path !== path)
      assert.deepStrictEqual(wrong.map(({ path }) => path), [])
    }))

  it.effect("says of every operation what it is for and who may call it", () =>
    Effect.gen(function*() {
      const silent = (yield* served).filter(({ operation }) =>
        typeof operation["summary"] !== "string" || operation["x-nightjar-permission"] === "denied"
      )
      assert.deepStrictEqual(silent.map(({ key }) => key), [])
    }))

  it("guards every endpoint, access outermost", () => {
    const open: Array<string> = []
    HttpApi.reflect(Api, {
      onGroup: () => {},
      onEndpoint: ({ endpoint, mergedAnnotations }) => {
        const guards = [...endpoint.middlewares]
        const guarded = guards.at(-1) === AccessControl && guards.includes(Conventions as never)
        if (!guarded || Option.isNone(Context.getOption(mergedAnnotations, Access))) open.push(endpoint.path)
      },
    })
    assert.deepStrictEqual(open, [])
  })
})
