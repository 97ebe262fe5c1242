/** The audit log and one's own account: the second factor, sessions. */
import { assert, it } from "@effect/vitest"
import { readFile } from "node:fs/promises"
import { TOTP } from "otpauth"
import { faultsOf } from "../axe.ts"
import { signIn } from "../node.ts"
import { type Visit } from "./visit.ts"

export const account = (visit: Visit) => {
  const { button, dialog, go, noFaults } = visit

  it("finds in the audit log what was done, proves it unchanged and hands it out", async () => {
    await go("audit")
    await button("Verify").click()
    await visit.page.getByRole("heading", { name: "As it was written" }).waitFor()
    // A visit over midnight fills two days.
    await visit.page.getByRole("button", { name: /^\d{4}-\d\d-\d\d: [1-9]\d* entr(y|ies)/ }).first().waitFor()
    await visit.page.getByText("More filters").click()
    await visit.page.getByLabel("Action begins with").fill("users.createUser")
    await button("Search").click()
    await button("users.createUser").first().click()
    const entry = dialog("Entry")
    await entry.getByText("the recorder itself").waitFor()
    await noFaults("audit entry")
    await button("Close", entry).click()
    await noFaults("audit")
    const [file] = await Promise.all([visit.page.waitForEvent("download"), button("CSV").click()])
    const lines = (await readFile(await file.path(), "utf8")).trim().split("\r\n")
    assert.isTrue(lines.slice(1).every((line) => line.includes("users.createUser")) && lines.length > 1)
    await button("Settings").click()
    await dialog("What is recorded").getByLabel("What was refused").waitFor()
    await noFaults("audit settings")
    await visit.page.keyboard.press("Escape")
  })

  it("sets up a second factor and signs in with its code", () =>
    visit.elsewhere(async (other) => {
      await signIn(other, visit.node.address, visit.anna)
      await go("profile", other)
      await other.getByLabel("Display name").fill("Anna E.")
      await button("Save", other).click()
      await other.getByText("Saved.").waitFor()
      assert.deepStrictEqual(await faultsOf(other), [], "profile")
      await button("Set up", other).click()
      const form = other.getByRole("dialog", { name: "Set up a second factor" })
      await form.getByLabel("Your password").fill(visit.anna.password)
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
        await other.getByLabel("User name").fill(visit.anna.username)
        await other.getByLabel("Password").fill(visit.anna.password)
        await button("Sign in", other).click()
        await other.getByLabel(/^One-time code/).fill(code)
        await button("Go on", other).click()
        await other.getByRole("heading", { name: "Your profile" }).waitFor()
      }
      // A code is good once: this one is that of the next half minute, which a clock that is a little fast shows already.
      await signInAgain(totp.generate({ timestamp: Date.now() + 30_000 }))
      await signInAgain(codes[0]!)
      await other.getByText("9 recovery codes left").waitFor()
      visit.complaints.splice(0)
    }))

  it("ends another session of one's own, and all of somebody's", async () => {
    await visit.elsewhere(async (other) => {
      await signIn(other, visit.node.address)
      await go("profile")
      const chrome = visit.page.getByRole("listitem").filter({ hasText: "Chrome on Linux" })
      await button("End", chrome.filter({ hasNotText: "this one" })).first().click()
      await other.getByRole("button", { name: "Sign in" }).waitFor()
    })
    await go("users")
    await button(/^\d+ sessions of anna/).click()
    await button("End all sessions").click()
    await dialog("Sessions of anna").getByText("Not signed in anywhere.").waitFor()
    await noFaults("sessions")
    visit.complaints.splice(0)
  })
}
