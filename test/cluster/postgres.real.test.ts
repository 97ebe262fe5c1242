/** The embedded PostgreSQL: first start, restart, adoption after a crash of the node, death and return, login rules. */
import { migrate } from "#ops/database.ts"
import { packageFolder, prepareBinaries } from "#ops/host/postgres-binaries.ts"
import { alive, parsePidFile } from "#ops/host/postgres-process.ts"
import { EmbeddedPostgres, layer, type PostgresState } from "#ops/host/postgres.ts"
import { PgClient } from "@effect/sql-pg"
import { expect, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Layer, Redacted, Scope, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { execFileSync } from "node:child_process"
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"

const temporaryFolder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "nightjar-postgres-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true })),
)

/** One life of a node's server: `end` is the clean end. */
const startServer = (dataFolder: string) =>
  Effect.gen(function*() {
    const scope = yield* Scope.make()
    yield* Effect.addFinalizer(() => Scope.close(scope, Exit.void))
    const context = yield* Layer.buildWithScope(layer({ dataFolder, copies: join(dataFolder, "copies") }), scope)
    const server = yield* EmbeddedPostgres.pipe(Effect.provide(context))
    return { server, end: Scope.close(scope, Exit.void) }
  })

const running = (server: EmbeddedPostgres["Service"]) =>
  server.changes.pipe(
    Stream.filter((state): state is Extract<PostgresState, { _tag: "Running" }> => state._tag === "Running"),
    Stream.runHead,
    Effect.map((found) => {
      if (found._tag === "None") throw new Error("the server never ran")
      return found.value
    }),
  )

const query = <A, E>(server: EmbeddedPostgres["Service"], use: Effect.Effect<A, E, SqlClient.SqlClient>) =>
  Effect.flatMap(
    server.url,
    (url) => use.pipe(Effect.provide(PgClient.layer({ url, maxConnections: 2, connectTimeout: "5 seconds" }))),
  )

const put = (n: number) => Effect.flatMap(SqlClient.SqlClient, (sql) => sql`INSERT INTO kept VALUES (${n})`)
const makeTable = Effect.flatMap(SqlClient.SqlClient, (sql) => sql`CREATE TABLE kept (n int)`)
const count = Effect.flatMap(SqlClient.SqlClient, (sql) => sql<{ n: number }>`SELECT count(*)::int AS n FROM kept`)
  .pipe(Effect.map((rows) => rows[0]!.n))

it.live("starts, keeps rows over a clean restart, and stops with its scope", () =>
  Effect.gen(function*() {
    const folder = yield* temporaryFolder
    const first = yield* startServer(folder)
    const { pid, port, adopted } = yield* running(first.server)
    expect(adopted).toBe(false)
    yield* query(first.server, Effect.andThen(makeTable, put(1)))
    yield* query(first.server, migrate)
    expect(yield* query(first.server, migrate)).toEqual([])
    yield* first.end
    expect(alive(pid)).toBe(false)
    expect(existsSync(join(folder, "postgres/data/postmaster.pid"))).toBe(false)

    const second = yield* startServer(folder)
    const again = yield* running(second.server)
    expect(again.port).toBe(port)
    expect(yield* query(second.server, count)).toBe(1)
  }))

it.live("lets nobody in but its own role with its own password", () =>
  Effect.gen(function*() {
    const folder = yield* temporaryFolder
    const { server } = yield* startServer(folder)
    const url = new URL(Redacted.value(yield* server.url))
    expect(statSync(join(folder, "postgres/password")).mode & 0o777).toBe(0o600)
    expect(statSync(join(folder, "postgres/data")).mode & 0o777).toBe(0o700)
    const tries = [
      { username: "nightjar", password: "wrong", database: "nightjar" },
      { username: "postgres", password: url.password, database: "postgres" },
      { username: "postgres", password: "", database: "nightjar" },
      { username: "nightjar", password: url.password, database: "postgres" },
    ]
    for (const { username, password, database } of tries) {
      const exit = yield* Effect.flatMap(SqlClient.SqlClient, (sql) => sql`SELECT 1`).pipe(
        Effect.provide(PgClient.layer({
          host: "127.0.0.1",
          port: Number(url.port),
          username,
          database,
          password: Redacted.make(password),
        })),
        Effect.exit,
      )
      expect(Exit.isFailure(exit), `${username} on ${database}`).toBe(true)
    }
    const [role] = yield* query(
      server,
      Effect.flatMap(
        SqlClient.SqlClient,
        (sql) => sql`SELECT rolsuper, rolcreaterole, rolcreatedb FROM pg_roles WHERE rolname = current_user`,
      ),
    )
    expect(role).toEqual({ rolsuper: false, rolcreaterole: false, rolcreatedb: false })
  }))

it.live("comes back after its postmaster was killed, with every acknowledged row, on the same port", () =>
  Effect.gen(function*() {
    const folder = yield* temporaryFolder
    const { server } = yield* startServer(folder)
    const first = yield* running(server)
    yield* query(server, makeTable)
    for (let n = 0; n < 50; n++) yield* query(server, put(n)).pipe(Effect.when(Effect.sync(() => n % 10 === 0)))
    const acknowledged = yield* query(server, count)
    const next = yield* server.changes.pipe(
      Stream.filter((state) => state._tag === "Running" && state.pid !== first.pid),
      Stream.runHead,
      Effect.forkChild({ startImmediately: true }),
    )
    process.kill(first.pid, "SIGKILL")
    yield* Fiber.join(next)
    const second = yield* running(server)
    expect(second.port).toBe(first.port)
    expect(yield* query(server, count)).toBe(acknowledged)
  }))

/** A node in a process of its own, so that it can be killed; prints the state as JSON lines. */
const nodeScript = `
  import { Effect, Stream } from "effect"
  import { packageFolder, prepareBinaries } from "#ops/host/postgres-binaries.ts"
import { EmbeddedPostgres, layer } from "#ops/host/postgres.ts"
  const [dataFolder, copies] = process.argv.slice(-2)
  const program = Effect.gen(function*() {
    const server = yield* EmbeddedPostgres
    yield* Stream.runForEach(server.changes, (state) => Effect.sync(() => process.stdout.write(JSON.stringify(state) + "\\n")))
  }).pipe(Effect.provide(layer({ dataFolder, copies })))
  Effect.runFork(program)
`

/** Runs {@link nodeScript} until the server runs, then kills the node with SIGKILL; answers the postmaster's process id. */
const crashNode = (folder: string, how: { readonly uid?: number; readonly gid?: number } = {}) =>
  Effect.promise(async () => {
    const { spawn } = await import("node:child_process")
    const root = new URL("../..", import.meta.url).pathname
    const child = spawn(process.execPath, [
      "--input-type=module",
      "-e",
      nodeScript,
      "--",
      folder,
      join(folder, "copies"),
    ], {
      ...how,
      cwd: root,
      stdio: ["ignore", "pipe", "pipe"],
    })
    let said = ""
    child.stderr.on("data", (text) => said += text)
    const pid = await new Promise<number>((resolve, reject) => {
      let text = ""
      child.stdout.on("data", (part) => {
        said += part
        text += part
        const lines = text.split("\n")
        text = lines.pop()!
        for (const line of lines) {
          const state = line.startsWith("{") ? JSON.parse(line) as PostgresState : null
          if (state?._tag === "Running") resolve(state.pid)
        }
      })
      child.once("exit", () => reject(new Error(`the node ended early: ${said}`)))
    })
    child.removeAllListeners("exit")
    const ended = new Promise((resolve) => child.once("exit", resolve))
    child.kill("SIGKILL")
    await ended
    return pid
  }).pipe(Effect.tap((pid) => Effect.addFinalizer(() => Effect.sync(() => alive(pid) && process.kill(pid, "SIGQUIT")))))

const startTime = (pid: number) =>
  process.platform === "linux" ? readFileSync(`/proc/${pid}/stat`, "utf8").split(" ")[21] : String(pid)

it.live("adopts the server a killed node left behind", () =>
  Effect.gen(function*() {
    const folder = yield* temporaryFolder
    const pid = yield* crashNode(folder)
    expect(alive(pid)).toBe(true)
    const born = startTime(pid)
    const { server, end } = yield* startServer(folder)
    const state = yield* running(server)
    expect(state).toMatchObject({ adopted: true, pid })
    expect(startTime(pid)).toBe(born)
    yield* query(server, Effect.andThen(makeTable, put(1)))
    yield* end
    expect(alive(pid)).toBe(false)
  }))

it.live("stops a left-behind server that was started otherwise, and starts its own", () =>
  Effect.gen(function*() {
    const folder = yield* temporaryFolder
    const pid = yield* crashNode(folder)
    const options = join(folder, "postgres/data/postmaster.opts")
    writeFileSync(options, readFileSync(options, "utf8").replace("max_connections=60", "max_connections=59"))
    const { server } = yield* startServer(folder)
    const state = yield* running(server)
    expect(state.adopted).toBe(false)
    expect(state.pid).not.toBe(pid)
    expect(alive(pid)).toBe(false)
  }))

it.live("never signals a process that only has the old process id", () =>
  Effect.gen(function*() {
    const folder = yield* temporaryFolder
    const first = yield* startServer(folder)
    yield* running(first.server)
    const path = join(folder, "postgres/data/postmaster.pid")
    const text = readFileSync(path, "utf8")
    yield* first.end
    // This very process stands in for the innocent one: a signal would end the test.
    writeFileSync(path, text.replace(/^\d+/, String(process.pid)))
    expect(parsePidFile(readFileSync(path, "utf8"))?.pid).toBe(process.pid)
    const second = yield* startServer(folder)
    expect((yield* running(second.server)).adopted).toBe(false)
  }))

const asRoot = process.getuid?.() === 0 && process.platform === "linux"

it.live.skipIf(!asRoot)(
  "runs for root although a folder above the data is closed to others (needs root)",
  () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      chmodSync(folder, 0o700)
      const inner = join(folder, "deep/node")
      mkdirSync(inner, { recursive: true })
      const { server } = yield* startServer(inner)
      const { pid } = yield* running(server)
      expect(statSync(`/proc/${pid}`).uid).not.toBe(0)
      yield* query(server, Effect.andThen(makeTable, put(1)))
      expect(yield* query(server, count)).toBe(1)
    }),
)

it.live.skipIf(!asRoot)(
  "takes over what a node of another account left running (needs root)",
  () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const nobody = { uid: 65534, gid: 65534 }
      chownSync(folder, nobody.uid, nobody.gid)
      const pid = yield* crashNode(folder, nobody)
      expect(statSync(`/proc/${pid}`).uid).toBe(nobody.uid)
      const { server } = yield* startServer(folder)
      const state = yield* running(server)
      expect(statSync(`/proc/${state.pid}`).uid).toBe(nobody.uid)
      expect(alive(pid)).toBe(state.pid === pid)
    }),
)

it.live.skipIf(!asRoot)(
  "copies the programs where the account cannot reach them (needs root)",
  () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      chmodSync(folder, 0o755)
      const copies = join(folder, "copies")
      const closed = join(folder, "closed")
      mkdirSync(closed, { mode: 0o700 })
      cpSync(yield* packageFolder, closed, { recursive: true, verbatimSymlinks: true })
      const nobody = { uid: 65534, gid: 65534 }
      const { postgres, major } = yield* prepareBinaries(closed, nobody, copies)
      expect(postgres.startsWith(copies)).toBe(true)
      expect(execFileSync(postgres, ["--version"], { ...nobody, cwd: "/", encoding: "utf8" })).toContain(
        `PostgreSQL) ${major}.`,
      )
      expect(yield* prepareBinaries(closed, nobody, copies)).toEqual({
        postgres,
        major,
        initdb: join(dirname(postgres), "initdb"),
      })
      expect((yield* prepareBinaries(closed, null, copies)).postgres.startsWith(closed)).toBe(true)
    }),
)
