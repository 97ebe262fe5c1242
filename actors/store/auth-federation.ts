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
  readonly roles?: ReadonlyArray<string>
  readonly mediaReadEnforcement?: boolean
  readonly guardianGranted?: boolean
}

export const AuthFederationStore = Effect.map(SqlClient.SqlClient, (sql) => ({
  peers: (nodeId: NodeId) =>
    sql<PeerRow>`
      SELECT id, peer_id AS "peerId", name, address, tls_pin AS "tlsPin", signing_key AS "signingKey",
        transfer_key AS "transferKey", roles, media_read_enforcement AS "mediaReadEnforcement",
        guardian_granted AS "guardianGranted", sealed_token AS "sealedToken", token_expires_at AS "tokenExpiresAt",
        paired_at AS "pairedAt"
      FROM auth_peer WHERE node_id = ${nodeId} ORDER BY peer_id`,
  /** Whether there was such a peer. */
  setPeer: (nodeId: NodeId, peerId: NodeId, change: PeerSet) => {
    const sets = [
      sql`peer_id = peer_id`,
      ...(change.roles === undefined ? [] : [sql`roles = ${change.roles as Array<string>}`]),
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
  setToken: (id: string, sealedToken: string, expiresAtMs: EpochMs) =>
    sql`
      UPDATE auth_peer SET sealed_token = ${sealedToken}, token_expires_at = ${new Date(expiresAtMs)} WHERE id = ${id}`,
}))
export type AuthFederationStore = Effect.Success<typeof AuthFederationStore>
