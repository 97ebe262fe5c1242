/**
 * SQL of peers: nodes that a node of this database is paired with.
 *
 * Invariants
 * 1. A pairing is between two nodes: every query is about those of one node of ours.
 * 2. A peer's token for us is kept sealed.
 */
import type { EpochMs, NodeId } from "#schema/common.ts"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export interface PeerRow {
  readonly id: string
  readonly peerId: string
  readonly name: string
  readonly address: string
  /** Given by an administrator. */
  readonly addresses: ReadonlyArray<string>
  readonly tlsPin: string | null
  readonly signingKey: string
  readonly transferKey: string
  readonly roles: ReadonlyArray<string>
  readonly mediaReadEnforcement: boolean
  readonly guardianGranted: boolean
  readonly sealedToken: string
  readonly tokenExpiresAt: Date
  readonly pairedAt: Date
}

/** What may change of a peer. */
export interface PeerSet {
  readonly addresses?: ReadonlyArray<string>
  readonly roles?: ReadonlyArray<string>
  readonly mediaReadEnforcement?: boolean
  readonly guardianGranted?: boolean
}

export const AuthFederationStore = Effect.map(SqlClient.SqlClient, (sql) => ({
  /** Everything inside happens or nothing of it. */
  together: <A, E, R>(changes: Effect.Effect<A, E, R>) => sql.withTransaction(changes),
  peers: (nodeId: NodeId) =>
    sql<PeerRow>`
      SELECT id, peer_id AS "peerId", name, address, addresses, tls_pin AS "tlsPin", signing_key AS "signingKey",
        transfer_key AS "transferKey", roles, media_read_enforcement AS "mediaReadEnforcement",
        guardian_granted AS "guardianGranted", sealed_token AS "sealedToken", token_expires_at AS "tokenExpiresAt",
        paired_at AS "pairedAt"
      FROM auth_peer WHERE node_id = ${nodeId} ORDER BY peer_id`,
  /** Whether there was such a peer. */
  setPeer: (nodeId: NodeId, peerId: NodeId, change: PeerSet) => {
    const sets = [
      sql`peer_id = peer_id`,
      ...(change.roles === undefined ? [] : [sql`roles = ${change.roles as Array<string>}`]),
      ...(change.addresses === undefined ? [] : [sql`addresses = ${change.addresses as Array<string>}`]),
      ...(change.mediaReadEnforcement === undefined ?
        [] :
        [sql`media_read_enforcement = ${change.mediaReadEnforcement}`]),
      ...(change.guardianGranted === undefined ? [] : [sql`guardian_granted = ${change.guardianGranted}`]),
    ]
    return Effect.map(
      sql`
        UPDATE auth_peer SET ${sql.csv(sets)} WHERE node_id = ${nodeId} AND peer_id = ${peerId} RETURNING id`,
      (rows) => rows.length === 1,
    )
  },
  /** Pairs, or pairs again: what an administrator has set of a peer stays. Answers the id of the pairing. */
  save: (nodeId: NodeId, peer: Omit<PeerRow, "sealedToken" | "mediaReadEnforcement" | "addresses">) =>
    Effect.map(
      sql<{ readonly id: string }>`
        INSERT INTO auth_peer (id, node_id, peer_id, name, address, tls_pin, signing_key, transfer_key, roles,
          media_read_enforcement, guardian_granted, sealed_token, token_expires_at, paired_at)
        VALUES (${peer.id}, ${nodeId}, ${peer.peerId}, ${peer.name}, ${peer.address}, ${peer.tlsPin}, ${peer.signingKey},
          ${peer.transferKey}, ${peer.roles as Array<
        string
      >}, true, ${peer.guardianGranted}, '', ${peer.tokenExpiresAt},
          ${peer.pairedAt})
        ON CONFLICT ON CONSTRAINT auth_peer_once DO UPDATE SET name = excluded.name, address = excluded.address,
          tls_pin = excluded.tls_pin, signing_key = excluded.signing_key, transfer_key = excluded.transfer_key,
          guardian_granted = excluded.guardian_granted, token_expires_at = excluded.token_expires_at,
          paired_at = excluded.paired_at
        RETURNING id`,
      (rows) => rows[0]!.id,
    ),
  /** Name of the peer that was there; null: none was. */
  remove: (nodeId: NodeId, peerId: NodeId) =>
    Effect.map(
      sql<{ readonly name: string }>`
        DELETE FROM auth_peer WHERE node_id = ${nodeId} AND peer_id = ${peerId} RETURNING name`,
      (rows) => rows[0]?.name ?? null,
    ),
  /** What a peer tells of itself. */
  learn: (
    nodeId: NodeId,
    peerId: NodeId,
    told: { readonly name: string; readonly address: string; readonly tlsPin: string | null },
  ) =>
    sql`
      UPDATE auth_peer SET name = ${told.name}, address = ${told.address}, tls_pin = ${told.tlsPin}
      WHERE node_id = ${nodeId} AND peer_id = ${peerId}`,
  setToken: (id: string, sealedToken: string, expiresAtMs: EpochMs) =>
    sql`
      UPDATE auth_peer SET sealed_token = ${sealedToken}, token_expires_at = ${new Date(expiresAtMs)} WHERE id = ${id}`,
}))
export type AuthFederationStore = Effect.Success<typeof AuthFederationStore>
