/**
 * hls.js in Chromium as a viewer of a live stream.
 *
 * Invariants
 * 1. Pictures are counted in the bytes that hls.js hands to the browser, by the marks of the simulated camera (`sei.ts`).
 * 2. It watches until enough pictures were appended and decoded, or the limit is reached.
 */
import { readFileSync } from "node:fs"
import { createRequire } from "node:module"
import { chromium } from "playwright-core"

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

const page = (master: string) =>
  `<!doctype html><video id="v" muted></video><script src="/hls.js"></script><script>
const v = document.getElementById("v"), frames = new Set(), errors = [], latencies = [], ages = []
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
hls.on(Hls.Events.MANIFEST_PARSED, () => v.play())
setInterval(() => {
  if (v.paused || v.currentTime === 0 || hls.latency === 0) return
  latencies.push(hls.latency)
  if (hls.playingDate) ages.push(Date.now() - hls.playingDate.getTime())
}, 250)
hls.loadSource(${JSON.stringify(master)}); hls.attachMedia(v)
window.seen = () => ({ frames: [...frames].sort((a, b) => a - b), errors, latencies, ages,
  decoded: v.getVideoPlaybackQuality().totalVideoFrames })
</script>`

/** `leastFrames`: enough pictures appended; half as many must have been decoded. */
export const readLive = async (master: string, limitMs: number, leastFrames = 150): Promise<LiveSeen> => {
  const script = readFileSync(createRequire(import.meta.url).resolve("hls.js/dist/hls.js"), "utf8")
  const browser = await chromium.launch({
    executablePath: "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--autoplay-policy=no-user-gesture-required"],
  })
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
      if (enough || performance.now() - begun > limitMs) return seen
      await tab.waitForTimeout(250)
    }
  } finally {
    await browser.close()
  }
}
