/**
 * Failover: what people and other nodes may ask.
 *
 * Invariants
 * 1. What changes a protection goes through the fiber that drives it; what is answered is its state after that.
 * 2. Passwords of cameras leave this node only for a guardian that its administrator granted.
 */
import type { NodeId, PageOf, PageRequest } from "#schema/common.ts"
import type { ControlRequest, LeaseAnswer, LeaseRelease } from "#schema/federation-control.ts"
import type {
  BundleAnswer,
  ConfigurationLost,
  ControlElsewhere,
  ControlView,
  EffectiveFailoverSettings,
  EpochRefused,
  FailoverSettingsUpdate,
  FailoverStatus,
  GuardedByCluster,
  Guardian,
  GuardianNotGranted,
  ProtectionCreate,
  ProtectionExists,
  ProtectionId,
  ProtectionNotFound,
  ProtectionStateWrong,
  ProtectionView,
  Reroute,
  ReturnRequest,
} from "#schema/federation-failover.ts"
import type { JournalEntry } from "#schema/federation-journal.ts"
import type { RerouteStatus } from "#schema/federation-protection.ts"
import type { Heartbeat, NodeNotFound } from "#schema/federation.ts"
import type { DependencyUnavailable, InvalidCursor, InvalidInput, VersionConflict } from "#schema/problem.ts"
import { Context, type Effect } from "effect"

type Answer<A, E = never> = Effect.Effect<A, E | DependencyUnavailable>
type OfProtection<A, E = never> = Answer<A, E | ProtectionNotFound>

export class Failovers extends Context.Service<Failovers, {
  readonly settings: () => Answer<EffectiveFailoverSettings>
  readonly updateSettings: (
    update: FailoverSettingsUpdate,
    ifMatch: number | null,
  ) => Answer<EffectiveFailoverSettings, VersionConflict | InvalidInput>
  readonly status: () => Answer<FailoverStatus>

  readonly protections: () => Answer<ReadonlyArray<ProtectionView>>
  readonly protection: (id: ProtectionId) => OfProtection<ProtectionView>
  readonly protect: (
    input: ProtectionCreate,
  ) => Answer<ProtectionView, NodeNotFound | ProtectionExists | InvalidInput | ProtectionStateWrong>
  readonly release: (id: ProtectionId) => OfProtection<void>
  /** `homeIsOff`: an administrator states it, and control moves without the home node's word. */
  readonly takeover: (
    id: ProtectionId,
    how: { readonly homeIsOff: boolean; readonly drill: boolean },
  ) => OfProtection<ProtectionView, ProtectionStateWrong>
  /** `withoutChanges`: what was changed here of the home node's cameras follows when it can. */
  readonly failback: (
    id: ProtectionId,
    how: { readonly withoutChanges: boolean },
  ) => OfProtection<ProtectionView, ProtectionStateWrong>
  /** What was changed here and never came home will not; answers what that was. Not while the cameras are served here. */
  readonly discardChanges: (id: ProtectionId) => OfProtection<
    { readonly protection: ProtectionView; readonly discarded: ReadonlyArray<JournalEntry> },
    ProtectionStateWrong
  >
  /** Fetches the configuration of the home node now. */
  readonly snapshot: (id: ProtectionId) => OfProtection<ProtectionView, ProtectionStateWrong>
  /** Newest first. */
  readonly reroutes: (page: PageRequest) => Answer<PageOf<Reroute>, InvalidCursor>

  /** Who guards this node, or asked to. */
  readonly guardians: () => Answer<ReadonlyArray<Guardian>>
  readonly grant: (nodeId: NodeId, granted: boolean) => Answer<Guardian, NodeNotFound | GuardedByCluster>

  /** Of this node, as it is told to another. */
  readonly heartbeat: (asker: NodeId) => Answer<Heartbeat>
  readonly bundle: (asker: NodeId) => Answer<BundleAnswer, GuardianNotGranted | NodeNotFound>
  /** Who serves a home node, as this node knows. */
  readonly rerouteStatus: (asker: NodeId, homeNodeId: NodeId) => Answer<RerouteStatus>
  /** A guardian gives this node its cameras back; answers when they are recorded here. */
  readonly comeBack: (
    asker: NodeId,
    request: typeof ReturnRequest.Type,
  ) => Answer<number, GuardianNotGranted | EpochRefused | ConfigurationLost>

  /** An administrator states that the guardian is off; answers who controls what then, as `status` does. */
  readonly takeBackControl: () => Answer<ReadonlyArray<ControlView>, ControlElsewhere>
  /** A node asks for this one's vote about itself or one that it guards. */
  readonly voteOnControl: (asker: NodeId, request: ControlRequest) => Answer<LeaseAnswer, GuardianNotGranted>
  readonly releaseControl: (asker: NodeId, release: LeaseRelease) => Answer<void, GuardianNotGranted>
}>()("nightjar/actors/Failovers") {}
