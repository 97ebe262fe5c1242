/** Handlers of what other nodes show through this one. */
import { Federated, FederatedChannels } from "#actors/protocol/bff-federation.ts"
import { type PeerRequest, Peers } from "#actors/protocol/federation-peer.ts"
import { reach } from "#schema/permission.ts"
import { RecordingNotFound } from "#schema/record-config.ts"
import { Effect, Schema } from "effect"
import { HttpServerRequest } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { CurrentPrincipal, currentUser } from "../contract/access.ts"
import { BffFederationGroup } from "../contract/bff-federation.ts"
import { createdAt, nightjar, pageRequest } from "../contract/conventions.ts"
import { makeProxyGuard, makeTargets } from "./bff-proxy.ts"
import { auditDetail, auditResource } from "./http-audit.ts"
import { makeGuard } from "./http-resources.ts"

export const BffFederationHandlers = HttpApiBuilder.group(
  nightjar.add(BffFederationGroup),
  "bffFederation",
  Effect.fnUntraced(function*(handlers) {
    const [channels, federated, peers] = yield* Effect.all([FederatedChannels, Federated, Peers])
    const [guard, guardProxy, targetOf] = [yield* makeGuard, yield* makeProxyGuard, yield* makeTargets]

    const proxy = Effect.fnUntraced(function*(method: PeerRequest["method"], proxyPath: string, json?: Schema.Json) {
      const target = yield* targetOf(method, proxyPath)
      yield* auditDetail({ nodeId: target.nodeId, method, path: target.path })
      yield* guardProxy(yield* CurrentPrincipal, target)
      const { username } = yield* currentUser
      const { url } = yield* HttpServerRequest.HttpServerRequest
      const query = url.indexOf("?")
      return yield* peers.call(target.nodeId, {
        method,
        path: `${target.path}${query < 0 ? "" : url.slice(query)}`,
        ...(json === undefined ? {} : { body: { json } }),
        onBehalfOf: username,
      }, Schema.Json)
    })

    return handlers
      .handle("federationChannels", ({ query }) =>
        Effect.gen(function*() {
          const within = reach(yield* CurrentPrincipal, "camera:read")
          return yield* channels.list(query.nodeId ?? null, pageRequest(query), within)
        }))
      .handle("federatedTimeline", ({ params, query }) =>
        Effect.gen(function*() {
          return yield* federated.timeline(params.recordingToken, query, yield* currentUser)
        }))
      .handle("federatedMonth", ({ params, query: { month, timeZone } }) =>
        Effect.gen(function*() {
          return yield* federated.calendar(params.recordingToken, month, timeZone, yield* currentUser)
        }))
      .handle("federatedReplay", ({ payload }) =>
        Effect.gen(function*() {
          const { end, recordingToken: id, start } = payload
          const at = (ms: number) => new Date(ms).toISOString()
          yield* auditResource({ kind: "recordingToken", id })
          yield* auditDetail({ start: at(start), end: end === undefined ? null : at(end) })
          yield* guard("recording:replay", { kind: "recordingToken", id }, () => new RecordingNotFound({ id }))
          const made = yield* federated.open(payload, yield* currentUser)
          return createdAt(made.uri, made)
        }))
      .handle("readConfiguration", ({ params }) => proxy("GET", params["*"]))
      .handle("addConfiguration", ({ params, payload }) => proxy("POST", params["*"], payload))
      .handle("replaceConfiguration", ({ params, payload }) => proxy("PUT", params["*"], payload))
      .handle("deleteConfiguration", ({ params }) => proxy("DELETE", params["*"]))
  }),
)
