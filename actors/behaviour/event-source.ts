/**
 * What this node tells of itself, its cameras and its disks. Needs no database: part of what captures and stores.
 *
 * Invariants
 * 1. States are told by the rule of {@link StateTeller}; what was last told outlives the process, so that a camera that was
 *    offline before a restart is told to be back after it, and one that was well is not told of again.
 * 2. A storage folder that was never in trouble is not told to be in order.
 */
import { Events } from "#actors/protocol/event.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import { type Assignment, RecorderSupervisor, type StreamHealth } from "#media/recorder.ts"
import { type FolderUsage, Storage } from "#media/storage.ts"
import type { EventDraft } from "#schema/event.ts"
import type { ResourceRef } from "#schema/permission.ts"
import { Clock, Duration, Effect, FileSystem, Layer, Schedule, Schema } from "effect"
import { StateTeller, type Telling } from "./event-told.ts"
import { EventBoot } from "./event.ts"

export interface EventSourceOptions {
  /** For people. */
  readonly nodeName: string
  /** A file that keeps what was last told. */
  readonly toldPath: string
}

type CameraState = Extract<StreamHealth, "online" | "degraded" | "offline" | "authFailed">
type FolderState = "ok" | "slowed" | "failed"

const cameraTypes = {
  online: "camera.online",
  degraded: "camera.degraded",
  offline: "camera.offline",
  authFailed: "camera.auth.failed",
} as const satisfies Record<CameraState, EventDraft["type"]>

const folderTypes = {
  ok: "storage.folder.recovered",
  slowed: "storage.folder.slowed",
  failed: "storage.folder.failed",
} as const satisfies Record<FolderState, EventDraft["type"]>

const folderStates = {
  ok: "ok",
  slow: "slowed",
  full: "failed",
  readOnly: "failed",
  missing: "failed",
  error: "failed",
} as const satisfies Record<FolderUsage["state"], FolderState>

const Told = Schema.fromJsonString(Schema.Struct({
  cameras: Schema.Record(Schema.String, Schema.Literals(["online", "degraded", "offline", "authFailed"])),
  folders: Schema.Record(Schema.String, Schema.Literals(["ok", "slowed", "failed"])),
}))
const decodeTold = Schema.decodeUnknownEffect(Told)
const nothingTold: typeof Told.Type = { cameras: {}, folders: {} }

const lookEvery = Duration.seconds(1)
/** A folder is asked of its disk, which may be slow. */
const foldersEvery = 5

/** The stream of an event: its camera and channel are what permissions look at. */
const cameraDraft = (
  assignment: Assignment,
  { changes, reason, sinceMs, state }: Telling<CameraState>,
): EventDraft => ({
  type: cameraTypes[state],
  subject: assignment.cameraId,
  timeMs: sinceMs,
  resource: placeOfStream(assignment),
  data: {
    name: assignment.cameraName,
    cameraId: assignment.cameraId,
    channelId: assignment.channelId,
    streamId: assignment.streamId,
    role: assignment.role,
    reason,
    changes,
  },
})

const placeOfStream = ({ cameraId, channelId }: Assignment): ReadonlyArray<ResourceRef> => [
  { kind: "channel", id: channelId },
  { kind: "camera", id: cameraId },
]

const isCameraState = (health: StreamHealth): health is CameraState => health in cameraTypes

/** Remembers over restarts what was told. */
const makeMemory = Effect.fnUntraced(function*(path: string) {
  const fs = yield* FileSystem.FileSystem
  const known = yield* fs.readFileString(path).pipe(Effect.flatMap(decodeTold), Effect.orElseSucceed(() => nothingTold))
  let kept = ""
  const keep = (told: typeof Told.Type) => {
    const text = JSON.stringify(told)
    if (text === kept) return Effect.void
    return fs.writeFileString(`${path}.new`, text, { mode: 0o600 }).pipe(
      Effect.andThen(fs.rename(`${path}.new`, path)),
      Effect.andThen(Effect.sync(() => kept = text)),
      Effect.catch((error) => Effect.logDebug("What was told could not be noted", error)),
    )
  }
  return { known, keep }
})

const watch = Effect.fnUntraced(function*(options: EventSourceOptions) {
  const [events, supervisor, storage] = yield* Effect.all([Events, RecorderSupervisor, Storage])
  const { known, keep } = yield* makeMemory(options.toldPath)
  const cameras = new StateTeller<CameraState>("degraded", new Map(Object.entries(known.cameras)))
  const folders = new StateTeller<FolderState>(null, new Map(Object.entries(known.folders)))
  const troubled = new Set(Object.entries(known.folders).flatMap(([name, state]) => state === "ok" ? [] : [name]))
  let round = 0

  const lookAtCameras = Effect.gen(function*() {
    const nowMs = yield* Clock.currentTimeMillis
    const statuses = supervisor.statuses().filter(({ health }) => health !== "disabled")
    for (const { health, reason, streamId } of statuses) {
      // On the way from one state to the next it is what it was.
      if (isCameraState(health)) cameras.see(streamId, health, reason, nowMs)
    }
    cameras.keepOnly(new Set(statuses.map(({ streamId }) => streamId)))
    const due = cameras.due(nowMs)
    if (due.length === 0) return
    const byStream = new Map((yield* supervisor.assignments).map((one) => [one.streamId as string, one]))
    for (const telling of due) {
      const assignment = byStream.get(telling.id)
      if (assignment !== undefined) yield* events.publish(cameraDraft(assignment, telling))
    }
  })

  const lookAtFolders = Effect.gen(function*() {
    const all = yield* storage.usage
    const nowMs = yield* Clock.currentTimeMillis
    for (const { detail, name, state } of all) folders.see(name, folderStates[state], detail, nowMs)
    for (const { id, reason, sinceMs, state } of folders.due(nowMs)) {
      const folder = all.find(({ name }) => name === id)
      if (folder === undefined || (state === "ok" && !troubled.has(id))) continue
      if (state === "ok") troubled.delete(id)
      else troubled.add(id)
      yield* events.publish({
        type: folderTypes[state],
        subject: id,
        timeMs: sinceMs,
        resource: [],
        data: { name: id, path: folder.path, state: folder.state, detail: reason },
      })
    }
  })

  const look = Effect.gen(function*() {
    yield* lookAtCameras
    if (round++ % foldersEvery === 0) yield* lookAtFolders
    yield* keep({ cameras: Object.fromEntries(cameras.told()), folders: Object.fromEntries(folders.told()) })
  }).pipe(Effect.catchCause((cause) => Effect.logError("States could not be told", cause)))
  yield* Effect.forkScoped(Effect.repeat(look, Schedule.spaced(lookEvery)))
})

const tellNode = Effect.fnUntraced(function*(type: "node.started" | "node.stopped", name: string) {
  const [events, boot, { nodeId }] = yield* Effect.all([Events, EventBoot, NodeIdentity])
  yield* events.publish({ type, subject: nodeId, id: `${boot}.${type}`, resource: [], data: { name } })
})

/** Tells at an orderly end that this node stops. Told twice is told once: above the log, and where there never was one. */
export const stopping = (name: string): Layer.Layer<never, never, Events | EventBoot | NodeIdentity> =>
  Layer.effectDiscard(Effect.acquireRelease(Effect.void, () => tellNode("node.stopped", name)))

export const layer = (options: EventSourceOptions) =>
  Layer.effectDiscard(Effect.andThen(tellNode("node.started", options.nodeName), watch(options))).pipe(
    Layer.merge(stopping(options.nodeName)),
  )
