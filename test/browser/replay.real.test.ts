/** hls.js in Chromium plays replay: over gaps and restarts, with its sound hidden, at high speed, with the clock as subtitles. */
import type { Run } from "#test/media/recorded.ts"
import { serving } from "#test/replay-server.ts"
import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { createRequire } from "node:module"
import type { Browser, Page } from "playwright-core"
import { launchChromium, withoutChromium } from "../harness/chromium.ts"

const script = readFileSync(createRequire(import.meta.url).resolve("hls.js/dist/hls.js"), "utf8")

/** What the page tells of its player. */
interface Seen {
  readonly errors: ReadonlyArray<string>
  readonly buffered: ReadonlyArray<readonly [number, number]>
  readonly time: number
  readonly pictures: number
  readonly firstPictureMs: number
  readonly cues: ReadonlyArray<readonly [number, string]>
  readonly ended: boolean
}

const playerPage = (master: string) =>
  `<!doctype html><video id="v" muted></video><script src="/hls.js"></script><script>
const v = document.getElementById("v"), seen = { errors: [], firstPictureMs: -1 }
const hls = new Hls({ maxBufferLength: 600, maxMaxBufferLength: 600, maxBufferSize: 1e9, subtitleDisplay: true })
hls.on(Hls.Events.ERROR, (_, data) => {
  // On a busy machine Chromium may hold seconds of footage from 0 on and not have begun to show them: that it is late is its own.
  const late = data.details === Hls.ErrorDetails.BUFFER_STALLED_ERROR && !data.fatal && v.currentTime === 0 &&
    data.buffer > 2
  if (!late) seen.errors.push(data.details + " " + (data.error?.message ?? ""))
})
hls.on(Hls.Events.MANIFEST_PARSED, () => v.play())
// hls.js makes the text track after it told of it; only then can it be shown.
v.textTracks.addEventListener("addtrack", () => setTimeout(() => { hls.subtitleTrack = 0 }))
const begin = performance.now()
v.requestVideoFrameCallback(() => { seen.firstPictureMs = performance.now() - begin })
hls.loadSource(${JSON.stringify(master)}); hls.attachMedia(v)
window.look = () => ({ ...seen, time: v.currentTime, ended: v.ended, pictures: v.getVideoPlaybackQuality().totalVideoFrames,
  buffered: Array.from({ length: v.buffered.length }, (_, i) => [v.buffered.start(i), v.buffered.end(i)]),
  cues: [...v.textTracks].flatMap((track) => [...(track.cues ?? [])].map((cue) => [cue.startTime, cue.text])) })
</script>`

const look = (page: Page) => page.evaluate<Seen>("look()")

/** Looks again and again until it holds; the last look either way. */
const until = async (page: Page, holds: (seen: Seen) => boolean, attempts = 600): Promise<Seen> => {
  let seen = await look(page)
  for (let i = 0; i < attempts && !holds(seen); i++) {
    await page.waitForTimeout(100)
    seen = await look(page)
  }
  return seen
}

const playing = <A>(runs: ReadonlyArray<Run>, speed: number, use: (page: Page) => Promise<A>) =>
  serving(runs, speed, async (master) => {
    let browser: Browser | undefined
    try {
      browser = await launchChromium("--autoplay-policy=no-user-gesture-required")
      const page = await browser.newPage()
      const { origin } = new URL(master)
      await page.route(
        `${origin}/player`,
        (route) => route.fulfill({ contentType: "text/html", body: playerPage(master) }),
      )
      await page.route(`${origin}/hls.js`, (route) => route.fulfill({ contentType: "text/javascript", body: script }))
      await page.goto(`${origin}/player`)
      return await use(page)
    } finally {
      await browser?.close()
    }
  })

const h264: Run = { video: "main-640x360-25.h264", audio: "tone-16000.aac", seconds: 20, afterMs: 0 }

describe.skipIf(withoutChromium !== "")(`hls.js plays replay${withoutChromium && ` (${withoutChromium})`}`, () => {
  it.live("over a gap and a restart, without a hole in its timeline, with the clock", () =>
    playing([h264, { ...h264, afterMs: 90_000 }, { ...h264, afterMs: 30_000, restarted: true }], 1, async (page) => {
      const seen = await until(
        page,
        ({ buffered, cues, pictures }) => (buffered.at(-1)?.[1] ?? 0) > 59.5 && pictures > 25 && cues.length >= 60,
      )
      assert.deepStrictEqual(seen.errors, [])
      assert.strictEqual(seen.buffered.length, 1, JSON.stringify(seen.buffered))
      assert.closeTo(seen.buffered[0]![1], 60, 0.2)
      assert.isAbove(seen.pictures, 25)
      const shown = (at: number) => seen.cues.filter(([start]) => Math.abs(start - at) < 0.1).map(([, text]) => text)
      assert.include(shown(5), "2026-03-01 12:00:05 UTC")
      assert.include(shown(20), "Nothing recorded for 1 min 30 s: camera offline")
      assert.include(shown(25), "2026-03-01 12:01:55 UTC")
      assert.include(shown(45), "2026-03-01 12:02:45 UTC")

      await page.evaluate("v.currentTime = 39")
      const later = await until(page, ({ time }) => time > 41)
      assert.isAbove(later.time, 41, "plays from one run into the next")
      assert.deepStrictEqual(later.errors, [])
    }))

  it.live("with its sound hidden", () =>
    playing([{ ...h264, audio: "tone-8000.pcmu" }], 1, async (page) => {
      const seen = await until(page, ({ buffered, pictures }) => (buffered.at(-1)?.[1] ?? 0) > 19.5 && pictures > 25)
      assert.deepStrictEqual(seen.errors, [])
      assert.closeTo(seen.buffered[0]![1], 20, 0.2)
    }))

  it.live("at 16 times the speed, by key pictures", () =>
    playing([{ ...h264, seconds: 120 }], 16, async (page) => {
      await page.evaluate("v.playbackRate = 16")
      const seen = await until(page, ({ ended }) => ended)
      assert.deepStrictEqual(seen.errors, [])
      assert.isTrue(seen.ended)
      assert.isAtLeast(seen.pictures, 30)
    }))
})
