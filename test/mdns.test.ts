/** Nodes on the network: what they say of themselves, what is believed of it, and for how long. */
import * as Discovery from "#cluster/discovery.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import { KnownNodes } from "#cluster/mdns-known.ts"
import {
  type Announced,
  announcement,
  answerTo,
  lifetimeSeconds,
  queryFor,
  queryForAll,
  readMessage,
} from "#cluster/mdns.ts"
import type { HttpReach } from "#cluster/members.ts"
import { NodeId } from "#schema/common.ts"
import { assert, describe, it } from "@effect/vitest"
import dns from "dns-packet"
import { Effect, Layer, SubscriptionRef } from "effect"
import { IpNetwork } from "effect/net"
import { createSocket } from "node:dgram"
import { once } from "node:events"
import { random } from "./media/random.ts"

const idOf = (n: number) => NodeId.make(`01890000-0000-7000-8000-${String(n).padStart(12, "0")}`)
const east: Announced = { nodeId: idOf(1), name: "Gate, east", version: "1.2.3", port: 8443, tls: true }
const addresses = ["10.0.0.7"]
const service = "_nightjar._tcp.local"

const heardOf = (bytes: Uint8Array) => {
  const said = readMessage(bytes)
  assert.strictEqual(said?.kind, "response")
  return said?.kind === "response" ? said : { nodes: [], gone: [] }
}

const asked = (question: dns.Question, answers: Array<dns.Answer> = []) => {
  const said = readMessage(dns.encode({ type: "query", id: 7, questions: [question], answers }))
  return said?.kind === "query" ? said.asked : assert.fail("it is a query")
}

describe("what a node says of itself", () => {
  it("is read as it was said", () => {
    const { gone, nodes } = heardOf(announcement(east, addresses, lifetimeSeconds))
    assert.deepStrictEqual(nodes, [{ ...east, lifetimeSeconds: 120 }])
    assert.deepStrictEqual(gone, [])
    assert.deepStrictEqual(heardOf(announcement(east, addresses, 0)).gone, [east.nodeId])
  })

  it("has long names cut at whole characters, and tells nothing that could be mistaken for proof", () => {
    const bytes = announcement({ ...east, name: "ß".repeat(400) }, addresses, 120)
    assert.strictEqual(heardOf(bytes).nodes[0]?.name, "ß".repeat(120))
    const texts = dns.decode(bytes).answers?.filter((one) => one.type === "TXT").flatMap((one) =>
      [one.data].flat().map((part) => String(part).split("=")[0])
    )
    assert.deepStrictEqual(texts, ["txtvers", "id", "name", "version", "tls"])
  })

  it("answers who asks for it, for all of its kind, or for the kinds that there are", () => {
    const names = (question: dns.Question) => {
      const bytes = answerTo(asked(question), east, addresses, false)
      return bytes === null ? null : dns.decode(bytes).answers?.map(({ type }) => type)
    }
    assert.deepStrictEqual(names({ name: service, type: "PTR" }), ["PTR"])
    assert.deepStrictEqual(names({ name: service.toUpperCase(), type: "PTR" }), ["PTR"])
    assert.deepStrictEqual(names({ name: "_services._dns-sd._udp.local", type: "PTR" }), ["PTR"])
    assert.deepStrictEqual(names({ name: `${east.nodeId}.${service}`, type: "SRV" }), ["SRV"])
    assert.deepStrictEqual(names({ name: `${east.nodeId}.local`, type: "A" }), ["A"])
    assert.isNull(names({ name: `${idOf(2)}.${service}`, type: "SRV" }))
    assert.isNull(names({ name: "_http._tcp.local", type: "PTR" }))
    // What belongs to the answer comes with it.
    const whole = answerTo(asked({ name: service, type: "PTR" }), east, addresses, false)
    assert.deepStrictEqual(heardOf(whole!).nodes.map(({ nodeId }) => nodeId), [east.nodeId])
  })

  it("is silent to who knows it already, unless that is about to run out", () => {
    const known = (ttl: number): dns.Answer => ({ type: "PTR", name: service, ttl, data: `${east.nodeId}.${service}` })
    const question = { name: service, type: "PTR" } as const
    assert.isNull(answerTo(asked(question, [known(60)]), east, addresses, false))
    assert.isNotNull(answerTo(asked(question, [known(59)]), east, addresses, false))
  })

  it("repeats the question of an ordinary resolver, for a short time and without claiming the name", () => {
    const reply = dns.decode(answerTo(asked({ name: service, type: "PTR" }), east, addresses, true)!)
    assert.strictEqual(reply.id, 7)
    assert.deepStrictEqual(reply.questions?.map(({ name }) => name), [service])
    for (const record of [...reply.answers ?? [], ...reply.additionals ?? []]) {
      assert.isAtMost("ttl" in record ? record.ttl ?? 0 : 0, 10)
      assert.isFalse("flush" in record && record.flush)
    }
  })
})

describe("what others say", () => {
  it("counts only whole, with an id that its name has too", () => {
    const instance = `${east.nodeId}.${service}`
    const srv = { type: "SRV", name: instance, ttl: 120, data: { port: 1, target: "x.local" } } as const
    const txt = (data: Array<string>, name = instance) => ({ type: "TXT", name, ttl: 120, data }) as const
    const read = (...answers: Array<dns.Answer>) => heardOf(dns.encode({ type: "response", answers })).nodes.length
    const good = [`id=${east.nodeId}`, "name=x"]
    assert.strictEqual(read(srv, txt(good)), 1)
    assert.strictEqual(read(srv), 0)
    assert.strictEqual(read(txt(good)), 0)
    assert.strictEqual(read(srv, txt([`id=${idOf(2)}`, "name=x"])), 0)
    assert.strictEqual(read(srv, txt([`id=${east.nodeId}`, "name=\u0007\u202E"])), 0)
    assert.strictEqual(read(srv, txt(good, `other.${service}`)), 0)
    assert.strictEqual(read({ ...srv, data: { ...srv.data, port: 0 } }, txt(good)), 0)
    assert.strictEqual(read({ ...srv, name: `not-an-id.${service}` }, txt(good, `not-an-id.${service}`)), 0)
  })

  it("is read or nothing, whatever the bytes are", () => {
    const rng = random(6762)
    const seeds = [
      announcement(east, addresses, 120),
      queryForAll([{ nodeId: east.nodeId, seconds: 100 }]),
      queryFor([east.nodeId]),
    ]
    let read = 0
    for (let round = 0; round < 20_000; round++) {
      const bytes = Buffer.from(seeds[rng(seeds.length)]!)
      for (let change = rng(6); change >= 0; change--) bytes[rng(bytes.length)] = rng(256)
      const said = readMessage(bytes.subarray(0, rng(4) === 0 ? rng(bytes.length) : bytes.length))
      if (said?.kind === "query") answerTo(said.asked, east, addresses, rng(2) === 0)
      if (said !== null) read += 1
    }
    assert.isAbove(read, 1_000)
    assert.isNull(readMessage(Buffer.alloc(9_000)))
    assert.isNull(readMessage(Buffer.alloc(0)))
  })

  it("is known until it runs out or says farewell, and from where it was heard", () => {
    const known = new KnownNodes()
    const said = { ...east, lifetimeSeconds: 120 }
    known.hear("10.0.0.7", said, 0)
    // Somebody else who says to be the same replaces nothing, and takes nobody away.
    known.hear("10.0.0.66", { ...said, port: 1 }, 1)
    known.leave("10.0.0.67", east.nodeId)
    assert.deepStrictEqual(known.list(2).map(({ address }) => address), ["https://10.0.0.7:8443"])
    assert.deepStrictEqual(known.dueForRefresh(95_999), [])
    assert.deepStrictEqual(known.dueForRefresh(96_000), [east.nodeId])
    assert.deepStrictEqual(known.dueForRefresh(96_001), [east.nodeId])
    assert.deepStrictEqual(known.dueForRefresh(96_002), [])
    known.leave("10.0.0.7", east.nodeId)
    assert.deepStrictEqual(known.list(96_003).map(({ address }) => address), ["https://10.0.0.66:1"])
    assert.deepStrictEqual(known.list(120_001), [])
  })

  it("cannot crowd out others", () => {
    const known = new KnownNodes()
    for (let n = 0; n < 1_000; n++) known.hear("10.0.0.66", { ...east, nodeId: idOf(n), lifetimeSeconds: 120 }, 0)
    assert.strictEqual(known.list(1).length, 8)
    for (let n = 0; n < 1_000; n++) {
      known.hear(`10.0.${n >> 8}.${n & 255}`, { ...east, nodeId: idOf(n), lifetimeSeconds: 120 }, 0)
    }
    assert.strictEqual(known.lasting(1).length, 256)
  })
})

const lan: ReturnType<ReturnType<typeof Discovery.lansOf>>[number] = {
  address: "127.0.0.1",
  network: IpNetwork.fromStringUnsafe("127.0.0.0/8"),
}

const node = (n: number, port: number) =>
  Layer.build(
    Discovery.layer({
      name: `node ${n}`,
      version: "1",
      reach: Effect.runSync(
        SubscriptionRef.make<HttpReach | null>({ address: `https://127.0.0.1:${n}`, tlsPin: null }),
      ),
      lans: () => [lan],
      port,
    }).pipe(Layer.provide(Layer.succeed(NodeIdentity, { nodeId: idOf(n) } as NodeIdentity["Service"]))),
  )

const found = (context: Effect.Success<ReturnType<typeof node>>) =>
  Effect.map(
    Effect.provide(Effect.flatMap(Discovery.NodeDiscovery, ({ list }) => list), context),
    (all) => all.map((one) => `${one.name} ${one.address}`),
  )

const until = (what: Effect.Effect<ReadonlyArray<string>>, wanted: ReadonlyArray<string>) =>
  Effect.gen(function*() {
    while (JSON.stringify(yield* what) !== JSON.stringify(wanted)) yield* Effect.sleep(50)
  }).pipe(Effect.timeout("60 seconds"))

it.live("two nodes find each other over loopback with noise around, and one that leaves is gone", () =>
  Effect.scoped(Effect.gen(function*() {
    // A free port, that nobody's real responder has.
    const noise = createSocket({ type: "udp4", reuseAddr: true }).bind(0, "127.0.0.1")
    yield* Effect.promise(() => once(noise, "listening"))
    const { port } = noise.address()
    noise.setMulticastInterface("127.0.0.1")
    yield* Effect.addFinalizer(() => Effect.sync(() => noise.close()))
    const one = yield* node(1, port)
    yield* Effect.scoped(Effect.gen(function*() {
      const two = yield* node(2, port)
      for (const garbage of ["", "x", "\0".repeat(12), "\xFF".repeat(600)]) noise.send(garbage, port, "224.0.0.251")
      yield* until(found(one), ["node 2 https://127.0.0.1:2"])
      yield* until(found(two), ["node 1 https://127.0.0.1:1"])
    }))
    yield* until(found(one), [])
  })))
