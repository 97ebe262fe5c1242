/**
 * A visit to the dashboard's pages that manage: one node with two simulated cameras, Chromium, a vendor of licences, and the hands of
 * the visitor.
 *
 * Invariants
 * 1. What the browser complains about is kept, for the last test to find; a test that asks for a refusal takes its complaint away.
 */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Browser, Locator, Page } from "playwright-core"
import { afterAll, beforeAll } from "vitest"
import { launchChromium, launchWholeChromium } from "../../harness/chromium.ts"
import { type VendorKey, vendorKey } from "../../license-vendor.ts"
import { faultsOf } from "../axe.ts"
import { recordCamera, type Running, signIn, startNode } from "../node.ts"

interface Started {
  readonly node: Running
  readonly browser: Browser
  /** The administrator's. */
  readonly page: Page
  readonly vendor: VendorKey
  readonly folder: string
}

export class Visit {
  #started: Started | null = null
  readonly complaints: Array<string> = []
  /** The password that anna was given, and then chose. */
  readonly anna = { username: "anna", password: "" }

  get #there(): Started {
    if (this.#started === null) throw new Error("The visit has not begun")
    return this.#started
  }
  get node(): Running {
    return this.#there.node
  }
  get page(): Page {
    return this.#there.page
  }
  get vendor(): VendorKey {
    return this.#there.vendor
  }

  async begin(): Promise<void> {
    const folder = await mkdtemp(join(tmpdir(), "nightjar-manage-"))
    const vendor = await Effect.runPromise(vendorKey("browser"))
    const keys = join(folder, "keys.json")
    await writeFile(keys, JSON.stringify({ keys: [vendor.jwk] }))
    const [node, browser] = await Promise.all([
      startNode({ simulator: ["--cameras", "2"], settings: { NIGHTJAR_LICENSE_KEYS: keys } }),
      launchChromium(),
    ])
    const page = await this.#newPage(browser)
    this.#started = { node, browser, page, vendor, folder }
    await recordCamera(node.client, "Front door", node.cameras[0]!)
    await recordCamera(node.client, "Loading bay", node.cameras[1]!)
    await signIn(page, node.address)
  }

  async end(): Promise<void> {
    if (this.#started === null) return
    const { browser, folder, node } = this.#started
    await browser.close()
    await node.stop()
    await rm(folder, { recursive: true, force: true })
  }

  async #newPage(browser: Browser): Promise<Page> {
    const context = await browser.newContext({
      viewport: { width: 1440, height: 900 },
      locale: "en-US",
      timezoneId: "UTC",
    })
    const made = await context.newPage()
    made.setDefaultTimeout(60_000)
    made.on("console", (message) => {
      if (message.type() === "error") this.complaints.push(`${message.text()} ${message.location().url}`)
    })
    made.on("pageerror", (error) => this.complaints.push(String(error)))
    return made
  }

  /** A browser context of its own, for somebody else. */
  async elsewhere(act: (other: Page) => Promise<void>, browser: Browser = this.#there.browser): Promise<void> {
    const other = await this.#newPage(browser)
    try {
      await act(other)
    } finally {
      await other.context().close()
    }
  }

  /** A browser of its own, with all that a browser of people has. */
  async elsewhereWhole(act: (other: Page) => Promise<void>): Promise<void> {
    const browser = await launchWholeChromium()
    try {
      await this.elsewhere(act, browser)
    } finally {
      await browser.close()
    }
  }

  readonly go = (where: string, at: Page = this.page) => at.goto(`${this.node.address}/#/${where}`)
  readonly dialog = (name: string | RegExp): Locator => this.page.getByRole("dialog", { name })
  readonly button = (name: string | RegExp, within: Page | Locator = this.page): Locator =>
    within.getByRole("button", typeof name === "string" ? { name, exact: true } : { name })
  /** No fault of accessibility on the page as it is. */
  readonly noFaults = async (where: string) => assert.deepStrictEqual(await faultsOf(this.page), [], where)
}

export const gone = (what: Locator) => what.waitFor({ state: "detached" })

/** One for the file's tests. */
export const startVisit = (): Visit => {
  const visit = new Visit()
  beforeAll(() => visit.begin())
  afterAll(() => visit.end())
  return visit
}
