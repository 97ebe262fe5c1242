/**
 * Clients follow the events while they are cut off again and again and the node is killed and restarted: each must end with exactly
 * the log of the database, nothing twice, nothing missing, in its order.
 */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { follow, type FollowingClient, sse, webSocket } from "./event-clients.ts"
import { madeUp, startMaker, startPostgres } from "./event-maker.ts"
import { makeNode, type NodeProcess, sleep } from "./node-process.ts"
import type { Report } from "./report.ts"

export interface ResumeOptions {
  readonly clients: number
  /** Of all clients together, besides those that the restarts cause. */
  readonly reconnects: number
  /** Every second one by kill -9, the others in order. */
  readonly restarts: number
  readonly perSecond: number
  readonly seed: number
}

const password = "a password of the proof"
/** After the last event everybody has the whole log within this. */
const settleMs = 60_000

/** Numbers in [0, 1) that are the same for the same seed. */
const randomFrom = (seed: number) => {
  let state = seed
  return () => {
    state = (state * 48_271) % 2_147_483_647
    return state / 2_147_483_647
  }
}

/** A token that is good for some minutes, whoever restarts meanwhile. */
const signedIn = (node: NodeProcess) => {
  let token = ""
  let untilMs = 0
  let asking: Promise<void> | null = null
  const ask = async () => {
    const response = await fetch(`${node.url}/auth/api/v1/auth/login`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ username: "admin", password }),
      signal: AbortSignal.timeout(10_000),
    })
    if (response.status !== 200) throw new Error(`sign-in answers ${response.status}`)
    token = ((await response.json()) as { readonly accessToken: string }).accessToken
    untilMs = performance.now() + 300_000
  }
  return async () => {
    if (performance.now() >= untilMs) await (asking ??= ask().finally(() => asking = null))
    return token
  }
}

/** Tells `perSecond` events a second, in bursts now and then, until it is stopped; answers how many. */
const telling = (tell: (numbers: ReadonlyArray<number>) => Promise<void>, perSecond: number, random: () => number) => {
  let on = true
  let told = 0
  const run = (async () => {
    const begun = performance.now()
    while (on) {
      const due = Math.floor((performance.now() - begun) * perSecond / 1000) - told
      if (due > 0) {
        await tell(Array.from({ length: due }, (_, i) => told + i))
        told += due
      }
      // Mostly one by one, at times what has gathered in half a second.
      await sleep(random() < 0.05 ? 500 : 5)
    }
    return told
  })()
  return () => {
    on = false
    return run
  }
}

const restart = async (node: NodeProcess, hard: boolean, random: () => number) => {
  if (hard) {
    await node.kill()
    await sleep(random() * 1_500)
  } else await node.stop()
  await node.start()
}

const judge = (report: Report, log: ReadonlyArray<string>, client: FollowingClient, name: string) => {
  const { events, kinds } = client
  if (events.length === log.length && events.every((id, i) => id === log[i])) return
  const at = log.findIndex((id, i) => id !== events[i])
  const missing = new Set(log).difference(new Set(events)).size
  const doubled = events.length - new Set(events).size
  report.fault(
    `${name}: ${events.length} events, the log has ${log.length}; first difference at ${at}, missing ${missing}, ` +
      `doubled ${doubled}; messages ${JSON.stringify(Object.fromEntries(kinds))}`,
  )
}

export const proveResume = async (report: Report, options: ResumeOptions): Promise<void> => {
  const random = randomFrom(options.seed)
  const folder = mkdtempSync(join(tmpdir(), "nightjar-resume-"))
  const postgres = await startPostgres(join(folder, "postgres"))
  const node = await makeNode(join(folder, "node"), {
    NIGHTJAR_DATABASE_URL: postgres.url,
    NIGHTJAR_ADMIN_PASSWORD: password,
    NIGHTJAR_LOG_LEVEL: "warn",
  })
  const clients: Array<FollowingClient> = []
  try {
    await node.start()
    const maker = await startMaker(join(folder, "maker"), postgres.url)
    const door = { url: node.url, token: signedIn(node) }
    await door.token()
    const each = Math.ceil(options.reconnects / options.clients)
    for (let k = 0; k < options.clients; k++) {
      let left = each
      clients.push(follow(door, k % 3 === 2 ? sse : webSocket, () => left-- > 0 ? 100 + random() * 2_500 : null))
    }
    const stop = telling((numbers) => maker.tell(numbers.map(madeUp)), options.perSecond, random)
    const begun = performance.now()
    for (let k = 0; k < options.restarts; k++) {
      await sleep(1_500 + random() * 3_000)
      await restart(node, k % 2 === 0, random)
      report.say(`restart ${k + 1}: ${clients.reduce((sum, one) => sum + one.reconnects(), 0)} reconnects so far`)
    }
    const reconnects = () => clients.reduce((sum, one) => sum + one.reconnects(), 0)
    while (reconnects() < options.reconnects && performance.now() - begun < 300_000) await sleep(100)
    const told = await stop()
    const seconds = (performance.now() - begun) / 1000
    const settled = performance.now()
    const log = () => maker.log()
    while ((await log()).length < told && performance.now() - settled < settleMs) await sleep(100)
    const keptMs = performance.now() - settled
    // The node tells some things itself, at any time: the log to compare with is the one whose end everybody has.
    let whole = await log()
    const complete = () => clients.every(({ events }) => events.at(-1) === whole.at(-1))
    while (!complete() && performance.now() - settled < settleMs) {
      await sleep(50)
      whole = await log()
    }
    const resets = clients.reduce((sum, { kinds }) => sum + (kinds.get("reset") ?? 0), 0)
    report.check(whole.length >= told, `${told} events were told, the log has ${whole.length}`)
    report.check(reconnects() >= options.reconnects, `only ${reconnects()} reconnects`)
    report.check(resets === 0, `${resets} times something was told to be lost`)
    for (const [k, client] of clients.entries()) judge(report, whole, client, `client ${k}`)
    report.say(
      `${options.clients} clients, ${reconnects()} reconnects, ${options.restarts} restarts, ${told} events told in ` +
        `${seconds.toFixed(0)} s (${(told / seconds).toFixed(0)}/s), log ${whole.length}, kept after ` +
        `${keptMs.toFixed(0)} ms, all clients had everything after ${(performance.now() - settled).toFixed(0)} ms`,
    )
    await maker.end()
  } finally {
    await Promise.all(clients.map((client) => client.stop()))
    await node.stop()
    await postgres.end()
    rmSync(folder, { recursive: true, force: true })
  }
}
