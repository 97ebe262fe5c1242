/**
 * The `Transport` header that a player asks SETUP with (RFC 2326, section 12.39), and addresses under this door.
 *
 * Invariants
 * 1. Reading is total. Datagrams go to no other address than the one the connection comes from, and to no port below 1024.
 */
import { StreamId } from "#schema/common.ts"
import { Option, Schema } from "effect"
import { type TrackName, trackNames } from "./description.ts"

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

export interface Target {
  readonly streamId: StreamId
  /** Null: the stream as a whole. */
  readonly track: TrackName | null
  /** What relative control addresses stand under: without token, with a slash at the end. */
  readonly base: string
}

const place = /^rtsps?:\/\/([^/?#\s]+)\/live\/([0-9a-f-]{36})(?=[/?#]|$)([^\s]*)$/i
const isStreamId = Schema.decodeUnknownOption(StreamId)

/** Players put the track behind the address or behind its query. */
export const targetOf = (url: string): Target | null => {
  const match = place.exec(url)
  const streamId = match === null ? Option.none() : isStreamId(match[2]!.toLowerCase())
  if (match === null || Option.isNone(streamId)) return null
  const number = /\/trackID=(\d)\/?(?:\?.*)?$/i.exec(match[3]!)?.[1]
  const track = number === undefined ? null : trackNames[Number(number)]
  // Credentials in front of the host are the player's own.
  const host = match[1]!.slice(match[1]!.lastIndexOf("@") + 1)
  return track === undefined ?
    null :
    { streamId: streamId.value, track, base: `rtsp://${host}/live/${streamId.value}/` }
}
