/** What surrounds every request: access, problems, methods, ids, headers, limits, the reference. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { json, text, webHandler } from "./http-fixtures.ts"

const check = "/permission/api/v1/permissions/check"
const post = (body: unknown, headers: Record<string, string> = {}) => ({
  method: "POST",
  body: typeof body === "string" ? body : JSON.stringify(body),
  headers: { "content-type": "application/json", ...headers },
})

describe("access", () => {
  it.effect("asks for a token before it looks at the input", () =>
    Effect.gen(function*() {
      const call = yield* webHandler()
      const response = yield* call(check, post("not json"))
      assert.strictEqual(response.status, 401)
      assert.strictEqual(response.headers.get("www-authenticate"), "Bearer")
      assert.strictEqual(response.headers.get("content-type"), "application/problem+json")
      assert.strictEqual((yield* json(response))["code"], "unauthenticated")
    }))

  it.effect("refuses what no role grants, and says which permission", () =>
    Effect.gen(function*() {
      const call = yield* webHandler()
      const response = yield* call("/permission/api/v1/permissions", { token: "viewer" })
      assert.strictEqual(response.status, 403)
      const problem = yield* json(response)
      assert.strictEqual(problem["code"], "forbidden")
      assert.include(String(problem["detail"]), "permission:read")
    }))

  it.effect("lets in whom a role lets in", () =>
    Effect.gen(function*() {
      const call = yield* webHandler()
      const response = yield* call("/permission/api/v1/permissions", { token: "admin" })
      assert.strictEqual(response.status, 200)
      assert.isAbove(((yield* json(response))["items"] as ReadonlyArray<unknown>).length, 15)
    }))

  it.effect("asks nobody where the endpoint is public", () =>
    Effect.gen(function*() {
      const call = yield* webHandler()
      assert.strictEqual((yield* call("/health")).status, 200)
      assert.strictEqual((yield* call("/.well-known/jwks.json")).status, 200)
      assert.strictEqual((yield* call("/health/detailed")).status, 401)
    }))

  it.effect("decides a permission with reason and role", () =>
    Effect.gen(function*() {
      const call = yield* webHandler()
      const may = yield* json(yield* call(check, { ...post({ permission: "camera:live" }), token: "viewer" }))
      assert.deepStrictEqual(may, { allowed: true, reason: "Granted by viewer", via: ["viewer"] })
      const mayNot = yield* json(yield* call(check, { ...post({ permission: "user:write" }), token: "viewer" }))
      assert.strictEqual(mayNot["allowed"], false)
      assert.deepStrictEqual(mayNot["via"], [])
    }))
})

describe("problems", () => {
  it.effect("points at each fault of the input", () =>
    Effect.gen(function*() {
      const call = yield* webHandler()
      const response = yield* call(check, { ...post({ permission: "camera:fly" }), token: "admin" })
      assert.strictEqual(response.status, 400)
      const problem = yield* json(response)
      assert.strictEqual(problem["code"], "bad_request")
      assert.strictEqual(problem["instance"], check)
      assert.match(String(problem["traceId"]), /^[0-9a-f]{32}$/)
      assert.strictEqual((problem["errors"] as ReadonlyArray<{ pointer: string }>)[0]!.pointer, "/payload/permission")
    }))

  it.effect("tells what is not JSON or of another type", () =>
    Effect.gen(function*() {
      const call = yield* webHandler()
      const broken = yield* call(check, { ...post("{"), token: "admin" })
      assert.strictEqual(broken.status, 400)
      const typed = yield* call(check, { ...post("x", { "content-type": "text/csv" }), token: "admin" })
      assert.strictEqual(typed.status, 415)
      assert.strictEqual((yield* json(typed))["code"], "unsupported_media_type")
    }))

  it.effect("tells an unknown path from a wrong method", () =>
    Effect.gen(function*() {
      const call = yield* webHandler()
      const unknown = yield* call("/camera/api/v1/nothing")
      assert.strictEqual(unknown.status, 404)
      assert.strictEqual((yield* json(unknown))["code"], "not_found")
      const wrong = yield* call("/auth/api/v1/auth/login")
      assert.strictEqual(wrong.status, 405)
      assert.strictEqual(wrong.headers.get("allow"), "POST, OPTIONS")
      assert.strictEqual((yield* json(wrong))["code"], "method_not_allowed")
      assert.strictEqual((yield* call("/health", { method: "DELETE" })).headers.get("allow"), "GET, HEAD, OPTIONS")
    }))

  it.effect("hides what broke", () =>
    Effect.gen(function*() {
      const call = yield* webHandler()
      // The stand-in for the service dies.
      const response = yield* call("/auth/api/v1/auth/login", post({ username: "a", password: "b" }))
      assert.strictEqual(response.status, 500)
      const body = yield* text(response)
      assert.notInclude(body, "Nobody should ask")
      assert.include(body, "\"code\":\"internal_error\"")
    }))
})

describe("every answer", () => {
  it.effect("keeps the caller's trace id, and else makes one", () =>
    Effect.gen(function*() {
      const call = yield* webHandler()
      const traceId = "4bf92f3577b34da6a3ce929d0e0e4736"
      const kept = yield* call("/health", { headers: { traceparent: `00-${traceId}-00f067aa0ba902b7-01` } })
      assert.strictEqual(kept.headers.get("x-trace-id"), traceId)
      assert.match((yield* call("/health")).headers.get("x-trace-id")!, /^[0-9a-f]{32}$/)
    }))

  it.effect("is not to be sniffed, framed or kept", () =>
    Effect.gen(function*() {
      const call = yield* webHandler()
      const { headers } = yield* call("/health")
      assert.strictEqual(headers.get("x-content-type-options"), "nosniff")
      assert.strictEqual(headers.get("content-security-policy"), "default-src 'none'; frame-ancestors 'none'")
      assert.strictEqual(headers.get("cache-control"), "no-store")
      assert.strictEqual(headers.get("content-type"), "application/health+json")
    }))
})

describe("an idempotency key", () => {
  it.effect("gives the first answer again, and refuses another request", () =>
    Effect.gen(function*() {
      const call = yield* webHandler()
      const key = { "idempotency-key": "k-1" }
      const first = yield* call(check, { ...post({ permission: "camera:live" }, key), token: "viewer" })
      assert.isNull(first.headers.get("idempotency-replayed"))
      const again = yield* call(check, { ...post({ permission: "camera:live" }, key), token: "viewer" })
      assert.strictEqual(again.headers.get("idempotency-replayed"), "true")
      assert.deepStrictEqual(yield* json(again), yield* json(first))
      const other = yield* call(check, { ...post({ permission: "camera:read" }, key), token: "viewer" })
      assert.strictEqual(other.status, 409)
      assert.strictEqual((yield* json(other))["code"], "idempotency_conflict")
    }))

  it.effect("is checked", () =>
    Effect.gen(function*() {
      const call = yield* webHandler()
      const long = yield* call(check, {
        ...post({ permission: "camera:live" }, { "idempotency-key": "x".repeat(256) }),
        token: "viewer",
      })
      assert.strictEqual(long.status, 400)
    }))
})

describe("the reference", () => {
  it.effect("is OpenAPI 3.1 with permissions and extensions shown", () =>
    Effect.gen(function*() {
      const call = yield* webHandler()
      const document = (yield* json(yield* call("/openapi.json"))) as unknown as {
        openapi: string
        paths: Record<string, Record<string, Record<string, unknown>>>
      }
      assert.match(document.openapi, /^3\.1\./)
      assert.strictEqual(document.paths["/health"]!["get"]!["x-nightjar-permission"], "public")
      assert.deepStrictEqual(document.paths["/health"]!["get"]!["security"], [])
      assert.strictEqual(document.paths["/metrics"]!["get"]!["x-nightjar-extension"], true)
      assert.deepStrictEqual(document.paths[check]!["post"]!["security"], [{ bearer: [] }])
    }))

  it.effect("is a page that names no other host to load from", () =>
    Effect.gen(function*() {
      const call = yield* webHandler()
      const response = yield* call("/docs")
      assert.strictEqual(response.status, 200)
      const page = yield* text(response)
      assert.notMatch(page.slice(0, 2000), /<(script|link)[^>]+(src|href)=/)
      assert.include(response.headers.get("content-security-policy")!, "default-src 'self'")
      assert.include(yield* text(yield* call("/docs/problems")), "id=\"forbidden\"")
    }))

  it.effect("counts requests by declared path", () =>
    Effect.gen(function*() {
      const call = yield* webHandler()
      yield* call("/health")
      assert.strictEqual((yield* call("/metrics")).status, 401)
      const metrics = yield* text(yield* call("/metrics", { token: "admin" }))
      assert.match(metrics, /nightjar_http_requests_total\{[^}]*route="\/health"[^}]*\} [1-9]/)
    }))
})

describe("the dashboard", () => {
  it.effect("is served at /, for its own routes too, and never for a path of the Api", () =>
    Effect.gen(function*() {
      const folder = yield* Effect.acquireRelease(
        Effect.sync(() => mkdtempSync(join(tmpdir(), "nightjar-web-"))),
        (path) => Effect.sync(() => rmSync(path, { recursive: true })),
      )
      mkdirSync(join(folder, "assets"))
      writeFileSync(join(folder, "index.html"), "<!doctype html><title>Nightjar</title>")
      writeFileSync(join(folder, "assets/app-1a2b.js"), "export {}")
      const call = yield* webHandler({ dashboard: folder })
      const html = { headers: { accept: "text/html" } }
      for (const path of ["/", "/cameras/7"]) {
        const page = yield* call(path, html)
        assert.strictEqual(page.status, 200, path)
        assert.strictEqual(page.headers.get("cache-control"), "no-cache")
        assert.include(page.headers.get("content-security-policy")!, "media-src 'self' blob:")
        const again = yield* call(path, { headers: { ...html.headers, "if-none-match": page.headers.get("etag")! } })
        assert.strictEqual(again.status, 304)
        assert.isNull(again.headers.get("content-security-policy"), "a 304 must not replace the page's policy")
      }
      const asset = yield* call("/assets/app-1a2b.js")
      assert.strictEqual(asset.headers.get("cache-control"), "public, max-age=31536000, immutable")
      const unchanged = yield* call("/assets/app-1a2b.js", { headers: { "if-none-match": asset.headers.get("etag")! } })
      assert.strictEqual(unchanged.status, 304)
      for (
        const path of [
          "/camera/api/v1/nothing",
          "/metrics/x",
          "/docs/nothing",
          "/assets/gone.js",
          "/..%2f..%2fetc/passwd",
        ]
      ) {
        const missing = yield* call(path, html)
        assert.strictEqual(missing.status, 404, path)
        assert.strictEqual(missing.headers.get("content-type"), "application/problem+json")
      }
      assert.strictEqual((yield* call("/", { method: "POST" })).status, 404)
    }))
})
