/**
 * Phones as cameras: the service `MobileCameras`, which knows them, and `MobilePublishing`, which takes what they send.
 *
 * Invariants
 * 1. Codes and secrets travel redacted and are told once.
 */
import type {
  ClaimCodeInvalid,
  DeviceUuid,
  MobileDevice,
  MobileNotFound,
  MobilePrepare,
  MobileStatus,
  PublishingEnded,
  PublishingPaused,
  PublishRefused,
} from "#schema/camera-mobile.ts"
import type { CameraId, EpochMs } from "#schema/common.ts"
import type { ControlElsewhere } from "#schema/federation-failover.ts"
import type { LicenseRestricted } from "#schema/license.ts"
import type { DependencyUnavailable, InvalidInput, TooManyRequests } from "#schema/problem.ts"
import { Context, type Effect, type Redacted } from "effect"

type Answer<A, E = never> = Effect.Effect<A, E | DependencyUnavailable>

export interface PreparedMobile {
  readonly deviceUuid: DeviceUuid
  readonly claimCode: Redacted.Redacted
  readonly expiresAt: EpochMs
}

export interface ClaimedMobile {
  readonly deviceUuid: DeviceUuid
  readonly cameraId: CameraId
  readonly name: string
  readonly publishSecret: Redacted.Redacted
}

export class MobileCameras extends Context.Service<MobileCameras, {
  readonly prepare: (input: MobilePrepare) => Answer<PreparedMobile, TooManyRequests>
  /** Failures are counted for `address`. */
  readonly claim: (
    code: Redacted.Redacted,
    address: string,
  ) => Answer<ClaimedMobile, ClaimCodeInvalid | ControlElsewhere | LicenseRestricted | TooManyRequests>
  readonly status: (id: DeviceUuid) => Answer<MobileStatus, MobileNotFound>
  /** Its secret is worth nothing from now on. A camera without recordings goes too; a recorded one stays, without pictures. */
  readonly unregister: (id: DeviceUuid) => Answer<{ readonly cameraStays: boolean }, ControlElsewhere | MobileNotFound>
  readonly publisher: (secret: Redacted.Redacted) => Answer<MobileDevice, PublishRefused>
  /** Of these, those that may go on publishing. */
  readonly known: (ids: ReadonlyArray<DeviceUuid>) => Answer<ReadonlySet<DeviceUuid>>
}>()("nightjar/actors/MobileCameras") {}

/** Sessions of phones that publish to this node. It needs no database but to let one in. */
export class MobilePublishing extends Context.Service<MobilePublishing, {
  /** Answers an offer; a newer session of the same phone replaces the one before once it is connected. */
  readonly open: (secret: Redacted.Redacted, offer: string) => Answer<
    { readonly sessionId: string; readonly answer: string },
    InvalidInput | PublishingPaused | PublishRefused
  >
  readonly trickle: (sessionId: string, fragment: string) => Effect.Effect<void, PublishingEnded | InvalidInput>
  readonly close: (sessionId: string) => Effect.Effect<void, PublishingEnded>
}>()("nightjar/actors/MobilePublishing") {}
