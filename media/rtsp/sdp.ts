/**
 * Session descriptions (RFC 8866) as cameras write them.
 *
 * Invariants
 * 1. `parseSdp` is total: lines that cannot be read are left out.
 * 2. At most `maxMedia` media and `maxFormats` formats each are kept; the text is bounded by the message that brought it.
 */

/** One payload format of a medium. */
export interface SdpFormat {
  readonly payloadType: number
  /** Encoding name in upper case, for example `H264`; empty where neither `a=rtpmap` nor RFC 3551 tells it. */
  readonly encoding: string
  readonly clockRate: number
  readonly channels: number
  /** Format parameters, names in lower case. */
  readonly parameters: ReadonlyMap<string, string>
}

export interface SdpMedia {
  /** `video`, `audio`, `application`, … in lower case. */
  readonly kind: string
  readonly formats: ReadonlyArray<SdpFormat>
  /** `null` where the medium has no `a=control`. */
  readonly control: string | null
  readonly direction: "sendrecv" | "recvonly" | "sendonly" | "inactive"
}

export interface Sdp {
  readonly control: string | null
  readonly media: ReadonlyArray<SdpMedia>
}

const maxMedia = 32
const maxFormats = 16
const maxLine = 16 * 1024

/** Static payload types that cameras use without `a=rtpmap` (RFC 3551, section 6). */
const statics: Readonly<Record<number, readonly [encoding: string, clockRate: number, channels: number]>> = {
  0: ["PCMU", 8000, 1],
  8: ["PCMA", 8000, 1],
  9: ["G722", 8000, 1],
  14: ["MPA", 90000, 1],
  26: ["JPEG", 90000, 1],
}

interface Building {
  readonly kind: string
  readonly types: ReadonlyArray<number>
  readonly maps: Map<number, readonly [string, number, number]>
  readonly parameters: Map<number, Map<string, string>>
  control: string | null
  direction: SdpMedia["direction"]
}

const parseMedia = (value: string): Building | null => {
  const [kind = "", , , ...types] = value.trim().split(/\s+/)
  if (kind === "") return null
  return {
    kind: kind.toLowerCase(),
    types: types.filter((type) => /^\d{1,3}$/.test(type)).map(Number).filter((type) => type < 128).slice(0, maxFormats),
    maps: new Map(),
    parameters: new Map(),
    control: null,
    direction: "sendrecv",
  }
}

const parseParameters = (text: string): Map<string, string> => {
  const parameters = new Map<string, string>()
  for (const part of text.split(";")) {
    const equals = part.indexOf("=")
    if (equals > 0) parameters.set(part.slice(0, equals).trim().toLowerCase(), part.slice(equals + 1).trim())
  }
  return parameters
}

const rtpmap = /^(\d{1,3})\s+([^/\s]+)\s*\/\s*(\d{1,7})(?:\s*\/\s*(\d{1,2}))?/
const fmtp = /^(\d{1,3})\s+(.*)$/

const attribute = (medium: Building, name: string, value: string) => {
  if (name === "rtpmap") {
    const match = rtpmap.exec(value)
    const clockRate = Number(match?.[3])
    if (match !== null && clockRate > 0) {
      medium.maps.set(Number(match[1]), [match[2]!.toUpperCase(), clockRate, Math.max(1, Number(match[4] ?? 1))])
    }
  } else if (name === "fmtp") {
    const match = fmtp.exec(value)
    if (match !== null) medium.parameters.set(Number(match[1]), parseParameters(match[2]!))
  } else if (name === "sendrecv" || name === "recvonly" || name === "sendonly" || name === "inactive") {
    medium.direction = name
  }
}

const finish = (medium: Building): SdpMedia => ({
  kind: medium.kind,
  control: medium.control,
  direction: medium.direction,
  formats: medium.types.map((payloadType) => {
    const [encoding, clockRate, channels] = medium.maps.get(payloadType) ?? statics[payloadType] ?? ["", 0, 0]
    return { payloadType, encoding, clockRate, channels, parameters: medium.parameters.get(payloadType) ?? new Map() }
  }),
})

export const parseSdp = (text: string): Sdp => {
  const media: Array<Building> = []
  let control: string | null = null
  let current: Building | null = null
  for (const raw of text.split(/[\r\n\0]+/)) {
    const line = raw.trim()
    if (line.length > maxLine || line[1] !== "=") continue
    const value = line.slice(2).trim()
    if (line[0] === "m") {
      current = media.length < maxMedia ? parseMedia(value) : null
      if (current !== null) media.push(current)
    } else if (line[0] === "a") {
      const colon = value.indexOf(":")
      const name = (colon < 0 ? value : value.slice(0, colon)).trim().toLowerCase()
      const rest = colon < 0 ? "" : value.slice(colon + 1).trim()
      if (name !== "control") {
        if (current !== null) attribute(current, name, rest)
      } else if (current !== null) current.control = rest
      else if (media.length === 0) control = rest
    }
  }
  return { control, media: media.map(finish) }
}
