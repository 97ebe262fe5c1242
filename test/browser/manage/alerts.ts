/** What happens: the bell, the live channel, alert rules, Web Push. */
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { eventually, signIn } from "../node.ts"
import { gone, type Visit } from "./visit.ts"

export const alerts = (visit: Visit) => {
  const { button, dialog, go, noFaults } = visit

  it("rings the bell when a camera fails, live", async () => {
    await go("live")
    const bell = button(/^Notifications:/)
    const unread = async () => Number(/\d+/.exec(await bell.getAttribute("aria-label") ?? "")?.[0] ?? 0)
    const listed = async () =>
      (await Effect.runPromise(visit.node.client.notification.notifications({ query: {} }))).items
    await bell.click()
    const panel = dialog("Notifications")
    await noFaults("bell")
    await eventually("the locked account of before", async () => await unread() > 0)
    const before = new Set((await listed()).map(({ id }) => id))
    await button("Mark all as read", panel).click()
    // What rings after the click is unread by right, and the bell says so.
    await eventually("everything read", async () => {
      const open = (await listed()).filter(({ read }) => !read)
      return open.every(({ id }) => !before.has(id)) && await unread() === open.length
    })
    await visit.page.keyboard.press("Escape")
    await gone(panel)
    await visit.node.tell(0, "cut", { seconds: 30 })
    await eventually("the bell", async () => await unread() > 0)
    await bell.click()
    const entry = panel.getByRole("listitem").filter({ hasText: "Front door" }).first()
    await entry.getByRole("link", { name: "Camera offline" }).click()
    await visit.page.getByRole("heading", { name: "Front door" }).waitFor()
    assert.match(visit.page.url(), /#\/play\/.*t=\d+/)
    await go("notifications")
    await visit.page.getByText("live", { exact: true }).waitFor()
    await noFaults("notifications")
  })

  it("takes the live channel up again where it broke", () =>
    visit.elsewhere(async (other) => {
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
      await signIn(other, visit.node.address)
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
    await visit.page.getByRole("heading", { name: "No rule yet" }).waitFor()
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
    const rule = visit.page.getByRole("article", { name: "At night" })
    await rule.getByText("Camera offline; warnings and worse").waitFor()
    await button(/^Test/, rule).click()
    await dialog("Test of At night").getByText("delivered").waitFor()
    await visit.page.getByRole("log", { name: "Alerts" }).getByText("At night, a test").waitFor()
    await noFaults("popup")
    await button("Done").click()
    await button("Switch off", rule).click()
    await rule.getByText("switched off").waitFor()
    await button("Edit At night").click()
    const again = dialog("Edit At night").getByRole("gridcell", { name: "monday 9 to 10" })
    assert.strictEqual(await again.getAttribute("aria-selected"), "true")
    await visit.page.keyboard.press("Escape")
    await noFaults("rules")
  })

  it("shows by its service worker what Web Push brings", () =>
    visit.elsewhereWhole(async (other) => {
      await other.goto(visit.node.address)
      await other.context().grantPermissions(["notifications"], { origin: visit.node.address })
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
      await browserSide.send("ServiceWorker.deliverPushMessage", { origin: visit.node.address, registrationId, data })
      const shown = () =>
        other.evaluate<ReadonlyArray<ReadonlyArray<string>>>(
          "navigator.serviceWorker.ready.then((one) => one.getNotifications()).then((all) => all.map((n) => [n.title, n.body]))",
        )
      const [first] = await eventually("the notification", async () => (await shown()).length > 0 && shown())
      assert.deepStrictEqual(first, ["Camera offline", "Front door\nAt night"])
    }))
}
