/**
 * `npm run check`: types with Effect's diagnostics, lint, format, dead code. Runs them side by side, prints each one's output whole,
 * and fails if any does.
 */
import { execFileSync, spawn } from "node:child_process"

const compiler = execFileSync("effect-tsgo", ["get-exe-path"], { encoding: "utf8" }).trim()

const checks: ReadonlyArray<readonly [name: string, command: string, args: ReadonlyArray<string>]> = [
  // The compiler that also knows Effect: one look for both. Each checker more does some of the others' work again: a second one costs a
  // third more of the processor.
  ["types", compiler, ["-p", ".", "--noEmit", "--incremental", "false", "--checkers", "1", "--pretty", "false"]],
  ["lint", "oxlint", ["-c", ".oxlintrc.json", "--type-aware", "--deny-warnings"]],
  ["format", "dprint", ["check", "--config", ".dprint.json"]],
  ["dead code", "knip", ["--config", ".knip.json", "--no-progress"]],
]

const run = ([name, command, args]: (typeof checks)[number]): Promise<boolean> =>
  new Promise((resolve) => {
    // The compiler is a Go program: collected less often it needs a quarter less of the processor, and under 2 GiB all the same.
    const env = command === compiler ? { GOGC: "300", GOMEMLIMIT: "3GiB", ...process.env } : process.env
    const child = spawn(command, [...args], { stdio: ["ignore", "pipe", "pipe"], env })
    const output: Array<Buffer> = []
    child.stdout.on("data", (chunk: Buffer) => output.push(chunk))
    child.stderr.on("data", (chunk: Buffer) => output.push(chunk))
    child.once("error", (error) => output.push(Buffer.from(String(error))))
    child.once("close", (code) => {
      console.log(`${code === 0 ? "ok  " : "FAIL"} ${name}`)
      if (code !== 0) console.log(Buffer.concat(output).toString())
      resolve(code === 0)
    })
  })

const results = await Promise.all(checks.map(run))
process.exitCode = results.every(Boolean) ? 0 : 1
