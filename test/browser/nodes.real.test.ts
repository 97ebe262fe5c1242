/**
 * The pages of nodes and of failover: two administrators pair two nodes in their browsers, by the digits; one node guards the
 * other, holds a drill and lets go again; and the pairing ends.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import type { Browser, Page } from "playwright-core"
import { launchChromium, withoutChromium } from "../harness/chromium.ts"
import { faultsOf } from "./axe.ts"
import { eventually, recordCamera, type Running, signIn, startNode } from "./node.ts"

const opened = async (browser: Browser, node: Running): Promise<Page> => {
  const page = await (await browser.newContext({ viewport: { width: 360, height: 740 } })).newPage()
  page.setDefaultTimeout(60_000)
  await signIn(page, node.address)
  await page.goto(`${node.address}/#/nodes`)
  await page.getByRole("heading", { name: "No other node yet" }).waitFor()
  return page
}

const fits = (page: Page) => page.evaluate<boolean>("document.documentElement.scrollWidth <= innerWidth")

/** Presses a button that asks, and answers the question. */
const confirmed = async (page: Page, button: string, verb: string): Promise<void> => {
  await page.getByRole("main").getByRole("button", { name: button, exact: true }).click()
  const dialog = page.getByRole("dialog")
  await dialog.getByRole("button", { name: verb, exact: true }).click()
  await dialog.waitFor({ state: "hidden" })
}

const wellMade = async (page: Page): Promise<void> => {
  assert.deepStrictEqual(await faultsOf(page), [])
  assert.isTrue(await fits(page))
}

/** Little room and little time are enough for one simulated camera. */
const settled = async (page: Page): Promise<void> => {
  const settings = page.getByRole("region", { name: "Settings of this node" })
  await settings.getByRole("spinbutton", { name: "A drill lasts, ms" }).fill("4000")
  await settings.getByRole("spinbutton", { name: "Outage, h" }).fill("1")
  await settings.getByRole("button", { name: "Save" }).click()
  await settings.getByText("Saved.", { exact: true }).waitFor()
  assert.strictEqual(await settings.getByRole("spinbutton", { name: "Outage, h" }).inputValue(), "1")
  await settings.getByRole("button", { name: "Default for A drill lasts, ms" }).waitFor()
}

/** What both nodes changed is decided by a button: the answers of the node are made up here, as no camera of this test was served with control. */
const deciding = async (here: Page, guardian: string): Promise<void> => {
  const conflicts = here.getByRole("region", { name: "Changed on both nodes" })
  await conflicts.getByText(/^Nothing to decide/).waitFor()
  const of = { cameraId: "0190163d-8694-7395-8ad4-5b8a3f3d0a01", cameraName: "Yard", guardianNodeId: guardian }
  const told = {
    ...of,
    thereBy: "anna",
    thereAt: "2026-01-02T03:04:05.000Z",
    hereAt: "2026-01-02T03:00:00.000Z",
    inForce: "there",
    choices: ["here", "there"],
  }
  const open = [
    {
      ...told,
      id: "0190163d-8694-7395-8ad4-5b8a3f3d0a02",
      kind: "camera",
      thingId: of.cameraId,
      partName: "",
      field: "name",
      secret: false,
      base: "Yard",
      here: "Back yard",
      there: "Yard, gate",
    },
    {
      ...told,
      id: "0190163d-8694-7395-8ad4-5b8a3f3d0a03",
      kind: "stream",
      thingId: "0190163d-8694-7395-8ad4-5b8a3f3d0a04",
      partName: "Channel 1, main, stream",
      field: "password",
      secret: true,
      base: true,
      here: true,
      there: true,
    },
  ]
  const chosen: Array<string | null> = []
  await here.route(/failover\/conflicts/, async (route) => {
    if (route.request().method() === "GET") return await route.fulfill({ json: { items: open, nextCursor: null } })
    chosen.push(route.request().postData())
    await route.fulfill({ json: open.shift() })
  })
  const name = conflicts.getByRole("row", { name: "Name of Yard" })
  await name.getByText("Yard, gate").waitFor()
  await name.getByText("Back yard").waitFor()
  const secret = conflicts.getByRole("row", { name: "Password of Yard" })
  assert.strictEqual(await secret.getByText("changed", { exact: true }).count(), 2)
  await wellMade(here)
  await name.getByRole("button", { name: "Keep ours: Name of Yard" }).click()
  await name.waitFor({ state: "detached" })
  assert.deepStrictEqual(chosen, [JSON.stringify({ side: "here" })])
  await here.unroute(/failover\/conflicts/)
  await conflicts.getByText(/^Nothing to decide/).waitFor()
}

/** `there` guards the node of `here`, from the question to the end of it. */
const guarding = async (here: Page, there: Page, guardianId: string): Promise<void> => {
  await here.goto(here.url().replace(/#.*/, "#/reroutes"))
  await here.getByRole("heading", { name: "No node guards another yet" }).waitFor()
  await wellMade(here)
  await there.goto(there.url().replace(/#.*/, "#/reroutes"))
  await settled(there)
  await confirmed(there, "Guard a node", "Guard it")
  const protection = there.getByRole("region", { name: "Protection of alpha" })
  await protection.getByText("waits to be allowed", { exact: true }).waitFor()
  await there.getByRole("link", { name: "Failover: not everything is ready" }).waitFor()
  await wellMade(there)

  const guardian = here.getByRole("region", { name: "Guardians of this node" }).getByRole("listitem", { name: "beta" })
  await guardian.getByText("not allowed", { exact: true }).waitFor()
  await confirmed(here, "Allow", "Allow")
  await guardian.getByText("allowed", { exact: true }).waitFor()
  await deciding(here, guardianId)
  await protection.getByText("protected", { exact: true }).waitFor()
  await protection.getByText("Second session of each camera (1): all opened").waitFor()
  await there.getByRole("img", { name: "beta guards alpha: protected" }).waitFor()

  await there.getByRole("main").getByRole("button", { name: "Take over", exact: true }).click()
  assert.isFalse(await there.getByRole("dialog").getByLabel("The home node is off").isChecked())
  await wellMade(there)
  await there.keyboard.press("Escape")
  await there.getByRole("dialog").waitFor({ state: "hidden" })

  await confirmed(there, "Drill", "Hold the drill")
  await there.getByRole("link", { name: "Failover: this node serves alpha" }).waitFor()
  await wellMade(there)
  await protection.getByText(/^Last drill .*: gap /).waitFor()
  const drill = there.getByRole("region", { name: "Reroutes" }).getByRole("listitem").filter({
    hasText: "alpha, drill",
  })
  await drill.getByText("done", { exact: true }).waitFor()
  const log = there.getByRole("region", { name: "What happened" })
  await log.getByText("Footage is home", { exact: true }).waitFor()
  await wellMade(there)
  await there.setViewportSize({ width: 1280, height: 900 })
  await wellMade(there)

  await confirmed(there, "Release", "Release")
  await protection.waitFor({ state: "detached" })
  await there.getByRole("heading", { name: "No node guards another yet" }).waitFor()
}

describe.skipIf(withoutChromium !== "")("the page of nodes", () => {
  it("pairs two nodes by the digits on both sides, lets one guard the other, and unpairs them", async () => {
    const settings = (name: string) => ({ simulator: ["--cameras", "1"], settings: { NIGHTJAR_NODE_NAME: name } })
    const nodes = await Promise.all([startNode(settings("alpha")), startNode(settings("beta"))])
    const [alpha, beta] = nodes
    const browser = await launchChromium()
    try {
      const [here, there] = [await opened(browser, alpha!), await opened(browser, beta!)]
      assert.deepStrictEqual(await faultsOf(here), [])
      assert.isTrue(await fits(here))
      const list = await Effect.runPromise(beta!.client.federationNode.nodes({ query: {} }))
      await here.getByRole("button", { name: "Pair with a node" }).click()
      await here.getByLabel("Id of the other node").fill(list.items[0]!.nodeId)
      await here.getByRole("textbox", { name: "Address" }).fill(beta!.address)
      await here.getByRole("button", { name: "Ask for the pairing" }).click()

      const asking = here.getByRole("region", { name: "Pairing with beta" })
      const asked = there.getByRole("region", { name: "Request of alpha" })
      await asking.waitFor()
      await asked.waitFor()
      assert.deepStrictEqual(await faultsOf(there), [])
      assert.isTrue(await fits(there))
      // They are known on the other side when both have told what they committed to.
      const [asks, answers] = [asking, asked].map((side) =>
        side.locator(".digits").filter({ hasText: /^\d{3} \d{3}$/ })
      )
      assert.strictEqual(await answers!.textContent(), await asks!.textContent())
      await asked.getByRole("button", { name: "The digits are the same" }).click()
      await asking.getByRole("button", { name: "The digits are the same" }).click()
      await here.getByRole("region", { name: "beta", exact: true }).getByText("online", { exact: true }).waitFor()
      await there.getByRole("region", { name: "alpha", exact: true }).getByText("online", { exact: true }).waitFor()
      assert.deepStrictEqual(await faultsOf(here), [])

      await recordCamera(alpha!.client, "Yard", alpha!.cameras[0]!)
      await guarding(here, there, list.items[0]!.nodeId)
      await here.goto(`${alpha!.address}/#/nodes`)
      await here.getByRole("button", { name: "Unpair" }).click()
      await here.getByRole("dialog").getByRole("button", { name: "Unpair" }).click()
      await here.getByRole("heading", { name: "No other node yet" }).waitFor()
      await eventually("the other side hears of the end", async () => {
        const left = await Effect.runPromise(beta!.client.federationNode.nodes({ query: {} }))
        return left.items.length === 1
      })
    } finally {
      await browser.close()
      await Promise.all(nodes.map((node) => node.stop()))
    }
  }, 480_000)
})
