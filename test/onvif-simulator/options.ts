/**
 * What a simulated ONVIF device is like.
 *
 * Invariants
 * 1. Every option has a default that makes an ordinary, well-behaved device with Media 1, Media 2 and PTZ.
 * 2. Quirks may be changed while it runs: the next request sees them.
 */
export interface Quirks {
  /** The device's clock is ahead by so much; it refuses signatures that are more than five seconds off its own time. */
  clockSkewMs: number
  /** Media 2 is neither named nor served. */
  media1Only: boolean
  /** Media 2 is named, and answers faults. */
  media2Broken: boolean
  /** GetServices is not known, as on devices from before it. */
  noServices: boolean
  noPtz: boolean
  /** A continuous move goes on until it is stopped. */
  ignoresMoveTime: boolean
  /** It moves, and keeps no tours. */
  noTours: boolean
  /** A tour is made, but its spots are refused. */
  refusesSpots: boolean
  noImaging: boolean
  /** It notices nothing, and says so. */
  noEvents: boolean
  /** Every pull tells all properties again, as if they had changed. */
  repeatsEvents: boolean
  /** Pulls are answered at once. */
  doesNotWait: boolean
  /** Subscriptions have one address, and are told apart by a reference parameter. */
  subscriptionInHeader: boolean
  /** Waits so long before it answers. */
  slowMs: number
  /** Replies go on to so many bytes. */
  hugeBytes: number
  /** Replies break off in the middle of an element. */
  brokenXml: boolean
  /** Elements come in namespaces of the device's own. */
  wrongNamespace: boolean
  /** WS-Security is not looked at: HTTP Digest alone. */
  digestOnly: boolean
  /** Answers 503. */
  busy: boolean
  /** More requests than this within a second are answered with 503; null: it bears any load. */
  requestsPerSecond: number | null
  /** Operations that it does not know, of any service. */
  lacks: ReadonlyArray<string>
  /** Operations that it has in Media 1 alone. */
  media2Lacks: ReadonlyArray<string>
  /** Operations that it declines, whatever is asked. */
  refuses: ReadonlyArray<string>
  /** What becomes of every reply on its way. */
  mangle: ((xml: string) => string) | null
  /** It carries this operation out, and the connection breaks without an answer. */
  vanishesAt: string | null
  /** What it serves as its picture: an error page, one that calls itself a picture, a redirect, one that never ends or never goes on. */
  picture: "jpeg" | "html" | "disguised" | "elsewhere" | "endless" | "silent"
  pictureAuth: "digest" | "basic" | "none"
  /** The host that its addresses name, where not its own. */
  namedHost: string | null
}

export const noQuirks: Quirks = {
  clockSkewMs: 0,
  media1Only: false,
  media2Broken: false,
  noServices: false,
  noPtz: false,
  ignoresMoveTime: false,
  noTours: false,
  refusesSpots: false,
  noImaging: false,
  noEvents: false,
  repeatsEvents: false,
  doesNotWait: false,
  subscriptionInHeader: false,
  slowMs: 0,
  hugeBytes: 0,
  brokenXml: false,
  wrongNamespace: false,
  digestOnly: false,
  busy: false,
  requestsPerSecond: null,
  lacks: [],
  media2Lacks: [],
  refuses: [],
  mangle: null,
  vanishesAt: null,
  picture: "jpeg",
  pictureAuth: "digest",
  namedHost: null,
}

export interface DeviceOptions {
  readonly username: string
  readonly password: string
  readonly serialNumber: string
  readonly quirks: Partial<Quirks>
  /** Where the streams of the two profiles play; the device tells these as its own. */
  readonly streams: { readonly main: string; readonly sub: string }
  /** Told after an encoder was changed, so that the stream changes with it. */
  readonly onEncoder: (profile: "main" | "sub", encoder: Encoder) => void
}

export interface Encoder {
  readonly token: string
  name: string
  encoding: "H264" | "H265" | "JPEG"
  width: number
  height: number
  quality: number
  frameRate: number
  /** Kilobits a second, as ONVIF counts. */
  bitrate: number
  govLength: number
  profile: string
}
