/** Many cameras at once: added by their addresses, read from a backup. */
import { Passphrase, passphraseHeader } from "#schema/camera-backup.ts"
import {
  BulkAdd,
  CameraImport,
  CameraJob,
  CameraJobId,
  CameraJobItem,
  CameraJobNotFound,
  ImportPlan,
  maxImportBytes,
  PassphraseWrong,
} from "#schema/camera-job.ts"
import { Page } from "#schema/common.ts"
import { InvalidCursor, InvalidInput } from "#schema/problem.ts"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { access, AccessControl, Conventions } from "./access.ts"
import { accepted, audited, extension, idempotencyKey, largeExtension, pageQuery } from "./conventions.ts"
import { problems } from "./errors.ts"

const base = "/camera/api/v1/cameras"
const doc = (summary: string, description: string) => OpenApi.annotations({ summary, description })
const passphrase = { [passphraseHeader]: Schema.optionalKey(Passphrase) }

const writing = [
  HttpApiEndpoint.post("bulkAdd", `${base}/bulk`, {
    headers: idempotencyKey,
    payload: BulkAdd,
    success: accepted(CameraJob),
  }).annotateMerge(access("camera:write", { on: "everything" })).annotateMerge(extension).annotateMerge(
    doc(
      "Add many cameras",
      "Up to 64 ONVIF cameras by their addresses, with credentials of their own or those of all: each is asked for its streams, four at " +
        "a time. 202 with a job; its items tell what became of each.",
    ),
  ),
  HttpApiEndpoint.post("planImport", `${base}/import/plan`, {
    headers: passphrase,
    payload: CameraImport,
    success: ImportPlan,
    error: problems(InvalidInput, PassphraseWrong),
  }).annotateMerge(access("camera:backup", { on: "everything" }))
    .annotateMerge(largeExtension(maxImportBytes)).annotateMerge(audited("none")).annotateMerge(
      doc(
        "Try a camera import",
        "What `cameras/import` would do with each camera of the document, and nothing else: `add`, `known` (it is there already), " +
          "`clash` (another camera has its address), `unsupported`, `invalid`. At most 10,000 cameras, 32 MiB.",
      ),
    ),
  HttpApiEndpoint.post("importCameras", `${base}/import`, {
    headers: { ...passphrase, ...idempotencyKey },
    payload: CameraImport,
    success: accepted(CameraJob),
    error: problems(InvalidInput, PassphraseWrong),
  }).annotateMerge(access("camera:backup", { on: "everything" }))
    .annotateMerge(largeExtension(maxImportBytes)).annotateMerge(
      doc(
        "Import cameras",
        "Adds the cameras of a document of `cameras/export` that are not here yet, with their ids, each whole or not at all, and changes " +
          "none that is. With the passphrase of the export they get their passwords. 202 with a job.",
      ),
    ),
] as const

const reading = [
  HttpApiEndpoint.get("cameraJob", `${base}/jobs/:job_id`, {
    params: { job_id: CameraJobId },
    success: CameraJob,
    error: problems(CameraJobNotFound),
  }).annotateMerge(access("camera:write", { on: "handler" })).annotateMerge(extension).annotateMerge(
    doc(
      "Get a job on cameras",
      "Jobs are kept for a week after their end. One goes on when its node starts again. A role that is narrowed to resource groups is " +
        "told of jobs all of whose cameras it reaches.",
    ),
  ),
  HttpApiEndpoint.get("cameraJobItems", `${base}/jobs/:job_id/items`, {
    params: { job_id: CameraJobId },
    query: pageQuery,
    success: Page(CameraJobItem),
    error: problems(CameraJobNotFound, InvalidCursor),
  }).annotateMerge(access("camera:write", { on: "handler" })).annotateMerge(extension).annotateMerge(
    doc("List the cameras of a job", "In the order they were given, with what became of each."),
  ),
] as const

export class CameraJobGroup extends HttpApiGroup.make("cameraJob")
  .add(...writing)
  .add(...reading)
  .middleware(Conventions)
  .middleware(AccessControl)
  .annotateMerge(OpenApi.annotations({ title: "Many cameras", description: "Cameras added and imported together." }))
{}
