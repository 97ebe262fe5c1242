/**
 * A node without a disk and without a network: a camera, a storage and a vault that do what a test tells them, on the test's
 * clock. What the camera sent and what the storage took is kept for the checker.
 */
import type { LineDisk, LineDisks } from "#media/capture/line-disk.ts"
import { defaultRecorderOptions, type RecorderOptions } from "#media/capture/recorder.ts"
import { defaultSessionOptions } from "#media/capture/session.ts"
import { makeSupervisor } from "#media/capture/supervisor.ts"
import { makeFragmentBuilder } from "#media/fmp4.ts"
import type { Assignment } from "#media/recorder.ts"
import { type SourceDriver, SourceError, type SourceListener } from "#media/source.ts"
import { type FileWriter, type IndexEntry, Storage, StorageError } from "#media/storage.ts"
import type { CameraId, ChannelId, NodeId, RecordingId, RecordingToken, StreamId } from "#schema/common.ts"
import type { TrackParameters } from "#schema/media.ts"
import type { SegmentFile } from "#schema/record.ts"
import { uuid7 } from "#schema/uuid.ts"
import { Vault } from "#schema/vault.ts"
import { Clock, Deferred, Effect, Exit, Redacted, Scope, Stream } from "effect"
import { fileOrder, type MemoryFile } from "./capture-checker.ts"

export const parametersOf = (width: number): TrackParameters => ({
  video: {
    codec: "h264",
    width,
    height: 720,
    codecs: "avc1.640028",
    vps: new Uint8Array(0),
    sps: Uint8Array.of(0x67, 0x64, 0, 0x28, width & 255, width >> 8),
    pps: Uint8Array.of(0x68, 1),
  },
  audio: null,
})

/** A camera of 10 pictures a second and groups of 20. */
export class FakeCamera {
  mode: "ok" | "frozen" | "unreachable" | "wrongPassword" | "garbage" | "keyless" = "ok"
  parameters = parametersOf(1280)
  /** Pictures that will not arrive. */
  lose = 0
  /** Added to the ticks from now on. */
  jump = 0
  opened = 0
  open = 0
  sent = 0
  private cut: Deferred.Deferred<never, SourceError> | null = null

  error(reason: SourceError["reason"], detail: string): SourceError {
    return new SourceError({ reason, host: "192.0.2.1:554", path: "/main", packet: 0, byte: 0, detail })
  }

  disconnect(): Effect.Effect<void> {
    return this.cut === null ?
      Effect.void :
      Effect.asVoid(Deferred.fail(this.cut, this.error("closed", "connection reset")))
  }

  readonly driver: SourceDriver = {
    open: (_options, listener) =>
      Effect.gen({ self: this }, function*() {
        this.opened++
        yield* Effect.sleep(30)
        if (this.mode === "unreachable") return yield* this.error("unreachable", "connection refused")
        if (this.mode === "wrongPassword") return yield* this.error("unauthorized", "401 Unauthorized")
        if (this.mode === "garbage") return yield* this.error("protocol", "not RTSP")
        const cut = yield* Deferred.make<never, SourceError>()
        this.cut = cut
        this.open++
        return yield* Effect.raceFirst(this.play(listener), Deferred.await(cut)).pipe(
          Effect.ensuring(Effect.sync(() => this.open--)),
        )
      }),
  }

  /** Whether it has come by itself, for assignments of the kind that does. */
  private here = false
  private readonly waiting = new Set<() => void>()
  come(): void {
    this.here = true
    for (const go of this.waiting) go()
    this.waiting.clear()
  }
  leave(): Effect.Effect<void> {
    this.here = false
    const gone = this.error("publisherAway", "it went")
    return this.cut === null ? Effect.void : Effect.asVoid(Deferred.fail(this.cut, gone))
  }
  readonly comingDriver: SourceDriver = {
    ...this.driver,
    comes: {
      isHere: () => this.here,
      arrival: () =>
        Effect.callback<void>((resume) => {
          const go = () => resume(Effect.void)
          this.waiting.add(go)
          return Effect.sync(() => this.waiting.delete(go))
        }),
      awayText: "not here",
    },
  }

  private play(listener: SourceListener): Effect.Effect<never, SourceError> {
    return Effect.gen({ self: this }, function*() {
      let told: TrackParameters | null = null
      let ticks = 1_000_000
      for (let picture = 0;; picture++) {
        yield* Effect.sleep(100)
        ticks += 9_000
        if (this.mode === "frozen") continue
        if (this.lose > 0) {
          this.lose--
          listener.onLoss(3)
          continue
        }
        const changed = told !== this.parameters
        if (changed) {
          told = this.parameters
          listener.onParameters(told)
        }
        const key = (changed || picture % 20 === 0) && this.mode !== "keyless"
        this.sent++
        const arrivalMs = yield* Clock.currentTimeMillis
        listener.onUnit({
          track: "video",
          data: new Uint8Array(32),
          key,
          ticks: ticks + this.jump,
          durationTicks: 0,
          arrivalMs,
          senderMs: null,
        })
      }
    })
  }
}

/** Storage in memory. A file survives the process; what waits in a writer's queue does not. */
export class FakeDisk {
  /** `bug`: a new file is a defect. */
  mode: "ok" | "full" | "broken" | "slow" | "bug" = "ok"
  readonly files: Array<MemoryFile> = []
  private failures: Array<(error: StorageError) => void> = []
  deleted: Array<SegmentFile> = []

  error(cause: StorageError["cause"]): StorageError {
    return new StorageError({
      cause,
      folder: "main",
      code: cause === "disk_full" ? "ENOSPC" : "EIO",
      detail: "told to",
    })
  }

  /** Running writers fail; the newest fragments of each never reached the disk. */
  breakDown(mode: "full" | "broken", losing: number): void {
    this.mode = mode
    for (const file of this.files) {
      if (file.sealed) continue
      file.entries.splice(Math.max(0, file.entries.length - losing))
      file.dead = true
    }
    for (const fail of this.failures.splice(0)) fail(this.error(mode === "full" ? "disk_full" : "disk_error"))
  }

  /** What a kill leaves: the newest fragments are gone, growing files are sealed by the next process. */
  kill(losing: number): void {
    this.failures = []
    for (const file of this.files) {
      if (file.sealed) continue
      file.entries.splice(Math.max(0, file.entries.length - losing))
      file.sealed = true
      file.dead = true
    }
  }

  readonly service = Storage.of({
    create: (identity, parameters, first) =>
      Effect.gen({ self: this }, function*() {
        if (this.mode === "full") return yield* this.error("disk_full")
        if (this.mode === "broken") return yield* this.error("disk_error")
        if (this.mode === "bug") return yield* Effect.die(new Error("told to"))
        const file: MemoryFile = {
          id: yield* uuid7,
          identity,
          parameters,
          sequence: first.sequence,
          startMs: first.startMs,
          entries: [],
          sealed: false,
          dead: false,
        }
        this.files.push(file)
        const failure = yield* Deferred.make<never, StorageError>()
        this.failures.push((error) => Deferred.doneUnsafe(failure, Effect.fail(error)))
        const writer: FileWriter = {
          file: () => toSegmentFile(file),
          append: ({ bytes, decodeTicks, discontinuity, durationTicks, endMs, frames, key, startMs }) => {
            if (file.dead || file.sealed || this.mode === "slow") return false
            const entry: IndexEntry = {
              startMs,
              endMs,
              decodeTicks,
              durationTicks,
              offset: 0,
              bytes,
              frames,
              key,
              discontinuity,
            }
            file.entries.push(entry)
            return true
          },
          room: () => Number.MAX_SAFE_INTEGER,
          failure: Deferred.await(failure),
          seal: Effect.sync(() => {
            file.sealed = true
            return toSegmentFile(file)
          }),
        }
        return writer
      }),
    index: (file) => Effect.sync(() => this.files.find(({ id }) => id === file.id)?.entries ?? []),
    fragments: () => Effect.die(new Error("capture reads files one by one")),
    outlines: () => Effect.die(new Error("capture reads files one by one")),
    shown: () => Effect.die(new Error("capture shows nothing")),
    files: (recordingId, { end, start }) =>
      this.files.filter((file) => file.identity.recordingId === recordingId).map(toSegmentFile)
        .filter((file) => file.startMs < end && file.endMs > start).sort(fileOrder),
    init: () => Effect.succeed(new Uint8Array(0)),
    path: ({ id }) => id,
    parameters: () => Effect.succeed(parametersOf(1280)),
    recordings: () => [...new Set(this.files.map((file) => file.identity.recordingId))],
    origin: () => Effect.succeed(null),
    scan: () => Effect.succeed([]),
    enforceRetention: () => Effect.sync(() => this.deleted.splice(0)),
    remove: () => Effect.void,
    departed: () => null,
    bytes: () => Stream.empty,
    quarantine: {
      open: () => Effect.die("unused"),
      adopt: () => Effect.die("unused"),
      ids: Effect.succeed([]),
      discard: () => Effect.void,
    },
    usage: Effect.succeed([]),
  })
}

export const toSegmentFile = (file: MemoryFile): SegmentFile => ({
  id: file.id,
  ...file.identity,
  sequence: file.sequence,
  folder: "main",
  startMs: file.entries[0]?.startMs ?? file.startMs,
  endMs: file.entries.at(-1)?.endMs ?? file.startMs,
  bytes: file.entries.reduce((sum, entry) => sum + entry.bytes, 0),
  fragments: file.entries.length,
  frames: file.entries.reduce((sum, entry) => sum + entry.frames, 0),
  sealed: file.sealed,
})

const id = (n: number) => `01900000-0000-7000-8000-${String(n).padStart(12, "0")}`
export const streamId = id(1) as StreamId
export const recordingId = id(2) as RecordingId

export const assignment = (change: Partial<Assignment> = {}): Assignment => ({
  streamId,
  cameraId: id(3) as CameraId,
  channelId: id(4) as ChannelId,
  cameraName: "Front door",
  channelName: "Channel 1",
  role: "main",
  driver: "rtsp",
  url: "rtsp://192.0.2.1/main",
  username: "viewer",
  password: Redacted.make("secret"),
  transport: "tcp",
  nodeId: id(5) as NodeId,
  epoch: 1,
  enabled: true,
  recording: { recordingId, recordingToken: id(6) as RecordingToken, enabled: true, retentionDays: 30, maxBytes: 0 },
  ...change,
})

/** The wall clock can be set; the monotonic one goes on. `stand`: both go on while nothing here runs. */
export const makeSettableClock = (under: Clock.Clock) => {
  let offset = 0
  let stood = 0n
  // The test's clock stays underneath: `TestClock.adjust` has to find it.
  const clock: Clock.Clock = Object.assign(Object.create(under) as Clock.Clock, {
    currentTimeMillisUnsafe: () => under.currentTimeMillisUnsafe() + offset,
    currentTimeMillis: Effect.map(under.currentTimeMillis, (ms) => ms + offset),
    currentTimeNanosUnsafe: () => under.currentTimeNanosUnsafe() + BigInt(offset) * 1_000_000n,
    currentTimeNanos: Effect.map(under.currentTimeNanos, (ns) => ns + BigInt(offset) * 1_000_000n),
    monotonicTimeNanosUnsafe: () => under.monotonicTimeNanosUnsafe() + stood,
    monotonicTimeNanos: Effect.map(under.monotonicTimeNanos, (ns) => ns + stood),
  })
  const set = (byMs: number) => void (offset += byMs)
  const stand = (ms: number) => {
    set(ms)
    stood += BigInt(ms) * 1_000_000n
  }
  return { clock, set, stand }
}

/** Files of the node itself; they survive the process. With `writeMs` a write takes that long, and a kill may come before it is done. */
export class FakeFolder {
  private readonly texts: Map<string, string>
  private readonly writeMs: number
  private dead = false

  constructor(writeMs = 0, texts: ReadonlyMap<string, string> = new Map()) {
    this.writeMs = writeMs
    this.texts = new Map(texts)
  }

  /** What the next process finds; what this one still writes is lost. */
  kill(): FakeFolder {
    this.dead = true
    return new FakeFolder(this.writeMs, this.texts)
  }

  private write(name: string, change: (before: string) => string): Effect.Effect<void> {
    const apply = Effect.sync(() => {
      if (!this.dead) this.texts.set(name, change(this.texts.get(name) ?? ""))
    })
    return this.writeMs === 0 ? apply : Effect.andThen(Effect.sleep(this.writeMs), apply)
  }

  private disk(name: string): LineDisk {
    return {
      load: Effect.sync(() => this.texts.get(name) ?? ""),
      append: (text) => this.write(name, (before) => before + text),
      replace: (text) => this.write(name, () => text),
    }
  }

  readonly service: LineDisks = {
    open: (name) => Effect.sync(() => this.disk(name)),
    list: (folder) =>
      Effect.sync(() =>
        [...this.texts.keys()].filter((name) => name.startsWith(`${folder}/`)).map((name) =>
          name.slice(folder.length + 1)
        )
      ),
    remove: (name) => Effect.sync(() => void this.texts.delete(name)),
  }
}

const vault = Vault.of({
  seal: (context, secret) =>
    Effect.succeed(`sealed:${context}:${Buffer.from(Redacted.value(secret)).toString("base64url")}`),
  open: (_context, sealed) =>
    Effect.succeed(Redacted.make(Buffer.from(sealed.split(":")[2] ?? "", "base64url").toString())),
})

/** Starts a node; `stop` ends it in order. For a kill, `FakeDisk.kill` and `FakeFolder.kill` come first: what it still does is lost. */
export const startNode = Effect.fnUntraced(
  function*(camera: FakeCamera, disk: FakeDisk, folder: FakeFolder, recorder: Partial<RecorderOptions> = {}) {
    const scope = yield* Scope.make()
    const { live, rings, supervisor } = yield* makeSupervisor({
      drivers: { rtsp: camera.driver, mobile: camera.comingDriver },
      makeBuilder: makeFragmentBuilder,
      session: defaultSessionOptions,
      recorder: { ...defaultRecorderOptions, ...recorder },
      journalMaxBytes: 1_000_000,
    }, folder.service).pipe(
      Effect.provideService(Storage, disk.service),
      Effect.provideService(Vault, vault),
      Scope.provide(scope),
    )
    return {
      supervisor,
      live,
      rings,
      stop: Scope.close(scope, Exit.void),
    }
  },
)
