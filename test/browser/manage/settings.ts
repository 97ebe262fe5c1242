/** Settings: management addresses, mail, the master key, the licence. */
import { it } from "@effect/vitest"
import { Effect } from "effect"
import { readFile } from "node:fs/promises"
import { claims, sign } from "../../license-vendor.ts"
import { eventually } from "../node.ts"
import { gone, type Visit } from "./visit.ts"

export const settings = (visit: Visit) => {
  const { button, dialog, go, noFaults } = visit

  it("lists management addresses, and tells a mail server that does not answer", async () => {
    await go("security/addresses")
    await visit.page.getByText("You may administer from here").waitFor()
    await button("Add an address").click()
    const form = dialog("Add a management address")
    await form.getByLabel("Name").fill("Control room")
    await form.getByLabel(/^Address or network/).fill("192.0.2.0/24")
    await button("Save").click()
    await visit.page.getByRole("row", { name: /192\.0\.2\.0\/24/ }).getByText("in force").waitFor()
    await noFaults("addresses")
    await button("Delete Control room").click()
    await button("Remove").click()
    await visit.page.getByRole("heading", { name: "No restriction" }).waitFor()

    await go("security/mail")
    await visit.page.getByLabel("Server", { exact: true }).fill("127.0.0.1")
    await visit.page.getByRole("spinbutton", { name: "Port" }).fill("1")
    await visit.page.getByLabel("Sender").fill("nightjar@example.org")
    await button("Test").click()
    await visit.page.getByRole("status").getByText("No connection").waitFor()
    await noFaults("mail")
  })

  it("renews the master key", async () => {
    await go("security/key")
    const key = visit.page.locator("dl .mono").first()
    const before = await key.innerText()
    await button("Renew the key").click()
    await button("Renew").click()
    await eventually("another key", async () => await key.innerText() !== before)
    await visit.page.getByText("Every secret is sealed anew.").waitFor()
    await noFaults("master key")
  })

  it("activates a licence by its text", async () => {
    await go("licence")
    await visit.page.getByText("no licence", { exact: true }).waitFor()
    await noFaults("no licence")
    const [file] = await Promise.all([visit.page.waitForEvent("download"), button("Request file").click()])
    const request = JSON.parse(await readFile(await file.path(), "utf8")) as { readonly hardwareId: string }
    await button("Activate a licence").click()
    const form = dialog("Activate a licence")
    await form.getByLabel(/^Licence/).fill("a.forged.licence")
    await button("Activate").click()
    await form.getByRole("alert").waitFor()
    visit.complaints.splice(0)
    const text = await Effect.runPromise(
      sign(visit.vendor, claims(Date.now(), { hardwareId: request.hardwareId, sessions: 50 })),
    )
    await form.getByLabel(/^Licence/).fill(text)
    await noFaults("licence form")
    await button("Activate").click()
    await gone(form)
    await visit.page.getByText("valid", { exact: true }).waitFor()
    await visit.page.getByText("Example Ltd.").waitFor()
    await visit.page.getByText("2 of 10").waitFor()
    await noFaults("licence")
  })
}
