/** A survey of the disks for a rebuild of the index: what files tell of their cameras, what is torn, what is not ours. */
import type { StrangeFile } from "#media/storage.ts"
import { CameraId } from "#schema/common.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { mkdirSync, readFileSync, truncateSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { fragmentsFrom, identityOf, parameters } from "./made-up-files.ts"
import { baseOf, life, optionsIn, t0, temporary, write } from "./storage-life.ts"

const origin = {
  cameraId: CameraId.make("01934b3e-000f-7000-8000-000000000001"),
  cameraName: "Übergang \"Nord\"",
  channelName: "Channel 1",
  role: "sub" as const,
}

describe("a survey", () => {
  it.effect("reads from a file's header whose picture it is", () =>
    Effect.gen(function*() {
      const root = yield* temporary
      const file = yield* life(optionsIn(root), (storage) =>
        Effect.gen(function*() {
          const writer = yield* storage.create(identityOf(1), parameters, { sequence: 0, startMs: t0 }, origin)
          for (const fragment of fragmentsFrom(t0, 2)) writer.append(fragment)
          return yield* writer.seal
        }))
      const plain = yield* life(optionsIn(root), (storage) => write(storage, 2, t0, 1))
      yield* life(optionsIn(root), (storage) =>
        Effect.gen(function*() {
          assert.deepStrictEqual(yield* storage.origin(file), origin)
          assert.isNull(yield* storage.origin(plain))
          assert.sameMembers([...storage.recordings()], [file.recordingId, plain.recordingId])
          assert.strictEqual(
            (yield* Effect.flip(storage.origin({ ...file, id: plain.id.replace("7", "8") })))._tag,
            "StorageError",
          )
        }))
    }))

  it.effect("takes a torn file as far as it reads, changes nothing, and tells of what is not ours", () =>
    Effect.gen(function*() {
      const root = yield* temporary
      yield* life(optionsIn(root), (storage) =>
        Effect.gen(function*() {
          const file = yield* write(storage, 1, t0, 5)
          const media = `${baseOf(root, file)}.mp4`
          truncateSync(media, file.bytes - 10)
          const torn = readFileSync(media)
          const stranger = join(dirname(media), "01934b3e-000f-7000-8000-00000000000f.mp4")
          const strangers = [
            [join(root, "main", "holiday.mp4"), "x"],
            [join(dirname(media), "notes.txt"), "x"],
            [stranger, "x".repeat(20_000)],
          ] as const
          for (const [path, text] of strangers) writeFileSync(path, text)
          mkdirSync(join(root, "main", "lost+found"))

          const told: Array<StrangeFile> = []
          const steps: Array<number> = []
          const found = yield* storage.scan({
            repair: false,
            strange: (one) => told.push(one),
            progress: (done, total) => steps.push(done / total),
          })
          assert.lengthOf(found, 1)
          assert.deepInclude(found[0]!.file, { id: file.id, fragments: 4, endMs: t0 + 4000, sealed: false })
          assert.isAbove(found[0]!.tornBytes, 0)
          assert.deepStrictEqual(told.map(({ path }) => path).sort(), strangers.map(([path]) => path).sort())
          assert.isTrue(told.every(({ folder, reason }) => folder === "main" && reason !== ""))
          assert.deepStrictEqual(steps, [...steps].sort((a, b) => a - b))
          assert.strictEqual(steps.at(-1), 1)
          assert.isTrue(readFileSync(media).equals(torn))
          for (const [path, text] of strangers) assert.strictEqual(readFileSync(path, "utf8"), text)
        }))
    }))
})
