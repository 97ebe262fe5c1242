/**
 * Record-back: footage on its way home. The node that recorded asks as a peer; its jobs are watched and steered there.
 */
import { Page, Uuid7 } from "#schema/common.ts"
import {
  hardestSegmentBytes,
  maxFrontBytes,
  RecordBackJob,
  RecordBackNoRoom,
  RecordBackNotFound,
  RecordBackRefused,
  RecordBackSessionNotFound,
  RecordBackStateConflict,
  SegmentHead,
  SegmentInvalid,
  SegmentsTaken,
  SessionAnswer,
  SessionRequest,
  TransferKey,
  TransferKeyExpired,
} from "#schema/federation-recordback.ts"
import { InvalidCursor } from "#schema/problem.ts"
import { Schema } from "effect"
import { Multipart } from "effect/http"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { access, AccessControl, Conventions } from "./access.ts"
import { audited, pageQuery, streaming, streamingUpload } from "./conventions.ts"
import { problems } from "./errors.ts"

const base = "/federation/api/v1/federation/failover/recordback"
const doc = (summary: string, description: string) => OpenApi.annotations({ summary, description })
/** Seal and boundaries besides the bytes themselves. */
const overhead = 64 * 1024
const largestUpload = hardestSegmentBytes + maxFrontBytes + overhead

const Upload = Schema.Struct({
  segment: Schema.fromJsonString(SegmentHead),
  data: Multipart.SingleFileSchema,
}).pipe(HttpApiSchema.asMultipartStream({
  maxParts: 2,
  maxFieldSize: 4_096,
  maxFileSize: largestUpload,
}))

const home = [
  HttpApiEndpoint.get("transferKey", `${base}/transfer-key`, { success: TransferKey }).annotateMerge(access("peer"))
    .annotateMerge(
      doc(
        "Get the public key for record-back data-key transfer (peer API)",
        "An X25519 key that data keys are wrapped to (ECDH-ES+A256KW), signed by this node's Ed25519 key. It is replaced every hour; " +
          "the one before stays valid for as long. A restart forgets both: `sessions` answers `transfer_key_expired` then.",
      ),
    ),
  HttpApiEndpoint.post("openSession", `${base}/sessions`, {
    payload: SessionRequest,
    success: SessionAnswer,
    error: problems(RecordBackRefused, TransferKeyExpired, SegmentInvalid, RecordBackNoRoom),
  }).annotateMerge(access("peer")).annotateMerge(streaming).annotateMerge(
    doc(
      "Open a record-back session with a data-key envelope (peer API)",
      "For a node that was granted the guardianship. The envelope is a compact JWE (ECDH-ES+A256KW, A256GCM) of `{ rerouteId, from, to, " +
        "key }`; the key serves this session alone. The answer says of each segment of the manifest whether it is wanted, wanted in part " +
        "(`cut`), here already (`held` until its file is whole, `stored`), recorded by this node itself (`covered`), or refused.",
    ),
  ),
  HttpApiEndpoint.post("pushSegment", `${base}/segments`, {
    payload: Upload,
    success: SegmentsTaken,
    error: problems(RecordBackRefused, RecordBackSessionNotFound, SegmentInvalid, RecordBackNoRoom),
  }).annotateMerge(access("peer")).annotateMerge(streamingUpload(largestUpload)).annotateMerge(audited("none"))
    .annotateMerge(
      doc(
        "Push a record-back segment (peer API, multipart streaming)",
        "Two parts in this order: `segment` (`{ sessionId, recordingId, epoch, sequence }`) and `data`: a nonce of 12 bytes, the AES-256-GCM " +
          "ciphertext of the file's front and the segment's fragments, and the tag. Nothing of it is believed before seal, length, SHA-256, " +
          "identity, interval and fragments were checked. With the last segment of a file the answer has the receipts of all of them.",
      ),
    ),
] as const

const steering = (name: "pauseJob" | "resumeJob" | "retryJob", verb: string, summary: string, description: string) =>
  HttpApiEndpoint.post(name, `${base}/jobs/:id/${verb}`, {
    params: { id: Uuid7 },
    success: RecordBackJob,
    error: problems(RecordBackNotFound, RecordBackStateConflict),
  }).annotateMerge(access("federation:write")).annotateMerge(doc(summary, description))

const jobs = [
  HttpApiEndpoint.get("listJobs", `${base}/jobs`, {
    query: pageQuery,
    success: Page(RecordBackJob),
    error: problems(InvalidCursor),
  }).annotateMerge(access("federation:read")).annotateMerge(
    doc(
      "List record-back jobs (admin)",
      "Of this node, newest first: one a reroute that it served. `rateBps` and `estimatedEnd` while footage moves. Jobs that ended are " +
        "kept for 90 days.",
    ),
  ),
  steering(
    "pauseJob",
    "pause",
    "Pause a record-back job (admin)",
    "What is on its way is let go and sent again later; what came home stays there. A pause holds through restarts.",
  ),
  steering("resumeJob", "resume", "Resume a record-back job (admin)", "Goes on at the segment where it was."),
  steering(
    "retryJob",
    "retry",
    "Retry a record-back job (admin)",
    "For one that waits for its next attempt, has failed, or could not bring everything home: at once, and for all that is not home.",
  ),
] as const

export class RecordBackGroup extends HttpApiGroup.make("federationRecordback")
  .add(...home)
  .add(...jobs)
  .middleware(Conventions)
  .middleware(AccessControl)
  .annotateMerge(OpenApi.annotations({ title: "Record-back", description: "Footage on its way home." }))
{}
