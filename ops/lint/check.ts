/**
 * `npm run check`: types with Effect's diagnostics, lint, format, dead code. Runs them side by side, prints each one's output whole,
 * and fails if any does.
 */
import { execFileSync, spawn } from "node:child_process"

const compiler = execFileSync("effect-tsgo", ["get-exe-path"], { encoding: "utf8" }).trim()

const checks: ReadonlyArray<readonly [name: string, command: string, args: ReadonlyArray<string>]> = [
  // The compiler that also knows Effect: one look for both. Each checker more does some of the others' work again.
  ["types", compiler, ["-p", ".", "--noEmit", "--incremental", "false", "--checkers", "2", "--pretty", "false"]],
  ["lint", "oxlint", ["-c", ".oxlintrc.json", "--type-aware", "--deny-warnings"]],
  ["format", "dprint", ["check", "--config", ".dprint.json"]],
  ["dead code", "knip", ["--config", ".knip.json", "--no-progress"]],
]

const run = ([name, command, args]: (typeof checks)[number]): Promise<boolean> =>
  new Promise((resolve) => {
    const child = spawn(command, [...args], { stdio: ["ignore", "pipe", "pipe"] })
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
