/** Two whole nodes with keys of their own on one PostgreSQL: one joins by approval, and serves the other's camera when that is gone. */
import { layerClient } from "#ops/database.ts"
import { expect, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { record, startCameras } from "../harness/cameras.ts"
import { startPostgres } from "../harness/event-maker.ts"
import { listFootage } from "../harness/footage.ts"
import { makeNode, type NodeProcess, sleep } from "../harness/node-process.ts"

interface Shown {
  readonly nodeId: string
  readonly name: string
  readonly slot: string
  readonly fingerprint: string
  readonly admitted: boolean
}

const members = async (node: NodeProcess): Promise<ReadonlyArray<Shown>> =>
  ((await node.callSoon("GET", "/federation/api/v1/federation/members")) as { readonly items: ReadonlyArray<Shown> })
    .items

/** Again and again for at most a minute. */
const until = async <A>(what: string, ask: () => Promise<A>, holds: (answer: A) => boolean): Promise<A> => {
  const begun = performance.now()
  while (true) {
    const answer = await ask()
    if (holds(answer)) return answer
    if (performance.now() - begun > 60_000) throw new Error(`never came: ${what}; ${JSON.stringify(answer)}`)
    await sleep(200)
  }
}

it("a node that was approved opens the password of another's camera and records it when the other is killed", {
  timeout: 240_000,
}, async () => {
  const folder = mkdtempSync(join(tmpdir(), "nightjar-failover-"))
  const [postgres, cameras] = await Promise.all([
    startPostgres(join(folder, "postgres")),
    startCameras(1, ["--auth", "digest", "--password", "pass of the camera"]),
  ])
  const settings = { NIGHTJAR_DATABASE_URL: postgres.url, NIGHTJAR_ADMIN_PASSWORD: "correct horse battery" }
  const here = await makeNode(join(folder, "here"), { ...settings, NIGHTJAR_NODE_NAME: "here" })
  const there = await makeNode(join(folder, "there"), { ...settings, NIGHTJAR_NODE_NAME: "there" })
  try {
    await here.start()
    await there.start()
    const [first, second] = await until("both in the list", () => members(here), (all) => all.length === 2)
    expect([first, second]).toMatchObject([{ name: "here", admitted: true }, { name: "there", admitted: false }])
    const approve = (fingerprint: string) =>
      here.ask("POST", `/federation/api/v1/federation/nodes/${second!.nodeId}/approve`, { fingerprint })
    expect((await approve(first!.fingerprint)).status).toBe(409)
    expect(await approve(second!.fingerprint)).toMatchObject({ status: 200, body: { admitted: true } })
    await until("the other knows", () => members(there), (all) => all.every((one) => one.admitted))

    const { cameraId, recordingId } = await record(here, {
      name: "gate",
      sourceUrl: cameras.urls[0]!,
      username: cameras.username,
      password: cameras.password,
    })
    await until("footage here", () => Promise.resolve(listFootage(here.data)), (files) => files.length > 0)
    expect(listFootage(there.data)).toEqual([])

    await here.kill()
    const moved = await Effect.runPromise(
      Effect.flatMap(SqlClient.SqlClient, (sql) =>
        sql`
          UPDATE group_owner SET node_id = ${second!.nodeId}, epoch = epoch + 1
          WHERE slot = ${first!.slot} AND epoch = 1 RETURNING epoch`).pipe(
          Effect.provide(layerClient({ url: Redacted.make(postgres.url), applicationName: "test", maxConnections: 1 })),
          Effect.scoped,
        ),
    )
    expect(moved.length).toBe(1)
    await until("footage there", () => Promise.resolve(listFootage(there.data)), (files) => files.length > 0)
    expect(await there.callSoon("GET", `/camera/api/v1/cameras/${cameraId}`)).toMatchObject({ name: "gate" })
    expect(await there.callSoon("GET", `/record/api/v1/recordings/${recordingId}`)).toMatchObject({ id: recordingId })
  } finally {
    await Promise.all([here.stop(), there.stop(), cameras.stop()])
    await postgres.end()
    rmSync(folder, { recursive: true, force: true })
  }
})
