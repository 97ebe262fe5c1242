/**
 * `npm run picture`: makes the pictures in the README, in Debian's Chromium at 1440 × 900: `ops/dashboard.png`, the player of a
 * simulated camera that was away for a few seconds, and `ops/camera.png`, the page of one that can be moved. With `camera` or
 * `dashboard` that one alone.
 */
import { Effect, Redacted } from "effect"
import { stat, writeFile } from "node:fs/promises"
import { setTimeout as sleep } from "node:timers/promises"
import type { Page } from "playwright-core"
import { eventually, recordCamera, type Running, signIn, startNode } from "../browser/node.ts"
import { startSimulator } from "../camera-simulator/simulator.ts"
import { launchChromium } from "../harness/chromium.ts"
import { startDevice } from "../onvif-simulator/device.ts"

/** What a README may weigh down a clone with, bytes. */
const mostBytes = 400 * 1024

const keep = async (name: string, page: Page): Promise<void> => {
  const file = new URL(`../../ops/${name}.png`, import.meta.url).pathname
  await writeFile(file, await page.screenshot())
  const { size } = await stat(file)
  if (size > mostBytes) throw new Error(`the picture has ${size} bytes, at most ${mostBytes} are wanted`)
  console.log(`ops/${name}.png: ${size} bytes`)
}

const shown = (page: Page) =>
  eventually("a picture", () => page.locator("video").evaluate((one) => (one as HTMLVideoElement).currentTime > 3))

const dashboard = async (node: Running, page: Page): Promise<void> => {
  await recordCamera(node.client, "Front door", node.cameras[0]!, 30)
  await recordCamera(node.client, "Loading bay", node.cameras[1]!, 30)
  await sleep(30_000)
  await node.tell(0, "cut", { seconds: 4 })
  await sleep(45_000)
  await page.goto(`${node.address}/#/recordings`)
  await page.getByRole("link", { name: "Play Front door", exact: true }).click()
  await page.getByRole("button", { name: "1 min", exact: true }).click()
  const gap = page.locator(".timeline .gap").last()
  await gap.waitFor()
  await shown(page)
  await gap.hover({ force: true })
  await keep("dashboard", page)
}

const camera = async (node: Running, page: Page): Promise<void> => {
  const streams = await startSimulator({ cameras: 1 })
  const [one] = streams.cameras
  const device = await startDevice({ streams: { main: one!.url("main"), sub: one!.url("sub") } })
  try {
    const { username, password } = device.state.options
    const { host, port } = device
    const input = { name: "Yard", driver: "onvif" as const, host, port, username, password: Redacted.make(password) }
    const { body } = await Effect.runPromise(node.client.camera.addCamera({ headers: {}, payload: input }))
    for (const name of ["Gate", "Loading bay", "Lamp post"]) {
      const payload = { name }
      await Effect.runPromise(node.client.cameraPtz.setPreset({ params: { id: body.id }, headers: {}, payload }))
    }
    await page.goto(`${node.address}/#/cameras/${body.id}?show=move`)
    await page.getByRole("button", { name: "Go to Lamp post" }).waitFor()
    await shown(page)
    await keep("camera", page)
  } finally {
    await device.close()
    await streams.close()
  }
}

const take = async (wanted: ReadonlyArray<typeof camera>): Promise<void> => {
  const node = await startNode({ simulator: ["--cameras", "2"], settings: { NIGHTJAR_RTSP_PORT: "0" } })
  try {
    const browser = await launchChromium()
    try {
      const viewport = { width: 1440, height: 900 }
      const page = await browser.newPage({ viewport, colorScheme: "dark", locale: "en-GB" })
      await signIn(page, node.address)
      for (const one of wanted) await one(node, page)
    } finally {
      await browser.close()
    }
  } finally {
    await node.stop()
  }
}

const all = { dashboard, camera }
await take(
  Object.entries(all).flatMap(([name, one]) => process.argv.length < 3 || process.argv.includes(name) ? [one] : []),
)
