/** Recorded footage that one member of the cluster reads on another: what is there, where in a file, and the bytes. */
import { Instant, RecordingId, Uuid7 } from "#schema/common.ts"
import { FootageFileNotFound, FootageFiles, footagePath as base, FootageRows } from "#schema/federation-footage.ts"
import { DependencyUnavailable, Forbidden, InvalidInput } from "#schema/problem.ts"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { access, AccessControl, Conventions } from "./access.ts"
import { extension, Marks } from "./conventions.ts"
import { problems } from "./errors.ts"

const doc = (summary: string, description: string) => OpenApi.annotations({ summary, description })
const bytes = Schema.Uint8Array.pipe(HttpApiSchema.asUint8Array({ contentType: "application/octet-stream" }))
/** Name of a storage folder, as the list of files tells it. */
const folder = Schema.String.check(Schema.isMaxLength(256))
const Position = Schema.NumberFromString.check(
  Schema.isInt(),
  Schema.isBetween({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }),
)

const endpoints = [
  HttpApiEndpoint.get("listFootage", base, {
    query: { recordingId: RecordingId, start: Instant, end: Instant },
    success: FootageFiles,
    error: problems(Forbidden, InvalidInput),
  }).annotateMerge(access("peer")).annotateMerge(extension).annotateMerge(
    doc(
      "List this node's files of a recording (peer API)",
      "Members of the cluster only. Files on this node's disks that overlap the interval, by start, whoever recorded them.",
    ),
  ),
  HttpApiEndpoint.get("footageIndex", `${base}/:fileId/index`, {
    params: { fileId: Uuid7 },
    query: { folder },
    success: FootageRows,
    error: problems(Forbidden, FootageFileNotFound),
  }).annotateMerge(access("peer")).annotateMerge(extension).annotateMerge(
    doc("Get the index of a file of footage (peer API)", "Members of the cluster only. A row for each fragment."),
  ),
  HttpApiEndpoint.get("footageBytes", `${base}/:fileId/bytes`, {
    params: { fileId: Uuid7 },
    query: { folder, from: Position, to: Position },
    success: bytes,
    error: problems(Forbidden, InvalidInput, FootageFileNotFound, DependencyUnavailable),
  }).annotateMerge(access("peer")).annotate(Marks, { extension: true, streams: true }).annotateMerge(
    doc(
      "Read bytes of a file of footage (peer API)",
      "Members of the cluster only. `[from, to)`, 16 MiB at most; fewer where the file ends before.",
    ),
  ),
] as const

export class FederationFootageGroup extends HttpApiGroup.make("federationFootage")
  .add(...endpoints)
  .middleware(Conventions)
  .middleware(AccessControl)
  .annotateMerge(OpenApi.annotations({ title: "Footage between members", description: "Files read where they lie." }))
{}
