/**
 * What a simulated camera is like, and what can be done to it while it runs.
 *
 * Invariants
 * 1. Every option has a default that makes an ordinary, well-behaved camera.
 * 2. A fault is undone by its opposite or by `restore`; a camera without faults is as it was, its frame numbers going on.
 */
import type { AudioCodec } from "./footage.ts"
import type { LoudspeakerCodec } from "./loudspeaker.ts"

export type AuthScheme = "none" | "basic" | "digest" | "digest-sha256" | "digest-both"

export interface ProfileOptions {
  /** `main` is served as `/cam/K`, others as `/cam/K/<name>`. */
  readonly name: string
  /** A file of the committed or the benchmark folder, or an absolute path; see `footage.ts` for names. */
  readonly video: string
  readonly audio: AudioCodec | "none"
}

export interface CameraOptions {
  readonly name: string
  readonly profiles: ReadonlyArray<ProfileOptions>
  readonly auth: AuthScheme
  readonly username: string
  readonly password: string
  /** `burst`: a picture's packets in one write; `spread`: packet by packet over four fifths of the picture's time. */
  readonly pacing: "burst" | "spread"
  /** Where parameter sets are told. */
  readonly parameterSets: "both" | "sdp" | "inBand"
  /** RTP timestamps wrap (2^32) this many seconds after the start; null: they begin at a random value. */
  readonly wrapAfterSeconds: number | null
  /** A session without a request for this long ends; 0: never. Told in the `Session` header. */
  readonly sessionTimeoutSeconds: number
  /** Whether OPTIONS offers GET_PARAMETER; where not, it is answered with 501. */
  readonly getParameter: boolean
  /** A nonce is good for so many requests, then 401 with `stale=true`; 0: for ever. */
  readonly nonceUses: number
  /** The first picture of a session is a key frame. */
  readonly startAtKey: boolean
  /** What its loudspeaker takes; none: there is no backchannel. */
  readonly loudspeaker: LoudspeakerCodec | "none"
  /** Seconds between sender reports; 0: none. The first one comes with the first packet. */
  readonly reportSeconds: number
}

export const cameraDefaults: CameraOptions = {
  name: "camera",
  profiles: [
    { name: "main", video: "main-640x360-25.h264", audio: "aac" },
    { name: "sub", video: "sub-320x180-10.h264", audio: "none" },
  ],
  auth: "digest",
  username: "admin",
  password: "swordfish",
  pacing: "burst",
  parameterSets: "both",
  wrapAfterSeconds: null,
  sessionTimeoutSeconds: 60,
  getParameter: true,
  nonceUses: 0,
  startAtKey: false,
  loudspeaker: "none",
  reportSeconds: 5,
}

export interface SimulatorOptions {
  /** A number of ordinary cameras, or what each is like. Camera K (from 0) has mounts under `/cam/K`. */
  readonly cameras: number | ReadonlyArray<Partial<CameraOptions>>
  /** Applied under each camera's own options. */
  readonly defaults?: Partial<CameraOptions>
  /** Camera K listens on port + K; 0: an ephemeral port each. */
  readonly port?: number
  /** 0: ephemeral. */
  readonly controlPort?: number
  readonly host?: string
  /** Makes drops, reorderings and garbage repeatable. */
  readonly seed?: number
}

/** How packets are harmed; percentages of packets, 0 to 100. */
export interface Harm {
  readonly dropPercent: number
  /** The packet is sent after the one that follows it. */
  readonly reorderPercent: number
  /** Bytes of the payload are overwritten. */
  readonly corruptPercent: number
  /** Garbage between packets (TCP only): what follows can only be read by finding the next packet. */
  readonly garbagePercent: number
}

export const noHarm: Harm = { dropPercent: 0, reorderPercent: 0, corruptPercent: 0, garbagePercent: 0 }
