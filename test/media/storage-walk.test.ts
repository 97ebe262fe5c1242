/**
 * Random walks over everything that happens to footage, beside a model that keeps lists: append, rotate, kill (the media cut at a
 * random byte of the last fragment, the index at any record), open again, delete by age and size. A failure names its seed.
 */
import type { FileWriter, Fragment, RetentionPolicy, Storage } from "#media/storage.ts"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect } from "effect"
import { TestClock } from "effect/testing"
import { cpSync, existsSync, rmSync, statSync, truncateSync } from "node:fs"
import { join } from "node:path"
import { fragmentsFrom, identityOf, parameters } from "./made-up-files.ts"
import { random } from "./random.ts"
import { eventually, everything, life, optionsIn, t0, temporary } from "./storage-life.ts"

const recordings = [1, 2, 3]
const dayMs = 86_400_000
const steps = 40

/** What should be there of a file. */
interface ModelFile {
  readonly id: string
  fragments: ReadonlyArray<Fragment>
  bytes: number
}

interface World {
  readonly root: string
  /** Files of each recording, oldest first. */
  readonly files: Map<number, Array<ModelFile>>
  /** Open files; empty between two lives. */
  readonly open: Map<number, { readonly writer: FileWriter; readonly file: ModelFile }>
  /** Where each recording's footage ends. */
  readonly ends: Map<number, number>
  readonly next: (below: number) => number
}

const filesOf = (world: World, n: number) => world.files.get(n) ?? []

const append = Effect.fnUntraced(function*(world: World, storage: Storage["Service"], n: number) {
  const startMs = world.ends.get(n) ?? t0
  let open = world.open.get(n)
  if (open === undefined) {
    const writer = yield* storage.create(identityOf(n), parameters, { sequence: filesOf(world, n).length, startMs })
    open = { writer, file: { id: writer.file().id, fragments: [], bytes: writer.file().bytes } }
    world.open.set(n, open)
    world.files.set(n, [...filesOf(world, n), open.file])
  }
  const fragments = fragmentsFrom(startMs, 1 + world.next(4), 1 + world.next(40))
  for (const fragment of fragments) assert.isTrue(open.writer.append(fragment))
  open.file.fragments = [...open.file.fragments, ...fragments]
  open.file.bytes += fragments.reduce((sum, fragment) => sum + fragment.bytes, 0)
  world.ends.set(n, fragments.at(-1)!.endMs)
})

const settle = (world: World) =>
  Effect.forEach(
    [...world.open.values()],
    ({ file, writer }) => eventually(() => writer.file().fragments === file.fragments.length),
    { discard: true },
  )

const seal = Effect.fnUntraced(function*(world: World, n: number) {
  const open = world.open.get(n)
  if (open === undefined) return
  world.open.delete(n)
  assert.strictEqual((yield* open.writer.seal).fragments, open.file.fragments.length)
})

/** Retention as one would do it by hand. */
const expire = Effect.fnUntraced(function*(world: World, storage: Storage["Service"]) {
  yield* settle(world)
  const now = yield* Clock.currentTimeMillis
  const policies: Array<RetentionPolicy> = []
  const wanted: Array<string> = []
  for (const n of recordings) {
    const retentionDays = (dayMs + world.next(200) * 1_000) / dayMs
    const files = filesOf(world, n)
    const total = files.reduce((sum, file) => sum + file.bytes, 0)
    const maxBytes = world.next(2) === 0 ? 0 : Math.ceil(total * 0.8)
    policies.push({ recordingId: identityOf(n).recordingId, retentionDays, maxBytes })
    let left = total
    for (const file of files) {
      if (world.open.get(n)?.file === file) continue
      const old = file.fragments.at(-1)!.endMs <= now - retentionDays * dayMs
      if (!old && !(maxBytes > 0 && left > maxBytes)) continue
      left -= file.bytes
      wanted.push(file.id)
      world.files.set(n, filesOf(world, n).filter((other) => other !== file))
    }
  }
  assert.deepStrictEqual((yield* storage.enforceRetention(policies)).map(({ id }) => id), wanted)
})

/** The storage says what the model says. */
const agree = Effect.fnUntraced(function*(world: World, storage: Storage["Service"]) {
  yield* settle(world)
  for (const n of recordings) {
    const wanted = filesOf(world, n)
    const files = storage.files(identityOf(n).recordingId, everything)
    assert.deepStrictEqual(files.map(({ id }) => id), wanted.map(({ id }) => id))
    for (const [i, file] of files.entries()) {
      const { bytes, fragments } = wanted[i]!
      const entries = yield* storage.index(file)
      assert.deepStrictEqual(
        entries.map((entry) => [entry.startMs, entry.endMs, entry.bytes, entry.frames]),
        fragments.map((fragment) => [fragment.startMs, fragment.endMs, fragment.bytes, fragment.frames]),
      )
      assert.strictEqual(file.bytes, bytes)
      assert.isTrue(statSync(storage.path(file)).size === bytes)
    }
  }
})

/** One life of the storage, and what is on the disk when it is killed. */
const liveAndDie = Effect.fnUntraced(function*(world: World) {
  const image = join(world.root, "image")
  yield* life(optionsIn(world.root), (storage) =>
    Effect.gen(function*() {
      yield* agree(world, storage)
      for (let step = 0; step < steps; step++) {
        const n = recordings[world.next(recordings.length)]!
        const dice = world.next(10)
        if (dice < 6) yield* append(world, storage, n)
        else if (dice < 8) yield* seal(world, n)
        else if (dice < 9) yield* TestClock.adjust(2_000)
        else yield* expire(world, storage)
      }
      yield* agree(world, storage)
      // A kill leaves what was written at that moment: a picture of the disk stands for it.
      rmSync(image, { recursive: true, force: true })
      cpSync(join(world.root, "main"), image, { recursive: true })
    }))
  rmSync(join(world.root, "main"), { recursive: true })
  cpSync(image, join(world.root, "main"), { recursive: true })
  for (const [n, { file }] of world.open) {
    damage(world, join(world.root, "main", identityOf(n).recordingId, file.id), n, file)
  }
  world.open.clear()
})

/** The kill came in the middle of the last write, and of an index write. */
const damage = (world: World, base: string, n: number, file: ModelFile): void => {
  if (world.next(3) > 0) {
    const last = file.fragments.at(-1)!
    truncateSync(`${base}.mp4`, file.bytes - 1 - world.next(last.bytes))
    file.fragments = file.fragments.slice(0, -1)
    file.bytes -= last.bytes
    if (file.fragments.length === 0) world.files.set(n, filesOf(world, n).filter((other) => other !== file))
  }
  if (world.next(2) === 0) truncateSync(`${base}.idx`, world.next(statSync(`${base}.idx`).size + 1))
}

describe("a random walk", () => {
  it.effect.each([1, 2, 3, 4, 5, 6])("ends where the model ends, seed %i", (seed) =>
    Effect.gen(function*() {
      const root = yield* temporary
      yield* TestClock.setTime(t0 + dayMs + 100_000)
      const world: World = { root, files: new Map(), open: new Map(), ends: new Map(), next: random(seed) }
      for (let lives = 0; lives < 4; lives++) yield* liveAndDie(world)
      yield* life(optionsIn(root), (storage) => agree(world, storage))
      assert.isTrue(existsSync(join(root, "main")))
    }), 60_000)
})
