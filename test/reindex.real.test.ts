/**
 * A lost database: a real node records two simulated cameras, loses its PostgreSQL whole, and has everything back from its disks by
 * `nightjar doctor --reindex`: cameras, recordings, coverage, timeline, rows of files, playlists.
 */
import { layerClient } from "#ops/database.ts"
import { assert, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { record, type Recorded, startCameras } from "./harness/cameras.ts"
import { makeNode, type NodeProcess, sleep } from "./harness/node-process.ts"

const until = async <A>(what: string, look: () => Promise<A>, holds: (found: A) => boolean): Promise<A> => {
  const begun = performance.now()
  while (true) {
    const found = await look()
    if (holds(found)) return found
    if (performance.now() - begun > 20_000) throw new Error(`never came: ${what}; the last: ${JSON.stringify(found)}`)
    await sleep(100)
  }
}

const sql = <A>(node: NodeProcess, query: (client: SqlClient.SqlClient) => Effect.Effect<A, unknown>): Promise<A> => {
  const kept = (name: string) => readFileSync(join(node.data, "postgres", name), "utf8").trim()
  const url = Redacted.make(`postgres://nightjar:${kept("password")}@127.0.0.1:${kept("port")}/nightjar`)
  return Effect.runPromise(
    Effect.flatMap(SqlClient.SqlClient, query).pipe(
      Effect.provide(layerClient({ url, applicationName: "test", maxConnections: 1 })),
      Effect.orDie,
    ),
  )
}

interface Coverage {
  readonly expectedMs: number
  readonly recordedMs: number
  readonly gaps: ReadonlyArray<unknown>
}

const coverage = async (node: NodeProcess, { recordingId }: Recorded, start: number, end: number) =>
  (await node.callSoon(
    "GET",
    `/record/api/v1/recordings/${recordingId}/coverage?start=${new Date(start).toISOString()}&end=${
      new Date(end).toISOString()
    }`,
  )) as Coverage

/** What the index tells of sealed files and closed gaps, by id. */
const rows = (node: NodeProcess) =>
  sql(node, (client) =>
    Effect.all({
      files: client<{ readonly id: string; readonly recording_id: string }>`
        SELECT * FROM segment_file WHERE sealed ORDER BY id`,
      gaps: client<{ readonly id: string }>`
        SELECT id, recording_id, node_id, start_at, end_at, cause, detail FROM recording_gap
        WHERE end_at IS NOT NULL ORDER BY id`,
    }))

interface Shown {
  readonly name: string
  readonly enabled: boolean
}

/** From `start` on; a playlist of what was over 10 s ago is complete and does not change any more. */
const replayedMs = 4_000
const settledMs = 10_000

/** Everything a person sees of a recording between two moments of the past. */
const shown = async (node: NodeProcess, recorded: Recorded, start: number, end: number) => {
  const [from, to] = [new Date(start).toISOString(), new Date(end).toISOString()]
  const search = `/search/api/v1/recordings/${recorded.recordingToken}`
  const { uri } = (await node.callSoon("POST", "/replay/api/v1/replay/uri", {
    recordingToken: recorded.recordingToken,
    start: from,
    end: new Date(start + replayedMs).toISOString(),
  })) as { readonly uri: string }
  const playlist = await node.call("GET", uri.replace("master", "playlist")) as string
  const segment = playlist.split("\n").find((line) => line !== "" && !line.startsWith("#"))!
  return {
    createdAt: (await node.call("GET", `/record/api/v1/recordings/${recorded.recordingId}`) as {
      readonly createdAt: string
    }).createdAt,
    coverage: await coverage(node, recorded, start, end),
    timeline: await node.call("GET", `${search}/timeline?start=${from}&end=${to}`),
    playlist,
    segment: (await node.ask("GET", uri.replace("master.m3u8", segment))).status,
  }
}

const camera = async (node: NodeProcess, { cameraId }: Recorded) => {
  const { channels, enabled, hasPassword, name, username } =
    (await node.call("GET", `/camera/api/v1/cameras/${cameraId}`)) as Shown & {
      readonly username: string
      readonly hasPassword: boolean
      readonly channels: ReadonlyArray<{
        readonly id: string
        readonly name: string
        readonly streams: ReadonlyArray<{ readonly id: string; readonly role: string; readonly sourceUrl: string }>
      }>
    }
  const parts = channels.map((channel) => ({
    id: channel.id,
    name: channel.name,
    streams: channel.streams.map(({ id, role, sourceUrl }) => ({ id, role, sourceUrl })),
  }))
  return { name, enabled, username, hasPassword, parts }
}

/** Bytes of each media file on the disk. */
const footageOn = (node: NodeProcess): ReadonlyMap<string, number> =>
  new Map(
    readdirSync(join(node.data, "footage"), { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".mp4"))
      .map((name) => [name, statSync(join(node.data, "footage", name)).size]),
  )

/** The assignment file as after a loss: only footage tells of this camera. */
const forgetAssignment = (node: NodeProcess, { cameraId }: Recorded): void => {
  const file = join(node.data, "assignments.json")
  const kept = JSON.parse(readFileSync(file, "utf8")) as { assignments: ReadonlyArray<{ readonly cameraId: string }> }
  kept.assignments = kept.assignments.filter((one) => one.cameraId !== cameraId)
  writeFileSync(file, JSON.stringify(kept))
}

it("brings everything back from the disks when the database is lost", { timeout: 180_000 }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "nightjar-reindex-"))
  const cameras = await startCameras(2, ["--auth", "digest", "--sub", "none"])
  const node = await makeNode(folder)
  try {
    const { password, username } = cameras
    await node.start()
    const [yard, shed] = [
      await record(node, { name: "Yard", sourceUrl: cameras.urls[0]!, username, password }),
      await record(node, { name: "Shed", sourceUrl: cameras.urls[1]!, username, password }),
    ]
    const begun = Math.min(yard.createdMs, shed.createdMs) - 1_000
    for (const one of [yard, shed]) {
      await until(
        "two seconds of footage",
        () => coverage(node, one, begun, Date.now()),
        ({ recordedMs }) => recordedMs > 3_000,
      )
    }
    await node.stop()
    const ended = Date.now()

    // A second life, so that there are sealed files with rows and a gap with a cause.
    await node.start()
    for (const one of [yard, shed]) {
      await until("more footage", () => coverage(node, one, ended, Date.now()), ({ recordedMs }) => recordedMs > 500)
    }
    await sleep(Math.max(0, begun + replayedMs + settledMs + 100 - Date.now()))
    const before = {
      rows: await until("rows", () => rows(node), ({ files, gaps }) => files.length >= 2 && gaps.length >= 4),
      yard: await shown(node, yard, begun, ended),
      shed: await shown(node, shed, begun, ended),
      camera: await camera(node, yard),
    }
    assert.isAbove(before.yard.coverage.recordedMs, 2_000)
    assert.isNotEmpty(before.yard.coverage.gaps)
    assert.strictEqual(before.yard.segment, 200)
    await node.stop()

    const stored = footageOn(node)
    rmSync(join(node.data, "postgres"), { recursive: true })
    forgetAssignment(node, shed)
    await node.start()
    await until(
      "the line that tells of it",
      () => Promise.resolve(readFileSync(node.log, "utf8")),
      (log) => log.includes("nightjar doctor --reindex"),
    )
    const empty = await node.callSoon("GET", "/record/api/v1/recordings") as { readonly items: ReadonlyArray<unknown> }
    assert.lengthOf(empty.items, 0)
    const grown = await until(
      "the capture to go on",
      () => Promise.resolve(footageOn(node)),
      (now) => now.size > stored.size,
    )
    await until(
      "footage of this life",
      () => Promise.resolve([...footageOn(node)]),
      (all) => all.some(([name, bytes]) => !stored.has(name) && bytes > 50_000),
    )
    const capturing = Date.now()
    for (const [name, bytes] of stored) assert.strictEqual(grown.get(name), bytes, name)

    const foreign = join(node.data, "footage", "holiday.mp4")
    writeFileSync(foreign, "not ours")
    const { code, errors, out } = await node.command("doctor", "--reindex", "--json")
    assert.strictEqual(code, 0, errors)
    const { report, state } = JSON.parse(out) as {
      readonly state: string
      readonly report: {
        readonly files: number
        readonly added: number
        readonly recordingsRecovered: number
        readonly recovered: ReadonlyArray<{ readonly name: string; readonly working: boolean }>
        readonly leftAlone: ReadonlyArray<{ readonly path: string }>
      }
    }
    assert.strictEqual(state, "ready")
    assert.isAbove(report.files, stored.size)
    assert.deepInclude(report, { added: report.files, recordingsRecovered: 2 })
    assert.deepStrictEqual(report.recovered.map(({ name, working }) => [name, working]), [["Yard", true], [
      "Shed",
      false,
    ]])
    assert.deepStrictEqual(report.leftAlone.map((one) => one.path), [foreign])

    assert.deepStrictEqual(await shown(node, yard, begun, ended), before.yard)
    assert.deepStrictEqual(await shown(node, shed, begun, ended), before.shed)
    const after = await rows(node)
    const known = <A extends { readonly id: string }>(all: ReadonlyArray<A>, of: ReadonlyArray<A>) =>
      all.filter(({ id }) => of.some((one) => one.id === id))
    assert.deepStrictEqual(known(after.files, before.rows.files), before.rows.files)
    assert.deepStrictEqual(known(after.gaps, before.rows.gaps), before.rows.gaps)
    assert.deepStrictEqual(await camera(node, yard), before.camera)
    assert.deepInclude(await camera(node, shed), { name: "Shed", enabled: false })
    await until(
      "its state",
      () => node.call("GET", `/record/api/v1/recordings/${yard.recordingId}`),
      (found) => (found as { readonly state: string }).state === "recording",
    )
    const now = Date.now()
    await until(
      "footage that goes on",
      () => coverage(node, yard, now, Date.now() + 1_000),
      (found) => found.recordedMs > 500,
    )
    // The capture never stopped.
    const whole = await coverage(node, yard, capturing, now)
    assert.strictEqual(whole.recordedMs, whole.expectedMs)
    assert.strictEqual(whole.expectedMs, now - capturing)

    // Once more: there is nothing left to do.
    const begin = () => node.call("POST", "/record/api/v1/storage/index/rebuild") as Promise<{ readonly id: string }>
    const job = await begin()
    const again = await until(
      "the second rebuild",
      () => node.call("GET", `/record/api/v1/storage/index/rebuild/${job.id}`),
      (found) => (found as { readonly state: string }).state !== "running",
    ) as { readonly report: unknown }
    assert.deepInclude(again.report, { removed: 0, recordingsRecovered: 0, camerasRecovered: 0 })
    await node.stop()
    const without = await node.command("doctor", "--reindex")
    assert.strictEqual(without.code, 3)
    assert.match(without.errors + without.out, /does not answer; is it running/)
  } finally {
    await node.stop()
    await cameras.stop()
    rmSync(folder, { recursive: true, force: true })
  }
})
