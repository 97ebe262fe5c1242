/** The queue on disk: order, bounds, torn tails, restarts at any byte, disks that refuse. */
import { makeSpool, type Spool } from "#cluster/spool.ts"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, FileSystem, Layer, Random } from "effect"
import {
  appendFileSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

const temporary = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "nightjar-spool-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true })),
)

/** One life of a process on the queue. */
const life = <A, E>(folder: string, use: (spool: Spool) => Effect.Effect<A, E>, maxBytes = 1 << 24) =>
  Effect.scoped(Effect.flatMap(makeSpool({ folder, maxBytes }), use)).pipe(Effect.provide(NodeFileSystem.layer))

const all = (spool: Spool) =>
  Effect.gen(function*() {
    const found: Array<{ position: number; json: string }> = []
    while (true) {
      const page = yield* spool.read(found.at(-1)?.position ?? 0, 7)
      if (page.length === 0) return found
      found.push(...page.map(({ json, position }) => ({ json, position })))
    }
  })

const texts = (found: ReadonlyArray<{ readonly json: string }>) => found.map((one) => one.json)
const segmentsOf = (folder: string) => readdirSync(folder).filter((name) => name.endsWith(".jsonl")).toSorted()

describe("the queue on disk", () => {
  it.effect("gives back what was appended, in order, over restarts, until it is acknowledged", () =>
    Effect.gen(function*() {
      const folder = yield* temporary
      yield* life(folder, (spool) => spool.append(["1", "\"zwölf ö\"", "{\"a\":3}"]))
      yield* life(folder, (spool) => spool.append(["4"]))
      yield* life(folder, (spool) =>
        Effect.gen(function*() {
          const found = yield* all(spool)
          assert.deepStrictEqual(texts(found), ["1", "\"zwölf ö\"", "{\"a\":3}", "4"])
          yield* spool.acknowledge(found[1]!.position)
        }))
      yield* life(folder, (spool) =>
        Effect.gen(function*() {
          const found = yield* all(spool)
          assert.deepStrictEqual(texts(found), ["{\"a\":3}", "4"])
          yield* spool.acknowledge(found[1]!.position)
          assert.strictEqual(spool.bytes(), 0)
        }))
      yield* life(folder, (spool) =>
        Effect.gen(function*() {
          assert.deepStrictEqual(yield* all(spool), [])
          const before = spool.acknowledged()
          assert.isAbove(yield* spool.append(["5"]), before)
        }))
    }))

  it.effect("wakes a reader when something comes, and not before", () =>
    Effect.gen(function*() {
      const folder = yield* temporary
      yield* life(folder, (spool) =>
        Effect.gen(function*() {
          const first = yield* spool.append(["1"])
          yield* spool.awaitEntry(0)
          const waiting = yield* Effect.forkChild(spool.awaitEntry(first))
          yield* Effect.yieldNow
          assert.isUndefined(waiting.pollUnsafe())
          yield* spool.append(["2"])
          yield* Fiber.join(waiting)
          assert.deepStrictEqual(texts(yield* spool.read(first, 10)), ["2"])
        }))
      // What was acknowledged wakes nobody in the next life either.
      yield* life(folder, (spool) =>
        Effect.gen(function*() {
          yield* spool.acknowledge(Number.MAX_SAFE_INTEGER)
          const waiting = yield* Effect.forkChild(spool.awaitEntry(0))
          yield* Effect.yieldNow
          assert.isUndefined(waiting.pollUnsafe())
          yield* Fiber.interrupt(waiting)
        }))
    }))

  it.effect("refuses what does not fit, keeps what is there, and takes more once it was acknowledged", () =>
    Effect.gen(function*() {
      const folder = yield* temporary
      yield* life(folder, (spool) =>
        Effect.gen(function*() {
          const line = JSON.stringify("x".repeat(100))
          let taken = 0
          while ((yield* Effect.result(spool.append([line])))._tag === "Success") taken++
          assert.isAtMost(spool.bytes(), 1000)
          assert.strictEqual((yield* all(spool)).length, taken)
          const refused = yield* Effect.flip(spool.append([line]))
          assert.strictEqual(refused._tag, "SpoolFull")
          const [first] = yield* all(spool)
          yield* spool.acknowledge(first!.position)
          yield* spool.append([line])
          assert.strictEqual((yield* all(spool)).length, taken)
        }), 1000)
      yield* life(folder, (spool) =>
        Effect.map(Effect.flip(spool.append(["x".repeat(200)])), ({ _tag }) => {
          assert.strictEqual(_tag, "SpoolFull", "the bound holds over a restart")
        }), 1000)
    }))

  it.effect("shares a sync between appends of one moment, and keeps memory and disk to its segments", () =>
    Effect.gen(function*() {
      const folder = yield* temporary
      yield* life(folder, (spool) =>
        Effect.gen(function*() {
          const line = JSON.stringify("y".repeat(10_000))
          for (let i = 0; i < 6; i++) {
            yield* Effect.all(Array.from({ length: 100 }, () => spool.append([line])), { concurrency: "unbounded" })
          }
          const names = segmentsOf(folder)
          assert.isAbove(names.length, 2)
          for (const name of names) assert.isBelow(statSync(join(folder, name)).size, 3 << 20)
          const found = yield* all(spool)
          assert.strictEqual(found.length, 600)
          yield* spool.acknowledge(found[598]!.position)
          assert.strictEqual(segmentsOf(folder).length, 1)
          assert.strictEqual((yield* all(spool)).length, 1)
        }))
    }))

  it.effect("at any byte of a cut tail, every whole line is kept and none is made up; new ones come behind", () =>
    Effect.gen(function*() {
      const made = yield* temporary
      yield* life(made, (spool) => spool.append(["\"one\"", "\"two\"", "\"three\""]))
      const [name] = segmentsOf(made)
      const whole = readFileSync(join(made, name!))
      for (let length = 0; length <= whole.length; length++) {
        const folder = yield* temporary
        writeFileSync(join(folder, name!), whole.subarray(0, length))
        const lines = whole.subarray(0, length).toString().split("\n").length - 1
        // The last line is whole without its line end, too.
        const kept = length === whole.length || whole[length] === 10 ?
          Math.min(3, lines + (whole[length] === 10 ? 1 : 0)) :
          lines
        yield* life(folder, (spool) => spool.append(["\"four\""]))
        yield* life(folder, (spool) =>
          Effect.map(all(spool), (found) => {
            assert.deepStrictEqual(texts(found), [...["\"one\"", "\"two\"", "\"three\""].slice(0, kept), "\"four\""])
            assert.deepStrictEqual(
              found.map((one) => one.position),
              [...new Set(found.map((one) => one.position))].toSorted((a, b) => a - b),
            )
          }))
      }
    }))

  it.effect("over random lives with appends, acknowledgements, torn and flipped bytes nothing that was answered for is lost", () =>
    Effect.gen(function*() {
      const folder = yield* temporary
      let next = 0
      let expected: Array<string> = []
      for (let round = 0; round < 60; round++) {
        yield* life(folder, (spool) =>
          Effect.gen(function*() {
            const before = yield* all(spool)
            assert.deepStrictEqual(texts(before), expected)
            const count = yield* Random.nextIntBetween(0, 6)
            const lines = Array.from({ length: count }, () => String(next++))
            yield* Effect.all(lines.map((line) => spool.append([line])), { concurrency: "unbounded" })
            expected.push(...lines)
            const held = yield* all(spool)
            const upTo = yield* Random.nextIntBetween(0, held.length)
            if (upTo > 0) yield* spool.acknowledge(held[upTo - 1]!.position)
            expected = expected.slice(upTo)
          }))
        // A kill in the middle of a write leaves anything behind what was answered for.
        const tail = segmentsOf(folder).at(-1)
        const noise = yield* Random.nextIntBetween(0, 3)
        if (tail !== undefined && noise === 1) appendFileSync(join(folder, tail), "0badc0de 99 \"never\"\n12")
        if (tail !== undefined && noise === 2) appendFileSync(join(folder, tail), "deadbeef 1")
      }
      assert.isAbove(next, 60)
    }))

  it.effect("a disk that refuses fails the append, and what was told as failed never comes back", () =>
    Effect.gen(function*() {
      const folder = yield* temporary
      let failing = false
      const flaky = Layer.effect(
        FileSystem.FileSystem,
        Effect.map(FileSystem.FileSystem, (fs) => ({
          ...fs,
          open: (path: string, options?: Parameters<typeof fs.open>[1]) =>
            Effect.map(fs.open(path, options), (file) => ({
              ...file,
              writeAll: (bytes: Uint8Array) =>
                failing ?
                  Effect.andThen(
                    file.writeAll(bytes.subarray(0, bytes.length - 1)),
                    fs.readFile("/nowhere").pipe(Effect.asVoid),
                  ) :
                  file.writeAll(bytes),
              sync: file.sync,
            })),
        })),
      ).pipe(Layer.provide(NodeFileSystem.layer))
      yield* Effect.scoped(Effect.flatMap(makeSpool({ folder, maxBytes: 1 << 20 }), (spool) =>
        Effect.gen(function*() {
          yield* spool.append(["1"])
          const bytes = spool.bytes()
          failing = true
          assert.strictEqual((yield* Effect.flip(spool.append(["2"])))._tag, "SpoolFailed")
          assert.strictEqual(spool.bytes(), bytes)
          failing = false
          yield* spool.append(["3"])
          assert.deepStrictEqual(texts(yield* all(spool)), ["1", "3"])
        }))).pipe(Effect.provide(flaky))
      yield* life(
        folder,
        (spool) => Effect.map(all(spool), (found) => assert.deepStrictEqual(texts(found), ["1", "3"])),
      )
    }))

  it.effect("a lost mark of what was acknowledged brings lines again, and never gives a position twice", () =>
    Effect.gen(function*() {
      const folder = yield* temporary
      const last = yield* life(folder, (spool) =>
        Effect.gen(function*() {
          const position = yield* spool.append(["1", "2"])
          yield* spool.acknowledge(position)
          return position
        }))
      truncateSync(join(folder, "acknowledged"), 3)
      yield* life(folder, (spool) =>
        Effect.gen(function*() {
          assert.deepStrictEqual(texts(yield* all(spool)), ["1", "2"])
          assert.isAbove(yield* spool.append(["3"]), last)
        }))
    }))
})
