/**
 * Identifiers of entities that live on the owner of a home node's slot: `<slot>/<uuid>`, the shard group being the slot.
 */

/** `n07/0190…` → `n07`. */
export const slotOf = (entityId: string): string => entityId.slice(0, entityId.indexOf("/"))

export const entityId = (slot: string, id: string): string => `${slot}/${id}`
