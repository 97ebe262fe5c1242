/** The pairing of two nodes as arithmetic and as a conversation, and the link that talks to one TLS key alone. */
import { makeAsked } from "#actors/behaviour/auth-federation-asked.ts"
import { commitmentTo, comparisonCodeOf, hasSigned, type PairingTranscript, signTranscript } from "#cluster/pairing.ts"
import { bytesOf, learnTlsPin, openLink, reachedAt, whyNot } from "#cluster/peer-link.ts"
import { makeCertificate } from "#ops/host/certificate.ts"
import type { NodeIntroduction } from "#schema/auth-federation.ts"
import { networkOf } from "#schema/auth-network.ts"
import { NodeId } from "#schema/common.ts"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { createHash, createPublicKey, generateKeyPairSync, randomBytes, X509Certificate } from "node:crypto"
import { createServer } from "node:https"
import type { AddressInfo } from "node:net"
import { makeSettableClock } from "./media/capture-harness.ts"

const random32 = () => randomBytes(32).toString("base64url")
const made = (n: number) => {
  const { privateKey } = generateKeyPairSync("ed25519")
  const introduction: NodeIntroduction = {
    nodeId: NodeId.make(`01900000-0000-7000-8000-00000000000${n}`),
    name: `node ${n}`,
    version: "1",
    address: `https://192.0.2.${n}:8080`,
    tlsPin: random32(),
    signingKey: createPublicKey(privateKey).export({ format: "jwk" }).x!,
    transferKey: random32(),
  }
  return { privateKey, introduction }
}
const asking = made(1)
const asked = made(2)
const transcript: PairingTranscript = {
  asking: asking.introduction,
  asked: asked.introduction,
  askingNonce: random32(),
  askedNonce: random32(),
}

describe("what both sides said", () => {
  it("is another text, with another signature, whatever of it is changed", () => {
    const other = made(3).introduction
    const changed: Array<PairingTranscript> = [
      { ...transcript, askingNonce: random32() },
      { ...transcript, askedNonce: random32() },
      { ...transcript, asking: transcript.asked, asked: transcript.asking },
      { ...transcript, askingNonce: transcript.askedNonce, askedNonce: transcript.askingNonce },
    ]
    for (const side of ["asking", "asked"] as const) {
      for (const member of ["nodeId", "name", "address", "tlsPin", "signingKey", "transferKey"] as const) {
        changed.push({ ...transcript, [side]: { ...transcript[side], [member]: other[member] } })
      }
      changed.push({ ...transcript, [side]: { ...transcript[side], tlsPin: null } })
    }
    const signature = signTranscript(asking.privateKey, "claim", transcript)
    assert.isTrue(hasSigned("claim", transcript, signature))
    for (const one of changed) assert.isFalse(hasSigned("claim", one, signature))
    // A million codes: two of a few may be alike, hardly all of them.
    const same = changed.filter((one) => comparisonCodeOf(one) === comparisonCodeOf(transcript))
    assert.isAtMost(same.length, 1)
  })

  it("is signed for one step, by one side", () => {
    const answer = signTranscript(asked.privateKey, "answer", transcript)
    assert.isTrue(hasSigned("answer", transcript, answer))
    assert.isFalse(hasSigned("claim", transcript, answer))
    assert.isFalse(hasSigned("answer", transcript, signTranscript(asking.privateKey, "answer", transcript)))
    assert.isFalse(hasSigned("answer", { ...transcript, asked: { ...transcript.asked, signingKey: "none" } }, answer))
    assert.isFalse(hasSigned("answer", transcript, ""))
  })

  it("makes six digits, each as likely as the others", () => {
    const counts = new Map<string, number>()
    for (let n = 0; n < 2_000; n++) {
      const code = comparisonCodeOf({ ...transcript, askedNonce: random32() })
      assert.match(code, /^\d{6}$/)
      counts.set(code[0]!, (counts.get(code[0]!) ?? 0) + 1)
    }
    for (const count of counts.values()) assert.approximately(count, 200, 100)
  })
})

describe("the asked side", () => {
  const offer = (nonce: string) => ({
    ...asking.introduction,
    target: asked.introduction.nodeId,
    commitment: commitmentTo(asking.introduction, nonce),
  })
  const begin = Effect.fnUntraced(function*() {
    const side = makeAsked(asked.introduction.nodeId)
    const askingNonce = random32()
    const answer = yield* side.request(offer(askingNonce), asked.introduction, "192.0.2.1")
    const said = { ...transcript, askingNonce, askedNonce: answer.nonce }
    const signature = signTranscript(asking.privateKey, "claim", said)
    return { side, askingNonce, id: answer.requestId, said, signature }
  })

  it.effect("gives nothing before it was revealed, confirmed, and proven", () =>
    Effect.gen(function*() {
      const { askingNonce, id, said, side, signature } = yield* begin()
      assert.strictEqual((yield* side.list)[0]!.comparisonCode, null)
      assert.strictEqual((yield* Effect.flip(side.confirm(id, {})))._tag, "PairingNotOpen")
      const { signature: answer } = yield* side.reveal(id, askingNonce, asked.privateKey)
      assert.isTrue(hasSigned("answer", said, answer))
      assert.strictEqual((yield* side.list)[0]!.comparisonCode, comparisonCodeOf(said))
      assert.strictEqual((yield* Effect.flip(side.claim(id, { signature })))._tag, "PairingNotOpen")
      const wrong = comparisonCodeOf(said) === "000000" ? "000001" : "000000"
      assert.strictEqual((yield* Effect.flip(side.confirm(id, { comparisonCode: wrong })))._tag, "PairingMismatch")
      yield* side.confirm(id, { comparisonCode: comparisonCodeOf(said), grantGuardian: true })
      const forged = signTranscript(made(4).privateKey, "claim", said)
      assert.strictEqual((yield* Effect.flip(side.claim(id, { signature: forged })))._tag, "PairingMismatch")
      assert.deepInclude(yield* side.claim(id, { signature }), { first: true, grantGuardian: true })
      side.settle(id)
      assert.deepInclude(yield* side.claim(id, { signature }), { first: false }, "its answer was lost")
      assert.strictEqual((yield* Effect.flip(side.deny(id)))._tag, "PairingNotOpen")
    }))

  it.effect("takes one nonce, the one that was committed to", () =>
    Effect.gen(function*() {
      const { askingNonce, id, side } = yield* begin()
      assert.strictEqual((yield* Effect.flip(side.reveal(id, random32(), asked.privateKey)))._tag, "PairingMismatch")
      assert.strictEqual((yield* Effect.flip(side.reveal(id, askingNonce, asked.privateKey)))._tag, "PairingNotOpen")
      const other = yield* begin()
      yield* other.side.reveal(other.id, other.askingNonce, asked.privateKey)
      yield* other.side.reveal(other.id, other.askingNonce, asked.privateKey)
      yield* Effect.flip(other.side.reveal(other.id, random32(), asked.privateKey))
    }))

  it.effect("holds few requests, for ten minutes, and is not to be asked too often", () =>
    Effect.gen(function*() {
      const side = makeAsked(asked.introduction.nodeId)
      const from = (address: string) => side.request(offer(random32()), asked.introduction, address)
      yield* TestClock.adjust("1 hour")
      const first = yield* from("192.0.2.1")
      yield* from("192.0.2.1")
      yield* from("192.0.2.1")
      assert.strictEqual((yield* Effect.flip(from("192.0.2.1")))._tag, "PairingSlowDown")
      for (let n = 0; n < 5; n++) yield* from(`192.0.2.${n + 2}`)
      assert.strictEqual((yield* Effect.flip(from("192.0.2.99")))._tag, "PairingSlowDown")
      assert.strictEqual((yield* side.status(first.requestId)).state, "pending")
      assert.strictEqual((yield* Effect.flip(side.status(first.requestId)))._tag, "PairingSlowDown")
      yield* TestClock.adjust("10 minutes")
      assert.strictEqual((yield* side.status(first.requestId)).state, "expired")
      yield* from("192.0.2.1")
      yield* TestClock.adjust("2 hours")
      assert.strictEqual((yield* side.list).length, 0)
      assert.strictEqual((yield* Effect.flip(side.status(first.requestId)))._tag, "PairingNotFound")
      const stranger = { ...offer(random32()), target: NodeId.make("01900000-0000-7000-8000-000000000009") }
      assert.strictEqual(
        (yield* Effect.flip(side.request(stranger, asked.introduction, "192.0.2.1")))._tag,
        "PairingMismatch",
      )
    }))
})

const tlsServer = Effect.gen(function*() {
  const pair = yield* makeCertificate({
    commonName: "node",
    names: [],
    // Not the address that it answers at: names do not matter.
    addresses: ["192.0.2.1"],
    notBeforeMs: 0,
    notAfterMs: 1_000,
  })
  const seen: Array<string> = []
  const server = createServer({ cert: pair.certificate, key: pair.privateKey }, (request, response) => {
    seen.push(`${request.method} ${request.url}`)
    response.end("hello")
  })
  yield* Effect.acquireRelease(
    Effect.callback<void>((resume) => {
      server.listen(0, "127.0.0.1", () => resume(Effect.void))
    }),
    () => Effect.sync(() => server.close()),
  )
  const spki = new X509Certificate(pair.certificate).publicKey.export({ format: "der", type: "spki" })
  const pin = createHash("sha256").update(spki).digest("base64url")
  return { seen, pin, address: `https://127.0.0.1:${(server.address() as AddressInfo).port}` }
})

describe("a link", () => {
  const request = { method: "GET", path: "/x", headers: {}, body: null, timeout: "20 seconds" } as const

  it.live("talks to the key that is known of the node, whatever its certificate says", () =>
    Effect.gen(function*() {
      const { address, pin, seen } = yield* tlsServer
      assert.strictEqual(yield* learnTlsPin(address), pin)
      const link = yield* openLink({ address, tlsPin: pin }, [])
      for (let n = 0; n < 3; n++) {
        const text = yield* Effect.scoped(Effect.flatMap(link.request(request), ({ body }) => bytesOf(body, 100)))
        assert.strictEqual(text.toString(), "hello")
      }
      assert.deepStrictEqual(seen, ["GET /x", "GET /x", "GET /x"])
      const large = yield* Effect.flip(
        Effect.scoped(Effect.flatMap(link.request(request), ({ body }) => bytesOf(body, 4))),
      )
      assert.include(large.detail, "larger")
    }))

  it.live("takes no answer that it reads after its time, as when this process stood still", () =>
    Effect.gen(function*() {
      const { address, pin, seen } = yield* tlsServer
      const { clock, stand } = makeSettableClock(yield* Clock.Clock)
      const link = yield* Effect.provideService(openLink({ address, tlsPin: pin }, []), Clock.Clock, clock)
      const asking = yield* Effect.forkChild(Effect.scoped(Effect.flip(link.request(request))))
      yield* Effect.yieldNow
      stand(20_001)
      const late = yield* Fiber.join(asking)
      assert.strictEqual(late.detail, "it does not answer in time")
      assert.deepStrictEqual(seen, ["GET /x"])
    }))

  it.live("says nothing to another key, nor in clear text beyond this machine", () =>
    Effect.gen(function*() {
      const { address, seen } = yield* tlsServer
      const link = yield* openLink({ address, tlsPin: random32() }, [])
      const refused = yield* Effect.flip(Effect.scoped(link.request(request)))
      assert.include(refused.detail, "another TLS key")
      assert.deepStrictEqual(seen, [])
      yield* Effect.flip(openLink({ address, tlsPin: null }, []))
      yield* Effect.flip(openLink({ address: "http://192.0.2.1:80", tlsPin: null }, []))
      yield* Effect.flip(openLink({ address: "ftp://127.0.0.1", tlsPin: null }, []))
      const nobody = yield* openLink({ address: "http://127.0.0.1:1", tlsPin: null }, [])
      yield* Effect.flip(Effect.scoped(nobody.request(request)))
    }))

  it("in clear text goes only where the operator has said so, by number", () => {
    const plain = [networkOf("10.9.0.0/24")!]
    assert.isNull(whyNot("http://127.0.0.1:1", []))
    assert.isNull(whyNot("https://192.0.2.1", []))
    assert.isNull(whyNot("http://10.9.0.7:8080", plain))
    assert.include(whyNot("http://10.9.0.7:8080", []), "clear text")
    assert.include(whyNot("http://10.9.1.7:8080", plain), "clear text")
    assert.include(whyNot("http://vpn.example:8080", plain), "clear text")
    assert.isNotNull(whyNot("ftp://127.0.0.1", plain))
  })

  it.live("goes to the first of several addresses where the key is shown", () =>
    Effect.gen(function*() {
      const [one, other] = [yield* tlsServer, yield* tlsServer]
      const nowhere = "https://127.0.0.1:1"
      const { address: impostor } = other
      const at = (addresses: ReadonlyArray<string>, address: string) =>
        reachedAt({ address, addresses, tlsPin: one.pin }, [])
      assert.strictEqual(yield* at([nowhere, impostor], one.address), one.address)
      assert.strictEqual(yield* at([one.address], nowhere), one.address)
      assert.strictEqual(yield* at([nowhere], impostor), nowhere)
    }))
})
