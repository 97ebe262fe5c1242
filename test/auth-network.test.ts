/** Addresses, networks, the list of management addresses, and who calls behind which proxies. */
import { ManagementAccessLive } from "#actors/behaviour/auth-network.ts"
import { ManagementAccess } from "#actors/protocol/auth-network.ts"
import { callerOf, parseForwarded } from "#http/server-forwarded.ts"
import { addressOf, canonicalAddress, checkOrigin, Cidr, networkOf, within } from "#schema/auth-network.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"

const trusted = ["10.0.0.0/8", "fd00::/8", "127.0.0.1"].map((text) => networkOf(text)!)
const call = (peer: string, headers: Record<string, string>, encrypted = false) =>
  callerOf({ peer, encrypted, headers }, trusted)

describe("addresses", () => {
  it("have one text each", () => {
    const same: ReadonlyArray<readonly [string, string]> = [
      ["::ffff:192.0.2.1", "192.0.2.1"],
      ["::FFFF:c000:0201", "192.0.2.1"],
      ["2001:DB8:0:0::1", "2001:db8::1"],
      ["[2001:db8::1]", "2001:db8::1"],
      ["[2001:db8::1]:443", "2001:db8::1"],
      ["192.0.2.1:65535", "192.0.2.1"],
      ["fe80::1%eth0", "fe80::1"],
    ]
    assert.deepStrictEqual(same.map(([text]) => canonicalAddress(text)), same.map(([, text]) => text))
    for (const text of ["", "unknown", "_hidden", "1.2.3", "1.2.3.4.5", "256.1.1.1", "0x7f.1", "010.0.0.1", "::1::"]) {
      assert.isNull(addressOf(text), text)
    }
  })

  it("networks have one text each, and no bits beyond their prefix", () => {
    const decode = Schema.decodeUnknownSync(Cidr)
    assert.strictEqual(decode("192.168.1.7"), "192.168.1.7/32")
    assert.strictEqual(decode(" 10.0.0.0/8 "), "10.0.0.0/8")
    assert.strictEqual(decode("::ffff:10.0.0.0/104"), "10.0.0.0/8")
    assert.strictEqual(decode("2001:DB8::/32"), "2001:db8::/32")
    assert.strictEqual(decode("::/0"), "::/0")
    for (const text of ["10.0.0.5/8", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "::/129", "lan", ""]) {
      assert.throws(() => decode(text), /Expected an address or a network/, text)
    }
  })

  it.prop("a network holds an address exactly if their first bits are the same", [
    Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 0xffff_ffff })),
    Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 0xffff_ffff })),
    Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 32 })),
  ], ([base, seed, prefix]) => {
    const text = (value: number) => [24, 16, 8, 0].map((shift) => (value >>> shift) & 255).join(".")
    const mask = prefix === 0 ? 0 : (0xffff_ffff << (32 - prefix)) >>> 0
    // Half of the addresses lie close to the edge of the network.
    const address = seed % 2 === 0 ? seed : (base ^ (1 << (seed % 32))) >>> 0
    const network = networkOf(`${text((base & mask) >>> 0)}/${prefix}`)!
    const expected = ((base & mask) >>> 0) === ((address & mask) >>> 0)
    assert.strictEqual(within([network], addressOf(text(address))!), expected)
    assert.strictEqual(within([network], addressOf(`::ffff:${text(address)}`)!), expected)
  })
})

describe("the list of management addresses", () => {
  const office = { id: "1", name: "office", cidr: "192.0.2.0/24" }
  const home = { id: "2", name: "home", cidr: "2001:db8::/64" }

  it("restricts nothing while it is empty", () => {
    assert.isTrue(checkOrigin([], { address: "203.0.113.9", proxied: true }).allowed)
    assert.isTrue(checkOrigin([], { address: "", proxied: false }).allowed)
  })

  it("tells by which entry an address gets in, and why one does not", () => {
    const inside = checkOrigin([home, office], { address: "::ffff:192.0.2.77", proxied: false })
    assert.deepStrictEqual([inside.allowed, inside.via], [true, office])
    assert.strictEqual(checkOrigin([home, office], { address: "2001:db8::5", proxied: true }).via?.name, "home")
    const outside = checkOrigin([home, office], { address: "198.51.100.1", proxied: false })
    assert.isFalse(outside.allowed)
    assert.match(outside.reason, /198\.51\.100\.1 is not among/)
    assert.isFalse(checkOrigin([office], { address: "", proxied: false }).allowed)
  })

  it("lets somebody at the machine in, but not through a proxy nobody trusts", () => {
    assert.isTrue(checkOrigin([office], { address: "127.0.0.1", proxied: false }).allowed)
    assert.isTrue(checkOrigin([office], { address: "::1", proxied: false }).allowed)
    assert.match(checkOrigin([office], { address: "127.0.0.1", proxied: true }).reason, /not trusted/)
    assert.isTrue(checkOrigin([{ ...office, cidr: "127.0.0.0/8" }], { address: "127.0.0.1", proxied: true }).allowed)
  })
})

it.effect("what a node knows of the list holds without a database; before it was read nobody but the machine gets in", () =>
  Effect.gen(function*() {
    const access = yield* ManagementAccess
    const outside = { address: "198.51.100.1", proxied: false }
    assert.strictEqual((yield* Effect.flip(access.check(outside))).dependency, "database")
    assert.isTrue((yield* access.check({ address: "::1", proxied: false })).allowed)
    assert.strictEqual(
      (yield* Effect.flip(access.check({ address: "::1", proxied: true })))._tag,
      "DependencyUnavailable",
    )
    yield* access.know([{ id: "1", name: "office", cidr: "192.0.2.0/24" }])
    assert.isFalse((yield* access.check(outside)).allowed)
    assert.strictEqual((yield* access.check({ address: "192.0.2.9", proxied: true })).via?.name, "office")
    yield* access.know([])
    assert.isTrue((yield* access.check(outside)).allowed)
  }).pipe(Effect.provide(ManagementAccessLive)))

describe("behind a proxy", () => {
  it("nothing is believed of a peer that is not trusted", () => {
    const spoofed = call("203.0.113.9", {
      "x-forwarded-for": "10.1.1.1",
      forwarded: "for=10.1.1.1;proto=https",
      "x-forwarded-proto": "https",
    })
    assert.deepStrictEqual(spoofed, { address: "203.0.113.9", secure: false, proxied: true, contradiction: null })
    assert.deepStrictEqual(
      callerOf({ peer: "127.0.0.1", encrypted: true, headers: { "x-forwarded-for": "192.0.2.1" } }, []),
      { address: "127.0.0.1", secure: true, proxied: true, contradiction: null },
    )
  })

  it("the nearest address that is no proxy is the caller, however much stands before it", () => {
    const cases: ReadonlyArray<readonly [Record<string, string>, string, boolean]> = [
      [{ "x-forwarded-for": "198.51.100.1" }, "198.51.100.1", false],
      [{ "x-forwarded-for": "127.0.0.1, 10.9.9.9, 198.51.100.1, 10.0.0.2" }, "198.51.100.1", false],
      [{ "x-forwarded-for": "junk, 198.51.100.1", "x-forwarded-proto": "https" }, "198.51.100.1", true],
      [{ "x-forwarded-for": "192.0.2.1, 198.51.100.1", "x-forwarded-proto": "https, http" }, "198.51.100.1", false],
      [{ "x-forwarded-for": "10.0.0.3, 10.0.0.2" }, "10.0.0.3", false],
      [{ "x-forwarded-for": "junk, 10.0.0.3" }, "10.0.0.3", false],
      [{ "x-forwarded-proto": "https" }, "10.0.0.1", true],
      [{ forwarded: "for=192.0.2.60;proto=http;by=203.0.113.43" }, "192.0.2.60", false],
      [{ forwarded: "For=\"[2001:db8:cafe::17]:4711\";Proto=HTTPS" }, "2001:db8:cafe::17", true],
      [{ forwarded: "for=10.9.9.9;proto=https, for=198.51.100.1, for=10.0.0.2;proto=https" }, "198.51.100.1", false],
      [{ forwarded: "for=\"_hidden\";proto=https, for=10.0.0.2" }, "10.0.0.2", true],
      [{ forwarded: "for=unknown" }, "10.0.0.1", false],
      [{ forwarded: "for=192.0.2.1", "x-forwarded-for": "192.0.2.1" }, "192.0.2.1", false],
    ]
    for (const [headers, address, secure] of cases) {
      const found = call("::ffff:10.0.0.1", headers)
      assert.deepStrictEqual(
        [found.address, found.secure, found.contradiction],
        [address, secure, null],
        JSON.stringify(headers),
      )
    }
  })

  it("what contradicts itself or cannot be read is refused", () => {
    const refused: ReadonlyArray<Record<string, string>> = [
      // A proxy that writes the one kind of header passes the other on as its client wrote it.
      { forwarded: "for=127.0.0.1", "x-forwarded-for": "198.51.100.1" },
      { forwarded: "for=9.9.9.9, for=\"x, for=198.51.100.1" },
      { forwarded: "for=9.9.9.9, for=\"x, for=\"[2001:db8::1]\"" },
      { forwarded: "for 198.51.100.1" },
    ]
    for (const headers of refused) assert.isNotNull(call("10.0.0.1", headers).contradiction, JSON.stringify(headers))
  })

  const octet = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 255 }))
  it.prop("nothing a caller writes changes who the proxy says it is", [
    Schema.String,
    Schema.Tuple([octet, octet]),
    Schema.Boolean,
  ], ([written, [a, b], standard]) => {
    const caller = `198.51.${a}.${b}`
    const line = written.replace(/[\r\n]/g, " ")
    const headers: Record<string, string> = standard ?
      { forwarded: `${line}, for=${caller};proto=https` } :
      { "x-forwarded-for": `${line}, ${caller}`, "x-forwarded-proto": "https" }
    const found = call("10.0.0.1", headers)
    assert.isTrue(found.contradiction !== null || found.address === caller)
    if (!standard) assert.isNull(found.contradiction)
  })

  it.prop("whatever stands in the headers is read or refused, never thrown", [
    Schema.Array(
      Schema.Literals(["for=", "proto=", "\"", ",", ";", "=", "[", "]", ":", "10.0.0.2", "192.0.2.1", " ", "\\", "ü"]),
    ),
  ], ([pieces]) => {
    const text = pieces.join("")
    const hops = parseForwarded(text)
    const found = call("10.0.0.1", { forwarded: text })
    assert.strictEqual(hops === null, found.contradiction !== null)
    assert.isNotNull(addressOf(found.address))
  })

  it("a header of the largest size is read in no time that matters", () => {
    for (const piece of [" ", ",", ";", "for=\"", "for=", "a=b;", "\\\""]) {
      const text = piece.repeat(Math.floor(16_384 / piece.length))
      assert.doesNotThrow(() => call("10.0.0.1", { forwarded: text, "x-forwarded-for": text }))
    }
  })

  it("a long chain is looked at from its near end only", () => {
    const chain = ["192.0.2.1", ...Array.from({ length: 100 }, () => "10.0.0.2")].join(", ")
    assert.strictEqual(call("10.0.0.1", { "x-forwarded-for": chain }).address, "10.0.0.2")
  })
})
