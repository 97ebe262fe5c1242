/**
 * How a node becomes a member of the cluster whose database it was pointed at, and how it ceases to be one.
 *
 * The first node makes the cluster's key. Another one gets it from the secret that the operator gave to both, or from a member who
 * was told to approve it. Until then it serves its own slot, is no runner for anybody else, and nobody trusts it.
 *
 * Invariants
 * 1. Whoever has the newest key admits itself; nobody else can be made a member without one who has it.
 * 2. A removal makes a new key in the same transaction that ends the admission, and burns the secrets that the former member may
 *    know: they open no key after that.
 * 3. A key of the same cluster replaces the one that is held only if it succeeds it. A database of another cluster is joined
 *    like any other, and told.
 * 4. It is looked at every {@link lookEvery}; an outage changes nothing.
 */
import type { NodeId } from "#schema/common.ts"
import { type KeyNotKept, NotAMember, OtherNode, RemovesItself } from "#schema/federation-member.ts"
import { uuid7 } from "#schema/uuid.ts"
import type { Vault } from "#schema/vault.ts"
import {
  Clock,
  Context,
  Effect,
  type FileSystem,
  Layer,
  Ref,
  Schedule,
  Schema,
  Semaphore,
  SubscriptionRef,
} from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { NodeIdentity } from "./identity.ts"
import * as Keys from "./keyring.ts"
import { type Member, Members } from "./members.ts"
import { Trusted } from "./socket.ts"

/** There is no such node in the cluster's database. */
export class UnknownNode extends Schema.TaggedError<UnknownNode>()("UnknownNode", { nodeId: Schema.String }) {}

export class Membership extends Context.Service<Membership, {
  /** Whether this node has the cluster's key that is in force. */
  readonly admitted: Effect.Effect<boolean>
  /**
   * Gives the key to a node. Doing it again changes nothing.
   * @param signingKey The key that a person compared; another one there is refused.
   */
  readonly approve: (
    nodeId: NodeId,
    signingKey: string,
  ) => Effect.Effect<Member, UnknownNode | OtherNode | NotAMember | SqlError.SqlError>
  /** Ends a node's admission, with a new key for all others. Its row and its slot stay. */
  readonly remove: (
    nodeId: NodeId,
  ) => Effect.Effect<Member, UnknownNode | RemovesItself | NotAMember | KeyNotKept | SqlError.SqlError>
}>()("nightjar/cluster/Membership") {}

export interface MembershipOptions {
  /** Where the key is kept. */
  readonly dataFolder: string
  /** What the operator gave to every node. */
  readonly joinSecret: Keys.JoinSecret | null
}

const lookEvery = "2 seconds"
const briefly = "500 millis"

interface InForce {
  readonly clusterId: string
  readonly generation: number
  readonly keyId: string
  readonly burned: ReadonlyArray<string>
}

/** What is kept in the two tables; all of it within the caller's transaction. */
const tables = (sql: SqlClient.SqlClient) => ({
  lock: sql`LOCK TABLE cluster_key IN SHARE ROW EXCLUSIVE MODE`,
  inForce: Effect.map(
    sql<InForce>`
      SELECT cluster_id AS "clusterId", generation, key_id AS "keyId", burned_secrets AS burned FROM cluster_key`,
    (rows) => rows[0] ?? null,
  ),
  envelope: (holder: string) =>
    Effect.map(
      sql<{ readonly envelope: string }>`SELECT envelope FROM cluster_key_share WHERE holder = ${holder}`,
      (rows) => rows[0]?.envelope ?? null,
    ),
  holders: Effect.map(
    sql<{ readonly holder: string }>`SELECT holder FROM cluster_key_share`,
    (rows) => rows.map(({ holder }) => holder),
  ),
  put: ({ clusterId, keys }: Keys.Held, burned: ReadonlyArray<string>, now: Date) =>
    sql`
      INSERT INTO cluster_key (cluster_id, generation, key_id, burned_secrets, changed_at)
      VALUES (${clusterId}, ${keys[0].generation}, ${Keys.idOf(keys[0])}, ${burned}, ${now})
      ON CONFLICT (single) DO UPDATE SET cluster_id = excluded.cluster_id, generation = excluded.generation,
        key_id = excluded.key_id, burned_secrets = excluded.burned_secrets, changed_at = excluded.changed_at`,
  clear: sql`DELETE FROM cluster_key_share`,
  share: (holder: string, envelope: string) =>
    sql`
      INSERT INTO cluster_key_share (holder, envelope) VALUES (${holder}, ${envelope})
      ON CONFLICT (holder) DO UPDATE SET envelope = excluded.envelope`,
  admit: (nodeId: string, admission: string | null) =>
    sql`UPDATE node SET admission = ${admission} WHERE node_id = ${nodeId} AND admission IS DISTINCT FROM ${admission}`,
})

const secretHolder = (id: string) => `secret:${id}`

const make = Effect.fnUntraced(function*({ dataFolder, joinSecret }: MembershipOptions, keyring: Keys.Keyring) {
  const sql = yield* SqlClient.SqlClient
  const members = yield* Members
  const identity = yield* NodeIdentity
  const { nodeId } = identity
  const services = yield* Effect.context<Vault | FileSystem.FileSystem>()
  const one = yield* Semaphore.make(1)
  const table = tables(sql)
  const self: Keys.Identified = {
    nodeId,
    signingKey: identity.signing.publicKey,
    transferKey: identity.transfer.publicKey,
  }
  let told = ""
  const tellOnce = (text: string) => {
    if (told === text) return Effect.void
    told = text
    return Effect.logWarning(text)
  }

  /** On the disk before it is used. */
  const keep = (held: Keys.Held) =>
    Effect.andThen(Effect.provideContext(Keys.save(dataFolder, held), services), SubscriptionRef.set(keyring, held))
  /** The shares of this node and of its secret, and its own admission: what whoever has the key may write. */
  const publish = Effect.fnUntraced(function*(held: Keys.Held, burned: ReadonlyArray<string>) {
    yield* table.share(nodeId, yield* Keys.wrap(held.clusterId, held.keys, self))
    if (joinSecret !== null && !burned.includes(joinSecret.id)) {
      yield* table.share(secretHolder(joinSecret.id), yield* joinSecret.seal(held.clusterId, held.keys))
    }
    yield* table.admit(nodeId, Keys.admissionOf(held, self))
  })
  const write = Effect.fnUntraced(function*(held: Keys.Held, burned: ReadonlyArray<string>) {
    yield* table.put(held, burned, new Date(yield* Clock.currentTimeMillis))
    yield* publish(held, burned)
  })

  /** The keys that somebody left for this node. */
  const received = Effect.fnUntraced(function*({ burned, clusterId, generation, keyId }: InForce) {
    const own = yield* table.envelope(nodeId)
    const usable = joinSecret !== null && !burned.includes(joinSecret.id)
    const common = usable ? yield* table.envelope(secretHolder(joinSecret.id)) : null
    const candidates = [
      own === null ? null : yield* Keys.unwrap(clusterId, nodeId, identity.transfer.privateKey, own),
      common === null ? null : yield* joinSecret!.open(clusterId, common),
    ]
    return candidates.find((keys) =>
      keys !== null && keys[0].generation === generation && Keys.idOf(keys[0]) === keyId
    ) ?? null
  })

  const found = Effect.gen(function*() {
    const before = yield* SubscriptionRef.get(keyring)
    const held: Keys.Held = before !== null ?
      { ...before, current: true } :
      { clusterId: yield* uuid7, keys: [Keys.firstKey()], current: true }
    yield* keep(held)
    yield* write(held, [])
    return held
  })

  /** Nobody gave this node the key in force; what it has of before still opens. */
  const wait = Effect.fnUntraced(function*(held: Keys.Held | null, why: string) {
    yield* tellOnce(why)
    if (held?.current === true) yield* SubscriptionRef.set(keyring, { ...held, current: false })
  })

  const join = Effect.fnUntraced(function*(now: InForce, held: Keys.Held | null) {
    const keys = yield* received(now)
    if (keys === null) {
      const burned = joinSecret !== null && now.burned.includes(joinSecret.id)
      return yield* wait(
        held,
        burned ?
          "NIGHTJAR_CLUSTER_SECRET is known to a node that was removed: give every member a new one, or approve this node" :
          `This node waits to be approved by a member of the cluster; its id is ${nodeId}`,
      )
    }
    const next: Keys.Held = { clusterId: now.clusterId, keys, current: true }
    const same = held?.clusterId === now.clusterId
    if (same && !Keys.succeeds(held, keys)) {
      return yield* wait(
        held,
        "The cluster's key in the database does not succeed the one this node has; it is not used",
      )
    }
    if (held !== null && !same) {
      yield* Effect.logWarning(`This node leaves cluster ${held.clusterId} for ${now.clusterId}`)
    }
    yield* keep(next)
    yield* publish(next, now.burned)
    told = ""
    yield* Effect.logInfo(`This node is a member of cluster ${now.clusterId}, with its key ${now.generation}`)
  })

  const inStep = (held: Keys.Held | null, now: InForce | null) =>
    held?.current === true && held.clusterId === now?.clusterId && held.keys[0].generation === now.generation &&
    Keys.idOf(held.keys[0]) === now.keyId

  const change = Effect.gen(function*() {
    const held = yield* SubscriptionRef.get(keyring)
    const now = yield* table.inForce
    if (now === null) return yield* Effect.asVoid(found)
    const known = held?.clusterId === now.clusterId ? held : null
    if (known !== null && known.keys[0].generation > now.generation) {
      // The database is an older one.
      yield* write({ ...known, current: true }, now.burned)
      return yield* SubscriptionRef.set(keyring, { ...known, current: true })
    }
    if (known === null || known.keys[0].generation < now.generation || Keys.idOf(known.keys[0]) !== now.keyId) {
      return yield* join(now, held)
    }
    yield* publish(known, now.burned)
    yield* SubscriptionRef.set(keyring, { ...known, current: true })
  })
  const locked = <A, E>(work: Effect.Effect<A, E>) =>
    one.withPermits(1)(sql.withTransaction(Effect.andThen(table.lock, work)))
  const look = Effect.flatMap(
    Effect.all([SubscriptionRef.get(keyring), table.inForce]),
    ([held, now]) => inStep(held, now) ? Effect.void : locked(change),
  )
  const changing = Effect.flatMap(
    Effect.all([SubscriptionRef.get(keyring), table.inForce]),
    ([held, now]) =>
      held !== null && now !== null && inStep(held, now) ?
        Effect.succeed({ now, held }) :
        Effect.fail(new NotAMember()),
  )
  const rowOf = Effect.fnUntraced(function*(wanted: NodeId) {
    const row = (yield* members.refresh).find((member) => member.nodeId === wanted)
    return row ?? (yield* new UnknownNode({ nodeId: wanted }))
  })

  const approve = Effect.fnUntraced(function*(wanted: NodeId, signingKey: string) {
    yield* locked(Effect.gen(function*() {
      const { held } = yield* changing
      const row = yield* rowOf(wanted)
      if (row.signingKey !== signingKey) return yield* new OtherNode()
      yield* table.share(wanted, yield* Keys.wrap(held.clusterId, held.keys, row))
      yield* table.admit(wanted, Keys.admissionOf(held, row))
    }))
    return yield* rowOf(wanted)
  })

  const remove = Effect.fnUntraced(function*(wanted: NodeId) {
    if (wanted === nodeId) return yield* new RemovesItself()
    const next = yield* locked(Effect.gen(function*() {
      const { held, now } = yield* changing
      yield* rowOf(wanted)
      const secrets = (yield* table.holders).flatMap((holder) => holder.startsWith("secret:") ? [holder.slice(7)] : [])
      const burned = [...new Set([...now.burned, ...secrets])]
      const next: Keys.Held = { ...held, keys: Keys.withNext(held) }
      const staying = (yield* members.list).filter((member) => member.admitted && member.nodeId !== wanted)
      yield* table.clear
      yield* write(next, burned)
      for (const member of staying) {
        yield* table.share(member.nodeId, yield* Keys.wrap(next.clusterId, next.keys, member))
        yield* table.admit(member.nodeId, Keys.admissionOf(next, member))
      }
      yield* table.admit(wanted, null)
      // Kept before the commit: a key that is in force and on nobody's disk would be lost with this process.
      yield* Effect.provideContext(Keys.save(dataFolder, next), services)
      return next
    }))
    yield* SubscriptionRef.set(keyring, next)
    return yield* rowOf(wanted)
  })

  // However many strangers knock.
  const lookAndRead = yield* Effect.cachedWithTTL(Effect.andThen(look, members.refresh), briefly)
  yield* lookAndRead
  yield* Ref.set((yield* Trusted).look, Effect.ignore(lookAndRead))
  yield* Effect.forkScoped(Effect.repeat(Effect.ignore(lookAndRead), Schedule.spaced(lookEvery)))
  return Membership.of({
    admitted: Effect.map(SubscriptionRef.get(keyring), (held) => held?.current === true),
    approve,
    remove,
  })
})

/** Wants this node's row to be there. When it is built, this node has the key or waits for it. */
export const layer = (options: MembershipOptions, keyring: Keys.Keyring) =>
  Layer.effect(Membership, make(options, keyring))
