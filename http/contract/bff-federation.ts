/**
 * What other nodes show through this one, for the dashboard: their channels, timelines and replay over all that hold footage of a
 * recording, their configuration. The media themselves are in `federation-relay.ts`.
 */
import {
  FederatedCalendar,
  FederatedChannel,
  FederatedReplay,
  FederatedReplayRequest,
  FederatedTimeline,
} from "#schema/bff-federation.ts"
import { Instant, NodeId, Page, RecordingToken } from "#schema/common.ts"
import { NodeNotFound, PeerRefused, PeerUnreachable } from "#schema/federation.ts"
import { InvalidCursor, InvalidInput } from "#schema/problem.ts"
import { RecordingNotFound } from "#schema/record-config.ts"
import { FootageNotFound } from "#schema/replay.ts"
import { CalendarMonth, TimeZoneName } from "#schema/search.ts"
import { Effect, Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { access, AccessControl, Conventions } from "./access.ts"
import { audited, created, extension, idempotencyKey, pageQuery } from "./conventions.ts"
import { problems } from "./errors.ts"

const base = "/bff/api/v1"
const doc = (summary: string, description: string) => OpenApi.annotations({ summary, description })

const timeZone = TimeZoneName.pipe(Schema.withDecodingDefaultKey(Effect.succeed("UTC")))

const footage = [
  HttpApiEndpoint.get("federationChannels", `${base}/federation-channels`, {
    query: { nodeId: Schema.optionalKey(NodeId), ...pageQuery },
    success: Page(FederatedChannel),
    error: problems(InvalidCursor),
  }).annotateMerge(access("camera:read", { on: "handler" })).annotateMerge(
    doc(
      "List federated local channel ids (routing hint)",
      "Channels of paired nodes under the ids that they have here, which resource groups may name. `present` is false of one that its " +
        "node does not tell of any more.",
    ),
  ),
  HttpApiEndpoint.get("federatedTimeline", `${base}/federation-search/recordings/:recordingToken/timeline`, {
    params: { recordingToken: RecordingToken },
    query: { start: Instant, end: Instant },
    success: FederatedTimeline,
    error: problems(RecordingNotFound, InvalidInput),
  }).annotateMerge(access("recording:search", { on: { kind: "recordingToken", param: "recordingToken" } }))
    .annotateMerge(
      doc(
        "Federated recording timeline proxy",
        "Spans and gaps of all nodes that hold footage of the recording, as one. Each node has three seconds; `partial` tells that one " +
          "could not answer, `sources` which.",
      ),
    ),
  HttpApiEndpoint.get("federatedMonth", `${base}/federation-search/recordings/:recordingToken/calendar/month`, {
    params: { recordingToken: RecordingToken },
    query: { month: CalendarMonth, timeZone },
    success: FederatedCalendar,
    error: problems(RecordingNotFound, InvalidInput),
  }).annotateMerge(access("recording:search", { on: { kind: "recordingToken", param: "recordingToken" } }))
    .annotateMerge(extension).annotateMerge(
      doc(
        "Dates with footage in a month, whichever node holds it",
        "`month` is YYYY-MM; dates are those of the time zone. Each node has three seconds; `partial` tells that one could not answer, " +
          "`sources` which.",
      ),
    ),
  HttpApiEndpoint.post("federatedReplay", `${base}/federation-replay/uri`, {
    headers: idempotencyKey,
    payload: FederatedReplayRequest,
    success: created(FederatedReplay),
    error: problems(RecordingNotFound, FootageNotFound, InvalidInput, PeerUnreachable, PeerRefused),
  }).annotateMerge(access("recording:replay", { on: "handler" })).annotateMerge(audited("view")).annotateMerge(
    doc(
      "Create a federated replay session",
      "Over whatever nodes hold the footage, as one playlist with a discontinuity at each seam. Without `end` it follows the recording, " +
        "also to another node.",
    ),
  ),
] as const

const proxyParams = { params: { "*": Schema.String.check(Schema.isMaxLength(2048)) } }
const proxied = problems(NodeNotFound, PeerUnreachable, PeerRefused, InvalidInput)
const proxyDoc = (summary: string) =>
  doc(
    summary,
    "The path is the node's id and a path of its interface, such as `{nodeId}/camera/api/v1/cameras`. Reached are cameras, channels, " +
      "streams and recordings, each with the permission that the operation itself asks for: of the caller here, and of this node there. " +
      "The answer is the other node's.",
  )

const proxy = [
  HttpApiEndpoint.get("readConfiguration", `${base}/federation-config/*`, {
    ...proxyParams,
    success: Schema.Json,
    error: proxied,
  }).annotateMerge(access("camera:read", { on: "handler" })).annotateMerge(
    proxyDoc("Proxy: read federation configuration"),
  ),
  HttpApiEndpoint.post("addConfiguration", `${base}/federation-config/*`, {
    ...proxyParams,
    payload: Schema.Json,
    success: Schema.Json,
    error: proxied,
  }).annotateMerge(access("camera:write", { on: "handler" })).annotateMerge(
    proxyDoc("Proxy: write federation configuration"),
  ),
  HttpApiEndpoint.put("replaceConfiguration", `${base}/federation-config/*`, {
    ...proxyParams,
    payload: Schema.Json,
    success: Schema.Json,
    error: proxied,
  }).annotateMerge(access("camera:write", { on: "handler" })).annotateMerge(
    proxyDoc("Proxy: write federation configuration"),
  ),
  HttpApiEndpoint.delete("deleteConfiguration", `${base}/federation-config/*`, {
    ...proxyParams,
    success: Schema.Json,
    error: proxied,
  }).annotateMerge(access("camera:write", { on: "handler" })).annotateMerge(
    proxyDoc("Proxy: write federation configuration"),
  ),
] as const

export class BffFederationGroup extends HttpApiGroup.make("bffFederation")
  .add(...footage, ...proxy)
  .middleware(Conventions)
  .middleware(AccessControl)
  .annotateMerge(OpenApi.annotations({
    title: "Federation for the dashboard",
    description: "What other nodes show through this one.",
  }))
{}
