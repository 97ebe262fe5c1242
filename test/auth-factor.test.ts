/** Codes by time against the vectors of RFC 6238 and against HMACs of OpenSSL; recovery codes. */
import {
  enrolmentOf,
  newRecoveryCodes,
  newSecret,
  periodOf,
  recoveryCodeCount,
  recoveryHash,
} from "#actors/behaviour/auth-totp.ts"
import { assert, describe, it } from "@effect/vitest"
import { Redacted } from "effect"
import { execFileSync } from "node:child_process"
import { Secret } from "otpauth"

/** RFC 6238, appendix B, for SHA-1; the last six of its eight digits are the code of six. */
const vectors: ReadonlyArray<readonly [seconds: number, code: string]> = [
  [59, "94287082"],
  [1_111_111_109, "07081804"],
  [1_111_111_111, "14050471"],
  [1_234_567_890, "89005924"],
  [2_000_000_000, "69279037"],
  [20_000_000_000, "65353130"],
]
const rfcSecret = Redacted.make(Secret.fromUTF8("12345678901234567890").base32)

/** RFC 4226, section 5.3, over the HMAC of another implementation. */
const byOpenssl = (secretHex: string, period: number): string => {
  const counter = Buffer.alloc(8)
  counter.writeBigUInt64BE(BigInt(period))
  const hex = execFileSync("openssl", ["dgst", "-sha1", "-mac", "HMAC", "-macopt", `hexkey:${secretHex}`, "-r"], {
    input: counter,
    encoding: "utf8",
  }).slice(0, 40)
  const mac = Buffer.from(hex, "hex")
  const number = mac.readUInt32BE(mac[19]! & 15) & 0x7fff_ffff
  return String(number % 1_000_000).padStart(6, "0")
}

const code = (text: string) => Redacted.make(text)

describe("a code by time", () => {
  it("is that of RFC 6238", () => {
    for (const [seconds, digits] of vectors) {
      assert.strictEqual(periodOf(rfcSecret, code(digits.slice(2)), seconds * 1000), Math.floor(seconds / 30), digits)
    }
  })

  it("is that of another implementation, for secrets of our own", () => {
    for (const nowMs of [1_700_000_000_000, 1_795_000_000_000]) {
      const secret = newSecret()
      const { hex } = Secret.fromBase32(Redacted.value(secret))
      const period = Math.floor(nowMs / 30_000)
      assert.strictEqual(hex.length, 40)
      assert.strictEqual(periodOf(secret, code(byOpenssl(hex, period)), nowMs), period)
    }
  })

  it("is good one period before and after its own, and tells its own", () => {
    const [seconds, digits] = vectors[3]!
    const period = Math.floor(seconds / 30)
    const at = (delta: number) => periodOf(rfcSecret, code(digits.slice(2)), (seconds + delta * 30) * 1000)
    assert.deepStrictEqual([-2, -1, 0, 1, 2].map(at), [null, period, period, period, null])
  })

  it("may be typed with blanks, and nothing else passes for one", () => {
    const [seconds, digits] = vectors[0]!
    const six = digits.slice(2)
    assert.isNotNull(periodOf(rfcSecret, code(` ${six.slice(0, 3)} ${six.slice(3)}`), seconds * 1000))
    for (
      const text of ["", "0", six.slice(1), `${six}0`, digits, "abcdef", "２８７０８２", `-${six.slice(1)}`, "1e5000"]
    ) {
      assert.isNull(periodOf(rfcSecret, code(text), seconds * 1000), text)
    }
  })
})

describe("an enrolment", () => {
  it("says what an app needs, as text and as a picture", () => {
    const secret = newSecret()
    const shown = enrolmentOf(secret, "ann@site & co")
    const uri = new URL(shown.uri)
    assert.strictEqual(uri.protocol, "otpauth:")
    assert.strictEqual(decodeURIComponent(uri.pathname.split("/").at(-1)!), "Nightjar:ann@site & co")
    assert.strictEqual(uri.searchParams.get("secret"), Redacted.value(secret))
    assert.strictEqual(uri.searchParams.get("issuer"), "Nightjar")
    assert.match(shown.qrSvg, /^<svg [\s\S]*<\/svg>$/)
    assert.notMatch(shown.qrSvg, /<script|on\w+=/)
    assert.notStrictEqual(Redacted.value(newSecret()), Redacted.value(secret))
  })
})

describe("recovery codes", () => {
  it("are ten, all different, of 80 bits", () => {
    const codes = [...newRecoveryCodes(), ...newRecoveryCodes()]
    assert.strictEqual(new Set(codes).size, 2 * recoveryCodeCount)
    for (const one of codes) assert.match(one, /^([0-9a-hjkmnp-tv-z]{4}-){3}[0-9a-hjkmnp-tv-z]{4}$/)
  })

  it("are one however they are typed, and of one user only", () => {
    const [one = ""] = newRecoveryCodes()
    const hash = Buffer.from(recoveryHash("a", one))
    const typed = [
      one.toUpperCase(),
      one.replaceAll("-", ""),
      ` ${one} `,
      one.replaceAll("0", "O").replaceAll("1", "l"),
    ]
    for (const text of typed) assert.isTrue(hash.equals(recoveryHash("a", text)), text)
    assert.isFalse(hash.equals(recoveryHash("b", one)))
    assert.isFalse(hash.equals(recoveryHash("a", newRecoveryCodes()[0]!)))
  })
})
