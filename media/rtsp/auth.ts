/**
 * Answers to `WWW-Authenticate`: Basic (RFC 7617) and Digest (RFC 7616 with MD5, SHA-256 and their `-sess` forms, with and
 * without `qop`, and RFC 2069 below it).
 *
 * Invariants
 * 1. `parseChallenges` is total; schemes and algorithms that are not known are left out.
 * 2. A password is only put into what goes to the camera; no error and no log ever has it.
 * 3. The strongest offered scheme is used. Basic is never used where Digest is offered.
 */
import { createHash } from "node:crypto"

export interface BasicChallenge {
  readonly scheme: "basic"
  readonly realm: string
}

export interface DigestChallenge {
  readonly scheme: "digest"
  readonly realm: string
  readonly nonce: string
  readonly opaque: string | null
  readonly algorithm: "MD5" | "SHA-256"
  /** The algorithm was named, so the answer names it too. */
  readonly algorithmText: string | null
  readonly session: boolean
  readonly qop: "auth" | "auth-int" | null
  readonly stale: boolean
}

export type Challenge = BasicChallenge | DigestChallenge

const maxChallenge = 8192
/** A scheme, or a parameter with a quoted or plain value; commas and blanks between. */
const token = /([!#$%&'*+\-.^_`|~\w]+)(?:\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]*)))?/g

const unquoted = (text: string) => text.replace(/\\(.)/g, "$1")

interface Parsed {
  readonly scheme: string
  readonly parameters: Map<string, string>
}

const tokens = (value: string): Array<Parsed> => {
  const found: Array<Parsed> = []
  for (const match of value.slice(0, maxChallenge).matchAll(token)) {
    const [, name = "", quoted, plain] = match
    if (quoted === undefined && plain === undefined) found.push({ scheme: name.toLowerCase(), parameters: new Map() })
    else {
      const parameters = found.at(-1)?.parameters
      const key = name.toLowerCase()
      if (parameters !== undefined && !parameters.has(key)) {
        parameters.set(key, quoted === undefined ? plain! : unquoted(quoted))
      }
    }
  }
  return found
}

/** The parameters of a `Digest` header's value, names in lower case; null where it is of another scheme. */
export const digestParameters = (value: string): ReadonlyMap<string, string> | null => {
  const [first] = tokens(value)
  return first?.scheme === "digest" ? first.parameters : null
}

const toDigest = (parameters: ReadonlyMap<string, string>): DigestChallenge | null => {
  const nonce = parameters.get("nonce")
  const named = parameters.get("algorithm") ?? null
  const algorithm = /^(MD5|SHA-256)(-sess)?$/i.exec(named === null || named === "" ? "MD5" : named)
  if (nonce === undefined || algorithm === null) return null
  const offered = (parameters.get("qop") ?? "").toLowerCase().split(/[\s,]+/)
  const qop = offered.includes("auth") ? "auth" : offered.includes("auth-int") ? "auth-int" : null
  return {
    scheme: "digest",
    realm: parameters.get("realm") ?? "",
    nonce,
    opaque: parameters.get("opaque") ?? null,
    algorithm: algorithm[1]!.toUpperCase() === "MD5" ? "MD5" : "SHA-256",
    algorithmText: named === "" ? null : named,
    session: algorithm[2] !== undefined,
    qop,
    stale: (parameters.get("stale") ?? "").toLowerCase() === "true",
  }
}

/** Every header may hold several challenges, and there may be several headers. */
export const parseChallenges = (values: ReadonlyArray<string>): ReadonlyArray<Challenge> =>
  values.flatMap(tokens).flatMap(({ scheme, parameters }): ReadonlyArray<Challenge> => {
    if (scheme === "basic") return [{ scheme, realm: parameters.get("realm") ?? "" }]
    const digest = scheme === "digest" ? toDigest(parameters) : null
    return digest === null ? [] : [digest]
  })

const strength = (challenge: Challenge) => challenge.scheme === "basic" ? 0 : challenge.algorithm === "MD5" ? 1 : 2

export const strongest = (challenges: ReadonlyArray<Challenge>): Challenge | null =>
  challenges.reduce<Challenge | null>(
    (best, challenge) => best === null || strength(challenge) > strength(best) ? challenge : best,
    null,
  )

export interface Credentials {
  readonly username: string
  readonly password: string
}

export interface DigestRequest {
  readonly method: string
  readonly url: string
  /** How often this nonce was used, this time included. */
  readonly count: number
  /** A fresh, unpredictable text of hexadecimal digits. */
  readonly cnonce: string
}

const quoted = (text: string) => `"${text.replace(/["\\]/g, "\\$&")}"`

/** The value of the `Authorization` header. */
export const authorization = (challenge: Challenge, credentials: Credentials, request: DigestRequest): string => {
  if (challenge.scheme === "basic") {
    return `Basic ${Buffer.from(`${credentials.username}:${credentials.password}`, "utf8").toString("base64")}`
  }
  const hash = (text: string) =>
    createHash(challenge.algorithm === "MD5" ? "md5" : "sha256").update(text, "utf8").digest("hex")
  const { nonce, qop, realm } = challenge
  const nc = request.count.toString(16).padStart(8, "0")
  const secret = hash(`${credentials.username}:${realm}:${credentials.password}`)
  const ha1 = challenge.session ? hash(`${secret}:${nonce}:${request.cnonce}`) : secret
  // Requests of ours have no body, so its hash is that of nothing.
  const ha2 = hash(`${request.method}:${request.url}${qop === "auth-int" ? `:${hash("")}` : ""}`)
  const response = qop === null ?
    hash(`${ha1}:${nonce}:${ha2}`) :
    hash(`${ha1}:${nonce}:${nc}:${request.cnonce}:${qop}:${ha2}`)
  return [
    `Digest username=${quoted(credentials.username)}`,
    `realm=${quoted(realm)}`,
    `nonce=${quoted(nonce)}`,
    `uri=${quoted(request.url)}`,
    `response="${response}"`,
    ...(challenge.algorithmText === null ? [] : [`algorithm=${challenge.algorithmText}`]),
    ...(qop === null ? [] : [`qop=${qop}`, `nc=${nc}`]),
    ...(qop === null && !challenge.session ? [] : [`cnonce="${request.cnonce}"`]),
    ...(challenge.opaque === null ? [] : [`opaque=${quoted(challenge.opaque)}`]),
  ].join(", ")
}
