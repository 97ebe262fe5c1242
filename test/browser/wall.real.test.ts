/**
 * The video wall in Debian's Chromium, with four cameras that are recorded meanwhile: every tile plays, cameras are put to tiles by
 * mouse and by keys, a view is kept, and the recordings miss nothing. One visit, in order; `npm run prove:wall` is the long form.
 */
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import type { Locator } from "playwright-core"
import { withoutChromium } from "../harness/chromium.ts"
import { makeReport } from "../harness/report.ts"
import {
  judgeRecordings,
  type OpenWall,
  openWall,
  rateOf,
  tilesOf,
  untilPlaying,
  watchTiles,
} from "../harness/wall-proof.ts"
import { faultsOf } from "./axe.ts"
import { eventually, signIn } from "./node.ts"

const footage = { main: "main-640x360-25.h264", sub: "sub-320x180-10.h264" }

let wall: OpenWall

const tile = (number: number): Locator => wall.page.locator(`[data-tile="${number - 1}"]`)
const nameOf = (number: number) => tile(number).getAttribute("aria-label")
const stands = (number: number, name: string) =>
  eventually(`${name} on tile ${number}`, async () => await nameOf(number) === name)

const drag = async (from: Locator, to: Locator): Promise<void> => {
  const [start, end] = [(await from.boundingBox())!, (await to.boundingBox())!]
  const { mouse } = wall.page
  await mouse.move(start.x + start.width / 2, start.y + start.height / 2)
  await mouse.down()
  await mouse.move(end.x + end.width / 2, end.y + end.height / 2, { steps: 5 })
  await mouse.up()
}

describe.skipIf(withoutChromium)(`the video wall${withoutChromium && ` (skipped: ${withoutChromium})`}`, () => {
  beforeAll(async () => {
    wall = await openWall(4, footage)
  }, 120_000)

  afterAll(async () => {
    await wall?.close(false)
  }, 60_000)

  it("plays every camera's sub-stream by WebRTC, and goes on", async () => {
    const tiles = await untilPlaying(wall.page, 4, 60)
    assert.deepStrictEqual(tiles.map(({ way }) => way), ["webrtc", "webrtc", "webrtc", "webrtc"])
    const report = makeReport(true)
    await watchTiles(wall, 4, rateOf(footage.sub), report)
    assert.deepStrictEqual(report.faults, [])
    const width = await tile(1).locator("video").evaluate((one) => (one as HTMLVideoElement).videoWidth)
    assert.strictEqual(width, 320)
    assert.deepStrictEqual(await faultsOf(wall.page), [])
  }, 120_000)

  it("exchanges tiles by dragging, in a view of one's own that is kept", async () => {
    await drag(tile(1), tile(4))
    await stands(4, "Camera 01")
    await stands(1, "Camera 04")
    const view = wall.page.getByRole("combobox", { name: "View" })
    assert.strictEqual(await view.locator("option:checked").textContent(), "View 1")
    await wall.page.waitForResponse((answer) => answer.url().endsWith("/preferences") && answer.ok())
    await wall.page.reload()
    await stands(4, "Camera 01")
  }, 120_000)

  it("takes cameras off and puts them back by keys alone", async () => {
    const { keyboard } = wall.page
    await wall.page.getByRole("button", { name: "9 tiles", exact: true }).click()
    await tile(4).getByRole("button", { name: /^Enlarge Camera 01, tile/ }).focus()
    await keyboard.press("Delete")
    await stands(4, "Tile 4")
    await keyboard.press("ArrowDown")
    await keyboard.press("ArrowRight")
    await eventually(
      "the focus on tile 8",
      () => tile(8).locator(".face").evaluate((one) => one === document.activeElement),
    )
    await keyboard.press("Enter")
    const list = wall.page.getByRole("complementary", { name: "Cameras" })
    await list.getByRole("searchbox").fill("01")
    await keyboard.press("ArrowDown")
    await keyboard.press("Enter")
    await stands(8, "Camera 01")
    assert.deepStrictEqual(await faultsOf(wall.page), [])
    await keyboard.press("Escape")
    await keyboard.press("l")
    await list.waitFor({ state: "detached" })
  }, 120_000)

  it("enlarges to the main stream with digital zoom, and goes back", async () => {
    const { page } = wall
    const { keyboard } = page
    await untilPlaying(page, 4, 60)
    await tile(8).getByRole("button", { name: /^Enlarge Camera 01, tile/ }).focus()
    await keyboard.press("Enter")
    const large = page.getByRole("region", { name: "Camera 01" })
    const video = large.locator("video")
    await eventually("the main stream", () => video.evaluate((one) => (one as HTMLVideoElement).videoWidth === 640))
    await large.getByRole("group", { name: /zoom/ }).focus()
    await keyboard.press("+")
    await keyboard.press("+")
    await large.getByRole("button", { name: /^1\.6×/ }).waitFor()
    await keyboard.press("s")
    await large.getByText("WebRTC").waitFor()
    assert.deepStrictEqual(await faultsOf(page), [])
    await keyboard.press("s")
    await keyboard.press("Escape")
    await large.waitFor({ state: "detached" })
    await untilPlaying(page, 4, 60)
  }, 120_000)

  it("is a list of tiles on a telephone", async () => {
    const { page } = wall
    await page.setViewportSize({ width: 360, height: 740 })
    await eventually(
      "one column",
      async () => (await tile(1).boundingBox())?.width === (await tile(2).boundingBox())?.width,
    )
    assert.isAtMost(await page.evaluate(() => document.documentElement.scrollWidth), 360)
    assert.strictEqual((await tilesOf(page)).length, 4)
    assert.deepStrictEqual(await faultsOf(page), [])
  }, 120_000)

  it("shows still pictures where neither WebRTC nor HLS comes through", async () => {
    const blocked = await wall.browser.newPage({ viewport: { width: 1440, height: 900 }, locale: "en-GB" })
    blocked.setDefaultTimeout(60_000)
    let [whep, hls] = [0, 0]
    await blocked.route("**/whep", (route) => {
      whep += 1
      return route.abort()
    })
    await blocked.route(/\.m3u8|\/live\/hls\//, (route) => {
      hls += 1
      return route.abort()
    })
    await signIn(blocked, wall.node.url, { username: "admin", password: wall.node.password })
    await eventually("still pictures on every tile", async () => {
      const ways = (await tilesOf(blocked)).map(({ way }) => way)
      return ways.length === 4 && ways.every((way) => way === "stills")
    })
    assert.isTrue(whep >= 4 && hls >= 4, `${whep} offers and ${hls} playlists were tried first`)
    await blocked.getByText("Still pictures").first().waitFor()
    const still = blocked.locator(".wall-tile:not(.vacant) img").first()
    const shown = () =>
      still.evaluate((one) => (one as HTMLImageElement).naturalWidth > 0 ? one.getAttribute("src") : null)
    const first = await eventually("a picture", shown)
    await eventually("the next picture", async () => {
      const next = await shown()
      return next !== null && next !== first
    })
    assert.deepStrictEqual(await faultsOf(blocked), [])
    await blocked.close()
  }, 120_000)

  it("cost the recordings no picture, and left no complaint", async () => {
    assert.deepStrictEqual(wall.complaints, [])
    await wall.page.close()
    const report = makeReport(true)
    await judgeRecordings(wall, footage.main, report)
    assert.deepStrictEqual(report.faults, [])
  }, 120_000)
})
