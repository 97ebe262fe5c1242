/** Lives of the storage in a temporary folder, for its tests. */
import { Storage } from "#media/storage.ts"
import { defaultStorageOptions, layer, type StorageOptions } from "#media/storage/live.ts"
import type { SegmentFile } from "#schema/record.ts"
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { existsSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fragmentsFrom, identityOf, parameters } from "./made-up-files.ts"

export const t0 = Date.parse("2026-03-01T12:00:00.000Z")

const temporaryIn = (folder: string) =>
  Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(folder, "nightjar-storage-"))),
    (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true })),
  )

/** A temporary directory that goes with the scope. */
export const temporary = temporaryIn(tmpdir())

const memory = "/dev/shm"
/** The same in memory, where there is such a place: for thousands of lives with a few KiB each, which wait for no disk. */
export const temporaryInMemory = temporaryIn(existsSync(memory) ? memory : tmpdir())

export const optionsIn = (root: string, more: Partial<StorageOptions> = {}): StorageOptions => ({
  ...defaultStorageOptions,
  folders: [{ name: "main", path: join(root, "main"), floorBytes: 0 }],
  registryPath: join(root, "folders.json"),
  ...more,
})

/** One life of the storage: built, used, closed. */
export const life = <A, E>(options: StorageOptions, use: (storage: Storage["Service"]) => Effect.Effect<A, E>) =>
  Effect.scoped(Effect.flatMap(Storage, use).pipe(Effect.provide(layer(options))))

/** Waits, in real time, for what the disk does beside the virtual clock. */
export const eventually = (holds: () => boolean) =>
  Effect.promise(async () => {
    while (!holds()) await new Promise((resolve) => setImmediate(resolve))
  })

export const everything = { start: 0, end: Number.MAX_SAFE_INTEGER }

/** Writes a sealed file of `count` fragments with pictures of `bytes` bytes. */
export const write = (
  storage: Storage["Service"],
  n: number,
  startMs: number,
  count: number,
  sequence = 0,
  bytes = 50,
) =>
  Effect.gen(function*() {
    const writer = yield* storage.create(identityOf(n), parameters, { sequence, startMs })
    for (const fragment of fragmentsFrom(startMs, count, bytes)) assert.isTrue(writer.append(fragment))
    return yield* writer.seal
  })

export const baseOf = (root: string, file: SegmentFile) => join(root, file.folder, file.recordingId, file.id)
