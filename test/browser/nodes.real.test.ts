/**
 * The pages of nodes and of failover: two administrators pair two nodes in their browsers, by the digits; one node guards the
 * other, holds a drill and lets go again; and the pairing ends.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { type Browser, chromium, type Page } from "playwright-core"
import { faultsOf } from "./axe.ts"
import { eventually, recordCamera, type Running, signIn, startNode, withoutChromium } from "./node.ts"

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

/** `there` guards the node of `here`, from the question to the end of it. */
const guarding = async (here: Page, there: Page): Promise<void> => {
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
    const browser = await chromium.launch({
      executablePath: "/usr/bin/chromium",
      args: ["--no-sandbox", "--disable-gpu"],
    })
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
      assert.strictEqual(await asked.locator(".digits").textContent(), await asking.locator(".digits").textContent())
      await asked.getByRole("button", { name: "The digits are the same" }).click()
      await asking.getByRole("button", { name: "The digits are the same" }).click()
      await here.getByRole("region", { name: "beta", exact: true }).getByText("online", { exact: true }).waitFor()
      await there.getByRole("region", { name: "alpha", exact: true }).getByText("online", { exact: true }).waitFor()
      assert.deepStrictEqual(await faultsOf(here), [])

      await recordCamera(alpha!.client, "Yard", alpha!.cameras[0]!)
      await guarding(here, there)
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
