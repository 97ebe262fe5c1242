/** What a crash, a power cut or a careless hand leaves of footage, and what the storage makes of it. */
import { decodeIndex } from "#media/storage/index-file.ts"
import { dayOf, outlinePath } from "#media/storage/outline.ts"
import { summaryName } from "#media/storage/summary.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { fragmentsFrom, identityOf, parameters } from "./made-up-files.ts"
import { baseOf, eventually, everything, life, optionsIn, t0, temporaryInMemory, write } from "./storage-life.ts"

/** Small, so that every byte can be tried. */
const pictureBytes = 4

describe("after a crash", () => {
  /** What a process that was killed leaves: media, and an index without seal. */
  const crashed = (n: number, count: number, bytes = pictureBytes) =>
    Effect.gen(function*() {
      const root = yield* temporaryInMemory
      const file = yield* life(optionsIn(root), (storage) => write(storage, n, t0, count, 0, bytes))
      const base = baseOf(root, file)
      const media = readFileSync(`${base}.mp4`)
      const index = readFileSync(`${base}.idx`)
      return {
        root,
        base,
        file,
        media,
        index,
        entries: decodeIndex(index).entries,
        unsealed: index.subarray(0, index.length - 64),
      }
    })

  /** Lays out what a crash left, lets a new storage mend it, and checks that it agrees with the disk. */
  const mend = (root: string, base: string, media: Uint8Array, index: Uint8Array | null) =>
    Effect.gen(function*() {
      mkdirSync(join(base, ".."), { recursive: true })
      writeFileSync(`${base}.mp4`, media)
      rmSync(`${base}.idx`, { force: true })
      rmSync(join(base, "..", summaryName), { force: true })
      if (index !== null) writeFileSync(`${base}.idx`, index)
      return yield* life(optionsIn(root), (storage) =>
        Effect.gen(function*() {
          const [file] = storage.files(identityOf(1).recordingId, everything)
          if (file === undefined) return []
          assert.isTrue(file.sealed)
          const entries = yield* storage.index(file)
          assert.strictEqual(file.fragments, entries.length)
          assert.strictEqual(statSync(`${base}.mp4`).size, file.bytes)
          const again = decodeIndex(readFileSync(`${base}.idx`))
          assert.deepStrictEqual(again.entries, entries)
          assert.strictEqual(again.seal?.fragments, entries.length)
          return entries
        }))
    })

  it.effect("at any byte of the media, every whole fragment is kept and no other", () =>
    Effect.gen(function*() {
      const { base, entries, media, root, unsealed } = yield* crashed(1, 2)
      // The index stops at a sync: none, half or all of the records are there.
      for (let length = 0; length <= media.length; length++) {
        const whole = entries.filter((entry) => entry.offset + entry.bytes <= length)
        const index = unsealed.subarray(0, 192 + 64 * (length % (whole.length + 1)))
        assert.deepStrictEqual(yield* mend(root, base, media.subarray(0, length), index), whole, `cut at ${length}`)
      }
    }), 120_000)

  it.effect("at any byte of the index, nothing is lost", () =>
    Effect.gen(function*() {
      const { base, entries, index, media, root } = yield* crashed(1, 3)
      for (let length = 0; length <= index.length; length++) {
        assert.deepStrictEqual(yield* mend(root, base, media, index.subarray(0, length)), entries, `cut at ${length}`)
      }
      assert.deepStrictEqual(yield* mend(root, base, media, null), entries)
    }), 60_000)

  it.effect("with any byte of the index changed, nothing is lost", () =>
    Effect.gen(function*() {
      const { base, entries, media, root, unsealed } = yield* crashed(1, 3)
      for (let at = 0; at < unsealed.length; at++) {
        const damaged = Buffer.from(unsealed)
        damaged[at]! ^= 1 << (at % 8)
        assert.deepStrictEqual(yield* mend(root, base, media, damaged), entries, `damaged at ${at}`)
      }
    }), 60_000)

  it.effect("with a page of zeros where media should be (a power cut), the fragments before it are kept", () =>
    Effect.gen(function*() {
      const page = 4096
      const { base, entries, media, root, unsealed } = yield* crashed(1, 4, 2_000)
      const first = Math.ceil(entries[2]!.offset / page) * page
      for (let at = first; at + page <= entries[3]!.offset; at += page) {
        const zeroed = Buffer.from(media)
        zeroed.fill(0, at, at + page)
        const hole = [...entries.slice(0, 2), { ...entries[3]!, discontinuity: true }]
        assert.deepStrictEqual(yield* mend(root, base, zeroed, unsealed), hole)
        zeroed.fill(0, at)
        assert.deepStrictEqual(yield* mend(root, base, zeroed, unsealed), entries.slice(0, 2))
      }
    }))

  it.effect("with a damaged head in the middle, the fragments behind it are kept and marked", () =>
    Effect.gen(function*() {
      const { base, entries, media, root } = yield* crashed(1, 5)
      const damaged = Buffer.from(media)
      damaged[entries[2]!.offset + 40]! ^= 0xff
      const kept = yield* mend(root, base, damaged, null)
      assert.deepStrictEqual(kept, [...entries.slice(0, 2), { ...entries[3]!, discontinuity: true }, entries[4]!])
    }))

  it.effect("a scan without mending changes nothing and tells what it would cut", () =>
    Effect.gen(function*() {
      const { base, entries, media, root, unsealed } = yield* crashed(1, 3)
      yield* life(optionsIn(root), (storage) =>
        Effect.gen(function*() {
          const cut = media.subarray(0, media.length - 5)
          writeFileSync(`${base}.mp4`, cut)
          writeFileSync(`${base}.idx`, unsealed)
          const [found] = yield* storage.scan({ repair: false })
          assert.strictEqual(found!.entries, 2)
          assert.isFalse(found!.file.sealed)
          assert.strictEqual(found!.tornBytes, entries[2]!.bytes - 5)
          assert.strictEqual(statSync(`${base}.mp4`).size, cut.length)
          assert.deepStrictEqual(readFileSync(`${base}.idx`), unsealed)
          assert.deepStrictEqual(yield* storage.index(found!.file), entries.slice(0, 2))
          const [mended] = yield* storage.scan({ repair: true })
          assert.isTrue(mended!.file.sealed)
          assert.strictEqual(statSync(`${base}.mp4`).size, cut.length - found!.tornBytes)
        }))
    }))

  it.effect("files that are not understood stay, orphaned indexes go", () =>
    Effect.gen(function*() {
      const { base, root } = yield* crashed(1, 3)
      const foreign = base.replace(/.$/, (digit) => digit === "0" ? "1" : "0")
      writeFileSync(`${foreign}.mp4`, Buffer.alloc(20_000, 7))
      writeFileSync(`${base.replace(/.$/, "a")}.idx`, "left over")
      writeFileSync(`${base}.idx.tmp`, "left over")
      writeFileSync(join(base, "..", "notes.txt"), "mine")
      yield* life(optionsIn(root), (storage) =>
        Effect.sync(() =>
          assert.strictEqual(storage.files(identityOf(1).recordingId, everything).length, 1)
        ))
      assert.deepStrictEqual(
        new Set(readdirSync(join(base, ".."))),
        new Set([
          `${base}.idx`,
          `${base}.mp4`,
          `${foreign}.mp4`,
          join(base, "..", "notes.txt"),
          summaryName,
          outlinePath("", dayOf(t0)),
        ].map((path) => path.split("/").at(-1))),
      )
    }))

  it.effect("a scan forgets files that somebody deleted and leaves alone what is growing", () =>
    Effect.gen(function*() {
      const root = yield* temporaryInMemory
      yield* life(optionsIn(root), (storage) =>
        Effect.gen(function*() {
          const gone = yield* write(storage, 1, t0, 2)
          const writer = yield* storage.create(identityOf(1), parameters, { sequence: 1, startMs: t0 + 2000 })
          for (const fragment of fragmentsFrom(t0 + 2000, 2)) writer.append(fragment)
          rmSync(`${baseOf(root, gone)}.mp4`)
          yield* storage.scan({ repair: true })
          yield* eventually(() => writer.file().fragments === 2)
          assert.deepStrictEqual(storage.files(gone.recordingId, everything).map(({ id }) => id), [writer.file().id])
          assert.strictEqual((yield* writer.seal).fragments, 2)
        }))
    }))

  it.effect("with any byte of the summary changed or cut off, nothing is lost", () =>
    Effect.gen(function*() {
      const root = yield* temporaryInMemory
      const files = yield* life(optionsIn(root), (storage) =>
        Effect.forEach([0, 1, 2], (i) => write(storage, 1, t0 + 2000 * i, 2, i)))
      const path = join(root, "main", files[0]!.recordingId, summaryName)
      const summary = readFileSync(path)
      assert.strictEqual(summary.length, 3 * 256)
      for (let at = 0; at < summary.length; at++) {
        const damaged = Buffer.from(summary)
        damaged[at]! ^= 1 << (at % 8)
        writeFileSync(path, at % 2 === 0 ? damaged : summary.subarray(0, at))
        const found = yield* life(optionsIn(root), (storage) =>
          Effect.sync(() =>
            storage.files(files[0]!.recordingId, everything)
          ))
        assert.deepStrictEqual(found, files)
      }
    }), 60_000)

  it.effect("a summary spares the opening of files at a start, and no thorough scan believes it", () =>
    Effect.gen(function*() {
      const root = yield* temporaryInMemory
      const file = yield* life(optionsIn(root), (storage) => write(storage, 1, t0, 3))
      writeFileSync(`${baseOf(root, file)}.mp4`, readFileSync(`${baseOf(root, file)}.mp4`).subarray(0, file.bytes - 1))
      yield* life(optionsIn(root), (storage) =>
        Effect.gen(function*() {
          assert.deepStrictEqual(storage.files(file.recordingId, everything), [file])
          yield* storage.scan({ repair: true })
          assert.strictEqual(storage.files(file.recordingId, everything)[0]!.fragments, 2)
        }))
      yield* life(
        optionsIn(root),
        (storage) =>
          Effect.sync(() => assert.strictEqual(storage.files(file.recordingId, everything)[0]!.fragments, 2)),
      )
    }))
})
