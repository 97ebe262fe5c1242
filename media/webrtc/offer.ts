/**
 * What a browser offers: SDP (RFC 8866) as WebRTC writes it (RFC 8829), read as far as an answer needs it.
 *
 * Invariants
 * 1. Reading is total: whatever the text, it gives an {@link Offer} or {@link SdpRefused}, within {@link maxSdpBytes}.
 * 2. What an answer repeats of an offer has been checked to be of a harmless alphabet: no line of an answer is the other side's.
 */
import { Data, Result } from "effect"
import { type Fingerprint, isUsable } from "./dtls.ts"

/** Chromium's offer of one picture and one sound has 8 KiB. */
export const maxSdpBytes = 64 * 1024
const maxLines = 2_000
const maxMedia = 8

/** The offer cannot be answered, and why. */
export class SdpRefused extends Data.TaggedError("SdpRefused")<{ readonly problem: string }> {}

export interface OfferedCodec {
  readonly payloadType: number
  /** Lower case. */
  readonly name: string
  readonly clockHz: number
  readonly channels: number
  /** Lower-case names; empty where there is no `a=fmtp`. */
  readonly parameters: ReadonlyMap<string, string>
  /** `nack`, `nack pli`, `goog-remb`, … */
  readonly feedback: ReadonlySet<string>
}

export interface OfferedMedia {
  readonly kind: "video" | "audio" | "other"
  /** Of `m=`, as it stands. */
  readonly protocol: string
  readonly formats: ReadonlyArray<string>
  readonly mid: string
  readonly direction: "sendrecv" | "sendonly" | "recvonly" | "inactive"
  /** Neither rejected nor of a transport that this is none of. */
  readonly usable: boolean
  readonly codecs: ReadonlyArray<OfferedCodec>
  /** Sources that it announces. */
  readonly ssrcs: ReadonlyArray<number>
}

export interface Offer {
  readonly media: ReadonlyArray<OfferedMedia>
  readonly ufrag: string
  readonly password: string
  readonly fingerprint: Fingerprint
}

const refuse = (problem: string) => Result.fail(new SdpRefused({ problem }))
const token = /^[!#$%&'*+\-.^_`{|}~A-Za-z0-9]{1,64}$/
const iceText = /^[A-Za-z0-9+/]{4,256}$/

interface Section {
  readonly head: string
  readonly attributes: Array<readonly [string, string]>
}

const sectionsOf = (text: string): Array<Section> => {
  const sections: Array<Section> = [{ head: "", attributes: [] }]
  for (const line of text.split(/\r\n|\n|\r/).slice(0, maxLines)) {
    if (line.startsWith("m=")) sections.push({ head: line.slice(2), attributes: [] })
    else if (line.startsWith("a=")) {
      const colon = line.indexOf(":")
      sections.at(-1)!.attributes.push(
        colon < 0 ? [line.slice(2).trim(), ""] : [line.slice(2, colon), line.slice(colon + 1).trim()],
      )
    }
  }
  return sections
}

const valuesOf = ({ attributes }: Section, name: string): ReadonlyArray<string> =>
  attributes.filter(([key]) => key === name).map(([, value]) => value)

const parametersOf = (text: string): ReadonlyMap<string, string> =>
  new Map(
    text.split(";").slice(0, 32).map((part) => {
      const equals = part.indexOf("=")
      return equals < 0 ?
        [part.trim().toLowerCase(), ""] as const :
        [part.slice(0, equals).trim().toLowerCase(), part.slice(equals + 1).trim()] as const
    }),
  )

/** Formats that need no `a=rtpmap` (RFC 3551, section 6). */
const fixed: Readonly<Record<string, string>> = { 0: "PCMU/8000", 8: "PCMA/8000" }

/** What stands behind a payload type in attributes such as `a=fmtp:96 …`. */
const behind = (section: Section, name: string, format: string): ReadonlyArray<string> =>
  valuesOf(section, name).flatMap((value) => {
    const [of = "", ...rest] = value.split(/\s+/)
    return of === format || (of === "*" && name === "rtcp-fb") ? [rest.join(" ")] : []
  })

const codecOf = (section: Section, format: string): OfferedCodec | null => {
  const payloadType = /^\d{1,3}$/.test(format) ? Number(format) : 128
  const encoding = /^([\w.+-]{1,32})\/(\d{1,6})(?:\/(\d{1,2}))?$/.exec(
    behind(section, "rtpmap", format)[0] ?? fixed[format] ?? "",
  )
  if (payloadType > 127 || encoding === null) return null
  return {
    payloadType,
    name: encoding[1]!.toLowerCase(),
    clockHz: Number(encoding[2]),
    channels: Number(encoding[3] ?? 1),
    parameters: parametersOf(behind(section, "fmtp", format)[0] ?? ""),
    feedback: new Set(behind(section, "rtcp-fb", format)),
  }
}

const directions = ["sendrecv", "sendonly", "recvonly", "inactive"] as const

const directionOf = (section: Section) => directions.find((name) => valuesOf(section, name).length > 0)

const mediaOf = (section: Section, session: Section, index: number): OfferedMedia | null => {
  const head = /^(\w{1,16}) (\d{1,5})(?:\/\d{1,3})? ([\w/]{1,32}) ([\w!#$%&'*+.^`{|}~ -]{1,512})$/.exec(
    section.head.trim(),
  )
  if (head === null) return null
  const kind = head[1] === "video" || head[1] === "audio" ? head[1] : "other"
  const mid = valuesOf(section, "mid")[0] ?? String(index)
  if (!token.test(mid)) return null
  const has = (name: string) => valuesOf(section, name).length > 0 || valuesOf(session, name).length > 0
  const formats = head[4]!.split(" ").filter((format) => format !== "").slice(0, 64)
  const muxed = has("rtcp-mux") || has("rtcp-mux-only")
  const bundled = has("bundle-only")
  return {
    kind,
    protocol: head[3]!,
    formats,
    mid,
    direction: directionOf(section) ?? directionOf(session) ?? "sendrecv",
    usable: kind !== "other" && (head[2] !== "0" || bundled) && muxed && /^UDP\/TLS\/RTP\/SAVPF?$/.test(head[3]!),
    codecs: kind === "other" ? [] : formats.map((format) => codecOf(section, format)).filter((codec) => codec !== null),
    ssrcs: [...new Set(valuesOf(section, "ssrc").slice(0, 64).map((value) => Number.parseInt(value, 10) >>> 0))],
  }
}

/** All media go over the transport of the first, as every browser offers it (RFC 8843). */
const isBundled = (session: Section, media: ReadonlyArray<OfferedMedia>): boolean => {
  const first = valuesOf(session, "group").find((group) => group.startsWith("BUNDLE "))
  const mids = new Set(first?.split(" ").slice(1))
  return media.filter(({ usable }) => usable).length < 2 || media.every(({ mid, usable }) => !usable || mids.has(mid))
}

export const parseOffer = (text: string): Result.Result<Offer, SdpRefused> => {
  if (text.length > maxSdpBytes) return refuse("it is too long")
  const [session, ...sections] = sectionsOf(text)
  if (session === undefined || !/^v=0\r?\n/.test(text)) return refuse("it is no session description")
  if (sections.length === 0 || sections.length > maxMedia) return refuse(`it has no media, or more than ${maxMedia}`)
  const media = sections.map((section, index) => mediaOf(section, session, index)).filter((one) => one !== null)
  if (media.length < sections.length) return refuse("one of its media cannot be read")
  if (new Set(media.map(({ mid }) => mid)).size < media.length) return refuse("two of its media have the same name")
  if (!isBundled(session, media)) return refuse("its media are not bundled on one transport")
  const carrier = sections[media.findIndex(({ usable }) => usable)]
  if (carrier === undefined) return refuse("it has neither video nor audio over DTLS with RTCP on the same port")
  const value = (name: string) => valuesOf(carrier, name)[0] ?? valuesOf(session, name)[0] ?? ""
  const [ufrag, password] = [value("ice-ufrag"), value("ice-pwd")]
  if (!iceText.test(ufrag) || !iceText.test(password) || password.length < 22) {
    return refuse("it has no ICE credentials")
  }
  if (value("setup") === "passive") return refuse("it waits for our side to begin DTLS")
  const prints = [...valuesOf(carrier, "fingerprint"), ...valuesOf(session, "fingerprint")].slice(0, 8).map((print) => {
    const [algorithm = "", hex = ""] = print.split(" ")
    return { algorithm: algorithm.toLowerCase(), value: hex.toUpperCase() }
  })
  const fingerprint = prints.find(isUsable)
  if (fingerprint === undefined) return refuse("it has no fingerprint of SHA-256 or better")
  return Result.succeed({ media, ufrag, password, fingerprint })
}
