/** What the page of a camera is visited on: a node, ONVIF cameras that advertise themselves, and a browser whose user is signed in. */
import { assert } from "@effect/vitest"
import type { Browser, Page } from "playwright-core"
import { startSimulator } from "../camera-simulator/simulator.ts"
import { launchChromium } from "../harness/chromium.ts"
import { type SimulatedDevice, startDevice } from "../onvif-simulator/device.ts"
import { advertise } from "../onvif-simulator/discovery.ts"
import { type Running, signIn, startNode } from "./node.ts"

export const longName = "Gate behind the old warehouse, next to the second loading bay, seen from the lamp post"

export interface CameraScene {
  readonly node: Running
  readonly browser: Browser
  readonly page: Page
  /** It can do everything. */
  readonly yard: SimulatedDevice
  /** Ends the other one too, which can neither move nor set its picture, and has another password. */
  readonly stop: () => Promise<void>
}

/** Nothing of the page stands beside the screen of a phone. */
export const fitsPhone = async (page: Page, where: string): Promise<void> => {
  await page.setViewportSize({ width: 360, height: 740 })
  assert.isAtMost(await page.evaluate(() => document.documentElement.scrollWidth), 360, where)
  await page.setViewportSize({ width: 1440, height: 900 })
}

const tell = (urn: string, device: SimulatedDevice, name: string) => {
  const addresses = [`http://127.0.0.1:${device.port}/onvif/device_service`]
  const scopes = [`onvif://www.onvif.org/name/${encodeURIComponent(name)}`, "onvif://www.onvif.org/hardware/NJ-200"]
  return advertise({ urn, addresses, scopes })
}

export const startScene = async (): Promise<CameraScene> => {
  const streams = await startSimulator({ cameras: [{}, { password: "other-fish" }] })
  const deviceOf = (index: number, quirks: Parameters<typeof startDevice>[0]) => {
    const camera = streams.cameras[index]!
    return startDevice({ ...quirks, streams: { main: camera.url("main"), sub: camera.url("sub") } })
  }
  const yard = await deviceOf(0, {})
  const gate = await deviceOf(1, { quirks: { noPtz: true, noImaging: true }, password: "other-fish" })
  const advertised = [await tell("urn:uuid:yard", yard, "Yard"), await tell("urn:uuid:gate", gate, longName)]
  const [node, browser] = await Promise.all([
    startNode({ simulator: ["--cameras", "1"], settings: { NIGHTJAR_RTSP_PORT: "0" } }),
    launchChromium(),
  ])
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, locale: "en-US" })
  const page = await context.newPage()
  // The machine may be busy.
  page.setDefaultTimeout(60_000)
  await signIn(page, node.address)
  const stop = async () => {
    await browser.close()
    await node.stop()
    for (const one of [...advertised, yard, gate, streams]) await one.close()
  }
  return { node, browser, page, yard, stop }
}
