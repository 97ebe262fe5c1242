/**
 * Handlers of players' connections that another member carries here.
 *
 * Invariant
 * 1. A line ends with the answer that opened it; its id is a credential besides the key of the member that opened it.
 */
import { RtspServer } from "#media/rtsp-server.ts"
import { rtspLineHeader, RtspLineId, RtspLineNotFound } from "#schema/federation-rtsp.ts"
import { DependencyUnavailable, Forbidden } from "#schema/problem.ts"
import { Effect } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { randomBytes } from "node:crypto"
import { currentPeer } from "../contract/access.ts"
import { nightjar } from "../contract/conventions.ts"
import { FederationRtspGroup } from "../contract/federation-rtsp.ts"

const closed = () =>
  new DependencyUnavailable({ dependency: "rtsp", message: "Nothing listens for players by RTSP on this node." })

export const FederationRtspHandlers = HttpApiBuilder.group(
  nightjar.add(FederationRtspGroup),
  "federationRtsp",
  Effect.fnUntraced(function*(handlers) {
    const rtsp = yield* RtspServer
    const lines = new Map<RtspLineId, { readonly nodeId: string; readonly send: (bytes: Uint8Array) => void }>()
    return handlers
      .handle("openRtspLine", () =>
        Effect.gen(function*() {
          const { nodeId, relation } = yield* currentPeer
          if (relation !== "member") return yield* new Forbidden({ message: "Only members of the cluster do this" })
          const { received, send } = yield* Effect.mapError(rtsp.join, closed)
          const id = RtspLineId.make(randomBytes(24).toString("base64url"))
          yield* Effect.acquireRelease(
            Effect.sync(() => lines.set(id, { nodeId, send })),
            () => Effect.sync(() => lines.delete(id)),
          )
          return HttpServerResponse.stream(received, {
            contentType: "application/octet-stream",
            headers: { [rtspLineHeader]: id, "cache-control": "no-store" },
          })
        }))
      .handle("feedRtspLine", ({ params: { lineId }, payload }) =>
        Effect.gen(function*() {
          const { nodeId } = yield* currentPeer
          const line = lines.get(lineId)
          if (line === undefined || line.nodeId !== nodeId) return yield* new RtspLineNotFound()
          line.send(payload)
        }))
  }),
)
