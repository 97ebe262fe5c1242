/**
 * The dashboard's pages that manage, in Debian's Chromium, on one node with simulated cameras: one visit, in order, from the first
 * user to the second factor.
 */
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { TOTP } from "otpauth"
import type { Browser, Locator, Page } from "playwright-core"
import { claims, sign, type VendorKey, vendorKey } from "../license-vendor.ts"
import { faultsOf } from "./axe.ts"
import { eventually, launchChromium, recordCamera, type Running, signIn, startNode, withoutChromium } from "./node.ts"

let node: Running
let browser: Browser
let page: Page
let vendor: VendorKey
let folder: string
/** What the browser complained about, but for answers that a test asked for. */
const complaints: Array<string> = []

const newPage = async (): Promise<Page> => {
  const context = await browser.newContext({
    viewport: { width: 1440, height: 900 },
    locale: "en-US",
    timezoneId: "UTC",
  })
  const made = await context.newPage()
  made.setDefaultTimeout(30_000)
  made.on("console", (message) => {
    if (message.type() === "error") complaints.push(`${message.text()} ${message.location().url}`)
  })
  made.on("pageerror", (error) => complaints.push(String(error)))
  return made
}

/** Another browser, for somebody else. */
const elsewhere = async <A>(act: (other: Page) => Promise<A>): Promise<A> => {
  const other = await newPage()
  try {
    return await act(other)
  } finally {
    await other.context().close()
  }
}

const go = (where: string, at: Page = page) => at.goto(`${node.address}/#/${where}`)
const dialog = (name: string | RegExp): Locator => page.getByRole("dialog", { name })
const button = (name: string | RegExp, within: Page | Locator = page) =>
  within.getByRole("button", typeof name === "string" ? { name, exact: true } : { name })
const gone = (what: Locator) => what.waitFor({ state: "detached" })
const noFaults = async (where: string) => assert.deepStrictEqual(await faultsOf(page), [], where)

/** The password that anna was given, and then chose. */
const anna = { username: "anna", password: "" }

describe.skipIf(withoutChromium)(
  `managing in the dashboard${withoutChromium && ` (skipped: ${withoutChromium})`}`,
  () => {
    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), "nightjar-manage-"))
      vendor = await Effect.runPromise(vendorKey("browser"))
      const keys = join(folder, "keys.json")
      await writeFile(keys, JSON.stringify({ keys: [vendor.jwk] }))
      const [running, started] = await Promise.all([
        startNode({ simulator: ["--cameras", "2"], settings: { NIGHTJAR_LICENSE_KEYS: keys } }),
        launchChromium(),
      ])
      node = running
      browser = started
      page = await newPage()
      await recordCamera(node.client, "Front door", node.cameras[0]!)
      await recordCamera(node.client, "Loading bay", node.cameras[1]!)
      await signIn(page, node.address)
    })

    afterAll(async () => {
      await browser?.close()
      await node?.stop()
      if (folder !== undefined) await rm(folder, { recursive: true, force: true })
    })

    it("groups a camera", async () => {
      await go("groups")
      await page.getByRole("heading", { name: "No resource group yet" }).waitFor()
      await noFaults("no group")
      await button("Add a group").click()
      await dialog("Add a resource group").getByLabel("Name").fill("Entrances")
      await button("Add group").click()
      await button("Choose cameras of Entrances").click()
      await dialog("Entrances").getByRole("checkbox", { name: "Front door" }).first().check()
      await noFaults("members")
      await button("Save").click()
      await page.getByRole("row", { name: /Entrances/ }).getByText("1 resource").waitFor()
      await noFaults("groups")
    })

    it("makes a role that is narrowed to the group", async () => {
      await go("roles")
      await button("Add a role").click()
      const form = dialog("Add a role")
      await form.getByLabel("Name").fill("guard")
      for (const name of ["camera:read", "camera:live", "recording:read", "recording:replay", "notification:read"]) {
        await form.getByRole("checkbox", { name: new RegExp(`^${name} `) }).check()
      }
      await form.getByRole("radio", { name: /^Resource groups/ }).check()
      await form.getByText("Without a group the role reaches no camera at all.").waitFor()
      await form.getByRole("checkbox", { name: "Entrances" }).check()
      await noFaults("role form")
      await button("Add role").click()
      await gone(form)
      const card = page.getByRole("article", { name: "guard" })
      await card.getByText("Narrowed to Entrances").waitFor()
      await noFaults("roles")
    })

    it("creates a user whose first password is shown once", async () => {
      await go("users")
      await button("Add a user").click()
      const form = dialog("Add a user")
      await form.getByLabel("User name").fill("anna")
      await form.getByLabel("Display name").fill("Anna Example")
      await form.getByLabel(/^E-mail/).fill("anna@example.org")
      await form.getByRole("checkbox", { name: "guard" }).check()
      await noFaults("user form")
      await button("Add user").click()
      anna.password = await form.getByLabel("First password", { exact: true }).innerText()
      assert.isAtLeast(anna.password.length, 10)
      await button("Done").click()
      const row = page.getByRole("row", { name: /anna/ })
      await row.getByText("must change the password").waitFor()
      assert.notInclude(await page.content(), anna.password)
      await noFaults("users")
    })

    it("asks the new user for another password, then shows only what he may see", () =>
      elsewhere(async (other) => {
        await other.goto(node.address)
        await other.getByLabel("User name").fill(anna.username)
        await other.getByLabel("Password").fill(anna.password)
        await button("Sign in", other).click()
        await other.getByText("Choose a new password, Anna Example.").waitFor()
        await other.getByLabel(/^New password(?!,)/).fill("password-anna")
        await other.getByLabel(/^New password, once more/).fill("password-anna")
        await button("Go on", other).click()
        await other.getByRole("alert").getByText("it contains the name of its user").waitFor()
        assert.strictEqual(complaints.splice(0).length, 1, "the refused password")
        anna.password = "a-lantern-by-the-harbour"
        await other.getByLabel(/^New password(?!,)/).fill(anna.password)
        await other.getByLabel(/^New password, once more/).fill(anna.password)
        await button("Go on", other).click()
        await other.getByRole("article", { name: "Front door" }).waitFor()
        await go("cameras", other)
        await other.getByRole("row", { name: /Front door/ }).waitFor()
        assert.strictEqual(await other.getByRole("row", { name: /Loading bay/ }).count(), 0)
        const pages = await other.getByRole("navigation", { name: "Pages" }).getByRole("link").allInnerTexts()
        assert.deepStrictEqual(pages.map((text) => text.trim()), ["Live", "Cameras", "Recordings", "Alert rules"])
        await go("users", other)
        await other.getByRole("heading", { name: /not for this account/ }).waitFor()
      }))

    it("says in the matrix why somebody may, and why not", async () => {
      await go("matrix")
      const cell = (name: RegExp) => page.getByRole("gridcell", { name })
      await cell(/^anna, camera:read: for some\./).waitFor()
      await cell(/^admin, user:write: yes\. Granted by admin/).waitFor()
      await page.getByLabel("With").selectOption({ label: "Loading bay" })
      await cell(/^anna, camera:read: no\. .*no resource group/).waitFor()
      await page.getByLabel("With").selectOption({ label: "Front door" })
      const allowed = cell(/^anna, camera:read: yes\. Granted by guard/)
      await allowed.focus()
      await page.getByRole("status").getByText("anna may camera:read with Front door: Granted by guard").waitFor()
      await page.keyboard.press("ArrowRight")
      await page.getByRole("status").getByText("anna may not camera:write").waitFor()
      await noFaults("matrix")
    })

    it("changes rules, locks an account by them and unlocks it", async () => {
      await go("security")
      await page.getByLabel(/^Failures of an account/).fill("1")
      await page.getByLabel(/^First wait/).fill("600")
      await button("Save").click()
      await page.getByText("Saved. Holds from the next sign-in on.").waitFor()
      await noFaults("security")
      await go("security/locked")
      await page.getByRole("heading", { name: "No account has to wait" }).waitFor()
      await elsewhere(async (other) => {
        await other.goto(node.address)
        await other.getByLabel("User name").fill(anna.username)
        for (const attempt of ["wrong", "wrong again", anna.password]) {
          await other.getByLabel("Password").fill(attempt)
          await button("Sign in", other).click()
          await other.getByRole("alert").waitFor()
          await eventually("an answer", async () => await button("Sign in", other).isEnabled())
        }
        await other.getByRole("alert").getByText("Too many failed attempts").waitFor()
        await noFaults("locked accounts")
        await button("Unlock anna").click()
        await gone(button("Unlock anna"))
        await button("Sign in", other).click()
        await other.getByRole("article", { name: "Front door" }).waitFor()
      })
      complaints.splice(0)
    })

    it("lists management addresses, and tells a mail server that does not answer", async () => {
      await go("security/addresses")
      await page.getByText("You may administer from here").waitFor()
      await button("Add an address").click()
      const form = dialog("Add a management address")
      await form.getByLabel("Name").fill("Control room")
      await form.getByLabel(/^Address or network/).fill("192.0.2.0/24")
      await button("Save").click()
      await page.getByRole("row", { name: /192\.0\.2\.0\/24/ }).getByText("in force").waitFor()
      await noFaults("addresses")
      await button("Delete Control room").click()
      await button("Remove").click()
      await page.getByRole("heading", { name: "No restriction" }).waitFor()

      await go("security/mail")
      await page.getByLabel("Server", { exact: true }).fill("127.0.0.1")
      await page.getByRole("spinbutton", { name: "Port" }).fill("1")
      await page.getByLabel("Sender").fill("nightjar@example.org")
      await button("Test").click()
      await page.getByRole("status").getByText("No connection").waitFor()
      await noFaults("mail")
    })

    it("renews the master key", async () => {
      await go("security/key")
      const key = page.locator("dl .mono").first()
      const before = await key.innerText()
      await button("Renew the key").click()
      await button("Renew").click()
      await eventually("another key", async () => await key.innerText() !== before)
      await page.getByText("Every secret is sealed anew.").waitFor()
      await noFaults("master key")
    })

    it("activates a licence by its text", async () => {
      await go("licence")
      await page.getByText("no licence", { exact: true }).waitFor()
      await noFaults("no licence")
      const [file] = await Promise.all([page.waitForEvent("download"), button("Request file").click()])
      const request = JSON.parse(await readFile(await file.path(), "utf8")) as { readonly hardwareId: string }
      await button("Activate a licence").click()
      const form = dialog("Activate a licence")
      await form.getByLabel(/^Licence/).fill("a.forged.licence")
      await button("Activate").click()
      await form.getByRole("alert").waitFor()
      complaints.splice(0)
      const text = await Effect.runPromise(
        sign(vendor, claims(Date.now(), { hardwareId: request.hardwareId, sessions: 50 })),
      )
      await form.getByLabel(/^Licence/).fill(text)
      await noFaults("licence form")
      await button("Activate").click()
      await gone(form)
      await page.getByText("valid", { exact: true }).waitFor()
      await page.getByText("Example Ltd.").waitFor()
      await page.getByText("2 of 10").waitFor()
      await noFaults("licence")
    })

    it("rings the bell when a camera fails, live", async () => {
      await go("live")
      const unread = async () => Number(await page.getByTestId("unread").innerText().catch(() => "0"))
      await button(/^Notifications:/).click()
      const panel = dialog("Notifications")
      await noFaults("bell")
      // Something may ring between the click and the look.
      await eventually("everything read", async () => {
        if (await unread() > 0) await button("Mark all as read", panel).click({ timeout: 5_000 })
        return await unread() === 0
      })
      await page.keyboard.press("Escape")
      await gone(panel)
      await node.tell(0, "cut", { seconds: 30 })
      await eventually("the bell", async () => await unread() > 0)
      await button(/^Notifications: \d+ unread/).click()
      const entry = panel.getByRole("listitem").filter({ hasText: "Front door" }).first()
      await entry.getByRole("link", { name: "Camera offline" }).click()
      await page.getByRole("heading", { name: "Front door" }).waitFor()
      assert.match(page.url(), /#\/play\/.*t=\d+/)
      await go("notifications")
      await page.getByText("live", { exact: true }).waitFor()
      await noFaults("notifications")
    })

    it("takes the live channel up again where it broke", () =>
      elsewhere(async (other) => {
        const hellos: Array<string> = []
        const cuts: Array<() => void> = []
        await other.routeWebSocket(/\/notification\/api\/v1\/stream$/, (socket) => {
          const server = socket.connectToServer()
          socket.onMessage((message) => {
            hellos.push(String(message))
            server.send(message)
          })
          cuts.push(() => void socket.close({ code: 1012 }).then(() => server.close()))
        })
        await signIn(other, node.address)
        await go("notifications", other)
        await other.getByText("live", { exact: true }).waitFor()
        assert.notInclude(hellos[0]!, "lastEventId")
        cuts[0]!()
        await other.getByText("live connection interrupted").waitFor()
        await other.getByText("live", { exact: true }).waitFor()
        assert.match(hellos[1]!, /"kind":"hello".*"lastEventId":"/)
      }))

    it("makes an alert rule and tests it: a popup appears", async () => {
      await go("rules")
      await page.getByRole("heading", { name: "No rule yet" }).waitFor()
      await button("Add a rule").click()
      const form = dialog("Add a rule")
      await form.getByRole("textbox", { name: "Name" }).fill("At night")
      await form.getByText("Events of all types").click()
      await form.getByRole("checkbox", { name: /^Camera offline/ }).check()
      await form.getByRole("radio", { name: "At these hours" }).check()
      await form.getByRole("button", { name: /^mon/i }).click()
      const hour = form.getByRole("gridcell", { name: "monday 8 to 9" })
      assert.strictEqual(await hour.getAttribute("aria-selected"), "false")
      await hour.press(" ")
      await hour.press("Shift+ArrowRight")
      assert.strictEqual(await hour.getAttribute("aria-selected"), "true")
      await form.getByRole("checkbox", { name: "The colour of the severity" }).uncheck()
      await noFaults("rule form")
      await button("Add rule").click()
      await gone(form)
      const rule = page.getByRole("article", { name: "At night" })
      await rule.getByText("Camera offline; warnings and worse").waitFor()
      await button(/^Test/, rule).click()
      await dialog("Test of At night").getByText("delivered").waitFor()
      await page.getByRole("log", { name: "Alerts" }).getByText("At night, a test").waitFor()
      await noFaults("popup")
      await button("Done").click()
      await button("Switch off", rule).click()
      await rule.getByText("switched off").waitFor()
      await button("Edit At night").click()
      const again = dialog("Edit At night").getByRole("gridcell", { name: "monday 9 to 10" })
      assert.strictEqual(await again.getAttribute("aria-selected"), "true")
      await page.keyboard.press("Escape")
      await noFaults("rules")
    })

    it("shows by its service worker what Web Push brings", () =>
      elsewhere(async (other) => {
        await other.goto(node.address)
        await other.context().grantPermissions(["notifications"], { origin: node.address })
        const browserSide = await other.context().newCDPSession(other)
        const registrations: Array<string> = []
        browserSide.on("ServiceWorker.workerRegistrationUpdated", (update) => {
          registrations.push(...update.registrations.map(({ registrationId }) => registrationId))
        })
        await browserSide.send("ServiceWorker.enable")
        await other.evaluate(
          "navigator.serviceWorker.register(\"/push-worker.js\").then(() => navigator.serviceWorker.ready)",
        )
        const registrationId = await eventually("the service worker", async () => registrations.at(-1))
        const popup = { title: "Camera offline", text: "Front door", rule: "At night", test: false }
        const event = { id: "one", type: "camera.offline", time: new Date().toISOString(), severity: "critical" }
        const data = JSON.stringify({ popup, event })
        await browserSide.send("ServiceWorker.deliverPushMessage", { origin: node.address, registrationId, data })
        const shown = () =>
          other.evaluate<ReadonlyArray<ReadonlyArray<string>>>(
            "navigator.serviceWorker.ready.then((one) => one.getNotifications()).then((all) => all.map((n) => [n.title, n.body]))",
          )
        const [first] = await eventually("the notification", async () => (await shown()).length > 0 && shown())
        assert.deepStrictEqual(first, ["Camera offline", "Front door\nAt night"])
      }))

    it("finds in the audit log what was done, proves it unchanged and hands it out", async () => {
      await go("audit")
      await button("Verify").click()
      await page.getByRole("heading", { name: "As it was written" }).waitFor()
      // A visit over midnight fills two days.
      await page.getByRole("button", { name: /^\d{4}-\d\d-\d\d: [1-9]\d* entr(y|ies)/ }).first().waitFor()
      await page.getByText("More filters").click()
      await page.getByLabel("Action begins with").fill("users.createUser")
      await button("Search").click()
      await button("users.createUser").first().click()
      const entry = dialog("Entry")
      await entry.getByText("the recorder itself").waitFor()
      await noFaults("audit entry")
      await button("Close", entry).click()
      await noFaults("audit")
      const [file] = await Promise.all([page.waitForEvent("download"), button("CSV").click()])
      const lines = (await readFile(await file.path(), "utf8")).trim().split("\r\n")
      assert.isTrue(lines.slice(1).every((line) => line.includes("users.createUser")) && lines.length > 1)
      await button("Settings").click()
      await dialog("What is recorded").getByLabel("What was refused").waitFor()
      await noFaults("audit settings")
      await page.keyboard.press("Escape")
    })

    it("sets up a second factor and signs in with its code", () =>
      elsewhere(async (other) => {
        await signIn(other, node.address, anna)
        await go("profile", other)
        await other.getByLabel("Display name").fill("Anna E.")
        await button("Save", other).click()
        await other.getByText("Saved.").waitFor()
        assert.deepStrictEqual(await faultsOf(other), [], "profile")
        await button("Set up", other).click()
        const form = other.getByRole("dialog", { name: "Set up a second factor" })
        await form.getByLabel("Your password").fill(anna.password)
        await button("Go on", form).click()
        await form.getByRole("img", { name: "QR code for an authenticator app" }).waitFor()
        await form.getByText("No camera? Write the secret into the app.").click()
        const totp = new TOTP({ secret: await form.getByLabel("Secret", { exact: true }).innerText() })
        assert.deepStrictEqual(await faultsOf(other), [], "enrolment")
        await form.getByLabel(/^One-time code/).fill(totp.generate())
        await button("Confirm", form).click()
        await form.getByText("Keep these recovery codes.").waitFor()
        const codes = await form.getByRole("list", { name: "Recovery codes" }).getByRole("listitem").allInnerTexts()
        assert.strictEqual(codes.length, 10)
        await form.getByLabel("I have kept them").check()
        await button("Done", form).click()
        await other.getByText("10 recovery codes left").waitFor()

        const signInAgain = async (code: string) => {
          await button("Sign out", other).click()
          await other.getByLabel("User name").fill(anna.username)
          await other.getByLabel("Password").fill(anna.password)
          await button("Sign in", other).click()
          await other.getByLabel(/^One-time code/).fill(code)
          await button("Go on", other).click()
          await other.getByRole("heading", { name: "Your profile" }).waitFor()
        }
        // A code is good once: this one is that of the next half minute, which a clock that is a little fast shows already.
        await signInAgain(totp.generate({ timestamp: Date.now() + 30_000 }))
        await signInAgain(codes[0]!)
        await other.getByText("9 recovery codes left").waitFor()
        complaints.splice(0)
      }))

    it("ends another session of one's own, and all of somebody's", async () => {
      await elsewhere(async (other) => {
        await signIn(other, node.address)
        await go("profile")
        const chrome = page.getByRole("listitem").filter({ hasText: "Chrome on Linux" })
        await button("End", chrome.filter({ hasNotText: "this one" })).first().click()
        await other.getByRole("button", { name: "Sign in" }).waitFor()
      })
      await go("users")
      await button(/^\d+ sessions of anna/).click()
      await button("End all sessions").click()
      await dialog("Sessions of anna").getByText("Not signed in anywhere.").waitFor()
      await noFaults("sessions")
      complaints.splice(0)
    })

    it("is as narrow as a telephone", async () => {
      await page.setViewportSize({ width: 360, height: 780 })
      for (
        const where of [
          "users",
          "roles",
          "matrix",
          "groups",
          "security",
          "security/addresses",
          "security/mail",
          "security/key",
          "audit",
          "licence",
          "notifications",
          "rules",
          "profile",
        ]
      ) {
        await go(where)
        await page.getByRole("heading", { level: 1 }).waitFor()
        await page.waitForLoadState("networkidle")
        assert.isAtMost(await page.evaluate(() => document.documentElement.scrollWidth), 360, where)
      }
      await button("More").click()
      await dialog("More pages").getByRole("link", { name: "Licence" }).click()
      await page.getByRole("heading", { name: "Licence" }).waitFor()
      await noFaults("telephone")
      await page.setViewportSize({ width: 1440, height: 900 })
    })

    it("left no complaint in the browser's console", () => {
      assert.deepStrictEqual(complaints, [])
    })
  },
)
