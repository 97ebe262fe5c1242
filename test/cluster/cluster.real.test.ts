/** Nodes as processes on a real PostgreSQL: first start, takeover after a kill, an outage of the database, a late database. */
import type { Member } from "#cluster/members.ts"
import type { Owner } from "#cluster/ownership.ts"
import { parsePidFile } from "#ops/host/postgres-process.ts"
import { EmbeddedPostgres, layer as layerPostgres } from "#ops/host/postgres.ts"
import { entityId, slots } from "#schema/ownership.ts"
import { expect, it } from "@effect/vitest"
import { Effect, Exit, Layer, Redacted, Scope } from "effect"
import { randomBytes } from "node:crypto"
import { existsSync, mkdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { eventually, type ProbeNode, startNode, temporaryFolder } from "./probe.ts"

/** A server of the test's own that can be taken away and brought back at the same address. */
const outsideServer = (folder: string) =>
  Effect.gen(function*() {
    mkdirSync(folder, { recursive: true })
    let scope: Scope.Closeable | null = null
    const start = Effect.gen(function*() {
      scope = yield* Scope.make()
      const context = yield* Layer.buildWithScope(
        layerPostgres({ dataFolder: folder, copies: join(folder, "copies") }),
        scope,
      )
      return Redacted.value(
        yield* Effect.flatMap(EmbeddedPostgres, (server) => server.url).pipe(Effect.provide(context)),
      )
    })
    const freeze = Effect.sync(() => {
      const pid = parsePidFile(readFileSync(join(folder, "postgres/data/postmaster.pid"), "utf8"))!.pid
      const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ").map(Number)
      for (const one of [pid, ...children]) process.kill(one, "SIGSTOP")
      return () => {
        for (const one of [pid, ...children]) {
          try {
            process.kill(one, "SIGCONT")
          } catch {
            // A connection's process that ended since.
          }
        }
      }
    })
    const stop = Effect.suspend(() => scope === null ? Effect.void : Scope.close(scope, Exit.void)).pipe(
      Effect.tap(Effect.sync(() => scope = null)),
    )
    yield* Effect.addFinalizer(() => stop)
    return { start, stop, freeze }
  })

interface Who {
  readonly nodeId: string
  readonly boot: string
  readonly count: number
}

const who = (node: ProbeNode, id: string) =>
  Effect.map(
    node.ask({ ask: id }),
    ({ value, error }) => (value as Who | undefined) ?? { nodeId: "", boot: "", count: 0, error },
  )

const answering = (node: ProbeNode, id: string, nodeId?: string) =>
  eventually(
    `an answer of ${id} through ${node.process.pid}`,
    who(node, id),
    (answer) => nodeId === undefined ? answer.nodeId !== "" : answer.nodeId === nodeId,
  )

const owners = (node: ProbeNode) =>
  Effect.map(node.ask({ owners: true }), ({ value }) => (value as ReadonlyArray<Owner> | undefined) ?? [])

const joinSecret = randomBytes(32).toString("base64")

const members = (node: ProbeNode) =>
  Effect.map(node.ask({ members: true }), ({ value }) => (value as ReadonlyArray<Member> | undefined) ?? [])

const [n00, n01] = slots as [typeof slots[number], typeof slots[number]]

it.live("a node alone: its embedded database, its slot, its entity; SIGTERM ends it cleanly", () =>
  Effect.gen(function*() {
    const folder = yield* temporaryFolder
    const node = yield* startNode({ dataFolder: folder, databaseUrl: null, name: "one" })
    const first = yield* answering(node, entityId(n00, "a"))
    const again = yield* who(node, entityId(n00, "a"))
    expect(again).toMatchObject({ nodeId: first.nodeId, boot: first.boot })
    expect(again.count).toBeGreaterThan(first.count)
    expect(yield* owners(node)).toMatchObject([{
      slot: "n00",
      nodeId: first.nodeId,
      homeNodeId: first.nodeId,
      epoch: 1,
    }])
    yield* node.end("SIGTERM")
    expect(existsSync(join(folder, "postgres/data/postmaster.pid"))).toBe(false)

    const next = yield* startNode({ dataFolder: folder, databaseUrl: null, name: "one" })
    expect((yield* answering(next, entityId(n00, "a"))).nodeId).toBe(first.nodeId)
    expect(yield* owners(next)).toMatchObject([{ slot: "n00", epoch: 1 }])
    const second = yield* startNode({ dataFolder: folder, databaseUrl: null, name: "twin" })
    const code = yield* Effect.promise(() =>
      new Promise<number | null>((resolve) => second.process.once("exit", resolve))
    )
    expect(code).not.toBe(0)
    expect(second.said()).toContain("another node is running on it")
  }))

it.live("two nodes: each reaches the other's entities; after a kill the other takes over with the next epoch", () =>
  Effect.gen(function*() {
    const folder = yield* temporaryFolder
    const server = yield* outsideServer(join(folder, "server"))
    const databaseUrl = yield* server.start
    const a = yield* startNode({ dataFolder: join(folder, "a"), databaseUrl, joinSecret, name: "a" })
    const ofA = yield* answering(a, entityId(n00, "x"))
    const b = yield* startNode({ dataFolder: join(folder, "b"), databaseUrl, joinSecret, name: "b" })
    const ofB = yield* answering(b, entityId(n01, "y"))
    expect(ofB.nodeId).not.toBe(ofA.nodeId)
    for (const node of [a, b]) {
      const both = yield* eventually(
        "both members",
        members(node),
        (all) => all.every(({ http }) => http !== null) && all[1] !== undefined,
      )
      expect(both).toMatchObject([
        { nodeId: ofA.nodeId, slot: n00, name: "a", version: "probe", http: { address: "http://a", tlsPin: null } },
        { nodeId: ofB.nodeId, slot: n01, name: "b", version: "probe", http: { address: "http://b", tlsPin: null } },
      ])
    }
    expect((yield* answering(b, entityId(n00, "x"))).boot).toBe(ofA.boot)
    expect((yield* answering(a, entityId(n01, "y"))).boot).toBe(ofB.boot)
    expect((yield* b.ask({ write: { slot: n00, epoch: 1 } })).value).toBe("written")

    yield* a.end("SIGKILL")
    const started = Date.now()
    expect((yield* b.ask({ move: { slot: n00, nodeId: ofB.nodeId, epoch: 1 } })).value).toMatchObject({
      nodeId: ofB.nodeId,
      epoch: 2,
    })
    const moved = yield* answering(b, entityId(n00, "x"), ofB.nodeId)
    console.info(`takeover: ${Date.now() - started} ms from the ownership update to the first answer`)
    expect(moved.boot).not.toBe(ofA.boot)
    expect((yield* b.ask({ move: { slot: n00, nodeId: ofB.nodeId, epoch: 1 } })).value).toEqual({ stale: 2 })
    expect((yield* b.ask({ write: { slot: n00, epoch: 1 } })).value).toEqual({ stale: 2 })
    expect((yield* b.ask({ write: { slot: n00, epoch: 2 } })).value).toBe("written")

    // The home node comes back, finds its slot served by another, and is given it back.
    const home = yield* startNode({ dataFolder: join(folder, "a"), databaseUrl, joinSecret, name: "a" })
    expect((yield* answering(home, entityId(n00, "x"))).boot).toBe(moved.boot)
    const back = Date.now()
    expect((yield* b.ask({ move: { slot: n00, nodeId: ofA.nodeId, epoch: 2 } })).value).toMatchObject({
      nodeId: ofA.nodeId,
      epoch: 3,
    })
    yield* answering(b, entityId(n00, "x"), ofA.nodeId)
    console.info(`failback: ${Date.now() - back} ms from the ownership update to the first answer`)
    expect((yield* answering(home, entityId(n00, "x"))).nodeId).toBe(ofA.nodeId)
    expect((yield* answering(b, entityId(n01, "y"))).boot).toBe(ofB.boot)
  }))

it.live("entities live on through an outage of PostgreSQL longer than their locks, and stay one of each", () =>
  Effect.gen(function*() {
    const folder = yield* temporaryFolder
    const server = yield* outsideServer(join(folder, "server"))
    const databaseUrl = yield* server.start
    const a = yield* startNode({ dataFolder: join(folder, "a"), databaseUrl, joinSecret, name: "a" })
    const b = yield* startNode({ dataFolder: join(folder, "b"), databaseUrl, joinSecret, name: "b" })
    const ids = [entityId(n00, "x"), entityId(n01, "y")]
    const before: Array<Who> = []
    for (const id of ids) before.push(yield* answering(a, id))
    for (const id of ids) yield* answering(b, id)
    yield* server.stop
    expect((yield* b.ask({ write: { slot: n00, epoch: 1 } })).error).toBe("DependencyUnavailable")
    // Longer than the life of a lock (9 s) and of a heartbeat.
    for (let second = 0; second < 14; second++) {
      yield* Effect.sleep("1 second")
      for (const [n, id] of ids.entries()) {
        expect((yield* who(a, id)).boot).toBe(before[n]!.boot)
        expect((yield* who(b, id)).boot).toBe(before[n]!.boot)
      }
    }
    expect(yield* server.start).toBe(databaseUrl)
    for (let second = 0; second < 8; second++) {
      yield* Effect.sleep("1 second")
      for (const [n, id] of ids.entries()) {
        expect((yield* who(a, id)).boot).toBe(before[n]!.boot)
        expect((yield* who(b, id)).boot).toBe(before[n]!.boot)
      }
    }
    yield* eventually("a fenced write", b.ask({ write: { slot: n00, epoch: 1 } }), ({ value }) => value === "written")
    // What was under way when it began may say so, each thing once; nothing is said again and again while it lasts.
    const complaints = a.said().split("\n").filter((line) => /WARN|ERROR/.test(line))
      .map((line) => line.replace(/^.*?(?=WARN|ERROR)/, "").replace(/\(#\d+\)|\d+/g, ""))
    for (const complaint of new Set(complaints)) {
      expect(complaints.filter((line) => line === complaint).length, complaints.join("\n")).toBeLessThanOrEqual(8)
    }
    expect(complaints.length, complaints.join("\n")).toBeLessThan(14)
  }))

const onLinux = process.platform === "linux"

it.live.skipIf(!onLinux)(
  "entities live on while PostgreSQL is frozen: it neither answers nor refuses (needs /proc)",
  () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const server = yield* outsideServer(join(folder, "server"))
      const databaseUrl = yield* server.start
      const node = yield* startNode({ dataFolder: join(folder, "a"), databaseUrl, joinSecret, name: "a" })
      const id = entityId(n00, "x")
      const { boot } = yield* answering(node, id)
      const thaw = yield* Effect.acquireRelease(server.freeze, (thaw) => Effect.sync(thaw))
      for (let second = 0; second < 14; second++) {
        yield* Effect.sleep("1 second")
        expect((yield* who(node, id)).boot).toBe(boot)
      }
      thaw()
      for (let second = 0; second < 12; second++) {
        yield* Effect.sleep("1 second")
        expect((yield* who(node, id)).boot).toBe(boot)
      }
      yield* eventually(
        "a fenced write",
        node.ask({ write: { slot: n00, epoch: 1 } }),
        ({ value }) => value === "written",
      )
    }),
)

it.live("a frozen node that was replaced finds out when it thaws, and its writes are refused", () =>
  Effect.gen(function*() {
    const folder = yield* temporaryFolder
    const server = yield* outsideServer(join(folder, "server"))
    const databaseUrl = yield* server.start
    const a = yield* startNode({ dataFolder: join(folder, "a"), databaseUrl, joinSecret, name: "a" })
    const ofA = yield* answering(a, entityId(n00, "x"))
    const b = yield* startNode({ dataFolder: join(folder, "b"), databaseUrl, joinSecret, name: "b" })
    const ofB = yield* answering(b, entityId(n01, "y"))
    yield* answering(b, entityId(n00, "x"))
    a.process.kill("SIGSTOP")
    expect((yield* b.ask({ move: { slot: n00, nodeId: ofB.nodeId, epoch: 1 } })).value).toMatchObject({ epoch: 2 })
    // The server ends the frozen node's lock session when it was idle for the life of a lock (9 s).
    const moved = yield* answering(b, entityId(n00, "x"), ofB.nodeId)
    a.process.kill("SIGCONT")
    expect((yield* a.ask({ write: { slot: n00, epoch: 1 } })).value).toEqual({ stale: 2 })
    const seen = yield* answering(a, entityId(n00, "x"), ofB.nodeId)
    expect(seen.boot).toBe(moved.boot)
    expect(seen.nodeId).not.toBe(ofA.nodeId)
  }))

it.live("a node that starts without its database answers 503, and serves once it has come", () =>
  Effect.gen(function*() {
    const folder = yield* temporaryFolder
    const server = yield* outsideServer(join(folder, "server"))
    const databaseUrl = yield* server.start
    yield* server.stop
    const node = yield* startNode({ dataFolder: join(folder, "a"), databaseUrl, joinSecret, name: "a" })
    expect((yield* node.ask({ self: true })).value).toMatchObject({ present: false })
    for (let n = 0; n < 3; n++) {
      expect((yield* node.ask({ ask: entityId(n00, "x") })).error).toBe("DependencyUnavailable")
      yield* Effect.sleep("500 millis")
    }
    yield* server.start
    yield* answering(node, entityId(n00, "x"))
    expect((yield* node.ask({ self: true })).value).toMatchObject({ present: true })
  }))
