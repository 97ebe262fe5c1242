/**
 * A home node that is killed while it records, and its guardian, which has a database of its own or shares the home node's: how long
 * footage is missing, and that nothing else is.
 *
 * Invariants
 * 1. The cameras number their frames: what is missing is judged by those on both disks, not by what a node says.
 * 2. Everything is asked by HTTP, as an administrator would.
 * 3. Footage goes from the guardian's disk to the home node's and never back: what is read of the guardian's first misses nothing.
 */
import { randomBytes } from "node:crypto"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { type Cameras, record, type Recorded, startCameras } from "./cameras.ts"
import { frameMs } from "./conclude.ts"
import { startPostgres } from "./event-maker.ts"
import { framesIn, type StoredFrame } from "./footage.ts"
import { makeNode, type NodeProcess, sleep } from "./node-process.ts"
import type { Report } from "./report.ts"

export interface FailoverProofOptions {
  readonly runs: number
  readonly cameras: number
  /** `federation`: each node has a database of its own, and they are paired; `cluster`: both have one. */
  readonly form: "federation" | "cluster"
  /** In a cluster: another member that guards the home node too, in the second turn. */
  readonly second?: boolean
  /** One after the other, on the same nodes. Of warm, the time without footage is measured; of shadow, no frame may be missing. */
  readonly kinds: ReadonlyArray<"warm" | "shadow">
  /** What happens besides, in the first run of the last class; figures of that run are not those of a takeover alone. */
  readonly besides?: Besides
}

export interface RunNodes {
  readonly home: NodeProcess
  readonly guard: NodeProcess
  /** Who stands behind the guardian, and may have had the turn where that one stood still. */
  readonly second?: NodeProcess | null
  readonly protection: string
  readonly kind: string
}
export interface Besides {
  /** Instead of killing the home node plainly; answers when it was killed. */
  readonly kill: (nodes: RunNodes, recorded: ReadonlyArray<Recorded>) => Promise<number>
  readonly takenOver: (report: Report, nodes: RunNodes, recorded: ReadonlyArray<Recorded>) => Promise<void>
  /** The home node is up, and still served elsewhere. */
  readonly returned: (report: Report, nodes: RunNodes, recorded: ReadonlyArray<Recorded>) => Promise<void>
  readonly home: (report: Report, nodes: RunNodes, recorded: ReadonlyArray<Recorded>) => Promise<void>
}

const federation = "/federation/api/v1/federation"
export const failover = `${federation}/failover`
/** The machine is busy with others: what comes later than this does not come. */
const patienceMs = 90_000
/** A group of pictures of the simulated cameras, and the promise that stands before it. */
const promisedMs = 5_000 + 1_000

interface Items<A> {
  readonly items: ReadonlyArray<A>
}
interface NodeTold {
  readonly nodeId: string
  readonly self: boolean
  readonly fingerprint: string
  readonly state: string
}
export interface ProtectionTold {
  readonly id: string
  readonly state: string
  readonly epoch: number
  readonly reason: string
  readonly control: boolean
  readonly snapshot: { readonly cameras: number; readonly recordings: number; readonly stale: boolean }
  readonly sessions: ReadonlyArray<{ readonly outcome: string; readonly detail: string }>
  readonly shadow: {
    readonly streams: number
    readonly ready: number
    readonly leastMs: number
    readonly bytes: number
    readonly troubles: ReadonlyArray<{ readonly cameraName: string }>
  } | null
  readonly need: { readonly cameras: number; readonly ingestBps: number }
  readonly drill: { readonly gapMs: number | null; readonly channels: number } | null
}
export interface RerouteTold {
  readonly id: string
  readonly state: string
  readonly epoch: number
  readonly gapMs: number | null
  readonly drill: boolean
  readonly channels: ReadonlyArray<string>
  readonly homeNodeId: string
  readonly servingNodeId: string
}

/** Whatever is asked as a node is: a process here, or a machine of its own. */
export type Asked = Pick<NodeProcess, "call" | "url">

/** Asks again and again until it holds. */
export const until = async <A>(what: string, look: () => Promise<A>, holds: (value: A) => boolean): Promise<A> => {
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
    await sleep(200)
  }
  throw new Error(`it never came: ${what}; last: ${last.slice(0, 2_000)}`)
}

export const listed = async <A>(node: Asked, where: string): Promise<ReadonlyArray<A>> =>
  ((await node.call("GET", where)) as Items<A>).items

/** Up with its database, however busy the machine is. */
export const begin = async (node: NodeProcess): Promise<void> => {
  node.launch()
  await until("a node that is up", () => node.call("GET", `${failover}/status`), () => true)
}

const selfOf = async (node: Asked): Promise<NodeTold> => {
  const nodes = await until(
    "its own entry",
    () => listed<NodeTold>(node, `${federation}/nodes`),
    (all) => all.length > 0,
  )
  return nodes.find(({ self }) => self)!
}

/** `guard` asks `home`; both administrators confirm, and each may guard the other. */
export const pair = async (
  home: Asked,
  guard: Asked,
  address = home.url,
): Promise<{ homeId: string; guardId: string }> => {
  const homeSelf = await selfOf(home)
  const asked = (await guard.call("POST", `${federation}/nodes/pair-by-uuid`, {
    nodeUuid: homeSelf.nodeId,
    address,
    fingerprint: homeSelf.fingerprint,
    grantGuardian: true,
  })) as { readonly requestId: string; readonly comparisonCode: string }
  await home.call("POST", `/auth/api/v1/federation/requests/${asked.requestId}/confirm`, {
    comparisonCode: asked.comparisonCode,
    grantGuardian: true,
  })
  return acquainted(home, guard)
}

/** Each finds the other in its list, online. */
export const acquainted = async (home: Asked, guard: Asked): Promise<{ homeId: string; guardId: string }> => {
  const [homeSelf, guardSelf] = [await selfOf(home), await selfOf(guard)]
  for (const [node, other] of [[home, guardSelf], [guard, homeSelf]] as const) {
    await until(
      "the other node in the list",
      () => listed<NodeTold>(node, `${federation}/nodes`),
      (nodes) => nodes.some(({ nodeId, state }) => nodeId === other.nodeId && state === "online"),
    )
  }
  return { homeId: homeSelf.nodeId, guardId: guardSelf.nodeId }
}

/** What two nodes need to be members of one cluster: a database of theirs, and a secret that makes each a member of it. */
export const clusterOf = async (folder: string) => {
  const postgres = await startPostgres(path.join(folder, "postgres"))
  return {
    end: postgres.end,
    settings: {
      NIGHTJAR_DATABASE_URL: postgres.url,
      NIGHTJAR_ADMIN_PASSWORD: "correct horse battery",
      NIGHTJAR_CLUSTER_SECRET: randomBytes(32).toString("base64"),
    },
  }
}

export const protectionOf = async (guard: Asked, id: string): Promise<ProtectionTold> =>
  (await guard.call("GET", `${failover}/protections/${id}`)) as ProtectionTold

export const untilState = (guard: Asked, id: string, ...states: ReadonlyArray<string>) =>
  until(`the state ${states.join(" or ")}`, () => protectionOf(guard, id), ({ state }) => states.includes(state))

const framesOf = (node: NodeProcess, { recordingId }: Recorded): ReadonlyArray<StoredFrame> =>
  framesIn(path.join(node.data, "footage"), recordingId)

const guardsOf = ({ guard, second }: Pick<RunNodes, "guard" | "second">): ReadonlyArray<NodeProcess> =>
  second === null || second === undefined ? [guard] : [guard, second]
/** On the disks of whoever guards. */
const guardedFrames = (nodes: Pick<RunNodes, "guard" | "second">, one: Recorded): ReadonlyArray<StoredFrame> =>
  guardsOf(nodes).flatMap((node) => framesOf(node, one))

/** Frames that neither disk has, from `first` to the newest; and those that the guardian has twice. */
const completeness = (nodes: Pick<RunNodes, "home" | "guard" | "second">, one: Recorded, first: number) => {
  const disks = guardsOf(nodes).map((node) => framesOf(node, one).map(({ frame }) => frame))
  const there = disks.flat()
  const twice = disks.reduce((sum, disk) => sum + disk.length - new Set(disk).size, 0)
  const here = framesOf(nodes.home, one).map(({ frame }) => frame)
  const all = new Set([...there, ...here].filter((frame) => frame >= first))
  const missing = Array.from({ length: Math.max(...all) - first }, (_, n) => first + n).filter((n) => !all.has(n))
  return { frames: all.size, missing, twice }
}

/** Every ring is full: half a minute after the cameras were connected to. */
const untilShadowed = (guard: NodeProcess, id: string, streams: number) =>
  until(
    "rings that are full",
    () => protectionOf(guard, id),
    ({ shadow }) => shadow !== null && shadow.streams === streams && shadow.ready === streams,
  )

const median = (numbers: ReadonlyArray<number>) =>
  numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? 0

const oneRun = async (
  report: Report,
  nodes: RunNodes,
  /** `first`: from this frame on nothing may be missing. */
  recorded: ReadonlyArray<Recorded & { readonly first: number }>,
  run: number,
  besides?: Besides,
): Promise<{ readonly told: number; readonly seen: number }> => {
  const { guard, home, kind, protection } = nodes
  await untilState(guard, protection, "protected", "recordingBack")
  if (kind === "shadow") {
    const { shadow } = await untilShadowed(guard, protection, recorded.length)
    report.say(`${shadow!.leastMs} ms of each of ${shadow!.streams} cameras are held in ${shadow!.bytes} bytes`)
  }
  await until(
    "its cameras recording at home",
    async () => recorded.map((one) => framesOf(home, one).length),
    (counts) => counts.every((count) => count > 25),
  )
  const before = new Set((await listed<RerouteTold>(guard, `${failover}/reroutes`)).map(({ id }) => id))
  const killedMs = await (besides === undefined ? home.kill() : besides.kill(nodes, recorded))
  const taken = await until(
    "a reroute with its gap",
    () => listed<RerouteTold>(guard, `${failover}/reroutes`),
    (all) => all.some(({ gapMs, id }) => !before.has(id) && gapMs !== null),
  )
  const reroute = taken.find(({ id }) => !before.has(id))!
  const firstMs = recorded.map((one) =>
    Math.min(...guardedFrames(nodes, one).map(({ wallMs }) => wallMs).filter((wallMs) => wallMs > killedMs))
  )
  const seen = Math.max(...firstMs) - killedMs
  report.say(
    `run ${run}: ${reroute.gapMs} ms told, ${seen.toFixed(0)} ms from the kill to the last camera's first frame`,
  )
  report.check(reroute.channels.length === recorded.length, `${reroute.channels.length} channels rerouted`)

  await besides?.takenOver(report, nodes, recorded)
  await begin(home)
  await besides?.returned(report, nodes, recorded)
  await until(
    "the failback",
    () => listed<RerouteTold>(guard, `${failover}/reroutes`),
    (all) => all.some(({ id, state }) => id === reroute.id && (state === "recordingBack" || state === "done")),
  )
  await sleep(3_000)
  for (const one of kind === "shadow" ? recorded : []) {
    const { frames, missing, twice } = completeness(nodes, one, one.first)
    report.say(
      `run ${run}: ${missing.length} of ${frames} frames are missing, ${twice} are twice on the guardian's disk`,
    )
    report.check(missing.length === 0, `frames ${missing.slice(0, 20).join()} are on neither disk`)
    report.check(twice === 0, `${twice} frames are twice on the guardian's disk`)
  }
  for (const one of recorded) {
    const here = guardedFrames(nodes, one)
    const lastHere = Math.max(...here.map(({ frame }) => frame))
    const afterwards = framesOf(home, one).map(({ frame }) => frame)
    report.check(afterwards.some((frame) => frame > lastHere), "the home node does not record after the failback")
    const after = new Set([...afterwards, ...here.map(({ frame }) => frame)])
    const first = Math.min(...here.filter(({ wallMs }) => wallMs > killedMs).map(({ frame }) => frame))
    const lost = Array.from({ length: Math.max(0, lastHere - first) }, (_, n) => first + n).filter((n) => !after.has(n))
    report.check(lost.length === 0, `${lost.length} frames are on neither disk once the guardian records`)
  }
  await besides?.home(report, nodes, recorded)
  return { told: reroute.gapMs ?? 0, seen }
}

/** A camera that lets no second session in is named as soon as it is known, and held as soon as it does. */
const judgeRefusal = async (report: Report, guard: NodeProcess, id: string, cameras: Cameras): Promise<void> => {
  const { sessions, shadow } = await until(
    "word of each camera",
    () => protectionOf(guard, id),
    (told) => told.sessions.length === cameras.urls.length && told.shadow?.troubles.length === 1,
  )
  const refused = sessions.filter(({ outcome }) => outcome === "refused").length
  report.check(refused === 1, `${refused} cameras are told to refuse a second session, and one does`)
  report.check(shadow?.troubles[0]?.cameraName === "camera 0", "another camera is told to be in trouble")
  await cameras.command(0, "sessions")
}

/** Guards it too, in the second turn, and is ready. */
const standBehind = async (second: NodeProcess, homeId: string, kind: string, streams: number): Promise<void> => {
  const asked = { nodeId: homeId, automatic: true, class: kind, rank: 1 }
  const { id } = (await second.call("POST", `${failover}/protections`, asked)) as ProtectionTold
  if (kind === "shadow") await untilShadowed(second, id, streams)
  else await untilState(second, id, "protected", "capacityShort")
}

/** `runs` times with a protection of one class, which ends afterwards. */
const ofKind = async (
  report: Report,
  { cameras, guard, home, homeId, second }: {
    readonly second: NodeProcess | null
    readonly cameras: Cameras
    readonly home: NodeProcess
    readonly guard: NodeProcess
    readonly homeId: string
  },
  recorded: ReadonlyArray<Recorded>,
  { besides, kind, runs }: { readonly kind: string; readonly runs: number; readonly besides?: Besides },
): Promise<void> => {
  const counts = await until(
    "its cameras recording at home",
    async () => recorded.map((one) => framesOf(home, one).map(({ frame }) => frame)),
    (all) => all.every((frames) => frames.length > 25),
  )
  if (kind === "shadow") await cameras.command(0, "sessions", { most: 1 })
  const { id } = (await guard.call("POST", `${failover}/protections`, {
    nodeId: homeId,
    automatic: true,
    class: kind,
  })) as ProtectionTold
  await until(
    "the configuration of all cameras",
    () => protectionOf(guard, id),
    ({ need, snapshot }) => need.cameras === recorded.length && !snapshot.stale,
  )
  if (kind === "shadow") await judgeRefusal(report, guard, id, cameras)
  if (second !== null) await standBehind(second, homeId, kind, recorded.length)
  const from = recorded.map((one, n) => ({ ...one, first: Math.max(...counts[n]!) }))
  const gaps: Array<{ readonly told: number; readonly seen: number }> = []
  for (let run = 1; run <= runs; run++) {
    gaps.push(
      await oneRun(report, { home, guard, second, protection: id, kind }, from, run, run === 1 ? besides : undefined),
    )
  }
  const told = gaps.map((gap) => gap.told)
  const seen = gaps.map((gap) => gap.seen)
  const worst = Math.max(...seen)
  if (kind === "shadow") report.check(told.every((gapMs) => gapMs === 0), `a gap was told: ${told.join()} ms`)
  else {
    report.say(
      `from kill -9 to the first key frame of the last of ${recorded.length} cameras: median ${
        median(seen).toFixed(0)
      } ms, worst ${worst.toFixed(0)} ms of ${promisedMs} ms promised (${frameMs} ms a frame)`,
    )
  }
  await guard.call("DELETE", `${failover}/protections/${id}`)
  await until(
    "the end of the protection",
    () => listed<ProtectionTold>(guard, `${failover}/protections`),
    (all) => all.every((one) => one.id !== id),
  )
}

/** `runs` times: the home node is killed, its guardian records, it comes back. */
export const proveFailover = async (
  report: Report,
  { besides, cameras: count, form, kinds, runs, second: isSecond = false }: FailoverProofOptions,
): Promise<void> => {
  const folder = mkdtempSync(path.join(tmpdir(), "nightjar-failover-"))
  const cameras = await startCameras(count)
  const cluster = form === "cluster" ? await clusterOf(folder) : null
  const home = await makeNode(path.join(folder, "home"), { NIGHTJAR_NODE_NAME: "home", ...cluster?.settings })
  const guard = await makeNode(path.join(folder, "guard"), { NIGHTJAR_NODE_NAME: "guard", ...cluster?.settings })
  const second = isSecond ?
    await makeNode(path.join(folder, "second"), { NIGHTJAR_NODE_NAME: "second", ...cluster?.settings }) :
    null
  try {
    for (const node of [home, guard, ...second === null ? [] : [second]]) await begin(node)
    const { homeId } = await (cluster === null ? pair : acquainted)(home, guard)
    // Whom a member guards by itself has been looked at before a camera of it may refuse that.
    if (cluster !== null) await home.call("PUT", `${failover}/settings`, { guardMembers: false })
    // Only failback is made shorter, and the disk that is kept free smaller: neither is a figure of a takeover.
    await guard.call("PUT", `${failover}/settings`, { stableMs: 2_000, overlapMs: 3_000, expectedOutageHours: 1 })
    const recorded: Array<Recorded> = []
    for (const [n, sourceUrl] of cameras.urls.entries()) {
      const { password, username } = cameras
      recorded.push(await record(home, { name: `camera ${n}`, sourceUrl, username, password }))
    }
    for (const kind of kinds) {
      const last = kind === kinds.at(-1) && besides !== undefined
      await ofKind(report, { cameras, home, guard, homeId, second }, recorded, {
        kind,
        runs,
        ...(last ? { besides } : {}),
      })
    }
  } finally {
    await Promise.allSettled([home.stop(), guard.stop(), second?.stop()])
    await Promise.allSettled([cameras.stop(), cluster?.end()])
    rmSync(folder, { recursive: true, force: true })
  }
}
