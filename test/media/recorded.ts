/** Recordings on real files, written as a recorder writes them, from the footage the simulated camera loops. */
import { makeFragmentBuilder } from "#media/fmp4.ts"
import type { FileIdentity, Storage } from "#media/storage.ts"
import { defaultStorageOptions, layer as storageLayer } from "#media/storage/live.ts"
import type { SegmentFile } from "#schema/record.ts"
import { Effect, Layer } from "effect"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { camera, type CameraOptions } from "./access-units.ts"
import { identityOf } from "./made-up-files.ts"

/** Storage in a temporary folder that goes with the layer. */
export const temporaryStorage: Layer.Layer<Storage> = Layer.unwrap(
  Effect.map(
    Effect.acquireRelease(Effect.sync(() => mkdtempSync(join(tmpdir(), "nightjar-hls-"))), (path) =>
      Effect.sync(() =>
        rmSync(path, { recursive: true, force: true })
      )),
    (root) =>
      storageLayer({
        ...defaultStorageOptions,
        folders: [{ name: "main", path: join(root, "main"), floorBytes: 0 }],
        registryPath: join(root, "folders.json"),
      }),
  ),
)

/** One connection to a camera. */
export interface Run extends Omit<CameraOptions, "startMs"> {
  /** Nothing was recorded for this long before it. */
  readonly afterMs: number
  /** The process was restarted before it: a new epoch. */
  readonly restarted?: boolean
}

/** What was recorded. */
export interface Recorded {
  readonly identity: FileIdentity
  readonly files: ReadonlyArray<SegmentFile>
  readonly startMs: number
  readonly endMs: number
  readonly pictures: number
}

/** Records runs, one file each; decode time runs on within an epoch. */
export const record = (storage: Storage["Service"], startMs: number, runs: ReadonlyArray<Run>) =>
  Effect.gen(function*() {
    const files: Array<SegmentFile> = []
    let epoch = 1
    let now = startMs
    let decodeTicks = 0
    let pictures = 0
    for (const { afterMs, restarted = false, ...options } of runs) {
      now += afterMs
      if (restarted) {
        epoch++
        decodeTicks = 0
      }
      const { parameters, units } = camera({ ...options, startMs: now })
      const begin = now
      const writer = yield* storage.create(identityOf(1, epoch), parameters, { sequence: files.length, startMs: begin })
      const builder = makeFragmentBuilder({
        parameters,
        decodeTicks,
        wallMs: (ticks) => begin + Math.round(ticks / 90),
        onFragment: (fragment) => {
          if (!writer.append(fragment)) throw new Error("the queue of the writer is full")
        },
      })
      for (const unit of units) builder.push(unit)
      builder.flush()
      decodeTicks = builder.nextDecodeTicks()
      pictures += units.filter((unit) => unit.track === "video").length
      const file = yield* writer.seal
      files.push(file)
      now = file.endMs
    }
    return { identity: identityOf(1, epoch), files, startMs, endMs: now, pictures } satisfies Recorded
  })
