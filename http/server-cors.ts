/**
 * Pages of other origins (CORS; WHATWG Fetch, section 3.3): none, unless the operator names them.
 *
 * Invariants
 * 1. An origin is compared as a whole; there are no patterns and no `*`.
 * 2. Credentials are never allowed: another origin's page signs in with a bearer token of its own, cookies do not reach it.
 */
import { type HttpServerRequest, HttpServerResponse } from "effect/http"

type Request = HttpServerRequest.HttpServerRequest

const methods = "GET, HEAD, POST, PUT, PATCH, DELETE"
const requestHeaders = "authorization, content-type, if-match, if-none-match, idempotency-key, range, traceparent"
const exposed = "etag, location, retry-after, x-trace-id, idempotency-replayed, deprecation, sunset, link"
/** Seconds that a browser remembers a preflight; Chromium takes no more. */
const remembered = "7200"

/** Headers for an answer to a listed origin; empty for any other. Answers differ by origin as soon as one is listed. */
export const corsHeaders = (
  request: Request,
  response: HttpServerResponse.HttpServerResponse,
  origins: ReadonlyArray<string>,
): Record<string, string> => {
  if (origins.length === 0) return {}
  const { origin } = request.headers
  const vary = ["origin", response.headers["vary"] ?? ""].filter((one) => one !== "").join(", ")
  if (origin === undefined || !origins.includes(origin)) return { vary }
  return {
    vary,
    "access-control-allow-origin": origin,
    "access-control-expose-headers": exposed,
  }
}

/** The answer to a preflight of a listed origin; `null` for every other request. */
export const preflight = (
  request: Request,
  origins: ReadonlyArray<string>,
): HttpServerResponse.HttpServerResponse | null => {
  const { "access-control-request-method": asked, origin } = request.headers
  if (request.method !== "OPTIONS" || asked === undefined || origin === undefined || !origins.includes(origin)) {
    return null
  }
  return HttpServerResponse.empty({
    status: 204,
    headers: {
      "access-control-allow-methods": methods,
      "access-control-allow-headers": requestHeaders,
      "access-control-max-age": remembered,
    },
  })
}

/**
 * Whether a browser sends this on behalf of a page of ours: the fetch metadata say so (W3C, Fetch Metadata), or where a browser
 * has none, the origin does. What is no browser sends neither.
 */
export const fromOwnPage = (request: Request): boolean => {
  const { host, origin, "sec-fetch-site": site } = request.headers
  if (site !== undefined) return site === "same-origin" || site === "none"
  if (origin === undefined) return true
  return URL.canParse(origin) && new URL(origin).host === host
}
