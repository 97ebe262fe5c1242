/** Chromium with its made-up microphone, which beeps: the camera hears it for as long as the button is held, and who may not is told why. */
import { assert, describe, it } from "@effect/vitest"
import type { Browser, Page } from "playwright-core"
import { startSimulator } from "../camera-simulator/simulator.ts"
import { launchWholeChromium, withoutChromium } from "../harness/chromium.ts"
import { eventually, password, signIn, startNode } from "./node.ts"

const launch = (): Promise<Browser> =>
  launchWholeChromium(
    "--allow-loopback-in-peer-connection",
    "--autoplay-policy=no-user-gesture-required",
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
  )

/** The only camera, as large as the wall. */
const enlarged = async (browser: Browser, address: string): Promise<Page> => {
  const page = await (await browser.newContext({ viewport: { width: 1280, height: 800 } })).newPage()
  await signIn(page, address)
  await page.locator(".wall-tile").first().dblclick()
  await page.getByRole("button", { name: /Hold to talk/ }).waitFor()
  return page
}

describe.skipIf(withoutChromium !== "")("push to talk", () => {
  it("the camera hears what is said while the button is held, and nothing after", async () => {
    const simulator = await startSimulator({ cameras: [{ loudspeaker: "pcmu" }] })
    const camera = simulator.cameras[0]!
    const node = await startNode({ simulator: ["--cameras", "1"] })
    let browser: Browser | null = null
    try {
      const json = { "content-type": "application/json" }
      const login = { method: "POST", headers: json, body: JSON.stringify({ username: "admin", password }) }
      const { accessToken } = await (await fetch(`${node.address}/auth/api/v1/auth/login`, login)).json() as {
        accessToken: string
      }
      const authorization = `Bearer ${accessToken}`
      const made = await fetch(`${node.address}/camera/api/v1/cameras`, {
        method: "POST",
        headers: { ...json, authorization },
        body: JSON.stringify({
          name: "Gate",
          driver: "rtsp",
          username: "admin",
          password: "swordfish",
          streams: [{ role: "main", sourceUrl: camera.url("main") }],
        }),
      })
      const { channels } = await made.json() as { channels: ReadonlyArray<{ streams: ReadonlyArray<{ id: string }> }> }
      const path = `/camera/api/v1/streams/${channels[0]!.streams[0]!.id}/backchannel`

      browser = await launch()
      const page = await enlarged(browser, node.address)
      const button = page.locator(".talk-button")
      await button.hover()
      await page.mouse.down()
      await page.getByRole("button", { name: "Talking: Gate" }).waitFor({ timeout: 60_000 })
      // The made-up microphone beeps once a second.
      await eventually("beeps", () => Promise.resolve(camera.report().heard.loudSamples > 2_000))
      await eventually(
        "a level",
        () =>
          page.locator(".talk-level").evaluate((bar: HTMLElement) =>
            Number(bar.style.getPropertyValue("--level")) > 0.2
          ),
      )
      await page.mouse.up()
      await page.getByRole("button", { name: "Hold to talk: Gate" }).waitFor()
      await eventually("the camera to be free", async () => {
        const status = await fetch(`${node.address}${path}/status`, { headers: { authorization } })
        return !(await status.json() as { active: boolean }).active
      })
      const { packets } = camera.report().heard
      await new Promise((resolve) => setTimeout(resolve, 1_000))
      assert.strictEqual(camera.report().heard.packets, packets)

      // Somebody else talks.
      const taken = await fetch(`${node.address}${path}`, { method: "POST", headers: { authorization } })
      assert.strictEqual(taken.status, 201)
      await button.focus()
      await page.keyboard.down(" ")
      await page.getByRole("alert").filter({ hasText: "admin is talking to this camera." }).waitFor()
      await page.keyboard.up(" ")

      // As browsers answer where there is none, or where a person said no.
      for (
        const [name, said] of [["NotFoundError", /No microphone was found/], [
          "NotAllowedError",
          /does not let/,
        ]] as const
      ) {
        await page.evaluate((refusal) => {
          navigator.mediaDevices.getUserMedia = () => Promise.reject(new DOMException("", refusal))
        }, name)
        await page.keyboard.down("Enter")
        await page.getByRole("alert").filter({ hasText: said }).waitFor()
        await page.keyboard.up("Enter")
      }
    } finally {
      await browser?.close()
      await node.stop()
      await simulator.close()
    }
  }, 240_000)
})
