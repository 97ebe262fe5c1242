#!/usr/bin/env node
/** `nightjar`: runs the command line on the Node that the project brought, whatever Node started this file. */
import { spawn, spawnSync } from "node:child_process"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"

const root = join(dirname(fileURLToPath(import.meta.url)), "..", "..")
const prepared = spawnSync(process.execPath, [join(root, "ops", "deploy", "prepare.mjs")], { stdio: "inherit" })
if (prepared.status !== 0) process.exit(prepared.status ?? 1)
const node = join(root, "node_modules", ".bin", "node")
// A node starts with a third less work where what was compiled is kept.
const env = { NODE_COMPILE_CACHE: join(root, "node_modules", ".cache", "node"), ...process.env }
const child = spawn(node, [join(root, "ops", "main.ts"), ...process.argv.slice(2)], { stdio: "inherit", env })
// A terminal's Ctrl-C reaches both; the child ends in its own time and this process with it.
process.on("SIGINT", () => undefined)
process.on("SIGTERM", () => child.kill("SIGTERM"))
child.on("exit", (code, signal) => process.exit(code ?? (signal === "SIGINT" ? 130 : 143)))
