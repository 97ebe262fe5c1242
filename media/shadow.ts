/**
 * The door to rings: streams of other nodes' cameras, connected to and held in memory, so that a recording can begin in the past.
 * Their room: `media/capture/`.
 *
 * Invariants
 * 1. Nothing of a ring can be watched, asked for by its stream's id, or found on a disk. It is memory of this process alone.
 * 2. A ring holds whole groups of pictures, the newest {@link ringHoldMs} and up to one group more, where its bound
 *    ({@link maxRingBytes}) and the bound of all rings together allow; otherwise less, and never a part of a group.
 * 3. Once its stream is assigned (`RecorderSupervisor.assign`) the ring's connection goes on as that of the capture, and the recording
 *    begins with what the ring held. A unit goes into the ring or into the recording, never into both by two ways.
 * 4. A camera that goes away leaves the ring as it is; the recording then names the gap with its cause.
 */
import type { CameraId, EpochMs, StreamId } from "#schema/common.ts"
import { Context, type Effect } from "effect"
import type { Assignment, StreamHealth } from "./recorder.ts"

/** What a ring holds at least, milliseconds: nine times what passes from a failure until it is noticed, by default. */
export const ringHoldMs = 30_000
/** Bound of one ring, bytes: 30 s of 17 Mbit/s. */
export const maxRingBytes = 64 * 1024 * 1024

/** What is to be held: an assignment without a recording, whose epoch says nothing yet. */
export type ShadowStream = Assignment & { readonly recording: null }

export interface RingStatus {
  readonly streamId: StreamId
  readonly cameraId: CameraId
  readonly cameraName: string
  /** From the first picture held to the newest, milliseconds. */
  readonly heldMs: number
  /** Memory in use. */
  readonly bytes: number
  readonly health: StreamHealth
  /** One line for a person, empty while all is well. */
  readonly reason: string
}

export class ShadowRings extends Context.Service<ShadowRings, {
  /** All that is to be held under this key, whole; what is assigned on this node already is left alone. Idempotent. */
  readonly want: (key: string, streams: ReadonlyArray<ShadowStream>) => Effect.Effect<void>
  /** Bytes for all rings together. */
  readonly limit: (maxBytes: number) => Effect.Effect<void>
  /** Rings under this key whose streams are not assigned. */
  readonly status: (key: string) => ReadonlyArray<RingStatus>
  /** Since when each holds pictures; what it holds now it keeps for a minute, as far as its bounds allow. Empty rings are left out. */
  readonly keep: (key: string) => Effect.Effect<ReadonlyMap<StreamId, EpochMs>>
}>()("nightjar/media/ShadowRings") {}
