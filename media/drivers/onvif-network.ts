/**
 * The network of an ONVIF device, and its factory defaults (Device Management, sections 8.2 and 8.3).
 *
 * Invariants
 * 1. A device is not told an address that no host can have, nor to switch off the last interface by which it can be reached.
 * 2. Where no answer comes after a change was sent, nobody claims to know what became of it.
 */
import type {
  FactoryResetMode,
  NetworkAddress,
  NetworkChange,
  NetworkChanged,
  NetworkInterface,
} from "#schema/camera-config.ts"
import { CameraRefused, CameraUnreachable, type DeviceError } from "#schema/camera-device.ts"
import { InvalidInput } from "#schema/problem.ts"
import { Effect, Schema } from "effect"
import { isIP } from "node:net"
import type { OnvifClient } from "./onvif-client.ts"
import { escaped } from "./onvif-message.ts"
import { filled, integer, many, opt, present, text, worded } from "./onvif-shape.ts"
import { isTrue } from "./onvif-words.ts"

const addressShape = Schema.Struct({ address: text, prefixLength: integer })
const addresses = opt(many(filled(addressShape)))
const interfaceShape = Schema.Struct({
  $token: text,
  enabled: opt(text),
  info: opt(filled(Schema.Struct({ name: opt(worded), hwAddress: opt(text), MTU: opt(integer) }))),
  link: opt(filled(Schema.Struct({ operSettings: opt(filled(Schema.Struct({ speed: opt(integer) }))) }))),
  IPv4: opt(filled(Schema.Struct({
    enabled: opt(text),
    config: opt(filled(Schema.Struct({
      manual: addresses,
      linkLocal: opt(filled(addressShape)),
      fromDHCP: opt(filled(addressShape)),
      DHCP: opt(text),
    }))),
  }))),
  IPv6: opt(filled(Schema.Struct({
    enabled: opt(text),
    config: opt(filled(Schema.Struct({
      manual: addresses,
      linkLocal: addresses,
      fromDHCP: addresses,
      fromRA: addresses,
    }))),
  }))),
})
const listShape = Schema.Struct({ networkInterfaces: opt(many(interfaceShape)) })

const listed = (told: typeof addresses.Type | undefined): ReadonlyArray<NetworkAddress> =>
  (told ?? []).flatMap((one) => one === "" ? [] : [one])

const toInterface = (shape: typeof interfaceShape.Type): NetworkInterface => {
  const info = present(shape.info)
  const four = present(shape.IPv4)
  const fourConfig = present(four?.config)
  const six = present(shape.IPv6)
  const sixConfig = present(six?.config)
  return {
    token: shape.$token,
    enabled: isTrue(shape.enabled),
    name: info?.name ?? shape.$token,
    hardwareAddress: info?.hwAddress ?? "",
    mtu: info?.MTU ?? null,
    speedMbps: present(present(shape.link)?.operSettings)?.speed ?? null,
    ipv4: four === null ? null : {
      enabled: isTrue(four.enabled),
      dhcp: isTrue(fourConfig?.DHCP),
      manual: listed(fourConfig?.manual),
      leased: present(fourConfig?.fromDHCP),
      linkLocal: present(fourConfig?.linkLocal),
    },
    ipv6: six === null ? null : {
      enabled: isTrue(six.enabled),
      addresses: [sixConfig?.manual, sixConfig?.fromRA, sixConfig?.fromDHCP, sixConfig?.linkLocal].flatMap(listed),
    },
  }
}

/** RFC 1122, section 3.2.1.3, and RFC 4632: an address that one host can have in a network of that size; else what is wrong. */
export const hostAddressFault = (address: string, prefixLength: number): string | null => {
  if (isIP(address) !== 4) return "Expected an IPv4 address such as 192.0.2.10"
  const bytes = address.split(".").map(Number)
  const first = bytes[0]!
  if (first === 0 || first === 127 || first >= 224) return "no host can have this address"
  const value = bytes.reduce((sum, byte) => sum * 256 + byte, 0)
  const size = 2 ** (32 - prefixLength)
  if (size > 2 && (value % size === 0 || value % size === size - 1)) {
    return "this is the address of the network itself, or of all its hosts"
  }
  return null
}

const changeFault = (change: NetworkChange, now: NetworkInterface, all: ReadonlyArray<NetworkInterface>) => {
  const { address, dhcp, prefixLength } = change.ipv4 ?? {}
  if (change.enabled === false && all.every((one) => one.token === now.token || !one.enabled)) {
    return InvalidInput.at("/payload/enabled", "the camera could not be reached any more: it has no other interface")
  }
  if ((address === undefined) !== (prefixLength === undefined)) {
    return InvalidInput.at("/payload/ipv4", "give address and prefixLength together")
  }
  if (dhcp === true && address !== undefined) {
    return InvalidInput.at("/payload/ipv4", "give either dhcp or an address")
  }
  if (dhcp === false && address === undefined && (now.ipv4?.manual.length ?? 0) === 0) {
    return InvalidInput.at("/payload/ipv4/address", "without DHCP the camera needs an address")
  }
  const fault = address === undefined || prefixLength === undefined ? null : hostAddressFault(address, prefixLength)
  return fault === null ? null : InvalidInput.at("/payload/ipv4/address", fault)
}

/** In the order of the schema (`tt:NetworkInterfaceSetConfiguration`). */
const changeXml = ({ enabled, ipv4, mtu }: NetworkChange): string => {
  const manual = ipv4?.address === undefined ?
    "" :
    `<tt:Manual><tt:Address>${
      escaped(ipv4.address)
    }</tt:Address><tt:PrefixLength>${ipv4.prefixLength}</tt:PrefixLength>` +
    `</tt:Manual>`
  const dhcp = ipv4?.dhcp ?? (ipv4?.address === undefined ? null : false)
  return (enabled === undefined ? "" : `<tt:Enabled>${enabled}</tt:Enabled>`) +
    (mtu === undefined ? "" : `<tt:MTU>${mtu}</tt:MTU>`) +
    (ipv4 === undefined ?
      "" :
      `<tt:IPv4><tt:Enabled>true</tt:Enabled>${manual}${dhcp === null ? "" : `<tt:DHCP>${dhcp}</tt:DHCP>`}</tt:IPv4>`)
}

/** What the change means for whoever asks this camera at `host`. */
export const consequence = (
  host: string,
  now: NetworkInterface,
  change: NetworkChange,
  rebootNeeded: boolean,
): NetworkChanged => {
  const { address, dhcp } = change.ipv4 ?? {}
  const current = now.ipv4
  const own = current === null ? [] : [
    ...current.manual,
    ...[current.leased, current.linkLocal].filter((one) => one !== null),
  ].map((one) => one.address)
  const when = rebootNeeded ? "The camera needs a restart before this takes effect. " : ""
  const same = address === undefined ? dhcp === undefined || dhcp === current?.dhcp : address === host
  if (change.enabled !== false && same) {
    return { rebootNeeded, addressChange: "none", newHost: null, advice: `${when}The camera keeps its address.` }
  }
  // A name, or an address of another interface or of a router between, may go on to lead there.
  const addressChange = own.includes(host) && address !== undefined ? "certain" : "possible"
  const newHost = address ?? null
  const advice = `${when}From then on the camera ${newHost === null ? "may be" : "is"} found at ${
    newHost ?? "another address, which this interface does not tell"
  }: change its host (PUT /camera/api/v1/cameras/{id}, member host), or it stays unreachable.`
  return { rebootNeeded, addressChange, newHost, advice }
}

const changedShape = Schema.Union([Schema.Struct({ rebootNeeded: opt(text) }), Schema.Literal("")])

export const onvifNetwork = (client: OnvifClient, host: string) => {
  const networkInterfaces: Effect.Effect<ReadonlyArray<NetworkInterface>, DeviceError> = Effect.map(
    client.call({ service: "device", operation: "GetNetworkInterfaces", reply: listShape }),
    (told) => (told.networkInterfaces ?? []).map(toInterface),
  )
  const setNetworkInterface = Effect.fnUntraced(function*(token: string, change: NetworkChange) {
    const operation = "SetNetworkInterfaces"
    const all = yield* networkInterfaces
    const now = all.find((one) => one.token === token)
    if (now === undefined) return yield* new CameraRefused({ operation, detail: "it has no such interface" })
    const fault = changeFault(change, now, all)
    if (fault !== null) return yield* fault
    const told = yield* client.call({
      service: "device",
      operation,
      body: `<InterfaceToken>${escaped(token)}</InterfaceToken><NetworkInterface>${
        changeXml(change)
      }</NetworkInterface>`,
      reply: changedShape,
    }).pipe(Effect.catchTag("CameraUnreachable", ({ detail, reason }) =>
      Effect.fail(
        new CameraUnreachable({
          reason,
          detail: `${detail}. It may have taken the change nevertheless: look for it at its new address.`,
        }),
      )))
    return consequence(host, now, change, told !== "" && isTrue(told.rebootNeeded))
  })
  return {
    networkInterfaces,
    setNetworkInterface,
    factoryReset: (mode: FactoryResetMode) =>
      Effect.asVoid(client.call({
        service: "device",
        operation: "SetSystemFactoryDefault",
        body: `<FactoryDefault>${mode === "hard" ? "Hard" : "Soft"}</FactoryDefault>`,
        reply: Schema.Unknown,
      })),
  }
}
