/** Outlines: what a playlist of a day is made from says the same as the indexes, and is never missed. */
import { partOf } from "#media/hls/parts.ts"
import { finishedGrouping, planOf } from "#media/hls/plan.ts"
import type { IndexEntry } from "#media/storage.ts"
import { FragmentTable } from "#media/storage/fragment-table.ts"
import { encodeIndex, sealOf, takeSealed } from "#media/storage/index-file.ts"
import { dayOf, decodeOutlines, encodeOutline, outlinePath } from "#media/storage/outline.ts"
import { footage } from "#test/fixtures/footage.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { existsSync, readFileSync, statSync, unlinkSync, writeFileSync } from "node:fs"
import { dirname } from "node:path"
import { identityOf } from "./made-up-files.ts"
import { random } from "./random.ts"
import { baseOf, life, optionsIn, t0, temporary, write } from "./storage-life.ts"

const whole = { complete: true, cuts: new Set<number>() }
const layout = { grouping: finishedGrouping, content: { kind: "all" as const } }

const partFrom = (id: string, table: FragmentTable) =>
  partOf(id, table, planOf(table, { from: 0, to: table.length }, finishedGrouping, whole), layout)

/** First and last row differ in length, as they must: everything a playlist shows is the same. */
const shown = (part: ReturnType<typeof partOf>) => {
  assert.isNotNull(part)
  const { first, last, runs, ...rest } = part!
  return {
    ...rest,
    first: [first.decodeTicks, first.startMs, first.discontinuity],
    end: [last.decodeTicks + last.durationTicks, last.endMs],
    runs: runs.map((run) => ({ ...run, first: run.first.startMs })),
  }
}

describe("an outline", () => {
  it("gives the part of a playlist that its index gives", () => {
    const groups = [400, 1000, 1001, 2000, 3000, 3800, 5000, 12_000, 90_000]
    const next = random(7)
    for (let round = 0; round < 200; round++) {
      const steps = Array.from({ length: 1 + next(6) }, () =>
        next(4) === 0 ?
          { kind: "gap" as const, ms: 1 + next(5_000) } :
          { kind: "groups" as const, count: 1 + next(12), groupMs: groups[next(groups.length)]! })
      const [made] = footage(t0, [...steps, { kind: "groups", count: 1, groupMs: 2000 }])
      const { entries, file } = made!
      // A slow disk leaves small holes in decode time, which players step over.
      const holed = entries.map((entry, i) =>
        i > 0 && next(9) === 0 ? { ...entry, decodeTicks: entry.decodeTicks + 100 } : entry
      )
      const table = FragmentTable.of(holed)
      const [outline] = decodeOutlines(encodeOutline(file, table))
      assert.deepInclude(outline, { id: file.id, bytes: file.bytes, frames: file.frames })
      assert.deepStrictEqual(shown(partFrom(file.id, outline!.table)), shown(partFrom(file.id, table)))
    }
  })

  it("is not made of what does not fit into it", () => {
    const [made] = footage(t0, [{ kind: "groups", count: 1, groupMs: 3_000_000, fps: 60 }])
    assert.strictEqual(encodeOutline(made!.file, FragmentTable.of(made!.entries)).length, 0)
  })

  it("survives what stands before it: torn appends, damage, noise", () => {
    const [made] = footage(t0, [{ kind: "groups", count: 40, groupMs: 1000 }])
    const good = encodeOutline(made!.file, FragmentTable.of(made!.entries))
    const next = random(3)
    for (let round = 0; round < 300; round++) {
      const torn = good.subarray(0, next(good.length))
      const damaged = Buffer.from(good)
      damaged[next(good.length)]! ^= 1 << next(8)
      const noise = Buffer.from(Array.from({ length: next(200) }, () => next(256)))
      const found = decodeOutlines(
        Buffer.concat([[torn, damaged, noise][round % 3]!, good, good.subarray(0, next(100))]),
      )
      assert.strictEqual(found.length, 1)
      assert.deepStrictEqual(found[0]!.table.entries(), decodeOutlines(good)[0]!.table.entries())
    }
  })
})

describe("the seal of an index", () => {
  const [made] = footage(t0, [{ kind: "groups", count: 20, groupMs: 2000 }])
  const { entries, file } = made!
  const description = { version: 1 as const, ...identityOf(1), id: file.id, sequence: 0, startMs: t0 }
  const encoded = (rows: ReadonlyArray<IndexEntry>) =>
    encodeIndex({ description, initBytes: 100, firstOffset: 0x700 }, rows, sealOf(rows, description, file.bytes))
  const apart = (bytes: Buffer) => {
    const copy = Buffer.allocUnsafeSlow(bytes.length)
    bytes.copy(copy)
    return copy
  }

  it("vouches for all records, and for no other file's", () => {
    assert.deepStrictEqual(takeSealed(apart(encoded(entries)), file.id)?.entries(), entries)
    assert.isNull(takeSealed(apart(encoded(entries)), identityOf(2).streamId))
  })

  it("vouches for nothing that was changed or cut", () => {
    const bytes = encoded(entries)
    for (let at = 0; at < bytes.length; at++) {
      const changed = apart(bytes)
      changed[at]! ^= 1 + at % 255
      assert.isNull(takeSealed(changed, file.id), `byte ${at}`)
      assert.isNull(takeSealed(apart(bytes.subarray(0, at)), file.id), `cut at ${at}`)
    }
  })

  it("vouches for no fragments out of order", () => {
    assert.isNull(takeSealed(apart(encoded(entries.toReversed())), file.id))
  })
})

describe("outlines of a day", () => {
  const sameRows = (a: unknown, b: unknown) => {
    assert.isTrue(a instanceof FragmentTable && b instanceof FragmentTable)
    assert.deepStrictEqual((a as FragmentTable).entries(), (b as FragmentTable).entries())
  }

  it.effect("are written at seals, and made again from the index where they are missing, damaged or of another length", () =>
    Effect.gen(function*() {
      const root = yield* temporary
      const files = yield* life(
        optionsIn(root),
        (storage) => Effect.forEach([0, 1, 2], (i) => write(storage, 1, t0 + i * 60_000, 20, i)),
      )
      const path = outlinePath(dirname(baseOf(root, files[0]!)), dayOf(t0))
      const written = readFileSync(path)
      const read = life(optionsIn(root), (storage) => storage.outlines(files))
      const first = yield* read
      assert.isTrue(first.every((table) => table instanceof FragmentTable && table.length === 4))
      assert.strictEqual(statSync(path).size, written.length, "nothing was missing")

      unlinkSync(path)
      const again = yield* life(optionsIn(root), (storage) => storage.outlines(files))
      again.forEach((table, i) => sameRows(table instanceof FragmentTable ? coarse(table) : table, first[i]))
      assert.deepStrictEqual(readFileSync(path), written, "mended")

      writeFileSync(path, written.subarray(0, written.length - 10))
      yield* read
      const mended = yield* read
      mended.forEach((table, i) => sameRows(table, first[i]))

      const other = encodeOutline({ ...files[1]!, bytes: files[1]!.bytes - 1 }, first[1] as FragmentTable)
      writeFileSync(path, Buffer.concat([written, other]))
      const third = yield* read
      third.forEach((table, i) => sameRows(table instanceof FragmentTable ? coarse(table) : table, first[i]))
    }))

  it.effect("go with the last file of their day", () =>
    Effect.gen(function*() {
      const root = yield* temporary
      yield* life(optionsIn(root), (storage) =>
        Effect.gen(function*() {
          const files = yield* Effect.forEach([0, 1, 86_400], (s) => write(storage, 1, t0 + s * 1000, 1))
          const directory = dirname(baseOf(root, files[0]!))
          const [day, next] = [0, 1].map((days) => outlinePath(directory, dayOf(t0) + days))
          assert.isTrue(existsSync(day!) && existsSync(next!))
          yield* storage.remove(files[0]!)
          assert.isTrue(existsSync(day!))
          yield* storage.remove(files[1]!)
          assert.isTrue(!existsSync(day!) && existsSync(next!))
          yield* storage.remove(files[2]!)
          assert.isFalse(existsSync(directory))
        }))
    }))
})

/** Rows of segments from rows of fragments; of segments, the same again. */
const coarse = (table: FragmentTable): FragmentTable =>
  decodeOutlines(encodeOutline({ id: identityOf(1).streamId, bytes: 0, frames: 0 }, table))[0]!.table
