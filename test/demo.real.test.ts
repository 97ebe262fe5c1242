/**
 * The demo of several nodes, as a person runs it: `npm run demo -- --nodes 3`, with a folder of its own.
 *
 * Invariants
 * 1. Everything is asked over HTTPS, with each node's own certificate as the only one that is trusted.
 * 2. Whatever the test finds, nothing that the demo started is left.
 */
import { afterAll, assert, beforeAll, it } from "@effect/vitest"
import { type ChildProcess, spawn } from "node:child_process"
import { globSync, mkdtempSync, readFileSync, readlinkSync, rmSync } from "node:fs"
import { request } from "node:https"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { freePort, sleep } from "./harness/node-process.ts"

const root = path.join(import.meta.dirname, "..")
/** The machine may be busy with other tests. */
const patienceMs = 150_000

interface Items<A> {
  readonly items: ReadonlyArray<A>
}
interface DemoNode {
  readonly nodeId: string
  readonly name: string
  readonly address: string
  readonly running: boolean
}
interface Reroute {
  readonly homeNodeId: string
  readonly state: string
  readonly gapMs: number | null
  readonly channels: ReadonlyArray<string>
}

const failover = "/federation/api/v1/federation/failover"
const demoNodes = "/federation/api/v1/demo/nodes"

let folder: string
let demo: ChildProcess
let said = ""

const until = async <A>(what: string, look: () => Promise<A>, holds: (value: A) => boolean): Promise<A> => {
  const end = performance.now() + patienceMs
  let last = "nothing was answered"
  while (performance.now() < end) {
    try {
      const value = await look()
      if (holds(value)) return value
      last = JSON.stringify(value)
    } catch (error) {
      last = String(error)
    }
    await sleep(1_000)
  }
  throw new Error(`it never came: ${what}; last: ${last.slice(0, 1_000)}; the demo said:\n${said}`)
}

interface Asked {
  readonly address: string
  readonly ca: string
  readonly method: string
  readonly where: string
  readonly token: string
  readonly body?: unknown
}

const ask = ({ address, body, ca, method, token, where }: Asked): Promise<{ status: number; body: unknown }> =>
  new Promise((resolve, reject) => {
    const sent = request(`${address}${where}`, {
      method,
      ca,
      agent: false,
      timeout: 15_000,
      headers: {
        authorization: `Bearer ${token}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
    }, (answer) => {
      const parts: Array<Buffer> = []
      answer.on("data", (part: Buffer) => parts.push(part))
      answer.once("error", reject)
      answer.once("end", () => {
        const text = Buffer.concat(parts).toString()
        resolve({ status: answer.statusCode ?? 0, body: text === "" ? null : JSON.parse(text) as unknown })
      })
    })
    sent.once("timeout", () => sent.destroy(new Error("no answer")))
    sent.once("error", reject)
    sent.end(body === undefined ? undefined : JSON.stringify(body))
  })

interface Signed {
  readonly call: <A>(method: string, where: string) => Promise<A>
  readonly status: (method: string, where: string) => Promise<number>
}

/** The administrator of a node of the demo, by its letter. */
const signedIn = async (address: string, letter: string, password: string): Promise<Signed> => {
  const ca = readFileSync(path.join(folder, letter, "tls", "certificate.pem"), "utf8")
  const login = { username: "admin", password, cookie: false }
  const { body } = await ask({ address, ca, method: "POST", where: "/auth/api/v1/auth/login", token: "", body: login })
  const { accessToken: token } = body as { accessToken: string }
  return {
    status: async (method, where) => (await ask({ address, ca, method, where, token })).status,
    call: async <A>(method: string, where: string) => {
      const answer = await ask({ address, ca, method, where, token })
      if (answer.status >= 300) throw new Error(`${method} ${where}: ${answer.status} ${JSON.stringify(answer.body)}`)
      return answer.body as A
    },
  }
}

/** Processes that name the folder, or run in it: nodes, their children, their databases. */
const left = (): ReadonlyArray<string> =>
  globSync("/proc/[0-9]*").flatMap((process) => {
    try {
      const about = readFileSync(`${process}/environ`, "utf8") + readFileSync(`${process}/cmdline`, "utf8") +
        readlinkSync(`${process}/cwd`)
      return about.includes(folder) ? [`${process} ${readFileSync(`${process}/cmdline`, "utf8")}`] : []
    } catch {
      // Gone meanwhile, or not ours to look at.
      return []
    }
  })

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), "nightjar-demo-"))
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith("NIGHTJAR_"))
  demo = spawn(process.execPath, ["ops/demo.ts", "--nodes", "3", "--data", folder], {
    cwd: root,
    stdio: ["ignore", "pipe", "pipe"],
    env: {
      ...Object.fromEntries(inherited),
      NIGHTJAR_HTTP_PORT: String(await freePort()),
    },
  })
  for (const stream of [demo.stdout, demo.stderr]) {
    stream?.on("data", (chunk: Buffer) => {
      said += chunk.toString()
    })
  }
})

afterAll(async () => {
  demo.kill("SIGINT")
  await until("the end of the demo", () => Promise.resolve(left()), (some) => some.length === 0)
  rmSync(folder, { recursive: true, force: true })
}, patienceMs)

it(
  "three nodes guard each other; one is killed and served by its guardian, comes back, and all end together",
  async () => {
    await until("all nodes", () => Promise.resolve(said), (text) => text.includes("Ctrl-C stops it"))
    const addresses = [...said.matchAll(/Node ([A-C]) +(https:\/\/\S+) +guarded by Node ([A-C])/g)]
    assert.deepStrictEqual(addresses.map(([, node, , guardian]) => `${node}${guardian}`), ["AB", "BC", "CA"])
    const password = /password +(\S+)/.exec(said)?.[1] ?? ""
    const [homeAddress = "", guardAddress = ""] = addresses.map(([, , address]) => address)
    const home = await signedIn(homeAddress, "a", password)
    const guard = await signedIn(guardAddress, "b", password)

    const { items: nodes } = await guard.call<Items<DemoNode>>("GET", demoNodes)
    assert.deepStrictEqual(nodes.map(({ name, running }) => [name, running]), [
      ["Node A", true],
      ["Node B", true],
      ["Node C", true],
    ])
    const nodeId = nodes[0]?.nodeId ?? ""
    assert.strictEqual(await guard.status("POST", `${demoNodes}/${nodeId}/start`), 409)
    const { items: protections } = await until("a protection that is ready", () =>
      guard.call<Items<{ nodeId: string; state: string }>>("GET", `${failover}/protections`), ({ items }) =>
      items.some(({ state }) => state === "protected"))
    assert.deepStrictEqual(
      protections.map((one) => one.nodeId),
      [nodeId],
    )

    // By its own dashboard: the answer comes before the end.
    assert.strictEqual(await home.status("POST", `${demoNodes}/${nodeId}/kill`), 204)
    const reroutes = () => guard.call<Items<Reroute>>("GET", `${failover}/reroutes`)
    const { items: [taken] } = await until("a takeover with its gap", reroutes, ({ items }) =>
      items.some(({ gapMs }) => gapMs !== null))
    assert.strictEqual(taken?.homeNodeId, nodeId)
    assert.strictEqual(taken?.channels.length, 2)
    assert.strictEqual(await guard.status("POST", `${demoNodes}/${nodeId}/kill`), 409)

    assert.strictEqual(await guard.status("POST", `${demoNodes}/${nodeId}/start`), 204)
    await until("the way back", reroutes, ({ items }) =>
      items.some(({ state }) =>
        state === "recordingBack" || state === "done"
      ))

    // Killed once more, so that Ctrl-C finds a database whose node is gone.
    assert.strictEqual(await guard.status("POST", `${demoNodes}/${nodeId}/kill`), 204)
    await until("its death", () =>
      guard.call<Items<DemoNode>>("GET", demoNodes), ({ items }) =>
      items[0]?.running === false)
    demo.kill("SIGINT")
    await until("that nothing is left", () =>
      Promise.resolve(left()), (some) =>
      some.length === 0)
    await until("the end of the demo itself", () =>
      Promise.resolve(demo.exitCode), (code) =>
      code !== null)
    assert.strictEqual(demo.exitCode, 0)
  },
  600_000,
)
