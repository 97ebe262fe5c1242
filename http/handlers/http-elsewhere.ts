/**
 * Requests for media that another member of the cluster serves: asked there as they came, answered here as it answers.
 *
 * Invariants
 * 1. A request is passed on once: what was passed on already is not passed on again.
 * 2. Bodies are streamed, `Range` with them; nothing is held whole.
 * 3. What the member refuses is refused here with its status and code; a member that does not answer is 503 with its name.
 * 4. Who may is asked here before, and there by what it is asked with. The caller's own credentials go only where the caller's request says so
 *    (a token in the path or the query).
 */
import { type OtherMember, Serving } from "#actors/protocol/camera-serving.ts"
import { Peers } from "#actors/protocol/federation-peer.ts"
import type { PeerRefused } from "#schema/federation.ts"
import { isSlot, type Slot } from "#schema/ownership.ts"
import type { Principal } from "#schema/permission.ts"
import { DependencyUnavailable } from "#schema/problem.ts"
import { Effect, Result, Stream } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { CurrentPrincipal } from "../contract/access.ts"
import { CurrentRequest, problemContentType, problemOf } from "../contract/errors.ts"

/** A live playlist is waited for by 12 s, a picture until the camera's next one. */
const patience = "20 seconds"
const passedOn = "nightjar-passed-on"
/** The token of a stream, from the member that the browser gave it to. */
export const streamTokenHeader = "nightjar-stream-token"

/** What a player asks with, and what it is told of a body (RFC 9110). */
const asked = ["range", "if-range", "user-agent", "content-type"]
const told = [
  "accept-ranges",
  "age",
  "cache-control",
  "content-length",
  "content-range",
  "content-type",
  "etag",
  "last-modified",
  "link",
  "location",
  "nightjar-sound",
]
const methods = ["GET", "POST", "PATCH", "DELETE"] as const

const kept = (headers: Readonly<Record<string, string>>, names: ReadonlyArray<string>): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => names.includes(name)))

/** What another node refused, as it refused it. */
export const refusal = Effect.fnUntraced(function*({ reason, theirCode, theirStatus }: PeerRefused) {
  if (theirStatus === 416) return HttpServerResponse.empty({ status: 416 })
  const request = yield* CurrentRequest
  const problem = { tag: theirCode, status: theirStatus, detail: reason, fields: {}, request }
  return HttpServerResponse.jsonUnsafe(problemOf(problem), { status: theirStatus, contentType: problemContentType })
})

/** Whoever watches, as the member may know him. */
const onBehalfOf = (principal: Principal): { readonly onBehalfOf?: string } => {
  if (principal.kind === "user") return { onBehalfOf: principal.username }
  if (principal.kind !== "peer") return {}
  const { name, onBehalfOf: who } = principal
  return { onBehalfOf: who === null ? name : `${who} (${name})` }
}

const away = (name: string) =>
  new DependencyUnavailable({
    dependency: "node",
    message: `The node "${name}" serves this and does not answer; try again in a moment.`,
  })

/** The home of a session's node, written before the session's own id. */
const homeOf = (sessionId: string): Slot | null => {
  const [slot = "", rest] = sessionId.split(".", 2)
  return rest !== undefined && isSlot(slot) ? slot : null
}

export const makeElsewhere = Effect.gen(function*() {
  const [peers, serving] = yield* Effect.all([Peers, Serving])

  /** The answer of that member to the request at hand. */
  const pass = Effect.fnUntraced(function*({ name, nodeId }: OtherMember, more: {
    readonly headers?: Readonly<Record<string, string>>
    readonly body?: string
  } = {}) {
    const { headers, method, url } = yield* HttpServerRequest.HttpServerRequest
    const principal = yield* CurrentPrincipal
    const { body, headers: added = {} } = more
    const bytes = body === undefined ? null : Buffer.from(body)
    const contentType = headers["content-type"] ?? "application/octet-stream"
    const sent = yield* peers.send(nodeId, {
      method: methods.find((one) => one === method) ?? "GET",
      path: url,
      headers: { ...kept(headers, asked), ...added, [passedOn]: "1" },
      ...(bytes === null ? {} : { body: { stream: Stream.make(bytes), contentType, contentLength: bytes.length } }),
      ...onBehalfOf(principal),
      timeout: patience,
      bulk: true,
    }).pipe(Effect.result)
    if (Result.isFailure(sent)) {
      const { failure } = sent
      if (failure._tag === "PeerRefused") return yield* refusal(failure)
      return yield* failure._tag === "DependencyUnavailable" ? failure : away(name)
    }
    const { body: media, headers: answered, status } = sent.success
    return HttpServerResponse.stream(method === "HEAD" ? Stream.empty : media, {
      status,
      headers: kept(answered, told),
    })
  })

  /** Null where the request came from another member already. */
  const unless = <E>(found: Effect.Effect<OtherMember | null, E>) =>
    Effect.flatMap(
      HttpServerRequest.HttpServerRequest,
      ({ headers }) => headers[passedOn] === undefined ? found : Effect.succeed(null),
    )

  return {
    pass,
    /** Who serves the stream instead of this node. */
    ofStream: (id: Parameters<typeof serving.ofStream>[0]) => unless(serving.ofStream(id)),
    /** Who has the session, by its id. */
    ofSession: (sessionId: string) => {
      const slot = homeOf(sessionId)
      return slot === null ? Effect.succeed(null) : unless(serving.atHome(slot))
    },
    member: (nodeId: Parameters<typeof serving.member>[0]) => unless(serving.member(nodeId)),
    /** The id of a session of this node, as other members may be asked for it; as it is while nobody knows this node's home. */
    named: (sessionId: string) =>
      serving.slot().pipe(Effect.map((slot) => `${slot}.${sessionId}`), Effect.orElseSucceed(() => sessionId)),
    /** The id that this node gave to a session of its own. */
    unnamed: (sessionId: string) =>
      homeOf(sessionId) === null ? sessionId : sessionId.slice(sessionId.indexOf(".") + 1),
  }
})
