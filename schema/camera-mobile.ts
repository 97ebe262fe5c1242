/**
 * Phones as cameras: prepared by an administrator, claimed by a code, publishing with a secret of their own.
 *
 * Invariants
 * 1. A claim code is good once, for {@link claimMinutes}; only its hash is kept.
 * 2. A publish secret is told once, to whoever claimed; only its hash is kept. It opens publishing to that one camera, and nothing else.
 */
import { Schema } from "effect"
import { CameraCreate } from "./camera.ts"
import { CameraId, Instant, type StreamId, Uuid7 } from "./common.ts"

export const claimMinutes = 15
/** Prepared and not claimed yet, of the cluster. */
export const maxPrepared = 200

export const DeviceUuid = Uuid7.pipe(Schema.brand("DeviceUuid"))
export type DeviceUuid = typeof DeviceUuid.Type

/** Without the letters and digits that are mistaken for each other (Crockford's base32): 60 bits, in groups for people. */
export const claimAlphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
export const claimLength = 12

/** As it is compared: what people type for what they read is corrected, blanks and hyphens do not count. */
export const plainClaimCode = (typed: string): string =>
  typed.toUpperCase().replaceAll(/[\s-]/g, "").replaceAll("O", "0").replaceAll(/[IL]/g, "1")

/** `K7QM-2XNP-94TA` */
export const spacedClaimCode = (code: string): string => code.replaceAll(/(.{4})(?=.)/g, "$1-")

/** What streams of phones have for an address. */
export const mobileAddress = (id: DeviceUuid): string => `mobile:${id}`

export const MobilePrepare = Schema.Struct({
  name: CameraCreate.fields.name,
  description: CameraCreate.fields.description,
  tags: CameraCreate.fields.tags,
})
export type MobilePrepare = typeof MobilePrepare.Type

/** What is shown to whoever holds the phone. */
export const MobileTicket = Schema.Struct({
  deviceUuid: DeviceUuid,
  name: Schema.String,
  claimCode: Schema.String,
  expiresAt: Instant,
  /** The phone's page with the code in its fragment, which browsers send to nobody. */
  url: Schema.String,
  /** The same as a QR code, an SVG document. */
  qrSvg: Schema.String,
}).annotate({ identifier: "MobileTicket" })

export const MobileClaim = Schema.Struct({
  claimCode: Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(64)),
})

export const MobileClaimed = Schema.Struct({
  deviceUuid: DeviceUuid,
  cameraId: CameraId,
  name: Schema.String,
  /** `Authorization: Bearer` of `mobile/whip`. */
  publishSecret: Schema.String,
}).annotate({ identifier: "MobileClaimed" })

export const MobileStatus = Schema.Struct({
  deviceUuid: DeviceUuid,
  name: Schema.String,
  /** `prepared`: the code waits, or is becoming a camera. `expired`: nothing came of it in time. `claimed`: it is a camera. */
  state: Schema.Literals(["prepared", "expired", "claimed"]),
  cameraId: Schema.NullOr(CameraId),
  /** Its pictures arrive. */
  publishing: Schema.Boolean,
  expiresAt: Instant,
  claimedAt: Schema.NullOr(Instant),
}).annotate({ identifier: "MobileStatus" })
export type MobileStatus = typeof MobileStatus.Type

/** A phone that was claimed. */
export interface MobileDevice {
  readonly deviceUuid: DeviceUuid
  readonly cameraId: CameraId
  readonly streamId: StreamId
}

export class MobileNotFound
  extends Schema.TaggedError<MobileNotFound>()("MobileNotFound", { deviceUuid: Schema.String }, { httpApiStatus: 404 })
{
  override get message(): string {
    return `There is no phone ${this.deviceUuid}.`
  }
}

export class ClaimCodeInvalid
  extends Schema.TaggedError<ClaimCodeInvalid>()("ClaimCodeInvalid", {}, { httpApiStatus: 409 })
{
  override get message(): string {
    return "The code is not valid (any more): it is good once, for a few minutes. Ask for a new one."
  }
}

export class PublishRefused extends Schema.TaggedError<PublishRefused>()("PublishRefused", {}, { httpApiStatus: 401 }) {
  override get message(): string {
    return "This phone is not registered (any more)."
  }
}

export class PublishingPaused
  extends Schema.TaggedError<PublishingPaused>()("PublishingPaused", {}, { httpApiStatus: 409 })
{
  override get message(): string {
    return "This camera is switched off."
  }
}

export class PublishingEnded
  extends Schema.TaggedError<PublishingEnded>()("PublishingEnded", {}, { httpApiStatus: 404 })
{
  override get message(): string {
    return "This session has ended."
  }
}
