/**
 * Makes a fresh `npm ci` ready to run; quick when it already is. Every npm script that starts something calls it.
 *
 * 1. `npm ci` runs no install script of any package (`.npmrc`): what is needed is done here, in the open.
 * 2. nanomsg is a native addon and must be built against the headers of the Node that runs it, the one npm brought, not
 *    against the system's (which loads as "Module did not self-register"). node-gyp comes with npm.
 * 3. Without a compiler, root on a Debian gets one by apt-get; anybody else is told how. A node runs without nanomsg: it only
 *    carries hints between the nodes of a cluster.
 *
 * 4. The Node that npm brought needs libatomic, which a bare Debian does not have: it is installed the same way, and without
 *    it nothing can run.
 * 5. What a node runs is bundled, so that it starts with half the work; without the bundle it runs from its sources.
 *
 * Plain JavaScript that Node 18 can run: it is the system's Node that starts it (`npm_node_execpath`).
 */
import { spawnSync } from "node:child_process"
import { existsSync } from "node:fs"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"

const root = join(dirname(fileURLToPath(import.meta.url)), "..", "..")
const modules = join(root, "node_modules")
const names = [`node-${process.platform}-${process.arch}`, `node-bin-${process.platform}-${process.arch}`]
const home = names.map((name) => join(modules, name)).find((folder) => existsSync(join(folder, "bin", "node")))

const run = (command, args, options = {}) => spawnSync(command, args, { cwd: root, encoding: "utf8", ...options })

if (!home) {
  console.error(`prepare: none of ${names.join(", ")} is installed. Run npm ci; this platform may not be supported.`)
  process.exit(1)
}
const node = join(home, "bin", "node")
const loads = () => run(node, ["-e", "require('nanomsg').socket('pub').close()"]).status === 0
const has = (tool) => run("sh", ["-c", "command -v \"$0\"", tool]).status === 0

/** Installs Debian packages where that is allowed; says what to install where it is not. */
const install = (packages, why) => {
  const wanted = packages.join(" ")
  const isRoot = process.getuid?.() === 0
  if (!isRoot || !has("apt-get")) {
    console.error(`prepare: ${why} needs ${wanted} (Debian: apt-get install ${wanted})`)
    return false
  }
  console.error(`prepare: installing ${wanted} (apt-get): ${why} needs it`)
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" }
  run("apt-get", ["update", "-qq"], { env })
  return run("apt-get", ["install", "-y", "-qq", "--no-install-recommends", ...packages], { env }).status === 0
}

const nodeGyp = () =>
  [
    process.env.npm_config_node_gyp,
    process.env.npm_execpath &&
    join(dirname(process.env.npm_execpath), "..", "node_modules", "node-gyp", "bin", "node-gyp.js"),
    "/usr/lib/node_modules/npm/node_modules/node-gyp/bin/node-gyp.js",
  ].find((path) => path && existsSync(path))

const buildNanomsg = () => {
  const gyp = nodeGyp()
  if (!gyp) {
    console.error("prepare: node-gyp was not found; call this through npm (npm start). Going on without nanomsg.")
    return
  }
  if (!["g++", "make", "python3"].every(has) && !install(["g++", "make", "python3"], "building nanomsg")) {
    console.error("prepare: going on without nanomsg")
    return
  }
  // node-gyp lets npm_config_* override its own flags, so a nodedir of the user's is replaced in the environment.
  const env = { ...process.env, npm_config_nodedir: home }
  for (const key of Object.keys(env)) if (/^npm_config_(target|disturl|runtime|arch)$/i.test(key)) delete env[key]
  console.error("prepare: building nanomsg against Node", run(node, ["-v"]).stdout.trim())
  const built = run(node, [gyp, "rebuild", "--silent"], { cwd: join(modules, "nanomsg"), env })
  if (!loads()) {
    console.error(`prepare: nanomsg did not build; going on without it.\n${built.stderr?.slice(-2000) ?? ""}`)
  }
}

const starts = () => run(node, ["-e", ""]).status === 0
if (!starts() && !(process.platform === "linux" && install(["libatomic1"], "Node 26") && starts())) {
  console.error(`prepare: ${node} does not start: ${run(node, ["-e", ""]).stderr?.trim()}`)
  process.exit(1)
}
if (existsSync(join(modules, "nanomsg")) && !loads()) buildNanomsg()
const bundled = run(node, [join("ops", "deploy", "bundle.ts")])
if (bundled.status !== 0) {
  console.error(`prepare: there is no bundle; going on from the sources.\n${bundled.stderr?.slice(-2000) ?? ""}`)
}
