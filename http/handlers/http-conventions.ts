/**
 * What holds for every operation: the implementation of the contract's {@link Conventions}.
 *
 * Invariants
 * 1. Faults of the input are told all at once, each with a JSON Pointer whose first token is the part of the request. Texts that
 *    nobody can keep are told first (`http-text.ts`).
 * 2. An operation that does not stream answers within the time limit, with 503 if need be; its work is interrupted then.
 * 3. A `POST` of a signed-in user with an `Idempotency-Key` runs once: whoever repeats it gets the same answer, marked by
 *    `idempotency-replayed`.
 */
import { Idempotency } from "#actors/protocol/http.ts"
import type { IdempotentRequest, KeptAnswer } from "#schema/http.ts"
import { BadRequest, type InputFault, PayloadTooLarge, RequestTimedOut } from "#schema/problem.ts"
import { ByteSize, Cause, Effect, Exit, Fiber, Layer, SchemaIssue } from "effect"
import { HttpIncomingMessage, type HttpServerError, HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiError } from "effect/http-api"
import { createHash } from "node:crypto"
import { Conventions, CurrentPrincipal } from "../contract/access.ts"
import { marksOf } from "../contract/conventions.ts"
import { refuseUnkept } from "./http-text.ts"

export interface ConventionOptions {
  /** Milliseconds that a request may take unless it streams. */
  readonly requestTimeoutMs: number
  /** Largest JSON body. */
  readonly maxBodyBytes: number
}

const issues = SchemaIssue.makeFormatterStandardSchemaV1()

/** RFC 6901, section 3. */
const token = (part: PropertyKey) => String(part).replaceAll("~", "~0").replaceAll("/", "~1")

const faultsOf = (error: HttpApiError.HttpApiSchemaError): ReadonlyArray<InputFault> =>
  issues(error.cause.issue).issues.map((issue) => {
    const path = (issue.path ?? []).map((segment) => token(typeof segment === "object" ? segment.key : segment))
    return { pointer: ["", error.kind.toLowerCase(), ...path].join("/"), message: issue.message }
  })

const badInput = (error: HttpApiError.HttpApiSchemaError): Effect.Effect<never, BadRequest> => {
  // What we send does not fit our own contract: a mistake of ours.
  if (error.kind === "Body" || error.kind === "ResponseHeaders") return Effect.die(error)
  const errors = faultsOf(error)
  return Effect.fail(
    new BadRequest({ message: errors.map((fault) => `${fault.pointer}: ${fault.message}`).join("; "), errors }),
  )
}

const isHttpError = (defect: unknown): defect is HttpServerError.HttpServerError =>
  typeof defect === "object" && defect !== null && "_tag" in defect && defect._tag === "HttpServerError"

/** A body that could not be read is a defect to the library, and the client's doing to us. */
const unreadable = (defect: unknown, maxBodyBytes: number): Effect.Effect<never, PayloadTooLarge | BadRequest> => {
  if (!isHttpError(defect) || defect.reason._tag !== "RequestParseError") return Effect.die(defect)
  return Effect.fail(
    defect.reason.reason === "BodyTooLarge" ?
      new PayloadTooLarge({ message: `A body may have ${maxBodyBytes} bytes`, limitBytes: maxBodyBytes }) :
      new BadRequest({ message: "The body cannot be read", errors: [] }),
  )
}

/** A body that cannot be read is a defect here as it is to the library: see {@link unreadable}. */
const wellFormed = Effect.catchTag(refuseUnkept, "HttpServerError", Effect.die)

const keyPattern = /^[\x21-\x7e]{1,255}$/
/** Work whose caller has gone ends here at the latest; by then the key counts as abandoned. */
const abandonedAfterMs = 60_000
/** Largest answer that is kept. */
const maxKeptBytes = 256 * 1024

/** The request as the idempotency store knows it; `null` where the key does not apply. */
const idempotentRequest = Effect.gen(function*() {
  const request = yield* HttpServerRequest.HttpServerRequest
  const key = request.headers["idempotency-key"]
  const principal = yield* CurrentPrincipal
  if (key === undefined || request.method !== "POST" || principal.kind !== "user") return null
  if (!keyPattern.test(key)) {
    const message = "Expected 1 to 255 printable ASCII characters"
    return yield* new BadRequest({ message, errors: [{ pointer: "/headers/idempotency-key", message }] })
  }
  const hash = createHash("sha256").update(`${request.method} ${request.url}\n`)
  // Uploads are not read twice: method and path stand for them.
  const upload = request.headers["content-type"]?.startsWith("multipart/") === true
  if (!upload) hash.update(yield* Effect.orDie(request.text))
  return { userId: principal.userId, key, fingerprint: hash.digest() } satisfies IdempotentRequest
})

const kept = (response: HttpServerResponse.HttpServerResponse) => {
  const { body } = response
  // It tells a secret: nothing may hold it.
  if (response.headers["cache-control"] === "no-store") return null
  const bytes = body._tag === "Uint8Array" ? body.body : body._tag === "Empty" ? new Uint8Array(0) : null
  if (bytes === null || bytes.length > maxKeptBytes || response.status >= 500) return null
  return { status: response.status, headers: { ...response.headers }, body: bytes }
}

const replayed = ({ body, headers, status }: KeptAnswer): HttpServerResponse.HttpServerResponse => {
  const marked = { ...headers, "idempotency-replayed": "true" }
  return body.length === 0 ?
    HttpServerResponse.empty({ status, headers: marked }) :
    HttpServerResponse.uint8Array(body, {
      status,
      headers: marked,
      contentType: headers["content-type"] ?? "application/json",
    })
}

export const conventionsLayer = (options: ConventionOptions): Layer.Layer<Conventions, never, Idempotency> =>
  Layer.effect(
    Conventions,
    Effect.gen(function*() {
      const idempotency = yield* Idempotency
      const scope = yield* Effect.scope

      /** What became of a request is noted; one that was cut off keeps its key for a while, as its work may be done. */
      const settle = (
        request: IdempotentRequest,
        exit: Exit.Exit<HttpServerResponse.HttpServerResponse, unknown>,
      ): Effect.Effect<void> => {
        const answer = Exit.isSuccess(exit) ? kept(exit.value) : null
        if (answer !== null) return Effect.ignore(idempotency.keep(request, answer))
        const cutOff = Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause)
        return cutOff ? Effect.void : Effect.ignore(idempotency.forget(request))
      }

      const once = <E, R>(handler: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>) =>
        Effect.gen(function*() {
          const request = yield* idempotentRequest
          if (request === null) return yield* handler
          const earlier = yield* idempotency.begin(request)
          if (earlier !== null) return replayed(earlier)
          // Not in the request's own fiber: a caller who hangs up and asks again must find the answer, not do the work twice.
          const work = yield* handler.pipe(
            Effect.timeoutOrElse({ duration: abandonedAfterMs, orElse: () => Effect.interrupt }),
            Effect.onExit((exit) => settle(request, exit)),
            Effect.forkIn(scope),
          )
          return yield* Fiber.join(work)
        })

      return Conventions.of((handler, { endpoint }) => {
        const { maxBodyBytes = options.maxBodyBytes, streams = false } = marksOf(endpoint.annotations)
        const limited = streams ?
          Effect.andThen(wellFormed, handler) :
          Effect.timeoutOrElse(Effect.andThen(wellFormed, once(handler)), {
            duration: options.requestTimeoutMs,
            orElse: () =>
              Effect.fail(new RequestTimedOut({ message: `No answer within ${options.requestTimeoutMs} ms` })),
          })
        return limited.pipe(
          // The library passes it through the error channel without saying so in its types.
          Effect.catchIf((error) => HttpApiError.HttpApiSchemaError.is(error), (error) => badInput(error as never)),
          Effect.catchDefect((defect) => unreadable(defect, maxBodyBytes)),
          Effect.provideService(HttpIncomingMessage.MaxBodySize, ByteSize.bytes(maxBodyBytes)),
        )
      })
    }),
  )
