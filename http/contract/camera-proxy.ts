/** The camera service, as far as live streams are passed on to players by RTSP. */
import { ProxyConfig, ProxySession, ProxyStream } from "#schema/camera-proxy.ts"
import { StreamNotFound } from "#schema/camera.ts"
import { Page, StreamId } from "#schema/common.ts"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { access, AccessControl, Conventions } from "./access.ts"
import { problems } from "./errors.ts"

const base = "/camera/api/v1/media-proxy"
const params = { path: StreamId }
const stream = { on: { kind: "stream", param: "path" } } as const

const doc = (summary: string, description?: string) =>
  OpenApi.annotations(description === undefined ? { summary } : { summary, description })

const endpoints = [
  HttpApiEndpoint.get("proxyConfig", `${base}/config`, { success: ProxyConfig }).annotateMerge(access("system:read"))
    .annotateMerge(doc("Get the media proxy global configuration", "Of the answering node.")),
  HttpApiEndpoint.get("proxySessions", `${base}/sessions`, { success: Page(ProxySession) })
    .annotateMerge(access("user:read")).annotateMerge(
      doc("List media proxy RTSP sessions", "Of the answering node, all of them on one page."),
    ),
  HttpApiEndpoint.get("proxyStreams", `${base}/streams`, { success: Page(ProxyStream) })
    .annotateMerge(access("camera:read", { on: "handler" })).annotateMerge(
      doc("List all media proxy streams", "Those that are read, or were ten seconds ago, on one page."),
    ),
  HttpApiEndpoint.get("proxyStream", `${base}/streams/:path`, {
    params,
    success: ProxyStream,
    error: problems(StreamNotFound),
  }).annotateMerge(access("camera:read", stream)).annotateMerge(
    doc("Get media proxy stream detail", "A stream that nobody reads is `idle`."),
  ),
  HttpApiEndpoint.delete("deleteProxyStream", `${base}/streams/:path`, {
    params,
    success: HttpApiSchema.NoContent,
    error: problems(StreamNotFound),
  }).annotateMerge(access("camera:write", stream)).annotateMerge(
    doc(
      "Delete a media proxy stream",
      "Ends its readers. Whoever may read it may come back, for a stream is passed on to whoever asks for it.",
    ),
  ),
] as const

export class CameraProxyGroup extends HttpApiGroup.make("cameraProxy")
  .add(...endpoints)
  .middleware(Conventions)
  .middleware(AccessControl)
  .annotateMerge(
    OpenApi.annotations({ title: "Media proxy", description: "Live streams by RTSP, and who reads them." }),
  )
{}
