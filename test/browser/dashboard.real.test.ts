/**
 * The dashboard in Debian's Chromium, on one node with simulated cameras: what a person sees, does, and is told. The tests are
 * one visit, in order: the node is empty at first and has footage, a gap and cameras in trouble at the end.
 */
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import type { Browser, Locator, Page } from "playwright-core"
import { launchChromium, withoutChromium } from "../harness/chromium.ts"
import { faultsOf } from "./axe.ts"
import { eventually, password, recordCamera, type Running, signIn, startNode } from "./node.ts"

let node: Running
let browser: Browser
let page: Page
/** What the browser complained about, but for answers that a test asked for. */
const complaints: Array<string> = []

const newPage = async (width = 1440): Promise<Page> => {
  const context = await browser.newContext({ viewport: { width, height: 900 }, locale: "en-US", timezoneId: "UTC" })
  const made = await context.newPage()
  made.setDefaultTimeout(60_000)
  made.on("console", (message) => {
    const { url } = message.location()
    // That the node has trouble, on a machine that stalls: what the page of its health is for.
    if (url.endsWith("/health/detailed") && message.text().includes("503")) return
    if (message.type() === "error") complaints.push(`${message.text()} ${url}`)
  })
  made.on("pageerror", (error) => complaints.push(String(error)))
  return made
}

/** The picture on screen in 32 × 18 points of red, green and blue. */
const pictureOf = (video: Locator): Promise<ReadonlyArray<number>> =>
  video.evaluate((element) => {
    const canvas = new OffscreenCanvas(32, 18)
    const context = canvas.getContext("2d")!
    context.drawImage(element as HTMLVideoElement, 0, 0, 32, 18)
    return [...context.getImageData(0, 0, 32, 18).data].filter((_, index) => index % 4 !== 3)
  })

/** Mean distance of two pictures, 0 to 255. */
const distance = (one: ReadonlyArray<number>, other: ReadonlyArray<number>): number =>
  one.reduce((sum, value, index) => sum + Math.abs(value - other[index]!), 0) / one.length

/** Waits for a picture that is not black, and then for another one that differs from it. */
const moves = async (video: Locator): Promise<void> => {
  const first = await eventually("a picture", async () => {
    const picture = await pictureOf(video)
    return picture.some((value) => value > 60) ? picture : null
  }, 20)
  await eventually("a picture that moved", async () => distance(first, await pictureOf(video)) > 2, 20)
}

const timeline = () => page.getByRole("slider", { name: /^Timeline/ })
/** The moment on screen, epoch milliseconds. */
const moment = async (): Promise<number> => Number(await timeline().getAttribute("aria-valuenow"))
const video = () => page.locator("video")
const go = (where: string) => page.goto(`${node.address}/#/${where}`)
const play = async (name: string) => {
  await go("recordings")
  await page.getByRole("link", { name: `Play ${name}`, exact: true }).click()
}
const playing = (at: Page) =>
  eventually("playback", () => at.locator("video").evaluate((one) => (one as HTMLVideoElement).readyState > 2), 20)

describe.skipIf(withoutChromium)(`the dashboard${withoutChromium && ` (skipped: ${withoutChromium})`}`, () => {
  beforeAll(async () => {
    const [running, started] = await Promise.all([
      startNode({ simulator: ["--cameras", "4", "--codec", "h264,h264,h264,h265"] }),
      launchChromium(),
    ])
    node = running
    browser = started
    page = await newPage()
  })

  afterAll(async () => {
    await browser?.close()
    await node?.stop()
  })

  it("refuses a wrong password in words, and takes the right one", async () => {
    await page.goto(node.address)
    await page.getByLabel("Password").fill("wrong")
    assert.deepStrictEqual(complaints, [], "a first visit asks for nothing that is refused")
    assert.deepStrictEqual(await faultsOf(page), [])
    await page.getByRole("button", { name: "Sign in" }).click()
    await page.getByRole("alert").waitFor()
    assert.strictEqual(complaints.splice(0).length, 1, "the browser reports the 401 that was asked for")
    await signIn(page, node.address)
    await page.reload()
    await page.getByRole("heading", { name: "Live" }).waitFor()
  })

  it("tells an empty node's owner what to do next", async () => {
    for (
      const [where, title] of [["live", "No camera yet"], ["cameras", "No camera yet"], [
        "recordings",
        "Nothing is recorded",
      ]]
    ) {
      await go(where!)
      await page.getByRole("heading", { name: title! }).waitFor()
      assert.deepStrictEqual(await faultsOf(page), [], where)
    }
    await go("live")
    await page.getByRole("link", { name: "Add a camera" }).click()
    await page.getByRole("heading", { name: "Add cameras" }).waitFor()
  })

  it("adds a camera by its address, and changes it by its form", async () => {
    const camera = node.cameras[0]!
    const sub = camera.streams.find((one) => one.role === "sub")!.url
    await page.getByLabel(/^Address of a camera/).fill(camera.streams.find((one) => one.role === "main")!.url)
    await page.getByRole("button", { name: "Put on the list" }).click()
    await page.getByRole("button", { name: "Go on with 1 camera" }).click()
    await page.getByLabel("User name").fill(camera.username)
    await page.getByLabel("Password").fill(camera.password)
    await page.getByRole("button", { name: "Add and try" }).click()
    await page.getByRole("button", { name: "Go on with 1 camera" }).click({ timeout: 60_000 })
    await page.getByRole("textbox", { name: /^Name/ }).fill("Front dor")
    await page.getByRole("button", { name: "Record", exact: true }).click()
    await page.getByRole("link", { name: "All cameras" }).click()
    await page.getByRole("button", { name: "Edit Front dor" }).click()
    const form = page.getByRole("dialog", { name: "Edit Front dor" })
    assert.deepStrictEqual(await faultsOf(page), [])
    await form.getByLabel("Name", { exact: true }).fill("Front door")
    await form.getByLabel(/^RTSP address of the sub/).fill("http://127.0.0.1/no")
    await form.getByRole("button", { name: "Save" }).click()
    await form.getByRole("alert").waitFor()
    await form.getByLabel(/^RTSP address of the sub/).fill(sub)
    await form.getByRole("button", { name: "Save" }).click()
    await form.waitFor({ state: "detached" })
    const row = page.getByRole("row", { name: /Front door/ })
    await row.getByText("640 × 360").waitFor()
    await row.getByText("recording", { exact: true }).waitFor()
    await recordCamera(node.client, "Loading bay", node.cameras[1]!)
    await recordCamera(node.client, "Car park", { ...node.cameras[2]!, password: "wrong" })
    await recordCamera(node.client, "Roof", node.cameras[3]!)
  })

  it("shows live pictures that move, and in words why there are none", async () => {
    await go("live")
    const tile = page.getByRole("article", { name: "Front door" })
    await moves(tile.locator("video"))
    const refused = page.getByRole("article", { name: "Car park" })
    await refused.getByText("The camera refused the user name or the password").waitFor()
    await page.getByRole("article", { name: "Loading bay" }).locator("video").waitFor()
    // The gap that later tests look at.
    await node.tell(1, "cut", { seconds: 2 })
    assert.deepStrictEqual(await faultsOf(page), [])
  })

  it("lists cameras and recordings, with coverage", async () => {
    await go("cameras")
    await page.getByRole("row", { name: /Car park.*password refused/ }).waitFor()
    assert.deepStrictEqual(await faultsOf(page), [])
    await go("recordings")
    const entry = page.getByRole("article", { name: "Front door" })
    await entry.getByText(/\d % of .* recorded/).waitFor()
    await entry.getByRole("img", { name: /^Last 24 hours/ }).waitFor()
    await entry.getByRole("button", { name: /^Kept 30 days/ }).waitFor()
    assert.deepStrictEqual(await faultsOf(page), [])
  })

  it("plays a recording: the picture moves", async () => {
    await play("Front door")
    await page.getByRole("heading", { name: "Front door" }).waitFor()
    await moves(video())
    assert.deepStrictEqual(await faultsOf(page), [])
  })

  it("seeks by a click on the timeline, by keys and by the form", async () => {
    await page.getByRole("button", { name: "1 min", exact: true }).click()
    // The picture of the new minute is drawn when its coverage has come.
    const { box, span } = await eventually("footage to click on", async () => {
      const [box, span] = [await timeline().boundingBox(), await timeline().locator(".span").first().boundingBox()]
      return box !== null && span !== null && span.width > 20 ? { box, span } : null
    })
    const [start, end] = await timeline().evaluate((one) => [Number(one.ariaValueMin), Number(one.ariaValueMax)])
    const place = span.x - box.x + span.width / 2
    const target = start! + place / box.width * (end! - start!)
    await timeline().click({ position: { x: place, y: 60 } })
    await eventually("the click's moment", async () => Math.abs(await moment() - target) < 3000)
    await playing(page)

    await page.keyboard.press(" ")
    await page.getByText("· paused").waitFor()
    const paused = await moment()
    await timeline().press("ArrowLeft")
    await eventually("a step back", async () => paused - await moment() > 600, 10)
    const still = await pictureOf(video())
    await page.keyboard.press(".")
    await page.keyboard.press(".")
    await page.keyboard.press(".")
    await eventually("other pictures by steps", async () => distance(still, await pictureOf(video())) > 0.3)
    await page.keyboard.press(" ")
    await page.getByText("· paused").waitFor({ state: "detached" })
    await moves(video())

    await page.getByLabel("Moment to go to").fill(new Date(target).toISOString().slice(0, 19))
    await page.getByRole("button", { name: "Go to" }).click()
    await eventually("the moment of the form", async () => Math.abs(await moment() - target) < 3000)
    await playing(page)
  })

  it("plays from a quarter of the speed to sixteen times", async () => {
    for (const speed of [16, 0.25]) {
      await timeline().press("Home")
      await page.getByRole("button", { name: `${speed}×`, exact: true }).click()
      // At once: at sixteen times the speed the present is reached in seconds, and played at its own pace.
      assert.strictEqual(await video().evaluate((one) => (one as HTMLVideoElement).playbackRate), speed)
      await moves(video())
    }
  })

  it("shows a gap with its cause, and goes to it", async () => {
    await play("Loading bay")
    const gap = await eventually("the gap", async () => {
      const list = page.getByRole("region", { name: "Missing in this view" }).getByRole("button")
      const found = list.filter({ hasText: "camera offline" }).first()
      return await found.count() > 0 ? found : null
    }, 20)
    await gap.click()
    await playing(page)
    await page.getByRole("button", { name: "1 min", exact: true }).click()
    const drawn = timeline().locator(".gap").last()
    await drawn.waitFor()
    // A timeline that grows is drawn anew under the pointer.
    await eventually("what is missing there, in words", async () => {
      await drawn.hover({ force: true, timeout: 2_000 })
      return await timeline().getByText(/camera offline, .* missing/).isVisible() || null
    }, 30)
    await moves(video())
    assert.deepStrictEqual(await faultsOf(page), [])
  })

  it("says in words that a browser cannot decode H.265", async (context) => {
    const decodes = await page.evaluate(() => MediaSource.isTypeSupported("video/mp4; codecs=\"hvc1.1.6.L93.B0\""))
    // Debian's Chromium does not decode it; one that does has nothing to say here, and the reason is printed.
    if (decodes) return context.skip("this Chromium decodes H.265")
    await play("Roof")
    await page.getByRole("alert").getByText("This browser cannot decode the pictures").waitFor()
    await page.getByRole("button", { name: "Copy the address for another player" }).waitFor()

    // Live, it offers the other stream, and still pictures meanwhile.
    await go("cameras")
    await page.getByRole("link", { name: "Roof", exact: true }).click()
    await page.getByText("this browser cannot decode H.265").waitFor()
    await page.getByRole("button", { name: "Show the sub-stream" }).waitFor()
  })

  it("shows storage and health", async () => {
    await go("system")
    await page.getByText("for more footage").waitFor()
    await page.getByText("Database").waitFor()
    assert.deepStrictEqual(await faultsOf(page), [])
  })

  it("is as narrow as a telephone", async () => {
    const token = /#\/play\/[^?]+/
    await go("recordings")
    const href = await page.getByRole("link", { name: "Play Front door" }).getAttribute("href")
    await page.setViewportSize({ width: 390, height: 844 })
    for (const where of ["live", "cameras", "recordings", "system", token.exec(href!)![0].slice(2)]) {
      await go(where)
      await page.getByRole("heading", { level: 1 }).waitFor()
      await page.waitForLoadState("networkidle")
      assert.isAtMost(await page.evaluate(() => document.documentElement.scrollWidth), 390, where)
    }
    await page.setViewportSize({ width: 1440, height: 900 })
  })

  it("can be used by keys alone", async () => {
    const keys = await newPage()
    const tabTo = async (name: string) => {
      for (let presses = 0; presses < 60; presses++) {
        await keys.keyboard.press("Tab")
        const focused = await keys.evaluate(() =>
          document.activeElement?.getAttribute("aria-label") ?? document.activeElement?.textContent ?? ""
        )
        if (focused.trim() === name) return
      }
      assert.fail(`no way to ${name} by Tab`)
    }
    await keys.goto(node.address)
    await keys.getByLabel("User name").focus()
    await keys.keyboard.press("Tab")
    await keys.keyboard.type(password)
    await keys.keyboard.press("Enter")
    await keys.getByRole("heading", { name: "Live" }).waitFor()
    await tabTo("Recordings")
    await keys.keyboard.press("Enter")
    await keys.getByRole("link", { name: "Play Front door" }).waitFor()
    await tabTo("Play Front door")
    await keys.keyboard.press("Enter")
    await playing(keys)
    await keys.keyboard.press(" ")
    await keys.getByText("· paused").waitFor()
    await keys.keyboard.press("?")
    await keys.getByRole("dialog", { name: "Keyboard" }).waitFor()
    await keys.keyboard.press("Escape")
    await keys.getByRole("dialog").waitFor({ state: "detached" })
    await tabTo("Sign out")
    await keys.keyboard.press("Enter")
    await keys.getByRole("button", { name: "Sign in" }).waitFor()
    await keys.close()
  })

  it("left no complaint in the browser's console", () => {
    assert.deepStrictEqual(complaints, [])
  })
})
