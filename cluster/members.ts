/**
 * The nodes of the cluster: everyone that stands in the table `node` of its database, with what others need to reach and to know it,
 * and whether it was admitted.
 *
 * Invariants
 * 1. A node writes its own row and nobody else's. What it tells there (addresses and pins) is signed by its identity, and its identity is
 *    proven by the cluster's key: whoever merely reaches the database cannot pass for a member. What is not signed is left out.
 * 2. Who is not `admitted` may be seen, and nothing more: no runner, no peer, no keys.
 * 3. What is known is what was last read successfully, so an outage takes nobody away.
 * 4. A node that only has a slot here (`Ownership.adopt`) is none of them.
 */
import { NodeId } from "#schema/common.ts"
import { isSlot, type Slot } from "#schema/ownership.ts"
import { Context, Effect, Layer, Schedule, Stream, SubscriptionRef } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { createPublicKey, sign, verify } from "node:crypto"
import { NodeIdentity } from "./identity.ts"
import { isAdmitted, type Keyring } from "./keyring.ts"
import { Ownership } from "./ownership.ts"
import { Trusted } from "./socket.ts"

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
  /** Of its runner's key; null where what it tells is not signed. */
  readonly transportPin: string | null
  /** Null until it first told. */
  readonly http: HttpReach | null
  /** Ed25519 and X25519, 32 bytes in base64url each. */
  readonly signingKey: string
  readonly transferKey: string
  /** Has the cluster's key. False for all others while this node itself has not. */
  readonly admitted: boolean
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

interface Row {
  readonly nodeId: string
  readonly slot: string
  readonly name: string
  readonly address: string
  readonly transportPin: string | null
  readonly httpAddress: string | null
  readonly tlsPin: string | null
  readonly toldSignature: string | null
  readonly signingKey: string
  readonly transferKey: string
  readonly admission: string | null
  readonly version: string | null
  readonly startedAt: Date
}

type Told = Pick<Row, "nodeId" | "address" | "transportPin" | "httpAddress" | "tlsPin">

const statement = (row: Told): Buffer =>
  Buffer.from(
    JSON.stringify(["nightjar node v1", row.nodeId, row.address, row.transportPin, row.httpAddress, row.tlsPin]),
  )

const isSigned = (row: Row): boolean => {
  if (row.toldSignature === null) return false
  try {
    const key = createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x: row.signingKey }, format: "jwk" })
    return verify(null, statement(row), key, Buffer.from(row.toldSignature, "base64url"))
  } catch {
    // Not a key.
    return false
  }
}

const retryEvery = "2 seconds"
/** Of plain values only, in one order of keys: the text tells whether two lists are the same. */
const textOf = (members: ReadonlyArray<Member>) => JSON.stringify(members)

const make = Effect.fnUntraced(function*({ reach, version }: MembersOptions, keyring: Keyring) {
  const sql = yield* SqlClient.SqlClient
  const { nodeId } = yield* Ownership
  const { signing } = yield* NodeIdentity
  const trusted = yield* Trusted

  const memberOf = (row: Row, held: Parameters<typeof isAdmitted>[0]): ReadonlyArray<Member> => {
    if (!isSlot(row.slot)) return []
    const signed = isSigned(row)
    return [{
      nodeId: NodeId.make(row.nodeId),
      slot: row.slot,
      name: row.name,
      address: row.address,
      transportPin: signed ? row.transportPin : null,
      http: signed && row.httpAddress !== null ? { address: row.httpAddress, tlsPin: row.tlsPin } : null,
      signingKey: row.signingKey,
      transferKey: row.transferKey,
      admitted: isAdmitted(held, row, row.admission),
      version: row.version,
      startedMs: row.startedAt.getTime(),
    }]
  }
  const read = Effect.gen(function*() {
    const rows = yield* sql<Row>`
      SELECT node_id AS "nodeId", slot, name, address, transport_pin AS "transportPin", http_address AS "httpAddress",
        tls_pin AS "tlsPin", told_signature AS "toldSignature", signing_key AS "signingKey", transfer_key AS "transferKey",
        admission, version, started_at AS "startedAt"
      FROM node WHERE NOT adopted ORDER BY slot`
    const held = yield* SubscriptionRef.get(keyring)
    return rows.flatMap((row) => memberOf(row, held))
  })
  const tell = (now: HttpReach | null) =>
    sql.withTransaction(Effect.gen(function*() {
      const [own] = yield* sql<{ readonly address: string }>`
        SELECT address FROM node WHERE node_id = ${nodeId} FOR UPDATE`
      const told: Told = {
        nodeId,
        address: own?.address ?? "",
        transportPin: trusted.pin,
        httpAddress: now?.address ?? null,
        tlsPin: now?.tlsPin ?? null,
      }
      yield* sql`
        UPDATE node SET version = ${version}, transport_pin = ${told.transportPin}, http_address = ${told.httpAddress},
          tls_pin = ${told.tlsPin},
          told_signature = ${sign(null, statement(told), signing.privateKey).toString("base64url")}
        WHERE node_id = ${nodeId}`
    }))

  yield* tell(reach === null ? null : yield* SubscriptionRef.get(reach))
  const known = yield* SubscriptionRef.make<ReadonlyArray<Member>>([])
  const refresh = Effect.tap(
    read,
    Effect.fnUntraced(function*(members) {
      if (textOf(yield* SubscriptionRef.get(known)) === textOf(members)) return
      yield* SubscriptionRef.set(
        trusted.runners,
        members.flatMap(({ address, admitted, name, transportPin }) =>
          admitted && transportPin !== null ? [{ name, address, pin: transportPin }] : []
        ),
      )
      yield* SubscriptionRef.set(known, members)
    }),
  )
  yield* refresh

  if (reach !== null) {
    const told = (now: HttpReach | null) =>
      Effect.andThen(tell(now), refresh).pipe(Effect.retry(Schedule.spaced(retryEvery)), Effect.orDie)
    yield* Effect.forkScoped(Stream.runForEach(SubscriptionRef.changes(reach), told))
  }
  return Members.of({ list: SubscriptionRef.get(known), changes: SubscriptionRef.changes(known), refresh })
})

/** Wants this node's row to be there. */
export const layer = (
  options: MembersOptions,
  keyring: Keyring,
): Layer.Layer<Members, SqlError.SqlError, SqlClient.SqlClient | Ownership | NodeIdentity | Trusted> =>
  Layer.effect(Members, make(options, keyring))
