/**
 * The fence in front of every write on behalf of an owner.
 *
 * Invariants
 * 1. The row of the slot stays share-locked until the transaction ends, so a takeover waits for a write that has begun, and a
 *    write that comes after the takeover sees the new epoch.
 * 2. Only the epoch in force passes: an older one is a former owner, a newer one was granted by nobody.
 * 3. What is changed of a home node that has a database of its own is in its journal by the same transaction ({@link journaled}).
 */
import { Acting } from "#schema/acting.ts"
import type { EpochMs } from "#schema/common.ts"
import { differences, type Fields, maxJournal, type Thing, thingKey } from "#schema/federation-journal.ts"
import { type Slot, StaleEpoch } from "#schema/ownership.ts"
import { DependencyUnavailable } from "#schema/problem.ts"
import { uuid7 } from "#schema/uuid.ts"
import { Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"

/** Runs `write` in a transaction that holds `epoch` of `slot` in force. */
export const fenced = <A, E, R>(
  owner: { readonly slot: Slot; readonly epoch: number },
  write: Effect.Effect<A, E, R>,
): Effect.Effect<A, E | StaleEpoch | SqlError.SqlError, R | SqlClient.SqlClient> =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    return yield* sql.withTransaction(Effect.gen(function*() {
      const rows = yield* sql<{ readonly epoch: string | number | bigint }>`
          SELECT epoch FROM group_owner WHERE slot = ${owner.slot} FOR SHARE`
      const inForce = Number(rows[0]?.epoch ?? 0)
      if (inForce !== owner.epoch) return yield* new StaleEpoch({ ...owner, inForce })
      return yield* write
    }))
  })

const full = () =>
  new DependencyUnavailable({
    dependency: "node",
    message: `${maxJournal} changes of these cameras wait for the node they belong to; it takes them when it is back.`,
  })

/** Without the password, whose seal has a column of its own. */
const plain = (fields: Fields | null) =>
  fields !== null && "password" in fields ? { ...fields, password: fields["password"] !== null } : fields
const seal = (fields: Fields | null) => typeof fields?.["password"] === "string" ? fields["password"] : null

/**
 * Within {@link fenced}: notes what `write` changes of the things of a slot, where its home node has a database of its own.
 *
 * @param look Finds, before the write, how to read the things that it may change; a `password` is as it is sealed.
 */
export const journaled = <A, E, R>(
  writer: { readonly slot: Slot; readonly epoch: number; readonly nowMs: EpochMs },
  look: Effect.Effect<Effect.Effect<ReadonlyArray<Thing>, SqlError.SqlError>, SqlError.SqlError>,
  write: Effect.Effect<A, E, R>,
): Effect.Effect<A, E | DependencyUnavailable | SqlError.SqlError, R | SqlClient.SqlClient> =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const [home] = yield* sql<{ readonly id: string; readonly waiting: number }>`
      SELECT node_id AS id, (SELECT count(*)::integer FROM federation_journal WHERE home_node_id = node.node_id) AS waiting
      FROM node WHERE slot = ${writer.slot} AND adopted`
    if (home === undefined) return yield* write
    if (home.waiting >= maxJournal) return yield* full()
    const things = yield* look
    const before = yield* things
    const answer = yield* write
    const by = yield* Acting
    for (const one of differences(before, yield* things)) {
      const json = (fields: Fields | null) =>
        sql`${fields === null ? null : JSON.stringify(plain(fields))}::text::jsonb`
      yield* sql`
        INSERT INTO federation_journal (id, home_node_id, epoch, at, made_by, kind, thing_id, camera_id, channel_id, before, after,
          sealed_before, sealed_after)
        VALUES (${`${thingKey(one)}/${yield* uuid7}`}, ${home.id}, ${writer.epoch}, ${new Date(writer.nowMs)}, ${by},
          ${one.kind}, ${one.id}, ${one.cameraId}, ${one.channelId}, ${json(one.before)}, ${json(one.after)},
          ${seal(one.before)}, ${seal(one.after)})`
    }
    return answer
  })
