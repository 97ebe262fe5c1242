/**
 * An independent camera (gst-rtsp-server) recorded for some minutes and replayed: every picture that was sent must come out.
 *
 * What was sent is known from the camera alone: it puts an absolute number into each picture as it gives it to GStreamer, and tells
 * the last one. A recording begins with a key picture: its number is the first; every number from there to at least the last one
 * given before the footage was asked for must be there once.
 *
 * Counted three times: in the files on the disk, by ffprobe (which decodes the replay and counts what comes out), and by hls.js in
 * Chromium (see `hls-page.ts`), which reads the numbers again.
 */
import { execFile } from "node:child_process"
import { chmodSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { type GstCameras, startGstCameras } from "../peers/gst.ts"
import { record, type Recorded } from "./cameras.ts"
import { withoutChromium } from "./chromium.ts"
import { readByHls } from "./hls-page.ts"
import { makeNode, type NodeProcess, sleep } from "./node-process.ts"
import type { Report } from "./report.ts"
import { readShelf, type Shelf } from "./shelf.ts"
import { gapsOf, lookAt, toggle, watch } from "./sight.ts"

export interface IndependentOptions {
  readonly seconds: number
  /** Name of the mount and its files, video first. */
  readonly streams: Readonly<Record<string, ReadonlyArray<string>>>
  /** Streams that hls.js can read: Chromium has no H.265. */
  readonly browser: ReadonlyArray<string>
}

interface Taken {
  readonly name: string
  readonly recorded: Recorded
  /** Last number the camera had given when the recording was ended. */
  readonly given: number
}

interface Expected {
  readonly first: number
  readonly last: number
  readonly count: number
  /** End of the footage, epoch ms. */
  readonly endMs: number
}

/** Pictures that ffprobe decodes of the media playlist, and what it had to say. */
const probe = (playlist: string): Promise<{ readonly pictures: number; readonly errors: string }> =>
  new Promise((resolve, reject) => {
    const what = ["-count_frames", "-select_streams", "v:0", "-show_entries", "stream=nb_read_frames", "-of", "csv=p=0"]
    execFile("ffprobe", ["-v", "error", ...what, playlist], { maxBuffer: 1 << 22 }, (error, stdout, stderr) => {
      if (error !== null && error.code === "ENOENT") return reject(new Error("ffprobe is not installed"))
      // A program is listed beside its stream: the same number twice.
      resolve({ pictures: Number.parseInt(stdout, 10) || 0, errors: stderr.trim() })
    })
  })

const missingOf = (frames: ReadonlyArray<number>, first: number, last: number): ReadonlyArray<number> => {
  const there = new Set(frames)
  return Array.from({ length: last - first + 1 }, (_, i) => first + i).filter((frame) => !there.has(frame))
}

/** The files: whole, without a gap, every number once and far enough. */
const countStored = async (
  node: NodeProcess,
  { given, name, recorded }: Taken,
  shelf: Shelf,
  report: Report,
): Promise<Expected> => {
  const frames = shelf.frames(recorded.recordingId).map(({ frame }) => frame).toSorted((a, b) => a - b)
  const [first = 0, last = -1] = [frames[0], frames.at(-1)]
  const missing = missingOf(frames, first, last)
  report.check(frames.length > 0, `${name}: nothing is stored`)
  report.check(
    missing.length === 0,
    `${name}: ${missing.length} pictures are missing on the disk: ${missing.slice(0, 20).join(" ")}`,
  )
  report.check(
    frames.length === last - first + 1,
    `${name}: ${frames.length} pictures on the disk for numbers ${first} to ${last}`,
  )
  report.check(last >= given, `${name}: the last picture on the disk is ${last}, the camera had given ${given}`)
  const inside = (await gapsOf(node, recorded)).filter(({ cause }) => cause !== "starting")
  report.check(inside.length === 0, `${name}: the ledger has gaps: ${JSON.stringify(inside)}`)
  report.say(
    `${name}: the camera gave numbers to ${given} and on; the disk has ${first} to ${last}: ${frames.length} pictures, none missing`,
  )
  const own = shelf.files.filter(({ recordingId }) => recordingId === recorded.recordingId)
  const endMs = Math.max(...own.flatMap(({ fragments }) => fragments.map((fragment) => fragment.endMs)))
  return { first, last, count: last - first + 1, endMs }
}

const replayOf = async (node: NodeProcess, { createdMs, recordingToken }: Recorded, endMs: number): Promise<string> => {
  const asked = { recordingToken, start: new Date(createdMs).toISOString(), end: new Date(endMs).toISOString() }
  const { uri } = (await node.callSoon("POST", "/replay/api/v1/replay/uri", asked)) as { readonly uri: string }
  return new URL(uri, node.url).href
}

const replay = async (
  node: NodeProcess,
  { name, recorded }: Taken,
  { count, endMs, first, last }: Expected,
  options: IndependentOptions,
  report: Report,
): Promise<void> => {
  const master = await replayOf(node, recorded, endMs)
  const probed = await probe(master.replace("master.m3u8", "playlist.m3u8"))
  const fine = probed.pictures === count && probed.errors === ""
  report.check(fine, `${name}: ffprobe decodes ${probed.pictures} of ${count} pictures; ${probed.errors.slice(0, 400)}`)
  report.say(`${name}: ffprobe decodes ${probed.pictures} of ${count} pictures by HLS`)
  if (!options.browser.includes(name)) return
  if (withoutChromium !== "") {
    report.say(`SKIPPED: hls.js (${withoutChromium})`)
    return
  }
  const begun = performance.now()
  const seen = await readByHls(master, 60_000 + options.seconds * 1_000)
  const missing = missingOf(seen.frames, first, last)
  report.check(
    missing.length === 0,
    `${name}: ${missing.length} pictures never reached hls.js: ${missing.slice(0, 20).join(" ")}`,
  )
  report.check(seen.frames.length === count, `${name}: hls.js appended ${seen.frames.length} pictures, not ${count}`)
  report.check(seen.errors.length === 0, `${name}: hls.js reports ${seen.errors.slice(0, 5).join("; ")}`)
  const [from = 0, to = 0] = seen.covered[0] ?? []
  const whole = seen.covered.length === 1 && from < 0.1 && to >= seen.duration - 0.1
  report.check(whole, `${name}: the browser buffered ${JSON.stringify(seen.covered)} of ${seen.duration} s`)
  report.say(
    `${name}: hls.js ${seen.version} appended ${seen.frames.length} of ${count} pictures (${seen.frames[0]} to ${
      seen.frames.at(-1)
    }), ` +
      `buffered ${from.toFixed(2)} to ${to.toFixed(2)} of ${seen.duration.toFixed(2)} s, in ${
        ((performance.now() - begun) / 1_000).toFixed(0)
      } s`,
  )
}

/** Records all streams at once. */
const take = async (
  node: NodeProcess,
  cameras: GstCameras,
  options: IndependentOptions,
  report: Report,
): Promise<ReadonlyArray<Taken>> => {
  const recordings: Array<readonly [string, Recorded]> = []
  for (const name of Object.keys(options.streams)) {
    recordings.push([
      name,
      await record(node, { name, sourceUrl: cameras.url(name), username: "viewer", password: "plume" }),
    ])
  }
  for (const [name, recorded] of recordings) {
    const { held, seen } = await watch(() => lookAt(node, recorded), ({ state }) => state === "recording", 30_000)
    report.check(held, `${name}: is not recorded: ${JSON.stringify(seen)}`)
  }
  report.say(`recording ${recordings.map(([name]) => name).join(" and ")} for ${options.seconds} s`)
  await sleep(options.seconds * 1_000)
  const given = await cameras.report()
  // What was given until now is on the disk once the next fragment is.
  await sleep(3_000)
  for (const [, recorded] of recordings) await toggle(node, recorded, false)
  await sleep(2_000)
  return recordings.map(([name, recorded]) => ({ name, recorded, given: given[`/${name}/0`]?.last ?? -1 }))
}

/** The whole proof. The folder is kept where it failed. */
export const proveIndependent = async (report: Report, options: IndependentOptions): Promise<void> => {
  const folder = mkdtempSync(path.join(tmpdir(), "nightjar-independent-"))
  // PostgreSQL may run under another account.
  chmodSync(folder, 0o755)
  const login = { scheme: "digest", username: "viewer", password: "plume" } as const
  const cameras = await startGstCameras({ streams: options.streams, login })
  const node = await makeNode(folder)
  try {
    await node.start()
    const taken = await take(node, cameras, options, report)
    const shelf = await readShelf([path.join(node.data, "footage")], report)
    for (const one of taken) await replay(node, one, await countStored(node, one, shelf, report), options, report)
  } finally {
    await node.stop()
    await cameras.stop()
    if (report.faults.length === 0) rmSync(folder, { recursive: true, force: true })
    else report.say(`kept for a look: ${folder}`)
  }
}
