/**
 * Who serves which slot, with which epoch: claimed at start, read again and again, moved by compare-and-set.
 *
 * Invariants
 * 1. A node has one home slot for life, the lowest that was free when it first came. A cluster has 64.
 * 2. The epoch of a slot grows by exactly one with every move, and only a mover who named the epoch in force succeeds. It never
 *    gets smaller, not even with an older database (`raise`).
 * 3. A start changes no ownership: a node whose slot is served by another finds it so, and waits to be given it back.
 * 4. What this node serves is what was last read successfully: an outage of the database takes nothing from it.
 * 5. A node with a database of its own may have a slot here too (`adopt`): it has no runner, so nobody serves that slot until it is moved
 *    to a node of this cluster, and nobody again once it was given back.
 */
import { NodeId } from "#schema/common.ts"
import { entityId, isSlot, type Slot, slots, StaleEpoch } from "#schema/ownership.ts"
import { Clock, Context, Effect, Layer, Schema, type Stream, SubscriptionRef } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { NodeIdentity } from "./identity.ts"

/** One slot that was claimed. */
export interface Owner {
  readonly slot: Slot
  /** The node that serves it now. */
  readonly nodeId: NodeId
  /** The node whose home it is. */
  readonly homeNodeId: NodeId
  /** `host:port` of the serving node's runner. */
  readonly address: string
  readonly epoch: number
  /** Its home is no member here: it has a database of its own. */
  readonly adopted: boolean
}

/** A node with a database of its own, whose cameras may be served here. */
export interface AdoptedNode {
  readonly nodeId: NodeId
  readonly name: string
  /** Public keys as `NodeIdentity` has them. */
  readonly signingKey: string
  readonly transferKey: string
}

/** All 64 slots are the homes of other nodes. */
export class NoFreeSlot extends Schema.TaggedError<NoFreeSlot>()("NoFreeSlot", {}) {
  override get message(): string {
    return "This cluster has 64 nodes already; remove one before another joins"
  }
}

export class Ownership extends Context.Service<Ownership, {
  readonly nodeId: NodeId
  /** This node's home; new cameras and sessions go here. */
  readonly slot: Slot
  /** Reads the owners now, and tells `changes` if they differ. */
  readonly refresh: Effect.Effect<ReadonlyArray<Owner>, SqlError.SqlError>
  /** As last read, ordered by slot. */
  readonly owners: Effect.Effect<ReadonlyArray<Owner>>
  /** The owners at once, then each change of them; a slow reader sees the newest and may miss some between. */
  readonly changes: Stream.Stream<ReadonlyArray<Owner>>
  /** On this node's monotonic clock: when the read that `owners` tells of began, in milliseconds. */
  readonly asOf: Effect.Effect<number>
  /** The epoch with which this node serves `slot`, `null` where it does not. */
  readonly epochOf: (slot: Slot) => Effect.Effect<number | null>
  /**
   * Gives `slot` to `nodeId` (a takeover by this node, or a failback to its home) if `epoch` is in force.
   * @returns The new owner, its epoch larger by one.
   */
  readonly move: (slot: Slot, nodeId: NodeId, epoch: number) => Effect.Effect<Owner, StaleEpoch | SqlError.SqlError>
  /**
   * The epoch of a slot that this node serves grows to at least `epoch`: its captures got that one from a database that was lost
   * or is newer than the one that is there.
   */
  readonly raise: (slot: Slot, epoch: number) => Effect.Effect<void, SqlError.SqlError>
  /**
   * A slot for the cameras of a node that has a database of its own, owned by that node. Its epoch grows to at least `epoch` while nobody
   * else serves it.
   */
  readonly adopt: (home: AdoptedNode, epoch: number) => Effect.Effect<Owner, NoFreeSlot | SqlError.SqlError>
  /** Gives up the slot of such a node, unless somebody else serves it; whatever lived there was removed before. */
  readonly disown: (nodeId: NodeId) => Effect.Effect<void, SqlError.SqlError>
  /** The id of an entity that is at home on this node. */
  readonly entityId: (id: string) => string
}>()("nightjar/cluster/Ownership") {}

export interface OwnershipOptions {
  /** Name of the node for people. */
  readonly name: string
  /** Where other nodes reach this one's runner, `host:port`. */
  readonly address: string
}

interface Row {
  readonly slot: string
  readonly nodeId: string
  readonly homeNodeId: string
  readonly address: string
  readonly epoch: string | number | bigint
  readonly adopted: boolean
}

const same = (a: ReadonlyArray<Owner>, b: ReadonlyArray<Owner>): boolean =>
  a.length === b.length &&
  a.every((owner, n) => {
    const other = b[n]!
    return owner.slot === other.slot && owner.nodeId === other.nodeId && owner.epoch === other.epoch &&
      owner.address === other.address
  })

/** The lowest slot that is nobody's home. */
export const lowestFree = (taken: ReadonlySet<string>): Slot | null => slots.find((slot) => !taken.has(slot)) ?? null

/** Writes this node's row and claims its slot; nodes that start at once wait for each other. */
const claim = Effect.fnUntraced(function*(options: OwnershipOptions) {
  const sql = yield* SqlClient.SqlClient
  const { nodeId, signing, transfer } = yield* NodeIdentity
  const now = new Date(yield* Clock.currentTimeMillis)
  return yield* sql.withTransaction(Effect.gen(function*() {
    yield* sql`LOCK TABLE node IN SHARE ROW EXCLUSIVE MODE`
    const rows = yield* sql<{ readonly node_id: string; readonly slot: string }>`SELECT node_id, slot FROM node`
    const kept = rows.find((row) => row.node_id === nodeId)?.slot ?? null
    const slot = kept !== null && isSlot(kept) ? kept : lowestFree(new Set(rows.map((row) => row.slot)))
    if (slot === null) return yield* new NoFreeSlot()
    yield* sql`
      INSERT INTO node (node_id, slot, name, address, signing_key, transfer_key, created_at, started_at)
      VALUES (${nodeId}, ${slot}, ${options.name}, ${options.address}, ${signing.publicKey}, ${transfer.publicKey}, ${now}, ${now})
      ON CONFLICT (node_id) DO UPDATE SET name = excluded.name, address = excluded.address,
        signing_key = excluded.signing_key, transfer_key = excluded.transfer_key, started_at = excluded.started_at,
        adopted = false`
    yield* sql`
      INSERT INTO group_owner (slot, node_id, epoch, changed_at) VALUES (${slot}, ${nodeId}, 1, ${now})
      ON CONFLICT (slot) DO NOTHING`
    return slot
  }))
})

/** As {@link claim}, for a node that is no runner here. */
const adopting = (sql: SqlClient.SqlClient, home: AdoptedNode, epoch: number) =>
  Effect.gen(function*() {
    const now = new Date(yield* Clock.currentTimeMillis)
    yield* sql.withTransaction(Effect.gen(function*() {
      yield* sql`LOCK TABLE node IN SHARE ROW EXCLUSIVE MODE`
      const rows = yield* sql<{ readonly node_id: string; readonly slot: string }>`SELECT node_id, slot FROM node`
      const kept = rows.find((row) => row.node_id === home.nodeId)?.slot ?? null
      const slot = kept ?? lowestFree(new Set(rows.map((row) => row.slot)))
      if (slot === null) return yield* new NoFreeSlot()
      yield* sql`
        INSERT INTO node (node_id, slot, name, address, signing_key, transfer_key, created_at, started_at, adopted)
        VALUES (${home.nodeId}, ${slot}, ${home.name}, '', ${home.signingKey}, ${home.transferKey}, ${now}, ${now}, true)
        ON CONFLICT (node_id) DO UPDATE SET name = excluded.name WHERE node.adopted`
      yield* sql`
        INSERT INTO group_owner (slot, node_id, epoch, changed_at)
        VALUES (${slot}, ${home.nodeId}, ${Math.max(1, epoch)}, ${now})
        ON CONFLICT (slot) DO UPDATE SET epoch = greatest(group_owner.epoch, excluded.epoch)
        WHERE group_owner.node_id = excluded.node_id`
    }))
  })

const disowning = (sql: SqlClient.SqlClient, nodeId: NodeId) =>
  sql.withTransaction(Effect.gen(function*() {
    const rows = yield* sql<{ readonly slot: string }>`
      DELETE FROM group_owner USING node
      WHERE node.node_id = ${nodeId} AND node.adopted AND group_owner.slot = node.slot AND group_owner.node_id = node.node_id
      RETURNING group_owner.slot`
    if (rows.length > 0) yield* sql`DELETE FROM node WHERE node_id = ${nodeId} AND adopted`
  }))

const readOwners: Effect.Effect<ReadonlyArray<Owner>, SqlError.SqlError, SqlClient.SqlClient> = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) =>
    sql<Row>`
      SELECT o.slot, o.node_id AS "nodeId", h.node_id AS "homeNodeId", n.address, o.epoch, h.adopted
      FROM group_owner o JOIN node n ON n.node_id = o.node_id JOIN node h ON h.slot = o.slot
      ORDER BY o.slot`,
).pipe(Effect.map((rows) =>
  rows.flatMap((row): ReadonlyArray<Owner> =>
    isSlot(row.slot) ?
      [{
        slot: row.slot,
        nodeId: NodeId.make(row.nodeId),
        homeNodeId: NodeId.make(row.homeNodeId),
        address: row.address,
        epoch: Number(row.epoch),
        adopted: row.adopted,
      }] :
      []
  )
))

const make = Effect.fnUntraced(function*(options: OwnershipOptions) {
  const sql = yield* SqlClient.SqlClient
  const { nodeId } = yield* NodeIdentity
  const slot = yield* claim(options)
  const known = yield* SubscriptionRef.make(yield* readOwners.pipe(Effect.provideService(SqlClient.SqlClient, sql)))

  const monotonicMs = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos / 1_000_000n))
  let asOf = yield* monotonicMs
  const refresh = Effect.flatMap(
    monotonicMs,
    (begunMs) => Effect.tap(readOwners, Effect.sync(() => (asOf = Math.max(asOf, begunMs)))),
  ).pipe(
    Effect.provideService(SqlClient.SqlClient, sql),
    Effect.tap((owners) =>
      Effect.flatMap(SubscriptionRef.get(known), (before) =>
        same(before, owners) ? Effect.void : SubscriptionRef.set(known, owners))
    ),
  )

  return Ownership.of({
    nodeId,
    slot,
    refresh,
    owners: SubscriptionRef.get(known),
    changes: SubscriptionRef.changes(known),
    asOf: Effect.sync(() => asOf),
    epochOf: (slot) =>
      Effect.map(
        SubscriptionRef.get(known),
        (owners) => owners.find((owner) => owner.slot === slot && owner.nodeId === nodeId)?.epoch ?? null,
      ),
    move: (slot, to, epoch) =>
      Effect.gen(function*() {
        const now = new Date(yield* Clock.currentTimeMillis)
        const moved = yield* sql`
          UPDATE group_owner SET node_id = ${to}, epoch = epoch + 1, changed_at = ${now}
          WHERE slot = ${slot} AND epoch = ${epoch} RETURNING slot`
        const owner = (yield* refresh).find((owner) => owner.slot === slot)
        if (moved.length === 0 || owner === undefined) {
          return yield* new StaleEpoch({ slot, epoch, inForce: owner?.epoch ?? 0 })
        }
        return owner
      }),
    raise: (slot, epoch) =>
      Effect.gen(function*() {
        const now = new Date(yield* Clock.currentTimeMillis)
        yield* sql`
          UPDATE group_owner SET epoch = ${epoch}, changed_at = ${now}
          WHERE slot = ${slot} AND node_id = ${nodeId} AND epoch < ${epoch}`
        yield* refresh
      }),
    adopt: (home, epoch) =>
      Effect.gen(function*() {
        yield* adopting(sql, home, epoch)
        const owner = (yield* refresh).find((owner) => owner.homeNodeId === home.nodeId)
        return owner ?? (yield* Effect.die(new Error("a slot that was just given has no owner")))
      }),
    disown: (nodeId) => Effect.andThen(disowning(sql, nodeId), Effect.asVoid(refresh)),
    entityId: (id) => entityId(slot, id),
  })
})

/** Claims the slot while it is built; wants the schema to be up to date. */
export const layer = (
  options: OwnershipOptions,
): Layer.Layer<Ownership, SqlError.SqlError | NoFreeSlot, SqlClient.SqlClient | NodeIdentity> =>
  Layer.effect(Ownership, make(options))
