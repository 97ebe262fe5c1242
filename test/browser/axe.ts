/** Faults of accessibility that axe finds on a page, in both themes. */
import { readFile } from "node:fs/promises"
import type { Page } from "playwright-core"

const source = () => readFile(new URL("../../node_modules/axe-core/axe.min.js", import.meta.url), "utf8")

interface Finding {
  readonly id: string
  readonly impact: string
  readonly nodes: ReadonlyArray<{ readonly html: string }>
}

/** Whatever depends on the theme: colours. The rest of a page is the same in both. */
const colours = { type: "rule", values: ["color-contrast", "link-in-text-block"] }

/** Serious and critical ones. */
export const faultsOf = async (page: Page): Promise<ReadonlyArray<string>> => {
  // Half a megabyte of script: read once a document.
  if (!(await page.evaluate<boolean>("'axe' in window"))) await page.evaluate(await source())
  const found: Array<string> = []
  for (const [colorScheme, runOnly] of [["dark", undefined], ["light", colours]] as const) {
    await page.emulateMedia({ colorScheme })
    const options = JSON.stringify({ resultTypes: ["violations"], runOnly })
    const violations = await page.evaluate<ReadonlyArray<Finding>>(
      `axe.run(document, ${options}).then((result) => result.violations)`,
    )
    for (const { id, impact, nodes } of violations) {
      if (impact === "serious" || impact === "critical") found.push(`${colorScheme} ${id}: ${nodes[0]?.html}`)
    }
  }
  return found
}
