/** Footage of another node becomes one of the recordings: once, whoever lets go of the request that brought it. */
import type { Storage } from "#media/storage.ts"
import type { SegmentFile } from "#schema/record.ts"
import { uuid7 } from "#schema/uuid.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { existsSync, mkdirSync, readFileSync, renameSync } from "node:fs"
import { dirname, join } from "node:path"
import { identityOf } from "./made-up-files.ts"
import { baseOf, eventually, everything, life, optionsIn, t0, temporary, write } from "./storage-life.ts"

type Door = Storage["Service"]

/** What comes of a file of another node: where its fragments begin, and all of its bytes. */
const source = (root: string) =>
  life(optionsIn(root), (storage) =>
    Effect.gen(function*() {
      const file = yield* write(storage, 1, t0, 40, 7, 20_000)
      const [first] = yield* storage.index(file)
      return { file, bytes: readFileSync(storage.path(file)), front: first!.offset }
    }))

/** All of it lies in quarantine, under a new id. */
const bring = (storage: Door, id: string, { bytes, front }: Effect.Success<ReturnType<typeof source>>) =>
  Effect.scoped(Effect.gen(function*() {
    const length = bytes.length - front
    const part = yield* storage.quarantine.open({ id, front: bytes.subarray(0, front), bytes: length })
    yield* part.write(0, bytes.subarray(front))
    assert.lengthOf(yield* part.prove(0, length), 40)
    return { id, bytes: length }
  }))

const same = (one: SegmentFile, other: SegmentFile) =>
  assert.deepStrictEqual({ ...one, id: "", bytes: 0 }, { ...other, id: "", bytes: 0 })

describe("quarantine", () => {
  it.live("adopts a file whole, even if who asked lets go of it just then", () =>
    Effect.gen(function*() {
      const [there, here] = yield* Effect.all([temporary, temporary])
      const made = yield* source(there)
      yield* life(optionsIn(here), (storage) =>
        Effect.gen(function*() {
          const { recordingId } = identityOf(1)
          for (let times = 1; times <= 5; times++) {
            const incoming = yield* bring(storage, yield* uuid7, made)
            const index = join(here, "main", recordingId, `${incoming.id}.idx`)
            const adopting = yield* Effect.forkChild(storage.quarantine.adopt(incoming))
            // Its index is there: it is on its way out of quarantine.
            yield* eventually(() => existsSync(index))
            yield* Fiber.interrupt(adopting)
            const file = yield* storage.quarantine.adopt(incoming)
            same(file, made.file)
            assert.lengthOf(storage.files(recordingId, everything), times)
            assert.deepStrictEqual(yield* storage.quarantine.ids, [])
            assert.isTrue(readFileSync(`${baseOf(here, file)}.mp4`).subarray(-1000).equals(made.bytes.subarray(-1000)))
          }
        }))
      // A later life knows them without a look at each.
      yield* life(optionsIn(here), (storage) =>
        Effect.sync(() => assert.lengthOf(storage.files(identityOf(1).recordingId, everything), 5)))
    }).pipe(Effect.scoped))

  it.live("knows a file that left it, and failed on the last steps of that way, where it stands", () =>
    Effect.gen(function*() {
      const [there, here] = yield* Effect.all([temporary, temporary])
      const made = yield* source(there)
      yield* life(optionsIn(here), (storage) =>
        Effect.gen(function*() {
          const { recordingId } = identityOf(1)
          const incoming = yield* bring(storage, yield* uuid7, made)
          const moved = join(here, "main", recordingId, `${incoming.id}.mp4`)
          mkdirSync(dirname(moved))
          renameSync(join(here, "main", "quarantine", `${incoming.id}.part`), moved)
          same(yield* storage.quarantine.adopt(incoming), made.file)
          assert.lengthOf(storage.files(recordingId, everything), 1)
          const lost = yield* Effect.flip(storage.quarantine.adopt({ ...incoming, id: yield* uuid7 }))
          assert.strictEqual(lost._tag, "NotFootage")
        }))
    }).pipe(Effect.scoped))
})
