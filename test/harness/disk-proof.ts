/**
 * Folders of footage that fill, fail, hang and vanish while cameras are recorded.
 *
 * Invariants
 * 1. State, reason, open gap, folders and health are what a person gets by REST; missing pictures are counted in the footage by their
 *    numbers.
 * 2. What was recorded before stays, byte for byte, but for what retention took to make room.
 */
import { chmodSync, existsSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { type Cameras, record, type Recorded, startCameras } from "./cameras.ts"
import type { Scene } from "./disk-scenes.ts"
import { type DiskFile, stillHas } from "./footage.ts"
import { judge } from "./judge.ts"
import { watchMemory } from "./memory.ts"
import { makeNode, type NodeProcess, sleep } from "./node-process.ts"
import type { Report } from "./report.ts"
import { readShelf, type Shelf } from "./shelf.ts"
import { eventsOf, type FolderSight, foldersOf, gapsOf, healthOf, logOf, lookAt, toggle, watch } from "./sight.ts"

export interface DiskStage {
  readonly node: NodeProcess
  readonly cameras: Cameras
  readonly recordings: ReadonlyArray<Recorded>
  readonly folders: ReadonlyArray<string>
  readonly report: Report
}

const frameMs = 40
/** A round of probes, a try of the recorder, and for a hung disk the time its queue takes to fill. */
const seenWithinMs = 60_000
/** How long a failed write keeps a folder from being tried, and the recorder's longest pause. */
const backWithinMs = 90_000
/** Longest an answer of the node may take while a disk is in trouble. */
const answerMs = 5_000
const flatMiB = 24

const seconds = (ms: number): string => `${(ms / 1_000).toFixed(1)} s`

export const untilRecording = async (
  { node, recordings, report }: DiskStage,
  what: string,
  limitMs = backWithinMs,
): Promise<void> => {
  const begun = performance.now()
  for (const recorded of recordings) {
    const { held, seen } = await watch(
      () => lookAt(node, recorded),
      ({ openGap, reason, state }) => state === "recording" && reason === "" && openGap === null,
      limitMs,
    )
    report.check(held, `${what}: seen is ${JSON.stringify(seen)}`)
  }
  report.say(`${what}: recording after ${seconds(performance.now() - begun)}`)
}

/** Asks all the time; the longest wait for an answer. */
const watchAnswers = (node: NodeProcess) => {
  let worstMs = 0
  let going = true
  const work = (async () => {
    while (going) {
      const begun = performance.now()
      await node.callSoon("GET", "/record/api/v1/recordings").catch(() => null)
      worstMs = Math.max(worstMs, performance.now() - begun)
      await sleep(200)
    }
  })()
  return async () => {
    going = false
    await work
    return worstMs
  }
}

const folderLine = ({ detail, name, state }: FolderSight): string =>
  `${name} ${state}${detail === "" ? "" : ` (${detail})`}`

/** Folders and health, as long as it lasts. */
const watchFolders = async ({ node, report }: DiskStage, scene: Scene): Promise<void> => {
  const expected = Object.entries(scene.folders)
  const { held, seen, tookMs } = await watch(() => foldersOf(node), (folders) => {
    const told = ([name, text]: readonly [string, RegExp]) =>
      folders.some((one) => one.name === name && text.test(`${one.state}: ${one.detail}`))
    return scene.any === true ? expected.some(told) : expected.every(told)
  }, seenWithinMs)
  const text = seen.map(folderLine).join("; ")
  report.check(held, `${scene.name}: the folders are ${text}`)
  report.say(`${scene.name}: after ${seconds(tookMs)} ${text}`)
  const health = (await healthOf(node))["storage:folders"] ?? ""
  const all = seen.every(({ state }) => state !== "ok")
  report.check(health.startsWith(all ? "fail" : "warn"), `${scene.name}: health says ${health}`)
}

/** What a person must see while it lasts. */
const suffer = async (stage: DiskStage, scene: Scene): Promise<void> => {
  const { node, recordings, report } = stage
  await watchFolders(stage, scene)
  if (scene.failed === null) return
  const { reason } = scene.failed
  for (const recorded of recordings) {
    const { held, seen, tookMs } = await watch(
      () => {
        scene.press?.()
        return lookAt(node, recorded)
      },
      (sight) =>
        sight.state === "failed" && reason.test(sight.reason) && scene.causes.includes(sight.openGap?.cause ?? ""),
      seenWithinMs,
    )
    report.check(held, `${scene.name}: seen is ${JSON.stringify(seen)}`)
    if (held && recorded === recordings[0]) {
      report.say(
        `${scene.name}: after ${
          seconds(tookMs)
        } more recording ${seen.state}, gap ${seen.openGap?.cause}, "${seen.reason}"`,
      )
    }
  }
}

/** One scene, from well to well. */
export const play = async (stage: DiskStage, scene: Scene): Promise<void> => {
  const { node, recordings, report } = stage
  const logged = logOf(node).length
  const slowest = watchAnswers(node)
  scene.begin()
  try {
    await suffer(stage, scene)
    await sleep(scene.lastMs)
  } finally {
    scene.end()
  }
  await untilRecording(stage, `${scene.name}, and over`)
  const worst = await slowest()
  report.check(worst < answerMs, `${scene.name}: an answer took ${seconds(worst)}`)
  report.say(`${scene.name}: the slowest answer took ${worst.toFixed(0)} ms`)
  const log = logOf(node, logged)
  const untold = Object.keys(scene.folders).filter((name) =>
    !new RegExp(`storage folder changed its state.*"${name}"`).test(log)
  )
  const enough = scene.any === true ? untold.length < Object.keys(scene.folders).length : untold.length === 0
  report.check(enough, `${scene.name}: the log does not tell of ${untold.join(", ")}`)
  if (scene.failed === null) return
  for (const recorded of recordings) {
    const { held, seen } = await watch(
      () => eventsOf(node, recorded),
      (events) =>
        scene.causes.some((cause) =>
          ["opened", "closed"].every((phase) => events.includes(`recording.gap.${phase} ${cause}`))
        ),
      5_000,
    )
    report.check(held, `${scene.name}: no event tells of it: ${seen.slice(-6).join(", ")}`)
  }
}

/** Pauses, reads everything, and judges it; `since`: from then on, epoch ms. */
export const conclude = async (stage: DiskStage, causes: ReadonlyArray<string>, since = 0): Promise<Shelf> => {
  const { folders, node, recordings, report } = stage
  for (const recorded of recordings) await toggle(node, recorded, false)
  await sleep(2_000)
  const shelf = await readShelf(folders, report)
  // Each conclusion before this one was a pause.
  const known = new Set([...causes, "operator_paused", "starting"])
  for (const [k, recorded] of recordings.entries()) {
    const frames = shelf.frames(recorded.recordingId).filter(({ wallMs }) => wallMs >= since)
    const found = judge(frames, await gapsOf(node, recorded, "paused"), frameMs)
    for (const fault of found.faults) report.fault(`camera ${k}: ${fault}`)
    for (const { causes: told, from, to } of found.missing) {
      report.check(
        told.every((cause) => known.has(cause)),
        `camera ${k}: frames ${from} to ${to - 1} are missing for ${told.join(", ")}`,
      )
    }
    const absent = found.missing.reduce((sum, { from, to }) => sum + to - from, 0)
    report.say(
      `camera ${k}: ${found.frames} pictures, ${found.missing.length} gaps with ${absent} pictures ` +
        `(${found.missing.map(({ causes: told }) => told.join("+")).join(", ")}); gaps within ${
          found.gapErrorMs.toFixed(0)
        } ms, ` +
        `wall clock within ${found.wallErrorMs.toFixed(0)} ms`,
    )
  }
  for (const recorded of recordings) await toggle(node, recorded, true)
  return shelf
}

/** What was there before must be there, unless retention took it; what it took. */
export const compare = (before: Shelf, report: Report, mayGo: boolean): ReadonlyArray<DiskFile> => {
  const gone = before.files.filter((file) => !existsSync(file.path))
  for (const file of before.files) {
    if (!gone.includes(file)) report.check(stillHas(file), `${file.path} has lost bytes it had`)
    else report.check(mayGo, `${file.path} is gone`)
  }
  return gone
}

export interface DiskProofOptions {
  readonly cameras: number
  /** `NIGHTJAR_STORAGE`. */
  readonly storage: (
    folder: string,
  ) => { readonly setting: string; readonly folders: ReadonlyArray<string>; readonly drop: () => void }
  readonly scenes: (stage: DiskStage) => Promise<void>
}

/** Node, cameras and recordings around scenes; and memory. The folder is kept where it failed. */
export const proveDisks = async (report: Report, options: DiskProofOptions): Promise<void> => {
  const folder = mkdtempSync(path.join(tmpdir(), "nightjar-disks-"))
  // PostgreSQL may run under another account.
  chmodSync(folder, 0o755)
  const { drop, folders, setting } = options.storage(folder)
  const cameras = await startCameras(options.cameras, ["--sub", "none"])
  const node = await makeNode(folder, {
    NIGHTJAR_STORAGE: setting,
    NIGHTJAR_FILE_MINUTES: "1",
    NIGHTJAR_WRITE_QUEUE_MIB: "1",
  })
  try {
    await node.start()
    const recordings: Array<Recorded> = []
    for (const [k, sourceUrl] of cameras.urls.entries()) {
      const { password, username } = cameras
      recordings.push(await record(node, { name: `camera ${k}`, sourceUrl, username, password }))
    }
    const stage: DiskStage = { node, cameras, recordings, folders, report }
    await untilRecording(stage, "the start", 30_000)
    await sleep(5_000)
    const memory = watchMemory(node)
    await options.scenes(stage)
    const { firstMiB, lastMiB, text } = memory.stop()
    report.check(lastMiB <= firstMiB + flatMiB, `memory grows: ${text}`)
    report.say(text)
  } finally {
    await node.stop()
    await cameras.stop()
    drop()
    if (report.faults.length === 0) rmSync(folder, { recursive: true, force: true })
    else report.say(`kept for a look: ${folder}`)
  }
}
