/**
 * Login of a camera: Basic (RFC 7617) and Digest with MD5 (RFC 2617) or SHA-256 (RFC 7616).
 *
 * Invariants
 * 1. A nonce belongs to one connection.
 * 2. Digest is offered without `qop` for MD5 alone, as many cameras do, and with `qop="auth"` otherwise.
 */
import { createHash, randomBytes } from "node:crypto"
import type { AuthScheme } from "./options.ts"

export interface Credentials {
  readonly scheme: AuthScheme
  readonly username: string
  readonly password: string
  readonly nonceUses: number
}

const REALM = "simulated camera"

const hash = (algorithm: "md5" | "sha256", text: string): string => createHash(algorithm).update(text).digest("hex")

const parameters = (text: string): Map<string, string> => {
  const found = new Map<string, string>()
  for (const match of text.matchAll(/([a-z]+)\s*=\s*(?:"([^"]*)"|([^\s,]+))/gi)) {
    found.set(match[1]!.toLowerCase(), match[2] ?? match[3] ?? "")
  }
  return found
}

/** Login on one connection. */
export class Login {
  #nonce = randomBytes(16).toString("hex")
  #uses = 0

  /** Null where the request may pass, else the values of `WWW-Authenticate`. */
  check(expected: Credentials, method: string, authorization: string | undefined): ReadonlyArray<string> | null {
    if (expected.scheme === "none") return null
    if (authorization === undefined) return this.#challenges(expected.scheme, false)
    if (expected.scheme === "basic") {
      const given = Buffer.from(authorization.replace(/^Basic\s+/i, ""), "base64").toString("utf8")
      return /^Basic\s/i.test(authorization) && given === `${expected.username}:${expected.password}` ?
        null :
        this.#challenges("basic", false)
    }
    if (!this.#digestRight(expected, method, authorization)) return this.#challenges(expected.scheme, false)
    if (expected.nonceUses > 0 && this.#uses >= expected.nonceUses) {
      this.#nonce = randomBytes(16).toString("hex")
      this.#uses = 0
      return this.#challenges(expected.scheme, true)
    }
    this.#uses++
    return null
  }

  #digestRight(expected: Credentials, method: string, authorization: string): boolean {
    if (!/^Digest\s/i.test(authorization)) return false
    const given = parameters(authorization.slice(7))
    const get = (name: string): string => given.get(name) ?? ""
    const algorithm = /^sha-256$/i.test(get("algorithm")) ? "sha256" : "md5"
    const allowed = expected.scheme === "digest-both" ||
      (expected.scheme === "digest" ? algorithm === "md5" : algorithm === "sha256")
    if (!allowed || get("username") !== expected.username || get("nonce") !== this.#nonce || get("realm") !== REALM) {
      return false
    }
    const secret = hash(algorithm, `${expected.username}:${REALM}:${expected.password}`)
    const asked = hash(algorithm, `${method}:${get("uri")}`)
    const middle = expected.scheme === "digest" ? this.#nonce : `${this.#nonce}:${get("nc")}:${get("cnonce")}:auth`
    return get("response") === hash(algorithm, `${secret}:${middle}:${asked}`)
  }

  #challenges(scheme: AuthScheme, stale: boolean): ReadonlyArray<string> {
    const tail = stale ? ", stale=true" : ""
    const md5 = `Digest realm="${REALM}", nonce="${this.#nonce}"`
    const both = `${md5}, qop="auth"`
    if (scheme === "basic") return [`Basic realm="${REALM}"`]
    if (scheme === "digest") return [`${md5}${tail}`]
    if (scheme === "digest-sha256") return [`${both}, algorithm=SHA-256${tail}`]
    return [`${both}, algorithm=SHA-256${tail}`, `${both}, algorithm=MD5${tail}`]
  }
}
