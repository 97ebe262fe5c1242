/**
 * Words of the network around a node: addresses, networks (CIDR), and the list of addresses that may administer.
 *
 * Invariants
 * 1. One address has one text: an IPv4 address that is mapped into IPv6 (RFC 4291, section 2.5.5.2) is the IPv4 address, IPv6
 *    stands as RFC 5952 says, a zone is dropped. Everything that compares or counts addresses uses that text.
 * 2. A network's text has no bits beyond its prefix, and always a prefix.
 * 3. The list restricts nothing while none of its entries is enabled.
 */
import { Option, Result, Schema, SchemaTransformation } from "effect"
import { IpNetwork, NetAddress } from "effect/net"
import { line } from "./auth.ts"
import { Instant, Uuid7 } from "./common.ts"

/** Longest text of an address or network with a port: brackets, 39 digits and colons, a zone, a prefix. */
const longestText = 100

/** An address from its text, with or without brackets, zone or port; `null` if it is none. */
export const addressOf = (text: string): NetAddress.IpAddress | null => {
  if (text.length > longestText) return null
  const bare = (text.startsWith("[") && text.endsWith("]") ? text.slice(1, -1) : text).replace(/%[\w.~-]+$/, "")
  const ip = NetAddress.ipFromString(bare)
  if (Result.isSuccess(ip)) return NetAddress.toCanonical(ip.success)
  const inet = NetAddress.inetAddressFromString(bare)
  return Result.isSuccess(inet) ? NetAddress.toCanonical(inet.success.address) : null
}

/** The one text of an address; what is no address stays as it is. */
export const canonicalAddress = (text: string): string => {
  const address = addressOf(text)
  return address === null ? text : NetAddress.formatIp(address)
}

export const isLoopback = (text: string): boolean => {
  const address = addressOf(text)
  return address !== null && NetAddress.isLoopback(address)
}

/** 96 bits of prefix say "IPv4 within IPv6". */
const mappedBits = 96

/**
 * A network from its text; an address alone is a network of one. `null` if it is neither, or has bits beyond its prefix: whoever
 * wrote them may have meant less than the whole network.
 */
export const networkOf = (text: string): IpNetwork.IpNetwork | null => {
  if (text.length > longestText) return null
  const trimmed = text.trim()
  if (!trimmed.includes("/")) {
    const address = addressOf(trimmed)
    return address === null ? null : IpNetwork.fromAddressUnsafe(address, NetAddress.width(address))
  }
  const parsed = IpNetwork.fromString(trimmed)
  if (Result.isFailure(parsed)) return null
  const { address, prefixLength } = parsed.success
  const mapped = NetAddress.isIpv6Address(address) && prefixLength >= mappedBits ?
    NetAddress.fromIpv4Mapped(address) :
    Option.none()
  return Option.isSome(mapped) ? IpNetwork.makeUnsafe(mapped.value, prefixLength - mappedBits) : parsed.success
}

/** Whether one of the networks holds the address. */
export const within = (networks: ReadonlyArray<IpNetwork.IpNetwork>, address: NetAddress.IpAddress): boolean =>
  networks.some((network) => IpNetwork.contains(network, address))

/** A network in CIDR notation (RFC 4632; RFC 4291), decoded to its one text. */
export const Cidr = Schema.String.check(
  Schema.isMaxLength(longestText),
  Schema.makeFilter((text: string) =>
    networkOf(text) !== null ||
    "Expected an address or a network such as 192.168.1.0/24 or fd00::/8, without bits beyond its prefix"
  ),
).pipe(Schema.decodeTo(
  Schema.String,
  SchemaTransformation.transform({
    decode: (text: string) => IpNetwork.format(networkOf(text)!),
    encode: (text: string) => text,
  }),
))

export const ManagementIpId = Uuid7.pipe(Schema.brand("ManagementIpId"))
export type ManagementIpId = typeof ManagementIpId.Type

const name = line(128).check(Schema.isMinLength(1))

/** An entry of the list. */
export const ManagementIp = Schema.Struct({
  id: ManagementIpId,
  name: Schema.String,
  /** Its one text: an IPv4 or IPv6 network. */
  cidr: Schema.String,
  enabled: Schema.Boolean,
  createdAt: Instant,
  version: Schema.Int,
}).annotate({ identifier: "ManagementIp" })
export type ManagementIp = typeof ManagementIp.Type

/** To lock oneself out one says so. */
const force = Schema.optionalKey(Schema.Boolean)
export const NewManagementIp = Schema.Struct({
  name,
  cidr: Cidr,
  /** `true` if left out. */
  enabled: Schema.optionalKey(Schema.Boolean),
  force,
})
export type NewManagementIp = typeof NewManagementIp.Type
export const ManagementIpUpdate = Schema.Struct({ name, cidr: Cidr, enabled: Schema.Boolean, force })
export type ManagementIpUpdate = typeof ManagementIpUpdate.Type

/** What of an entry decides: for the check, which has no database. */
export interface ListedNetwork {
  readonly id: string
  readonly name: string
  readonly cidr: string
}

/** Whether an address may administer, and by which entry. */
export const IpCheck = Schema.Struct({
  address: Schema.String,
  allowed: Schema.Boolean,
  reason: Schema.String,
  /** The entry that lets it in; `null` where none was needed or none matched. */
  via: Schema.NullOr(Schema.Struct({ id: Schema.String, name: Schema.String, cidr: Schema.String })),
}).annotate({ identifier: "IpCheck" })
export type IpCheck = typeof IpCheck.Type

/** Where a call comes from, as far as the list is concerned. */
export interface CallOrigin {
  /** Empty when unknown. */
  readonly address: string
  /** Headers of a proxy came with it. */
  readonly proxied: boolean
}

/**
 * Decides on the enabled entries. Somebody on the machine itself always gets in while no proxy speaks for them: a wrong list
 * must have a way back, and who sits at the machine could change its data anyway.
 */
export const checkOrigin = (listed: ReadonlyArray<ListedNetwork>, { address, proxied }: CallOrigin): IpCheck => {
  if (listed.length === 0) return { address, allowed: true, reason: "No management address is listed", via: null }
  const parsed = addressOf(address)
  if (parsed === null) return { address, allowed: false, reason: "The address of the caller is not known", via: null }
  const via = listed.find(({ cidr }) => {
    const network = networkOf(cidr)
    return network !== null && IpNetwork.contains(network, parsed)
  })
  if (via !== undefined) {
    const { cidr, id, name: label } = via
    return { address, allowed: true, reason: `Listed as ${label} (${cidr})`, via: { id, name: label, cidr } }
  }
  if (NetAddress.isLoopback(parsed) && !proxied) {
    return { address, allowed: true, reason: "The call comes from the machine itself", via: null }
  }
  const reason = NetAddress.isLoopback(parsed) ?
    "The call comes through a proxy that is not trusted (NIGHTJAR_TRUSTED_PROXIES)" :
    `${address} is not among the management addresses`
  return { address, allowed: false, reason, via: null }
}

export class ManagementIpNotFound extends Schema.TaggedError<ManagementIpNotFound>()("ManagementIpNotFound", {
  id: Schema.String,
}, { httpApiStatus: 404 }) {
  override get message(): string {
    return `There is no management address ${this.id}`
  }
}

/** The same network stands in the list already. */
export class ManagementIpTaken extends Schema.TaggedError<ManagementIpTaken>()("ManagementIpTaken", {
  cidr: Schema.String,
}, { httpApiStatus: 409 }) {
  override get message(): string {
    return `${this.cidr} is in the list already`
  }
}

/** The list is full. */
export class ManagementIpsFull extends Schema.TaggedError<ManagementIpsFull>()("ManagementIpsFull", {
  limit: Schema.Int,
}, { httpApiStatus: 409 }) {
  override get message(): string {
    return `The list holds ${this.limit} entries and takes no more`
  }
}

/** After this change its author could administer no longer. */
export class WouldLockOut extends Schema.TaggedError<WouldLockOut>()("WouldLockOut", {
  address: Schema.String,
}, { httpApiStatus: 409 }) {
  override get message(): string {
    return `After this change ${this.address}, where you are, could administer no longer; say force to do it all the same`
  }
}
