/**
 * CPU time of a delivery on the live channel: `npm run bench:notification -- [--clients 1000] [--seconds 30] [--per-second 10]
 * [--burst 50] [--burst-every 5]`.
 *
 * How it measures
 * 1. A whole node on a PostgreSQL of its own; ten users of three roles, a token of its own for each WebSocket. Events are told
 *    through the door that every slice uses, in another process, and come by way of the database.
 * 2. CPU time of the node's process (all threads, `/proc`) over the time of the events, and over as long a time without any: what
 *    the channels cost when nothing happens is told apart. PostgreSQL is told by itself.
 * 3. The peer is a bare broadcast with `ws`: no sign-in, no permissions, no database, no resuming. It gets the texts that the node
 *    sent, at the same times, for as many clients of the same program.
 * 4. A run in which a client did not get every event is no run.
 */
import type { EventDraft } from "#schema/event.ts"
import { type ChildProcess, fork } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { webSocket } from "../harness/event-clients.ts"
import { startMaker, startPostgres } from "../harness/event-maker.ts"
import { makeNode, type NodeProcess, sleep } from "../harness/node-process.ts"
import { cpuSeconds, memoryBytes } from "./usage.ts"

const { values } = parseArgs({
  options: {
    clients: { type: "string", default: "1000" },
    seconds: { type: "string", default: "30" },
    "per-second": { type: "string", default: "10" },
    burst: { type: "string", default: "50" },
    "burst-every": { type: "string", default: "5" },
  },
})
const clients = Number(values.clients)
const seconds = Number(values.seconds)
const perSecond = Number(values["per-second"])
const burst = Number(values.burst)
const burstEvery = Number(values["burst-every"])
const say = (line: string): void => void process.stdout.write(`${line}\n`)
const mib = (bytes: number | null) => bytes === null ? "?" : (bytes / (1 << 20)).toFixed(0)

const password = "a password of the bench"
const channel = "0190163d-8694-7395-8ad4-5b8a3f3d0c01"
const camera = "0190163d-8694-7395-8ad4-5b8a3f3d0c02"
const stream = "0190163d-8694-7395-8ad4-5b8a3f3d0c03"

const draft = (number: number): EventDraft => ({
  type: "camera.degraded",
  subject: camera,
  resource: [{ kind: "channel", id: channel }, { kind: "camera", id: camera }],
  data: {
    name: "Front door",
    cameraId: camera as never,
    channelId: channel as never,
    streamId: stream as never,
    role: "main",
    reason: `12 packets were lost (${number})`,
    changes: 1,
  },
})

/** How many events are due at each moment: single ones, and bursts. */
const schedule = (): ReadonlyArray<{ readonly atMs: number; readonly count: number }> => {
  const single = Array.from({ length: seconds * perSecond }, (_, i) => ({ atMs: i * 1000 / perSecond, count: 1 }))
  const bursts = Array.from({ length: Math.floor(seconds / burstEvery) }, (_, i) => ({
    atMs: i * burstEvery * 1000 + 550,
    count: burst,
  }))
  return [...single, ...bursts].toSorted((a, b) => a.atMs - b.atMs)
}

const answer = <A>(child: ChildProcess): Promise<A> =>
  new Promise((resolve, reject) => {
    child.once("message", (message) => resolve(message as A))
    child.once("exit", (code) => reject(new Error(`a process of the bench ended with ${code}`)))
  })

interface Counts {
  readonly total: number
  readonly least: number
  readonly most: number
  readonly closed: number
}
const countsOf = (child: ChildProcess) => {
  child.send("counts")
  return answer<Counts>(child)
}

const post = async (node: NodeProcess, where: string, body: unknown, token = "") => {
  const response = await fetch(`${node.url}${where}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...token === "" ? {} : { authorization: `Bearer ${token}` } },
    body: JSON.stringify(body),
  })
  if (!response.ok) throw new Error(`${where}: ${response.status} ${await response.text()}`)
  return await response.json() as { readonly accessToken: string; readonly refreshToken: string }
}

/** A token for each client: of ten users, each signed in once and refreshed. The last one is for whoever listens in. */
const tokensFor = async (node: NodeProcess): Promise<ReadonlyArray<string>> => {
  const { accessToken } = await post(node, "/auth/api/v1/auth/login", { username: "admin", password })
  const tokens: Array<string> = []
  for (let k = 0; k < 10; k++) {
    const user = { username: `user-${k}`, password: `${password} ${k}`, mustChangePassword: false }
    const roles = [["viewer", "operator", "admin"][k % 3]!]
    await post(node, "/auth/api/v1/users", { ...user, roles }, accessToken)
    let signedIn = await post(node, "/auth/api/v1/auth/login", user)
    for (let i = 0; i < clients / 10; i++) {
      tokens.push(signedIn.accessToken)
      signedIn = await post(node, "/auth/api/v1/auth/refresh", { refreshToken: signedIn.refreshToken })
    }
  }
  return [...tokens, accessToken]
}

/** Sends by the schedule, lets all arrive, and answers the CPU seconds of these processes by then. */
const measured = async (
  roots: ReadonlyArray<ReadonlyArray<number>>,
  send: (from: number, count: number) => void | Promise<void>,
  receivers: ChildProcess,
): Promise<ReadonlyArray<number>> => {
  const before = roots.map((some) => cpuSeconds(some))
  const begun = performance.now()
  let sent = 0
  for (const { atMs, count } of schedule()) {
    const early = atMs - (performance.now() - begun)
    if (early > 0) await sleep(early)
    await send(sent, count)
    sent += count
  }
  await sleep(Math.max(0, seconds * 1000 - (performance.now() - begun)) + 2_000)
  // Where the machine is busy the last ones take longer.
  for (let i = 0; i < 120 && (await countsOf(receivers)).least < sent; i++) await sleep(500)
  return roots.map((some, i) => cpuSeconds(some) - before[i]!)
}

const complete = (counts: Counts, events: number, who: string) => {
  if (counts.least === events && counts.most === events && counts.closed === 0) return
  throw new Error(`${who}: not every client got the ${events} events: ${JSON.stringify(counts)}`)
}

const folder = mkdtempSync(join(tmpdir(), "nightjar-bench-"))
const children: Array<ChildProcess> = []
const program = (name: string) => {
  const child = fork(join(import.meta.dirname, name))
  children.push(child)
  return child
}
const postgres = await startPostgres(join(folder, "postgres"))
const node = await makeNode(join(folder, "node"), {
  NIGHTJAR_DATABASE_URL: postgres.url,
  NIGHTJAR_ADMIN_PASSWORD: password,
  NIGHTJAR_LOG_LEVEL: "warn",
})
const events = schedule().reduce((sum, { count }) => sum + count, 0)
const deliveries = events * clients
const each = (cpu: number) => (cpu * 1e6 / deliveries).toFixed(2)

try {
  await node.start()
  const maker = await startMaker(join(folder, "maker"), postgres.url)
  const tokens = await tokensFor(node)
  const bare = memoryBytes([node.pid])
  const texts: Array<string> = []
  const observer = webSocket({ url: node.url, token: () => Promise.resolve("") }, tokens.at(-1)!, "", (message) => {
    if (message.kind === "event") texts.push(JSON.stringify(message))
  })
  const ours = program("notification-clients.ts")
  ours.send({ url: `${node.url.replace("http", "ws")}/notification/api/v1/stream`, tokens: tokens.slice(0, clients) })
  await answer(ours)
  await sleep(3_000)
  const idleBefore = cpuSeconds([node.pid])
  await sleep(seconds * 1000 + 2_000)
  const idle = cpuSeconds([node.pid]) - idleBefore
  const open = memoryBytes([node.pid])
  const [cpu = 0] = await measured(
    [[node.pid]],
    (from, count) => maker.tell(Array.from({ length: count }, (_, i) => draft(from + i))),
    ours,
  )
  const after = memoryBytes([node.pid])
  complete(await countsOf(ours), events, "node")
  observer.cut()
  ours.disconnect()
  await maker.end()
  await node.stop()

  const peer = program("notification-peer.ts")
  const { port } = await answer<{ readonly port: number }>(peer)
  const theirs = program("notification-clients.ts")
  theirs.send({ url: `ws://127.0.0.1:${port}/`, tokens: tokens.slice(0, clients) })
  await answer(theirs)
  await sleep(1_000)
  const [peerCpu = 0] = await measured([[peer.pid!]], (from, count) => {
    peer.send(texts.slice(from, from + count))
  }, theirs)
  complete(await countsOf(theirs), events, "peer")

  say(
    `${clients} clients, ${events} events in ${seconds} s (${perSecond}/s and bursts of ${burst}), ${deliveries} deliveries`,
  )
  say(
    `node    ${each(cpu)} µs of CPU a delivery (${cpu.toFixed(2)} s), ${each(cpu - idle)} without what it uses idle (${
      idle.toFixed(2)
    } s)`,
  )
  say(`peer    ${each(peerCpu)} µs of CPU a delivery (${peerCpu.toFixed(2)} s)`)
  say(`ratio   ${(cpu / peerCpu).toFixed(2)}, without idle ${((cpu - idle) / peerCpu).toFixed(2)}`)
  say(`memory  ${mib(bare)} MiB without clients, ${mib(open)} MiB with, ${mib(after)} MiB after the events`)
} finally {
  for (const child of children) child.kill()
  await node.stop()
  await postgres.end()
  rmSync(folder, { recursive: true, force: true })
}
process.exit(0)
