/**
 * `npm test`: what the tests need, the check, the rings; the closing line counts them. Fails if any part fails.
 * Arguments go to vitest (`npm test -- test/record.test.ts`), and the check is left out then.
 */
import { Effect } from "effect"
import { spawnSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { buildDashboard } from "../dashboard.ts"
import { installTestPackages } from "./test-packages.ts"

interface Assertion {
  readonly status: "passed" | "failed" | "skipped" | "pending" | "todo" | "disabled"
  readonly fullName: string
}

interface Report {
  readonly testResults: ReadonlyArray<
    { readonly name: string; readonly status: string; readonly assertionResults: ReadonlyArray<Assertion> }
  >
}

const selection = process.argv.slice(2)
const node = (script: string): boolean => spawnSync(process.execPath, [script], { stdio: "inherit" }).status === 0

installTestPackages()
// Once, and before anybody looks at it: nodes that start side by side would each build it under the others' browsers.
await Effect.runPromise(buildDashboard)
const checked = selection.length > 0 || node("ops/lint/check.ts")

const folder = mkdtempSync(join(tmpdir(), "nightjar-test-"))
const file = join(folder, "report.json")
const ran = spawnSync("vitest", [
  "run",
  "--config",
  "ops/vitest.config.ts",
  "--reporter=default",
  "--reporter=json",
  `--outputFile.json=${file}`,
  ...selection,
], { stdio: "inherit" })
const report = JSON.parse(readFileSync(file, "utf8")) as Report
rmSync(folder, { recursive: true, force: true })

const assertions = report.testResults.flatMap((one) => one.assertionResults)
const passed = assertions.filter((one) => one.status === "passed").length
const failed = assertions.filter((one) => one.status === "failed").length
// A file that fails before its first test has no assertions of its own.
const broken = report.testResults.filter((one) => one.status === "failed" && one.assertionResults.length === 0).length
const skipped = assertions.filter((one) => one.status !== "passed" && one.status !== "failed")
for (const one of skipped) console.log(`skipped: ${one.fullName}`)
console.log(`${passed} passed, ${failed + broken} failed, ${skipped.length} skipped`)
process.exitCode = checked && ran.status === 0 && failed + broken === 0 && passed > 0 ? 0 : 1
