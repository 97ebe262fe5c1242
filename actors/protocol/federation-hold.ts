/**
 * Slots whose captures go on here although another node serves them: what a guardian gives back it records until the overlap is over. In
 * memory, written by failover alone.
 *
 * Invariants
 * 1. It keeps captures that are there and begins none.
 */
import type { Slot } from "#schema/ownership.ts"
import { Context, Effect, Layer, type Stream, SubscriptionRef } from "effect"

export class CaptureHolds extends Context.Service<CaptureHolds, {
  readonly hold: (slot: Slot) => Effect.Effect<void>
  readonly release: (slot: Slot) => Effect.Effect<void>
  readonly held: Effect.Effect<ReadonlySet<Slot>>
  /** At once, and after each change; a slow reader sees the newest. */
  readonly changes: Stream.Stream<ReadonlySet<Slot>>
}>()("nightjar/actors/CaptureHolds") {
  static readonly layer = Layer.effect(
    CaptureHolds,
    Effect.map(SubscriptionRef.make<ReadonlySet<Slot>>(new Set()), (slots) =>
      CaptureHolds.of({
        hold: (slot) => SubscriptionRef.update(slots, (held) => new Set([...held, slot])),
        release: (slot) => SubscriptionRef.update(slots, (held) => new Set([...held].filter((one) => one !== slot))),
        held: SubscriptionRef.get(slots),
        changes: SubscriptionRef.changes(slots),
      })),
  )
}
