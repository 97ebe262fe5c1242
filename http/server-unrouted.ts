/**
 * What no route of the Api takes: the dashboard's files, known paths with another method, and nothing at all.
 *
 * Invariants
 * 1. The dashboard never answers for a path of the Api: a mistyped operation is 404, never a page.
 * 2. Files under `assets/` carry the hash of their content in their name and are kept for a year; all others are asked for
 *    again each time.
 */
import { Effect } from "effect"
import { FindMyWay, type HttpServerRequest, HttpServerResponse, HttpStaticServer } from "effect/http"
import { HttpApi } from "effect/http-api"
import { Api } from "./contract/api.ts"
import type { RequestInfo } from "./contract/errors.ts"
import { problemResponse } from "./server-requests.ts"

const methods = ["GET", "POST", "PUT", "PATCH", "DELETE"] as const
const apiPath = /^\/[^/]+\/api\/v\d+(\/|$)|^\/(health|\.well-known|openapi\.json|docs|metrics)(\/|$)/

/** Methods that a path takes, empty where there is no such path. */
const allowedMethods = () => {
  const paths = FindMyWay.make<true>()
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint }) => paths.on(endpoint.method as "GET", endpoint.path as `/${string}`, true),
  })
  for (const path of ["/openapi.json", "/docs", "/docs/problems"] as const) paths.on("GET", path, true)
  return (url: string) => methods.filter((method) => paths.find(method, url) !== undefined)
}

/** `dashboard`: the folder of the built dashboard; `null` for a node without one. */
export const makeUnrouted = Effect.fnUntraced(function*(dashboard: string | null) {
  const allowed = allowedMethods()
  const files = dashboard === null ? null : {
    asset: yield* HttpStaticServer.make({ root: dashboard, cacheControl: "public, max-age=31536000, immutable" }),
    page: yield* HttpStaticServer.make({ root: dashboard, spa: true, cacheControl: "no-cache" }),
  }
  return (request: HttpServerRequest.HttpServerRequest, info: RequestInfo) =>
    Effect.gen(function*() {
      const allow = allowed(request.url)
      if (allow.length > 0) {
        const list = (allow.includes("GET") ? [...allow, "HEAD", "OPTIONS"] : [...allow, "OPTIONS"]).join(", ")
        if (request.method === "OPTIONS") return HttpServerResponse.empty({ status: 204, headers: { allow: list } })
        const detail = `This path takes ${list}`
        return problemResponse(info, { tag: "MethodNotAllowed", status: 405, detail, headers: { allow: list } })
      }
      const missing = problemResponse(info, { tag: "NotFound", status: 404, detail: "There is nothing at this path" })
      const readable = request.method === "GET" || request.method === "HEAD"
      if (files === null || !readable || apiPath.test(info.path)) return missing
      const file = info.path.startsWith("/assets/") ? files.asset : files.page
      return yield* Effect.orElseSucceed(file, () => missing)
    })
})
