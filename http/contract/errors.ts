/**
 * Problem documents (RFC 9457): how any domain error looks on the wire, and back again in the typed client.
 *
 * Invariants
 * 1. `problem(SomeError)` is a schema whose type is the domain error and whose wire form is `application/problem+json`
 *    with the error's status; the client decodes it to the same error.
 * 2. `code` is the snake_case of the error's tag and tells errors of one status apart.
 * 3. `instance` and `traceId` come from the request in {@link CurrentRequest}; `detail` is the error's message.
 */
import { codeOf, InputFault, titleOf } from "#schema/problem.ts"
import { Context, Effect, Schema, SchemaAST, SchemaTransformation } from "effect"
import { HttpApiSchema } from "effect/http-api"

export const problemContentType = "application/problem+json"

/** What the server knows of the request that a fiber works for. */
export interface RequestInfo {
  /** 32 lower case hexadecimal digits, from `traceparent` when the client sent one. */
  readonly traceId: string
  /** The path that was asked for, without the query. */
  readonly path: string
  /** Address of the caller behind trusted proxies, in its one text; empty when unknown. */
  readonly address: string
  /** A proxy speaks for the caller, trusted or not. */
  readonly proxied: boolean
  /** The connection is encrypted as seen by the browser. */
  readonly secure: boolean
  /** What is learnt on the way, for the access log and the metrics; the only part that changes. */
  readonly journal: {
    /** Path of the endpoint as declared; `null` while none was found. */
    route: string | null
    /** Name of the user, or of the node, behind the token. */
    user: string | null
    /** For the next proof of the node that calls (RFC 9449, section 8); `null` where none calls. */
    dpopNonce: string | null
    /** The path itself is a credential and must not be logged. */
    secretPath: boolean
    /** What handlers say of the call for the audit log; never a secret. */
    readonly audit: Record<string, Schema.Json>
  }
}

/** The request at hand; outside of a server (client, tests of services) it is `null`. */
export const CurrentRequest = Context.Reference<RequestInfo | null>("nightjar/http/CurrentRequest", {
  defaultValue: () => null,
})

/** A page of the reference that explains a code. Relative, as every node serves its own. */
const typeOf = (code: string) => `/docs/problems#${code}`

const wireMembers = (code: string, status: number) =>
  Schema.Struct({
    type: Schema.String,
    title: Schema.String,
    status: Schema.Literal(status),
    detail: Schema.String,
    instance: Schema.optionalKey(Schema.String),
    code: Schema.Literal(code),
    traceId: Schema.optionalKey(Schema.String),
    errors: Schema.optionalKey(Schema.Array(InputFault)),
  })

/** A domain error's class as `Schema.TaggedError` makes it. */
export interface DomainErrorClass extends Schema.Top {
  readonly identifier: string
}

type WireProblem = Record<string, unknown>

const reserved = new Set(["type", "title", "status", "detail", "instance", "code", "traceId"])

/** Members of a problem document for an error that is already in its JSON form. */
export const problemOf = (error: {
  readonly tag: string
  readonly status: number
  readonly detail: string
  readonly fields: Readonly<Record<string, unknown>>
  readonly request: RequestInfo | null
}): WireProblem => {
  const code = codeOf(error.tag)
  const extra = Object.entries(error.fields).filter(([name]) =>
    name !== "_tag" && name !== "message" && !reserved.has(name)
  )
  return {
    type: typeOf(code),
    title: titleOf(error.tag),
    status: error.status,
    detail: error.detail,
    ...(error.request === null ? {} : { instance: error.request.path, traceId: error.request.traceId }),
    code,
    ...Object.fromEntries(extra),
  }
}

/** The status that an error class declares by `httpApiStatus`; a class without one is a mistake of the programmer. */
export const statusOf = (error: DomainErrorClass): number => {
  const status = SchemaAST.resolve(error.ast)?.["httpApiStatus"]
  if (typeof status !== "number") throw new Error(`The error ${error.identifier} declares no httpApiStatus`)
  return status
}

const cache = new WeakMap<object, Schema.Top>()

/**
 * The wire schema of a domain error, for an endpoint's `error`: `error: problems(CameraNotFound, CameraNameTaken)`.
 */
export const problem = <E extends DomainErrorClass>(error: E): Schema.Codec<E["Type"], WireProblem> => {
  const known = cache.get(error)
  if (known !== undefined) return known as unknown as Schema.Codec<E["Type"], WireProblem>
  const status = statusOf(error)
  const code = codeOf(error.identifier)
  const members = wireMembers(code, status)
  const json = Schema.toCodecJson(error) as unknown as Schema.Codec<{ readonly message: string }, WireProblem>
  const encodeFields = Schema.encodeEffect(json)
  const decodeFields = Schema.decodeUnknownEffect(json)
  const made = Schema.StructWithRest(members, [Schema.Record(Schema.String, Schema.Unknown)]).pipe(
    Schema.decodeTo(
      Schema.toType(error),
      SchemaTransformation.transformEffect({
        decode: (wire: WireProblem) =>
          decodeFields({ ...wire, _tag: error.identifier, message: wire["detail"] }).pipe(
            Effect.mapError((failure) => failure.issue),
          ),
        encode: (value: { readonly message: string }) =>
          Effect.gen(function*() {
            const fields = yield* encodeFields(value)
            const request = yield* CurrentRequest
            return problemOf({ tag: error.identifier, status, detail: value.message, fields, request })
          }).pipe(Effect.mapError((failure) => failure.issue)),
      } as never),
    ),
  ) as unknown as Schema.Top
  const wire = made.pipe(HttpApiSchema.asJson({ contentType: problemContentType })).annotate({
    httpApiStatus: status,
    identifier: `${error.identifier}Problem`,
    description: titleOf(error.identifier),
  })
  cache.set(error, wire)
  return wire as unknown as Schema.Codec<E["Type"], WireProblem>
}

/** {@link problem} for a list of errors. */
export const problems = <const Errors extends ReadonlyArray<DomainErrorClass>>(
  ...errors: Errors
): ReadonlyArray<Schema.Codec<Errors[number]["Type"], WireProblem>> => errors.map((error) => problem(error)) as never
