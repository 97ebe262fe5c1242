/**
 * What is shown where several nodes recorded one camera: judged by the numbers of its pictures, which the product does not see. A seed
 * that fails names itself.
 */
import type { IndexEntry } from "#media/storage.ts"
import { FragmentTable } from "#media/storage/fragment-table.ts"
import { type Shown, shownOf } from "#media/storage/seams.ts"
import type { NodeId } from "#schema/common.ts"
import type { SegmentFile } from "#schema/record.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { identityOf } from "./made-up-files.ts"

/** A picture every 100 ms, every tenth a key picture. */
const frameMs = 100
const group = 10

interface Made {
  readonly file: SegmentFile
  readonly table: FragmentTable
  /** Numbers of the pictures of each row. */
  readonly frames: ReadonlyArray<ReadonlyArray<number>>
}

const randomFrom = (seed: number) => {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
  }
}

let made = 0

/** A file of pictures, in fragments of at most `most`; a new one at each key picture and behind each hole. */
const fileOf = (node: number, epoch: number, frames: ReadonlyArray<number>, shiftMs: number, most: number): Made => {
  const rows: Array<Array<number>> = []
  for (const frame of frames) {
    const last = rows.at(-1)
    if (last === undefined || frame % group === 0 || last.length >= most || last.at(-1) !== frame - 1) {
      rows.push([frame])
    } else last.push(frame)
  }
  const entries = rows.map((row, at): IndexEntry => {
    const [first, last] = [row[0] as number, row.at(-1) as number]
    return {
      startMs: first * frameMs + shiftMs,
      endMs: (last + 1) * frameMs + shiftMs,
      decodeTicks: first * frameMs * 90,
      durationTicks: row.length * frameMs * 90,
      offset: 100 + at * 1_000,
      bytes: 1_000,
      frames: row.length,
      key: first % group === 0,
      discontinuity: at > 0 && rows[at - 1]?.at(-1) !== first - 1,
    }
  })
  return {
    file: {
      ...identityOf(1, epoch),
      nodeId: `node-${node}` as NodeId,
      id: `file-${made++}`,
      sequence: 0,
      folder: "main",
      startMs: entries[0]?.startMs ?? 0,
      endMs: entries.at(-1)?.endMs ?? 0,
      bytes: 0,
      fragments: entries.length,
      frames: frames.length,
      sealed: true,
    },
    table: FragmentTable.of(entries),
    frames: rows,
  }
}

const show = (all: ReadonlyArray<Made>, telling = true) => {
  const byId = new Map(all.map((one) => [one.file.id, one]))
  const files = all.map(({ file }) => file).sort((a, b) => a.startMs - b.startMs || (a.id < b.id ? -1 : 1))
  const read: Array<string> = []
  return Effect.map(
    shownOf(files, {
      table: (file) =>
        Effect.sync(() => {
          read.push(file.id)
          return byId.get(file.id)?.table ?? null
        }),
      hash: (file, _, row) =>
        Effect.succeed(telling ? `picture ${byId.get(file.id)?.frames[row]?.[0]}` : `${file.id} ${row}`),
    }),
    (shown) => ({ frames: framesOf(byId, shown), read, shown }),
  )
}

const framesOf = (byId: ReadonlyMap<string, Made>, shown: ReadonlyArray<Shown>) =>
  shown.flatMap(({ file, from, to }) => byId.get(file.id)?.frames.slice(from, to).flat() ?? [])

/** For people: numbers as runs. */
const runsOf = (frames: ReadonlyArray<number>): string => {
  const runs: Array<[number, number]> = []
  for (const frame of frames) {
    const last = runs.at(-1)
    if (last !== undefined && last[1] === frame - 1) last[1] = frame
    else runs.push([frame, frame])
  }
  return runs.map(([from, to]) => `${from}-${to}`).join(" ")
}
const told = ({ file, frames, table }: Made) => `${file.nodeId} ${runsOf(frames.flat())} at ${table.startMs(0)}`

const range = (from: number, to: number) => Array.from({ length: to - from }, (_, n) => from + n)

/** A node's footage: some files, and holes within and between them; it goes on with a key picture each time. */
const laneOf = (node: number, random: () => number): ReadonlyArray<Made> => {
  const upTo = (n: number) => Math.floor(random() * n)
  const shiftMs = 10_000 + upTo(600) - 300
  const most = 3 + upTo(6)
  const files: Array<Made> = []
  let at = upTo(8) * group
  for (let epoch = 1; at < 600; epoch++) {
    const frames: Array<number> = []
    for (let runs = 1 + upTo(3); runs > 0; runs--) {
      const to = at + group + upTo(150)
      frames.push(...range(at, to))
      at = Math.ceil(to / group) * group + upTo(8) * group
    }
    files.push(fileOf(node, epoch, frames, shiftMs, most))
  }
  return files
}

describe("footage of several nodes", () => {
  it.effect("shows each picture that any of them has, once and in order", () =>
    Effect.gen(function*() {
      for (let seed = 1; seed <= 150; seed++) {
        const random = randomFrom(seed)
        const all = range(0, 2 + (seed % 2)).flatMap((node) => laneOf(node, random))
        const { frames } = yield* show(all)
        const there = [...new Set(all.flatMap((one) => one.frames.flat()))].sort((a, b) => a - b)
        assert.strictEqual(runsOf(frames), runsOf(there), `seed ${seed}: ${all.map(told).join("; ")}`)
      }
    }))

  it.effect("leaves what nobody else overlaps as it is, and reads nothing for it", () =>
    Effect.gen(function*() {
      const all = [
        fileOf(0, 1, range(0, 100), 0, 10),
        fileOf(0, 1, range(100, 200), 0, 10),
        fileOf(1, 2, range(240, 300), 0, 10),
        fileOf(0, 3, range(340, 400), 0, 10),
      ]
      const { read, shown } = yield* show(all)
      assert.deepStrictEqual(read, [])
      assert.deepStrictEqual(
        shown.map(({ file, from, to }) => [file.id, from, to]),
        all.map(({ file }) => [file.id, 0, Number.POSITIVE_INFINITY]),
      )
    }))

  it.effect("goes by the clock where no picture is the same, and rather shows one twice than not at all", () =>
    Effect.gen(function*() {
      const all = [fileOf(0, 1, range(0, 105), 0, 10), fileOf(1, 2, range(80, 200), 30, 10)]
      const { frames } = yield* show(all, false)
      assert.deepStrictEqual([...new Set(frames)], range(0, 200))
      assert.isAtMost(frames.length, 220)
    }))

  it.effect("is not misled by a picture that comes again and again", () =>
    Effect.gen(function*() {
      const all = [fileOf(0, 1, range(0, 105), 0, 10), fileOf(1, 2, range(80, 200), 200, 10)]
      const byId = new Map(all.map((one) => [one.file.id, one]))
      const shown = yield* shownOf(all.map(({ file }) => file), {
        table: (file) => Effect.succeed(byId.get(file.id)?.table ?? null),
        hash: () => Effect.succeed("the same"),
      })
      assert.deepStrictEqual(framesOf(byId, shown), range(0, 200))
    }))
})
