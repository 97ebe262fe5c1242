/**
 * This node as a runner of the cluster: transport, ownership, locks and the engine over them. One node alone is a cluster of one.
 *
 * Invariants
 * 1. Every node has the same shard groups and as many shards in each.
 * 2. The runner listens before it tells its address, so the address told is the one that answers.
 */
import type { KeyNotKept } from "#schema/federation-member.ts"
import { NodeVault, SharedKeys, Vault } from "#schema/vault.ts"
import * as NodeCrypto from "@effect/platform-node/NodeCrypto"
import { Effect, type FileSystem, Layer, Option, Redacted, Stream, SubscriptionRef } from "effect"
import {
  MessageStorage,
  RunnerAddress,
  RunnerHealth,
  Runners,
  type Sharding,
  ShardingConfig,
  SocketRunner,
  SqlMessageStorage,
} from "effect/cluster"
import { RpcSerialization } from "effect/rpc"
import { SocketServer } from "effect/socket"
import type { SqlClient, SqlError } from "effect/sql"
import type { NodeIdentity } from "./identity.ts"
import * as Keys from "./keyring.ts"
import * as MembersOf from "./members.ts"
import * as Joining from "./membership.ts"
import { Outage } from "./outage.ts"
import * as Owners from "./ownership.ts"
import { layerImpatient, Presence } from "./presence.ts"
import * as Storage from "./runner-storage.ts"
import * as Transport from "./socket.ts"
import { parseMasterKey } from "./vault.ts"

export interface ClusterOptions extends Transport.TransportOptions {
  /** Name of the node for people. */
  readonly name: string
  /** Version of the program, which other members see. */
  readonly version?: string
  /** Where this node's HTTP is, which other members see; left out by a node without. */
  readonly reach?: MembersOf.OwnReach
  /** Folder of the node; the cluster's key is kept there. */
  readonly dataFolder: string
  /** 32 bytes as text, which the operator gave to every node: who has them is a member. */
  readonly joinSecret: Redacted.Redacted | null
  /** Overrides of {@link timing}, for tests. */
  readonly timing?: Partial<ShardingConfig.ShardingConfig["Service"]>
}

/**
 * How fast things are noticed. A node that dies is given up after `shardLockExpiration`; a change of ownership is seen within
 * `refreshAssignmentsInterval`; a database that hangs is noticed within a third of the lock's life.
 */
export const timing = {
  shardsPerGroup: 8,
  shardLockExpiration: 9_000,
  shardLockRefreshInterval: 3_000,
  refreshAssignmentsInterval: 1_000,
  runnerHealthCheckInterval: 2_000,
  entityMessagePollInterval: 2_000,
  entityTerminationTimeout: 5_000,
  // Requests of one entity that wait; beyond it a caller is told at once.
  entityMailboxCapacity: 1_024,
  simulateRemoteSerialization: false,
} as const satisfies Partial<ShardingConfig.ShardingConfig["Service"]>

/** The engine's message storage, whose reading waits for the end of an outage instead of failing every other second. */
const layerMessages = Layer.effect(
  MessageStorage.MessageStorage,
  Effect.gen(function*() {
    const base = yield* MessageStorage.MessageStorage
    const outage = yield* Outage
    return MessageStorage.MessageStorage.of({
      ...base,
      unprocessedMessages: (shardIds, options) => outage.outlast(base.unprocessedMessages(shardIds, options)),
    })
  }),
).pipe(Layer.provide(SqlMessageStorage.layer), Layer.provide(NodeCrypto.layerDigest))

/** Where the runner of this process listens. */
const listening = Effect.map(SocketServer.SocketServer, ({ address }) => {
  if (address._tag === "UnixPathAddress") throw new Error("the cluster transport listens on TCP")
  return address
})

const layerConfig = (options: ClusterOptions) =>
  Layer.effect(
    ShardingConfig.ShardingConfig,
    Effect.map(listening, ({ port }) => ({
      ...ShardingConfig.defaults,
      ...timing,
      ...options.timing,
      runnerAddress: Option.some(RunnerAddress.make(options.host, port)),
      availableShardGroups: Storage.shardGroups,
      assignedShardGroups: ["default"],
    })),
  )

const layerOwnership = (options: ClusterOptions) =>
  Layer.unwrap(
    Effect.map(listening, ({ port }) => Owners.layer({ name: options.name, address: `${options.host}:${port}` })),
  )

/** Members, the key they share, and the vault that seals with it: over the node's own. */
const layerMembers = (options: ClusterOptions) =>
  Layer.unwrap(Effect.gen(function*() {
    const { dataFolder, joinSecret, reach, version } = options
    const own = yield* Vault
    const keyring = yield* SubscriptionRef.make(yield* Effect.orDie(Keys.load(dataFolder)))
    const secret = joinSecret === null ? null : parseMasterKey(Redacted.value(joinSecret))
    const shared = Layer.mergeAll(
      Layer.succeed(Vault, Keys.sharedVault(own, keyring)),
      Layer.succeed(NodeVault, own),
      Layer.succeed(SharedKeys, Stream.map(SubscriptionRef.changes(keyring), Keys.idsOf)),
    )
    return shared.pipe(
      Layer.provideMerge(
        Joining.layer({ dataFolder, joinSecret: secret === null ? null : Keys.joinSecretOf(secret) }, keyring),
      ),
      Layer.provideMerge(MembersOf.layer({ version: version ?? null, reach: reach ?? null }, keyring)),
    )
  }))

/** The engine of this node. Built when the database is there; once built it lives through outages of it. */
export const layer = (options: ClusterOptions): Layer.Layer<
  | Sharding.Sharding
  | Runners.Runners
  | MessageStorage.MessageStorage
  | Owners.Ownership
  | MembersOf.Members
  | Joining.Membership
  | Presence
  | Vault,
  Transport.TransportRefused | SqlError.SqlError | Owners.NoFreeSlot | KeyNotKept,
  SqlClient.SqlClient | NodeIdentity | Vault | FileSystem.FileSystem
> => {
  const health = RunnerHealth.layerPing.pipe(Layer.provide(Runners.layerRpc))
  return layerImpatient.pipe(
    Layer.provideMerge(SocketRunner.layer),
    Layer.provide(health),
    Layer.provide(Transport.layerClients),
    Layer.provideMerge(layerMessages),
    Layer.provide(Storage.layer),
    Layer.provide(Outage.layer),
    Layer.provideMerge(Presence.layer),
    Layer.provideMerge(layerMembers(options)),
    Layer.provideMerge(layerOwnership(options)),
    Layer.provide(layerConfig(options)),
    Layer.provide(Transport.layerServer(options)),
    Layer.provide(Transport.layerTrusted(options)),
    Layer.provide(RpcSerialization.layerSchemaBinary()),
  )
}
