/** The bus between nodes: its wire, what is believed of it, its patience, two of them over real sockets, and the library of others. */
import { BusJudge, type Judging, largestWord, type Said, speak } from "#cluster/bus-words.ts"
import * as BusLayer from "#cluster/bus.ts"
import { publicKeyOf } from "#cluster/dpop.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import { type Member, Members } from "#cluster/members.ts"
import { keepUp, makeSp, noneDropped } from "#cluster/sp-socket.ts"
import { framed, greetingOf, largestMessage, parted, SpReader, surveyHead } from "#cluster/sp.ts"
import { NodeId } from "#schema/common.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, SubscriptionRef } from "effect"
import { TestClock } from "effect/testing"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { createRequire } from "node:module"
import { type AddressInfo, connect, createServer, type Socket } from "node:net"
import { join } from "node:path"
import { peerKey } from "./harness/peer-caller.ts"
import { random } from "./media/random.ts"

const nodeOf = (n: number) => ({ nodeId: NodeId.make(`01890000-0000-7000-8000-00000000000${n}`), ...peerKey() })
const [east, west, thief] = [nodeOf(1), nodeOf(2), nodeOf(3)]
const judging: Judging = {
  keys: new Map([[east.nodeId, publicKeyOf(east.publicKey)]]),
  survey: "this one",
  nowMs: 0,
}
const word = (change: Partial<Said> = {}): Said => ({
  from: east.nodeId,
  boot: "first",
  seq: 1,
  kind: "here",
  survey: "this one",
  ...change,
})
const none = { oversized: 0, tooMany: 0, unreadable: 0, stranger: 0, forged: 0, replayed: 0, stale: 0 }

/** Chunks of a stream, cut anywhere. */
const cut = (bytes: Buffer, rng: (below: number) => number): ReadonlyArray<Buffer> => {
  const chunks: Array<Buffer> = []
  for (let at = 0; at < bytes.length;) {
    const end = at + 1 + rng(rng(4) === 0 ? 600 : 12)
    chunks.push(bytes.subarray(at, end))
    at = end
  }
  return chunks
}

describe("the wire of the bus", () => {
  it("reads what the counterpart says, however it is cut", () => {
    const rng = random(7)
    for (let round = 0; round < 200; round++) {
      const said = Array.from({ length: rng(6) }, () => Buffer.alloc(rng(round === 0 ? 1 : 700), rng(256)))
      said.push(Buffer.alloc(largestMessage, 1))
      const stream = Buffer.concat([greetingOf("pub"), ...said.map((one) => framed(one))])
      const reader = new SpReader("sub")
      const heard = cut(stream, rng).flatMap((chunk) => {
        const messages = reader.push(chunk)
        assert.isArray(messages)
        return messages as ReadonlyArray<Buffer>
      })
      assert.deepStrictEqual(heard, said)
    }
  })

  it("ends with whoever speaks something else, or announces too much, before a byte of it came", () => {
    const push = (...chunks: ReadonlyArray<Uint8Array>) => {
      const reader = new SpReader("sub")
      return chunks.map((chunk) => reader.push(chunk)).at(-1)
    }
    for (const kind of ["sub", "surveyor", "respondent"] as const) assert.strictEqual(push(greetingOf(kind)), "foreign")
    assert.strictEqual(push(Buffer.from("GET / HTTP/1.1\r\n")), "foreign")
    assert.strictEqual(push(Buffer.from([0]), Buffer.from([0x54])), "foreign")
    for (const length of [BigInt(largestMessage) + 1n, 1n << 40n, (1n << 64n) - 1n]) {
      const head = Buffer.alloc(8)
      head.writeBigUInt64BE(length)
      assert.strictEqual(push(greetingOf("pub"), head, framed(Buffer.from("later"))), "oversized")
    }
  })

  it("survives any bytes", () => {
    const rng = random(11)
    const good = Buffer.concat([
      greetingOf("surveyor"),
      ...[3, 40, 400].map((size) => framed(Buffer.concat([surveyHead(size), Buffer.alloc(size)]))),
    ])
    for (let round = 0; round < 3_000; round++) {
      const bytes = Buffer.from(good)
      // Sparing the greeting most of the time, so that what lies behind it is reached.
      const from = rng(8) === 0 ? 0 : 8
      for (let change = rng(5); change >= 0; change--) bytes[from + rng(bytes.length - from)] = rng(256)
      const reader = new SpReader("respondent")
      for (const chunk of cut(bytes, rng)) {
        const messages = reader.push(chunk)
        if (typeof messages === "string") continue
        for (const message of messages) {
          assert.isAtMost(message.length, largestMessage)
          const both = parted(message)
          if (both !== null) assert.deepStrictEqual(Buffer.concat([both.head, both.body]), message)
        }
      }
    }
  })

  it("parts the head of a survey that came through devices, but not through too many, nor one without an end", () => {
    const hop = Buffer.from([0, 0, 0, 9])
    const through = (hops: number) => Buffer.concat([...Array.from({ length: hops }, () => hop), surveyHead(5)])
    assert.deepStrictEqual(parted(Buffer.concat([through(7), Buffer.from("x")])), {
      head: through(7),
      body: Buffer.from("x"),
    })
    assert.isNull(parted(through(8)))
    for (const bytes of [Buffer.alloc(0), surveyHead(1).subarray(0, 3), hop]) assert.isNull(parted(bytes))
  })
})

describe("a message of the bus", () => {
  it("counts once, in the life that answers the present survey, by who belongs to the cluster and signed it", () => {
    const judge = new BusJudge()
    const hear = (said: Said, key = east.privateKey) => judge.judge(speak(said, key), judging)
    const hint = { kind: "events", survey: "" } as const
    // Whose life is not proven gives no hints, but may ask.
    assert.isNull(hear(word({ ...hint, seq: 1 })))
    assert.isNotNull(hear(word({ kind: "survey", survey: "theirs", seq: 2 })))
    assert.isNull(hear(word({ survey: "an earlier one" })))
    assert.deepStrictEqual(judge.dropped, { ...none, stale: 2 })
    assert.deepStrictEqual(hear(word({ seq: 3 })), word({ seq: 3 }))
    assert.isNull(hear(word({ seq: 3 })))
    assert.isNotNull(hear(word({ ...hint, seq: 4 })))
    assert.isNull(hear(word({ ...hint, seq: 4 })))
    assert.deepStrictEqual(judge.dropped, { ...none, stale: 2, replayed: 2 })
    // A new life begins anew and ends the one before.
    assert.isNotNull(hear(word({ boot: "second", seq: 1 })))
    assert.isNull(hear(word({ ...hint, seq: 99 })))
    assert.isNotNull(hear(word({ ...hint, boot: "second", seq: 2 })))
    assert.deepStrictEqual(judge.dropped, { ...none, stale: 3, replayed: 2 })

    assert.isNull(hear(word({ boot: "third" }), thief.privateKey))
    const changed = speak(word({ boot: "third" }), east.privateKey)
    changed[changed.indexOf("third")] = 0x54
    assert.isNull(judge.judge(changed, judging))
    assert.isNull(hear(word({ from: thief.nodeId }), thief.privateKey))
    assert.isNull(judge.judge(Buffer.alloc(largestWord + 1), judging))
    assert.isNull(judge.judge(Buffer.alloc(79), judging))
    assert.deepStrictEqual(judge.dropped, {
      ...none,
      stale: 3,
      replayed: 2,
      forged: 2,
      stranger: 1,
      oversized: 1,
      unreadable: 1,
    })
  })

  it("is read or dropped, whatever the bytes are, and no more than so many in a second", () => {
    const judge = new BusJudge()
    const rng = random(1)
    const good = speak(word(), east.privateKey)
    for (let round = 0; round < 2_000; round++) {
      const bytes = Buffer.from(good)
      for (let change = rng(4); change >= 0; change--) bytes[rng(bytes.length)] = rng(256)
      const length = rng(3) === 0 ? rng(bytes.length) : bytes.length
      const said = judge.judge(bytes.subarray(0, length), { ...judging, nowMs: round * 1_000 })
      // The bytes may have been changed to what they were.
      if (said !== null) assert.deepStrictEqual(said, word())
    }
    const before = judge.dropped.tooMany
    for (let round = 0; round < 500; round++) judge.judge(good, { ...judging, nowMs: 9_999_999 })
    assert.strictEqual(judge.dropped.tooMany - before, 100)
  })
})

describe("a connection of the bus", () => {
  it.effect("is tried ever more rarely while the network is cut, and not at once when it ended", () =>
    Effect.gen(function*() {
      let tries = 0
      const attempt = Effect.suspend(() => {
        tries += 1
        return Effect.fail("unreached")
      })
      const cutOff = yield* Effect.forkChild(keepUp(attempt))
      yield* TestClock.adjust("1 minute")
      assert.isAtMost(tries, 12)
      // Beyond where the pause, were it not bounded, is no number any more.
      yield* TestClock.adjust("8 hours")
      assert.isAtLeast(tries, 8 * 3_600 / 18)
      assert.isAtMost(tries, 8 * 3_600 / 12 + 12)
      yield* Fiber.interrupt(cutOff)

      let lives = 0
      const brief = yield* Effect.forkChild(keepUp(Effect.sync(() => void (lives += 1))))
      yield* TestClock.adjust("1 minute")
      assert.isAtMost(lives, 61)
      assert.isAtLeast(lives, 50)
      yield* Fiber.interrupt(brief)
    }))
})

const until = (holds: () => boolean) =>
  Effect.gen(function*() {
    while (!holds()) yield* Effect.sleep(20)
  }).pipe(Effect.timeout("60 seconds"))

/** A server on this port (0: a free one), while `use` runs; null where the port is taken. */
const held = async <A>(host: string, port: number, use: (port: number) => Promise<A>): Promise<A | null> => {
  const server = createServer().listen(port, host)
  try {
    await once(server, "listening")
  } catch {
    return null
  }
  const result = await use((server.address() as AddressInfo).port)
  server.close()
  await once(server, "close")
  return result
}

/** The first of two in a row. */
const freePorts = async (host: string): Promise<number> => {
  while (true) {
    const found = await held(host, 0, (port) => held(host, port + 1, () => Promise.resolve(port)))
    if (found !== null) return found
  }
}

it.live("a socket ends who is foreign, says too much or too often, and leaves the oldest out for who takes nothing", () =>
  Effect.scoped(Effect.gen(function*() {
    const counts = noneDropped()
    const heard: Array<string> = []
    const subscriber = yield* makeSp({ kind: "sub", counts, hear: (message) => void heard.push(String(message)) })
    const port = yield* subscriber.listen({ host: "127.0.0.1", port: 0 })
    const tell = (...bytes: ReadonlyArray<Buffer>) =>
      Effect.promise(async () => {
        const socket = connect(port, "127.0.0.1")
        socket.on("error", () => {}).resume()
        socket.write(Buffer.concat(bytes))
        await once(socket, "close")
      })
    yield* tell(Buffer.from("SSH-2.0-x\r\n"))
    yield* tell(greetingOf("pub"), framed(Buffer.from("one")), Buffer.alloc(8, 0xff))
    yield* tell(greetingOf("pub"), ...Array.from({ length: 300 }, () => framed(Buffer.from("again"))))
    assert.deepStrictEqual(counts, { foreign: 1, oversized: 1, hurried: 1, overflowed: 0 })
    assert.isAtMost(heard.length, 202)

    const publisher = yield* makeSp({ kind: "pub", counts, hear: () => {} })
    const at = yield* publisher.listen({ host: "127.0.0.1", port: 0 })
    const deaf: Socket = connect(at, "127.0.0.1")
    deaf.on("error", () => {})
    deaf.write(greetingOf("sub"))
    deaf.pause()
    yield* until(() => {
      for (let n = 0; n < 100; n++) publisher.send(Buffer.alloc(largestMessage))
      return counts.overflowed > 0
    })
    deaf.destroy()
  })))

const built = ((): boolean => {
  try {
    createRequire(import.meta.url)("nanomsg")
    return true
  } catch {
    return false
  }
})()

it.live.skipIf(!built)(
  `speaks with the nanomsg library, both ways${built ? "" : " (left out: it is not built)"}`,
  () =>
    Effect.scoped(Effect.gen(function*() {
      const [ours, theirs] = [
        yield* Effect.promise(() => freePorts("127.0.0.1")),
        yield* Effect.promise(() => freePorts("127.0.0.1")),
      ]
      const [counts, heard] = [noneDropped(), new Set<string>()]
      const note = (kind: string) => (message: Buffer) => void heard.add(`${kind} ${String(message)}`)
      const publisher = yield* makeSp({ kind: "pub", counts, hear: note("pub") })
      const subscriber = yield* makeSp({ kind: "sub", counts, hear: note("sub") })
      const surveyor = yield* makeSp({
        kind: "surveyor",
        counts,
        hear: (message) => note("surveyor")(parted(message)!.body),
      })
      const respondent = yield* makeSp({
        kind: "respondent",
        counts,
        hear: (message, answer) => answer(Buffer.concat([parted(message)!.head, Buffer.from("I am")])),
      })
      yield* publisher.listen({ host: "127.0.0.1", port: ours })
      yield* surveyor.listen({ host: "127.0.0.1", port: ours + 1 })
      yield* subscriber.follow([{ host: "127.0.0.1", port: theirs }])
      yield* respondent.follow([{ host: "127.0.0.1", port: theirs + 1 }])
      const library = yield* Effect.acquireRelease(
        Effect.sync(() =>
          spawn(process.execPath, [
            join(import.meta.dirname, "harness", "nanomsg-peer.ts"),
            String(ours),
            String(theirs),
          ], { stdio: ["pipe", "pipe", "inherit"] })
        ),
        (child) => Effect.sync(() => child.kill("SIGKILL")),
      )
      let said = ""
      library.stdout.on("data", (chunk) => said += String(chunk))
      yield* until(() => {
        publisher.send(Buffer.from("from a node"))
        surveyor.send(Buffer.concat([surveyHead(42), Buffer.from("who?")]))
        return said.includes("[\"sub\",\"from a node\"]") && said.includes("[\"respondent\",\"who?\"]") &&
          said.includes("[\"surveyor\",\"I am\"]") && heard.size === 2
      })
      assert.deepStrictEqual([...heard].toSorted(), ["sub from the library", "surveyor answer to who?"])
      assert.deepStrictEqual({ ...counts, overflowed: 0 }, noneDropped())
    })),
)

const member = ({ nodeId, publicKey }: typeof east, host: string) =>
  ({ nodeId, signingKey: publicKey, address: `${host}:1`, admitted: true, transportPin: "pin" }) as unknown as Member
const all = [member(east, "127.0.0.2"), member(west, "127.0.0.3")]

/** Loopback has addresses besides 127.0.0.1. */
const manyAddresses = process.platform === "linux"

it.live.skipIf(!manyAddresses)(
  "two nodes hear each other's hints, notice who comes and goes, and hear nothing of who is a member no more",
  () =>
    Effect.scoped(Effect.gen(function*() {
      const port = yield* Effect.promise(() => freePorts("127.0.0.2"))
      const known = yield* SubscriptionRef.make<ReadonlyArray<Member>>(all)
      const busOf = (self: typeof east, host: string) =>
        Effect.flatMap(
          Layer.build(
            BusLayer.layer({ host, port }).pipe(
              Layer.provide(
                Layer.mergeAll(
                  Layer.mock(Members, { changes: SubscriptionRef.changes(known) }),
                  Layer.succeed(
                    NodeIdentity,
                    { nodeId: self.nodeId, signing: self } as unknown as NodeIdentity["Service"],
                  ),
                ),
              ),
            ),
          ),
          (context) => Effect.provide(BusLayer.Bus, context),
        )
      const one = yield* busOf(east, "127.0.0.2")
      const [seen, hints] = [{ presence: 0 }, { heard: 0 }]
      yield* one.onPresence(Effect.sync(() => void (seen.presence += 1)))
      yield* one.onEvents(Effect.sync(() => void (hints.heard += 1)))
      yield* Effect.scoped(Effect.gen(function*() {
        const other = yield* busOf(west, "127.0.0.3")
        const told = yield* Effect.forkScoped(Effect.forever(Effect.andThen(other.tellEvents, Effect.sleep(50))))
        yield* until(() => hints.heard > 0)
        assert.isAtLeast(seen.presence, 1)
        yield* Fiber.interrupt(told)
        yield* SubscriptionRef.set(known, [all[0]!])
        const then = seen.presence
        yield* until(() => seen.presence > then)
        const before = hints.heard
        yield* other.tellEvents
        yield* Effect.sleep(200)
        assert.strictEqual(hints.heard, before)
      }))
      const { forged, foreign, replayed, tooMany } = yield* one.dropped
      assert.deepStrictEqual({ forged, foreign, replayed, tooMany }, { forged: 0, foreign: 0, replayed: 0, tooMany: 0 })
    })),
  90_000,
)
