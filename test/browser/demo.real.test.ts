/**
 * The demo of several nodes, as a person runs and sees it: `npm run demo -- --nodes 3`, with a folder of its own.
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
import type { Browser, Page } from "playwright-core"
import { launchChromium, withoutChromium } from "../harness/chromium.ts"
import { freePort, sleep } from "../harness/node-process.ts"
import { faultsOf } from "./axe.ts"
import { signIn } from "./node.ts"

const root = path.join(import.meta.dirname, "../..")
/** The machine may be busy with other tests. */
const patienceMs = 150_000
/** Of the simulated cameras; a group of pictures is a second. */
const picturesPerSecond = 25

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

interface Span {
  readonly start: string
  readonly end: string
  readonly holderNodeId: string
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
  readonly call: <A>(method: string, where: string, body?: unknown) => Promise<A>
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
    call: async <A>(method: string, where: string, sent?: unknown) => {
      const answer = await ask({ address, ca, method, where, token, body: sent })
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

const reroutesOf = (guard: Signed) => guard.call<Items<Reroute>>("GET", `${failover}/reroutes`)

/** What a page tells of its video, and what it has of it. */
interface Watched {
  /** At each picture that was shown: its place in the footage, seconds, and how many were decoded by then. */
  readonly shown: ReadonlyArray<readonly [at: number, decoded: number]>
  readonly buffered: ReadonlyArray<readonly [number, number]>
  readonly moment: number
  readonly failed: boolean
}

const watching = `(() => {
  const video = document.querySelector("video")
  const shown = []
  const next = (_now, { mediaTime }) => {
    shown.push([mediaTime, video.getVideoPlaybackQuality().totalVideoFrames])
    video.requestVideoFrameCallback(next)
  }
  video.requestVideoFrameCallback(next)
  window.watched = () => ({
    shown,
    buffered: Array.from({ length: video.buffered.length }, (_, i) => [video.buffered.start(i), video.buffered.end(i)]),
    moment: Number(document.querySelector(".timeline").getAttribute("aria-valuenow")),
    failed: document.querySelector(".failure") !== null,
  })
})()`

/** Signed in at a node of the demo; its certificate is its own. */
const open = async (browser: Browser, address: string, password: string): Promise<Page> => {
  const viewport = { width: 1280, height: 900 }
  const context = await browser.newContext({ ignoreHTTPSErrors: true, viewport, locale: "en-US" })
  const page = await context.newPage()
  page.setDefaultTimeout(patienceMs)
  await signIn(page, address, { username: "admin", password })
  return page
}

const withBrowser = async (use: (browser: Browser) => Promise<void>): Promise<void> => {
  const browser = await launchChromium()
  try {
    await use(browser)
  } finally {
    await browser.close()
  }
}

/** Nothing stands out of a telephone's screen. */
const fits = async (page: Page, where: string): Promise<void> => {
  await page.setViewportSize({ width: 360, height: 780 })
  assert.isAtMost(await page.evaluate(() => document.documentElement.scrollWidth), 360, where)
  await page.setViewportSize({ width: 1280, height: 900 })
}

/** Where one node's footage ends and the other's begins. */
const seamOf = async (guard: Signed, token: string) => {
  const now = Date.now()
  const within = `start=${new Date(now - 600_000).toISOString()}&end=${new Date(now).toISOString()}`
  const path = `/bff/api/v1/federation-search/recordings/${token}/timeline?${within}`
  const { spans } = await guard.call<{ spans: ReadonlyArray<Span> }>("GET", path)
  const at = spans.findIndex((span, place) => place > 0 && spans[place - 1]!.holderNodeId !== span.holderNodeId)
  return at < 0 ? null : { before: Date.parse(spans[at - 1]!.end), after: Date.parse(spans[at]!.start) }
}

/** The demo's first node and its guardian, as their administrators see them. */
interface Stage {
  readonly password: string
  readonly nodeId: string
  readonly guardAddress: string
  readonly home: Signed
  readonly guard: Signed
}
let stage: Stage

it("three nodes of their own guard each other in a ring", async () => {
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
  const { items: protections } = await until(
    "a protection that is ready",
    () => guard.call<Items<{ nodeId: string; state: string }>>("GET", `${failover}/protections`),
    ({ items }) => items.some(({ state }) => state === "protected"),
  )
  assert.deepStrictEqual(protections.map((one) => one.nodeId), [nodeId])
  stage = { password, nodeId, guardAddress, home, guard }
}, 600_000)

it.skipIf(withoutChromium !== "")(
  "the guardian's page kills a node and shows the reroute; play goes on over the seam",
  () =>
    withBrowser(async (browser) => {
      const { guard, guardAddress, home, nodeId, password } = stage
      // Served by the guardian until somebody gives it back: so two nodes hold the footage.
      await guard.call("PUT", `${failover}/settings`, { expectedOutageHours: 1, failbackAutomatic: false })
      const { items: [recording] } = await home.call<Items<{ recordingToken: string }>>(
        "GET",
        "/record/api/v1/recordings",
      )
      const token = recording?.recordingToken ?? ""
      const page = await open(browser, guardAddress, password)
      // Cameras of the other nodes, by node, and live through this one.
      await page.goto(`${guardAddress}/#/cameras`)
      const others = page.getByRole("region", { name: "Node C" })
      await others.getByText("answers").waitFor()
      await others.getByText("C camera 1").waitFor()
      assert.deepStrictEqual(await faultsOf(page), [])
      await fits(page, "cameras")
      await page.goto(`${guardAddress}/#/live`)
      const tile = page.getByRole("article", { name: "C camera 1 · Node C" })
      await tile.locator(".live-view[data-phase=playing]").waitFor()
      assert.include(["webrtc", "hls", "stills"], await tile.locator(".live-view").getAttribute("data-way"))

      await page.goto(`${guardAddress}/#/reroutes`)
      const panel = page.getByRole("region", { name: "Demo" })
      await panel.getByRole("button", { name: "Kill Node A" }).click()
      await page.getByRole("dialog").getByRole("button", { name: "Kill it" }).click()
      await panel.getByText("killed", { exact: true }).waitFor()
      const { items: [taken] } = await until("a takeover with its gap", () => reroutesOf(guard), ({ items }) =>
        items.some(({ gapMs }) => gapMs !== null))
      assert.strictEqual(taken?.homeNodeId, nodeId)
      assert.strictEqual(taken?.channels.length, 2)
      await page.getByRole("region", { name: "Reroutes" }).getByText("served by Node B").waitFor()
      await page.getByRole("link", { name: "this node serves Node A" }).waitFor()
      assert.deepStrictEqual(await faultsOf(page), [])
      await fits(page, "failover")

      // Who did not answer is told, on the timeline of all nodes.
      const player = await open(browser, guardAddress, password)
      await player.goto(`${guardAddress}/#/play/${token}`)
      const silent = player.getByText("Node A did not answer; its footage is missing here.")
      await silent.waitFor()
      assert.deepStrictEqual(await faultsOf(player), [])

      await panel.getByRole("button", { name: "Bring it back: Node A" }).click()
      await silent.waitFor({ state: "detached" })
      const seam = await until("twenty seconds after the seam", () =>
        seamOf(guard, token), (found) =>
        found !== null && Date.now() - found.after > 20_000)
      await player.goto("about:blank")
      await player.goto(`${guardAddress}/#/play/${token}?t=${seam!.before - 6_000}`)
      await player.locator(".timeline .seam").first().waitFor({ state: "attached" })
      await player.locator("video").waitFor()
      await player.evaluate(watching)
      const watched = await until("pictures of the node that went on", () =>
        player.evaluate<Watched>("watched()"), ({ failed, moment }) =>
        failed || moment > seam!.after + 5_000)
      assert.isFalse(watched.failed, "no fault that ends it")
      // In the footage's own time, whatever a busy browser did not show in time: it goes on, and what was not decoded between the two
      // nodes is less than a group of pictures.
      const [first = [0, 0] as const, last = first] = [watched.shown[0], watched.shown.at(-1)]
      assert.isTrue(watched.shown.every(([at], place) =>
        place === 0 || at >= watched.shown[place - 1]![0]
      ))
      assert.isAbove(last[0] - first[0], 5)
      assert.isBelow((last[0] - first[0]) * picturesPerSecond - (last[1] - first[1]), picturesPerSecond)
      assert.strictEqual(watched.buffered.length, 1, JSON.stringify(watched.buffered))
      await fits(player, "player")
    }),
  600_000,
)

it("a node is killed by its own interface; Ctrl-C leaves nothing, not even the database of a dead node", async () => {
  const { guard, home, nodeId } = stage
  // The answer comes before the end.
  assert.strictEqual(await home.status("POST", `${demoNodes}/${nodeId}/kill`), 204)
  await until(
    "its death",
    () => guard.call<Items<DemoNode>>("GET", demoNodes),
    ({ items }) => items[0]?.running === false,
  )
  assert.strictEqual(await guard.status("POST", `${demoNodes}/${nodeId}/kill`), 409)
  await until("a takeover", () => reroutesOf(guard), ({ items }) => items.some(({ state }) => state === "serving"))
  demo.kill("SIGINT")
  await until("that nothing is left", () => Promise.resolve(left()), (some) => some.length === 0)
  await until("the end of the demo itself", () => Promise.resolve(demo.exitCode), (code) => code !== null)
  assert.strictEqual(demo.exitCode, 0)
}, 600_000)
