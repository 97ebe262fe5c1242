/**
 * The cameras of a home node as a whole: told to whoever guards it, and served by the guardian in its stead. A service of its own, because
 * the federation slice decides when, and the camera slice knows how.
 *
 * Invariants
 * 1. Passwords are readable here alone, on their way from one node's vault to another's.
 * 2. Placing the same cameras again changes nothing.
 */
import type { CameraId, EpochMs } from "#schema/common.ts"
import type { BundledCamera } from "#schema/federation-bundle.ts"
import type { Thing } from "#schema/federation-journal.ts"
import type { Slot, StaleEpoch } from "#schema/ownership.ts"
import type { DependencyUnavailable } from "#schema/problem.ts"
import { Context, type Effect } from "effect"

export class CameraBundles extends Context.Service<CameraBundles, {
  /** Another text after every change of what {@link export} tells, passwords among it; tells nothing else. */
  readonly mark: (slot: Slot) => Effect.Effect<string, DependencyUnavailable>
  readonly ids: (slot: Slot) => Effect.Effect<ReadonlyArray<CameraId>, DependencyUnavailable>
  readonly export: (slot: Slot) => Effect.Effect<ReadonlyArray<BundledCamera>, DependencyUnavailable>
  /** Writes the cameras into a slot that this node serves; answers those that are there now. */
  readonly place: (
    slot: Slot,
    cameras: ReadonlyArray<BundledCamera>,
  ) => Effect.Effect<ReadonlySet<CameraId>, StaleEpoch | DependencyUnavailable>
  /** When each camera, channel and stream of the slot last changed, by id. */
  readonly changedMs: (slot: Slot) => Effect.Effect<ReadonlyMap<string, EpochMs>, DependencyUnavailable>
  /** Writes one camera, channel or stream of a slot that this node serves, as changed at `atMs`; others stay as they are. */
  readonly put: (slot: Slot, thing: Thing, atMs: EpochMs) => Effect.Effect<void, StaleEpoch | DependencyUnavailable>
  /** Deletes one channel or stream that nothing is recorded of. */
  readonly delete: (slot: Slot, thing: Thing) => Effect.Effect<void, StaleEpoch | DependencyUnavailable>
  /** Begins the captures of these cameras at once, without waiting for their entities. */
  readonly start: (slot: Slot, cameras: ReadonlyArray<CameraId>) => Effect.Effect<void, DependencyUnavailable>
  /** Forgets the cameras of a slot; their recordings went before. */
  readonly remove: (slot: Slot) => Effect.Effect<void, DependencyUnavailable>
}>()("nightjar/actors/CameraBundles") {}
