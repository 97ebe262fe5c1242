/**
 * The engine's runner storage, taught two things: slots have owners, and an outage of PostgreSQL takes no slot away.
 *
 * The engine spreads the shards of a group over all runners that list the group, and stops every entity when it cannot refresh
 * its locks. Here the runners register for `default` only; for each claimed slot `getRunners` adds a *virtual* entry at the
 * address of the slot's owner, which alone lists the slot. So a takeover is one update of `group_owner`.
 *
 * Invariants
 * 1. Ownership decides alone where a slot is served. That the owner's heartbeat is late does not matter to the owner itself.
 * 2. Sticky: while PostgreSQL is away, the shards of the slots this node serves stay. When it is back, ownership is read first:
 *    what was moved is given up, and for the rest the lost locks are taken again. A lock that is still held (by our own session of
 *    before, until the server notices its end) is tried with each refresh; nobody else may want it, as ownership says.
 * 3. An entity lives within one epoch: a slot that was moved away and back meanwhile is dropped and taken anew.
 * 4. `default` (workflows, singletons) stays fenced as the engine does it: no refreshed lock, no entity.
 * 5. Who is not admitted to the cluster runs nothing for others and is sent nothing; a node that is not admitted itself knows only its own
 *    slots.
 * 6. Each virtual entry has a weight of its own, as the engine tells runners apart by address and weight.
 */
import { type Slot, slots } from "#schema/ownership.ts"
import { Cause, Duration, Effect, Layer, Option } from "effect"
import { ClusterError, Runner, RunnerStorage, type ShardId, ShardingConfig, SqlRunnerStorage } from "effect/cluster"
import type { SqlClient, SqlError } from "effect/sql"
import { type Member, Members } from "./members.ts"
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
      return [[
        Runner.make({ address, groups: [owner.slot], weight: weights.get(owner.slot)! }),
        own || entry?.[1] === true,
      ]]
    }),
  ]
}

/**
 * The registered runners that may run something: those of admitted nodes. A node that is not admitted itself keeps its own entry, which
 * the engine wants to see, as one that is not well: it gets no share of `default`.
 */
export const ofMembers = (
  registered: ReadonlyArray<Registered>,
  members: ReadonlyArray<Pick<Member, "address" | "admitted">>,
  self: string | null,
): ReadonlyArray<Registered> => {
  const admitted = new Set(members.flatMap((member) => member.admitted ? [member.address] : []))
  return registered.flatMap(([runner, healthy]): ReadonlyArray<Registered> => {
    const address = textOf(runner.address)
    return admitted.has(address) ? [[runner, healthy]] : address === self ? [[runner, false]] : []
  })
}

/** {@link layer} over another storage: `base` holds the locks. */
export const decorate = Effect.fnUntraced(function*(base: Storage) {
  const ownership = yield* Ownership
  const members = yield* Members
  const outage = yield* Outage
  const config = yield* ShardingConfig.ShardingConfig
  // The engine gives a refresh one interval, of which it spends all if a server neither answers nor refuses; half leaves room.
  const interval = Math.min(
    Duration.toMillis(config.shardLockRefreshInterval),
    Duration.toMillis(config.shardLockExpiration) / 3,
  )
  const patience = interval / 2
  /** The epoch in which the shards of a group were acquired. */
  const acquiredIn = new Map<string, number>()

  /** Whether this node serves the shard's slot, still in the epoch in which it acquired the shard. */
  const stillOurs = (owners: ReadonlyArray<Owner>) => {
    const inForce = new Map<string, number>(
      owners.flatMap((owner) => owner.nodeId === ownership.nodeId ? [[owner.slot, owner.epoch]] : []),
    )
    return ({ group }: ShardId.ShardId) => inForce.has(group) && inForce.get(group) === acquiredIn.get(group)
  }

  const acquire: Storage["acquire"] = (address, shardIds) =>
    Effect.gen(function*() {
      const owners = yield* ownership.owners
      const acquired = yield* base.acquire(address, shardIds)
      for (const { group } of acquired) {
        const owner = owners.find(({ slot, nodeId }) => slot === group && nodeId === ownership.nodeId)
        if (owner !== undefined) acquiredIn.set(group, owner.epoch)
      }
      return acquired
    })

  const confirm = (address: Runner.Runner["address"], wanted: ReadonlyArray<ShardId.ShardId>) =>
    Effect.gen(function*() {
      const held = yield* base.refresh(address, wanted)
      const lost = wanted.filter((shard) => shard.group !== "default" && !held.includes(shard))
      const owners = yield* lost.length === 0 ?
        ownership.owners :
        ClusterError.PersistenceError.refail(ownership.refresh)
      const ours = stillOurs(owners)
      const kept = lost.filter(ours)
      if (kept.length > 0) {
        const regained = yield* base.acquire(address, kept)
        yield* Effect.logInfo(`${regained.length} of ${kept.length} lost shard locks taken again`)
      }
      return [...held.filter((shard) => shard.group === "default" || ours(shard)), ...kept]
    })

  const refresh: Storage["refresh"] = (address, shardIds) => {
    const wanted = Array.from(shardIds)
    if (wanted.length === 0) return Effect.tap(base.refresh(address, wanted), outage.ended)
    return confirm(address, wanted).pipe(
      Effect.timeout(patience),
      Effect.tap(outage.ended),
      Effect.catchCause((cause) =>
        Effect.gen(function*() {
          if (Cause.hasInterruptsOnly(cause)) return yield* Effect.interrupt
          yield* outage.began
          const kept = wanted.filter(stillOurs(yield* ownership.owners))
          if (kept.length === 0) return yield* new ClusterError.PersistenceError({ cause: Cause.squash(cause) })
          return kept
        })
      ),
    )
  }

  return RunnerStorage.RunnerStorage.of({
    ...base,
    getRunners: Effect.gen(function*() {
      const self = Option.getOrNull(config.runnerAddress)
      const registered = ofMembers(yield* base.getRunners, yield* members.list, self === null ? null : textOf(self))
      const owners = yield* ClusterError.PersistenceError.refail(ownership.refresh)
      return self === null ?
        [...registered] :
        withVirtualRunners(registered, owners, { nodeId: ownership.nodeId, address: self })
    }),
    acquire,
    refresh,
    // The engine would repeat a failed release every 50 ms, for each shard of `default`.
    release: (address, shardId) => outage.outlast(base.release(address, shardId)),
  })
})

/** Runner storage of this node, over the engine's own tables. */
export const layer: Layer.Layer<
  RunnerStorage.RunnerStorage,
  SqlError.SqlError,
  Ownership | Members | Outage | SqlClient.SqlClient | ShardingConfig.ShardingConfig
> = Layer.effect(RunnerStorage.RunnerStorage, Effect.flatMap(SqlRunnerStorage.make({}), decorate))
