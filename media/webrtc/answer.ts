/**
 * The answer to an offer (RFC 8829, section 5.3; RFC 9725, section 4.4): a lite ICE agent with all its candidates.
 *
 * Invariants
 * 1. The answer has the media of the offer in their order; what is not taken has port 0.
 * 2. By TCP a candidate waits for a connection (RFC 6544), and counts less than any by UDP.
 * 3. One codec per medium, with the offer's payload type and its parameters as the offer may be answered.
 */
import { isIPv6 } from "node:net"
import type { Offer, OfferedCodec, OfferedMedia } from "./offer.ts"

/** Where this node can be reached. */
export interface HostCandidate {
  readonly address: string
  readonly port: number
  readonly protocol: "udp" | "tcp"
}

/** What becomes of one medium of an offer. */
export interface Taken {
  readonly codec: OfferedCodec
  /** What we send; null: we receive. */
  readonly source: { readonly ssrc: number; readonly name: string } | null
}

export interface AnswerParts {
  readonly offer: Offer
  /** As many as the offer has media. */
  readonly taken: ReadonlyArray<Taken | null>
  readonly ufrag: string
  readonly password: string
  readonly fingerprint: string
  readonly candidates: ReadonlyArray<HostCandidate>
  /** Positive, at most 62 bits. */
  readonly sessionId: number
}

/**
 * Type preference of host candidates, then the order in which they stand (RFC 8445, section 5.1.2.1); by TCP with the preference of those
 * that wait in front of that order (RFC 6544, section 4.2), and a type preference as browsers have it.
 */
const priorityOf = (protocol: HostCandidate["protocol"], index: number): number =>
  protocol === "udp" ?
    126 * 2 ** 24 + (65_535 - index) * 2 ** 8 + 255 :
    90 * 2 ** 24 + (4 * 2 ** 13 + 8_191 - index) * 2 ** 8 + 255

const candidateLine = ({ address, port, protocol }: HostCandidate, index: number): string =>
  `a=candidate:${index + 1} 1 ${protocol} ${priorityOf(protocol, index)} ${address} ${port} typ host` +
  (protocol === "tcp" ? " tcptype passive" : "")

/** What an answer says of H.264 is what the offer said, of Opus that one packet has 20 ms and stereo is welcome. */
const parameterText = ({ name, parameters }: OfferedCodec): string | null => {
  if (name === "h264") {
    const profile = /^[0-9a-f]{6}$/i.exec(parameters.get("profile-level-id") ?? "")?.[0] ?? "42001f"
    return `level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=${profile.toLowerCase()}`
  }
  return name === "opus" ? "minptime=10;useinbandfec=1" : null
}

const codecNames: Readonly<Record<string, string>> = { h264: "H264", opus: "opus", pcmu: "PCMU", pcma: "PCMA" }
/** What we take of a browser's feedback, or give: RFC 4585; the estimate that browsers call REMB. */
const feedbacks = ["nack", "nack pli", "goog-remb"]

const takenLines = (parts: AnswerParts, media: OfferedMedia, { codec, source }: Taken): ReadonlyArray<string> => {
  const { channels, clockHz, feedback, name, payloadType } = codec
  const fmtp = parameterText(codec)
  const stream = "nightjar"
  return [
    `m=${media.kind} 9 ${media.protocol} ${payloadType}`,
    "c=IN IP4 0.0.0.0",
    `a=mid:${media.mid}`,
    `a=ice-ufrag:${parts.ufrag}`,
    `a=ice-pwd:${parts.password}`,
    `a=fingerprint:sha-256 ${parts.fingerprint}`,
    "a=setup:passive",
    source === null ? "a=recvonly" : "a=sendonly",
    "a=rtcp-mux",
    `a=rtpmap:${payloadType} ${codecNames[name] ?? name}/${clockHz}${channels > 1 ? `/${channels}` : ""}`,
    ...fmtp === null ? [] : [`a=fmtp:${payloadType} ${fmtp}`],
    ...feedbacks.filter((one) => feedback.has(one)).map((one) => `a=rtcp-fb:${payloadType} ${one}`),
    ...source === null ? [] : [
      `a=msid:${stream} ${media.kind}`,
      `a=ssrc:${source.ssrc} cname:${source.name}`,
      `a=ssrc:${source.ssrc} msid:${stream} ${media.kind}`,
    ],
    ...parts.candidates.map(candidateLine),
    "a=end-of-candidates",
  ]
}

const rejectedLines = ({ formats, kind, mid, protocol }: OfferedMedia): ReadonlyArray<string> => [
  `m=${kind === "other" ? "application" : kind} 0 ${protocol} ${formats.join(" ")}`,
  "c=IN IP4 0.0.0.0",
  `a=mid:${mid}`,
  "a=inactive",
]

export const answerText = (parts: AnswerParts): string => {
  const { offer, taken } = parts
  const mids = offer.media.filter((_, index) => taken[index] !== null).map(({ mid }) => mid)
  const lines = [
    "v=0",
    `o=- ${parts.sessionId} 1 IN IP4 127.0.0.1`,
    "s=-",
    "t=0 0",
    `a=group:BUNDLE ${mids.join(" ")}`,
    "a=msid-semantic: WMS *",
    "a=ice-lite",
    "a=ice-options:trickle",
    ...offer.media.flatMap((media, index) => {
      const one = taken[index] ?? null
      return one === null ? rejectedLines(media) : takenLines(parts, media, one)
    }),
  ]
  return `${lines.join("\r\n")}\r\n`
}

/** Addresses as candidates name them: IPv6 without a zone. */
export const plainHost = (address: string): string => isIPv6(address) ? address.split("%")[0]! : address
