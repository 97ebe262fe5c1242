/** The parts of WebRTC against other implementations of the same standards, and against garbage. */
import { parseReceptionReports } from "#media/rtp/rtcp.ts"
import { makeDtlsIdentity, openDtls, type SrtpKeys } from "#media/webrtc/dtls.ts"
import { bitratePacket, nackPacket, parseFeedback } from "#media/webrtc/feedback.ts"
import { judgeFragment } from "#media/webrtc/fragment.ts"
import { parseOffer } from "#media/webrtc/offer.ts"
import { frontBytes, PacketMemories } from "#media/webrtc/packet-memory.ts"
import { addressesOf } from "#media/webrtc/ports.ts"
import { Reception } from "#media/webrtc/reception.ts"
import { tagBytes } from "#media/webrtc/srtp-keys.ts"
import { SrtpReceiver, SrtpSender } from "#media/webrtc/srtp.ts"
import { bindingResponse, isAuthentic, parseBindingRequest } from "#media/webrtc/stun.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Result } from "effect"
import {
  classes,
  DtlsClient,
  Message,
  methods,
  parseMessage,
  RtcpPacketConverter,
  RtpHeader,
  SrtcpSession,
  SrtpSession,
} from "werift"
import { random } from "./random.ts"
import { until } from "./rtsp-server-fixtures.ts"
import { client, rtp } from "./webrtc-peers.ts"

const seeded = (seed: number) => {
  const next = random(seed)
  return { next, bytes: (length: number) => Buffer.from(Array.from({ length }, () => next(256))) }
}

describe("SRTP", () => {
  const { bytes } = seeded(1)
  const [key, salt] = [bytes(16), bytes(14)]
  const keys = { localMasterKey: key, localMasterSalt: salt, remoteMasterKey: key, remoteMasterSalt: salt }
  const memories = new PacketMemories()
  const protect = (sender: SrtpSender, packet: Buffer, rollover: number) => {
    const memory = memories.take(packet.length + tagBytes)
    packet.copy(memory.bytes, frontBytes)
    sender.protect(memory, packet.length, rollover)
    return Buffer.from(memory.packet(packet.length + tagBytes))
  }

  it("is understood by another implementation, and understands it, across a wrap", () => {
    const [sender, receiver, other] = [
      new SrtpSender(key, salt),
      new SrtpReceiver(key, salt),
      new SrtpSession({ keys, profile: 1 }),
    ]
    for (const [index, length] of [0, 1, 15, 16, 17, 1400].entries()) {
      const sequence = 65_533 + index
      const packet = rtp(96, 0xdead_beef, sequence, 1000, bytes(length))
      const sealed = protect(sender, packet, sequence >> 16)
      assert.deepStrictEqual(other.decrypt(Buffer.from(sealed)), packet)
      assert.deepStrictEqual(receiver.unprotect(sealed), packet)
      assert.isNull(receiver.unprotect(sealed), "a packet that came before")
    }
    const theirs = new SrtpSession({ keys, profile: 1 })
    const ours = new SrtpReceiver(key, salt)
    for (const sequenceNumber of [65_534, 65_535, 0, 1]) {
      const payload = bytes(100)
      const header = new RtpHeader({ version: 2, payloadType: 96, sequenceNumber, timestamp: 5, ssrc: 77 })
      assert.deepStrictEqual(ours.unprotect(theirs.encrypt(payload, header))?.subarray(12), payload)
    }
  })

  it("is the same whatever was sent before: packets of any size, of two sources, again and after a gap", () => {
    const { bytes: noise, next } = seeded(3)
    const sender = new SrtpSender(key, salt)
    const nextOf = [65_500, 10]
    for (let i = 0; i < 2_000; i++) {
      const source = next(2)
      const step = next(20)
      const index = step === 0 ? nextOf[source]! - next(40) : step === 1 ? nextOf[source]! + next(40) : nextOf[source]!
      nextOf[source] = Math.max(nextOf[source]!, index + 1)
      if (index < 0) continue
      const packet = rtp(96, source + 1, index & 0xffff, 1000, noise(next(next(4) === 0 ? 1_600 : 200)))
      const alone = protect(new SrtpSender(key, salt), packet, index >> 16)
      assert.deepStrictEqual(protect(sender, packet, index >> 16), alone)
    }
  })

  it("carries RTCP as another implementation does", () => {
    const report = Buffer.from("81c9000700000001000000020a00000300000004000000050000000600000007", "hex")
    const other = new SrtcpSession({ keys, profile: 1 })
    const [sender, receiver] = [new SrtpSender(key, salt), new SrtpReceiver(key, salt)]
    for (let i = 0; i < 3; i++) {
      assert.deepStrictEqual(other.decrypt(sender.protectRtcp(report)), report)
      assert.deepStrictEqual(receiver.unprotectRtcp(other.encrypt(report)), report)
    }
    assert.strictEqual(RtcpPacketConverter.deSerialize(report).length, 1)
  })

  it("drops whatever was changed", () => {
    const { bytes: noise, next } = seeded(2)
    const receiver = new SrtpReceiver(key, salt)
    const sealed = protect(new SrtpSender(key, salt), rtp(96, 1, 5, 0, noise(60)), 0)
    for (let at = 0; at < sealed.length; at++) {
      const changed = Buffer.from(sealed)
      changed[at]! ^= 1 << next(8)
      assert.isNull(receiver.unprotect(changed))
      assert.isNull(receiver.unprotectRtcp(changed))
    }
    assert.isNotNull(receiver.unprotect(sealed))
    for (let i = 0; i < 2000; i++) {
      const garbage = noise(next(80))
      assert.isNull(receiver.unprotect(garbage))
      assert.isNull(receiver.unprotectRtcp(garbage))
    }
  })
})

describe("STUN", () => {
  const request = (password: string) =>
    new Message(methods.BINDING, classes.REQUEST).setAttribute("USERNAME", "ours:theirs").setAttribute("PRIORITY", 1)
      .setAttribute("USE-CANDIDATE", null)
      .addMessageIntegrity(Buffer.from(password)).addFingerprint()

  it("is read and answered as another implementation expects", () => {
    for (const [address, port] of [["192.0.2.7", 40_000], ["fd00::17:2", 3478], ["::1", 9]] as const) {
      const asked = request("secret")
      const bytes = Buffer.from(asked.bytes)
      const parsed = parseBindingRequest(bytes)
      assert.isNotNull(parsed)
      assert.deepInclude(parsed, { username: "ours:theirs", useCandidate: true, controlled: false })
      assert.isTrue(isAuthentic(bytes, parsed, "secret"))
      assert.isFalse(isAuthentic(bytes, parsed, "secrets"))
      const answer = parseMessage(bindingResponse(parsed, address, port, "secret"), Buffer.from("secret"))
      assert.strictEqual(answer?.messageClass, 0x100)
      const [host, at] = answer!.getAttributeValue("XOR-MAPPED-ADDRESS") as [string, number]
      assert.deepStrictEqual([
        new URL(`http://${host.includes(":") ? `[${host}]` : host}/`).hostname.replace(/[[\]]/g, ""),
        at,
      ], [address, port])
    }
  })

  it("that was changed or cut is nothing, or not authentic", () => {
    const { bytes: noise, next } = seeded(3)
    const good = Buffer.from(request("secret").bytes)
    let read = 0
    for (let i = 0; i < 5000; i++) {
      const changed = Buffer.from(good.subarray(0, next(4) === 0 ? next(good.length) : good.length))
      if (changed.length > 0) changed[next(Math.max(1, changed.length - 8))]! ^= 1 + next(255)
      const parsed = parseBindingRequest(changed)
      if (parsed === null) continue
      read++
      if (changed.subarray(0, parsed.integrityAt).equals(good.subarray(0, parsed.integrityAt))) continue
      assert.isFalse(isAuthentic(changed, parsed, "secret"))
    }
    assert.isAbove(read, 100)
    for (let i = 0; i < 2000; i++) assert.isNull(parseBindingRequest(noise(next(200))))
  })
})

describe("what is read of a browser", () => {
  it.live("never throws", () =>
    Effect.scoped(Effect.gen(function*() {
      const { offer } = yield* client({ direction: "SendOnly", video: "h264", audio: "opus" })
      const { bytes, next } = seeded(4)
      assert.isTrue(Result.isSuccess(parseOffer(offer)))
      const lines = offer.split("\r\n")
      let taken = 0
      for (let i = 0; i < 3000; i++) {
        const some = lines.filter(() => next(30) > 0).map((line) =>
          next(40) > 0 ? line : line.slice(0, next(line.length + 1)) + bytes(next(9)).toString("latin1")
        )
        const parsed = parseOffer(some.join(next(2) === 0 ? "\r\n" : "\n"))
        if (Result.isSuccess(parsed)) taken++
        judgeFragment(some.slice(next(20)).join("\r\n"), { ufrag: "abcd", password: "x".repeat(22) })
        parseFeedback(bytes(next(120)))
      }
      assert.isAbove(taken, 100)
      assert.isTrue(Result.isFailure(parseOffer(`v=0\r\n${"m=video 9 UDP/TLS/RTP/SAVPF 96\r\n".repeat(9)}`)))
      assert.isTrue(Result.isFailure(parseOffer("v=0\r\n".padEnd(100_000, "a=x\r\n"))))
    })))

  it("is a fragment of this session, of another, or none", () => {
    const offered = { ufrag: "EsAw", password: "P2uYro0UCOQ4zxjKXaWCBui1" }
    const fragment = (ufrag: string) =>
      `a=ice-ufrag:${ufrag}\r\na=ice-pwd:${offered.password}\r\nm=audio 9 RTP/AVP 0\r\na=mid:0\r\na=end-of-candidates\r\n`
    assert.strictEqual(judgeFragment(fragment("EsAw"), offered), "taken")
    assert.strictEqual(judgeFragment(fragment("other"), offered), "mismatch")
    assert.strictEqual(judgeFragment("candidate:1", offered), "malformed")
  })

  it("asks by bits for what was lost", () => {
    const nack = nackPacket(1, 2, [5, 6, 7])
    assert.strictEqual(nack.toString("hex"), "81cd0003000000010000000200050003")
    assert.deepStrictEqual(parseFeedback(nack).lost.map(({ sequence, ssrc }) => [ssrc, sequence]), [[2, 5], [2, 6], [
      2,
      7,
    ]])
    const remb = bitratePacket(1, 2, 4_000_000)
    assert.approximately(parseFeedback(remb).bitrate!, 4_000_000, 20_000)
  })
})

describe("who sends, though known,", () => {
  it("cannot disturb by what it sends: bounded questions, no exception", () => {
    const { bytes, next } = seeded(6)
    let [asked, handed] = [0, 0]
    const tracks = [{ name: "video", payloadType: 96, clockHz: 90_000, nack: true }] as const
    const reception = new Reception(tracks, 1, 4_000_000, {
      onRtp: () => handed++,
      onSenderReport: () => {},
      onGoodbye: () => {},
      send: (packet) => {
        assert.isBelow(packet.length, 1_500)
        if (packet[1] === 205) asked++
      },
    })
    for (let i = 0; i < 20_000; i++) {
      const sequence = next(3) === 0 ? next(65_536) : i
      reception.packet(
        rtp(next(20) === 0 ? next(128) : 96, next(50) === 0 ? next(9) : 7, sequence, i * 90, bytes(next(8))),
        i,
      )
      const report = bytes(8 + next(60))
      report[0] = 0x80 | next(4)
      report[1] = 200 + next(8)
      if (next(2) === 0) report.writeUInt16BE(next(12), 2)
      reception.rtcp(report, i)
      parseReceptionReports(report, 0, report.length)
      if (i % 50 === 0) reception.tick(i)
    }
    assert.isAbove(handed, 10_000)
    assert.isAbove(asked, 10)
  })
})

describe("DTLS", () => {
  /** A client with the certificate of `shown` that signs with the key of `held`. */
  const shake = (shown: Awaited<ReturnType<typeof makeDtlsIdentity>>, held: typeof shown) =>
    Effect.gen(function*() {
      const own = yield* Effect.promise(makeDtlsIdentity)
      const ends: Array<string> = []
      const keys: Array<SrtpKeys> = []
      const toClient = { onData: (_bytes: Buffer) => {} }
      const server = openDtls(own, { algorithm: "sha-256", value: shown.fingerprint }, {
        send: (datagram) => setImmediate(() => toClient.onData(datagram)),
        onKeys: (agreed) => keys.push(agreed),
        onEnd: (reason) => ends.push(reason),
      })
      const dtls = new DtlsClient({
        cert: shown.certificate.certPem,
        key: held.certificate.privateKey,
        signatureHash: held.certificate.signatureHash,
        srtpProfiles: [1],
        extendedMasterSecret: true,
        transport: Object.assign(toClient, {
          type: "test",
          address: { address: "", family: "", port: 0 },
          closed: false,
          send: (datagram: Buffer) => Promise.resolve(void setImmediate(() => server.receive(datagram))),
          close: () => Promise.resolve(),
        }),
      })
      yield* Effect.promise(() => dtls.connect())
      yield* until("an outcome", () => ends.length + keys.length > 0)
      server.close()
      return { ends, keys: keys.length }
    })

  it.live("takes only who signs with the key of the certificate", () =>
    Effect.gen(function*() {
      const [mine, thief] = yield* Effect.promise(() => Promise.all([makeDtlsIdentity(), makeDtlsIdentity()]))
      assert.deepStrictEqual(yield* shake(mine, mine), { ends: [], keys: 1 })
      assert.deepStrictEqual(yield* shake(mine, thief), { ends: ["failed"], keys: 0 })
    }))

  it.live("is not disturbed by garbage", () =>
    Effect.gen(function*() {
      const own = yield* Effect.promise(makeDtlsIdentity)
      const { bytes, next } = seeded(5)
      for (let round = 0; round < 20; round++) {
        const ends: Array<string> = []
        const server = openDtls(own, { algorithm: "sha-256", value: own.fingerprint }, {
          send: () => {},
          onKeys: () => assert.fail("keys from garbage"),
          onEnd: (reason) => ends.push(reason),
        })
        for (let i = 0; i < 100; i++) {
          const record = Buffer.concat([
            Buffer.from([[20, 21, 22, 23][next(4)]!, 254, 253, 0, 0, 0, 0, 0, 0, 0, i]),
            bytes(2 + next(300)),
          ])
          if (next(3) > 0) record.writeUInt16BE(record.length - 13, 11)
          server.receive(record)
        }
        yield* Effect.sleep(1)
        server.close()
        assert.isAtMost(ends.length, 1)
      }
    }))
})

describe("interfaces", () => {
  const address = (text: string, internal = false) => ({
    address: text,
    netmask: "",
    mac: "",
    internal,
    cidr: null,
    family: "IPv4" as const,
  })
  const all = {
    lo: [address("127.0.0.1", true)],
    lan: [address("192.0.2.5"), address("169.254.1.1")],
    docker0: [address("172.17.0.1")],
  }

  it("are those that are named, or those of HTTP", () => {
    assert.deepStrictEqual(addressesOf(["lan"], "0.0.0.0", all), ["192.0.2.5"])
    assert.deepStrictEqual(addressesOf(["172.17.0.1", "lo"], "0.0.0.0", all), ["127.0.0.1", "172.17.0.1"])
    assert.deepStrictEqual(addressesOf([], "127.0.0.1", all), ["127.0.0.1"])
    assert.deepStrictEqual(addressesOf([], "0.0.0.0", all), ["192.0.2.5", "172.17.0.1"])
    assert.deepStrictEqual(addressesOf(["none"], "0.0.0.0", all), [])
  })
})
