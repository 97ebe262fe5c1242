/** Disks that fill, turn read-only or vanish: a small ext4 in a file, mounted for the test. Needs root and loop devices. */
import { makeFragmentBuilder } from "#media/fmp4.ts"
import type { FileWriter, Fragment, Storage } from "#media/storage.ts"
import type { StorageOptions } from "#media/storage/live.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { identityOf, parameters } from "./made-up-files.ts"
import { everything, life, optionsIn, t0 } from "./storage-life.ts"

const sh = (command: string, ...args: ReadonlyArray<string>): void => {
  execFileSync(command, args, { stdio: "pipe" })
}

const diskBytes = 48 * 1024 * 1024

interface Disk {
  readonly root: string
  readonly path: string
  readonly mount: () => void
  readonly unmount: () => void
}

const makeDisk = (): Disk => {
  const root = mkdtempSync(join(tmpdir(), "nightjar-disk-"))
  const image = join(root, "disk.img")
  const path = join(root, "main")
  mkdirSync(path)
  execFileSync("truncate", ["-s", String(diskBytes), image])
  sh("mkfs.ext4", "-q", "-F", "-m", "0", image)
  return { root, path, mount: () => sh("mount", "-o", "loop", image, path), unmount: () => sh("umount", "-l", path) }
}

const dropDisk = ({ path, root, unmount }: Disk): void => {
  try {
    unmount()
  } catch (error) {
    if (readdirSync(path).length > 0) throw error
  }
  rmSync(root, { recursive: true, force: true })
}

const disk = Effect.acquireRelease(
  Effect.sync(() => {
    const made = makeDisk()
    made.mount()
    return made
  }),
  (made) => Effect.sync(() => dropDisk(made)),
)

/** Prints why these tests cannot run here. */
const unavailable = (): boolean => {
  let made: Disk | null = null
  try {
    made = makeDisk()
    made.mount()
    return false
  } catch (error) {
    console.warn(`skipped: no loop mount here (${String(error).split("\n")[0]})`)
    return true
  } finally {
    if (made !== null) dropDisk(made)
  }
}

const options = ({ path, root }: Disk, floorBytes = 0): StorageOptions =>
  optionsIn(root, { folders: [{ name: "main", path, floorBytes }], probeEveryMs: 100, syncEveryMs: 50 })

const open = (storage: Storage["Service"], sequence = 0) =>
  storage.create(identityOf(1), parameters, { sequence, startMs: t0 })

/** Endless fragments of about 1 MiB. */
const bigFragments = () => {
  let ready: Array<Fragment> = []
  let at = 0
  const builder = makeFragmentBuilder({
    parameters,
    decodeTicks: 0,
    wallMs: (ticks) => t0 + ticks / 90,
    onFragment: (fragment) => ready.push(fragment),
  })
  return (): Fragment => {
    while (ready.length === 0) {
      const data = Buffer.alloc(105_000, at)
      builder.push({
        track: "video",
        data,
        key: at % 20 === 0,
        ticks: at * 9_000,
        durationTicks: 0,
        arrivalMs: t0 + at * 100,
        senderMs: null,
      })
      at++
    }
    const [next, ...rest] = ready
    ready = rest
    return next!
  }
}

/** Appends a fragment every few milliseconds until the writer fails; then its error. */
const writeUntilFailure = (writer: FileWriter, each: (count: number) => void = () => undefined) =>
  Effect.gen(function*() {
    const next = bigFragments()
    let count = 0
    const feed = Effect.forever(Effect.suspend(() => {
      writer.append(next())
      each(++count)
      return Effect.sleep(5)
    }))
    return yield* Effect.flip(Effect.raceFirst(writer.failure, feed))
  })

const state = (storage: Storage["Service"]) => Effect.map(storage.usage, ([folder]) => folder!.state)

const untilState = (storage: Storage["Service"], wanted: string) =>
  Effect.gen(function*() {
    while ((yield* state(storage)) !== wanted) yield* Effect.sleep(20)
  })

describe.skipIf(unavailable())("a disk", () => {
  it.live(
    "that fills ends the file with what fitted; retention makes room and recording goes on",
    () =>
      Effect.scoped(Effect.gen(function*() {
        const made = yield* disk
        yield* life(options(made), (storage) =>
          Effect.gen(function*() {
            const writer = yield* open(storage)
            const error = yield* writeUntilFailure(writer)
            assert.deepInclude(error, { cause: "disk_full", code: "ENOSPC", folder: "main" })
            // Sealing needs a block for the index, which the cut of the torn fragment gives back.
            const file = yield* writer.seal
            assert.isAbove(file.fragments, 20)
            assert.strictEqual((yield* storage.index(file)).length, file.fragments)
            yield* storage.remove(file)
            yield* untilState(storage, "ok")
            const again = yield* open(storage, 1)
            const next = bigFragments()
            assert.isTrue(again.append(next()))
            assert.strictEqual((yield* again.seal).fragments, 1)
          }))
      })),
    60_000,
  )

  it.live(
    "that falls below half of its floor ends its files before it is full",
    () =>
      Effect.scoped(Effect.gen(function*() {
        const made = yield* disk
        yield* life(options(made, 20 * 1024 * 1024), (storage) =>
          Effect.gen(function*() {
            const writer = yield* open(storage)
            const error = yield* writeUntilFailure(writer)
            assert.deepInclude(error, { cause: "disk_full", code: "ENOSPC" })
            const file = yield* writer.seal
            assert.isTrue(file.sealed)
            assert.strictEqual((yield* Effect.flip(open(storage, 1))).cause, "disk_full")
            const gone = yield* storage.enforceRetention([{
              recordingId: file.recordingId,
              retentionDays: 1,
              maxBytes: 0,
            }])
            assert.deepStrictEqual(gone.map(({ id }) => id), [file.id])
          }))
      })),
    60_000,
  )

  it.live(
    "that turns read-only ends its files and, mounted again, has what was synced",
    () =>
      Effect.scoped(Effect.gen(function*() {
        const made = yield* disk
        yield* life(options(made), (storage) =>
          Effect.gen(function*() {
            const writer = yield* open(storage)
            // What a device error does to ext4: the journal is aborted, nothing reaches the disk any more.
            const error = yield* writeUntilFailure(writer, (count) => {
              if (count === 25) sh("mount", "-o", "remount,abort", made.path)
            })
            assert.strictEqual(error.cause, "disk_error")
            assert.include(["EROFS", "EIO"], error.code)
            yield* untilState(storage, "readOnly")
            assert.strictEqual((yield* Effect.flip(open(storage, 1))).cause, "disk_error")
            assert.strictEqual((yield* Effect.flip(writer.seal)).cause, "disk_error")
            made.unmount()
            made.mount()
            yield* Effect.sleep(15_200)
            yield* untilState(storage, "ok")
            // It is read and mended by itself.
            const sealed = () => storage.files(identityOf(1).recordingId, everything).filter((file) => file.sealed)
            while (sealed().length === 0) yield* Effect.sleep(20)
            const [found] = sealed()
            assert.isAbove(found!.fragments, 0)
            assert.strictEqual((yield* storage.index(found!)).length, found!.fragments)
            const [scanned] = yield* storage.scan({ repair: false })
            assert.strictEqual(scanned!.entries, found!.fragments)
            assert.strictEqual(scanned!.tornBytes, 0)
            assert.strictEqual((yield* (yield* open(storage, 1)).seal).fragments, 0)
          }))
      })),
    60_000,
  )

  it.live(
    "that is unmounted lazily ends its files, takes none, and is read again when it is back",
    () =>
      Effect.scoped(Effect.gen(function*() {
        const made = yield* disk
        yield* life(options(made), (storage) =>
          Effect.gen(function*() {
            const writer = yield* open(storage)
            const error = yield* writeUntilFailure(writer, (count) => {
              if (count === 5) made.unmount()
            })
            assert.deepInclude(error, { cause: "disk_error", code: "ENOENT" })
            assert.strictEqual(yield* state(storage), "missing")
            assert.strictEqual((yield* Effect.flip(open(storage, 1))).cause, "disk_error")
            assert.deepStrictEqual(readdirSync(made.path), [])
            // The file system lives on until its last file is closed.
            const file = yield* writer.seal
            made.mount()
            yield* untilState(storage, "ok")
            const [found] = yield* storage.scan({ repair: true })
            assert.strictEqual(found!.file.fragments, file.fragments)
            assert.strictEqual(storage.files(file.recordingId, everything).length, 1)
          }))
      })),
    60_000,
  )
})
