/**
 * kill -9 of a recording node, again and again at random moments, and what must be true afterwards.
 *
 * Invariants
 * 1. Nothing is asked of the node about itself that the disk and the cameras can tell, but the ledger, which is then judged by both.
 * 2. The chances are repeatable (`seed`); what the machine makes of them is not.
 */
import { chmodSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import type { CameraReport, SessionReport } from "../camera-simulator/camera.ts"
import { type Cameras, record, type Recorded, startCameras } from "./cameras.ts"
import { conclude, frameMs } from "./conclude.ts"
import { Disk, settle } from "./disk.ts"
import type { StoredFrame } from "./footage.ts"
import { dueOf } from "./judge.ts"
import { makeNode, type NodeProcess, sleep } from "./node-process.ts"
import type { Report } from "./report.ts"
import { embeddedUrl } from "./rows.ts"

export interface KillOptions {
  readonly kills: number
  readonly cameras: number
  readonly seed: number
  /** Rows are compared with the disk after so many kills, and at the end. */
  readonly settleEvery: number
}

/** What rests in the socket (`NIGHTJAR_DRAIN_MS`), and a write on a disk that others keep busy as well. */
const onTheWayMs = 60 + 100
/** A fragment, the picture that shows where it ends, and what is on its way. */
const lossBoundMs = 1_000 + frameMs + onTheWayMs

const numbers = (seed: number): () => number => {
  let state = seed >>> 0
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 0x1_0000_0000
  }
}

/** How late this machine is with a timer: what it adds to any delay, of a node as well. */
const watchLateness = () => {
  const seen: Array<{ readonly at: number; readonly lateMs: number }> = []
  let due = performance.now() + 20
  const timer = setInterval(() => {
    const now = performance.now()
    seen.push({ at: now, lateMs: Math.max(0, now - due) })
    due = now + 20
    while (seen[0] !== undefined && seen[0].at < now - 5_000) seen.shift()
  }, 20)
  return {
    /** The worst of the last 1.5 s. */
    worstMs: () => {
      const now = performance.now()
      return Math.max(now - due, ...seen.filter(({ at }) => at > now - 1_500).map(({ lateMs }) => lateMs), 0)
    },
    stop: () => clearInterval(timer),
  }
}

/** The session that this life of the node had with a camera, once a key picture was sent in it. */
const sessionOf = (camera: CameraReport, sinceMs: number): SessionReport | undefined =>
  camera.sessions.findLast((session) =>
    session.openedMs >= sinceMs && session.video !== null && session.video.firstKey !== null
  )

interface Figures {
  readonly lossMs: Array<number>
  readonly startMs: Array<number>
  readonly settleMs: Array<number>
  duringStart: number
  beforePicture: number
  worstLateMs: number
}

const percentile = (values: ReadonlyArray<number>, part: number): string =>
  values.length === 0 ?
    "-" :
    values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * part))]!.toFixed(0)

/** What of the pictures sent before the kill is not there, measured in time. */
const measureLoss = (
  camera: CameraReport,
  frames: ReadonlyArray<StoredFrame>,
  life: { readonly launchedMs: number; readonly killedMs: number; readonly lateMs: number; readonly name: string },
  figures: Figures,
  report: Report,
): void => {
  const session = sessionOf(camera, life.launchedMs)
  if (session === undefined || frames.length === 0) {
    figures.beforePicture++
    return
  }
  const due = dueOf(frames, frameMs)
  const newest = frames.reduce((most, { frame }) => Math.max(most, frame), -1)
  const lostFrom = Math.max(newest + 1, session.video!.firstKey!)
  const lossMs = Math.max(0, life.killedMs - due(lostFrom))
  figures.lossMs.push(lossMs)
  const most = lossBoundMs + life.lateMs
  report.check(
    lossMs <= most,
    `${life.name}, ${camera.name}: ${lossMs.toFixed(0)} ms lost before the kill, more than ${
      most.toFixed(0)
    } (frames from ${lostFrom})`,
  )
}

interface Scene {
  readonly node: NodeProcess
  readonly cameras: Cameras
  readonly disk: Disk
  readonly recordings: ReadonlyArray<Recorded>
}

const life = async (
  { cameras, disk, node, recordings }: Scene,
  turn: {
    readonly number: number
    readonly duringStart: boolean
    readonly chance: () => number
    readonly settle: boolean
  },
  figures: Figures,
  report: Report,
): Promise<void> => {
  const lateness = watchLateness()
  const launchedMs = Date.now()
  if (!node.running) node.launch()
  if (turn.duringStart) {
    figures.duringStart++
    await sleep(turn.chance() * 1_500)
  } else {
    await node.untilHealthy()
    figures.startMs.push(Date.now() - launchedMs)
    if (turn.settle) figures.settleMs.push(await settle(embeddedUrl(node.data), disk, report, { whole: false }))
    await sleep(200 + turn.chance() * 3_300)
  }
  const lateMs = lateness.worstMs()
  figures.worstLateMs = Math.max(figures.worstLateMs, lateMs)
  lateness.stop()
  const killedMs = await node.kill()
  const reports = await cameras.reports()
  await disk.look()
  for (const [k, { recordingId }] of recordings.entries()) {
    const moment = { launchedMs: launchedMs - 20, killedMs, lateMs, name: `kill ${turn.number}` }
    measureLoss(reports[k]!, disk.frames(recordingId), moment, figures, report)
  }
}

/** The whole proof. The folder is kept where it failed. */
export const proveKills = async (report: Report, options: KillOptions): Promise<void> => {
  const folder = mkdtempSync(path.join(tmpdir(), "nightjar-kill-"))
  // PostgreSQL may run under another account.
  chmodSync(folder, 0o755)
  const chance = numbers(options.seed)
  const figures: Figures = { lossMs: [], startMs: [], settleMs: [], duringStart: 0, beforePicture: 0, worstLateMs: 0 }
  const cameras = await startCameras(options.cameras, ["--sub", "none"])
  const node = await makeNode(folder, { NIGHTJAR_FILE_MINUTES: "1" })
  const disk = new Disk(path.join(node.data, "footage"), report)
  try {
    await node.start()
    const recordings: Array<Recorded> = []
    for (const [k, sourceUrl] of cameras.urls.entries()) {
      const { password, username } = cameras
      recordings.push(await record(node, { name: `camera ${k}`, sourceUrl, username, password }))
    }
    await sleep(3_000)
    const scene: Scene = { node, cameras, disk, recordings }
    for (let number = 1; number <= options.kills; number++) {
      const duringStart = number > 1 && chance() < 0.15
      await life(scene, { number, duringStart, chance, settle: number % options.settleEvery === 0 }, figures, report)
      if (number % 10 === 0) report.say(`${number} kills, ${disk.files.size} files, ${report.faults.length} faults`)
    }
    await node.start()
    await sleep(4_000)
    const { settleMs } = await conclude(node, embeddedUrl(node.data), recordings, disk, report)
    figures.settleMs.push(settleMs)
    await node.stop()
    await disk.look()
    report.say(
      `${options.kills} kills, ${figures.duringStart} of them during a start; ${figures.lossMs.length} streams cut while delivering, ` +
        `${figures.beforePicture} before a first picture`,
    )
    report.say(
      `lost before the kill: half ${percentile(figures.lossMs, 0.5)}, 95% ${percentile(figures.lossMs, 0.95)}, most ` +
        `${percentile(figures.lossMs, 1)} ms (bound ${lossBoundMs} and the machine's lateness, at most ${
          figures.worstLateMs.toFixed(0)
        })`,
    )
    report.say(
      `start to healthy: half ${percentile(figures.startMs, 0.5)}, most ${
        percentile(figures.startMs, 1)
      } ms; rows equal the disk ` +
        `${figures.settleMs.length} times, within ${
          percentile(figures.settleMs, 1)
        } ms; ${disk.checked.size} files decoded`,
    )
  } finally {
    await node.stop()
    await cameras.stop()
    if (report.faults.length === 0) rmSync(folder, { recursive: true, force: true })
    else report.say(`kept for a look: ${folder}`)
  }
}
