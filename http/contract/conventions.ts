/**
 * The pieces that every group is built from: pages, versions, created resources, jobs, marks in the OpenAPI document.
 *
 * Invariants
 * 1. Lists answer `{ items, nextCursor }` and take `limit` (1 to 500, 100 if left out) and an opaque `cursor`.
 * 2. A resource's `version` is its `ETag`; a write that carries `If-Match` and finds another version answers 412.
 * 3. What the contract's table does not list carries {@link extension}.
 */
import type { AuditClass } from "#schema/auth-audit.ts"
import type { PageRequest } from "#schema/common.ts"
import { BadRequest } from "#schema/problem.ts"
import { Context, Effect, Option, Schema } from "effect"
import { HttpApi, HttpApiSchema } from "effect/http-api"

/**
 * The root that groups are added to. Handlers of a group are written against `nightjar.add(ThatGroup)`: the id is the same
 * as that of the whole Api, and the type check stays fast. All faults of an input are reported, not only the first.
 */
export const nightjar = HttpApi.make("nightjar").annotate(HttpApi.ParseOptions, { errors: "all" })

/** Query members of a list; spread them: `query: { ...pageQuery, name: Schema.optionalKey(Schema.String) }`. */
export const pageQuery = {
  /** 100 if left out. */
  limit: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 500 }))),
  cursor: Schema.optionalKey(Schema.String.check(Schema.isMaxLength(1024))),
} as const

/** From a decoded query to what services take. */
export const pageRequest = (query: { readonly limit?: number; readonly cursor?: string }): PageRequest => ({
  limit: query.limit ?? 100,
  cursor: query.cursor ?? null,
})

/** Request header of writes to a versioned resource; spread it into `headers`. */
export const ifMatch = { "if-match": Schema.optionalKey(Schema.String) } as const

/** Request header of a `POST` that may be repeated safely for 24 hours (same key, same body: same answer). */
export const idempotencyKey = { "idempotency-key": Schema.optionalKey(Schema.String) } as const

/** A strong entity tag (RFC 9110, section 8.8.3). */
export const etag = (version: number): string => `"${version}"`

/** Version that `If-Match` asks for: `null` for none or `*`; a tag that is not ours is 400. */
export const expectedVersion = (
  headers: { readonly "if-match"?: string },
): Effect.Effect<number | null, BadRequest> => {
  const text = headers["if-match"]?.trim()
  if (text === undefined || text === "*") return Effect.succeed(null)
  const match = /^"(\d{1,15})"$/.exec(text)
  if (match !== null) return Effect.succeed(Number(match[1]))
  const message = "Expected one entity tag as an earlier answer gave it, or *"
  return Effect.fail(new BadRequest({ message, errors: [{ pointer: "/headers/if-match", message }] }))
}

/** Success schema of a versioned resource: 200 with its `ETag`. Answer by {@link withVersion}. */
export const versioned = <S extends Schema.Top>(resource: S) =>
  HttpApiSchema.WithHeaders(resource, { etag: Schema.String })

export const withVersion = <A extends { readonly version: number }>(resource: A) =>
  HttpApiSchema.withHeaders({ body: resource, headers: { etag: etag(resource.version) } })

/** Success schema of a `POST` that creates: 201 with `Location` and `ETag`. Answer by {@link createdAt}. */
export const created = <S extends Schema.Top>(resource: S) =>
  HttpApiSchema.WithHeaders(resource.annotate({ httpApiStatus: 201 }), {
    location: Schema.String,
    etag: Schema.optionalKey(Schema.String),
  })

/** `location` is a path on this server: `/camera/api/v1/cameras/<id>`. */
export const createdAt = <A>(location: string, resource: A) => {
  const version = typeof resource === "object" && resource !== null && "version" in resource ?
    resource.version :
    undefined
  return HttpApiSchema.withHeaders({
    body: resource,
    headers: typeof version === "number" ? { location, etag: etag(version) } : { location },
  })
}

/** Success schema of a `POST` that begins long work: 202 with `Location` of the job. Answer by {@link acceptedAt}. */
export const accepted = <S extends Schema.Top>(job: S) =>
  HttpApiSchema.WithHeaders(job.annotate({ httpApiStatus: 202 }), { location: Schema.String })

/** `location` is a path on this server. */
export const acceptedAt = <A>(location: string, job: A) =>
  HttpApiSchema.withHeaders({ body: job, headers: { location } })

/** Body of a `toggle`: without `enabled` it flips. */
export const ToggleBody = Schema.Struct({ enabled: Schema.optionalKey(Schema.Boolean) })

/** Marks of an operation beside its access rule. */
export interface OperationMarks {
  /** Not in the contract's table: `x-nightjar-extension: true`. */
  readonly extension: boolean
  /** Answers as long as the client listens: no time limit, no idempotency. */
  readonly streams: boolean
  readonly deprecation: Deprecation | null
  /** Its JSON body may be larger than that of others. */
  readonly maxBodyBytes: number
}

/** RFC 9745 and RFC 8594: since when it is deprecated, when it goes, and what to use instead. */
export interface Deprecation {
  /** Epoch seconds. */
  readonly since: number
  /** An HTTP date (RFC 9110, section 5.6.7). */
  readonly sunset: string
  /** Path of the successor. */
  readonly successor: string
}

export class Marks extends Context.Service<Marks, Partial<OperationMarks>>()("nightjar/http/Marks") {}

const marks = (some: Partial<OperationMarks>): Context.Context<never> =>
  Context.make(Marks, some) as Context.Context<never>

/** `HttpApiEndpoint.get(…).annotateMerge(extension)`: not in the contract's table, ours. */
export const extension = marks({ extension: true })
/** For operations of the table that stream: playlists that wait, media, events. */
export const streaming = marks({ streams: true })
/** For operations of the table whose body is read as it comes; marks do not add up. */
export const streamingUpload = (maxBodyBytes: number) => marks({ streams: true, maxBodyBytes })
/** An {@link extension} that takes a whole document; marks do not add up. */
export const largeExtension = (maxBodyBytes: number) => marks({ extension: true, maxBodyBytes })
/** What an endpoint is marked with. */
export const marksOf = (annotations: Context.Context<never>): Partial<OperationMarks> =>
  Option.getOrElse(Context.getOption(annotations, Marks), () => ({}))

/** What a call of an endpoint is to the audit log; by default `change` for all methods but GET, which is `none`. */
export class Audited extends Context.Service<Audited, AuditClass>()("nightjar/http/Audited") {}

/** `HttpApiEndpoint.post(…).annotateMerge(audited("none"))`: a POST that changes nothing. */
export const audited = (kind: AuditClass): Context.Context<never> =>
  Context.make(Audited, kind) as Context.Context<never>

/** Response headers that announce the end of an operation. */
export const deprecationHeaders = (deprecation: Deprecation): Record<string, string> => ({
  deprecation: `@${deprecation.since}`,
  sunset: deprecation.sunset,
  link: `<${deprecation.successor}>; rel="successor-version"`,
})
