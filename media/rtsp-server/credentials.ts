/**
 * What a player shows to be let in: a stream's token (`?token=` of the address, or as the password of Basic, RFC 7617), or the
 * account of this door by Basic or Digest (RFC 7616 with MD5 and SHA-256, RFC 2069 below it).
 *
 * Invariants
 * 1. Reading is total. A password is compared in constant time and never kept.
 * 2. A nonce belongs to one connection; a Digest counts only for the very address and method that were asked for.
 */
import { Redacted } from "effect"
import { createHash, timingSafeEqual } from "node:crypto"
import { digestParameters } from "../rtsp/auth.ts"

/** One user name and password that open every stream. */
export interface RtspAccount {
  readonly username: string
  readonly password: Redacted.Redacted
}

const realm = "Nightjar"

export interface Asked {
  readonly method: string
  readonly url: string
  /** Of the `Authorization` header. */
  readonly authorization: string | null
}

const same = (a: string, b: string): boolean => {
  const digest = (text: string) => createHash("sha256").update(text, "utf8").digest()
  return timingSafeEqual(digest(a), digest(b))
}

/** Values of `WWW-Authenticate`, the strongest first. */
export const challenges = (account: RtspAccount | null, nonce: string): ReadonlyArray<string> => [
  ...(account === null ?
    [] :
    ["SHA-256", "MD5"].map((algorithm) =>
      `Digest realm="${realm}", nonce="${nonce}", qop="auth", algorithm=${algorithm}`
    )),
  `Basic realm="${realm}"`,
]

const basic = (value: string): { readonly username: string; readonly password: string } | null => {
  const encoded = /^Basic\s+([A-Za-z0-9+/=_-]+)\s*$/i.exec(value)?.[1]
  const [username, password] = encoded === undefined ?
    [] :
    /^([^:]*):(.*)$/s.exec(Buffer.from(encoded, "base64").toString("utf8"))?.slice(1) ?? []
  return username === undefined || password === undefined ? null : { username, password }
}

/** The token in the address's query or in a Basic header; null where there is none. */
export const tokenOf = (url: string, authorization: string | null): Redacted.Redacted | null => {
  const asked = /[?&]token=([\w.~-]+)/.exec(url)?.[1]
  const token = asked ?? basic(authorization ?? "")?.password
  return token === undefined || token === "" ? null : Redacted.make(token)
}

const digestFits = (account: RtspAccount, nonce: string, asked: Asked): boolean => {
  const given = digestParameters(asked.authorization ?? "")
  const get = (name: string) => given?.get(name) ?? ""
  const algorithm = /^(MD5|SHA-256)$/i.exec(given?.get("algorithm") ?? "MD5")?.[1]
  const plain = get("qop") === ""
  if (given === null || algorithm === undefined || get("nonce") !== nonce || get("realm") !== realm) return false
  if (get("uri") !== asked.url || (!plain && get("qop").toLowerCase() !== "auth")) return false
  const hash = (text: string) =>
    createHash(algorithm.toUpperCase() === "MD5" ? "md5" : "sha256").update(text, "utf8").digest("hex")
  const secret = hash(`${account.username}:${realm}:${Redacted.value(account.password)}`)
  const what = hash(`${asked.method}:${asked.url}`)
  const middle = plain ? nonce : `${nonce}:${get("nc")}:${get("cnonce")}:auth`
  return same(get("username"), account.username) &&
    same(get("response").toLowerCase(), hash(`${secret}:${middle}:${what}`))
}

/** Whether the request shows the account. */
export const showsAccount = (account: RtspAccount | null, nonce: string, asked: Asked): boolean => {
  if (account === null || asked.authorization === null) return false
  const given = basic(asked.authorization)
  if (given === null) return digestFits(account, nonce, asked)
  return same(given.username, account.username) && same(given.password, Redacted.value(account.password))
}
