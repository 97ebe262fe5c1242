/**
 * What happens around every request: it gets an id, its answer gets headers, whatever went wrong becomes a problem document,
 * and a line goes to the access log.
 *
 * Invariants
 * 1. No answer of 400 or above leaves without a body that tells its problem (but for HEAD).
 * 2. The log holds neither queries nor paths that are credentials; a defect is logged with its trace id and told without.
 * 3. `traceparent` (W3C Trace Context) is respected; the trace id is answered as `x-trace-id`.
 */
import type { AuditTrail } from "#actors/protocol/auth-audit.ts"
import { Cause, Clock, Effect, Option, Random } from "effect"
import type * as ByteSize from "effect/ByteSize"
import {
  HttpIncomingMessage,
  HttpServerError,
  HttpServerRequest,
  HttpServerResponse,
  HttpTraceContext,
} from "effect/http"
import type { IpNetwork } from "effect/net"
import { CurrentRequest, problemContentType, problemOf, type RequestInfo } from "./contract/errors.ts"
import { abandonCall, endCall } from "./handlers/http-audit.ts"
import { countRequest } from "./handlers/http.ts"
import { corsHeaders, preflight } from "./server-cors.ts"
import { callerOf } from "./server-forwarded.ts"

type Response = HttpServerResponse.HttpServerResponse

const pathOf = (url: string): string => {
  const end = url.search(/[?#]/)
  return end < 0 ? url : url.slice(0, end)
}

const newTraceId = Effect.map(
  Effect.forEach([0, 1, 2, 3], () => Random.nextIntBetween(0, 2 ** 32)),
  (words) => words.map((word) => word.toString(16).padStart(8, "0")).join(""),
)

const describeRequest = Effect.fnUntraced(
  function*(request: HttpServerRequest.HttpServerRequest, trustedProxies: ReadonlyArray<IpNetwork.IpNetwork>) {
    const parent = HttpTraceContext.w3c(request.headers)
    const traceId = Option.isSome(parent) ? parent.value.traceId : yield* newTraceId
    const { address, contradiction, proxied, secure } = callerOf({
      peer: Option.getOrElse(request.remoteAddress, () => ""),
      encrypted: request.originalUrl.startsWith("https:"),
      headers: request.headers,
    }, trustedProxies)
    const info = {
      traceId,
      path: pathOf(request.url),
      address,
      proxied,
      secure,
      journal: { route: null, user: null, dpopNonce: null, secretPath: false, audit: {} },
    } satisfies RequestInfo
    return { info, contradiction }
  },
)

/** A problem document for what no domain error tells. */
export const problemResponse = (info: RequestInfo, options: {
  readonly tag: string
  readonly status: number
  readonly detail: string
  readonly headers?: Record<string, string>
}): Response => {
  const { detail, headers, status, tag } = options
  return HttpServerResponse.jsonUnsafe(problemOf({ tag, status, detail, fields: {}, request: info }), {
    status,
    headers: headers ?? {},
    contentType: problemContentType,
  })
}

/** Tags for statuses that the library answers by itself, without a body of ours. */
const bare: Record<number, readonly [tag: string, detail: string]> = {
  400: ["BadRequest", "The request cannot be read"],
  404: ["NotFound", "There is nothing at this path"],
  405: ["MethodNotAllowed", "The path exists, but not with this method"],
  413: ["PayloadTooLarge", "The body is too large"],
  415: ["UnsupportedMediaType", "The body is of a type that this operation does not take"],
  416: ["RangeNotSatisfiable", "The range lies outside of what there is"],
  426: ["UpgradeRequired", "This operation needs an upgraded connection"],
  500: ["InternalError", "Something went wrong on our side; the log knows more under the trace id"],
  503: ["ServiceUnavailable", "The answer cannot be had now"],
}

/** Gives a body to an answer of 400 or above that has none, or only plain text. */
const told = (info: RequestInfo, response: Response): Response => {
  const type = response.headers["content-type"] ?? ""
  if (response.status < 400 || (response.body._tag !== "Empty" && !type.startsWith("text/plain"))) return response
  const [tag, detail] = bare[response.status] ?? ["RequestFailed", "The request failed"]
  const { "content-length": _length, "content-type": _type, ...headers } = response.headers
  return problemResponse(info, { tag, status: response.status, detail, headers })
}

const secondsToWait = (response: Response): string => {
  if (response.status !== 429 || response.body._tag !== "Uint8Array") return "1"
  const match = /"retryAfterSeconds":(\d{1,9})/.exec(new TextDecoder().decode(response.body.body))
  return match?.[1] ?? "1"
}

/** Nothing of ours may be framed, sniffed or sent on as a referrer; what is not a page may load nothing at all. */
const pagePolicy = (path: string): string =>
  path === "/docs" || path.startsWith("/docs/") ?
    // The reference is one page with its script inside. It reaches nothing but this server.
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; object-src 'none'; base-uri 'none'; frame-ancestors 'none'" :
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; media-src 'self' blob:; connect-src 'self' ws: wss:; worker-src 'self' blob:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

/** What no page of ours asks a browser for; a script that got in cannot either. */
const unusedFeatures = [
  "geolocation",
  "usb",
  "serial",
  "bluetooth",
  "payment",
  "display-capture",
]
  .map((feature) => `${feature}=()`).join(", ")
/** A phone's own page sends what it sees and hears, the dashboard what somebody says to a camera; the reference nothing. */
const featuresOf = (path: string): string => {
  const allowed = (is: boolean) => is ? "(self)" : "()"
  const microphone = path === "/" || path === "/phone"
  return `camera=${allowed(path === "/phone")}, microphone=${allowed(microphone)}, ${unusedFeatures}`
}

const withHeaders = (info: RequestInfo, response: Response): Response => {
  const html = (response.headers["content-type"] ?? "").startsWith("text/html")
  const headers: Record<string, string> = {
    "x-trace-id": info.traceId,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-permitted-cross-domain-policies": "none",
  }
  // A 304 renews the headers of what the browser keeps (RFC 9111, section 3.2): its page keeps the policy it came with.
  if (response.status !== 304) {
    headers["content-security-policy"] = html ? pagePolicy(info.path) : "default-src 'none'; frame-ancestors 'none'"
  }
  if (html) headers["permissions-policy"] = featuresOf(info.path)
  if (info.secure) headers["strict-transport-security"] = "max-age=31536000"
  if (response.headers["cache-control"] === undefined) headers["cache-control"] = "no-store"
  const { dpopNonce } = info.journal
  if (dpopNonce !== null) headers["dpop-nonce"] = dpopNonce
  if (response.status === 401 && response.headers["www-authenticate"] === undefined) {
    headers["www-authenticate"] = dpopNonce === null ? "Bearer" : dpopChallenge
  }
  const busy = response.status === 429 || response.status === 503
  if (busy && response.headers["retry-after"] === undefined) headers["retry-after"] = secondsToWait(response)
  return HttpServerResponse.setHeaders(response, headers)
}

/**
 * RFC 9449, sections 7.1 and 8. The one word serves every refusal: which it was stands in the problem's `code`, and a proof made
 * again with the nonce is refused for its real reason.
 */
const dpopChallenge = "DPoP error=\"use_dpop_nonce\", algs=\"EdDSA\""

/** RFC 9110, section 13.1.2: weak comparison. */
const unchanged = (request: HttpServerRequest.HttpServerRequest, response: Response): boolean => {
  const asked = request.headers["if-none-match"]
  const tag = response.headers["etag"]
  if (asked === undefined || tag === undefined || response.status !== 200) return false
  if (request.method !== "GET" && request.method !== "HEAD") return false
  const opaque = (text: string) => text.trim().replace(/^W\//, "")
  return asked.trim() === "*" || asked.split(",").some((one) => opaque(one) === opaque(tag))
}

const fromCause = (cause: Cause.Cause<unknown>, info: RequestInfo): Effect.Effect<Response> =>
  Effect.gen(function*() {
    const [response] = yield* HttpServerError.causeResponse(cause)
    // Anything that came as a value (a response, an error with one) is an answer; the rest is a bug of ours.
    if (response.status < 500) return told(info, response)
    yield* Effect.logError("A request failed", cause).pipe(
      Effect.annotateLogs({ traceId: info.traceId, path: info.journal.route }),
    )
    const [tag, detail] = bare[500]!
    return problemResponse(info, { tag, status: 500, detail })
  })

const log = Effect.fnUntraced(
  function*(request: HttpServerRequest.HttpServerRequest, info: RequestInfo, response: Response, startedMs: number) {
    const { route, secretPath, user } = info.journal
    const tookMs = (yield* Clock.currentTimeMillis) - startedMs
    yield* countRequest(request.method, route ?? "none", response.status, tookMs)
    const path = secretPath && route !== null ? route : info.path
    // Probes and media fetches would drown everything else.
    const quiet = response.status < 400 && (secretPath || route === "/health" || route === "/metrics")
    const line = `${request.method} ${path} ${response.status} ${tookMs} ms`
    yield* (quiet ? Effect.logDebug(line) : Effect.logInfo(line)).pipe(
      Effect.annotateLogs({ traceId: info.traceId, address: info.address, ...(user === null ? {} : { user }) }),
    )
  },
)

export interface AroundOptions {
  readonly trail: AuditTrail["Service"]
  /** See `server-cors.ts`. */
  readonly corsOrigins: ReadonlyArray<string>
  /** Reverse proxies whose word on the caller counts. */
  readonly trustedProxies: ReadonlyArray<IpNetwork.IpNetwork>
  readonly maxBodyBytes: ByteSize.ByteSize
  /** Answers what no route takes: files of the dashboard, 405, 404. */
  readonly unrouted: (
    request: HttpServerRequest.HttpServerRequest,
    info: RequestInfo,
  ) => Effect.Effect<Response, never, HttpServerRequest.HttpServerRequest>
}

const isUnrouted = (error: unknown): boolean =>
  typeof error === "object" && error !== null && "reason" in error &&
  (error.reason as { readonly _tag?: unknown } | null)?._tag === "RouteNotFound"

/** No name, id or text has one, and PostgreSQL refuses it; bodies are looked at by the conventions. */
const nulInTarget = "The path or the query has a NUL (%00)"

/** The middleware around the router. */
export const around = (options: AroundOptions) => <E, R>(routed: Effect.Effect<Response, E, R>) =>
  Effect.gen(function*() {
    const request = yield* HttpServerRequest.HttpServerRequest
    const startedMs = yield* Clock.currentTimeMillis
    const { contradiction, info } = yield* describeRequest(request, options.trustedProxies)
    const unreadable = contradiction ?? (request.url.includes("%00") ? nulInTarget : null)
    const asked = preflight(request, options.corsOrigins)
    const answer = unreadable !== null ?
      Effect.succeed(problemResponse(info, { tag: "BadRequest", status: 400, detail: unreadable })) :
      asked === null ?
      routed :
      Effect.succeed(asked)
    const response = yield* answer.pipe(
      Effect.catchIf(isUnrouted, () => options.unrouted(request, info)),
      Effect.map((response) => told(info, response)),
      Effect.catchCauseIf((cause) => !Cause.hasInterruptsOnly(cause), (cause) => fromCause(cause, info)),
      Effect.provideService(CurrentRequest, info),
      Effect.provideService(HttpIncomingMessage.MaxBodySize, options.maxBodyBytes),
      Effect.onInterrupt(() => abandonCall(info)),
    )
    const final = withHeaders(
      info,
      unchanged(request, response) ?
        HttpServerResponse.empty({ status: 304, headers: { etag: response.headers["etag"]! } }) :
        HttpServerResponse.setHeaders(response, corsHeaders(request, response, options.corsOrigins)),
    )
    yield* endCall(options.trail, info, final)
    yield* log(request, info, final, startedMs)
    return final
  })
