/**
 * The engine's runner storage, taught two things: slots have owners, and an outage of PostgreSQL takes no slot away.
 *
 * The engine spreads the shards of a group over all runners that list the group, and stops every entity when it cannot refresh
 * its locks. Here the runners register for `default` only; for each claimed slot `getRunners` adds a *virtual* entry at the
 * address of the slot's owner, which alone lists the slot. So a takeover is one update of `group_owner`.
 *
 * Invariants
 * 1. Ownership decides alone where a slot is served. That the owner's heartbeat is late does not matter to the owner itself.
 * 2. Sticky: while PostgreSQL is away, the shards of the slots this node serves stay. When it is back, ownership is read first; lost
 *    locks are taken again only for slots that are still ours, and only where nobody else holds them.
 * 3. `default` (workflows, singletons) stays fenced as the engine does it: no refreshed lock, no entity.
 * 4. Each virtual entry has a weight of its own, as the engine tells runners apart by address and weight.
 */
import { Cause, Duration, Effect, Layer } from "effect"
import { ClusterError, Runner, RunnerStorage, type ShardId, ShardingConfig, SqlRunnerStorage } from "effect/cluster"
import type { SqlClient, SqlError } from "effect/sql"
import { type Slot, slots } from "#schema/ownership.ts"
import { Outage } from "./outage.ts"
import { type Owner, Ownership } from "./ownership.ts"

type Storage = RunnerStorage.RunnerStorage["Service"]
type Registered = readonly [runner: Runner.Runner, healthy: boolean]

/** Groups every node knows, in the order that lock numbers come from. */
export const shardGroups: ReadonlyArray<string> = ["default", ...slots]

const weights: ReadonlyMap<Slot, number> = new Map(slots.map((slot, n) => [slot, 1 + (n + 1) / 1024]))

const textOf = (address: { readonly host: string; readonly port: number }) => `${address.host}:${address.port}`

/**
 * What `getRunners` answers: the registered runners and a virtual one per slot whose owner can be reached.
 * @param self This node. It is there for its own slots even while its heartbeat is late, and for no others: an address may have
 *   been another node's once.
 */
export const withVirtualRunners = (
  registered: ReadonlyArray<Registered>,
  owners: ReadonlyArray<Owner>,
  self: { readonly nodeId: string; readonly address: Runner.Runner["address"] },
): Array<Registered> => {
  const byAddress = new Map(registered.map((entry) => [textOf(entry[0].address), entry]))
  byAddress.delete(textOf(self.address))
  return [
    ...registered,
    ...owners.flatMap((owner): ReadonlyArray<Registered> => {
      const own = owner.nodeId === self.nodeId
      const entry = byAddress.get(owner.address)
      const address = own ? self.address : entry?.[0].address
      if (address === undefined) return []
      return [[Runner.make({ address, groups: [owner.slot], weight: weights.get(owner.slot)! }), own || entry?.[1] === true]]
    }),
  ]
}

/** Shards of the slots that `nodeId` serves. */
const servedOf = (shards: ReadonlyArray<ShardId.ShardId>, owners: ReadonlyArray<Owner>, nodeId: string) => {
  const served = new Set<string>(owners.flatMap((owner) => owner.nodeId === nodeId ? [owner.slot] : []))
  return shards.filter((shard) => served.has(shard.group))
}

const decorate = Effect.fnUntraced(function*(base: Storage) {
  const ownership = yield* Ownership
  const outage = yield* Outage
  const config = yield* ShardingConfig.ShardingConfig
  // The engine gives a refresh one interval, of which it spends all if a server neither answers nor refuses; half leaves room.
  const interval = Math.min(Duration.toMillis(config.shardLockRefreshInterval), Duration.toMillis(config.shardLockExpiration) / 3)
  const patience = interval / 2

  const regain = (address: Runner.Runner["address"], lost: ReadonlyArray<ShardId.ShardId>) =>
    Effect.gen(function*() {
      const owners = yield* ClusterError.PersistenceError.refail(ownership.refresh)
      const ours = servedOf(lost, owners, ownership.nodeId)
      if (ours.length === 0) return []
      const regained = yield* base.acquire(address, ours)
      yield* Effect.logInfo(`${regained.length} of ${ours.length} lost shard locks taken again`)
      return regained
    })

  const refresh: Storage["refresh"] = (address, shardIds) => {
    const wanted = Array.from(shardIds)
    if (wanted.length === 0) return Effect.tap(base.refresh(address, wanted), outage.ended)
    return base.refresh(address, wanted).pipe(
      Effect.flatMap((held) => {
        const lost = wanted.filter((shard) => !held.includes(shard))
        return lost.length === 0 ? Effect.succeed(held) : Effect.map(regain(address, lost), (regained) => [...held, ...regained])
      }),
      Effect.timeout(patience),
      Effect.tap(outage.ended),
      Effect.catchCause((cause) =>
        Effect.gen(function*() {
          if (Cause.hasInterruptsOnly(cause)) return yield* Effect.interrupt
          yield* outage.began
          const kept = servedOf(wanted, yield* ownership.owners, ownership.nodeId)
          if (kept.length === 0) return yield* new ClusterError.PersistenceError({ cause: Cause.squash(cause) })
          return kept
        })
      ),
    )
  }

  return RunnerStorage.RunnerStorage.of({
    ...base,
    getRunners: Effect.gen(function*() {
      const registered = yield* base.getRunners
      const owners = yield* ClusterError.PersistenceError.refail(ownership.refresh)
      return config.runnerAddress._tag === "Some" ? withVirtualRunners(registered, owners, { nodeId: ownership.nodeId, address: config.runnerAddress.value }) : registered
    }),
    refresh,
    // The engine would repeat a failed release every 50 ms, for each shard of `default`.
    release: (address, shardId) => outage.outlast(base.release(address, shardId)),
  })
})

/** Runner storage of this node, over the engine's own tables. */
export const layer: Layer.Layer<
  RunnerStorage.RunnerStorage,
  SqlError.SqlError,
  Ownership | Outage | SqlClient.SqlClient | ShardingConfig.ShardingConfig
> = Layer.effect(RunnerStorage.RunnerStorage, Effect.flatMap(SqlRunnerStorage.make({}), decorate))
