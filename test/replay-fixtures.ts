/** The replay slice without a database: its store in memory, its entity in a cluster of one. */
import { layer as entityLayer } from "#actors/behaviour/replay-entity.ts"
import { layer as replaysLayer } from "#actors/behaviour/replay.ts"
import { layer as searchLayer } from "#actors/behaviour/search.ts"
import { PeerTokens } from "#actors/protocol/auth-federation.ts"
import { Sessions } from "#actors/protocol/auth-users.ts"
import { AccessTokens } from "#actors/protocol/auth.ts"
import { Recordings } from "#actors/protocol/record.ts"
import { type ReplaySessionRow, ReplayStore } from "#actors/store/replay.ts"
import { Ownership } from "#cluster/ownership.ts"
import { layer as hlsLayer } from "#media/hls/live.ts"
import { Storage } from "#media/storage.ts"
import type { NodeId, RecordingId, RecordingToken } from "#schema/common.ts"
import { entityId, slots } from "#schema/ownership.ts"
import { DependencyUnavailable, VersionConflict } from "#schema/problem.ts"
import { type Recording, RecordingNotFound } from "#schema/record-config.ts"
import type { Gap, SegmentFile } from "#schema/record.ts"
import { defaultReplayConfig, type ReplayConfig } from "#schema/replay.ts"
import { Effect, Layer } from "effect"
import { MessageStorage, RunnerHealth, Runners, RunnerStorage, ShardId, Sharding, ShardingConfig } from "effect/cluster"
import { TestClock } from "effect/testing"
import type { Recorded } from "./media/recorded.ts"

const slot = slots[0]!
const shards = 4
const nodeId = "01934b3e-000e-7000-8000-000000000001" as NodeId

/** One runner that serves the slot of the tests. */
const runner = Sharding.layer.pipe(
  Layer.provideMerge(Runners.layerNoop),
  Layer.provideMerge(MessageStorage.layerMemory),
  Layer.provide([RunnerStorage.layerMemory, RunnerHealth.layerNoop]),
  Layer.provide(ShardingConfig.layer({
    shardsPerGroup: shards,
    availableShardGroups: ["default", slot],
    assignedShardGroups: ["default", slot],
    entityMailboxCapacity: 16,
    entityTerminationTimeout: 0,
    refreshAssignmentsInterval: 50,
    entityMessagePollInterval: 50,
  })),
)

/** A send that comes before the shards sleeps on the clock of its sender, which in a test may stand still. */
const withShards = Layer.effectDiscard(Effect.gen(function*() {
  const sharding = yield* Sharding.Sharding
  const ids = Array.from({ length: shards }, (_, n) => ShardId.make(slot, n + 1))
  while (!ids.every((id) => sharding.hasShardId(id))) yield* Effect.sleep(20)
}))

/** On the real clock even where the test has its own: years of that one are a few leases too many. */
const runnerOnRealClock = Layer.effectContext(
  TestClock.withLive(Layer.build(withShards.pipe(Layer.provideMerge(runner)))),
)

/** What a test may do to the world beneath the service. */
export interface ReplayWorld {
  /** The database is away. */
  away: boolean
  /** It takes questions and answers none. */
  hanging: boolean
  /** Reads of sessions so far. */
  reads: number
  /** Sign-ins that have ended as the tables say it, and as this node has heard. */
  readonly endedSignIns: { readonly written: Set<string>; readonly heard: Set<string> }
  readonly rows: Map<string, ReplaySessionRow>
}

export const newWorld = (): ReplayWorld => ({
  away: false,
  hanging: false,
  reads: 0,
  endedSignIns: { written: new Set(), heard: new Set() },
  rows: new Map(),
})

const signIns = ({ endedSignIns }: ReplayWorld) =>
  Layer.mergeAll(
    Layer.mock(Sessions, { isLive: (id) => Effect.sync(() => !endedSignIns.written.has(id)) }),
    Layer.mock(AccessTokens, { hasEnded: (id) => Effect.sync(() => endedSignIns.heard.has(id)) }),
    Layer.mock(PeerTokens, {}),
  )

const memoryStore = (world: ReplayWorld) => {
  let config: ReplayConfig = { ...defaultReplayConfig, version: 1 }
  const away = new DependencyUnavailable({ dependency: "database", message: "away" })
  const asked = <A>(answer: () => A) => Effect.suspend(() => world.away ? Effect.fail(away) : Effect.sync(answer))
  const revoke = (digest: string, nowMs: number) => {
    const row = world.rows.get(digest)
    if (row !== undefined) world.rows.set(digest, { ...row, revokedAt: row.revokedAt ?? nowMs })
  }
  const live = (userId: string, nowMs: number) =>
    [...world.rows.values()].filter((row) => row.userId === userId && row.revokedAt === null && row.expiresAt > nowMs)
  return Layer.succeed(ReplayStore, {
    insert: (_writer, row, keep) =>
      asked(() => {
        world.rows.set(row.digest, row)
        const newestFirst = live(row.userId, row.createdAt).sort((a, b) => b.createdAt - a.createdAt)
        for (const old of newestFirst.slice(keep)) revoke(old.digest, row.createdAt)
      }),
    revoke: (_writer, digest, nowMs) => asked(() => revoke(digest, nowMs)),
    get: (digest) =>
      Effect.suspend(() => world.hanging ? Effect.uninterruptible(Effect.never) : Effect.void).pipe(
        Effect.andThen(asked(() => {
          world.reads++
          return world.rows.get(digest) ?? null
        })),
      ),
    ofUser: (userId, nowMs) => asked(() => live(userId, nowMs)),
    prune: () => asked(() => undefined),
    config: () => asked(() => config),
    saveConfig: (update, ifMatch) =>
      Effect.suspend(() => {
        if (ifMatch !== null && ifMatch !== config.version) {
          return Effect.fail(new VersionConflict({ message: "stale" }))
        }
        config = { ...update, version: config.version + 1 }
        return Effect.succeed(config)
      }),
  })
}

const owning = Layer.succeed(
  Ownership,
  {
    nodeId,
    slot,
    epochOf: () => Effect.succeed(1),
    entityId: (id: string) => entityId(slot, id),
  } as unknown as Ownership["Service"],
)

/** One recording, whose files and gaps a test tells. */
export const oneRecording = (
  recording: { readonly recordingId: RecordingId; readonly recordingToken: RecordingToken },
  files: () => ReadonlyArray<SegmentFile>,
  gaps: () => ReadonlyArray<Gap> = () => [],
): Layer.Layer<Recordings> => {
  const of = <A>(token: string, answer: () => A) =>
    token === recording.recordingToken ? Effect.sync(answer) : Effect.fail(new RecordingNotFound({ id: token }))
  return Layer.succeed(
    Recordings,
    {
      byToken: (token: string) =>
        of(token, () =>
          ({ id: recording.recordingId, recordingToken: recording.recordingToken, state: "recording" }) as Recording),
      files: (token: string, within: { readonly start: number; readonly end: number }) =>
        of(token, () =>
          files().filter((file) => file.startMs < within.end && file.endMs > within.start)),
      gaps: (token: string) => of(token, gaps),
      bounds: (token: string) =>
        of(
          token,
          () => files().length === 0 ? null : { oldestMs: files()[0]!.startMs, newestMs: files().at(-1)!.endMs },
        ),
      coverage: (_id: string, within: { readonly start: number; readonly end: number }) =>
        Effect.sync(() => ({
          recordingToken: recording.recordingToken,
          ...within,
          expectedMs: within.end - within.start,
          recordedMs: within.end - within.start,
          missingMs: 0,
          gaps: [],
        })),
    } as unknown as Recordings["Service"],
  )
}

export const replayLayer = (world: ReplayWorld, clock: "test" | "real") =>
  replaysLayer.pipe(
    Layer.provideMerge(entityLayer),
    Layer.provide([memoryStore(world), owning, signIns(world)]),
    Layer.provide(clock === "real" ? runner : runnerOnRealClock),
  )

/** Search, replay and HLS over what was recorded; between two files the camera was away. */
export const replayServices = (storage: Storage["Service"], { files, identity }: Recorded) => {
  const gaps = files.slice(1).map((file, i): Gap => ({
    start: files[i]!.endMs,
    end: file.startMs,
    cause: "camera_offline",
  }))
  return Layer.build(
    Layer.mergeAll(replayLayer(newWorld(), "real"), hlsLayer, searchLayer).pipe(
      Layer.provideMerge(oneRecording(identity, () => files, () => gaps)),
      Layer.provide(Layer.succeed(Storage, storage)),
    ),
  )
}
