/**
 * Two paired nodes, one the other's guardian, that lose sight of each other while both see the cameras; and a home node that dies. Judged
 * by the numbers in the cameras' pictures: on the disks, and in what a player is given at every moment.
 *
 * Invariants
 * 1. The nodes reach each other by relays that are cut; tests and cameras reach each node by its own door.
 * 2. Everything is asked by HTTP, as an administrator and a player would.
 */
import { execFile } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { inspect, promisify } from "node:util"
import { type Cameras, record, type Recorded, startCameras } from "./cameras.ts"
import { cuttableRelay } from "./cuttable-relay.ts"
import { failover, listed, pair, type ProtectionTold, type RerouteTold, until } from "./failover.ts"
import { listFootage, readFootage } from "./footage.ts"
import { makeNode, type NodeProcess, sleep } from "./node-process.ts"
import { faultsOf, isAway, isWatched, open, type Opened, play, watch } from "./partition-player.ts"
import type { Report } from "./report.ts"

/** What is younger may not be on a disk yet. */
const youngMs = 4_000
const beatMs = 250
const lookEveryMs = 1_000
/** A node that answers too late on a busy machine is in time again within this. */
const honestForMs = 30_000

interface Stage {
  readonly home: NodeProcess
  readonly guard: NodeProcess
  readonly homeId: string
  readonly protection: string
  readonly recorded: ReadonlyArray<Recorded>
  readonly cut: () => void
  readonly heal: () => void
}

interface StatusTold {
  readonly serving: ReadonlyArray<{ readonly control: boolean }>
  readonly servedBy: { readonly control: boolean } | null
}

interface TimelineTold {
  readonly partial: boolean
  readonly spans: ReadonlyArray<{ readonly start: string; readonly end: string }>
  readonly gaps: ReadonlyArray<{ readonly start: string; readonly end: string; readonly cause: string }>
}

/** Numbers of the pictures on a node's disk, once each. */
const stored = (node: NodeProcess, { recordingId }: Recorded): ReadonlySet<number> =>
  new Set(
    listFootage(path.join(node.data, "footage")).flatMap((file) => {
      try {
        const footage = readFootage(file)
        return footage.recordingId === recordingId ? footage.frames.map(({ frame }) => frame) : []
      } catch {
        // It is being written, or is on its way out.
        return []
      }
    }),
  )

/** The pictures that a foreign player decodes. */
const probed = async ({ base }: Opened): Promise<number> => {
  const asked = "-v error -allowed_extensions ALL -select_streams v:0 -count_frames -show_entries stream=nb_read_frames"
  const { stdout } = await promisify(execFile)("ffprobe", [...asked.split(" "), "-of", "csv=p=0", base.href])
  return Number(stdout.trim().split("\n")[0])
}

const setUp = async (folder: string, cameras: Cameras): Promise<Stage & { readonly end: () => Promise<void> }> => {
  const home = await makeNode(path.join(folder, "home"), { NIGHTJAR_NODE_NAME: "home" })
  const guard = await makeNode(path.join(folder, "guard"), { NIGHTJAR_NODE_NAME: "guard" })
  const relays = await Promise.all([home, guard].map(({ url }) => cuttableRelay(Number(new URL(url).port))))
  const addresses = relays.map(({ port }) => `http://127.0.0.1:${port}`)
  home.set({ NIGHTJAR_HTTP_ADVERTISE: addresses[0]! })
  guard.set({ NIGHTJAR_HTTP_ADVERTISE: addresses[1]! })
  const end = async () => {
    await Promise.allSettled([home.stop(), guard.stop()])
    await Promise.allSettled(relays.map((relay) => relay.end()))
  }
  try {
    for (const node of [home, guard]) {
      node.launch()
      await until("a node that is up", () => node.call("GET", `${failover}/status`), () => true)
    }
    const { homeId } = await pair(home, guard, addresses[0])
    await guard.call("PUT", `${failover}/settings`, { stableMs: 2_000, expectedOutageHours: 1 })
    const { id: protection } = (await guard.call("POST", `${failover}/protections`, {
      nodeId: homeId,
      automatic: true,
      class: "warm",
    })) as ProtectionTold
    const recorded: Array<Recorded> = []
    for (const [n, sourceUrl] of cameras.urls.entries()) {
      const { password, username } = cameras
      recorded.push(await record(home, { name: `camera ${n}`, sourceUrl, username, password }))
    }
    await until(
      "a snapshot with all cameras",
      async () => (await guard.call("GET", `${failover}/protections/${protection}`)) as ProtectionTold,
      ({ snapshot, state }) => snapshot.recordings === recorded.length && !snapshot.stale && state === "protected",
    )
    await until(
      "footage at home",
      async () => recorded.map((one) => stored(home, one).size),
      (counts) => counts.every((count) => count > 50),
    )
    return {
      home,
      guard,
      homeId,
      protection,
      recorded,
      cut: () => relays.forEach((relay) => relay.cut()),
      heal: () => relays.forEach((relay) => relay.heal()),
      end,
    }
  } catch (error) {
    await end()
    throw error
  }
}

/** Asks both at an even beat whether they hold control, until told to stop. */
const watchControl = (home: NodeProcess, guard: NodeProcess) => {
  let stopped = false
  let asked = 0
  let both = 0
  const statusOf = (node: NodeProcess) =>
    node.call("GET", `${failover}/status`).then((told) => told as StatusTold, () => null)
  const run = async () => {
    while (!stopped) {
      const [atHome, atGuard] = await Promise.all([statusOf(home), statusOf(guard)])
      asked++
      const guardHas = atGuard?.serving.some(({ control }) => control) ?? false
      if (guardHas && atHome !== null && atHome.servedBy?.control !== true) both++
      await sleep(beatMs)
    }
    return { asked, both }
  }
  const done = run()
  return () => {
    stopped = true
    return done
  }
}

const rerouteAfter = (guard: NodeProcess, before: ReadonlySet<string>, state: "serving" | "done") =>
  until(
    `a reroute that is ${state}`,
    () => listed<RerouteTold>(guard, `${failover}/reroutes`),
    (all) => all.some((one) => !before.has(one.id) && (state === "done" ? one.state === "done" : one.gapMs !== null)),
  )

const reroutesOf = async (guard: NodeProcess) =>
  new Set((await listed<RerouteTold>(guard, `${failover}/reroutes`)).map(({ id }) => id))

/** All numbers between the first and the last are there; those of `gap` need not be. */
const checkDisk = async (
  report: Report,
  { guard, home, recorded }: Stage,
  first: ReadonlyArray<number>,
  gap: ReadonlyArray<number>,
) => {
  for (const [at, one] of recorded.entries()) {
    const frames = stored(home, one)
    const last = Math.max(...frames)
    const from = first[at] ?? 0
    const missing = Array.from({ length: last - from }, (_, n) => from + n).filter((n) =>
      !frames.has(n) && !(n >= (gap[2 * at] ?? Infinity) && n < (gap[2 * at + 1] ?? -Infinity))
    )
    report.check(
      missing.length === 0,
      `camera ${at}: ${missing.length} frames are not at home (${missing.slice(0, 10)} …)`,
    )
    // It stays for a while, for players that were told of it.
    await until(`the guardian keeps nothing of camera ${at}`, async () => stored(guard, one).size, (kept) => kept === 0)
  }
}

/** Spans and gaps of the united timeline neither overlap nor leave anything out. */
const checkTimeline = async (report: Report, node: NodeProcess, one: Recorded, fromMs: number, toMs: number) => {
  const interval = `start=${new Date(fromMs).toISOString()}&end=${new Date(toMs).toISOString()}`
  const told =
    (await node.call(
      "GET",
      `/bff/api/v1/federation-search/recordings/${one.recordingToken}/timeline?${interval}`,
    )) as TimelineTold
  const all = [...told.spans, ...told.gaps].map(({ end, start }) => [Date.parse(start), Date.parse(end)] as const)
    .sort((a, b) => a[0] - b[0])
  let reached = fromMs
  for (const [start, end] of all) {
    report.check(Math.abs(start - reached) <= 1, `the timeline is broken at ${new Date(reached).toISOString()}`)
    reached = end
  }
  return told
}

/** Both are cut from each other for so long, and record. */
const partition = async (report: Report, stage: Stage, seconds: number): Promise<void> => {
  const { cut, guard, heal, home, recorded } = stage
  const before = await reroutesOf(guard)
  const fromMs = Date.now() - 2_000
  const firsts = recorded.map((one) => Math.max(...stored(home, one)))
  const control = watchControl(home, guard)
  cut()
  await rerouteAfter(guard, before, "serving")
  await sleep(seconds * 1_000)
  const alone = await watch(guard, recorded[0]!, fromMs, Date.now() - youngMs)
  report.check(alone.partial && alone.frames.length > 0, "the guardian shows what it has while it is alone")
  report.check(faultsOf(alone.frames, alone.frames[0] ?? 0).length === 0, "the guardian's footage is whole")
  heal()
  await rerouteAfter(guard, before, "done")
  const { asked, both } = await control()
  report.say(`control was asked ${asked} times of both: held by both ${both} times`)
  report.check(both === 0, "control was held by two")
  await sleep(youngMs)
  await checkDisk(report, stage, firsts, [])
  for (const [at, one] of recorded.entries()) {
    const toMs = Date.now() - youngMs
    for (const [name, node] of [["home", home], ["guard", guard]] as const) {
      const { frames, partial } = await watch(node, one, fromMs, toMs)
      const faults = faultsOf(frames, frames[0] ?? 0)
      report.check(!partial && faults.length === 0, `camera ${at} through ${name}: ${faults.slice(0, 5).join("; ")}`)
    }
    const { gaps } = await checkTimeline(report, guard, one, fromMs, toMs)
    report.check(gaps.length === 0, `camera ${at}: the timeline has gaps: ${JSON.stringify(gaps)}`)
  }
  report.say(`a partition of ${seconds} s: nothing lost, nothing doubled, at home and through either node`)
}

/** The home node dies for so long and comes back; what its guardian recorded comes home, and can be watched all the time. */
const outage = async (report: Report, stage: Stage, seconds: number): Promise<void> => {
  const { guard, home, recorded } = stage
  const [one] = recorded as [Recorded, ...Array<Recorded>]
  const before = await reroutesOf(guard)
  const firsts = recorded.map((each) => Math.max(...stored(home, each)))
  const killedMs = await home.kill()
  const lasts = recorded.map((each) => Math.max(...stored(home, each)))
  await rerouteAfter(guard, before, "serving")
  const begun = recorded.map((each) => Math.min(...stored(guard, each)))
  let looks = 0
  let done = false
  const wrong: Array<string> = []
  let unsure = 0
  let sewn = 0
  // Until then the guardian has all that there is, and shows it.
  let returned = false
  const lookOnce = async () => {
    const toMs = Date.now() - youngMs
    const told = await watch(guard, one, killedMs - 1_000, toMs).catch((error: unknown) => error)
    if (!isWatched(told)) {
      return { faults: [inspect(told, { depth: 1 }).slice(0, 1_500)], honest: returned && isAway(told) }
    }
    if (told.parts > 2) sewn++
    const faults = faultsOf(told.frames, begun[0]!)
    const where = faults.length === 0 ? [] : [`${told.told}; up to ${new Date(toMs).toISOString()}`]
    return { faults: [...faults.slice(0, 3), ...where], honest: returned && told.partial }
  }
  /** Who says that a node does not answer, and shows less, is asked again: the machine may be busy. Who says that all is there is not. */
  const look = async () => {
    const begunAt = performance.now()
    looks++
    for (;;) {
      const { faults, honest } = await lookOnce()
      if (faults.length === 0) return
      if (honest && performance.now() - begunAt < honestForMs) {
        unsure++
        await sleep(lookEveryMs)
        continue
      }
      return void wrong.push(`look ${looks}: ${faults.join("; ")}`)
    }
  }
  const looking = async () => {
    // Until the first fragments are old enough to be asked for.
    await sleep(youngMs + 2_000)
    while (!done) {
      await look()
      await sleep(lookEveryMs)
    }
  }
  const looker = looking()
  await sleep(seconds * 1_000)
  const upToMs = Date.now() - youngMs
  // Players that begin while the guardian alone has the footage, and are at the end when it is home.
  const players = [
    await open(guard, one, killedMs - 1_000, upToMs),
    await open(guard, one, killedMs - 1_000, upToMs, "/replay/api/v1/replay/uri"),
  ]
  const expected = await Promise.all(players.map(play))
  home.launch()
  returned = true
  const guardId = JSON.parse(readFileSync(path.join(guard.data, "identity.json"), "utf8")) as {
    readonly nodeId: string
  }
  players.push(
    await until("a replay at home of what the guardian has", () =>
      open(home, one, killedMs - 1_000, upToMs).catch(() => ({
        base: new URL(home.url),
        text: "",
        partial: true,
        sources: "",
      })), ({ partial, text }) =>
      !partial && text.includes(guardId.nodeId)),
  )
  expected.push(await play(players[2]!))
  const decoded = [await probed(players[0]!), await probed(players[2]!)]
  await rerouteAfter(guard, before, "done").finally(() => done = true)
  await looker
  await sleep(youngMs)
  await look()
  report.say(
    `watched ${looks} times from the takeover to the end of record-back; wrong ${wrong.length} times, ` +
      `sewn of three parts ${sewn} times; asked again ${unsure} times, as a node did not answer`,
  )
  report.check(wrong.length === 0, `footage could not be watched: ${wrong.slice(0, 5).join(" | ")}`)
  await checkDisk(report, stage, firsts, lasts.flatMap((last, at) => [last + 1, begun[at] as number]))
  for (const [at, player] of players.entries()) {
    const told = await play(player).catch((error: unknown) => String(error))
    const [before, now] = [expected[at]!.frames.join(), typeof told === "string" ? told : told.frames.join()]
    report.check(before === now, `a player that goes on after the footage is home (${at}): ${now} instead of ${before}`)
  }
  // Of footage that has all gone the guardian's own replay gives a new playlist, too.
  const { base } = players[1]!
  const renewed = await play({ ...players[1]!, text: await (await fetch(base)).text() }).catch((error: unknown) =>
    String(error)
  )
  report.check(
    typeof renewed !== "string" && renewed.frames.join() === expected[1]!.frames.join(),
    `a playlist that is asked for again when the footage is home: ${
      typeof renewed === "string" ? renewed : renewed.told
    }`,
  )
  const again = [await probed(players[0]!), await probed(players[2]!)]
  report.check(again.join() === decoded.join(), `ffprobe decodes ${again.join()} pictures and before ${decoded.join()}`)
  report.say(`${players.length} players that began before went on as if nothing had moved`)
  const { gaps } = await checkTimeline(report, home, one, killedMs - 5_000, Date.now() - youngMs)
  const lengths = gaps.map(({ cause, end, start }) => `${cause} ${Date.parse(end) - Date.parse(start)} ms`)
  report.say(`what is missing, by the timeline: ${lengths.join(", ")}`)
  // What the home node had not written when it died, then the change of nodes.
  const causes = gaps.map(({ cause }) => cause).join()
  report.check(["takeover", "node_down,takeover"].includes(causes), `the gap has the causes ${causes}`)
}

export interface PartitionOptions {
  readonly seconds: number
  readonly cameras: number
}

export const provePartition = async (report: Report, { cameras: count, seconds }: PartitionOptions): Promise<void> => {
  const folder = mkdtempSync(path.join(tmpdir(), "nightjar-partition-"))
  const cameras = await startCameras(count)
  try {
    const stage = await setUp(folder, cameras)
    try {
      await partition(report, stage, seconds)
      await outage(report, stage, Math.min(seconds, 10))
    } finally {
      await stage.end()
    }
  } finally {
    await cameras.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}
