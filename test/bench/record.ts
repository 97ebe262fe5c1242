/**
 * What recording costs: a Nightjar node against one `ffmpeg -c copy -f segment` a camera, side by side.
 *
 *   npm run bench:record -- --cameras 1,10,30 --seconds 60 [--warm-up 10] [--pacing burst|spread] [--codec h264|h265]
 *                           [--transport tcp|udp] [--only node|ffmpeg] [--json FILE]
 *
 * How it is fair
 * 1. Both read the same simulated cameras (1080p25, 4 Mbit/s, AAC) at the same time: each camera is sent to two viewers, so both meet the
 *    same packets, the same machine and the same moment.
 * 2. CPU is user and system time of whole process trees over the same window, after a warm-up; the node's includes its
 *    PostgreSQL, HTTP server and everything else it does. The cameras run in a process of their own that counts for neither.
 * 3. Loss is counted by the frame numbers in the recorded bytes, of both: every number between the first and the last recorded
 *    must be there once, and the last recorded must reach past the end of the window.
 *
 * Exits with 1 where a frame is lost.
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process"
import { existsSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { createInterface } from "node:readline"
import { parseArgs } from "node:util"
import type { CameraReport } from "../camera-simulator/camera.ts"
import { benchFolder } from "../camera-simulator/footage.ts"
import { coverage, type FrameMark, framesOfMp4 } from "../camera-simulator/frames.ts"
import { type NodeProcess, startNode } from "../harness/node-process.ts"
import { cpuSeconds, memoryBytes } from "./usage.ts"

const { values } = parseArgs({
  options: {
    cameras: { type: "string", default: "1,10,30" },
    seconds: { type: "string", default: "60" },
    "warm-up": { type: "string", default: "10" },
    pacing: { type: "string", default: "burst" },
    codec: { type: "string", default: "h264" },
    transport: { type: "string", default: "tcp" },
    only: { type: "string" },
    json: { type: "string" },
  },
})
const seconds = Number(values.seconds)
const withNode = values.only !== "ffmpeg"
const withFfmpeg = values.only !== "node"
const root = path.join(import.meta.dirname, "..", "..")
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))
const say = (line: string): void => void process.stdout.write(`${line}\n`)

interface Cameras {
  readonly child: ChildProcess
  readonly urls: ReadonlyArray<string>
  readonly username: string
  readonly password: string
  readonly reports: () => Promise<ReadonlyArray<CameraReport>>
}

interface Side {
  readonly cpuPerCameraMinute: number
  readonly memoryMiB: number | null
  readonly lostFrames: number
  readonly frames: number
}

interface Outcome {
  readonly cameras: number
  readonly node: (Side & { readonly postgresMiB: number | null; readonly postgresCpuPerCameraMinute: number }) | null
  readonly ffmpeg: Side | null
  readonly ratio: number | null
  readonly simulatorCpuPercentPerCamera: number
}

const footage = (): string => {
  const file = path.join(benchFolder, `main-1920x1080-25.${values.codec}`)
  if (!existsSync(file)) {
    say("making the footage (once)")
    const made = spawnSync(path.join(root, "test/fixtures/make-media.sh"), ["bench"], {
      stdio: ["ignore", "ignore", "inherit"],
    })
    if (made.status !== 0) throw new Error("the footage cannot be made without ffmpeg")
  }
  return file
}

const startCameras = async (count: number): Promise<Cameras> => {
  const program = [path.join(root, "test/camera-simulator/main.ts"), "--with-parent", "--start-at-key"]
  const settings = ["--cameras", String(count), "--video", footage(), "--sub", "none", "--pacing", values.pacing]
  const child = spawn(process.execPath, [...program, ...settings], { stdio: ["pipe", "pipe", "inherit"] })
  const line = await createInterface({ input: child.stdout })[Symbol.asyncIterator]().next()
  if (line.done === true) throw new Error("the simulated cameras did not start")
  const told = JSON.parse(line.value) as {
    control: string
    cameras: ReadonlyArray<{ username: string; password: string; streams: ReadonlyArray<{ url: string }> }>
  }
  return {
    child,
    urls: told.cameras.map((camera) => camera.streams[0]!.url),
    username: told.cameras[0]!.username,
    password: told.cameras[0]!.password,
    reports: async () =>
      ((await (await fetch(told.control)).json()) as { cameras: ReadonlyArray<CameraReport> }).cameras,
  }
}

const startFfmpegs = (cameras: Cameras, folder: string): ReadonlyArray<ChildProcess> =>
  cameras.urls.map((url, index) => {
    const own = path.join(folder, String(index))
    mkdirSync(own, { recursive: true })
    const input = url.replace("rtsp://", `rtsp://${cameras.username}:${cameras.password}@`)
    const read = ["-hide_banner", "-loglevel", "error", "-rtsp_transport", values.transport, "-i", input]
    const write = ["-map", "0", "-c", "copy", "-f", "segment", "-segment_time", "60", path.join(own, "%04d.mp4")]
    return spawn("ffmpeg", [...read, ...write], { stdio: ["pipe", "ignore", "inherit"] })
  })

const addCameras = async (node: NodeProcess, cameras: Cameras): Promise<void> => {
  for (const [index, sourceUrl] of cameras.urls.entries()) {
    const camera = (await node.call("POST", "/camera/api/v1/cameras", {
      name: `bench ${index}`,
      driver: "rtsp",
      streams: [{ role: "main", sourceUrl }],
      username: cameras.username,
      password: cameras.password,
      ...(values.transport === "udp" ? { transport: "udp" } : {}),
    })) as { channels: ReadonlyArray<{ id: string }> }
    await node.call("POST", "/record/api/v1/recordings", {
      channelId: camera.channels[0]!.id,
      role: "main",
      mode: "continuous",
      enabled: true,
      retentionDays: 1,
    })
  }
}

const untilWatched = async (cameras: Cameras, viewers: number): Promise<void> => {
  const begun = performance.now()
  for (;;) {
    const watched = (await cameras.reports()).map((report) => report.mounts[0]!.viewers)
    if (watched.every((count) => count >= viewers)) return
    if (performance.now() - begun > 60_000) {
      throw new Error(`not every camera has ${viewers} viewers: ${watched.join(" ")}`)
    }
    await sleep(500)
  }
}

/**
 * Frames found and lost in the recordings under a folder. `reached`: the newest frame each camera had sent when the window ended.
 */
const countFrames = (
  folder: string,
  reached: ReadonlyMap<string, number>,
): { readonly frames: number; readonly lost: number } => {
  const marks = new Map<string, Array<FrameMark>>([...reached.keys()].map((name) => [name, []]))
  for (const file of globSync(path.join(folder, "**", "*.mp4"))) {
    for (const mark of framesOfMp4(readFileSync(file))) marks.get(mark.name)?.push(mark)
  }
  let frames = 0
  let lost = 0
  for (const [name, found] of marks) {
    const seen = coverage(found.toSorted((a, b) => a.frame - b.frame))
    frames += seen?.count ?? 0
    lost += seen === null ? reached.get(name)! : seen.missing.reduce((sum, [from, to]) => sum + to - from, 0)
    lost += seen?.repeated.length ?? 0
    if (seen !== null) lost += Math.max(0, reached.get(name)! - seen.last)
  }
  return { frames, lost }
}

const stopAll = async (children: ReadonlyArray<ChildProcess>, signal: NodeJS.Signals): Promise<void> => {
  const running = children.filter((child) => child.exitCode === null && child.signalCode === null)
  const gone = running.map((child) => new Promise((resolve) => child.once("exit", resolve)))
  for (const child of running) child.kill(signal)
  await Promise.all(gone)
}

const mebibytes = (bytes: number | null): number | null => (bytes === null ? null : bytes / (1 << 20))

/** The window itself: both sides' use of CPU between two moments, and their memory at the end. */
const measure = async (cameras: Cameras, node: NodeProcess | null, ffmpegs: ReadonlyArray<ChildProcess>) => {
  const count = cameras.urls.length
  const roots = {
    node: node?.roots().node ?? [],
    postgres: node?.roots().postgres ?? [],
    ffmpeg: ffmpegs.map((child) => child.pid!),
    simulator: [cameras.child.pid!],
  }
  const trees = { ...roots, whole: [...roots.node, ...roots.postgres] }
  const names = Object.keys(trees) as ReadonlyArray<keyof typeof trees>
  const used = () =>
    Object.fromEntries(names.map((name) => [name, cpuSeconds(trees[name])])) as Record<keyof typeof trees, number>
  const before = used()
  const begun = performance.now()
  await sleep(seconds * 1000)
  const after = used()
  const minutes = (performance.now() - begun) / 60_000
  const perCameraMinute = (name: keyof typeof trees): number => (after[name] - before[name]) / minutes / count
  const wholeMemory = memoryBytes(trees.whole)
  const postgresMemory = memoryBytes(trees.postgres)
  const reached = new Map(
    (await cameras.reports()).map((report) => [report.mounts[0]!.path, report.mounts[0]!.video.last!]),
  )
  return {
    node: {
      cpuPerCameraMinute: perCameraMinute("whole"),
      postgresCpuPerCameraMinute: perCameraMinute("postgres"),
      memoryMiB: mebibytes(wholeMemory === null || postgresMemory === null ? null : wholeMemory - postgresMemory),
      postgresMiB: mebibytes(postgresMemory),
    },
    ffmpeg: { cpuPerCameraMinute: perCameraMinute("ffmpeg"), memoryMiB: mebibytes(memoryBytes(trees.ffmpeg)) },
    simulatorCpuPercentPerCamera: (perCameraMinute("simulator") / 60) * 100,
    reached,
  }
}

const compare = async (count: number): Promise<Outcome> => {
  const folder = mkdtempSync(path.join(tmpdir(), "nightjar-bench-"))
  // PostgreSQL may run under another account.
  spawnSync("chmod", ["755", folder])
  const cameras = await startCameras(count)
  let node: NodeProcess | null = null
  let ffmpegs: ReadonlyArray<ChildProcess> = []
  try {
    if (withNode) {
      node = await startNode(folder)
      await addCameras(node, cameras)
    }
    if (withFfmpeg) ffmpegs = startFfmpegs(cameras, path.join(folder, "ffmpeg"))
    await untilWatched(cameras, (withNode ? 1 : 0) + (withFfmpeg ? 1 : 0))
    await sleep(Number(values["warm-up"]) * 1000)
    const found = await measure(cameras, node, ffmpegs)
    // What was sent until the window's end is on disk once the next fragment is.
    await sleep(3_000)
    await stopAll(ffmpegs, "SIGINT")
    await node?.stop()
    const recorded = (own: string) => {
      const { frames, lost } = countFrames(path.join(folder, own), found.reached)
      return { frames, lostFrames: lost }
    }
    return {
      cameras: count,
      node: withNode ? { ...found.node, ...recorded("data") } : null,
      ffmpeg: withFfmpeg ? { ...found.ffmpeg, ...recorded("ffmpeg") } : null,
      ratio: withNode && withFfmpeg ? found.node.cpuPerCameraMinute / found.ffmpeg.cpuPerCameraMinute : null,
      simulatorCpuPercentPerCamera: found.simulatorCpuPercentPerCamera,
    }
  } finally {
    await stopAll(ffmpegs, "SIGKILL")
    await node?.stop()
    await stopAll([cameras.child], "SIGTERM")
    rmSync(folder, { recursive: true, force: true })
  }
}

const digits = (value: number | null | undefined, places: number): string =>
  value === null || value === undefined ? "-" : value.toFixed(places)

const outcomes: Array<Outcome> = []
say(
  `${values.codec} 1080p25 4 Mbit/s with AAC, ${values.pacing}, ${values.transport}, window of ${seconds} s, CPU seconds a camera-minute`,
)
say("cameras  node   (postgres)  ffmpeg  ratio  node MiB  postgres MiB  ffmpeg MiB  lost node  lost ffmpeg  frames")
for (const count of values.cameras.split(",").map(Number)) {
  const outcome = await compare(count)
  outcomes.push(outcome)
  say([
    String(count).padEnd(8),
    digits(outcome.node?.cpuPerCameraMinute, 3).padEnd(6),
    `(${digits(outcome.node?.postgresCpuPerCameraMinute, 3)})`.padEnd(11),
    digits(outcome.ffmpeg?.cpuPerCameraMinute, 3).padEnd(7),
    digits(outcome.ratio, 2).padEnd(6),
    digits(outcome.node?.memoryMiB, 0).padEnd(9),
    digits(outcome.node?.postgresMiB, 0).padEnd(13),
    digits(outcome.ffmpeg?.memoryMiB, 0).padEnd(11),
    digits(outcome.node?.lostFrames, 0).padEnd(10),
    digits(outcome.ffmpeg?.lostFrames, 0).padEnd(12),
    digits(outcome.node?.frames ?? outcome.ffmpeg?.frames, 0),
  ].join(" "))
}
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(outcomes, null, 2)}\n`)
process.exitCode = outcomes.every((one) => (one.node?.lostFrames ?? 0) + (one.ffmpeg?.lostFrames ?? 0) === 0) ? 0 : 1
