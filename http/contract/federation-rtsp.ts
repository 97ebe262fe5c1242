/** Players' RTSP connections that one member of the cluster carries to another, which serves the stream. */
import { RtspLineId, RtspLineNotFound } from "#schema/federation-rtsp.ts"
import { DependencyUnavailable, Forbidden } from "#schema/problem.ts"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { access, AccessControl, Conventions } from "./access.ts"
import { audited, extension, Marks } from "./conventions.ts"
import { problems } from "./errors.ts"

const base = "/federation/api/v1/federation/rtsp-lines"
const doc = (summary: string, description: string) => OpenApi.annotations({ summary, description })
const bytes = Schema.Uint8Array.pipe(HttpApiSchema.asUint8Array({ contentType: "application/octet-stream" }))

const endpoints = [
  HttpApiEndpoint.post("openRtspLine", base, {
    success: bytes,
    error: problems(Forbidden, DependencyUnavailable),
  }).annotateMerge(access("peer")).annotate(Marks, { extension: true, streams: true }).annotateMerge(audited("none"))
    .annotateMerge(
      doc(
        "Carry a player's connection to this node's RTSP door (peer API)",
        "Members of the cluster only. The answer is what the door says, in frames with a length of four bytes before each, as long as it " +
          "is read; `nightjar-rtsp-line` tells where the player's words go. Who may watch is asked by the door, as of any player.",
      ),
    ),
  HttpApiEndpoint.post("feedRtspLine", `${base}/:lineId`, {
    params: { lineId: RtspLineId },
    payload: bytes,
    success: HttpApiSchema.NoContent,
    error: problems(RtspLineNotFound),
  }).annotateMerge(access("peer")).annotateMerge(extension).annotateMerge(audited("none")).annotateMerge(
    doc(
      "Tell the RTSP door what a player says (peer API)",
      "By the member that opened the line, one message after another.",
    ),
  ),
] as const

export class FederationRtspGroup extends HttpApiGroup.make("federationRtsp")
  .add(...endpoints)
  .middleware(Conventions)
  .middleware(AccessControl)
  .annotateMerge(OpenApi.annotations({ title: "RTSP between members", description: "Players' connections, carried." }))
{}
