/**
 * Disks that fill, fail, hang and vanish while four cameras are recorded: `npm run prove:disk -- [--only hang,full]`.
 *
 * Two small file systems are made in files and mounted (needs root and loop devices; says aloud what it skips where it cannot) and
 * unmounted at the end. What a person sees by REST, in the events and in the log; gaps by frame numbers; footage byte for byte; memory.
 */
import { mkdirSync } from "node:fs"
import * as path from "node:path"
import { parseArgs } from "node:util"
import type { Recorded } from "../harness/cameras.ts"
import { compare, conclude, type DiskStage, play, proveDisks, untilRecording } from "../harness/disk-proof.ts"
import { hang, moveAway, oneOfTwoVanishes, runFull, type Scene, turnReadOnly, vanish } from "../harness/disk-scenes.ts"
import { Disk, withoutDisks } from "../harness/disks.ts"
import { sleep } from "../harness/node-process.ts"
import { prove, type Report } from "../harness/report.ts"
import { foldersOf, gapsOf, watch } from "../harness/sight.ts"

const { values } = parseArgs({ options: { only: { type: "string" } } })
const wanted = (name: string): boolean => values.only === undefined || values.only.split(",").includes(name)

const mebibyte = 1 << 20
const diskMiB = 96
const floorMiB = 16

/** Files of footage that are sealed are deleted, the oldest first, and recording goes on without a gap. */
const makeRoom = async (stage: DiskStage, disks: ReadonlyArray<Disk>): Promise<void> => {
  const { node, recordings, report } = stage
  const before = await conclude(stage, ["disk_error", "disk_slow"])
  await untilRecording(stage, "before the floor is reached")
  // A gap before the first picture may still be open in one of them.
  const gapsBut = async (recorded: Recorded) =>
    (await gapsOf(node, recorded)).filter(({ cause }) => cause !== "starting")
  const gaps = await Promise.all(recordings.map(gapsBut))
  for (const disk of disks) disk.fill(floorMiB * mebibyte - 512 * 1_024)
  // What is open cannot be deleted and grows on: on disks this small the folders may stay below their floor, but room is made.
  const { held, tookMs } = await watch(async () => compare(before, report, true), (gone) => gone.length > 0, 30_000)
  report.check(held, "the floor: nothing was deleted")
  await sleep(20_000)
  const gone = compare(before, report, true)
  report.say(`the floor: the first file went after ${(tookMs / 1_000).toFixed(0)} s`)
  for (const [k, recorded] of recordings.entries()) {
    // Rows follow within seconds; until then a gap may lack its cause.
    const told = await watch(() => gapsBut(recorded), (now) => now.length <= gaps[k]!.length, 10_000)
    report.check(told.held, `the floor: camera ${k} has a gap: ${JSON.stringify(told.seen.at(-1))}`)
  }
  report.say(`the floor: ${gone.length} files made room, no gap`)
  for (const disk of disks) disk.relieve()
  const well = await watch(() => foldersOf(node), (folders) => folders.every(({ state }) => state === "ok"), 60_000)
  report.check(well.held, `the floor, and over: the folders are ${JSON.stringify(well.seen)}`)
}

const scenes = (disks: ReadonlyArray<Disk>) => async (stage: DiskStage): Promise<void> => {
  const { report } = stage
  const lasting: ReadonlyArray<readonly [string, Scene]> = [
    ["hang", hang(disks)],
    ["one", oneOfTwoVanishes(disks[0]!)],
    ["one", oneOfTwoVanishes(disks[1]!)],
    ["vanish", vanish(disks)],
    ["readOnly", turnReadOnly(disks)],
  ]
  for (const [name, scene] of lasting) {
    if (!wanted(name)) continue
    await play(stage, scene)
    await sleep(8_000)
  }
  const before = await conclude(stage, lasting.flatMap(([, { causes }]) => causes))
  await untilRecording(stage, "after a pause")
  compare(before, report, false)
  if (wanted("floor")) await makeRoom(stage, disks)
  if (!wanted("full")) return
  await play(stage, runFull(disks))
  await sleep(8_000)
  const gone = compare(before, report, true)
  report.say(`full: ${gone.length} files of before were deleted in vain`)
  const since = Math.max(0, ...gone.flatMap(({ fragments }) => fragments.map(({ endMs }) => endMs)))
  await conclude(stage, ["disk_full", ...lasting.flatMap(([, { causes }]) => causes)], since)
}

const onDisks = (report: Report) =>
  proveDisks(report, {
    cameras: 4,
    storage: (folder) => {
      const disks = [new Disk(folder, "alpha", diskMiB), new Disk(folder, "beta", diskMiB)]
      made = disks
      const floor = (floorMiB / 1_024).toFixed(6)
      return {
        setting: disks.map(({ name, path: where }) => `${name}=${where}:${floor}`).join(","),
        folders: disks.map(({ path: where }) => where),
        drop: () => disks.forEach((disk) => disk.drop()),
      }
    },
    scenes: (stage) => scenes(made)(stage),
  })
let made: ReadonlyArray<Disk> = []

/** Needs no rights. */
const onFolder = (report: Report) =>
  proveDisks(report, {
    cameras: 2,
    storage: (folder) => {
      const where = path.join(folder, "main")
      mkdirSync(where)
      return { setting: `main=${where}:0`, folders: [where], drop: () => undefined }
    },
    scenes: async (stage) => {
      await play(stage, moveAway("main", stage.folders[0]!))
      await conclude(stage, ["disk_error"])
    },
  })

await prove("prove:disk", async (report) => {
  if (wanted("moved")) await onFolder(report)
  const without = withoutDisks()
  if (without === "") await onDisks(report)
  else report.say(`SKIPPED: full, read-only, hung and unmounted disks: no disks can be made here (${without})`)
})
