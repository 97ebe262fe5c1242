/**
 * The door to finding cameras on the networks of this node.
 *
 * Invariants
 * 1. Nothing that answers is trusted: a camera is where its answer came from, whatever address it names.
 * 2. The answer comes within the time asked for, and is bounded in number, whoever floods the network.
 */
import type { FoundDevice } from "#schema/camera-device.ts"
import { Context, type Effect } from "effect"

export class DeviceDiscovery extends Context.Service<DeviceDiscovery, {
  /** Asks all networks of this node and listens for `waitMs`. */
  readonly probe: (waitMs: number) => Effect.Effect<ReadonlyArray<FoundDevice>>
}>()("nightjar/media/DeviceDiscovery") {}
