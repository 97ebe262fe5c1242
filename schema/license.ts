/**
 * Words of the licence: what a vendor grants, how far it holds now, and what can go wrong with it.
 *
 * A licence is a compact JWS (RFC 7515) by EdDSA (RFC 8037) with `typ: nightjar-license+jws`; {@link LicenseClaims} is its payload.
 *
 * Invariants
 * 1. What a licence says never reaches a recording that runs: it restricts administration alone.
 * 2. Without a licence nothing is restricted; limits are those of a licence that is installed.
 * 3. A licence key is a secret: it never comes out again, `keyHint` tells its last four characters.
 */
import { Schema } from "effect"
import { Instant, NodeId, UserId, Uuid7 } from "./common.ts"

export const licenseStates = [
  "none", // nothing was ever installed: everything works
  "pendingActivation", // a key waits for the vendor's answer, or the licence has not begun
  "valid",
  "expiring", // valid, and ends soon
  "grace", // over, or unconfirmed for too long, but everything still works for some days
  "restricted", // genuine and in time, but it cannot be relied on just now: administration is restricted
  "expired",
  "invalid", // not genuine, of another machine, or revoked
  "released", // given back to the vendor: as without a licence
] as const
export const LicenseState = Schema.Literals(licenseStates)
export type LicenseState = typeof LicenseState.Type

/** Compact serialization; ours are below 4 KiB. */
export const LicenseText = Schema.String.check(
  Schema.isMaxLength(16_384),
  Schema.isPattern(/^\s*[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\s*$/),
)
export const LicenseId = Schema.String.check(Schema.isPattern(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/))
/** `nj1.` and the hashed sources, see `HardwareSource`. */
export const HardwareId = Schema.String.check(Schema.isPattern(/^nj1(\.[a-z]:[a-z2-7+]{1,135}){1,8}$/))

/** Payload of a licence as the vendor signs it. Members that are not listed are ignored. */
export const LicenseClaims = Schema.Struct({
  licenseId: LicenseId,
  customer: Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(256)),
  features: Schema.Array(Schema.String.check(Schema.isPattern(/^[a-z][a-z0-9.-]{0,63}$/))).check(
    Schema.isMaxLength(64),
  ),
  /** Channels of all cameras of the cluster; `null` for as many as one likes. */
  channels: Schema.NullOr(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 1_000_000 }))),
  /** People signed in at once; `null` for as many as one likes. */
  sessions: Schema.NullOr(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1_000_000 }))),
  issuedAt: Instant,
  notBefore: Instant,
  /** `null` for ever. */
  notAfter: Schema.NullOr(Instant),
  /** Days after `notAfter`, or after a confirmation was due, in which everything still works. */
  graceDays: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 366 })),
  /** The machine it is bound to; `null` for any. */
  hardwareId: Schema.NullOr(HardwareId),
  /** The vendor's server must confirm the licence once in so many days; `null` for never (an offline licence). */
  verifyDays: Schema.NullOr(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 366 }))),
  /** The vendor vouches that the latest time seen here was wrong: it begins anew at `issuedAt`. For sites without a network. */
  resetClock: Schema.optionalKey(Schema.Boolean),
}).check(
  Schema.makeFilter(({ notAfter, notBefore }) => notAfter === null || notAfter > notBefore || "ends before it begins"),
)
export type LicenseClaims = typeof LicenseClaims.Type

/** How a licence came here. `key`: it is a lease that the vendor's server must confirm. */
export const LicenseMode = Schema.Literals(["offline", "online", "key"])
export type LicenseMode = typeof LicenseMode.Type

export const LicenseLimits = Schema.Struct({
  channels: Schema.NullOr(Schema.Int),
  sessions: Schema.NullOr(Schema.Int),
  features: Schema.Array(Schema.String),
})

export const LicenseStatus = Schema.Struct({
  state: LicenseState,
  /** In words for a person. */
  reason: Schema.String,
  /** Whether administration is restricted: no new cameras, channels, recordings, users. What runs goes on. */
  restricted: Schema.Boolean,
  /** Whole days until the licence ends; `null` where it does not, or there is none. */
  daysLeft: Schema.NullOr(Schema.Int),
  /** Until when everything works although the licence is over or unconfirmed. */
  graceUntil: Schema.NullOr(Instant),
  /** `null` for no limit. Without a licence there is none. */
  limits: Schema.NullOr(LicenseLimits),
  /** `null`: it cannot be counted at the moment. */
  usage: Schema.Struct({ channels: Schema.NullOr(Schema.Int), sessions: Schema.NullOr(Schema.Int) }),
  clock: Schema.Struct({
    now: Instant,
    /** The latest time that was seen here. Licences are judged at this time when the clock is behind it. */
    highWater: Instant,
    /** The clock is behind the latest time by more than the tolerance. */
    setBack: Schema.Boolean,
    toleranceSeconds: Schema.Int,
  }),
  /** `null` where the licence is bound to no machine, or there is none. */
  hardware: Schema.NullOr(Schema.Struct({
    matches: Schema.Boolean,
    /** Sources of the licence's hardware id that are the same on the best fitting node, of `named`. */
    matching: Schema.Int,
    named: Schema.Int,
    needed: Schema.Int,
    nodeId: Schema.NullOr(NodeId),
  })),
  /** `null` where no server has to confirm the licence. */
  cloud: Schema.NullOr(Schema.Struct({
    confirmedAt: Schema.NullOr(Instant),
    confirmBy: Instant,
    lastFailure: Schema.NullOr(Schema.Struct({ at: Instant, message: Schema.String })),
  })),
}).annotate({ identifier: "LicenseStatus" })
export type LicenseStatus = typeof LicenseStatus.Type

export const InstalledLicense = Schema.Struct({
  licenseId: Schema.String,
  customer: Schema.String,
  mode: LicenseMode,
  limits: LicenseLimits,
  issuedAt: Instant,
  notBefore: Instant,
  notAfter: Schema.NullOr(Instant),
  graceDays: Schema.Int,
  verifyDays: Schema.NullOr(Schema.Int),
  hardwareId: Schema.NullOr(Schema.String),
  activatedAt: Instant,
})
export type InstalledLicense = typeof InstalledLicense.Type

export const LicenseView = Schema.Struct({
  /** `null` where none is installed, or what is installed is not genuine. */
  license: Schema.NullOr(InstalledLicense),
  /** The registered key's last four characters; `null` where none is registered. */
  keyHint: Schema.NullOr(Schema.String),
  /** Identifiers (`kid`) of the vendor keys that licences are checked with. */
  vendorKeys: Schema.Array(Schema.String),
  /** Whether a licence server is configured. */
  serverConfigured: Schema.Boolean,
  status: LicenseStatus,
}).annotate({ identifier: "LicenseView" })
export type LicenseView = typeof LicenseView.Type

/** Where a part of the hardware id comes from, in the order in which they stand in it. */
export const hardwareSources = {
  machine: "m", // the operating system's machine id
  board: "b", // the main board's UUID by DMI
  network: "e", // the addresses of network interfaces with hardware
  node: "n", // the identity that this node made at its first start
} as const
export type HardwareSource = keyof typeof hardwareSources

export const HardwareView = Schema.Struct({
  nodeId: NodeId,
  hardwareId: Schema.String,
  sources: Schema.Array(Schema.Struct({
    name: Schema.Literals(Object.keys(hardwareSources) as ReadonlyArray<HardwareSource>),
    available: Schema.Boolean,
    /** Why it is not available, or how many values it has. Never the values. */
    detail: Schema.String,
  })),
  /** How many of how many sources must still be the same for a licence of this hardware id. */
  rule: Schema.Struct({ needed: Schema.Int, named: Schema.Int }),
}).annotate({ identifier: "HardwareView" })
export type HardwareView = typeof HardwareView.Type

/** What a customer sends to the vendor to get a licence. `signature`: Ed25519 over the canonical JSON (RFC 8785) of the rest. */
export const LicenseRequest = Schema.Struct({
  format: Schema.Literal("nightjar-license-request"),
  version: Schema.Literal(1),
  requestId: Uuid7,
  createdAt: Instant,
  nodeId: NodeId,
  hardwareId: Schema.String,
  usage: Schema.Struct({ channels: Schema.Int }),
  publicKey: Schema.Struct({ kty: Schema.Literal("OKP"), crv: Schema.Literal("Ed25519"), x: Schema.String }),
  signature: Schema.String,
}).annotate({ identifier: "LicenseRequest" })
export type LicenseRequest = typeof LicenseRequest.Type

/** Proof that this installation gave a licence back, signed as the request is. */
export const LicenseRelease = Schema.Struct({
  format: Schema.Literal("nightjar-license-release"),
  version: Schema.Literal(1),
  licenseId: Schema.NullOr(Schema.String),
  releasedAt: Instant,
  nodeId: NodeId,
  hardwareId: Schema.String,
  publicKey: LicenseRequest.fields.publicKey,
  signature: Schema.String,
}).annotate({ identifier: "LicenseRelease" })
export type LicenseRelease = typeof LicenseRelease.Type

const Secret = (text: Schema.Codec<string>) => Schema.RedactedFromValue(text)
const CodeText = Schema.String.check(Schema.isPattern(/^[\x21-\x7e]{4,256}$/))

/** A licence as a file gives it, or a code that the vendor's server exchanges for one. */
export const LicenseActivation = Schema.Union([
  Schema.Struct({ license: LicenseText }),
  Schema.Struct({ activationCode: Secret(CodeText) }),
])
export type LicenseActivation = typeof LicenseActivation.Type

export const LicenseKey = Schema.Struct({ key: Secret(CodeText) })

/** Somebody who is signed in, as far as the licence counts it. */
export const LicenseSession = Schema.Struct({
  sessionId: Uuid7,
  userId: UserId,
  username: Schema.String,
  address: Schema.String,
  userAgent: Schema.String,
  since: Instant,
  lastHeartbeat: Instant,
  expiresAt: Instant,
}).annotate({ identifier: "LicenseSession" })
export type LicenseSession = typeof LicenseSession.Type

/** The licence does not cover what was asked for. Nothing that runs is touched. */
export class LicenseRestricted extends Schema.TaggedError<LicenseRestricted>()("LicenseRestricted", {
  state: LicenseState,
  reason: Schema.String,
  limit: Schema.NullOr(Schema.Int),
}, { httpApiStatus: 409 }) {
  override get message(): string {
    return this.reason
  }
}

export const rejections = [
  "malformed", // not a compact JWS with our payload
  "unknownKey", // signed by a key this installation does not trust
  "forged", // the signature or the type is wrong
  "otherHardware",
  "over", // its time and its grace are over
  "releasedBefore", // given back by this installation
] as const

/** A licence that cannot be installed here. */
export class LicenseRejected extends Schema.TaggedError<LicenseRejected>()("LicenseRejected", {
  reason: Schema.Literals(rejections),
  detail: Schema.String,
}, { httpApiStatus: 422 }) {
  override get message(): string {
    return `The licence cannot be installed: ${this.detail}`
  }
}

/** There is no licence, no key or no lease that this could be done to. */
export class LicenseAbsent extends Schema.TaggedError<LicenseAbsent>()("LicenseAbsent", {
  wanted: Schema.Literals(["license", "key", "lease"]),
}, { httpApiStatus: 409 }) {
  override get message(): string {
    return {
      license: "No licence is installed",
      key: "No licence key is registered",
      lease: "The installed licence needs no confirmation by a server",
    }[this.wanted]
  }
}

/** A key is registered already; it must be released first. */
export class LicenseKeyPresent extends Schema.TaggedError<LicenseKeyPresent>()("LicenseKeyPresent", {}, {
  httpApiStatus: 409,
}) {
  override get message(): string {
    return "A licence key is registered already; release it first"
  }
}

/** The vendor's server heard us and says no. */
export class LicenseRefused extends Schema.TaggedError<LicenseRefused>()("LicenseRefused", {
  /** The vendor's own word. */
  vendorCode: Schema.String,
  vendorMessage: Schema.String,
}, { httpApiStatus: 409 }) {
  override get message(): string {
    return `The licence server refuses: ${this.vendorMessage}`
  }
}

/** The vendor's server cannot be reached. */
export class LicenseServerUnreachable
  extends Schema.TaggedError<LicenseServerUnreachable>()("LicenseServerUnreachable", {
    reason: Schema.Literals(["name", "connection", "certificate", "timeout"]),
    detail: Schema.String,
  }, { httpApiStatus: 503 })
{
  override get message(): string {
    return `The licence server cannot be reached: ${this.detail}`
  }
}

/** The vendor's server answers what cannot be understood or believed. */
export class LicenseServerFaulty extends Schema.TaggedError<LicenseServerFaulty>()("LicenseServerFaulty", {
  detail: Schema.String,
}, { httpApiStatus: 502 }) {
  override get message(): string {
    return `The licence server gives an answer that cannot be used: ${this.detail}`
  }
}
