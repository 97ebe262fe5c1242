/**
 * WS-Discovery (version of April 2005, as ONVIF Core asks for it): a Probe by multicast from every interface, ProbeMatches back.
 *
 * Invariants
 * 1. Garbage, answers to nobody's question, and errors of one interface or socket are left out; none of them ends the search.
 * 2. At most {@link maxDatagrams} datagrams are read and {@link maxDevices} devices told in one search.
 * 3. Only the port of an address that a device names is used; the host is the sender's.
 */
import type { FoundDevice } from "#schema/camera-device.ts"
import { uuid7 } from "#schema/uuid.ts"
import { Effect, Layer, Schema, type Scope, Semaphore } from "effect"
import { createSocket, type Socket } from "node:dgram"
import { networkInterfaces } from "node:os"
import { DeviceDiscovery } from "../discovery.ts"
import { readReply } from "./onvif-message.ts"
import { many, worded } from "./onvif-shape.ts"

const group = "239.255.255.250"
const port = 3702
export const maxDevices = 1_000
/** Four answers a device, one for each of a few interfaces. */
const maxDatagrams = 4_000
/** One answer of a device; longer ones are no ProbeMatches. */
const maxBytes = 16 * 1024
/** A Probe is sent again, as datagrams get lost (SOAP over UDP, section 3.1.1.4). */
const againAfterMs = 250
/** Characters of a name, a model or a place. */
const maxWord = 120

const probeOf = (id: string): string =>
  `<?xml version="1.0" encoding="UTF-8"?><s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope" ` +
  `xmlns:a="http://schemas.xmlsoap.org/ws/2004/08/addressing"><s:Header><a:MessageID>urn:uuid:${id}</a:MessageID>` +
  `<a:To>urn:schemas-xmlsoap-org:ws:2005:04:discovery</a:To>` +
  `<a:Action>http://schemas.xmlsoap.org/ws/2005/04/discovery/Probe</a:Action></s:Header><s:Body>` +
  `<d:Probe xmlns:d="http://schemas.xmlsoap.org/ws/2005/04/discovery" xmlns:dn="http://www.onvif.org/ver10/network/wsdl">` +
  `<d:Types>dn:NetworkVideoTransmitter</d:Types></d:Probe></s:Body></s:Envelope>`

const matchesShape = Schema.Struct({
  probeMatches: Schema.Struct({
    probeMatch: many(Schema.Struct({
      endpointReference: Schema.Struct({ address: worded }),
      scopes: Schema.optionalKey(worded),
      XAddrs: worded,
    })),
  }),
})
const decodeMatches = Schema.decodeUnknownOption(matchesShape)

/** The last part of a scope such as `onvif://www.onvif.org/name/Front%20door`. */
const scope = (scopes: string, kind: string): string => {
  const found = new RegExp(`^onvif://www\\.onvif\\.org/${kind}/(.+)$`, "i")
  const word = scopes.split(/\s+/).map((one) => found.exec(one)?.[1]).find((one) => one !== undefined) ?? ""
  try {
    return decodeURIComponent(word).slice(0, maxWord)
  } catch {
    return word.slice(0, maxWord)
  }
}

/** Port of the address that names the sender, else of the first one over HTTP; null: none is. */
const portOf = (addresses: string, sender: string): number | null => {
  const urls = addresses.trim().split(/\s+/).filter((text) => URL.canParse(text)).map((text) => new URL(text))
    .filter((url) => url.protocol === "http:")
  const best = urls.find((url) => url.hostname === sender) ?? urls[0]
  return best === undefined ? null : best.port === "" ? 80 : Number(best.port)
}

/** What a datagram tells; total: anything else than an answer to `id` is nothing. */
export const readMatches = (text: string, id: string, sender: string): ReadonlyArray<FoundDevice> => {
  if (!text.includes(id)) return []
  try {
    const reply = readReply(text)
    const decoded = "fault" in reply ? null : decodeMatches(reply.body)
    if (decoded === null || decoded._tag === "None") return []
    return decoded.value.probeMatches.probeMatch.flatMap(({ XAddrs, endpointReference, scopes = "" }) => {
      const at = portOf(XAddrs, sender)
      return at === null ? [] : [{
        urn: endpointReference.address.trim().slice(0, maxWord),
        host: sender,
        port: at,
        name: scope(scopes, "name"),
        model: scope(scopes, "hardware"),
        location: scope(scopes, "location"),
      }]
    })
  } catch {
    return []
  }
}

/** IPv4 addresses of this machine's interfaces, loopback too: a camera may be a program beside us. */
const addresses = (): ReadonlyArray<string> =>
  Object.values(networkInterfaces()).flatMap((own) => own ?? []).filter((one) => one.family === "IPv4")
    .map((one) => one.address)

/** A socket that sends by one interface; null where that has no multicast. */
const socketOn = (address: string): Effect.Effect<Socket | null, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.callback<Socket | null>((resume) => {
      const socket = createSocket("udp4")
      // One that is closed already throws; errors that come later belong to one datagram.
      socket.on("error", () => resume(Effect.succeed(null)))
      socket.bind(0, address, () => {
        try {
          socket.setMulticastInterface(address)
          resume(Effect.succeed(socket))
        } catch {
          socket.close()
          resume(Effect.succeed(null))
        }
      })
    }),
    (socket) => Effect.sync(() => socket?.close()),
  )

const search = (waitMs: number) =>
  Effect.gen(function*() {
    const id = yield* uuid7
    const found = new Map<string, FoundDevice>()
    let datagrams = 0
    const sockets = (yield* Effect.forEach(addresses(), socketOn)).filter((socket) => socket !== null)
    for (const socket of sockets) {
      socket.on("message", (bytes, { address }) => {
        datagrams += 1
        if (datagrams > maxDatagrams || bytes.length > maxBytes) return
        for (const device of readMatches(bytes.toString("utf8"), id, address)) {
          // Seen by several interfaces, it is one; a device at two addresses is told once at each.
          const key = `${device.host}:${device.port}`
          if (found.size < maxDevices && !found.has(key)) found.set(key, device)
        }
      })
    }
    const probe = Buffer.from(probeOf(id), "utf8")
    const send = Effect.sync(() => {
      for (const socket of sockets) socket.send(probe, port, group, () => {})
    })
    yield* send
    yield* Effect.sleep(Math.min(againAfterMs, waitMs))
    yield* send
    yield* Effect.sleep(Math.max(0, waitMs - againAfterMs))
    return [...found.values()]
  }).pipe(Effect.scoped)

/** One search at a time: two would only double the answers. */
export const layer = Layer.effect(
  DeviceDiscovery,
  Effect.map(Semaphore.make(1), (permit) =>
    DeviceDiscovery.of({ probe: (waitMs) => Semaphore.withPermit(permit)(search(waitMs)) })),
)
