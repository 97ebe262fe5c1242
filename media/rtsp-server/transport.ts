/**
 * The `Transport` header that a player asks SETUP with (RFC 2326, section 12.39), and addresses under this door.
 *
 * Invariants
 * 1. Reading is total. Datagrams go to no other address than the one the connection comes from, and to no port below 1024.
 */
import { StreamId } from "#schema/common.ts"
import { Option, Schema } from "effect"
import { type TrackName, trackNames } from "./description.ts"
import type { Destination } from "./reader.ts"

const maxSpecs = 8

export type Wish =
  | { readonly kind: "tcp"; readonly channel: number | null }
  | { readonly kind: "udp"; readonly rtpPort: number; readonly rtcpPort: number }

const pair = (text: string | undefined): readonly [number, number] | null => {
  const match = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(text ?? "")
  if (match === null) return null
  const first = Number(match[1])
  return [first, match[2] === undefined ? first + 1 : Number(match[2])]
}

const wishOf = (spec: string): Wish | null => {
  const [protocol = "", ...members] = spec.split(";").map((part) => part.trim())
  const values = new Map(members.map((member) => {
    const equals = member.indexOf("=")
    return equals < 0 ?
      [member.toLowerCase(), ""] as const :
      [member.slice(0, equals).trim().toLowerCase(), member.slice(equals + 1).trim()] as const
  }))
  if (values.has("multicast") || /record/i.test(values.get("mode") ?? "")) return null
  if (/^RTP\/AVP\/TCP$/i.test(protocol)) {
    const channels = pair(values.get("interleaved"))
    if (channels === null) return { kind: "tcp", channel: null }
    return channels[0] <= 254 && channels[1] === channels[0] + 1 ? { kind: "tcp", channel: channels[0] } : null
  }
  const ports = /^RTP\/AVP(\/UDP)?$/i.test(protocol) ? pair(values.get("client_port")) : null
  const fit = ports !== null && ports.every((port) => port >= 1024 && port <= 65_535) && ports[0] !== ports[1]
  return fit ? { kind: "udp", rtpPort: ports[0], rtcpPort: ports[1] } : null
}

/** What a player offers and this door knows, in the player's order. */
export const wishesOf = (header: string): ReadonlyArray<Wish> =>
  header.split(",").slice(0, maxSpecs).map(wishOf).filter((wish) => wish !== null)

/** The answer to SETUP: where the track will go. `serverPorts`: where UDP comes from. */
export const transportText = (chosen: Destination, ssrc: number, serverPorts: readonly [number, number]): string => {
  const tail = `ssrc=${ssrc.toString(16).padStart(8, "0")};mode="PLAY"`
  if (chosen.kind === "tcp") return `RTP/AVP/TCP;unicast;interleaved=${chosen.channel}-${chosen.channel + 1};${tail}`
  const client = `client_port=${chosen.rtpPort}-${chosen.rtcpPort}`
  return `RTP/AVP;unicast;${client};server_port=${serverPorts.join("-")};${tail}`
}

/** IPv4 addresses as such where a socket serves both families. */
export const plainAddress = (address: string) => address.replace(/^::ffff:(?=\d+\.)/i, "")

export interface Target {
  readonly streamId: StreamId
  /** Null: the stream as a whole. */
  readonly track: TrackName | null
  /** What relative control addresses stand under: without token, with a slash at the end. */
  readonly base: string
}

const place =
  /^rtsps?:\/\/(?:[^/?#\s]*@)?((?:\[[0-9a-f:.]+\]|[\w.~-]+)(?::\d{1,5})?)\/live\/([0-9a-f-]{36})(?=[/?#]|$)(\S*)$/i
const isStreamId = Schema.decodeUnknownOption(StreamId)

/** Players put the track behind the address or behind its query. Credentials in front of the host are the player's own. */
export const targetOf = (url: string): Target | null => {
  const match = place.exec(url)
  const streamId = match === null ? Option.none() : isStreamId(match[2]!.toLowerCase())
  if (match === null || Option.isNone(streamId)) return null
  const number = /\/trackID=(\d)\/?(?:\?.*)?$/i.exec(match[3]!)?.[1]
  const track = number === undefined ? null : trackNames[Number(number)]
  return track === undefined ?
    null :
    { streamId: streamId.value, track, base: `rtsp://${match[1]}/live/${streamId.value}/` }
}
