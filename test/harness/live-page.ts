/**
 * hls.js in Chromium as a viewer of a live stream.
 *
 * Invariants
 * 1. Pictures are counted in the bytes that hls.js hands to the browser, by the marks of the simulated camera (`sei.ts`).
 * 2. It shows the first variant until it is told to go to another.
 * 3. It watches until enough pictures were appended and decoded, or the limit is reached.
 */
import { readFileSync } from "node:fs"
import { createRequire } from "node:module"
import type { Page } from "playwright-core"
import { launchWholeChromium } from "./chromium.ts"

export interface LiveSeen {
  /** Numbers of the pictures that were appended, without repetition, in order. */
  readonly frames: ReadonlyArray<number>
  readonly decoded: number
  /** Those that ended it; stalls and jumps over holes are its own affair. */
  readonly errors: ReadonlyArray<string>
  /** Seconds behind live as hls.js tells it, a value every quarter of a second of playing. */
  readonly latencies: ReadonlyArray<number>
  /** The picture's age when it was shown, milliseconds, by the playlist's wall clock. */
  readonly ages: ReadonlyArray<number>
}

/** What was seen of going from variant to variant. */
export interface LiveSwitched {
  /** Heights of the pictures that were shown after each switch, in order. */
  readonly heights: ReadonlyArray<number>
  /** How far the wall clock moved against the media time over all switches, milliseconds. */
  readonly clockMoved: number
  /** Blocking requests for playlists, as path and query. */
  readonly asked: ReadonlyArray<string>
  readonly errors: ReadonlyArray<string>
}

const page = (master: string) =>
  `<!doctype html><video id="v" muted></video><script src="/hls.js"></script><script>
const v = document.getElementById("v"), frames = new Set(), errors = [], latencies = [], ages = [], clocks = [], asked = []
const mark = [..."nightjar-frame-1sim1 "].map((c) => c.charCodeAt(0))
const look = (data) => {
  for (let at = data.indexOf(mark[0]); at >= 0; at = data.indexOf(mark[0], at + 1)) {
    if (!mark.every((byte, i) => data[at + i] === byte)) continue
    frames.add(Number(String.fromCharCode(...data.subarray(at + 54, at + 66))))
  }
}
const hls = new Hls({ lowLatencyMode: true, liveDurationInfinity: true, maxLiveSyncPlaybackRate: 1.2 })
hls.on(Hls.Events.BUFFER_APPENDING, (_, { data, type }) => { if (type !== "audio") look(data) })
hls.on(Hls.Events.ERROR, (_, data) => { if (data.fatal) errors.push(data.details + " " + (data.error?.message ?? "")) })
hls.on(Hls.Events.MANIFEST_PARSED, () => { hls.loadLevel = hls.firstLevel; v.play() })
hls.on(Hls.Events.LEVEL_LOADED, (_, { networkDetails }) => asked.push(networkDetails.responseURL))
setInterval(() => {
  if (v.paused || v.currentTime === 0 || hls.latency === 0) return
  latencies.push(hls.latency)
  if (hls.playingDate) {
    ages.push(Date.now() - hls.playingDate.getTime())
    clocks.push(hls.playingDate.getTime() - v.currentTime * 1000)
  }
}, 250)
hls.loadSource(${JSON.stringify(master)}); hls.attachMedia(v)
window.seen = () => ({ frames: [...frames].sort((a, b) => a - b), errors, latencies, ages,
  decoded: v.getVideoPlaybackQuality().totalVideoFrames })
let shownBefore = 0
window.go = (height) => {
  hls.nextLevel = hls.levels.findIndex((level) => level.height === height)
  shownBefore = v.getVideoPlaybackQuality().totalVideoFrames
}
window.shows = (height) => v.videoHeight === height && clocks.length > 0 &&
  v.getVideoPlaybackQuality().totalVideoFrames > shownBefore + 20
window.switched = () => ({ errors, asked, height: v.videoHeight, clockMoved: Math.max(...clocks) - Math.min(...clocks) })
</script>`

/** Goes to the variants of these heights, one after the other; `limitMs` for each. */
const goThrough = async (tab: Page, heights: ReadonlyArray<number>, limitMs: number): Promise<LiveSwitched> => {
  const shown: Array<number> = []
  for (const height of heights) {
    await tab.evaluate(`go(${height})`)
    await tab.waitForFunction(`shows(${height})`, undefined, { timeout: limitMs }).catch(() => undefined)
    // What comes after the switch counts as well.
    await tab.waitForTimeout(2_000)
    shown.push((await tab.evaluate<{ readonly height: number }>("switched()")).height)
  }
  return { ...await tab.evaluate<Omit<LiveSwitched, "heights">>("switched()"), heights: shown }
}

/**
 * `leastFrames`: enough pictures appended; half as many must have been decoded. `heights`: of the variants to go to afterwards, each
 * within `limitMs`.
 */
export const readLive = async (
  master: string,
  limitMs: number,
  leastFrames = 150,
  heights: ReadonlyArray<number> = [],
): Promise<LiveSeen & { readonly switched: LiveSwitched }> => {
  const script = readFileSync(createRequire(import.meta.url).resolve("hls.js/dist/hls.js"), "utf8")
  const browser = await launchWholeChromium("--autoplay-policy=no-user-gesture-required")
  try {
    const tab = await browser.newPage()
    const { origin } = new URL(master)
    await tab.route(`${origin}/player`, (route) => route.fulfill({ contentType: "text/html", body: page(master) }))
    await tab.route(`${origin}/hls.js`, (route) => route.fulfill({ contentType: "text/javascript", body: script }))
    await tab.goto(`${origin}/player`)
    const begun = performance.now()
    for (;;) {
      const seen = await tab.evaluate<LiveSeen>("seen()")
      const enough = seen.frames.length >= leastFrames && seen.decoded >= leastFrames / 2
      if (enough || performance.now() - begun > limitMs) {
        return { ...seen, switched: await goThrough(tab, heights, limitMs) }
      }
      await tab.waitForTimeout(250)
    }
  } finally {
    await browser.close()
  }
}
