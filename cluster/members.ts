/**
 * The members of the cluster: every node that stands in the table `node` of its database, with what others need to reach and to know it.
 *
 * Invariants
 * 1. A node writes its own row and nobody else's.
 * 2. What is known is what was last read successfully; it is read every {@link readEvery}, so an outage takes nobody away.
 */
import { NodeId } from "#schema/common.ts"
import { isSlot, type Slot } from "#schema/ownership.ts"
import { Context, Effect, Layer, Schedule, Stream, SubscriptionRef } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { Ownership } from "./ownership.ts"

/** Where a node's HTTP interface is. */
export interface HttpReach {
  /** `https://host:port` or `http://host:port`, without a path. */
  readonly address: string
  /**
   * SHA-256 of the SubjectPublicKeyInfo (RFC 7469, section 2.4) of the certificate it serves, base64url; null where it serves no
   * TLS itself.
   */
  readonly tlsPin: string | null
}

/** What this node tells of its HTTP; null until it listens. A new certificate changes it. */
export type OwnReach = SubscriptionRef.SubscriptionRef<HttpReach | null>

export interface Member {
  readonly nodeId: NodeId
  /** Its home. */
  readonly slot: Slot
  readonly name: string
  /** `host:port` of its runner. */
  readonly address: string
  /** Null until it first told. */
  readonly http: HttpReach | null
  /** Ed25519 and X25519, 32 bytes in base64url each. */
  readonly signingKey: string
  readonly transferKey: string
  /** Of the program it runs. */
  readonly version: string | null
  /** When its present life began. */
  readonly startedMs: number
}

export class Members extends Context.Service<Members, {
  /** As last read, ordered by slot; this node among them. */
  readonly list: Effect.Effect<ReadonlyArray<Member>>
  /** The list at once, then each change of it; a slow reader sees the newest. */
  readonly changes: Stream.Stream<ReadonlyArray<Member>>
  /** Reads it now. */
  readonly refresh: Effect.Effect<ReadonlyArray<Member>, SqlError.SqlError>
}>()("nightjar/cluster/Members") {}

export interface MembersOptions {
  readonly version: string | null
  /** Null for a node without HTTP. */
  readonly reach: OwnReach | null
}

const readEvery = "2 seconds"

interface Row {
  readonly nodeId: string
  readonly slot: string
  readonly name: string
  readonly address: string
  readonly httpAddress: string | null
  readonly tlsPin: string | null
  readonly signingKey: string
  readonly transferKey: string
  readonly version: string | null
  readonly startedAt: Date
}

const memberOf = (row: Row): ReadonlyArray<Member> =>
  isSlot(row.slot) ?
    [{
      nodeId: NodeId.make(row.nodeId),
      slot: row.slot,
      name: row.name,
      address: row.address,
      http: row.httpAddress === null ? null : { address: row.httpAddress, tlsPin: row.tlsPin },
      signingKey: row.signingKey,
      transferKey: row.transferKey,
      version: row.version,
      startedMs: row.startedAt.getTime(),
    }] :
    []

/** Of plain values only, in one order of keys: the text tells whether two lists are the same. */
const textOf = (members: ReadonlyArray<Member>) => JSON.stringify(members)

const make = Effect.fnUntraced(function*({ reach, version }: MembersOptions) {
  const sql = yield* SqlClient.SqlClient
  const { nodeId } = yield* Ownership

  const read = Effect.map(
    sql<Row>`
      SELECT node_id AS "nodeId", slot, name, address, http_address AS "httpAddress", tls_pin AS "tlsPin",
        signing_key AS "signingKey", transfer_key AS "transferKey", version, started_at AS "startedAt"
      FROM node ORDER BY slot`,
    (rows) => rows.flatMap(memberOf),
  )
  const tell = (now: HttpReach | null) =>
    sql`
      UPDATE node SET version = ${version}, http_address = ${now?.address ?? null}, tls_pin = ${now?.tlsPin ?? null}
      WHERE node_id = ${nodeId}`

  yield* tell(reach === null ? null : yield* SubscriptionRef.get(reach))
  const known = yield* SubscriptionRef.make(yield* read)
  const refresh = Effect.tap(
    read,
    (members) =>
      Effect.flatMap(SubscriptionRef.get(known), (before) =>
        textOf(before) === textOf(members) ? Effect.void : SubscriptionRef.set(known, members)),
  )

  if (reach !== null) {
    const told = (now: HttpReach | null) =>
      Effect.andThen(tell(now), refresh).pipe(Effect.retry(Schedule.spaced(readEvery)), Effect.orDie)
    yield* Effect.forkScoped(Stream.runForEach(SubscriptionRef.changes(reach), told))
  }
  // An outage ends no reading; the next one may come through.
  yield* Effect.forkScoped(Effect.repeat(Effect.ignore(refresh), Schedule.spaced(readEvery)))
  return Members.of({ list: SubscriptionRef.get(known), changes: SubscriptionRef.changes(known), refresh })
})

/** Wants this node's row to be there. */
export const layer = (
  options: MembersOptions,
): Layer.Layer<Members, SqlError.SqlError, SqlClient.SqlClient | Ownership> => Layer.effect(Members, make(options))
