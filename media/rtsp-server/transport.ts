/**
 * The `Transport` header that a player asks SETUP with (RFC 2326, section 12.39), and addresses under this door.
 *
 * Invariants
 * 1. Reading is total. Datagrams go to no other address than the one the connection comes from, and to no port below 1024.
 */
import { type EpochMs, Instant, RecordingToken, StreamId } from "#schema/common.ts"
import { Option, Schema } from "effect"
import { type TrackName, trackNames } from "./description.ts"
import type { Destination } from "./lanes.ts"

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

/** Channels that those of other tracks, and of a talker, stand in the way of. */
export const takenChannels = (
  destinations: ReadonlyMap<TrackName, Destination>,
  talk: number | null,
  track: TrackName | null,
): ReadonlyArray<number> => {
  const channels = [...destinations].flatMap(([name, one]) => name !== track && one.kind === "tcp" ? [one.channel] : [])
  return [...channels, ...(talk === null ? [] : [talk])].flatMap((one) => [one - 1, one, one + 1])
}

/** The first wish that can be granted; `taken` are channels of others, `usual` is the one where none is asked for. */
export const grantable = (
  wishes: ReadonlyArray<Wish>,
  taken: ReadonlyArray<number>,
  usual: number,
  byUdp: boolean,
): Extract<Wish, { readonly kind: "udp" }> | Extract<Destination, { readonly kind: "tcp" }> | null => {
  for (const wish of wishes) {
    if (wish.kind === "udp") {
      if (byUdp) return wish
      continue
    }
    const channel = wish.channel ?? usual
    if (!taken.includes(channel)) return { kind: "tcp", channel }
  }
  return null
}

/** The answer to SETUP of the part that a player talks on. */
export const talkTransportText = (channel: number): string =>
  `RTP/AVP/TCP;unicast;interleaved=${channel}-${channel + 1}`

/** The answer to SETUP: where the track will go. `serverPorts`: where UDP comes from. */
export const transportText = (chosen: Destination, ssrc: number, serverPorts: readonly [number, number]): string => {
  const tail = `ssrc=${ssrc.toString(16).padStart(8, "0")};mode="PLAY"`
  if (chosen.kind === "tcp") return `RTP/AVP/TCP;unicast;interleaved=${chosen.channel}-${chosen.channel + 1};${tail}`
  const client = `client_port=${chosen.rtpPort}-${chosen.rtcpPort}`
  return `RTP/AVP;unicast;${client};server_port=${serverPorts.join("-")};${tail}`
}

/** IPv4 addresses as such where a socket serves both families. */
export const plainAddress = (address: string) => address.replace(/^::ffff:(?=\d+\.)/i, "")

interface Place {
  /** Null: the thing as a whole. */
  readonly track: TrackName | "talk" | null
  /** What relative control addresses stand under: without token, with a slash at the end. */
  readonly base: string
}

export interface LiveTarget extends Place {
  readonly kind: "live"
  readonly streamId: StreamId
}

/** Footage of a recording; an end that is left open is null. */
export interface RecordingTarget extends Place {
  readonly kind: "recording"
  readonly recordingToken: RecordingToken
  readonly startMs: EpochMs | null
  readonly endMs: EpochMs | null
}

export type Target = LiveTarget | RecordingTarget

/** Equal for addresses of the same thing. */
export const keyOf = (target: Target): string =>
  target.kind === "live" ?
    `live/${target.streamId}` :
    `recording/${target.recordingToken}/${target.startMs ?? ""}-${target.endMs ?? ""}`

const maxAddress = 2_048
const tracks = [...trackNames, "talk"] as const
const place =
  /^rtsps?:\/\/(?:[^/?#\s]*@)?((?:\[[0-9a-f:.]+\]|[\w.~-]+)(?::\d{1,5})?)\/(live|recording)\/([0-9a-f-]{36})(?=[/?#]|$)(\S*)$/i
const isStreamId = Schema.decodeUnknownOption(StreamId)
const isRecordingToken = Schema.decodeUnknownOption(RecordingToken)
const isInstant = Schema.decodeUnknownOption(Instant)
/** Epoch milliseconds up to the year 9999, either end open: how addresses under a base carry an interval. */
const span = /^\/(\d{1,15})?-(\d{1,15})?(?=[/?#]|$)/

/** A member of the query as a time; undefined: it is none. */
const instantOf = (rest: string, name: string): EpochMs | null | undefined => {
  const text = new RegExp(`[?&]${name}=([^&#/]*)`).exec(rest)?.[1]
  if (text === undefined || text === "") return null
  // A plus sign is one here: times have offsets, and no blanks.
  const plain = text.replaceAll(/%3a/gi, ":").replaceAll(/%2b/gi, "+")
  return Option.getOrUndefined(isInstant(plain))
}

const intervalOf = (rest: string): Pick<RecordingTarget, "startMs" | "endMs"> | null => {
  const told = span.exec(rest)
  const number = (text: string | undefined) => text === undefined ? null : Number(text)
  const startMs = told === null ? instantOf(rest, "start") : number(told[1])
  const endMs = told === null ? instantOf(rest, "end") : number(told[2])
  if (startMs === undefined || endMs === undefined) return null
  return startMs !== null && endMs !== null && endMs <= startMs ? null : { startMs, endMs }
}

/**
 * `rtsp://host/live/<stream id>` and `rtsp://host/recording/<recording token>?start=&end=` (RFC 3339, each may be left out). Players put
 * the track behind the address or behind its query. Credentials in front of the host are the player's own.
 */
export const targetOf = (url: string): Target | null => {
  const match = url.length > maxAddress ? null : place.exec(url)
  if (match === null) return null
  const [host, kind, id, rest] = match.slice(1) as [string, string, string, string]
  const number = /\/trackID=(\d)\/?(?:\?.*)?$/i.exec(rest)?.[1]
  const track = number === undefined ? null : tracks[Number(number)]
  if (track === undefined) return null
  if (track === "talk" && kind.toLowerCase() !== "live") return null
  if (kind.toLowerCase() === "live") {
    const streamId = Option.getOrNull(isStreamId(id.toLowerCase()))
    return streamId === null ? null : { kind: "live", streamId, track, base: `rtsp://${host}/live/${streamId}/` }
  }
  const recordingToken = Option.getOrNull(isRecordingToken(id.toLowerCase()))
  const interval = intervalOf(rest)
  if (recordingToken === null || interval === null) return null
  const target = { kind: "recording", recordingToken, ...interval, track, base: "" } as const
  return { ...target, base: `rtsp://${host}/${keyOf(target)}/` }
}
