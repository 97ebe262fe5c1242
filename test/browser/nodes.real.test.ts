/** The page of nodes: two administrators pair two nodes in their browsers, by the digits, and one ends it. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { type Browser, chromium, type Page } from "playwright-core"
import { faultsOf } from "./axe.ts"
import { eventually, type Running, signIn, startNode, withoutChromium } from "./node.ts"

const opened = async (browser: Browser, node: Running): Promise<Page> => {
  const page = await (await browser.newContext({ viewport: { width: 360, height: 740 } })).newPage()
  page.setDefaultTimeout(60_000)
  await signIn(page, node.address)
  await page.goto(`${node.address}/#/nodes`)
  await page.getByRole("heading", { name: "No other node yet" }).waitFor()
  return page
}

const fits = (page: Page) => page.evaluate<boolean>("document.documentElement.scrollWidth <= innerWidth")

describe.skipIf(withoutChromium !== "")("the page of nodes", () => {
  it("pairs two nodes by the digits on both sides, and unpairs them", async () => {
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
  }, 240_000)
})
