/**
 * Work on many cameras at once: cameras added from a list of addresses, cameras read from a backup. A job has one item a camera.
 *
 * Invariants
 * 1. Each camera is added whole or not at all, and its item says what became of it.
 * 2. A job belongs to the node that took it; it goes on where it was when that node starts again.
 */
import { Schema } from "effect"
import { backupFormat, maxBackupCameras, Sealing } from "./camera-backup.ts"
import { CameraCreate } from "./camera.ts"
import { CameraId, Instant, Uuid7 } from "./common.ts"

export const maxBulk = 64
/** Of a document of cameras, bytes: 10,000 of two streams are about 12 MiB. */
export const maxImportBytes = 32 * 1024 * 1024

export const CameraJobId = Uuid7.pipe(Schema.brand("CameraJobId"))
export type CameraJobId = typeof CameraJobId.Type

const Credentials = {
  username: Schema.optionalKey(CameraCreate.fields.username.schema),
  password: Schema.optionalKey(CameraCreate.fields.password.schema),
}

/** ONVIF cameras by their addresses, as discovery tells them; what a camera has not of its own is that of all. */
export const BulkAdd = Schema.Struct({
  cameras: Schema.Array(Schema.Struct({
    host: CameraCreate.fields.host.schema,
    port: CameraCreate.fields.port,
    name: Schema.optionalKey(CameraCreate.fields.name),
    ...Credentials,
  })).check(Schema.isMinLength(1), Schema.isMaxLength(maxBulk)),
  ...Credentials,
  tags: CameraCreate.fields.tags,
})
export type BulkAdd = typeof BulkAdd.Type

/** A backup as it comes: each camera is looked at by itself, so that one that cannot be read stops no other. */
export const CameraImport = Schema.Struct({
  format: Schema.Literal(backupFormat),
  version: Schema.Literal(1),
  sealing: Schema.NullOr(Sealing),
  cameras: Schema.Array(Schema.Unknown).check(Schema.isMinLength(1), Schema.isMaxLength(maxBackupCameras)),
})
export type CameraImport = typeof CameraImport.Type

/** `known`: it is there already. `clash`: another camera has its address or its parts. */
const notAdded = ["known", "clash", "unsupported", "invalid"] as const

export const ImportPlan = Schema.Struct({
  counts: Schema.Record(Schema.Literals(["add", ...notAdded]), Schema.Int),
  items: Schema.Array(Schema.Struct({
    /** Place in the document, from 0. */
    number: Schema.Int,
    name: Schema.String,
    outcome: Schema.Literals(["add", ...notAdded]),
    /** One line for a person; empty where there is nothing to say. */
    detail: Schema.String,
  })),
}).annotate({ identifier: "CameraImportPlan" })
export type ImportPlan = typeof ImportPlan.Type

/** `refused`: by the camera. `restricted`: by the licence. `failed`: by a fault of ours; the log tells. */
export const JobOutcome = Schema.Literals([
  "waiting",
  "added",
  ...notAdded,
  "refused",
  "restricted",
  "unreachable",
  "failed",
])
export type JobOutcome = typeof JobOutcome.Type

export const CameraJobItem = Schema.Struct({
  number: Schema.Int,
  name: Schema.String,
  host: Schema.NullOr(Schema.String),
  outcome: JobOutcome,
  detail: Schema.String,
  /** The camera that was added, or that is there already. */
  cameraId: Schema.NullOr(CameraId),
}).annotate({ identifier: "CameraJobItem" })
export type CameraJobItem = typeof CameraJobItem.Type

export const CameraJob = Schema.Struct({
  id: CameraJobId,
  kind: Schema.Literals(["bulk", "import"]),
  state: Schema.Literals(["running", "done"]),
  /** 0 to 1. */
  progress: Schema.Finite,
  error: Schema.NullOr(Schema.String),
  counts: Schema.Record(JobOutcome, Schema.Int),
  createdAt: Instant,
  finishedAt: Schema.NullOr(Instant),
}).annotate({ identifier: "CameraJob" })
export type CameraJob = typeof CameraJob.Type

export class CameraJobNotFound
  extends Schema.TaggedError<CameraJobNotFound>()("CameraJobNotFound", { id: Schema.String }, { httpApiStatus: 404 })
{
  override get message(): string {
    return `There is no job ${this.id}; jobs are kept for a week.`
  }
}

export class PassphraseWrong
  extends Schema.TaggedError<PassphraseWrong>()("PassphraseWrong", {}, { httpApiStatus: 409 })
{
  override get message(): string {
    return "The passphrase is not the one that the document was exported with."
  }
}
