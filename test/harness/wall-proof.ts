/**
 * The video wall in Chromium while the cameras on it are recorded: every tile plays its camera's sub-stream, and nothing of that
 * costs a recording a picture.
 *
 * Invariants
 * 1. What a tile shows is what the browser counts as decoded; what is recorded is judged by the numbers in the pictures.
 * 2. CPU time is told by process: the node with its database, the cameras, and the rest, which is Chromium and this program.
 */
import { chmodSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import type { Browser, Page } from "playwright-core"
import { cpuSeconds } from "../bench/usage.ts"
import { signIn } from "../browser/node.ts"
import { type Cameras, record, type Recorded, startCameras } from "./cameras.ts"
import { launchChromium } from "./chromium.ts"
import { judge } from "./judge.ts"
import { makeNode, type NodeProcess, sleep } from "./node-process.ts"
import type { Report } from "./report.ts"
import { readShelf } from "./shelf.ts"
import { gapsOf, toggle } from "./sight.ts"

export interface WallFootage {
  /** Files of the simulated cameras; see `test/camera-simulator/footage.ts`. */
  readonly main: string
  readonly sub: string
}

export interface OpenWall {
  readonly node: NodeProcess
  readonly cameras: Cameras
  readonly browser: Browser
  readonly page: Page
  readonly recorded: ReadonlyArray<Recorded>
  /** What the browser complained about. */
  readonly complaints: ReadonlyArray<string>
  readonly close: (keep: boolean) => Promise<void>
}

interface Tile {
  readonly name: string
  readonly way: string
  readonly phase: string
  readonly pictures: number
  readonly dropped: number
}

/**
 * V8 lets its room for young objects grow to 64 MiB and gives it back when it likes, which hides what is kept. Held at 4 MiB a half, the
 * node collects more often, and its size is what it keeps.
 */
const settledHeap = { NODE_OPTIONS: "--max-semi-space-size=4" }

/** Pictures a second, by the file's name. */
export const rateOf = (file: string): number => Number(/-(\d+)\.h26[45]$/.exec(file)?.[1])

const addCameras = async (node: NodeProcess, cameras: Cameras): Promise<ReadonlyArray<Recorded>> => {
  const { password, urls, username } = cameras
  const recorded: Array<Recorded> = []
  for (const [index, sourceUrl] of urls.entries()) {
    const name = `Camera ${String(index + 1).padStart(2, "0")}`
    recorded.push(await record(node, { name, sourceUrl, subUrl: `${sourceUrl}/sub`, username, password }))
  }
  return recorded
}

/** Simulated cameras, a node that records them, and somebody who looks at all of them on the wall. */
export const openWall = async (count: number, { main, sub }: WallFootage): Promise<OpenWall> => {
  const folder = mkdtempSync(path.join(tmpdir(), "nightjar-wall-"))
  // PostgreSQL may run under another account.
  chmodSync(folder, 0o755)
  const [cameras, node, browser] = await Promise.all([
    startCameras(count, ["--video", main, "--sub", sub, "--audio", "none"]),
    makeNode(folder, settledHeap),
    launchChromium(),
  ])
  const close = async (keep: boolean) => {
    await browser.close()
    await node.stop()
    await cameras.stop()
    if (!keep) rmSync(folder, { recursive: true, force: true })
  }
  try {
    await node.start()
    const recorded = await addCameras(node, cameras)
    const complaints: Array<string> = []
    const page = await browser.newPage({ viewport: { width: 1440, height: 900 }, locale: "en-GB" })
    page.setDefaultTimeout(60_000)
    page.on("console", (message) => {
      if (message.type() === "error") complaints.push(`${message.text()} ${message.location().url}`)
    })
    page.on("pageerror", (error) => complaints.push(String(error)))
    await signIn(page, node.url, { username: "admin", password: node.password })
    return { node, cameras, browser, page, recorded, complaints, close }
  } catch (error) {
    await close(true)
    throw error
  }
}

/** Of all that have a camera. */
export const tilesOf = (page: Page): Promise<ReadonlyArray<Tile>> =>
  page.locator(".wall-tile:not(.vacant)").evaluateAll((tiles) =>
    tiles.map((tile) => {
      const quality = tile.querySelector("video")?.getVideoPlaybackQuality()
      const view = tile.querySelector<HTMLElement>("[data-phase]")?.dataset
      return {
        name: tile.ariaLabel ?? "",
        way: view?.["way"] ?? "none",
        phase: view?.["phase"] ?? "none",
        pictures: quality?.totalVideoFrames ?? 0,
        dropped: quality?.droppedVideoFrames ?? 0,
      }
    })
  )

/** Waits until so many tiles play. */
export const untilPlaying = async (page: Page, count: number, seconds: number): Promise<ReadonlyArray<Tile>> => {
  const until = performance.now() + seconds * 1000
  while (true) {
    const tiles = await tilesOf(page)
    if (tiles.filter(({ phase, pictures }) => phase === "playing" && pictures > 0).length >= count) return tiles
    if (performance.now() > until) {
      const idle = tiles.filter(({ phase }) => phase !== "playing")
      throw new Error(`after ${seconds} s these do not play: ${JSON.stringify(idle)}`)
    }
    await sleep(250)
  }
}

/** A tile that shows no new picture for longer has stopped: many times what a busy machine needs to draw one. */
const longestStandstillMs = 10_000

/** Looks at the tiles once a second: each must go on, by the same way. */
export const watchTiles = async ({ cameras, node, page }: OpenWall, seconds: number, rate: number, report: Report) => {
  const first = await tilesOf(page)
  const begun = performance.now()
  const processes = () => {
    const own = [...node.roots().node, ...node.roots().postgres]
    return { all: cpuSeconds([process.pid]), node: cpuSeconds(own), cameras: cpuSeconds([cameras.pid]) }
  }
  const cpu = processes()
  const seen = new Map(first.map(({ name, pictures }) => [name, { pictures, at: begun, longest: 0 }]))
  let last = first
  while (performance.now() - begun < seconds * 1000) {
    await sleep(1000)
    last = await tilesOf(page)
    const now = performance.now()
    for (const { name, pictures } of last) {
      const one = seen.get(name)
      if (one === undefined) continue
      one.longest = Math.max(one.longest, now - one.at)
      if (pictures !== one.pictures) Object.assign(one, { pictures, at: now })
    }
  }
  const tookSeconds = (performance.now() - begun) / 1000
  const rates = last.map(({ name, pictures, way }, at) => {
    const standstill = seen.get(name)?.longest ?? 0
    report.check(standstill < longestStandstillMs, `${name} stood still for ${(standstill / 1000).toFixed(1)} s`)
    report.check(way === first[at]?.way, `${name} changed its way from ${first[at]?.way} to ${way}`)
    return (pictures - (first[at]?.pictures ?? 0)) / tookSeconds
  })
  const ways = Object.entries(Object.groupBy(last, ({ way }) => way)).map(([way, some]) => `${some?.length} ${way}`)
  const dropped = last.reduce((sum, one) => sum + one.dropped, 0)
  const longest = Math.max(...[...seen.values()].map((one) => one.longest))
  report.say(
    `${last.length} tiles (${ways.join(", ")}) for ${tookSeconds.toFixed(0)} s: ${Math.min(...rates).toFixed(2)} to ` +
      `${
        Math.max(...rates).toFixed(2)
      } of ${rate} pictures a second each, ${dropped} dropped, longest without a new one ` +
      `${(longest / 1000).toFixed(1)} s`,
  )
  const end = processes()
  const used = (key: "all" | "node" | "cameras") => (end[key] - cpu[key]) / tookSeconds * 100
  const percent = (value: number) => `${value.toFixed(0)} %`
  report.say(
    `CPU of one core: node and database ${percent(used("node"))}, cameras ${
      percent(used("cameras"))
    }, Chromium and this ` +
      `program ${percent(used("all") - used("node") - used("cameras"))}`,
  )
}

/** Ends the recordings and looks for every picture from the first to the last. */
export const judgeRecordings = async ({ node, recorded }: OpenWall, main: string, report: Report): Promise<void> => {
  for (const one of recorded) await toggle(node, one, false)
  await sleep(2_000)
  const shelf = await readShelf([path.join(node.data, "footage")], report)
  let pictures = 0
  for (const [index, one] of recorded.entries()) {
    const found = judge(shelf.frames(one.recordingId), await gapsOf(node, one), 1000 / rateOf(main))
    pictures += found.frames
    for (const fault of found.faults) report.fault(`camera ${index + 1}: ${fault}`)
    for (const { causes, from, to } of found.missing) {
      report.fault(`camera ${index + 1}: pictures ${from} to ${to - 1} are missing (${causes.join(", ")})`)
    }
  }
  report.say(`${pictures} pictures recorded by ${recorded.length} cameras, none missing between the first and the last`)
}
