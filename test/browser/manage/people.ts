/** People: groups, roles, users, the matrix of permissions, locked accounts. */
import { assert, it } from "@effect/vitest"
import { eventually } from "../node.ts"
import { gone, type Visit } from "./visit.ts"

export const people = (visit: Visit) => {
  const { button, dialog, go, noFaults } = visit

  it("groups a camera", async () => {
    await go("groups")
    await visit.page.getByRole("heading", { name: "No resource group yet" }).waitFor()
    await noFaults("no group")
    await button("Add a group").click()
    await dialog("Add a resource group").getByLabel("Name").fill("Entrances")
    await button("Add group").click()
    await button("Choose cameras of Entrances").click()
    await dialog("Entrances").getByRole("checkbox", { name: "Front door" }).first().check()
    await noFaults("members")
    await button("Save").click()
    await visit.page.getByRole("row", { name: /Entrances/ }).getByText("1 resource").waitFor()
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
    const card = visit.page.getByRole("article", { name: "guard" })
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
    visit.anna.password = await form.getByLabel("First password", { exact: true }).innerText()
    assert.isAtLeast(visit.anna.password.length, 10)
    await button("Done").click()
    const row = visit.page.getByRole("row", { name: /anna/ })
    await row.getByText("must change the password").waitFor()
    assert.notInclude(await visit.page.content(), visit.anna.password)
    await noFaults("users")
  })

  it("asks the new user for another password, then shows only what he may see", () =>
    visit.elsewhere(async (other) => {
      await other.goto(visit.node.address)
      await other.getByLabel("User name").fill(visit.anna.username)
      await other.getByLabel("Password").fill(visit.anna.password)
      await button("Sign in", other).click()
      await other.getByText("Choose a new password, Anna Example.").waitFor()
      await other.getByLabel(/^New password(?!,)/).fill("password-anna")
      await other.getByLabel(/^New password, once more/).fill("password-anna")
      await button("Go on", other).click()
      await other.getByRole("alert").getByText("it contains the name of its user").waitFor()
      assert.strictEqual(visit.complaints.splice(0).length, 1, "the refused password")
      visit.anna.password = "a-lantern-by-the-harbour"
      await other.getByLabel(/^New password(?!,)/).fill(visit.anna.password)
      await other.getByLabel(/^New password, once more/).fill(visit.anna.password)
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
    const cell = (name: RegExp) => visit.page.getByRole("gridcell", { name })
    await cell(/^anna, camera:read: for some\./).waitFor()
    await cell(/^admin, user:write: yes\. Granted by admin/).waitFor()
    await visit.page.getByLabel("With").selectOption({ label: "Loading bay" })
    await cell(/^anna, camera:read: no\. .*no resource group/).waitFor()
    await visit.page.getByLabel("With").selectOption({ label: "Front door" })
    const allowed = cell(/^anna, camera:read: yes\. Granted by guard/)
    await allowed.focus()
    await visit.page.getByRole("status").getByText("anna may camera:read with Front door: Granted by guard").waitFor()
    await visit.page.keyboard.press("ArrowRight")
    await visit.page.getByRole("status").getByText("anna may not camera:write").waitFor()
    await noFaults("matrix")
  })

  it("changes rules, locks an account by them and unlocks it", async () => {
    await go("security")
    await visit.page.getByLabel(/^Failures of an account/).fill("1")
    await visit.page.getByLabel(/^First wait/).fill("600")
    await button("Save").click()
    await visit.page.getByText("Saved. Holds from the next sign-in on.").waitFor()
    await noFaults("security")
    await go("security/locked")
    await visit.page.getByRole("heading", { name: "No account has to wait" }).waitFor()
    await visit.elsewhere(async (other) => {
      await other.goto(visit.node.address)
      await other.getByLabel("User name").fill(visit.anna.username)
      for (const attempt of ["wrong", "wrong again", visit.anna.password]) {
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
    visit.complaints.splice(0)
  })
}
