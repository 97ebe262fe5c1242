/** Cameras that come by themselves: one publisher an address, packets in order, a capture that waits and takes at once. */
import { mobileDriver } from "#media/drivers/mobile.ts"
import type { Publisher } from "#media/publish.ts"
import { makePublishers } from "#media/publish/live.ts"
import type { SourceListener, SourceOptions } from "#media/source.ts"
import type { AccessUnit } from "#schema/media.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"

const address = "mobile:01900000-0000-7000-8000-000000000001"
const options: SourceOptions = {
  url: address,
  username: null,
  password: null,
  transport: "udp",
  requestTimeoutMs: 1_000,
  drainEveryMs: 0,
}
const opus = { payloadType: 111, clockHz: 48_000, channels: 2 }

const phone = (ended: (reason: string) => void = () => {}) => {
  let keys = 0
  const publisher: Publisher = {
    video: { payloadType: 102, clockHz: 90_000, channels: 1 },
    audio: opus,
    requestKeyPicture: () => {
      keys++
    },
    onEnd: ended,
  }
  return { publisher, keys: () => keys }
}

const listening = () => {
  const units: Array<AccessUnit> = []
  let lost = 0
  const listener: SourceListener = {
    onParameters: () => {},
    onUnit: (unit) => {
      units.push({ ...unit, data: Uint8Array.from(unit.data) })
    },
    onLoss: (packets) => {
      lost += packets
    },
  }
  return { listener, units, lost: () => lost }
}

/** H.264 of one macroblock row: parameter sets of a 16 by 16 picture (baseline), and a key picture. */
const sets = [
  Buffer.from("6742000af841a2", "hex"),
  Buffer.from("68ce3880", "hex"),
]
const picture = Buffer.from("65888400100000", "hex")

const packet = (
  payloadType: number,
  sequence: number,
  timestamp: number,
  payload: Uint8Array,
  marker = false,
): Buffer => {
  const head = Buffer.alloc(12)
  head[0] = 0x80
  head[1] = payloadType | (marker ? 0x80 : 0)
  head.writeUInt16BE(sequence & 0xffff, 2)
  head.writeUInt32BE(timestamp >>> 0, 4)
  head.writeUInt32BE(7, 8)
  return Buffer.concat([head, payload])
}

/** Four packets a picture. */
const keyPicture = (sequence: number, timestamp: number): ReadonlyArray<Buffer> => [
  packet(102, sequence, timestamp, sets[0]!),
  packet(102, sequence + 1, timestamp, sets[1]!),
  packet(102, sequence + 2, timestamp, picture, true),
]

describe("publishers", () => {
  it("hand on in order what came in any", () => {
    const publishers = makePublishers()
    const { publisher, keys } = phone()
    const publication = publishers.publish(address, publisher)
    const early = keyPicture(65_535, 1_000)
    for (const one of early) publication.rtp("video", one, 1)
    const { listener, lost, units } = listening()
    assert.isNotNull(publishers.take(address, listener, () => {}))
    assert.strictEqual(keys(), 1)
    const [first, second, third] = keyPicture(10, 4_000)
    const [fourth, fifth, sixth] = keyPicture(13, 7_000)
    publication.rtp("video", first!, 10)
    for (const one of [fifth!, third!, second!, sixth!, fourth!, fourth!]) publication.rtp("video", one, 20)
    publication.rtp("audio", packet(111, 1, 960, Buffer.from([0xf8, 1, 2])), 21)
    publication.rtp("video", Buffer.from([0x80]), 22)
    assert.deepStrictEqual(units.map(({ key, ticks, track }) => [track, key, ticks]), [
      ["video", true, 4_000],
      ["video", true, 7_000],
      ["audio", true, 960],
    ])
    assert.strictEqual(lost(), 0)
    // One that never comes is given up after a while, and told.
    publication.rtp("video", keyPicture(17, 10_000)[2]!, 30)
    publication.rtp("video", keyPicture(20, 13_000)[0]!, 400)
    assert.isAbove(lost(), 0)
  })

  it("are replaced by newer ones, which alone are heard then", () => {
    const publishers = makePublishers()
    const told: Array<string> = []
    const first = publishers.publish(address, phone((reason) => told.push(`first ${reason}`)).publisher)
    const { listener, units } = listening()
    let gone = 0
    publishers.take(address, listener, () => {
      gone++
    })
    const second = publishers.publish(address, phone((reason) => told.push(`second ${reason}`)).publisher)
    assert.deepStrictEqual([told, gone], [["first replaced"], 1])
    for (const one of keyPicture(1, 1)) first.rtp("video", one, 1)
    first.withdraw()
    assert.isTrue(publishers.isHere(address))
    publishers.take(address, listener, () => {
      gone++
    })
    for (const one of keyPicture(1, 1)) second.rtp("video", one, 1)
    assert.lengthOf(units, 1)
    publishers.end(address)
    publishers.end(address)
    assert.deepStrictEqual([told, gone, publishers.isHere(address)], [["first replaced", "second ended"], 2, false])
    assert.isNull(publishers.take(address, listener, () => {}))
  })

  it.effect("are waited for, asked for key pictures, and told of when they go", () =>
    Effect.gen(function*() {
      const publishers = makePublishers()
      const driver = mobileDriver(publishers)
      const { listener } = listening()
      assert.strictEqual((yield* Effect.flip(driver.open(options, listener))).reason, "publisherAway")
      assert.isFalse(driver.comes!.isHere(options))
      const waiting = yield* Effect.forkChild(driver.comes!.arrival(options))
      yield* TestClock.adjust("1 minute")
      assert.isUndefined(waiting.pollUnsafe())
      const one = phone()
      const publication = publishers.publish(address, one.publisher)
      yield* Fiber.join(waiting)
      const open = yield* Effect.forkChild(Effect.flip(driver.open(options, listener)))
      yield* TestClock.adjust("10 seconds")
      assert.isAtLeast(one.keys(), 5)
      publication.withdraw()
      assert.strictEqual((yield* Fiber.join(open)).reason, "publisherAway")
      const before = one.keys()
      yield* TestClock.adjust("10 seconds")
      assert.strictEqual(one.keys(), before)
    }))
})
