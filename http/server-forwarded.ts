/**
 * Who really calls: the address and scheme of the caller behind reverse proxies, from `Forwarded` (RFC 7239) or
 * `X-Forwarded-For` and `X-Forwarded-Proto`.
 *
 * Invariants
 * 1. Only what a trusted proxy said counts: headers are read from the right, each hop is believed because the hop after it is
 *    trusted, and the first address that is not a trusted proxy is the caller. Without trusted proxies nothing is read.
 * 2. Where both kinds of header came through a trusted proxy and disagree, or one cannot be read, somebody is forging: the
 *    request is refused. (A proxy that writes the one kind passes on what its client wrote in the other.)
 * 3. At most {@link maxHops} hops are looked at, and reading takes time linear in the header.
 */
import { addressOf, canonicalAddress, within } from "#schema/auth-network.ts"
import { type IpNetwork, NetAddress } from "effect/net"

/** What the connection and the headers say. */
export interface Connection {
  /** Address of the peer of the connection; empty when unknown. */
  readonly peer: string
  /** The connection itself is encrypted. */
  readonly encrypted: boolean
  readonly headers: Readonly<Record<string, string | undefined>>
}

export interface ForwardedCaller {
  /** In its one text (`canonicalAddress`). */
  readonly address: string
  /** The caller's own connection is encrypted. */
  readonly secure: boolean
  /** A proxy speaks for the caller, trusted or not. */
  readonly proxied: boolean
  /** Why the headers cannot be believed: the request is to be refused. `null` if they can. */
  readonly contradiction: string | null
}

/** More proxies in a row than anybody runs. */
const maxHops = 32

/** One proxy's word, oldest first in a list: whom it heard, and by which scheme. */
interface Hop {
  readonly from: string | null
  readonly scheme: string | null
}

const pair =
  /[ \t]*(?:([!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64})=(?:([!#$%&'*+\-.^_`|~0-9A-Za-z:[\]]{1,256})|"((?:[^"\\]|\\.){0,256})"))?[ \t]*/y

/** RFC 7239, section 4; tolerates colons and brackets without quotes, which proxies in use write. `null`: not readable. */
export const parseForwarded = (text: string): ReadonlyArray<Hop> | null => {
  const hops: Array<Hop> = []
  let hop: { from: string | null; scheme: string | null } = { from: null, scheme: null }
  let at = 0
  while (true) {
    pair.lastIndex = at
    const match = pair.exec(text)
    if (match === null) return null
    at = pair.lastIndex
    const name = match[1]?.toLowerCase()
    const value = match[2] ?? match[3]?.replace(/\\(.)/g, "$1") ?? null
    if (name === "for") hop.from = value
    if (name === "proto") hop.scheme = value
    const separator = text[at]
    if (separator !== ";") {
      hops.push(hop)
      hop = { from: null, scheme: null }
    }
    if (separator === undefined) return hops
    if (separator !== ";" && separator !== ",") return null
    at += 1
  }
}

/** The lists of `X-Forwarded-Proto` and `-For` belong together only if they are of one length; a single scheme is the nearest's. */
const parseXForwarded = (addresses: string, schemes: string | undefined): ReadonlyArray<Hop> => {
  const from = addresses.split(",").map((one) => one.trim())
  const scheme = schemes?.split(",").map((one) => one.trim()) ?? []
  return from.map((one, index) => ({
    from: one,
    scheme: (scheme.length === from.length ? scheme[index] : scheme.at(-1)) ?? null,
  }))
}

interface Found {
  readonly address: string
  readonly scheme: string | null
}

/** Walks from the nearest proxy outwards. What no address can be read from ends the walk at the last one that was known. */
const walk = (peer: string, hops: ReadonlyArray<Hop>, trusted: ReadonlyArray<IpNetwork.IpNetwork>): Found => {
  let found: Found = { address: peer, scheme: null }
  for (const hop of hops.slice(-maxHops).toReversed()) {
    const address = hop.from === null ? null : addressOf(hop.from)
    // The proxy that wrote this is trusted, so its word on the scheme counts even where it hides the address.
    if (address === null) return { address: found.address, scheme: hop.scheme ?? found.scheme }
    found = { address: NetAddress.formatIp(address), scheme: hop.scheme }
    if (!within(trusted, address)) return found
  }
  return found
}

const proxyHeaders = ["forwarded", "x-forwarded-for", "x-forwarded-proto", "x-real-ip", "via"]

/** The caller of a request. */
export const callerOf = (
  { encrypted, headers, peer }: Connection,
  trusted: ReadonlyArray<IpNetwork.IpNetwork>,
): ForwardedCaller => {
  const address = canonicalAddress(peer)
  const proxied = proxyHeaders.some((name) => headers[name] !== undefined)
  const direct = { address, secure: encrypted, proxied, contradiction: null }
  const parsed = addressOf(peer)
  if (!proxied || parsed === null || !within(trusted, parsed)) return direct

  const { forwarded: standard, "x-forwarded-for": listed, "x-forwarded-proto": schemes } = headers
  const found: Array<Found> = []
  if (standard !== undefined) {
    const hops = parseForwarded(standard)
    if (hops === null) return { ...direct, contradiction: "The header Forwarded cannot be read" }
    found.push(walk(address, hops, trusted))
  }
  if (listed !== undefined) found.push(walk(address, parseXForwarded(listed, schemes), trusted))
  const [first, second] = found
  if (first === undefined) {
    const scheme = schemes?.split(",").at(-1)?.trim().toLowerCase()
    return scheme === undefined ? direct : { ...direct, secure: scheme === "https" }
  }
  if (second !== undefined && first.address !== second.address) {
    return { ...direct, contradiction: "The headers Forwarded and X-Forwarded-For name different callers" }
  }
  const scheme = (first.scheme ?? second?.scheme ?? null)?.toLowerCase()
  return {
    address: first.address,
    secure: scheme === undefined ? encrypted : scheme === "https",
    proxied,
    contradiction: null,
  }
}
