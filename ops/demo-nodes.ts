/**
 * `npm run demo -- --nodes 3`: nodes with databases of their own that stand in for each other, in a ring: the first is guarded by
 * the second, that one by the third, the last by the first. Each has two simulated cameras. They are paired over HTTPS by what an
 * administrator would ask of them: both sides compare the code and confirm.
 *
 * Invariants
 * 1. What it starts ends with it, also the database that a killed node left behind.
 * 2. Running it again pairs and protects only what is not paired or protected; the nodes keep their addresses, by which they know
 *    each other.
 * 3. Each node has a loopback address of its own where the system has them: a browser keeps its cookies by address, not by port.
 */
import { type Client, makeClient } from "#http/contract/client.ts"
import type { NodeId } from "#schema/common.ts"
import { Duration, Effect, Redacted, Schedule, type Scope } from "effect"
import type { ChildProcess } from "node:child_process"
import { closeSync, openSync } from "node:fs"
import { mkdir, readFile, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { localUrl, readSettings, type Settings } from "./config.ts"
import { child, isFree, passwordOf, record, simulatedCameras, stop } from "./demo-cameras.ts"
import { type DemoDoor, demoDoor } from "./demo-door.ts"
import { layoutOf } from "./host/postgres-files.ts"
import { findPostmaster, stopPostmaster } from "./host/postgres-process.ts"
import { trustNode } from "./trust.ts"

export const mostNodes = 5
const camerasEach = 2
/** The machine may be a small one that builds the dashboard, makes three databases and starts three nodes at once. */
const patient = { schedule: Schedule.spaced("500 millis"), times: 360 }
/** A node that does not stop is not waited for longer. */
const patience = Duration.seconds(15)

const letterOf = (at: number): string => String.fromCharCode(65 + at)

interface Place {
  readonly host: string
  readonly port: number
}

/** Where the nodes were the last time, or addresses that are free. */
const placesOf = async (folder: string, settings: Settings, count: number): Promise<ReadonlyArray<Place>> => {
  const file = join(folder, "addresses.json")
  const text = await readFile(file, "utf8").catch(() => null)
  if (text !== null) {
    const places = JSON.parse(text) as ReadonlyArray<Place>
    for (const { host, port } of places) {
      if (!(await isFree(host, port))) {
        throw new Error(`${host}:${port} is in use, and the nodes in ${folder} know each other by it`)
      }
    }
    return places
  }
  const own = settings.httpHost === "127.0.0.1" && await isFree(`127.0.0.${count}`, 0)
  const places: Array<Place> = []
  let port = settings.httpPort
  for (let at = 0; at < count; at++) {
    const host = own ? `127.0.0.${at + 1}` : settings.httpHost
    const wished = own ? settings.httpPort : port
    port = wished
    while (!(await isFree(host, port)) && port < wished + 20) port++
    places.push({ host, port })
    port++
  }
  await writeFile(file, JSON.stringify(places))
  return places
}

interface Running {
  readonly name: string
  readonly address: string
  readonly folder: string
  readonly client: Client
  readonly alive: () => boolean
  readonly start: () => void
  readonly kill: () => void
  /** Its own word about itself. */
  nodeId: NodeId
}

interface Making {
  readonly settings: Settings
  readonly folder: string
  readonly door: DemoDoor
  readonly password: string
}

const isAlive = (process: ChildProcess | null): boolean =>
  process !== null && process.exitCode === null && process.signalCode === null

/** One node, which may die and live again until the scope closes; nothing of it is running then. */
const makeNode = Effect.fnUntraced(function*({ door, folder, password, settings }: Making, at: number, place: Place) {
  const name = `Node ${letterOf(at)}`
  const dataDir = join(folder, letterOf(at).toLowerCase())
  yield* Effect.promise(() => mkdir(dataDir, { recursive: true, mode: 0o700 }))
  const own = { ...settings, httpHost: place.host, tls: "on" as const, dataDir }
  let running: ChildProcess | null = null
  const start = () => {
    const log = openSync(join(dataDir, "demo.log"), "a", 0o600)
    running = child(["ops/main.ts", "start"], {
      NIGHTJAR_NODE_NAME: name,
      NIGHTJAR_DATA_DIR: dataDir,
      NIGHTJAR_HTTP_HOST: place.host,
      NIGHTJAR_HTTP_PORT: String(place.port),
      NIGHTJAR_RTSP_PORT: "0",
      NIGHTJAR_TLS: "on",
      NIGHTJAR_ICE_INTERFACES: place.host.startsWith("127.") ? "127.0.0.1" : "",
      NIGHTJAR_ADMIN_PASSWORD: password,
      NIGHTJAR_DEMO_DOOR: door.address,
    }, ["ignore", log, log])
    closeSync(log)
    running.once("exit", (code, signal) => {
      console.log(`  ${name} ${signal === "SIGKILL" ? "was killed" : `ended (${signal ?? code})`}.`)
    })
    console.log(`  ${name} starts (process ${running.pid}).`)
  }
  yield* Effect.addFinalizer(() =>
    Effect.gen(function*() {
      const last = running
      if (last !== null) {
        last.removeAllListeners("exit")
        yield* stop(last, "SIGINT", patience)
      }
      // A node that was killed leaves its database running.
      const layout = layoutOf(dataDir)
      const left = yield* findPostmaster(layout)
      if (left !== null) yield* stopPostmaster({ pid: left.pid, child: null }, layout)
    }).pipe(Effect.ignore)
  )
  start()
  let token: string | null = null
  const address = localUrl(own, place.port)
  const client = yield* makeClient({ baseUrl: address, token: () => token })
  yield* Effect.retry(Effect.andThen(trustNode(own), client.health.health()), patient)
  const { body } = yield* Effect.retry(
    client.auth.login({ payload: { username: "admin", password: Redacted.make(password), cookie: false } }),
    patient,
  )
  token = body.accessToken
  const { items } = yield* Effect.retry(client.federationNode.nodes({ query: {} }), patient)
  const self = items.find((one) => one.self)
  if (self === undefined) return yield* Effect.fail(new Error(`${name} does not know itself`))
  return {
    name,
    address,
    folder: dataDir,
    client,
    alive: () => isAlive(running),
    start,
    kill: () => void running?.kill("SIGKILL"),
    nodeId: self.nodeId,
  } satisfies Running
})

/** `asking` asks `asked`; both administrators compare the six digits and confirm, and each lets the other guard it. */
const pair = Effect.fnUntraced(function*(asking: Running, asked: Running) {
  const { items } = yield* asking.client.federationNode.nodes({ query: {} })
  if (items.some(({ nodeId, relation }) => nodeId === asked.nodeId && relation === "peer")) return
  const outgoing = yield* asking.client.federationNode.pairByUuid({
    payload: { nodeUuid: asked.nodeId, address: asked.address, grantGuardian: true },
  })
  const { comparisonCode, requestId } = outgoing.body
  yield* asked.client.authFederation.confirmPairing({
    params: { id: requestId },
    payload: { comparisonCode, grantGuardian: true },
  })
  yield* asking.client.federationNode.confirmPairingHere({ params: { requestId }, payload: { comparisonCode } })
  for (const [one, other] of [[asking, asked], [asked, asking]] as const) {
    yield* one.client.federationNode.node({ params: { nodeId: other.nodeId } }).pipe(
      Effect.filterOrFail(
        ({ relation, state }) => relation === "peer" && state === "online",
        () => new Error("not yet"),
      ),
      Effect.retry(patient),
    )
  }
})

/** `guardian` protects `home`, warm and by itself; a person waits for neither half a minute of stability nor disks for a day. */
const protect = Effect.fnUntraced(function*(guardian: Running, home: Running) {
  const { federationFailover } = guardian.client
  const { items } = yield* federationFailover.protections()
  if (items.some(({ nodeId }) => nodeId === home.nodeId)) return
  yield* federationFailover.updateFailoverSettings({
    headers: {},
    payload: { stableMs: 8_000, expectedOutageHours: 1 },
  })
  yield* federationFailover.protect({
    headers: {},
    payload: { nodeId: home.nodeId, automatic: true, class: "warm" },
  })
})

const ready = (guardian: Running) =>
  guardian.client.federationFailover.protections().pipe(
    Effect.filterOrFail(({ items }) => items.every(({ state }) => state === "protected"), () => new Error("not yet")),
    Effect.retry({ schedule: Schedule.spaced(Duration.seconds(1)), times: 60 }),
    Effect.ignore,
  )

const told = (nodes: ReadonlyArray<Running>, password: string, guardianOf: (at: number) => Running): string =>
  [
    "",
    `  ${nodes.length} nodes record two simulated cameras each and stand in for each other.`,
    "",
    ...nodes.map(({ address, name }, at) => `    ${name}     ${address}   guarded by ${guardianOf(at).name}`),
    "    user       admin",
    `    password   ${password}`,
    "",
    "  Each serves HTTPS with a certificate of its own, so your browser asks once for each whether to trust it.",
    "  The page Failover kills a node and brings it back: watch its guardian take over, and the footage come home.",
    `  Their logs are demo.log in ${nodes.map(({ folder }) => folder).join(", ")}.`,
    "",
    "  Ctrl-C stops it.",
    "",
  ].join("\n")

/** Runs until it is interrupted. `count`: 2 to {@link mostNodes}. */
export const severalNodes = (folder: string, count: number): Effect.Effect<never, unknown, Scope.Scope> =>
  Effect.gen(function*() {
    const settings = yield* readSettings()
    yield* Effect.promise(() => mkdir(folder, { recursive: true, mode: 0o700 }))
    const password = yield* Effect.promise(() => passwordOf(folder, settings.adminPassword))
    const places = yield* Effect.promise(() => placesOf(folder, settings, count))
    const cameras = yield* simulatedCameras(camerasEach * count)
    const door = yield* demoDoor
    const making = { settings, folder, door, password }
    const nodes = yield* Effect.forEach(places, (place, at) => makeNode(making, at, place), { concurrency: count })
    const guardianOf = (at: number) => nodes[(at + 1) % count]!
    yield* Effect.forEach(
      nodes,
      ({ client, name }, at) =>
        record(client, cameras.slice(at * camerasEach, (at + 1) * camerasEach), (number) =>
          `${name.replace("Node ", "")} camera ${number % camerasEach + 1}`),
      { concurrency: count },
    )
    for (const [at, node] of nodes.entries()) yield* pair(guardianOf(at), node)
    for (const [at, node] of nodes.entries()) yield* protect(guardianOf(at), node)
    door.open(nodes.map(({ address, alive, kill, name, nodeId, start }) => ({
      told: () => ({ nodeId, name, address, running: alive() }),
      kill,
      start,
    })))
    yield* Effect.forEach(nodes, ready, { concurrency: count })
    yield* Effect.forEach(nodes, ({ client }) => Effect.ignore(client.auth.logout()))
    console.log(told(nodes, password, guardianOf))
    return yield* Effect.never
  })
