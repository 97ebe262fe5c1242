/**
 * The licence: what it allows, installing it, giving it back.
 *
 * Invariants
 * 1. {@link LicenseGate} is asked before something is added, and by nothing else: no capture, no recording and no replay knows it.
 * 2. The gate answers from memory; it never waits for the database or a server.
 */
import type { PageOf, PageRequest } from "#schema/common.ts"
import type { ControlElsewhere } from "#schema/federation-failover.ts"
import type {
  HardwareSource,
  HardwareView,
  LicenseAbsent,
  LicenseActivation,
  LicenseKeyPresent,
  LicenseRefused,
  LicenseRejected,
  LicenseRelease,
  LicenseRequest,
  LicenseRestricted,
  LicenseServerFaulty,
  LicenseServerUnreachable,
  LicenseSession,
  LicenseStatus,
  LicenseView,
} from "#schema/license.ts"
import type { DependencyUnavailable, InvalidCursor, NotSupported } from "#schema/problem.ts"
import { Context, Effect, type Redacted } from "effect"

/** What administration may do. Without a licence layer (tests, tools) everything is allowed. */
export const LicenseGate = Context.Reference<{
  /** Fails while the licence restricts administration. `what` is named in the reason: `cameras`. */
  readonly mayAdd: (what: string) => Effect.Effect<void, LicenseRestricted>
  /** Fails where `inUse` channels and `adding` more are beyond the licence, or it restricts administration. */
  readonly mayAddChannels: (inUse: number, adding: number) => Effect.Effect<void, LicenseRestricted>
  /** Fails where as many people are signed in as the licence covers; counts only where it says a number. */
  readonly maySignIn: <E>(inUse: Effect.Effect<number, E>) => Effect.Effect<void, LicenseRestricted | E>
}>("nightjar/actors/LicenseGate", {
  defaultValue: () => ({
    mayAdd: () => Effect.void,
    mayAddChannels: () => Effect.void,
    maySignIn: () => Effect.void,
  }),
})

/** What tells this machine from others; the host's adapter reads it. The values never leave the process unhashed. */
export class HardwareFacts extends Context.Service<HardwareFacts, {
  readonly read: Effect.Effect<
    ReadonlyArray<{
      readonly name: Exclude<HardwareSource, "node">
      /** Empty where it is not available; `detail` says why. */
      readonly values: ReadonlyArray<string>
      readonly detail: string
    }>
  >
}>()("nightjar/actors/HardwareFacts") {}

type Answer<A, E = never> = Effect.Effect<A, E | DependencyUnavailable>
type ServerErrors = NotSupported | LicenseRefused | LicenseServerUnreachable | LicenseServerFaulty

/** The licence of the cluster. */
export class License extends Context.Service<License, {
  readonly view: () => Answer<LicenseView>
  readonly status: () => Answer<LicenseStatus>
  readonly hardware: () => Answer<HardwareView>
  readonly request: () => Answer<LicenseRequest>
  readonly activate: (activation: LicenseActivation) => Answer<LicenseView, LicenseRejected | ServerErrors>
  /** Gives it back; the receipt proves it to the vendor. */
  readonly deactivate: () => Answer<LicenseRelease, LicenseAbsent | ControlElsewhere>
  readonly registerKey: (
    key: Redacted.Redacted,
  ) => Answer<LicenseView, LicenseKeyPresent | LicenseRejected | ServerErrors>
  readonly releaseKey: () => Answer<LicenseRelease, LicenseAbsent | ControlElsewhere | ServerErrors>
  /** Offline. */
  readonly verifyNow: () => Answer<LicenseStatus, LicenseAbsent>
  readonly cloudVerify: () => Answer<LicenseStatus, LicenseAbsent | LicenseRejected | ServerErrors>
  readonly sessions: (
    page: PageRequest,
  ) => Answer<PageOf<LicenseSession> & { readonly inUse: number; readonly limit: number | null }, InvalidCursor>
}>()("nightjar/actors/License") {}
