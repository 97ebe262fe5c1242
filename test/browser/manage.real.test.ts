/**
 * The dashboard's pages that manage, in Debian's Chromium, on one node with simulated cameras: one visit, in order, from the first
 * user to the second factor.
 */
import { assert, describe, it } from "@effect/vitest"
import { withoutChromium } from "../harness/chromium.ts"
import { account } from "./manage/account.ts"
import { alerts } from "./manage/alerts.ts"
import { people } from "./manage/people.ts"
import { settings } from "./manage/settings.ts"
import { startVisit } from "./manage/visit.ts"

describe.skipIf(withoutChromium)(
  `managing in the dashboard${withoutChromium && ` (skipped: ${withoutChromium})`}`,
  () => {
    const visit = startVisit()
    const { button, dialog, go, noFaults } = visit

    people(visit)
    settings(visit)
    alerts(visit)
    account(visit)

    it("is as narrow as a telephone", async () => {
      await visit.page.setViewportSize({ width: 360, height: 780 })
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
        await visit.page.getByRole("heading", { level: 1 }).waitFor()
        await visit.page.waitForLoadState("networkidle")
        assert.isAtMost(await visit.page.evaluate(() => document.documentElement.scrollWidth), 360, where)
      }
      await button("More").click()
      await dialog("More pages").getByRole("link", { name: "Licence" }).click()
      await visit.page.getByRole("heading", { name: "Licence" }).waitFor()
      await noFaults("telephone")
      await visit.page.setViewportSize({ width: 1440, height: 900 })
    })

    it("left no complaint in the browser's console", () => {
      assert.deepStrictEqual(visit.complaints, [])
    })
  },
)
