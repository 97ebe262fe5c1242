/**
 * What of the HTTP interface becomes an entry of the audit log: every call that changes something, sign-ins, views and exports,
 * and every refusal. Generic: an endpoint says by {@link Audited} what it is, a handler may add detail.
 *
 * Invariants
 * 1. A call that changes something has its place in the log before its handler runs; without one it is refused with 503.
 * 2. Its entry is durable before its answer leaves. One whose caller went away is recorded as interrupted.
 * 3. Neither bodies, queries nor paths that are credentials are recorded; detail is what handlers say.
 * 4. Who is refused without having shown a token leaves no entry, but at a sign-in.
 * 5. Another node that asks for what lies outside of its grants is answered that there is no such thing; its entry says that it was
 *    refused.
 */
import type { AuditAdmission, AuditTrail } from "#actors/protocol/auth-audit.ts"
import {
  anonymousActor,
  type AuditActor,
  type AuditClass,
  type AuditFact,
  type AuditOutcome,
  type AuditResource,
  AuditUnavailable,
} from "#schema/auth-audit.ts"
import type { Principal } from "#schema/permission.ts"
import { Effect, type Schema } from "effect"
import { HttpRouter, HttpServerRequest, type HttpServerResponse } from "effect/http"
import { CurrentRequest, type RequestInfo } from "../contract/errors.ts"

/** What is known of a call when it was let in; kept beside the request, as the contract knows no services. */
interface OpenCall {
  readonly action: string
  readonly kind: AuditClass
  /** A refusal is worth an entry. */
  readonly known: boolean
  readonly params: Readonly<Record<string, string | undefined>>
  actor: AuditActor
  resource: AuditResource | null
  admission: AuditAdmission | null
  /** It was refused, though the answer says otherwise. */
  hidden: boolean
}
const calls = new WeakMap<RequestInfo, OpenCall>()

/** `cameras` to `camera`, `policies` to `policy`. */
const singular = (word: string): string => word.replace(/ies$/, "y").replace(/([^s])s$/, "$1")

/** What the last parameter of a path names: `/…/cameras/:id` a camera, `/…/users/:userId/roles` a user. */
const resourceOf = (path: string, params: OpenCall["params"]): AuditResource | null => {
  const segments = path.split("/")
  const at = segments.findLastIndex((segment) => segment.startsWith(":"))
  const name = segments[at]?.slice(1) ?? ""
  const id = params[name]
  if (id === undefined) return null
  const kind = name === "id" ? singular(segments[at - 1] ?? "") : name.replace(/_?(id|Id|uuid|Uuid)$/, "")
  return { kind, id }
}

/** What a `POST` made, from the path that it answers. */
const createdResource = (location: string | undefined): AuditResource | null => {
  const [id, kind] = (location ?? "").split("/").toReversed()
  return id === undefined || kind === undefined || id === "" || kind === "" ? null : { kind: singular(kind), id }
}

export const actorOf = (principal: Principal): AuditActor =>
  principal.kind === "user" ?
    { kind: "user", id: principal.userId, name: principal.username, sessionId: principal.sessionId } :
    principal.kind === "peer" ?
    { kind: "peer", id: principal.nodeId, name: principal.name, sessionId: null } :
    anonymousActor

const outcomeOf = (status: number): AuditOutcome =>
  status < 400 ? "success" : status === 401 || status === 403 || status === 429 ? "refused" : "failure"

const factOf = (
  info: RequestInfo,
  call: OpenCall,
  userAgent: string,
  result: { readonly status: number | null; readonly outcome: AuditOutcome; readonly detail: AuditFact["detail"] },
): AuditFact => {
  const others = Object.entries(call.params).filter(([, value]) => value !== undefined && value !== call.resource?.id)
  return {
    action: call.action,
    outcome: result.outcome,
    actor: call.actor,
    address: info.address,
    userAgent,
    resource: call.resource,
    status: result.status,
    traceId: info.traceId,
    origin: "server",
    detail: {
      ...others.length === 0 ? {} : { parameters: Object.fromEntries(others) as Record<string, string> },
      ...info.journal.audit,
      ...result.detail,
    },
  }
}

const userAgent = Effect.map(HttpServerRequest.HttpServerRequest, ({ headers }) => headers["user-agent"] ?? "")

/** The call was found; before it is known who calls. */
export const beginCall = (info: RequestInfo, endpoint: {
  readonly action: string
  readonly path: string
  readonly method: string
  readonly kind: AuditClass | null
  /** Open to everybody. */
  readonly open: boolean
  /** The path is a credential. */
  readonly secret: boolean
  readonly credential: boolean
}) =>
  Effect.map(HttpRouter.params, (params) => {
    const reads = endpoint.method === "GET" || endpoint.method === "HEAD"
    // The id of a replay session opens its media.
    const shown = endpoint.secret || "sessionId" in params && endpoint.path.startsWith("/replay/") ? {} : params
    calls.set(info, {
      action: endpoint.action,
      kind: endpoint.kind ?? (reads ? "none" : "change"),
      known: endpoint.credential || endpoint.open,
      params: shown,
      actor: anonymousActor,
      resource: resourceOf(endpoint.path, shown),
      admission: null,
      hidden: false,
    })
  })

/** It is known who calls: kept even where they are then refused. */
export const knowCaller = (info: RequestInfo, principal: Principal): void => {
  const call = calls.get(info)
  if (call !== undefined) call.actor = actorOf(principal)
  if (principal.kind === "peer" && principal.onBehalfOf !== null) {
    Object.assign(info.journal.audit, { onBehalfOf: principal.onBehalfOf })
  }
}

/** Its refusal belongs to the course of things: a node that asks for a nonce. */
export const overlookCall = (info: RequestInfo): void => {
  const call = calls.get(info)
  if (call !== undefined) calls.set(info, { ...call, known: false })
}

/** The call may be done: invariant 1. */
export const admitCall = Effect.fnUntraced(function*(trail: AuditTrail["Service"], info: RequestInfo) {
  const call = calls.get(info)
  if (call === undefined) return
  if (call.kind === "signIn" && trail.records("signIn", "success") && !trail.hasRoom()) {
    return yield* new AuditUnavailable()
  }
  if (call.kind !== "change") return
  call.admission = yield* trail.admit(
    factOf(info, call, yield* userAgent, { status: null, outcome: "success", detail: {} }),
  )
}, Effect.uninterruptible)

/** The answer is there: invariant 2. */
export const endCall = Effect.fnUntraced(
  function*(trail: AuditTrail["Service"], info: RequestInfo, response: HttpServerResponse.HttpServerResponse) {
    const call = calls.get(info)
    if (call === undefined) return
    calls.delete(info)
    const { status } = response
    const outcome = call.hidden ? "refused" : outcomeOf(status)
    if (call.kind === "change") call.resource ??= createdResource(response.headers["location"])
    const replayed = response.headers["idempotency-replayed"] === "true"
    const fact = factOf(info, call, yield* userAgent, { status, outcome, detail: replayed ? { replayed } : {} })
    if (call.admission !== null) return yield* call.admission.end(fact)
    if (!trail.records(call.kind, outcome)) return
    if (outcome === "refused") return call.known ? yield* trail.note(fact) : undefined
    // Found to be impossible before it was let in (no route of its own, the log itself being full): nothing was done.
    if (call.kind === "change" || call.kind === "none") return
    yield* Effect.ignore(trail.record(fact))
  },
  Effect.uninterruptible,
)

/** The caller went away before there was an answer; what was begun may be done. */
export const abandonCall = Effect.fnUntraced(function*(info: RequestInfo) {
  const call = calls.get(info)
  if (call?.admission === null || call?.admission === undefined) return
  calls.delete(info)
  const detail = { interrupted: "The caller did not wait for the answer" }
  yield* call.admission.end(factOf(info, call, yield* userAgent, { status: null, outcome: "failure", detail }))
}, Effect.uninterruptible)

/** The caller is told that there is no such thing, though there is: a refusal, where it is another node. */
export const auditHidden = (principal: Principal): Effect.Effect<void> =>
  Effect.map(CurrentRequest, (info) => {
    const call = info === null || principal.kind !== "peer" ? undefined : calls.get(info)
    if (info === null || call === undefined) return
    call.hidden = true
    Object.assign(info.journal.audit, { reason: "It lies outside of what is granted to this node" })
  })

/** For handlers: adds members to the detail of the entry of the request at hand. Never a secret. */
export const auditDetail = (detail: Record<string, Schema.Json>): Effect.Effect<void> =>
  Effect.map(CurrentRequest, (info) => {
    if (info !== null) Object.assign(info.journal.audit, detail)
  })

/** For handlers whose path does not name what they act on. */
export const auditResource = (resource: AuditResource): Effect.Effect<void> =>
  Effect.map(CurrentRequest, (info) => {
    const call = info === null ? undefined : calls.get(info)
    if (call !== undefined) call.resource = resource
  })

/** For sign-ins: who it turned out to be. */
export const auditActor = (actor: Omit<AuditActor, "kind">): Effect.Effect<void> =>
  Effect.map(CurrentRequest, (info) => {
    const call = info === null ? undefined : calls.get(info)
    if (call !== undefined) call.actor = { kind: "user", ...actor }
  })
