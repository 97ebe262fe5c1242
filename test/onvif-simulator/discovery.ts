/**
 * The side of WS-Discovery that a device has, on loopback alone: joins the group, answers Probes, and, where asked to, is not alone
 * with garbage, answers to others, and a flood.
 */
import { createSocket } from "node:dgram"
import { escape } from "./soap.ts"

export interface Advertised {
  readonly urn: string
  /** As the device names them, right or wrong. */
  readonly addresses: ReadonlyArray<string>
  readonly scopes: ReadonlyArray<string>
}

export const matches = (relatesTo: string, { addresses, scopes, urn }: Advertised): string =>
  `<?xml version="1.0"?><env:Envelope xmlns:env="http://www.w3.org/2003/05/soap-envelope" ` +
  `xmlns:wsa="http://schemas.xmlsoap.org/ws/2004/08/addressing" xmlns:d="http://schemas.xmlsoap.org/ws/2005/04/discovery">` +
  `<env:Header><wsa:RelatesTo>${relatesTo}</wsa:RelatesTo></env:Header><env:Body><d:ProbeMatches><d:ProbeMatch>` +
  `<wsa:EndpointReference><wsa:Address>${urn}</wsa:Address></wsa:EndpointReference><d:Types>dn:NetworkVideoTransmitter` +
  `</d:Types><d:Scopes>${escape(scopes.join(" "))}</d:Scopes><d:XAddrs>${escape(addresses.join(" "))}</d:XAddrs>` +
  `<d:MetadataVersion>1</d:MetadataVersion></d:ProbeMatch></d:ProbeMatches></env:Body></env:Envelope>`

export interface Advertiser {
  readonly close: () => Promise<void>
}

/** `noise`: datagrams sent before each answer. */
export const advertise = async (device: Advertised, noise: ReadonlyArray<string> = []): Promise<Advertiser> => {
  const socket = createSocket({ type: "udp4", reuseAddr: true })
  socket.on("message", (bytes, { address, port }) => {
    const asked = /<[\w:]*MessageID>([^<]+)</.exec(bytes.toString("utf8"))?.[1]
    if (asked === undefined) return
    const answers = [...noise, matches("urn:uuid:00000000-0000-0000-0000-000000000000", device), matches(asked, device)]
    for (const answer of answers) socket.send(answer, port, address)
  })
  await new Promise<void>((resolve) => socket.bind(3702, "239.255.255.250", resolve))
  socket.addMembership("239.255.255.250", "127.0.0.1")
  socket.setMulticastInterface("127.0.0.1")
  return {
    close: () =>
      new Promise((resolve) => {
        socket.close(() => {
          resolve()
        })
      }),
  }
}
