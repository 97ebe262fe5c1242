/**
 * The store of failover: settings, protections with the state of their machine, reroutes, who guards this node.
 *
 * Invariants
 * 1. Everything belongs to one node (`node_id`): nodes that share a database do not see each other's, but for who is protected at all.
 * 2. The state of a machine is written whole and only by the fiber that drives it.
 */
import type { ChannelId, EpochMs, NodeId } from "#schema/common.ts"
import type { ProtectionSources, RerouteId, RerouteState, SessionTrial } from "#schema/federation-failover.ts"
import { type FailoverSettingsUpdate, ProtectionExists, type ProtectionId } from "#schema/federation-failover.ts"
import type { CapacityNeed, ProtectionClass } from "#schema/federation.ts"
import type { Slot } from "#schema/ownership.ts"
import { type DependencyUnavailable, VersionConflict } from "#schema/problem.ts"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { answered, violates } from "./answer.ts"

export interface KeptSnapshot {
  readonly digest: string
  readonly madeMs: EpochMs
  readonly fetchedMs: EpochMs
  readonly cameras: number
  readonly recordings: number
  readonly sizeBytes: number
}

export interface KeptDrill {
  readonly atMs: EpochMs
  readonly gapMs: number | null
  readonly channels: number
}

export interface ProtectionRow {
  readonly id: ProtectionId
  readonly homeNodeId: NodeId
  readonly name: string
  readonly class: ProtectionClass
  readonly automatic: boolean
  readonly rank: number
  readonly sources: ProtectionSources
  readonly slot: Slot | null
  /** As `protection-state.ts` encodes it. */
  readonly state: unknown
  readonly need: CapacityNeed
  readonly snapshot: KeptSnapshot | null
  readonly sessions: ReadonlyArray<SessionTrial>
  readonly drill: KeptDrill | null
  readonly createdMs: EpochMs
  /** When the home node was last heard, a few seconds old at most; null: never. */
  readonly heardMs: EpochMs | null
  readonly version: number
}

/** What people or the settings decide of a protection. */
export type ProtectionTerms = Pick<ProtectionRow, "class" | "automatic" | "rank" | "sources">

/** What waits for its first picture, and how long it waited. */
export interface KeptGap {
  readonly channelId: ChannelId
  readonly gapMs: number | null
}

export interface RerouteRow {
  readonly id: RerouteId
  readonly protectionId: ProtectionId
  readonly homeNodeId: NodeId
  readonly servingNodeId: NodeId
  readonly slot: Slot
  readonly epoch: number
  readonly state: RerouteState
  readonly drill: boolean
  readonly sinceMs: EpochMs
  readonly endedMs: EpochMs | null
  readonly lostMs: EpochMs
  readonly gaps: ReadonlyArray<KeptGap>
}

export interface GuardianRow {
  readonly nodeId: NodeId
  readonly askedMs: EpochMs
  readonly bundleMs: EpochMs | null
  readonly bundleDigest: string | null
  readonly cameraNames: ReadonlyArray<string>
}

type Kept<A> = Effect.Effect<A, DependencyUnavailable>

export class FailoverStore extends Context.Service<FailoverStore, {
  readonly settings: (nodeId: NodeId) => Kept<{ readonly settings: FailoverSettingsUpdate; readonly version: number }>
  /** What members of this cluster set; none where nothing was. */
  readonly settingsOfAll: Kept<ReadonlyMap<NodeId, FailoverSettingsUpdate>>
  readonly setSettings: (
    nodeId: NodeId,
    settings: FailoverSettingsUpdate,
    ifMatch: number | null,
  ) => Effect.Effect<void, VersionConflict | DependencyUnavailable>
  readonly protections: (nodeId: NodeId) => Kept<ReadonlyArray<ProtectionRow>>
  readonly addProtection: (
    nodeId: NodeId,
    row: Omit<ProtectionRow, "version" | "heardMs">,
  ) => Effect.Effect<void, ProtectionExists | DependencyUnavailable>
  readonly revise: (id: ProtectionId, terms: ProtectionTerms) => Kept<void>
  /** Who guards whom by a person's choice, over all nodes of this database. */
  readonly chosenGuardians: Kept<ReadonlyArray<{ readonly nodeId: NodeId; readonly homeNodeId: NodeId }>>
  /** Of these nodes, those that some node of this database protects. */
  readonly protectedOf: (nodeIds: ReadonlyArray<NodeId>) => Kept<ReadonlySet<NodeId>>
  readonly setState: (id: ProtectionId, state: unknown) => Kept<void>
  readonly setSlot: (id: ProtectionId, slot: Slot) => Kept<void>
  readonly setHeard: (id: ProtectionId, heardMs: EpochMs) => Kept<void>
  readonly setSnapshot: (id: ProtectionId, snapshot: KeptSnapshot | null, need: CapacityNeed) => Kept<void>
  readonly setSessions: (id: ProtectionId, sessions: ReadonlyArray<SessionTrial>) => Kept<void>
  readonly setDrill: (id: ProtectionId, drill: KeptDrill) => Kept<void>
  readonly removeProtection: (id: ProtectionId) => Kept<void>
  /** By time, newest first; begins behind `after`. */
  readonly reroutes: (limit: number, after: RerouteId | null) => Kept<ReadonlyArray<RerouteRow>>
  readonly reroute: (id: RerouteId) => Kept<RerouteRow | null>
  /** Adds it, or answers the one that is there of the same takeover. */
  readonly openReroute: (row: RerouteRow) => Kept<RerouteRow>
  readonly setReroute: (
    id: RerouteId,
    change: { readonly state?: RerouteState; readonly endedMs?: EpochMs; readonly gaps?: ReadonlyArray<KeptGap> },
  ) => Kept<void>
  /** As `homecoming.ts` encodes it; null: none was kept. */
  readonly homecoming: (nodeId: NodeId) => Kept<unknown>
  readonly setHomecoming: (nodeId: NodeId, state: unknown) => Kept<void>
  readonly guardians: (nodeId: NodeId) => Kept<ReadonlyArray<GuardianRow>>
  readonly noteGuardian: (nodeId: NodeId, guardian: NodeId, nowMs: EpochMs) => Kept<void>
  readonly noteBundle: (
    nodeId: NodeId,
    guardian: NodeId,
    told: { readonly atMs: EpochMs; readonly digest: string; readonly cameraNames: ReadonlyArray<string> },
  ) => Kept<void>
}>()("nightjar/actors/FailoverStore") {
  static readonly layer = Layer.effect(
    FailoverStore,
    Effect.map(SqlClient.SqlClient, (sql) =>
      FailoverStore.of({ ...configuring(sql), ...protecting(sql), ...rerouting(sql), ...guarding(sql) })),
  )
}

const configuring = (sql: SqlClient.SqlClient) => ({
  settings: (nodeId: NodeId) =>
    answered(Effect.map(
      sql<{ readonly settings: FailoverSettingsUpdate; readonly version: number }>`
        SELECT settings, version FROM federation_failover_settings WHERE node_id = ${nodeId}`,
      ([row]) => row ?? { settings: {}, version: 0 },
    )),
  settingsOfAll: answered(Effect.map(
    sql<{ readonly nodeId: NodeId; readonly settings: FailoverSettingsUpdate }>`
      SELECT node_id AS "nodeId", settings FROM federation_failover_settings`,
    (rows) => new Map(rows.map(({ nodeId, settings }) => [nodeId, settings])),
  )),
  setSettings: (nodeId: NodeId, settings: FailoverSettingsUpdate, ifMatch: number | null) =>
    answered(Effect.gen(function*() {
      const rows = yield* sql`
        INSERT INTO federation_failover_settings AS s (node_id, settings, version)
        VALUES (${nodeId}::text::uuid, ${JSON.stringify(settings)}::text::jsonb, 1)
        ON CONFLICT (node_id) DO UPDATE SET settings = excluded.settings, version = s.version + 1
        WHERE ${ifMatch}::integer IS NULL OR s.version = ${ifMatch}::integer
        RETURNING s.version`
      if (rows.length === 0) {
        return yield* new VersionConflict({ message: "The settings have changed in the meantime." })
      }
    })),
})

const protecting = (sql: SqlClient.SqlClient) => {
  const json = (value: unknown) => sql`${JSON.stringify(value)}::text::jsonb`
  return {
    protections: (nodeId: NodeId) =>
      answered(Effect.map(
        sql<
          Omit<ProtectionRow, "createdMs" | "heardMs"> & { readonly createdAt: Date; readonly heardAt: Date | null }
        >`
          SELECT id, home_node_id AS "homeNodeId", name, class, automatic, rank, sources, slot, state, need, snapshot, sessions,
            drill, created_at AS "createdAt", heard_at AS "heardAt", version
          FROM federation_protection WHERE node_id = ${nodeId} ORDER BY id`,
        (rows) =>
          rows.map(({ createdAt, heardAt, ...row }): ProtectionRow => ({
            ...row,
            createdMs: createdAt.getTime(),
            heardMs: heardAt?.getTime() ?? null,
          })),
      )),
    addProtection: (nodeId: NodeId, row: Omit<ProtectionRow, "version" | "heardMs">) =>
      answered(sql`
          INSERT INTO federation_protection (id, node_id, home_node_id, name, class, automatic, rank, sources, slot, state, need,
            snapshot, sessions, drill, created_at, version)
          VALUES (${row.id}, ${nodeId}, ${row.homeNodeId}, ${row.name}, ${row.class}, ${row.automatic}, ${row.rank},
            ${json(row.sources)}, ${row.slot}, ${json(row.state)}, ${json(row.need)}, NULL, ${
        json(row.sessions)
      }, NULL, ${new Date(row.createdMs)}, 1)`
        .pipe(
          Effect.asVoid,
          Effect.mapError((error) =>
            violates(error, "federation_protection_once") ?
              new ProtectionExists({ nodeId: row.homeNodeId }) :
              error
          ),
        )),
    revise: (id: ProtectionId, { automatic, class: kind, rank, sources }: ProtectionTerms) =>
      answered(Effect.asVoid(sql`
          UPDATE federation_protection SET class = ${kind}, automatic = ${automatic}, rank = ${rank},
            sources = ${json(sources)}, version = version + 1 WHERE id = ${id}`)),
    chosenGuardians: answered(sql<{ readonly nodeId: NodeId; readonly homeNodeId: NodeId }>`
          SELECT node_id AS "nodeId", home_node_id AS "homeNodeId" FROM federation_protection
          WHERE sources ->> 'protection' = 'set'`),
    protectedOf: (nodeIds: ReadonlyArray<NodeId>) =>
      answered(Effect.map(
        sql<{ readonly nodeId: NodeId }>`
          SELECT DISTINCT home_node_id AS "nodeId" FROM federation_protection WHERE ${sql.in("home_node_id", nodeIds)}`,
        (rows): ReadonlySet<NodeId> => new Set(rows.map(({ nodeId }) => nodeId)),
      )),
    setState: (id: ProtectionId, state: unknown) =>
      answered(
        Effect.asVoid(
          sql`UPDATE federation_protection SET state = ${json(state)}, version = version + 1 WHERE id = ${id}`,
        ),
      ),
    setSlot: (id: ProtectionId, slot: Slot) =>
      answered(Effect.asVoid(sql`UPDATE federation_protection SET slot = ${slot} WHERE id = ${id}`)),
    setHeard: (id: ProtectionId, heardMs: EpochMs) =>
      answered(Effect.asVoid(sql`UPDATE federation_protection SET heard_at = ${new Date(heardMs)} WHERE id = ${id}`)),
    setSnapshot: (id: ProtectionId, snapshot: KeptSnapshot | null, need: CapacityNeed) =>
      answered(Effect.asVoid(sql`
          UPDATE federation_protection SET snapshot = nullif(${json(snapshot)}, 'null'::jsonb), need = ${json(need)}
          WHERE id = ${id}`)),
    setSessions: (id: ProtectionId, sessions: ReadonlyArray<SessionTrial>) =>
      answered(Effect.asVoid(sql`UPDATE federation_protection SET sessions = ${json(sessions)} WHERE id = ${id}`)),
    setDrill: (id: ProtectionId, drill: KeptDrill) =>
      answered(Effect.asVoid(sql`UPDATE federation_protection SET drill = ${json(drill)} WHERE id = ${id}`)),
    removeProtection: (id: ProtectionId) =>
      answered(Effect.asVoid(sql`DELETE FROM federation_protection WHERE id = ${id}`)),
  }
}

interface StoredReroute extends Omit<RerouteRow, "sinceMs" | "endedMs" | "lostMs" | "epoch"> {
  readonly since: Date
  readonly endedAt: Date | null
  readonly lostAt: Date
  readonly epoch: bigint
}

const rerouteOf = ({ endedAt, epoch, lostAt, since, ...row }: StoredReroute): RerouteRow => ({
  ...row,
  epoch: Number(epoch),
  sinceMs: since.getTime(),
  endedMs: endedAt?.getTime() ?? null,
  lostMs: lostAt.getTime(),
})

const rerouting = (sql: SqlClient.SqlClient) => {
  const columns =
    sql`id, protection_id AS "protectionId", home_node_id AS "homeNodeId", serving_node_id AS "servingNodeId",
    slot, epoch, state, drill, since, ended_at AS "endedAt", lost_at AS "lostAt", gaps`
  return {
    reroutes: (limit: number, after: RerouteId | null) =>
      answered(Effect.map(
        sql<StoredReroute>`
          SELECT ${columns} FROM federation_reroute
          WHERE ${after === null ? sql`TRUE` : sql`id < ${after}`} ORDER BY id DESC LIMIT ${limit}`,
        (rows) => rows.map(rerouteOf),
      )),
    reroute: (id: RerouteId) =>
      answered(
        Effect.map(sql<StoredReroute>`SELECT ${columns} FROM federation_reroute WHERE id = ${id}`, ([row]) =>
          row === undefined ? null : rerouteOf(row)),
      ),
    openReroute: (row: RerouteRow) =>
      answered(Effect.gen(function*() {
        yield* sql`
          INSERT INTO federation_reroute (id, protection_id, home_node_id, serving_node_id, slot, epoch, state, drill, since,
            lost_at, gaps)
          VALUES (${row.id}, ${row.protectionId}, ${row.homeNodeId}, ${row.servingNodeId}, ${row.slot}, ${row.epoch},
            ${row.state}, ${row.drill}, ${new Date(row.sinceMs)}, ${new Date(row.lostMs)},
            ${JSON.stringify(row.gaps)}::text::jsonb)
          ON CONFLICT ON CONSTRAINT federation_reroute_once DO NOTHING`
        const [kept] = yield* sql<StoredReroute>`
          SELECT ${columns} FROM federation_reroute
          WHERE serving_node_id = ${row.servingNodeId} AND home_node_id = ${row.homeNodeId} AND epoch = ${row.epoch}`
        return kept === undefined ? row : rerouteOf(kept)
      })),
    setReroute: (
      id: RerouteId,
      change: { readonly state?: RerouteState; readonly endedMs?: EpochMs; readonly gaps?: ReadonlyArray<KeptGap> },
    ) =>
      answered(Effect.asVoid(sql`
          UPDATE federation_reroute SET state = coalesce(${change.state ?? null}::text, state),
            ended_at = coalesce(${
        change.endedMs === undefined ? null : new Date(change.endedMs)
      }::timestamptz, ended_at),
            gaps = coalesce(${change.gaps === undefined ? null : JSON.stringify(change.gaps)}::text::jsonb, gaps)
          WHERE id = ${id}`)),
  }
}

interface StoredGuardian {
  readonly nodeId: NodeId
  readonly askedAt: Date
  readonly bundleAt: Date | null
  readonly bundleDigest: string | null
  readonly cameraNames: ReadonlyArray<string>
}

const guarding = (sql: SqlClient.SqlClient) => ({
  homecoming: (nodeId: NodeId) =>
    answered(
      Effect.map(
        sql<{ readonly state: unknown }>`SELECT state FROM federation_homecoming WHERE node_id = ${nodeId}`,
        ([row]) => row?.state ?? null,
      ),
    ),
  setHomecoming: (nodeId: NodeId, state: unknown) =>
    answered(Effect.asVoid(sql`
      INSERT INTO federation_homecoming (node_id, state)
      VALUES (${nodeId}::text::uuid, ${JSON.stringify(state)}::text::jsonb)
      ON CONFLICT (node_id) DO UPDATE SET state = excluded.state`)),
  guardians: (nodeId: NodeId) =>
    answered(Effect.map(
      sql<StoredGuardian>`
        SELECT guardian_node_id AS "nodeId", asked_at AS "askedAt", bundle_at AS "bundleAt", bundle_digest AS "bundleDigest",
          camera_names AS "cameraNames"
        FROM federation_guardian WHERE node_id = ${nodeId} ORDER BY asked_at, guardian_node_id`,
      (rows) =>
        rows.map(({ askedAt, bundleAt, ...row }): GuardianRow => ({
          ...row,
          askedMs: askedAt.getTime(),
          bundleMs: bundleAt?.getTime() ?? null,
        })),
    )),
  noteGuardian: (nodeId: NodeId, guardian: NodeId, nowMs: EpochMs) =>
    answered(Effect.asVoid(sql`
      INSERT INTO federation_guardian (node_id, guardian_node_id, asked_at, camera_names)
      VALUES (${nodeId}, ${guardian}, ${new Date(nowMs)}, '[]') ON CONFLICT DO NOTHING`)),
  noteBundle: (
    nodeId: NodeId,
    guardian: NodeId,
    told: { readonly atMs: EpochMs; readonly digest: string; readonly cameraNames: ReadonlyArray<string> },
  ) =>
    answered(Effect.asVoid(sql`
      INSERT INTO federation_guardian (node_id, guardian_node_id, asked_at, bundle_at, bundle_digest, camera_names)
      VALUES (${nodeId}, ${guardian}, ${new Date(told.atMs)}, ${new Date(told.atMs)}, ${told.digest},
        ${JSON.stringify(told.cameraNames)}::text::jsonb)
      ON CONFLICT (node_id, guardian_node_id) DO UPDATE SET bundle_at = excluded.bundle_at,
        bundle_digest = excluded.bundle_digest, camera_names = excluded.camera_names`)),
})
