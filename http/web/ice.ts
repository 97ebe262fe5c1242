/** ICE servers as the node tells them in answers of WHEP and WHIP. */

/** The value of a quoted parameter, its escapes taken out (RFC 9110, section 5.6.4). */
const valueOf = (link: string, name: string): string | undefined =>
  new RegExp(`;\\s*${name}="((?:[^"\\\\]|\\\\.)*)"`).exec(link)?.[1]?.replaceAll(/\\(.)/g, "$1")

/** A target and its parameters, quoted values whole (RFC 8288, section 3). */
const linkValue = /<[^>]*>(?:\s*;\s*[\w-]+(?:=(?:"(?:[^"\\]|\\.)*"|[^\s;,"]*))?)*/g

/** Servers in `Link` fields (RFC 9725, section 4.6): `<turn:host?transport=udp>; rel="ice-server"; username="…"; …`. */
export const serversIn = (link: string | null): Array<RTCIceServer> =>
  ((link ?? "").match(linkValue) ?? []).flatMap((one) => {
    const urls = /^<([^>]+)>/.exec(one)?.[1]
    if (urls === undefined || !/;\s*rel="?ice-server"?/.test(one)) return []
    const username = valueOf(one, "username")
    const credential = valueOf(one, "credential")
    return [{
      urls,
      ...(username === undefined ? {} : { username }),
      ...(credential === undefined ? {} : { credential }),
    }]
  })

/** Takes up the servers of an answer: before the local description is set, for that begins the search for addresses. */
export const useServers = (peer: RTCPeerConnection, link: string | null): void => {
  const iceServers = serversIn(link)
  if (iceServers.length > 0) peer.setConfiguration({ ...peer.getConfiguration(), iceServers })
}
