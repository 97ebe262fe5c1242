/**
 * Words of ownership: slots, the ids of entities that live in them, and what is answered when an owner is not there.
 *
 * Invariants
 * 1. There are always the same 64 slots, `n00` to `n63`: the numbers of shard locks come from their order, so two nodes that
 *    knew different lists would lock different things and fence nothing.
 * 2. An entity id is `<slot>/<uuid>`, so that the shard group of a message is a function of its id alone.
 */
import { Schema } from "effect"

/** The home of one node's entities: a shard group of the cluster. */
export const Slot = Schema.String.check(Schema.isPattern(/^n(?:[0-5]\d|6[0-3])$/)).pipe(Schema.brand("Slot"))
export type Slot = typeof Slot.Type

/** Every slot, in order. */
export const slots: ReadonlyArray<Slot> = Array.from(
  { length: 64 },
  (_, n) => Slot.make(`n${String(n).padStart(2, "0")}`),
)

const known: ReadonlySet<string> = new Set(slots)
export const isSlot = (text: string): text is Slot => known.has(text)

/** The id of an entity whose home is `slot`; `id` is the UUID of the thing (a camera, a recording, a session). */
export const entityId = (slot: Slot, id: string): string => `${slot}/${id}`

/** The parts of an entity id, `null` if it is none. */
export const parseEntityId = (text: string): { readonly slot: Slot; readonly id: string } | null => {
  const slash = text.indexOf("/")
  const slot = text.slice(0, Math.max(slash, 0))
  return isSlot(slot) && slash + 1 < text.length ? { slot, id: text.slice(slash + 1) } : null
}

/**
 * The shard group of an entity id: annotate every entity that has a home with
 * `.annotate(ClusterSchema.ShardGroup, shardGroupOf)`. What has no slot falls into the strictly fenced group `default`.
 */
export const shardGroupOf = (id: string): string => parseEntityId(id)?.slot ?? "default"

/** Somebody else serves this slot now: the write was refused and must not be tried again with the same epoch. */
export class StaleEpoch extends Schema.TaggedError<StaleEpoch>()("StaleEpoch", {
  slot: Schema.String,
  epoch: Schema.Int,
  /** The epoch in force; 0 where the slot has no owner. */
  inForce: Schema.Int,
}, { httpApiStatus: 409 }) {
  override get message(): string {
    return `Slot ${this.slot} is served with epoch ${this.inForce}; epoch ${this.epoch} is stale`
  }
}
