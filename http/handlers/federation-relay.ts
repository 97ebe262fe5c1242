/** Handlers of the relay: playlists sewn here, files streamed from the node that has them. */
import { Federated } from "#actors/protocol/bff-federation.ts"
import type { PeerRefused } from "#schema/federation.ts"
import { Effect } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { CurrentPrincipal, currentUser } from "../contract/access.ts"
import { nightjar } from "../contract/conventions.ts"
import { FederationRelayGroup } from "../contract/federation-relay.ts"
import { makeElsewhere } from "./http-elsewhere.ts"
import { makeSendFound } from "./replay-found.ts"
import { sendPlaylist } from "./replay-media.ts"

const playlists = ["master.m3u8", "playlist.m3u8", "subtitle-playlist.m3u8"] as const
const isPlaylist = (name: string): name is (typeof playlists)[number] =>
  (playlists as ReadonlyArray<string>).includes(name)

/** A range beyond the end is the player's own affair, and is told as the node told it. */
const unsatisfied = (error: PeerRefused) =>
  error.theirStatus === 416 ? Effect.succeed(HttpServerResponse.empty({ status: 416 })) : Effect.fail(error)

export const FederationRelayHandlers = HttpApiBuilder.group(
  nightjar.add(FederationRelayGroup),
  "federationRelay",
  Effect.fnUntraced(function*(handlers) {
    const [elsewhere, federated, send] = [yield* makeElsewhere, yield* Federated, yield* makeSendFound]
    return handlers
      .handle("relay", ({ params: { fedSessionId, filename, nodeId } }) =>
        Effect.gen(function*() {
          const other = yield* elsewhere.ofSession(fedSessionId)
          if (other !== null) {
            return yield* elsewhere.pass(other)
          }
          if (isPlaylist(filename)) {
            return yield* sendPlaylist(yield* federated.playlist(fedSessionId, nodeId, filename))
          }
          const { headers } = yield* HttpServerRequest.HttpServerRequest
          return yield* send(yield* federated.relay(fedSessionId, nodeId, { filename, headers }))
        }).pipe(Effect.catchTag("PeerRefused", unsatisfied)))
      .handle("offeredChannels", () =>
        Effect.gen(function*() {
          return { items: yield* federated.offered(yield* CurrentPrincipal) }
        }))
      .handle("remap", ({ params }) =>
        Effect.gen(function*() {
          const { username } = yield* currentUser
          return yield* federated.remap(params.nodeId, username)
        }))
  }),
)
