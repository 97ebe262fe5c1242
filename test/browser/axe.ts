/** Faults of accessibility that axe finds on a page, in both themes. */
import { readFile } from "node:fs/promises"
import type { Page } from "playwright-core"

const axeSource = new URL("../../node_modules/axe-core/axe.min.js", import.meta.url)

interface Finding {
  readonly id: string
  readonly impact: string
  readonly nodes: ReadonlyArray<{ readonly html: string }>
}

/** Serious and critical ones. */
export const faultsOf = async (page: Page): Promise<ReadonlyArray<string>> => {
  const source = await readFile(axeSource, "utf8")
  const found: Array<string> = []
  for (const colorScheme of ["dark", "light"] as const) {
    await page.emulateMedia({ colorScheme })
    await page.evaluate(source)
    const violations = await page.evaluate<ReadonlyArray<Finding>>("axe.run().then((result) => result.violations)")
    for (const { id, impact, nodes } of violations) {
      if (impact === "serious" || impact === "critical") found.push(`${colorScheme} ${id}: ${nodes[0]?.html}`)
    }
  }
  return found
}
