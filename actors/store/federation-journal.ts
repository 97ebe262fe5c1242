/**
 * The journal of changes that were made for other nodes (`fence.ts` writes it), and what became of other nodes' changes here.
 *
 * Invariants
 * 1. An entry stays until the home node has said that it has it.
 * 2. An entry is merged once: that it was is on record by the transaction of what follows from it.
 * 3. Passwords are sealed, in columns of their own; in the place of their value stands whether there is one.
 */
import type { CameraId, ChannelId, EpochMs, NodeId } from "#schema/common.ts"
import type { ConflictId, ConflictSide, Fields, ThingKind } from "#schema/federation-journal.ts"
import type { DependencyUnavailable } from "#schema/problem.ts"
import { Context, Effect, Layer, type Schema } from "effect"
import { SqlClient } from "effect/sql"
import { answered } from "./answer.ts"

/** That an entry was merged is remembered for so long: its guardian hears of it with the next answer. */
const rememberedMs = 90 * 86_400_000

export interface JournalRow {
  readonly entryId: string
  readonly atMs: EpochMs
  readonly by: string
  readonly epoch: number
  readonly kind: ThingKind
  readonly id: string
  readonly cameraId: CameraId
  readonly channelId: ChannelId | null
  readonly before: Fields | null
  readonly after: Fields | null
  readonly sealedBefore: string | null
  readonly sealedAfter: string | null
}

export interface ConflictRow {
  readonly conflictId: ConflictId
  readonly guardianNodeId: NodeId
  readonly kind: ThingKind
  readonly id: string
  readonly cameraId: CameraId
  readonly channelId: ChannelId | null
  readonly field: string
  readonly base: Schema.Json
  readonly here: Schema.Json
  readonly there: Schema.Json
  readonly sealedBase: string | null
  readonly sealedHere: string | null
  readonly sealedThere: string | null
  readonly thereBy: string
  readonly thereMs: EpochMs
  readonly hereMs: EpochMs | null
  readonly inForce: ConflictSide
}

type Kept<A> = Effect.Effect<A, DependencyUnavailable>

export class FailoverJournalStore extends Context.Service<FailoverJournalStore, {
  /** Oldest first. */
  readonly entries: (homeNodeId: NodeId, limit: number) => Kept<ReadonlyArray<JournalRow>>
  readonly acknowledge: (homeNodeId: NodeId, entryIds: ReadonlyArray<string>) => Kept<void>
  /** Entries that wait, of each home node that has some. */
  readonly waiting: () => Kept<ReadonlyMap<NodeId, number>>
  readonly forget: (homeNodeId: NodeId) => Kept<void>

  /**
   * Those of `entryIds` that were not merged here yet are, if `work` succeeds; what `work` writes stands or falls with it.
   */
  readonly once: <A, E, R>(
    by: { readonly nodeId: NodeId; readonly guardianNodeId: NodeId; readonly nowMs: EpochMs },
    entryIds: ReadonlyArray<string>,
    work: (fresh: ReadonlySet<string>) => Effect.Effect<A, E, R>,
  ) => Effect.Effect<A, E | DependencyUnavailable, R>
  /** What `work` writes stands or falls with it. */
  readonly together: <A, E, R>(work: Effect.Effect<A, E, R>) => Effect.Effect<A, E | DependencyUnavailable, R>
  /** By id; begins behind `after`. */
  readonly conflicts: (nodeId: NodeId, limit: number, after: ConflictId | null) => Kept<ReadonlyArray<ConflictRow>>
  readonly conflict: (nodeId: NodeId, id: ConflictId) => Kept<ConflictRow | null>
  readonly countConflicts: (nodeId: NodeId) => Kept<number>
  /** Adds it, or writes it over the one about the same field, whose id stays. */
  readonly putConflict: (nodeId: NodeId, row: ConflictRow) => Kept<void>
  readonly removeConflict: (nodeId: NodeId, id: ConflictId) => Kept<void>
}>()("nightjar/actors/FailoverJournalStore") {
  static readonly layer = Layer.effect(
    FailoverJournalStore,
    Effect.map(SqlClient.SqlClient, (sql) =>
      FailoverJournalStore.of({ ...keeping(sql), ...merging(sql), ...deciding(sql) })),
  )
}

const keeping = (sql: SqlClient.SqlClient) => ({
  entries: (homeNodeId: NodeId, limit: number) =>
    answered(Effect.map(
      sql<Omit<JournalRow, "atMs" | "epoch"> & { readonly at: Date; readonly epoch: bigint }>`
        SELECT id AS "entryId", at, made_by AS by, epoch, kind, thing_id AS id, camera_id AS "cameraId", channel_id AS "channelId",
          before, after, sealed_before AS "sealedBefore", sealed_after AS "sealedAfter"
        FROM federation_journal WHERE home_node_id = ${homeNodeId} ORDER BY seq LIMIT ${limit}`,
      (rows) => rows.map(({ at, epoch, ...row }): JournalRow => ({ ...row, atMs: at.getTime(), epoch: Number(epoch) })),
    )),
  acknowledge: (homeNodeId: NodeId, entryIds: ReadonlyArray<string>) =>
    entryIds.length === 0 ? Effect.void : answered(Effect.asVoid(sql`
      DELETE FROM federation_journal WHERE home_node_id = ${homeNodeId} AND id = ANY (${[...entryIds]}::text[])`)),
  waiting: () =>
    answered(Effect.map(
      sql<{ readonly id: NodeId; readonly count: number }>`
        SELECT home_node_id AS id, count(*)::integer AS count FROM federation_journal GROUP BY home_node_id`,
      (rows): ReadonlyMap<NodeId, number> => new Map(rows.map(({ count, id }) => [id, count])),
    )),
  forget: (homeNodeId: NodeId) =>
    answered(Effect.asVoid(sql`DELETE FROM federation_journal WHERE home_node_id = ${homeNodeId}`)),
})

const merging = (sql: SqlClient.SqlClient) => {
  const together = <A, E, R>(work: Effect.Effect<A, E, R>) => answered(sql.withTransaction(work))
  return {
    together: together as FailoverJournalStore["Service"]["together"],
    once: (<A, E, R>(
      { guardianNodeId, nodeId, nowMs }: {
        readonly nodeId: NodeId
        readonly guardianNodeId: NodeId
        readonly nowMs: EpochMs
      },
      entryIds: ReadonlyArray<string>,
      work: (fresh: ReadonlySet<string>) => Effect.Effect<A, E, R>,
    ) =>
      together(Effect.gen(function*() {
        const rows = yield* sql<{ readonly id: string }>`
          INSERT INTO federation_journal_merged (node_id, id, guardian_node_id, merged_at)
          SELECT ${nodeId}::text::uuid, told.id, ${guardianNodeId}::text::uuid, ${new Date(nowMs)}::timestamptz
          FROM unnest(${[...entryIds]}::text[]) AS told (id)
          ON CONFLICT DO NOTHING RETURNING id`
        yield* sql`
          DELETE FROM federation_journal_merged
          WHERE node_id = ${nodeId} AND merged_at < ${new Date(nowMs - rememberedMs)}`
        return yield* work(new Set(rows.map(({ id }) => id)))
      }))) as FailoverJournalStore["Service"]["once"],
  }
}

interface StoredConflict extends Omit<ConflictRow, "thereMs" | "hereMs"> {
  readonly thereAt: Date
  readonly hereAt: Date | null
}

const conflictOf = ({ hereAt, thereAt, ...row }: StoredConflict): ConflictRow => ({
  ...row,
  thereMs: thereAt.getTime(),
  hereMs: hereAt?.getTime() ?? null,
})

const deciding = (sql: SqlClient.SqlClient) => {
  const json = (value: Schema.Json) => sql`${JSON.stringify(value)}::text::jsonb`
  const columns =
    sql`id AS "conflictId", guardian_node_id AS "guardianNodeId", kind, thing_id AS id, camera_id AS "cameraId",
      channel_id AS "channelId", field, base, here, there, sealed_base AS "sealedBase", sealed_here AS "sealedHere",
      sealed_there AS "sealedThere", there_by AS "thereBy", there_at AS "thereAt", here_at AS "hereAt", in_force AS "inForce"`
  return {
    conflicts: (nodeId: NodeId, limit: number, after: ConflictId | null) =>
      answered(Effect.map(
        sql<StoredConflict>`
          SELECT ${columns} FROM federation_conflict
          WHERE node_id = ${nodeId} AND ${after === null ? sql`TRUE` : sql`id > ${after}`} ORDER BY id LIMIT ${limit}`,
        (rows) => rows.map(conflictOf),
      )),
    conflict: (nodeId: NodeId, id: ConflictId) =>
      answered(Effect.map(
        sql<StoredConflict>`
          SELECT ${columns} FROM federation_conflict WHERE node_id = ${nodeId} AND id = ${id} FOR UPDATE`,
        ([row]) => row === undefined ? null : conflictOf(row),
      )),
    countConflicts: (nodeId: NodeId) =>
      answered(Effect.map(
        sql<{ readonly count: number }>`
          SELECT count(*)::integer AS count FROM federation_conflict WHERE node_id = ${nodeId}`,
        ([row]) => row?.count ?? 0,
      )),
    putConflict: (nodeId: NodeId, row: ConflictRow) =>
      answered(Effect.asVoid(sql`
        INSERT INTO federation_conflict (id, node_id, guardian_node_id, kind, thing_id, camera_id, channel_id, field, base, here,
          there, sealed_base, sealed_here, sealed_there, there_by, there_at, here_at, in_force)
        VALUES (${row.conflictId}, ${nodeId}, ${row.guardianNodeId}, ${row.kind}, ${row.id}, ${row.cameraId}, ${row.channelId},
          ${row.field}, ${json(row.base)}, ${json(row.here)}, ${json(row.there)}, ${row.sealedBase}, ${row.sealedHere},
          ${row.sealedThere}, ${row.thereBy}, ${new Date(row.thereMs)},
          ${row.hereMs === null ? null : new Date(row.hereMs)}, ${row.inForce})
        ON CONFLICT (id) DO UPDATE SET guardian_node_id = excluded.guardian_node_id, base = excluded.base, here = excluded.here,
          there = excluded.there, sealed_base = excluded.sealed_base, sealed_here = excluded.sealed_here,
          sealed_there = excluded.sealed_there, there_by = excluded.there_by, there_at = excluded.there_at,
          here_at = excluded.here_at, in_force = excluded.in_force`)),
    removeConflict: (nodeId: NodeId, id: ConflictId) =>
      answered(Effect.asVoid(sql`DELETE FROM federation_conflict WHERE node_id = ${nodeId} AND id = ${id}`)),
  }
}
