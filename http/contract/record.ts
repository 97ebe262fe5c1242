/**
 * The record service: what shall be recorded, what is recorded and what is missing, its settings and storage.
 */
import { CameraId, ChannelId, Instant, Page, RecordingId, Uuid7 } from "#schema/common.ts"
import { EventEnvelope } from "#schema/event.ts"
import { ControlElsewhere } from "#schema/federation-failover.ts"
import { LicenseRestricted } from "#schema/license.ts"
import { InvalidCursor, InvalidInput, VersionConflict } from "#schema/problem.ts"
import {
  Recording,
  RecordingChannelNotFound,
  RecordingCreate,
  RecordingEventStatus,
  RecordingExists,
  RecordingModeUnsupported,
  RecordingNotFound,
  RecordingSettings,
  RecordingSettingsUpdate,
  RecordingUpdate,
  StoragePartition,
} from "#schema/record-config.ts"
import { IndexRebuild, IndexRebuildNotFound } from "#schema/record-index.ts"
import { Coverage, RecordingState } from "#schema/record.ts"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { access, AccessControl, Conventions } from "./access.ts"
import {
  accepted,
  created,
  extension,
  idempotencyKey,
  ifMatch,
  pageQuery,
  ToggleBody,
  versioned,
} from "./conventions.ts"
import { problems } from "./errors.ts"

const base = "/record/api/v1"
const params = { id: RecordingId }
const Recordings = Page(Recording)

const doc = (summary: string, description?: string) =>
  OpenApi.annotations(description === undefined ? { summary } : { summary, description })

const onRecordings = [
  HttpApiEndpoint.get("recordings", `${base}/recordings`, {
    query: {
      ...pageQuery,
      cameraId: Schema.optionalKey(CameraId),
      channelId: Schema.optionalKey(ChannelId),
      state: Schema.optionalKey(RecordingState),
    },
    success: Recordings,
    error: problems(InvalidCursor),
  }).annotateMerge(access("recording:read", { on: "handler", orPeer: true })).annotateMerge(
    doc("List all recordings", "In the order they were created."),
  ),
  HttpApiEndpoint.post("createRecording", `${base}/recordings`, {
    headers: idempotencyKey,
    payload: RecordingCreate,
    success: created(Recording),
    error: problems(
      ControlElsewhere,
      RecordingExists,
      RecordingModeUnsupported,
      RecordingChannelNotFound,
      LicenseRestricted,
    ),
  }).annotateMerge(access("recording:write", { on: "handler", orPeer: true })).annotateMerge(
    doc(
      "Create a recording",
      "One a channel and role. `mode` is `continuous`; `event` and `schedule` are answered with 501 " +
        "`recording_mode_unsupported` in this version. `retentionDays` and `maxBytes` come from the settings where left out.",
    ),
  ),
  HttpApiEndpoint.get("recordingsByChannel", `${base}/recordings/by-channel/:channel_id`, {
    params: { channel_id: ChannelId },
    query: pageQuery,
    success: Recordings,
    error: problems(InvalidCursor),
  }).annotateMerge(access("recording:read", { on: "handler", orPeer: true })).annotateMerge(
    doc("List recordings by channel id"),
  ),
] as const

const onRecording = [
  HttpApiEndpoint.get("recording", `${base}/recordings/:id`, {
    params,
    success: versioned(Recording),
    error: problems(RecordingNotFound),
  }).annotateMerge(access("recording:read", { on: { kind: "recording", param: "id" }, orPeer: true })).annotateMerge(
    doc("Get a recording"),
  ),
  HttpApiEndpoint.put("updateRecording", `${base}/recordings/:id`, {
    params,
    headers: ifMatch,
    payload: RecordingUpdate,
    success: versioned(Recording),
    error: problems(ControlElsewhere, RecordingNotFound, RecordingModeUnsupported, VersionConflict),
  }).annotateMerge(access("recording:write", { on: { kind: "recording", param: "id" }, orPeer: true })).annotateMerge(
    doc("Update a recording", "Replaces; what is left out goes back to its default. Channel and role stay."),
  ),
  HttpApiEndpoint.delete("deleteRecording", `${base}/recordings/:id`, {
    params,
    headers: ifMatch,
    success: HttpApiSchema.NoContent,
    error: problems(ControlElsewhere, RecordingNotFound, VersionConflict),
  }).annotateMerge(access("recording:write", { on: { kind: "recording", param: "id" }, orPeer: true })).annotateMerge(
    doc(
      "Delete a recording",
      "Deletes its footage too: from now on nothing of it is found, and the files go within a minute, through any restart. To " +
        "keep the footage, switch the recording off instead.",
    ),
  ),
  HttpApiEndpoint.post("toggleRecording", `${base}/recordings/:id/toggle`, {
    params,
    headers: { ...ifMatch, ...idempotencyKey },
    payload: ToggleBody,
    success: versioned(Recording),
    error: problems(ControlElsewhere, RecordingNotFound, VersionConflict),
  }).annotateMerge(access("recording:write", { on: { kind: "recording", param: "id" } })).annotateMerge(
    doc(
      "Toggle the recording enabled status",
      "Flips, or sets with `enabled`. Footage stays; the pause is a gap `operator_paused`.",
    ),
  ),
  HttpApiEndpoint.get("recordingEventStatus", `${base}/recordings/:id/event-status`, {
    params,
    success: RecordingEventStatus,
    error: problems(RecordingNotFound),
  }).annotateMerge(access("recording:read", { on: { kind: "recording", param: "id" } })).annotateMerge(
    doc("Get event status", "What the recording is doing, the gap that is open right now, and the last event."),
  ),
  HttpApiEndpoint.get("recordingEventHistory", `${base}/recordings/:id/event-history`, {
    params,
    query: { ...pageQuery, start: Schema.optionalKey(Instant), end: Schema.optionalKey(Instant) },
    success: Page(EventEnvelope),
    error: problems(RecordingNotFound, InvalidInput, InvalidCursor),
  }).annotateMerge(access("recording:read", { on: { kind: "recording", param: "id" } })).annotateMerge(
    doc(
      "Get event history",
      "Newest first: `recording.created`, `recording.changed`, `recording.toggled`, `recording.gap.opened`, " +
        "`recording.gap.closed`. Kept as many days as the settings say.",
    ),
  ),
  HttpApiEndpoint.get("recordingCoverage", `${base}/recordings/:id/coverage`, {
    params,
    query: { start: Instant, end: Instant },
    success: Coverage,
    error: problems(RecordingNotFound, InvalidInput),
  }).annotateMerge(access("recording:read", { on: { kind: "recording", param: "id" } })).annotateMerge(extension)
    .annotateMerge(
      doc(
        "Get the coverage of a recording",
        "Milliseconds expected, recorded and missing within the interval, and every gap with its cause. Expected is from the " +
          "creation of the recording, or the oldest footage that retention has left, to the newest stored fragment while it records, " +
          "to now otherwise; `recordedMs` and `missingMs` add up to `expectedMs`.",
      ),
    ),
] as const

const onService = [
  HttpApiEndpoint.get("recordingSettings", `${base}/settings/recording`, { success: versioned(RecordingSettings) })
    .annotateMerge(access("recording:read", { on: "service" })).annotateMerge(doc("Get recording service settings")),
  HttpApiEndpoint.post("updateRecordingSettings", `${base}/settings/recording`, {
    headers: { ...ifMatch, ...idempotencyKey },
    payload: RecordingSettingsUpdate,
    success: versioned(RecordingSettings),
    error: problems(VersionConflict),
  }).annotateMerge(access("system:write")).annotateMerge(
    doc(
      "Update recording service settings",
      "Merges. Recordings that exist keep the retention they were created with.",
    ),
  ),
  HttpApiEndpoint.post("refreshPartitions", `${base}/storage/partitions/refresh`, {
    success: Page(StoragePartition),
  }).annotateMerge(access("system:read")).annotateMerge(
    doc(
      "Refresh disk partitions",
      "Storage folders of the answering node: state, size, free, reserved and used bytes.",
    ),
  ),
  HttpApiEndpoint.post("rebuildIndex", `${base}/storage/index/rebuild`, {
    headers: idempotencyKey,
    success: accepted(IndexRebuild),
  }).annotateMerge(access("system:write")).annotateMerge(extension).annotateMerge(
    doc(
      "Rebuild the index of footage from the disks",
      "Reads the storage folders of the answering node: cameras and recordings that the database does not know are made again " +
        "from the node's assignments and from the headers of their footage, rows of files and gaps are added, corrected and removed. " +
        "Nothing on a disk is changed. Answers the job, or the one that is running already; it survives a restart.",
    ),
  ),
  HttpApiEndpoint.get("indexRebuild", `${base}/storage/index/rebuild/:id`, {
    params: { id: Uuid7 },
    success: IndexRebuild,
    error: problems(IndexRebuildNotFound),
  }).annotateMerge(access("system:read")).annotateMerge(extension).annotateMerge(
    doc("Get a rebuild of the index", "How far it is, and what it found."),
  ),
] as const

export class RecordGroup extends HttpApiGroup.make("record")
  .add(...onRecordings)
  .add(...onRecording)
  .add(...onService)
  .middleware(Conventions)
  .middleware(AccessControl)
  .annotateMerge(
    OpenApi.annotations({ title: "Record", description: "Recordings, their coverage, settings and storage." }),
  )
{}
