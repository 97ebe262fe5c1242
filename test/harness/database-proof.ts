/**
 * PostgreSQL goes away while four cameras are recorded, in every way it can, and comes back; and a node starts without it.
 *
 * Invariants
 * 1. While it is away the node is asked as a person and a player would ask; what it must answer stands here.
 * 2. Whether a picture is missing is told by the numbers of the frames in the footage alone.
 */
import { chmodSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { type Cameras, record, type Recorded, startCameras } from "./cameras.ts"
import { conclude } from "./conclude.ts"
import { Disk, settle } from "./disk.ts"
import { type Answer, makeNode, type NodeProcess, sleep } from "./node-process.ts"
import { broken, clusterOf, frozen, type Outage, OutsideServer } from "./outages.ts"
import type { Report } from "./report.ts"
import { embeddedUrl } from "./rows.ts"

export interface DatabaseOptions {
  readonly cameras: number
  /** How long PostgreSQL is away, each time. */
  readonly seconds: number
  /** How long a node that starts without it goes on without it. */
  readonly startSeconds: number
  /** The embedded server hangs; it is killed and cannot start; one that the node does not run is stopped. */
  readonly ways: ReadonlyArray<"frozen" | "broken" | "outside">
}

/** After its return the index must be complete within this. */
const completeMs = 60_000
/** Between two looks at a node without its database. */
const everyMs = 2_000

interface Scene {
  readonly node: NodeProcess
  readonly cameras: Cameras
  readonly recordings: ReadonlyArray<Recorded>
  readonly disk: Disk
  readonly report: Report
  /** Times in which no frame can be recorded, as the node does not run. */
  readonly down: Array<{ readonly startMs: number; readonly endMs: number }>
}

const bytesOf = (disk: Disk): number => [...disk.files.values()].reduce((sum, file) => sum + file.wholeBytes, 0)

const newestSegment = (playlist: Answer): string | undefined =>
  String(playlist.body).split("\n").findLast((line) => line !== "" && !line.startsWith("#"))

/** A session on the present of the first recording, once there is something to play: its playlist grows. */
const openReplay = async ({ node, recordings }: Scene): Promise<string> => {
  const made = (await node.callSoon("POST", "/replay/api/v1/replay/uri", {
    recordingToken: recordings[0]!.recordingToken,
    start: new Date(Date.now() - 5_000).toISOString(),
  })) as { readonly sessionId: string }
  const folder = `/replay/api/v1/hls/${made.sessionId}/`
  for (let tries = 0; tries < 40; tries++) {
    if (newestSegment(await node.ask("GET", `${folder}playlist.m3u8`)) !== undefined) break
    await sleep(250)
  }
  return folder
}

/** Milliseconds that each request took at most. */
type Times = Map<string, number>

/** Asks, and remembers how long the answer took. */
const timed = async (
  { node }: Scene,
  times: Times,
  [method, where, body]: readonly [method: string, where: string, body?: unknown],
) => {
  const begun = performance.now()
  const answer = await node.ask(method, where, body)
  const name = where.replace(/^.*\//, "")
  times.set(name, Math.max(times.get(name) ?? 0, performance.now() - begun))
  return answer
}

/** What any node must say while its database is away. */
const glance = async (scene: Scene, times: Times, when: string): Promise<void> => {
  const { report } = scene
  const health = await timed(scene, times, ["GET", "/health"])
  report.check(health.status === 503, `${when}: /health answers ${health.status}`)
  const cameras = await timed(scene, times, ["GET", "/camera/api/v1/cameras"])
  const { code, detail } = cameras.body as { readonly code?: string; readonly detail?: string }
  const told = cameras.status === 503 && code === "dependency_unavailable" && (detail ?? "") !== ""
  report.check(told, `${when}: the list of cameras answers ${cameras.status} ${JSON.stringify(cameras.body)}`)
}

/** What one must that had it before; answers the name of the newest segment that can be played. */
const lookAround = async (scene: Scene, times: Times, replay: string, when: string): Promise<string> => {
  const { recordings, report } = scene
  await glance(scene, times, when)
  const details = await timed(scene, times, ["GET", "/health/detailed"])
  const { checks } = details.body as {
    readonly checks: Readonly<Record<string, ReadonlyArray<{ readonly status: string; readonly output?: string }>>>
  }
  const database = checks["postgresql:responseTime"]?.[0]
  const honest = database?.status === "fail" && (database.output ?? "") !== ""
  report.check(honest, `${when}: health says of the database ${JSON.stringify(database)}`)
  for (const name of ["storage:folders", "capture:streams"]) {
    const fine = checks[name]?.[0]?.status === "pass"
    report.check(fine, `${when}: health says of ${name} ${JSON.stringify(checks[name])}`)
  }
  const session = { recordingToken: recordings[0]!.recordingToken, start: new Date(Date.now() - 5_000).toISOString() }
  const another = await timed(scene, times, ["POST", "/replay/api/v1/replay/uri", session])
  report.check(another.status === 503, `${when}: a new session answers ${another.status}`)
  return await play(scene, times, replay, when)
}

/** The newest segment of a playlist; answers its name. */
const play = async (scene: Scene, times: Times, replay: string, when: string): Promise<string> => {
  const { node, report } = scene
  const playlist = await timed(scene, times, ["GET", `${replay}playlist.m3u8`])
  const segment = newestSegment(playlist)
  if (playlist.status !== 200 || segment === undefined) {
    report.fault(`${when}: the playlist answers ${playlist.status} ${JSON.stringify(playlist.body)}`)
    return ""
  }
  const begun = performance.now()
  const media = await fetch(`${node.url}${replay}${segment}`, { signal: AbortSignal.timeout(15_000) })
  const { byteLength } = await media.arrayBuffer()
  times.set("segment", Math.max(times.get("segment") ?? 0, performance.now() - begun))
  const plays = media.status === 200 && byteLength > 1_000
  report.check(plays, `${when}: ${segment} answers ${media.status}, ${byteLength} bytes`)
  return segment
}

const told = (times: Times): string => [...times].map(([name, ms]) => `${name} ${ms.toFixed(0)}`).join(", ")

/** PostgreSQL is away for a time; then everything is as if it had not been. */
const goWithout = async (scene: Scene, outage: Outage, seconds: number, url: () => string): Promise<void> => {
  const { disk, node, report } = scene
  const { name } = outage
  await node.signIn()
  const replay = await openReplay(scene)
  await settle(url(), disk, report, { whole: false })
  const times: Times = new Map()
  const newest = new Set([await play(scene, new Map(), replay, `before ${name}`)])
  let looks = 0
  const begun = performance.now()
  await outage.begin()
  try {
    // A query that is under way may still be waited for.
    await sleep(Math.min(3_000, seconds * 300))
    let before = 0
    while (performance.now() - begun < seconds * 1_000) {
      newest.add(await lookAround(scene, times, replay, name))
      looks++
      await sleep(everyMs)
      await disk.look()
      const now = bytesOf(disk)
      report.check(now > before, `${name}: the footage does not grow`)
      before = now
    }
  } finally {
    await outage.end()
  }
  const away = (performance.now() - begun) / 1_000
  report.check(newest.size > 1, `${name}: the playlist did not grow in ${looks} looks`)
  const back = performance.now()
  const settledMs = await settle(url(), disk, report, { whole: false, limitMs: completeMs })
  await node.untilHealthy()
  const healthyMs = performance.now() - back
  report.say(
    `${name} for ${away.toFixed(0)} s; the rows equal the disk ${
      (settledMs / 1_000).toFixed(1)
    } s after its return, healthy ` +
      `within ${(healthyMs / 1_000).toFixed(1)} s; longest answers of ${looks} looks, ms: ${told(times)}`,
  )
}

/** The node is stopped, and started while PostgreSQL is away. */
const startWithout = async (scene: Scene, outage: Outage, seconds: number, url: () => string): Promise<void> => {
  const { disk, node, recordings, report } = scene
  const name = `started while ${outage.name}`
  const times: Times = new Map()
  const downAt = Date.now()
  await node.stop()
  await outage.begin()
  const launchedMs = Date.now()
  try {
    node.launch()
    const firstMs = await untilFrames(scene, launchedMs, name)
    scene.down.push({ startMs: downAt, endMs: launchedMs + firstMs })
    const until = performance.now() + seconds * 1_000
    while (performance.now() < until) {
      await glance(scene, times, name)
      await sleep(everyMs)
    }
    await disk.look()
    const frames = recordings.map(({ recordingId }) =>
      disk.frames(recordingId).filter(({ sentMs }) => sentMs > launchedMs).length
    )
    report.say(
      `${name}: pictures of all cameras on the disk ${(firstMs / 1_000).toFixed(1)} s after the start; ` +
        `${frames.join(", ")} of them in ${((Date.now() - launchedMs) / 1_000).toFixed(0)} s without it`,
    )
  } finally {
    await outage.end()
  }
  await node.untilHealthy()
  const settledMs = await settle(url(), disk, report, { whole: false, limitMs: completeMs })
  const settled = `healthy, and the rows equal the disk ${(settledMs / 1_000).toFixed(1)} s later`
  report.say(`${name}: ${settled}; longest answers, ms: ${told(times)}`)
}

/** Waits until every camera has frames on the disk that were sent after a moment; answers how long that took, ms. */
const untilFrames = async ({ disk, recordings, report }: Scene, sinceMs: number, name: string): Promise<number> => {
  const begun = performance.now()
  const missing = () =>
    recordings.filter(({ recordingId }) => !disk.frames(recordingId).some(({ sentMs }) => sentMs > sinceMs))
  do {
    await sleep(250)
    await disk.look()
  } while (missing().length > 0 && performance.now() - begun < 30_000)
  report.check(missing().length === 0, `${name}: ${missing().length} cameras are not recorded`)
  return performance.now() - begun
}

/** The ledger is exact, and nothing is missing but while the node itself was stopped. */
const concludeAll = async (scene: Scene, url: string): Promise<void> => {
  const { disk, down, node, recordings, report } = scene
  const { settleMs, verdicts } = await conclude(node, url, recordings, disk, report)
  report.say(`the rows equal the disk ${(settleMs / 1_000).toFixed(1)} s after the last picture`)
  for (const [k, { missing }] of verdicts.entries()) {
    for (const { endMs, from, startMs, to } of missing) {
      // A last fragment may be cut at the stop; the next group of pictures begins within its length.
      const known = down.some((one) => startMs > one.startMs - 1_000 && endMs < one.endMs + 2_500)
      report.check(known, `camera ${k}: frames ${from} to ${to - 1} are missing while the node ran`)
    }
  }
}

/** The embedded server; it is the node's to bring it back. */
const withEmbedded = async (scene: Scene, options: DatabaseOptions): Promise<void> => {
  const cluster = clusterOf(scene.node.data)
  const url = () => embeddedUrl(scene.node.data)
  if (options.ways.includes("frozen")) await goWithout(scene, frozen(cluster), options.seconds, url)
  if (!options.ways.includes("broken")) return
  await goWithout(scene, broken(cluster), options.seconds, url)
  await startWithout(scene, broken(cluster), options.startSeconds, url)
}

/** The same data, now behind a server that the node does not run. */
const withOutside = async (scene: Scene, options: DatabaseOptions): Promise<void> => {
  const { disk, node, report } = scene
  const server = new OutsideServer(clusterOf(node.data))
  const address = embeddedUrl(node.data)
  const downAt = Date.now()
  await node.stop()
  node.set({ NIGHTJAR_DATABASE_URL: address })
  await server.start()
  const launchedMs = Date.now()
  await node.start()
  scene.down.push({
    startMs: downAt,
    endMs: launchedMs + await untilFrames(scene, launchedMs, "outside server") + 30_000,
  })
  await settle(address, disk, report, { whole: false, limitMs: completeMs })
  await goWithout(scene, server.outage(), options.seconds, () => address)
  await startWithout(scene, server.outage(), options.startSeconds, () => address)
}

/** The whole proof. The folder is kept where it failed. */
export const proveDatabase = async (report: Report, options: DatabaseOptions): Promise<void> => {
  const folder = mkdtempSync(path.join(tmpdir(), "nightjar-database-"))
  // PostgreSQL may run under another account.
  chmodSync(folder, 0o755)
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
    const scene: Scene = { node, cameras, recordings, disk, report, down: [] }
    await untilFrames(scene, 0, "at first")
    await withEmbedded(scene, options)
    if (options.ways.includes("outside")) await withOutside(scene, options)
    await concludeAll(scene, embeddedUrl(node.data))
    await node.stop()
    await disk.look()
  } finally {
    await node.stop()
    await cameras.stop()
    if (report.faults.length === 0) rmSync(folder, { recursive: true, force: true })
    else report.say(`kept for a look: ${folder}`)
  }
}
