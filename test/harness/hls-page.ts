/**
 * hls.js in Chromium as a reader of replay: everything of an interval is fetched, transmuxed and appended to a media source, and
 * what is appended is looked into.
 *
 * Invariants
 * 1. The pictures are counted in the bytes that hls.js hands to the browser, by the marks the camera put into them (see
 *    `frames.ts`), and the browser must have taken them: whatever is not in `buffered` in the end counts as not played.
 * 2. Nothing waits for the footage to be played in its own time: the player stands still, buffers, and jumps to the end of what it
 *    has buffered, until the end of the stream is buffered.
 */
import { readFileSync } from "node:fs"
import { createRequire } from "node:module"
import type { Page } from "playwright-core"
import { launchWholeChromium } from "./chromium.ts"

export interface HlsSeen {
  /** Numbers of the pictures that were appended, without repetition, in order. */
  readonly frames: ReadonlyArray<number>
  /** Seconds of the timeline that were buffered at some time, joined. */
  readonly covered: ReadonlyArray<readonly [from: number, to: number]>
  readonly duration: number
  /** Pictures the browser has decoded on the way: at every place it stood at. */
  readonly decoded: number
  readonly errors: ReadonlyArray<string>
  readonly version: string
}

const page = (master: string) =>
  `<!doctype html><video id="v" muted></video><script src="/hls.js"></script><script>
const v = document.getElementById("v"), frames = new Set(), errors = []
let covered = [], stalled = 0, done = false
const mark = [..."nightjar-frame-1sim1 "].map((c) => c.charCodeAt(0))
const look = (data) => {
  for (let at = data.indexOf(mark[0]); at >= 0; at = data.indexOf(mark[0], at + 1)) {
    if (!mark.every((byte, i) => data[at + i] === byte)) continue
    frames.add(Number(String.fromCharCode(...data.subarray(at + 54, at + 66))))
  }
}
const note = () => {
  const now = Array.from({ length: v.buffered.length }, (_, i) => [v.buffered.start(i), v.buffered.end(i)])
  const all = [...covered, ...now].sort((a, b) => a[0] - b[0])
  covered = []
  for (const [from, to] of all) {
    const last = covered.at(-1)
    if (last !== undefined && from <= last[1] + 0.001) last[1] = Math.max(last[1], to)
    else covered.push([from, to])
  }
  return now
}
const hls = new Hls({ maxBufferLength: 60, maxMaxBufferLength: 60, backBufferLength: 10, startPosition: 0 })
hls.on(Hls.Events.BUFFER_APPENDING, (_, { data, type }) => { if (type !== "audio") look(data) })
hls.on(Hls.Events.BUFFER_APPENDED, note)
hls.on(Hls.Events.ERROR, (_, data) => { errors.push(data.details + " " + (data.error?.message ?? "")) })
setInterval(() => {
  const now = note(), here = now.find(([from, to]) => from <= v.currentTime + 0.1 && to > v.currentTime)
  if (here === undefined || !(v.duration > 0)) return
  if (here[1] >= v.duration - 0.1) done = true
  else if (here[1] - v.currentTime > 50) v.currentTime = here[1] - 1
}, 50)
hls.loadSource(${JSON.stringify(master)}); hls.attachMedia(v)
window.seen = () => ({ done, frames: [...frames].sort((a, b) => a - b), covered, duration: v.duration, errors,
  decoded: v.getVideoPlaybackQuality().totalVideoFrames, version: Hls.version })
</script>`

type Looked = HlsSeen & { readonly done: boolean }

/** Until the end is buffered, at most `limitMs`. */
const untilDone = async (tab: Page, limitMs: number): Promise<Looked> => {
  const begun = performance.now()
  for (;;) {
    const seen = await tab.evaluate<Looked>("seen()")
    if (seen.done || performance.now() - begun > limitMs) return seen
    await tab.waitForTimeout(250)
  }
}

export const readByHls = async (master: string, limitMs: number): Promise<HlsSeen> => {
  const script = readFileSync(createRequire(import.meta.url).resolve("hls.js/dist/hls.js"), "utf8")
  const browser = await launchWholeChromium()
  try {
    const tab = await browser.newPage()
    const { origin } = new URL(master)
    await tab.route(`${origin}/player`, (route) => route.fulfill({ contentType: "text/html", body: page(master) }))
    await tab.route(`${origin}/hls.js`, (route) => route.fulfill({ contentType: "text/javascript", body: script }))
    await tab.goto(`${origin}/player`)
    return await untilDone(tab, limitMs)
  } finally {
    await browser.close()
  }
}
