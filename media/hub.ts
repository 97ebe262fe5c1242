/**
 * The door to what a camera sends right now: one connection to the camera, any number of consumers. Its room:
 * `media/capture/hub.ts`.
 *
 * Invariants
 * 1. What consumers get they may keep: one copy of each unit, which all of them share.
 * 2. A consumer has a bound. One that does not keep up loses whole groups of pictures: after a loss it goes on with a key
 *    picture, and never sees half a group without its beginning.
 * 3. A consumer never slows down the camera, the recording or another consumer.
 */
import type { StreamId } from "#schema/common.ts"
import type { AccessUnit, TrackParameters } from "#schema/media.ts"
import { Context, type Effect, type Scope } from "effect"

/** What a consumer gets, in stream order. */
export type LiveItem =
  /** Before the first unit, and before the first unit that needs others. */
  | { readonly _tag: "Parameters"; readonly parameters: TrackParameters }
  | { readonly _tag: "Unit"; readonly unit: AccessUnit }
  /** What follows does not continue what was there: a new connection to the camera, or units this consumer was too slow for. */
  | { readonly _tag: "Break" }

export interface LiveBounds {
  /** Bytes that may wait for the consumer. */
  readonly maxBytes: number
  /** Items that may wait for the consumer. */
  readonly maxItems: number
}

/** One consumer's end. */
export interface LiveView {
  /** Everything that waits, at least one item; suspends until there is something. */
  readonly take: Effect.Effect<ReadonlyArray<LiveItem>>
  /** Units this consumer was too slow for. */
  readonly dropped: () => number
}

export class LiveStreams extends Context.Service<LiveStreams, {
  /**
   * Begins with the parameters and the current group of pictures, where they are known. While it is held the camera stays
   * connected even if nothing is recorded. `null`: this node does not serve the stream.
   */
  readonly watch: (streamId: StreamId, bounds: LiveBounds) => Effect.Effect<LiveView | null, never, Scope.Scope>
  /** What the stream was when it was last connected to; asking does not connect. `null`: not served, or never connected. */
  readonly parameters: (streamId: StreamId) => TrackParameters | null
}>()("nightjar/media/LiveStreams") {}
