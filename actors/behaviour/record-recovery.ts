/**
 * Makes cameras and recordings again that this node's assignments and footage tell of and the database does not: lost, new, or
 * an older backup.
 *
 * Invariants
 * 1. What the database knows to be deleted is not made again, and what it knows is not changed.
 * 2. Captures run on through it: they are assigned what they already do.
 * 3. Footage of a node that is there by itself is that node's to tell of.
 */
import { CameraRecovery } from "#actors/protocol/camera-recovery.ts"
import { RecordingActor } from "#actors/protocol/record.ts"
import { RecordStore } from "#actors/store/record.ts"
import { ask, later } from "#cluster/ask.ts"
import { Ownership } from "#cluster/ownership.ts"
import { RecorderSupervisor } from "#media/recorder.ts"
import { Storage } from "#media/storage.ts"
import { allTime, type NodeId, type RecordingId } from "#schema/common.ts"
import { entityId } from "#schema/ownership.ts"
import type { RecoveredCamera } from "#schema/record-index.ts"
import type { SegmentFile } from "#schema/record.ts"
import { Clock, Effect } from "effect"
import { cameraOf, type FoundFootage, foundOf, type FoundRecording } from "./record-found.ts"

/** Whether a file counts as this node's: its own, or of a node that nobody has heard of, whose disk came here. */
export const ownFiles = Effect.map(Ownership, ({ nodeId, owners }) =>
  Effect.map(owners, (all) => {
    const others = new Set<NodeId>(all.map((owner) => owner.homeNodeId))
    others.delete(nodeId)
    return (file: Pick<SegmentFile, "nodeId">) => !others.has(file.nodeId)
  }))

export interface Recovered {
  readonly cameras: ReadonlyArray<RecoveredCamera>
  readonly recordings: number
  readonly keptFrom: ReadonlyArray<{ readonly recordingId: RecordingId; readonly untilMs: number }>
}

export const makeRecovery = Effect.gen(function*() {
  const [store, cameras, supervisor, storage, clientOf, ownership] = yield* Effect.all([
    RecordStore,
    CameraRecovery,
    RecorderSupervisor,
    Storage,
    RecordingActor.client,
    Ownership,
  ])
  const isOwn = Effect.flatten(Effect.provideService(ownFiles, Ownership, ownership))

  /** Everything this node has that the database has never heard of. */
  const unheard = Effect.gen(function*() {
    const assignments = yield* supervisor.assignments
    const own = yield* isOwn
    const assigned = assignments.flatMap(({ recording }) => recording?.recordingId ?? [])
    const recordings = yield* store.strangers([...new Set([...assigned, ...storage.recordings()])])
    const others = yield* cameras.strangers([
      ...new Set(assignments.flatMap(({ cameraId, streamId }) => [cameraId, streamId])),
    ])
    const footage = new Map<RecordingId, FoundFootage["files"]>()
    for (const id of recordings) {
      const [first, ...rest] = storage.files(id, allTime).filter(own)
      if (first !== undefined) footage.set(id, [first, ...rest])
    }
    const known = [...recordings].filter((id) => footage.has(id) || assigned.includes(id))
    return { assignments, footage, ids: new Set<string>([...known, ...others]) }
  })

  const footageOf = Effect.fnUntraced(function*(id: RecordingId, files: FoundFootage["files"]) {
    const origin = yield* Effect.catchTag(
      storage.origin(files.at(-1) ?? files[0]),
      "StorageError",
      (error) => Effect.as(Effect.logWarning("The header of a file of footage cannot be read", error), null),
    )
    return { files, origin, gaps: supervisor.gaps(id, allTime) }
  })

  const create = ({ recording }: FoundRecording, slot: Parameters<typeof entityId>[0]) =>
    later(ask(clientOf(entityId(slot, recording.id)).Create({ recording }))).pipe(
      Effect.as(true),
      Effect.catchTag(["RecordingExists", "RecordingChannelNotFound"], (error) =>
        Effect.as(
          Effect.logWarning("A recording could not be made again", {
            recordingId: recording.id,
            reason: error.message,
          }),
          false,
        )),
    )

  /** Makes them; their files and gaps come into the index by a rebuild. */
  const recover = Effect.gen(function*() {
    const { assignments, footage, ids } = yield* unheard
    const gathered = new Map<RecordingId, FoundFootage>()
    for (const [id, files] of footage) gathered.set(id, yield* footageOf(id, files))
    yield* cameras.raiseEpochs([
      ...assignments,
      // Footage that goes on does so with an epoch that is not smaller.
      ...Array.from(gathered.values(), ({ files, origin }) => ({
        cameraId: cameraOf(files[0], origin),
        epoch: files.reduce((most, { epoch }) => Math.max(most, epoch), 0),
      })),
    ])
    const found = foundOf({
      assignments,
      footage: gathered,
      unheard: ids,
      nowMs: yield* Clock.currentTimeMillis,
      defaultDays: (yield* store.settings()).defaultRetentionDays,
    })
    const made: Array<RecoveredCamera> = []
    const keptFrom: Array<Recovered["keptFrom"][number]> = []
    let recordings = 0
    for (const camera of found.cameras) {
      const home = yield* cameras.recover(camera)
      if (home === null) continue
      let own = 0
      for (const one of found.recordings.filter(({ recording }) => recording.cameraId === camera.id)) {
        if (!(yield* create(one, home.slot))) continue
        own++
        if (one.keptFromMs !== null) keptFrom.push({ recordingId: one.recording.id, untilMs: one.keptFromMs })
      }
      recordings += own
      if (!home.made && own === 0) continue
      const working = camera.channels.some(({ streams }) => streams.some(({ source }) => source !== null))
      made.push({ cameraId: camera.id, name: camera.name, working, recordings: own })
      yield* Effect.logInfo("What the database did not know of a camera was recovered", {
        cameraId: camera.id,
        name: camera.name,
        from: working ? "its assignment" : "its footage",
      })
    }
    return { cameras: made, recordings, keptFrom } satisfies Recovered
  })

  return { unheard, recover }
})
