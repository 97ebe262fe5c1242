/**
 * `npm test`: what the tests need, the check, the rings; the closing line counts them. Fails if any part fails.
 * Arguments go to vitest (`npm test -- test/record.test.ts`), and the check is left out then.
 *
 * The check runs beside the rest with what that leaves of the processor: it waits for packages, timers and processes much of the time.
 */
import { Effect } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { constants, setPriority, tmpdir } from "node:os"
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
const succeeds = (child: ChildProcess): Promise<boolean> =>
  new Promise((resolve) => {
    child.once("error", () => resolve(false))
    child.once("close", (code) => resolve(code === 0))
  })
const check = (): Promise<boolean> => {
  const child = spawn(process.execPath, ["ops/lint/check.ts"], { stdio: "inherit" })
  if (child.pid !== undefined) setPriority(child.pid, constants.priority.PRIORITY_LOW)
  return succeeds(child)
}

const checking = selection.length > 0 ? Promise.resolve(true) : check()
// The dashboard once, and before anybody looks at it: nodes that start side by side would each build it under the others' browsers.
await Promise.all([installTestPackages(), Effect.runPromise(buildDashboard)])

const folder = mkdtempSync(join(tmpdir(), "nightjar-test-"))
const file = join(folder, "report.json")
const ran = await succeeds(spawn("vitest", [
  "run",
  "--config",
  "ops/vitest.config.ts",
  "--reporter=default",
  "--reporter=json",
  `--outputFile.json=${file}`,
  ...selection,
], { stdio: "inherit" }))
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
process.exitCode = await checking && ran && failed + broken === 0 && passed > 0 ? 0 : 1
