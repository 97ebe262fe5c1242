/** Media of other nodes through this one, and the channels that nodes show to each other. */
import { FederatedSessionId, OfferedChannel, RemapReport } from "#schema/bff-federation.ts"
import { NodeId } from "#schema/common.ts"
import { NodeNotFound, PeerRefused, PeerUnreachable } from "#schema/federation.ts"
import { DependencyUnavailable } from "#schema/problem.ts"
import { FootageNotFound, ReplayFileNotFound, ReplaySessionEnded, ReplaySessionNotFound } from "#schema/replay.ts"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { access, AccessControl, Conventions } from "./access.ts"
import { extension, streaming } from "./conventions.ts"
import { problems } from "./errors.ts"
import { playlistType } from "./replay.ts"

const base = "/federation/api/v1"
const doc = (summary: string, description: string) => OpenApi.annotations({ summary, description })

const playlist = Schema.String.pipe(HttpApiSchema.asText({ contentType: playlistType }))
const media = Schema.Uint8Array.pipe(HttpApiSchema.asUint8Array({ contentType: "video/mp4" }))
const text = Schema.String.pipe(HttpApiSchema.asText({ contentType: "text/vtt" }))

const endpoints = [
  HttpApiEndpoint.get("relay", `${base}/federation-replay/hls/:nodeId/:fedSessionId/:filename`, {
    params: {
      nodeId: NodeId,
      fedSessionId: FederatedSessionId,
      filename: Schema.String.check(Schema.isMaxLength(160)),
    },
    success: [media, playlist, text],
    error: problems(
      ReplaySessionNotFound,
      ReplaySessionEnded,
      ReplayFileNotFound,
      FootageNotFound,
      PeerUnreachable,
      PeerRefused,
      DependencyUnavailable,
    ),
  }).annotateMerge(access("capability")).annotateMerge(streaming).annotateMerge(
    doc(
      "HLS relay (streaming, Range passthrough)",
      "Playlists under this node's id, files under that of the node which has them. `Range` is passed through; nothing is held whole.",
    ),
  ),
  HttpApiEndpoint.get("offeredChannels", `${base}/federation/channels`, {
    success: Schema.Struct({ items: Schema.Array(OfferedChannel) }),
  }).annotateMerge(access("peer")).annotateMerge(extension).annotateMerge(
    doc("List the channels that this node shows (peer API)", "What the grants of the asking node reach, on one page."),
  ),
  HttpApiEndpoint.post("remap", `${base}/federation/nodes/:nodeId/remap`, {
    params: { nodeId: NodeId },
    success: RemapReport,
    error: problems(NodeNotFound, PeerUnreachable, PeerRefused),
  }).annotateMerge(access("federation:write")).annotateMerge(
    doc(
      "Rebuild the channel mapping",
      "Asks the node for its channels. One that was known keeps its id here; the answer tells what changed.",
    ),
  ),
] as const

export class FederationRelayGroup extends HttpApiGroup.make("federationRelay")
  .add(...endpoints)
  .middleware(Conventions)
  .middleware(AccessControl)
  .annotateMerge(
    OpenApi.annotations({ title: "Federation relay", description: "Media of other nodes through this one." }),
  )
{}
