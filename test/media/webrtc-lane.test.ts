/** What a viewer's lane sends again, for how long, and that packets share their memory without a trace of one another. */
import { makeVideoPacketiser } from "#media/rtp/packetiser.ts"
import { Lane } from "#media/webrtc/lane.ts"
import { frontBytes, PacketMemories, type PacketMemory } from "#media/webrtc/packet-memory.ts"
import type { Peer } from "#media/webrtc/peer.ts"
import { assert, describe, it } from "@effect/vitest"

interface Packet {
  readonly sequence: number
  readonly bytes: Buffer
}

/** A peer that keeps what it is told to send. */
const listener = () => {
  const memories = new PacketMemories()
  const sent: Array<Packet> = []
  const peer: Pick<Peer, "memoryFor" | "sendRtp"> = {
    memoryFor: (length) => memories.take(length + 10),
    sendRtp: (memory: PacketMemory, length, rollover) => {
      const bytes = Buffer.from(memory.bytes.subarray(frontBytes, frontBytes + length))
      sent.push({ sequence: rollover * 0x1_0000 + bytes.readUInt16BE(2), bytes })
    },
  }
  return { peer: peer as Peer, sent }
}

const packetiser = makeVideoPacketiser("h264", { channel: 0, payloadType: 96, ssrc: 1, sequence: 0 })

/** A picture of so many packets. */
const picture = (packets: number, fill: number) => {
  const nal = Buffer.alloc(4 + packets * 1_390, fill)
  nal.writeUInt32BE(nal.length - 4)
  nal[4] = 0x41
  const made = packetiser.unit(nal, fill * 3_000)
  if (made === null || made.starts.length !== packets) throw new Error("another number of packets")
  return made
}

const lane = (sequence = 100, memory = 64) => {
  const { peer, sent } = listener()
  return { sent, lane: new Lane(peer, { payloadType: 102, ssrc: 77, sequence, memory }) }
}

describe("a viewer's lane", () => {
  it("sends a packet again as it was, whatever was sent since", () => {
    const { lane: one, sent } = lane()
    for (let fill = 1; fill <= 4; fill++) {
      const packets = picture(fill * 2, fill)
      for (const index of packets.starts.keys()) one.send(packets, index, fill)
    }
    const first = sent.slice()
    assert.deepStrictEqual(first.map(({ sequence }) => sequence), first.map((_, index) => 100 + index))
    assert.isTrue(first.every(({ bytes }) => (bytes[1]! & 0x7f) === 102 && bytes.readUInt32BE(8) === 77))
    for (const { sequence } of first) one.resend(sequence, 50)
    assert.deepStrictEqual(sent.slice(first.length), first)
    one.resend(100, 60)
    assert.strictEqual(sent.length, first.length * 2, "the same question within 15 ms")
    one.resend(99, 100)
    one.resend(100 + first.length, 100)
    assert.strictEqual(sent.length, first.length * 2, "what was never sent")
  })

  it("forgets what nobody can use any more, and not before", () => {
    const { lane: one, sent } = lane(65_530)
    const packets = picture(1, 1)
    // A packet each 100 ms, for 5 s.
    for (let ms = 0; ms < 5_000; ms += 50) {
      if (ms % 100 === 0) one.send(packets, 0, ms)
      one.forget(ms)
    }
    const before = sent.length
    for (let back = 1; back <= 50; back++) one.resend((65_530 + before - back) & 0xffff, 5_000)
    const again = sent.slice(before).map(({ sequence }) => 65_530 + before - sequence)
    assert.deepStrictEqual(again, again.map((_, index) => index + 1), "the newest ones without a hole")
    assert.isAtLeast(again.length, 20)
    assert.isAtMost(again.length, 26)
    // And a stream that stands still is let go of altogether.
    for (let ms = 5_000; ms < 8_000; ms += 50) one.forget(ms)
    const still = sent.length
    for (let back = 1; back <= 50; back++) one.resend((65_530 + before - back) & 0xffff, 9_000)
    assert.strictEqual(sent.length, still)
  })

  it("remembers no more packets than it was made for", () => {
    const { lane: one, sent } = lane(0, 16)
    const packets = picture(1, 1)
    for (let i = 0; i < 40; i++) one.send(packets, 0, i)
    one.forget(0)
    for (let ms = 500; ms < 2_500; ms += 500) one.forget(ms)
    for (let i = 0; i < 10; i++) one.send(packets, 0, 40 + i)
    one.forget(2_500)
    for (let i = 0; i < 50; i++) one.resend(i, 3_000)
    assert.deepStrictEqual(sent.slice(50).map(({ sequence }) => sequence), [40, 41, 42, 43, 44, 45, 46, 47, 48, 49])
  })
})
