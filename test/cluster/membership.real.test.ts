/** Who belongs to a cluster: approval, what a stranger gets, the key that members share, and its change when one leaves. */
import type { Member } from "#cluster/members.ts"
import { layerClient } from "#ops/database.ts"
import { transportCertificate } from "#ops/node.ts"
import { entityId, slots } from "#schema/ownership.ts"
import { afterAll, beforeAll, expect, it } from "@effect/vitest"
import { Context, Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { mkdtempSync, rmSync } from "node:fs"
import { connect as connectPlain } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { connect } from "node:tls"
import { startPostgres } from "../harness/event-maker.ts"
import { eventually, type ProbeNode, startNode } from "./probe.ts"

const folder = mkdtempSync(join(tmpdir(), "nightjar-membership-"))
let postgres: Awaited<ReturnType<typeof startPostgres>>
beforeAll(async () => {
  postgres = await startPostgres(folder)
}, 120_000)
afterAll(async () => {
  await postgres.end()
  rmSync(folder, { recursive: true, force: true })
})

const [n00, n01] = slots as [typeof slots[number], typeof slots[number]]

const members = (node: ProbeNode) =>
  Effect.map(node.ask({ members: true }), ({ value }) => (value as ReadonlyArray<Member> | undefined) ?? [])
const called = (name: string, all: ReadonlyArray<Member>) => all.find((member) => member.name === name)!
const serves = (node: ProbeNode, id: string) => Effect.map(node.ask({ ask: id }), ({ value }) => value !== undefined)
const admitted = (node: ProbeNode, name: string, wanted: boolean) =>
  eventually(
    `${name} admitted: ${wanted}`,
    members(node),
    (all) => all.some((one) => one.name === name && one.admitted === wanted),
  )

/** What the transport says to a client with this certificate: everything it read until the end. */
const shownTo = (address: string, pair: { readonly certificate: string; readonly privateKey: string } | null) =>
  new Promise<string>((resolve) => {
    const [host = "", port = ""] = address.split(":")
    const identity = pair === null ? {} : { cert: pair.certificate, key: pair.privateKey }
    const socket = connect({ host, port: Number(port), rejectUnauthorized: false, ...identity })
    let read = ""
    socket.on("data", (bytes) => read += bytes.toString("latin1"))
    socket.on("error", () => socket.destroy())
    socket.on("close", () => resolve(read))
    socket.on("secureConnect", () => socket.write("anything"))
  })

it.live(
  "a node joins once it was approved, seals for all, and loses that when it is removed",
  () =>
    Effect.gen(function*() {
      const databaseUrl = postgres.url
      const a = yield* startNode({ dataFolder: join(folder, "a"), databaseUrl, name: "a" })
      yield* admitted(a, "a", true)
      const c = yield* startNode({ dataFolder: join(folder, "c"), databaseUrl, name: "c" })
      // It serves what is its own, and nobody else's.
      const [mine] = yield* Effect.all([
        eventually("its own entity", serves(c, entityId(n01, "x")), (served) => served),
      ])
      expect(mine).toBe(true)
      const strange = called("c", yield* admitted(a, "c", false))
      expect(called("a", yield* members(c)).admitted).toBe(false)
      expect(called("c", yield* members(c)).admitted).toBe(false)
      expect((yield* c.ask({ approve: { nodeId: strange.nodeId, signingKey: strange.signingKey } })).value).toBe(
        "NotAMember",
      )

      // Sealed while it was alone, it stays readable for it; what the cluster sealed does not open.
      const alone = yield* c.ask({ seal: "alone" })
      const shared = yield* a.ask({ seal: "shared" })
      expect((yield* c.ask({ open: shared.value })).value).toBe("unknownKey")
      expect((yield* a.ask({ approve: { nodeId: strange.nodeId, signingKey: "A".repeat(43) } })).value).toBe(
        "OtherNode",
      )
      expect((yield* a.ask({ approve: { nodeId: strange.nodeId, signingKey: strange.signingKey } })).value).toBe("done")
      yield* admitted(c, "a", true)
      expect((yield* c.ask({ open: shared.value })).value).toBe("shared")
      expect((yield* c.ask({ open: alone.value })).value).toBe("alone")
      const ofC = yield* c.ask({ seal: "of c" })
      expect((yield* a.ask({ open: ofC.value })).value).toBe("of c")
      yield* eventually("c reaches a's entity", serves(c, entityId(n00, "x")), (served) => served)
      yield* eventually("a reaches c's entity", serves(a, entityId(n01, "x")), (served) => served)

      // The transport is for members alone.
      const { address } = called("a", yield* members(a))
      const stranger = yield* transportCertificate
      expect(yield* Effect.promise(() => shownTo(address, stranger))).toBe("")
      expect(yield* Effect.promise(() => shownTo(address, null))).toBe("")
      yield* eventually("a word about it", Effect.sync(() => a.said()), (said) => said.includes("no member's"))
      const [host = "", port = ""] = address.split(":")
      const plain = yield* Effect.promise(() =>
        new Promise<string>((resolve) => {
          const socket = connectPlain(Number(port), host, () => socket.write("\u0000\u0000\u0000\u0001anything"))
          let read = ""
          socket.on("data", (bytes) => read += bytes.toString("latin1"))
          socket.on("error", () => socket.destroy())
          socket.on("close", () => resolve(read))
        })
      )
      // At most a TLS alert.
      expect(plain.length).toBeLessThanOrEqual(7)

      // Somebody with the database, but no key, makes nobody a member.
      const client = yield* layerClientOf(databaseUrl)
      yield* client`UPDATE node SET admission = ${"A".repeat(43)}, transport_pin = ${"B".repeat(43)} WHERE name = 'c'`
      yield* admitted(a, "c", false)
      expect(called("c", yield* members(a)).transportPin).toBe(null)
      yield* c.end("SIGTERM")
      const again = yield* startNode({ dataFolder: join(folder, "c"), databaseUrl, name: "c" })
      yield* admitted(a, "c", true)
      yield* eventually("c reaches a's entity again", serves(again, entityId(n00, "x")), (served) => served)

      expect((yield* again.ask({ remove: strange.nodeId })).value).toBe("RemovesItself")
      expect((yield* a.ask({ remove: strange.nodeId })).value).toBe("done")
      yield* admitted(a, "c", false)
      yield* admitted(again, "c", false)
      const later = yield* a.ask({ seal: "later" })
      expect((yield* again.ask({ open: later.value })).value).toBe("unknownKey")
      expect((yield* a.ask({ open: ofC.value })).value).toBe("of c")
      expect(yield* serves(again, entityId(n01, "x"))).toBe(true)
    }).pipe(Effect.scoped),
  240_000,
)

const layerClientOf = (url: string) =>
  Effect.map(
    Layer.build(layerClient({ url: Redacted.make(url), applicationName: "test", maxConnections: 1 })),
    (context) => Context.get(context, SqlClient.SqlClient),
  )

const secretOf = (fill: number) => Buffer.alloc(32, fill).toString("base64")

it.live(
  "the secret given to every node makes a member without asking; a removal burns it, and a new one works",
  () =>
    Effect.gen(function*() {
      const server = yield* Effect.acquireRelease(
        Effect.promise(() => startPostgres(join(folder, "second"))),
        (one) => Effect.promise(() => one.end()),
      )
      const databaseUrl = server.url
      const start = (name: string, fill: number) =>
        startNode({ dataFolder: join(folder, `second-${name}`), databaseUrl, name, joinSecret: secretOf(fill) })
      const a = yield* start("a", 1)
      yield* admitted(a, "a", true)
      const b = yield* start("b", 1)
      const c = yield* start("c", 2)
      yield* admitted(b, "a", true)
      yield* admitted(a, "b", true)
      yield* admitted(a, "c", false)
      const { nodeId } = called("b", yield* members(a))
      expect((yield* a.ask({ remove: nodeId })).value).toBe("done")
      yield* admitted(b, "b", false)
      // It knows the secret, and that helps it no more; nor anybody else.
      yield* b.end("SIGTERM")
      const back = yield* start("b", 1)
      yield* eventually(
        "the reason",
        Effect.sync(() => back.said()),
        (said) => said.includes("NIGHTJAR_CLUSTER_SECRET"),
      )
      yield* admitted(a, "b", false)
      yield* a.end("SIGTERM")
      const renewed = yield* start("a", 2)
      yield* admitted(renewed, "c", true)
      yield* admitted(c, "a", true)
      yield* admitted(renewed, "b", false)
    }).pipe(Effect.scoped),
  240_000,
)
