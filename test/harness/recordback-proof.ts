/**
 * Footage comes home between two real nodes, both killed on the way: each segment's bytes, what was sent twice, memory, and the pace and
 * the work beside a plain copy of the same files over TLS on the same machine: encrypted beside encrypted.
 *
 * The nodes are members of one cluster. What the serving node recorded is written to its disk beforehand, in the form of a recorder.
 */
import type { FileIdentity, Storage } from "#media/storage.ts"
import { EmbeddedPostgres } from "#ops/host/postgres.ts"
import {
  allTime,
  type ChannelId,
  NodeId,
  type RecordingId,
  type RecordingToken,
  type StreamId,
} from "#schema/common.ts"
import { PgClient } from "@effect/sql-pg"
import { Context, Effect, Exit, Layer, Logger, Redacted, Scope } from "effect"
import { createHash, randomBytes } from "node:crypto"
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { open } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { cpuSeconds } from "../bench/usage.ts"
import { fragmentsFrom, parameters } from "../media/made-up-files.ts"
import { life, optionsIn } from "../media/storage-life.ts"
import { watchMemory } from "./memory.ts"
import { makeNode, type NodeProcess, sleep } from "./node-process.ts"
import { postgresLayer } from "./postgres.ts"
import type { Report } from "./report.ts"
import { tlsCopy } from "./tls-copy.ts"

export interface RecordBackProofOptions {
  readonly gib: number
  /** Of each node. */
  readonly kills: number
}

const reroute = "01934b3e-1000-7000-8000-000000000001"
const api = "/federation/api/v1/federation/failover/recordback"
const mebibyte = 1 << 20
/** Seconds of a file, at a MiB each. */
const fileSeconds = 60

interface Job {
  readonly state: string
  readonly reason: string
  readonly segmentsDone: number
  readonly segmentsTotal: number
  readonly bytesDone: number
  readonly bytesTotal: number
}

interface Stage {
  readonly folder: string
  readonly home: NodeProcess
  readonly serving: NodeProcess
  readonly url: Redacted.Redacted
}

const query = <A>(url: Redacted.Redacted, use: (sql: PgClient.PgClient) => Effect.Effect<A, unknown>): Promise<A> =>
  Effect.runPromise(Effect.flatMap(PgClient.PgClient, use).pipe(Effect.provide(PgClient.layer({ url })), Effect.orDie))

const idOf = (node: NodeProcess): NodeId => {
  const { nodeId } = JSON.parse(readFileSync(join(node.data, "identity.json"), "utf8")) as { readonly nodeId: string }
  return NodeId.make(nodeId)
}

/** The disk of a node, while no process of it runs. */
const disk = <A>(folder: string, use: (storage: Storage["Service"]) => Effect.Effect<A, unknown>): Promise<A> =>
  Effect.runPromise(Effect.orDie(life(optionsIn(folder), use)).pipe(Effect.provide(Logger.layer([]))))

/** A recording at home, as the interface makes it. */
const record = async (home: NodeProcess): Promise<Omit<FileIdentity, "nodeId" | "epoch">> => {
  const camera = await home.call("POST", "/camera/api/v1/cameras", {
    name: "Yard",
    driver: "rtsp",
    streams: [{ role: "main", sourceUrl: "rtsp://127.0.0.1:9/none" }],
  }) as { readonly channels: ReadonlyArray<{ id: ChannelId; streams: ReadonlyArray<{ id: StreamId }> }> }
  const channel = camera.channels[0]!
  const made = await home.call("POST", "/record/api/v1/recordings", {
    channelId: channel.id,
    mode: "continuous",
    enabled: true,
    retentionDays: 30,
  }) as { readonly id: RecordingId; readonly recordingToken: RecordingToken }
  return {
    recordingId: made.id,
    recordingToken: made.recordingToken,
    channelId: channel.id,
    streamId: channel.streams[0]!.id,
  }
}

/** What the other node recorded meanwhile, sealed files of a minute. */
const writeFootage = (folder: string, identity: FileIdentity, seconds: number, startMs: number) =>
  disk(folder, (storage) =>
    Effect.gen(function*() {
      for (let at = 0, sequence = 0; at < seconds; at += fileSeconds, sequence++) {
        const from = startMs + at * 1000
        const writer = yield* storage.create(identity, parameters, { sequence, startMs: from })
        for (const fragment of fragmentsFrom(from, Math.min(fileSeconds, seconds - at), 104_000)) {
          while (!writer.append(fragment)) yield* Effect.sleep(5)
        }
        yield* writer.seal
      }
    }))

/** SHA-256 of every fragment that a node recorded, by its start. */
const hashes = (folder: string, recordingId: RecordingId, recorder: NodeId) =>
  disk(folder, (storage) =>
    Effect.gen(function*() {
      const found = new Map<number, string>()
      let twice = 0
      for (const file of storage.files(recordingId, allTime).filter(({ nodeId }) => nodeId === recorder)) {
        const index = yield* storage.index(file)
        yield* Effect.promise(async () => {
          const handle = await open(storage.path(file), "r")
          const buffer = Buffer.alloc(2 * mebibyte)
          for (const { bytes, offset, startMs } of index) {
            await handle.read(buffer, 0, bytes, offset)
            if (found.has(startMs)) twice++
            found.set(startMs, createHash("sha256").update(buffer.subarray(0, bytes)).digest("hex"))
          }
          await handle.close()
        })
      }
      return { found, twice }
    }))

const setUp = async (folder: string, scope: Scope.Closeable): Promise<Stage> => {
  const postgres = await Effect.runPromise(
    Layer.buildWithScope(postgresLayer({ dataFolder: join(folder, "pg"), copies: join(folder, "copies") }), scope).pipe(
      Effect.provide(Logger.layer([])),
    ),
  )
  const url = await Effect.runPromise(Context.get(postgres, EmbeddedPostgres).url)
  const settings = {
    NIGHTJAR_DATABASE_URL: Redacted.value(url),
    NIGHTJAR_CLUSTER_SECRET: randomBytes(32).toString("base64"),
  }
  const node = async (name: string) => {
    const root = join(folder, name)
    const at = { ...settings, NIGHTJAR_STORAGE: `main=${join(root, "main")}:0.1` }
    return makeNode(root, at)
  }
  const home = await node("home")
  const serving = await node("serving")
  return { folder, home, serving, url }
}

/** The state after a reroute: the home slot was served with 2 by the other node, and is with 3 by its home again. */
const arrange = async ({ folder, home, serving, url }: Stage, { gib }: RecordBackProofOptions) => {
  await home.start()
  await serving.start()
  const whose = await record(home)
  // What is killed comes back by itself here, and nobody stands in for it meanwhile.
  await home.call("PUT", "/federation/api/v1/federation/failover/settings", { guardMembers: false })
  await Promise.all([home.stop(), serving.stop()])
  const [homeId, servingId] = [idOf(home), idOf(serving)]
  const seconds = Math.max(fileSeconds, Math.round(gib * 1024))
  const startMs = Date.now() - 5 * 86_400_000
  // The registry that a node keeps of its folders lies in its data folder: the disk's marker is what counts.
  await writeFootage(join(folder, "serving"), { ...whose, nodeId: servingId, epoch: 2 }, seconds, startMs)
  const before = await hashes(join(folder, "serving"), whose.recordingId, servingId)
  await query(url, (sql) =>
    Effect.gen(function*() {
      const [row] = yield* sql<{ readonly slot: string }>`SELECT slot FROM node WHERE node_id = ${homeId}`
      yield* sql`UPDATE group_owner SET epoch = 3 WHERE slot = ${row!.slot}`
      yield* sql`
        INSERT INTO recordback_job (id, node_id, home_node_id, slot, first_epoch, last_epoch, state, attempt, refusals, reason, created_at)
        VALUES (${reroute}, ${servingId}, ${homeId}, ${row!.slot}, 2, 2, 'pending', 0, 0, '', now())`
    }))
  return { whose, homeId, servingId, before: before.found, seconds }
}

/** Asked of the serving node, by a token that either gives: they have one list of users. */
const makeJobOf = ({ home, serving }: Stage) => {
  let token = ""
  let said = ""
  const asked = async (): Promise<Job | null | undefined> => {
    const headers = { authorization: `Bearer ${token}` }
    const answer = await fetch(`${serving.url}${api}/jobs`, { headers, signal: AbortSignal.timeout(15_000) })
    if (answer.ok) return ((await answer.json()) as { readonly items: ReadonlyArray<Job> }).items[0] ?? null
    said = await answer.text()
    if (answer.status !== 401) return undefined
    const login = { username: "admin", password: home.password }
    const signedIn = await serving.ask("POST", "/auth/api/v1/auth/login", login)
    if (signedIn.status === 200) token = (signedIn.body as { readonly accessToken: string }).accessToken
    said = JSON.stringify(signedIn.body)
    return undefined
  }
  return async (): Promise<Job | null> => {
    const begun = performance.now()
    while (performance.now() - begun < 90_000) {
      // It was killed a moment ago, perhaps.
      const job = await asked().catch((error: unknown) => {
        said = String(error)
        return undefined
      })
      if (job !== undefined) return job
      await sleep(300)
    }
    const end = readFileSync(serving.log, "utf8").slice(-3_000)
    throw new Error(`the serving node does not tell its job: ${said}\n${end}`)
  }
}

/** Drives it to its end, killing one node and then the other at even steps. */
const bringHome = async (stage: Stage, kills: number, report: Report, moving: (job: Job) => void): Promise<Job> => {
  const { home, serving } = stage
  const jobOf = makeJobOf(stage)
  const victims = Array.from({ length: kills }, () => [serving, home]).flat()
  let next = 0
  let moves = false
  while (true) {
    const job = await jobOf()
    if (!moves && job !== null && job.bytesDone > 0) {
      moves = true
      moving(job)
    }
    if (job !== null && ["done", "partial", "failed"].includes(job.state)) return job
    const part = job === null || job.bytesTotal === 0 ? 0 : job.bytesDone / job.bytesTotal
    if (next < victims.length && job?.state === "transferring" && part >= (next + 0.5) / (victims.length + 1)) {
      const victim = victims[next++]!
      report.say(`kill -9 of the ${victim === home ? "home" : "serving"} node at ${Math.round(part * 100)}%`)
      await victim.kill()
      await victim.start()
    }
    await sleep(500)
  }
}

/** Segments that the home node answered for, over all its lives. */
const takenBy = (home: NodeProcess): number =>
  readFileSync(home.log, "utf8").split("\n").filter((line) => line.includes(`POST ${api}/segments 200`)).length

/** What the log warns of, a few of each node. */
const warnings = (node: NodeProcess): string =>
  readFileSync(node.log, "utf8").split("\n").filter((line) => /^\S+ (WARN|ERROR)/.test(line)).slice(-5).join(" | ")

export const proveRecordBack = async (report: Report, options: RecordBackProofOptions): Promise<void> => {
  const folder = mkdtempSync(join(tmpdir(), "nightjar-recordback-proof-"))
  const scope = Effect.runSync(Scope.make())
  const stage = await setUp(folder, scope)
  const { home, serving, url } = stage
  try {
    const { before, servingId, whose } = await arrange(stage, options)
    const source = join(folder, "serving", "main", whose.recordingId)
    const copied = await tlsCopy(source, folder)
    report.say(
      `a plain copy over TLS, synced: ${(copied.bytesPerSecond / mebibyte).toFixed(0)} MiB/s, ` +
        `${copied.cpuPerGib.toFixed(2)} s of CPU a GiB`,
    )
    await home.start()
    const watches = [watchMemory(home, 500), watchMemory(serving, 500)]
    await serving.start()
    const begun = performance.now()
    let began = { atMs: begun, bytes: 0, cpu: 0 }
    const work = () => cpuSeconds([...home.roots().node, ...serving.roots().node])
    const job = await bringHome(stage, options.kills, report, (first) => {
      watches.forEach((watch) => watch.settle())
      began = { atMs: performance.now(), bytes: first.bytesDone, cpu: work() }
    })
    const cpu = work() - began.cpu
    const seconds = (performance.now() - begun) / 1000
    report.check(job.state === "done", `it ended ${job.state}: ${job.reason}; ${warnings(serving)}`)
    const rate = (job.bytesTotal - began.bytes) * 1000 / (performance.now() - began.atMs)
    report.say(
      `${(job.bytesTotal / 2 ** 30).toFixed(2)} GiB in ${job.segmentsTotal} segments, ${
        seconds.toFixed(1)
      } s with planning and all deaths; from the first file on ` +
        `${(rate / mebibyte).toFixed(0)} MiB/s, ${(rate / copied.bytesPerSecond * 100).toFixed(0)}% of the plain copy`,
    )
    // A process that was killed took its figure with it.
    if (options.kills === 0) {
      const perGib = cpu * 2 ** 30 / Math.max(1, job.bytesTotal - began.bytes)
      report.say(
        `CPU of both nodes: ${perGib.toFixed(2)} s a GiB, ${(perGib / copied.cpuPerGib).toFixed(1)} times the copy's`,
      )
    }
    const [ofHome, ofServing] = watches.map((watch) => watch.stop())
    report.say(`memory of the home node: ${ofHome!.text}`)
    report.say(`memory of the serving node: ${ofServing!.text}`)
    const twice = takenBy(home) - job.segmentsTotal
    report.say(`segments answered beyond those there are: ${Math.max(0, twice)}`)
    report.check(twice <= 3 * 2 * options.kills, `${twice} segments came twice`)
    const receipts = await query(url, (sql) =>
      Effect.map(
        sql<
          { readonly n: number }
        >`SELECT count(*)::integer AS n FROM recordback_segment WHERE state = 'home' AND receipt IS NOT NULL`,
        ([row]) => row?.n ?? 0,
      ))
    report.check(receipts === job.segmentsTotal, `${receipts} receipts for ${job.segmentsTotal} segments`)
    // It stays a little while for players that were told of it before.
    const isBehind = () => readdirSync(join(folder, "serving", "main")).includes(whose.recordingId)
    for (let seconds = 0; isBehind() && seconds < 90; seconds++) await sleep(1000)
    report.check(!isBehind(), "footage stayed behind")
    await Promise.all([home.stop(), serving.stop()])
    const after = await hashes(join(folder, "home"), whose.recordingId, servingId)
    report.check(after.twice === 0, `${after.twice} fragments are there twice`)
    report.check(after.found.size === before.size, `${after.found.size} fragments of ${before.size}`)
    let other = 0
    for (const [startMs, sha256] of before) if (after.found.get(startMs) !== sha256) other++
    report.check(other === 0, `${other} fragments have other bytes`)
    report.say(`${after.found.size} fragments, each SHA-256 equal`)
  } finally {
    await Promise.all([home.stop(), serving.stop()])
    await Effect.runPromise(Scope.close(scope, Exit.void))
    rmSync(folder, { recursive: true, force: true })
  }
}
