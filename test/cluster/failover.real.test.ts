/**
 * Two whole nodes with keys of their own on one PostgreSQL: one joins by approval, shows the other's camera, stands in for it by itself when it
 * is killed, and gives everything back when it returns.
 */
import { expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type Cameras, record, type Recorded, startCameras } from "../harness/cameras.ts"
import { startPostgres } from "../harness/event-maker.ts"
import {
  begin,
  failover,
  listed,
  type ProtectionTold,
  type RerouteTold,
  until,
  untilState,
} from "../harness/failover.ts"
import { listFootage, readFootage } from "../harness/footage.ts"
import { makeNode, type NodeProcess } from "../harness/node-process.ts"
import { client } from "../media/webrtc-peers.ts"
import { Watching } from "../media/webrtc-watching.ts"

interface Shown {
  readonly nodeId: string
  readonly name: string
  readonly fingerprint: string
  readonly admitted: boolean
}
interface MediaPath {
  readonly token: string
  readonly whepUrl: string
  readonly liveHlsUrl: string
  readonly snapshotUrl: string
  readonly rtspUrl: string
}

const members = (node: NodeProcess) => listed<Shown>(node, "/federation/api/v1/federation/members")
const footageOf = (node: NodeProcess) => listFootage(join(node.data, "footage"))
const framesIn = (files: ReadonlyArray<string>) =>
  new Set(files.flatMap((file) => readFootage(file).frames.map(({ frame }) => frame)))

/** What ffprobe sees of a live or recorded stream: width and number of pictures of the first `seconds`. */
const probed = (url: string, seconds: number) => {
  const words = ["-v", "error", "-select_streams", "v:0", "-count_packets", "-read_intervals", `%+${seconds}`]
  const shown = ["-show_entries", "stream=width,nb_read_packets", "-of", "json", url]
  const out = execFileSync("ffprobe", [...words, ...shown], { timeout: 60_000 }).toString()
  const [stream] = (JSON.parse(out) as { streams: ReadonlyArray<{ width: number; nb_read_packets: string }> }).streams
  return { width: stream?.width ?? 0, pictures: Number(stream?.nb_read_packets ?? 0) }
}

/** One joins the cluster of the other by approval. */
const joined = async (here: NodeProcess, there: NodeProcess) => {
  for (const node of [here, there]) await begin(node)
  const [first, second] = await until("both in the list", () => members(here), (all) => all.length === 2)
  expect([first, second]).toMatchObject([{ name: "here", admitted: true }, { name: "there", admitted: false }])
  const approve = (fingerprint: string) =>
    here.ask("POST", `/federation/api/v1/federation/nodes/${second!.nodeId}/approve`, { fingerprint })
  expect((await approve(first!.fingerprint)).status).toBe(409)
  expect(await approve(second!.fingerprint)).toMatchObject({ status: 200, body: { admitted: true } })
  await until("the other knows", () => members(there), (all) => all.every((one) => one.admitted))
  return { hereId: first!.nodeId, thereId: second!.nodeId }
}

/** Whatever can be watched of a camera that another node serves. */
const watched = async (there: NodeProcess, { streamId }: Recorded) => {
  const path = (await there.callSoon("GET", `/camera/api/v1/streams/${streamId}/media-path`)) as MediaPath
  const picture = await until("a picture", () => there.ask("GET", path.snapshotUrl), ({ status }) => status === 200)
  expect(String(picture.body).length).toBeGreaterThan(1_000)
  expect(probed(`${there.url}${path.liveHlsUrl}`, 2)).toMatchObject({ width: 640 })
  // By RTSP as well, of which the player asks for datagrams first.
  const live = probed(path.rtspUrl, 2)
  expect(live.width).toBe(640)
  expect(live.pictures).toBeGreaterThan(20)

  const browser = await Effect.runPromise(Effect.scoped(Effect.gen(function*() {
    const made = yield* client({ direction: "RecvOnly", video: "h264" })
    const posted = yield* Effect.promise(() =>
      fetch(`${there.url}${path.whepUrl}`, {
        method: "POST",
        headers: { "content-type": "application/sdp", authorization: `Bearer ${path.token}` },
        body: made.offer,
      })
    )
    const answer = yield* Effect.promise(() => posted.text())
    expect(posted.status, answer).toBe(201)
    const watching = new Watching(made.video!, made.audio)
    made.connection.setRemoteDescription(answer, "answer")
    yield* Effect.promise(() => until("pictures by WebRTC", async () => watching.pictures.length, (many) => many > 20))
    const session = `${there.url}${posted.headers.get("location")}`
    return yield* Effect.promise(() => fetch(session, { method: "DELETE" }))
  })))
  expect(browser.status).toBe(204)
}

/** What was recorded, through a node whether it has it or not: played whole, and a file of it in parts. */
const replayed = async (node: NodeProcess, { createdMs, recordingToken, streamId }: Recorded) => {
  // What was just stored is known to the other node once the journal is read.
  const uri = await until("footage that can be shown", async () => {
    const asked = { recordingToken, start: new Date(createdMs).toISOString(), end: new Date().toISOString() }
    const opened = (await node.callSoon("POST", "/replay/api/v1/replay/uri", asked)) as { readonly uri: string }
    const master = await fetch(`${node.url}${opened.uri}`)
    return master.ok ? opened.uri : `${master.status} ${await master.text()}`
  }, (told) => told.startsWith("/"))
  const { pictures, width } = probed(`${node.url}${uri}`, 60)
  expect(width).toBe(640)
  const playlist = `${node.url}${uri.replace("master", "playlist")}`
  const text = await (await fetch(playlist)).text()
  const segment = text.split("\n").find((line) => line !== "" && !line.startsWith("#"))
  const part = await fetch(new URL(segment!, playlist), { headers: { range: "bytes=10-19" } })
  expect(part.status, text).toBe(206)
  expect((await part.arrayBuffer()).byteLength).toBe(10)
  const { rtspUrl } = (await node.callSoon("GET", `/camera/api/v1/streams/${streamId}/media-path`)) as MediaPath
  const query = `start=${new Date(createdMs).toISOString()}&end=${new Date().toISOString()}&`
  const recorded = probed(rtspUrl.replace(`/live/${streamId}?`, `/recording/${recordingToken}?${query}`), 2)
  expect(recorded.width).toBe(640)
  expect(recorded.pictures).toBeGreaterThan(20)
  return pictures
}

const asInstant = (ms: number) => new Date(ms).toISOString()
const storedIn = (node: NodeProcess) =>
  footageOf(node).flatMap((file) => readFootage(file).frames).toSorted((a, b) => a.wallMs - b.wallMs)

/** The last seconds before it was killed lie at one node and what follows at the other: a player by RTSP gets all of both. */
const spread = async (here: NodeProcess, there: NodeProcess, { recordingToken, streamId }: Recorded) => {
  const [before, after] = [storedIn(here), storedIn(there)]
  const keys = footageOf(here).flatMap((file) => readFootage(file).fragments.filter(({ key }) => key))
  const fromMs = Math.max(...keys.flatMap(({ startMs }) => startMs < before.at(-1)!.wallMs - 3_000 ? [startMs] : []))
  const last = after[Math.min(after.length - 1, 100)]!
  const within = [...before, ...after].filter(({ wallMs }) => wallMs > fromMs - 5 && wallMs <= last.wallMs)
  const wanted = new Set(within.map(({ frame }) => frame))
  expect(after.filter(({ frame }) => wanted.has(frame)).length).toBeGreaterThan(25)
  const query = `start=${asInstant(fromMs)}&end=${asInstant(Math.ceil(last.wallMs) + 5)}&`
  for (const node of [there, here]) {
    const { rtspUrl } = (await node.callSoon("GET", `/camera/api/v1/streams/${streamId}/media-path`)) as MediaPath
    const url = rtspUrl.replace(`/live/${streamId}?`, `/recording/${recordingToken}?${query}`)
    const pictures = async () => {
      try {
        return probed(url, 120).pictures
      } catch {
        return 0
      }
    }
    await until(`${wanted.size} pictures of both nodes`, pictures, (many) => many === wanted.size)
  }
  const home = framesIn(footageOf(here))
  expect(after.filter(({ frame }) => home.has(frame))).toEqual([])
}

interface GuardTold extends ProtectionTold {
  readonly nodeId: string
  readonly class: string
  readonly rank: number
  readonly sources: { readonly protection: string; readonly class: string; readonly rank: string }
}
const guardedBy = async (node: NodeProcess, nodeId: string) =>
  (await listed<GuardTold>(node, `${failover}/protections`)).find((one) => one.nodeId === nodeId)

/** They guard each other without anybody's word, and it is told why. */
const protectedOf = async (here: NodeProcess, there: NodeProcess, hereId: string, thereId: string, cameras: number) => {
  await there.call("PUT", `${failover}/settings`, { stableMs: 2_000, overlapMs: 3_000, expectedOutageHours: 1 })
  const first = await until("a guardian", () => guardedBy(there, hereId), (one) => one !== undefined)
  expect(first).toMatchObject({
    class: "warm",
    rank: 0,
    sources: { protection: "default", class: "default", rank: "computed" },
  })
  expect(await there.call("GET", `${failover}/settings`)).toMatchObject({
    settings: { guardMembers: true, memberClass: "warm", memberGuardians: 2 },
    sources: { guardMembers: "default", stableMs: "set" },
  })
  await until("the other way round", () => guardedBy(here, thereId), (one) => one !== undefined)
  const { id } = first!
  await until(
    "its configuration and its cameras looked at",
    async () => (await there.call("GET", `${failover}/protections/${id}`)) as ProtectionTold,
    ({ need, sessions, snapshot }) => need.cameras === cameras && !snapshot.stale && sessions.length === cameras,
  )
  await untilState(there, id, "protected")
  expect(await there.call("GET", `${failover}/status`)).toMatchObject({ badge: "ready", unguarded: [] })
  return id
}

/** What a person says of it stands: a class of the home node's settings, one given here, and that it shall not be. */
const chosen = async (here: NodeProcess, there: NodeProcess, hereId: string, id: string) => {
  await here.call("PUT", `${failover}/settings`, { memberClass: "shadow" })
  const told = await until(
    "the class that was set at home",
    () => guardedBy(there, hereId),
    (one) => one?.class === "shadow",
  )
  expect(told).toMatchObject({ id, sources: { protection: "default", class: "set" } })
  const asked = { nodeId: hereId, automatic: true, class: "warm", rank: 1 }
  expect(await there.call("POST", `${failover}/protections`, asked)).toMatchObject({
    id,
    class: "warm",
    rank: 1,
    sources: { protection: "set", class: "set", rank: "set" },
  })
  expect(await there.ask("POST", `${failover}/protections`, asked)).toMatchObject({ status: 409 })
  await there.call("DELETE", `${failover}/protections/${id}`)
  const again = await until(
    "the default once more",
    () => guardedBy(there, hereId),
    (one) => one !== undefined && one.id !== id,
  )
  await there.call("DELETE", `${failover}/protections/${again!.id}`)
  await until("its end", () => guardedBy(there, hereId), (one) => one === undefined)
  expect(await there.call("GET", `${failover}/settings`)).toMatchObject({
    settings: { membersNotGuarded: [hereId], stableMs: 2_000 },
  })
  expect(await there.call("GET", `${failover}/status`)).toMatchObject({ unguarded: [{ name: "here" }] })
}

const killed = async (here: NodeProcess, there: NodeProcess, one: Recorded) => {
  await here.kill()
  const begun = performance.now()
  const refused = await there.ask("POST", `/camera/api/v1/cameras/${one.cameraId}/channels`, { name: "more" })
  // Given up by name long before it would be given up by the engine, unless it is served anew already.
  expect([503, 422, 201]).toContain(refused.status)
  if (refused.status === 503) expect(JSON.stringify(refused.body)).toContain("here")
  expect(performance.now() - begun).toBeLessThan(12_000)
  const [reroute] = await until(
    "a takeover with its gap",
    () => listed<RerouteTold>(there, `${failover}/reroutes`),
    (all) => all[0]?.state === "serving" && all[0].gapMs !== null,
  )
  expect(footageOf(there).length).toBeGreaterThan(0)
  expect(await there.callSoon("GET", `/camera/api/v1/cameras/${one.cameraId}`)).toMatchObject({ name: "gate" })
  return reroute!
}

it("a node that was approved shows another's camera, records it when that one is killed, and brings it home", {
  timeout: 360_000,
}, async () => {
  const folder = mkdtempSync(join(tmpdir(), "nightjar-failover-"))
  const [postgres, cameras]: [Awaited<ReturnType<typeof startPostgres>>, Cameras] = await Promise.all([
    startPostgres(join(folder, "postgres")),
    startCameras(1, ["--auth", "digest", "--password", "pass of the camera"]),
  ])
  const settings = {
    NIGHTJAR_DATABASE_URL: postgres.url,
    NIGHTJAR_ADMIN_PASSWORD: "correct horse battery",
    NIGHTJAR_WEBRTC_UDP_PORTS: "0",
  }
  const here = await makeNode(join(folder, "here"), { ...settings, NIGHTJAR_NODE_NAME: "here" })
  const there = await makeNode(join(folder, "there"), { ...settings, NIGHTJAR_NODE_NAME: "there" })
  try {
    const { hereId, thereId } = await joined(here, there)
    const { password, username } = cameras
    const gate = await record(here, { name: "gate", sourceUrl: cameras.urls[0]!, username, password })
    await until("footage here", () => Promise.resolve(footageOf(here)), (files) => files.length > 0)
    expect(footageOf(there)).toEqual([])
    await watched(there, gate)
    expect(await replayed(there, gate)).toBeGreaterThan(25)

    const protection = await protectedOf(here, there, hereId, thereId, 1)
    const reroute = await killed(here, there, gate)
    const taken = framesIn(footageOf(there))
    expect(await replayed(there, gate)).toBeGreaterThan(1)

    // Nothing goes home before it was played from where it is.
    await there.call("PUT", `${failover}/settings`, { stableMs: 600_000 })
    here.launch()
    await spread(here, there, gate)
    await there.call("PUT", `${failover}/settings`, { stableMs: 2_000 })
    await until(
      "footage at home again",
      () => listed<RerouteTold>(there, `${failover}/reroutes`),
      (all) => all.some(({ id, state }) => id === reroute.id && state === "done"),
    )
    await untilState(there, protection, "protected")
    const home = framesIn(footageOf(here))
    expect([...taken].filter((frame) => !home.has(frame))).toEqual([])
    expect(await replayed(there, gate)).toBeGreaterThan(taken.size)
    await until("nothing left there", () => Promise.resolve(footageOf(there)), (files) => files.length === 0)
    await chosen(here, there, hereId, protection)
  } finally {
    await Promise.all([here.stop(), there.stop(), cameras.stop()])
    await postgres.end()
    rmSync(folder, { recursive: true, force: true })
  }
})
