/**
 * Handlers of the audit group.
 *
 * Invariants
 * 1. An export streams page by page as the client takes it, and its queries end when the client goes.
 * 2. No field of the CSV begins with what a spreadsheet takes for a formula.
 */
import { AuditLog } from "#actors/protocol/auth-audit.ts"
import type { AuditEntry } from "#schema/auth-audit.ts"
import { stringify } from "csv-stringify/sync"
import { Clock, Effect, Stream } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { currentUser } from "../contract/access.ts"
import { AuditGroup } from "../contract/auth-audit.ts"
import { createdAt, expectedVersion, nightjar, pageRequest, withVersion } from "../contract/conventions.ts"
import { CurrentRequest } from "../contract/errors.ts"
import { actorOf, auditDetail } from "./http-audit.ts"

const iso = (entry: AuditEntry) => ({ ...entry, time: new Date(entry.time).toISOString() })

const csvColumns = [
  "sequence",
  "id",
  "time",
  "nodeId",
  "actorKind",
  "actorId",
  "actorName",
  "sessionId",
  "address",
  "userAgent",
  "action",
  "outcome",
  "status",
  "resourceKind",
  "resourceId",
  "detail",
  "origin",
  "traceId",
  "previousHash",
  "hash",
] as const

const csvRecord = (entry: AuditEntry) => [
  entry.sequence,
  entry.id,
  new Date(entry.time).toISOString(),
  entry.nodeId,
  entry.actor.kind,
  entry.actor.id,
  entry.actor.name,
  entry.actor.sessionId,
  entry.address,
  entry.userAgent,
  entry.action,
  entry.outcome,
  entry.status,
  entry.resource?.kind,
  entry.resource?.id,
  JSON.stringify(entry.detail),
  entry.origin,
  entry.traceId,
  entry.previousHash,
  entry.hash,
]

/** RFC 4180, section 2: CRLF ends every record, texts are quoted; invariant 2 is the option on formulas. */
export const csvOf = (records: ReadonlyArray<ReadonlyArray<unknown>>): string =>
  stringify(records.map((record) => [...record]), {
    record_delimiter: "\r\n",
    quoted_string: true,
    escape_formulas: true,
  })

/** Pages as the text of one array. */
const jsonText = <E>(pages: Stream.Stream<ReadonlyArray<AuditEntry>, E>): Stream.Stream<string, E> =>
  Stream.make("[").pipe(
    Stream.concat(pages.pipe(
      Stream.filter((page) => page.length > 0),
      Stream.zipWithIndex,
      Stream.map(([page, i]) =>
        (i === 0 ? "\n" : ",\n") + page.map((entry) => JSON.stringify(iso(entry))).join(",\n")
      ),
    )),
    Stream.concat(Stream.make("\n]\n")),
  )

const attachment = Effect.fnUntraced(
  function*<E>(content: Stream.Stream<string, E>, kind: { readonly type: string; readonly extension: string }) {
    const { method } = yield* HttpServerRequest.HttpServerRequest
    const date = new Date(yield* Clock.currentTimeMillis).toISOString().slice(0, 10)
    return HttpServerResponse.stream(method === "HEAD" ? Stream.empty : Stream.encodeText(content), {
      contentType: kind.type,
      headers: { "content-disposition": `attachment; filename="audit-${date}.${kind.extension}"` },
    })
  },
)

export const AuditHandlers = HttpApiBuilder.group(
  nightjar.add(AuditGroup),
  "audit",
  Effect.fnUntraced(function*(handlers) {
    const log = yield* AuditLog
    return handlers
      .handle("list", ({ query: { cursor, limit, ...filter } }) =>
        log.list(
          filter,
          pageRequest({ ...limit === undefined ? {} : { limit }, ...cursor === undefined ? {} : { cursor } }),
        ))
      .handle("get", ({ params }) =>
        log.get(params.id))
      .handle(
        "stats",
        ({ query }) =>
          log.stats({ start: query.start ?? null, end: query.end ?? null, timeZone: query.timeZone ?? "UTC" }),
      )
      .handle("verify", ({ query }) => log.verify({ from: query.from ?? null, to: query.to ?? null }))
      .handle(
        "exportCsv",
        Effect.fnUntraced(function*({ query }) {
          yield* auditDetail({ filter: JSON.stringify(query) })
          const pages = yield* log.export(query)
          const content = Stream.map(pages, (page) => csvOf(page.map(csvRecord)))
          return yield* attachment(Stream.concat(Stream.make(csvOf([csvColumns])), content), {
            type: "text/csv; charset=utf-8",
            extension: "csv",
          })
        }),
      )
      .handle(
        "exportJson",
        Effect.fnUntraced(function*({ query }) {
          yield* auditDetail({ filter: JSON.stringify(query) })
          return yield* attachment(jsonText(yield* log.export(query)), { type: "application/json", extension: "json" })
        }),
      )
      .handle(
        "claim",
        Effect.fnUntraced(function*({ payload, request }) {
          const info = yield* CurrentRequest
          const entry = yield* log.claim(payload, {
            actor: actorOf(yield* currentUser),
            address: info?.address ?? "",
            userAgent: request.headers["user-agent"] ?? "",
            traceId: info?.traceId ?? null,
          })
          return createdAt(`/auth/api/v1/audit/${entry.id}`, entry)
        }),
      )
      .handle("settings", () => Effect.map(log.settings(), withVersion))
      .handle(
        "updateSettings",
        Effect.fnUntraced(function*({ headers, payload }) {
          const expected = yield* expectedVersion(headers)
          const settings = yield* log.updateSettings(payload, expected)
          yield* auditDetail({ ...payload })
          return withVersion(settings)
        }),
      )
  }),
)
