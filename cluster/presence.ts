/**
 * Which members of the cluster answer, as their heartbeats tell; and calls of entities that do not wait for one that does not.
 *
 * Invariants
 * 1. Of whom nothing was told nothing is assumed: a call waits for it as for any other.
 * 2. A call to an entity of a node that counts as dead fails at once, with that node's name; one of a node that fell silent, once the call has
 *    waited {@link patience}. Where the slot moves meanwhile, its new owner is waited for instead.
 * 3. What this node serves itself is asked without any of it.
 */
import type { NodeId } from "#schema/common.ts"
import type { NodeState } from "#schema/federation.ts"
import { parseEntityId, type Slot } from "#schema/ownership.ts"
import { DependencyUnavailable } from "#schema/problem.ts"
import { Context, Duration, Effect, Layer } from "effect"
import { Sharding } from "effect/cluster"
import { Members } from "./members.ts"
import { Ownership } from "./ownership.ts"

/** Of a call to a node that has not been heard for a moment. A node that was killed is suspect before this is over. */
const patience = Duration.seconds(2)
const lookEvery = Duration.millis(250)

/** A member that serves a slot. */
export interface Server {
  readonly nodeId: NodeId
  readonly name: string
  /** Null: nothing was told of it. */
  readonly state: NodeState | null
}

export class Presence extends Context.Service<Presence, {
  /** Null: nothing is known any more. */
  readonly tell: (nodeId: NodeId, state: NodeState | null) => Effect.Effect<void>
  /** Who serves a slot; null where that is this node, or no member. */
  readonly serverOf: (slot: Slot) => Effect.Effect<Server | null>
  /** Null where that is this node, or none that was admitted. */
  readonly member: (nodeId: NodeId) => Effect.Effect<Server | null>
}>()("nightjar/cluster/Presence") {
  static readonly layer = Layer.effect(
    Presence,
    Effect.gen(function*() {
      const [members, ownership] = yield* Effect.all([Members, Ownership])
      const states = new Map<NodeId, NodeState>()
      const member = Effect.fnUntraced(function*(nodeId: NodeId) {
        if (nodeId === ownership.nodeId) return null
        const found = (yield* members.list).find((one) => one.admitted && one.nodeId === nodeId)
        return found === undefined ? null : { nodeId, name: found.name, state: states.get(nodeId) ?? null }
      })
      return Presence.of({
        member,
        tell: (nodeId, state) =>
          Effect.sync(() => {
            if (state === null) states.delete(nodeId)
            else states.set(nodeId, state)
          }),
        serverOf: Effect.fnUntraced(function*(slot) {
          const owner = (yield* ownership.owners).find((one) => one.slot === slot)
          return owner === undefined ? null : yield* member(owner.nodeId)
        }),
      })
    }),
  )
}

/** What is said where the node that serves something is away. */
export const serverAway = (name: string): DependencyUnavailable =>
  new DependencyUnavailable({
    dependency: "node",
    message: `The node "${name}" serves this and does not answer; try again in a moment.`,
  })

/** Fails once the node that serves the slot is given up; otherwise never ends. */
const givenUp = Effect.fnUntraced(function*(presence: Presence["Service"], slot: Slot) {
  let waited = 0
  while (true) {
    const server = yield* presence.serverOf(slot)
    const silent = server?.state === "suspect" && waited >= Duration.toMillis(patience)
    if (server !== null && (server.state === "offline" || silent)) return yield* serverAway(server.name)
    yield* Effect.sleep(lookEvery)
    waited += Duration.toMillis(lookEvery)
  }
})

/** The engine, whose clients keep invariant 2. */
export const layerImpatient: Layer.Layer<Sharding.Sharding, never, Sharding.Sharding | Presence> = Layer.effect(
  Sharding.Sharding,
  Effect.gen(function*() {
    const [base, presence] = yield* Effect.all([Sharding.Sharding, Presence])
    const limited = (slot: Slot, call: Effect.Effect<unknown, unknown>) =>
      Effect.flatMap(presence.serverOf(slot), (server) =>
        server === null ? call : Effect.raceFirst(givenUp(presence, slot), call))
    /** The methods of a client are known to the type system alone, as the engine's own client is a proxy. */
    const watched = <Client extends object>(client: Client, slot: Slot): Client =>
      new Proxy(client, {
        get: (target, name) => {
          const method: unknown = Reflect.get(target, name)
          if (typeof method !== "function") {
            return method
          }
          return (...given: ReadonlyArray<unknown>): unknown => {
            const call: unknown = Reflect.apply(method, target, given)
            return Effect.isEffect(call) ?
              limited(slot, call as Effect.Effect<unknown, unknown>) :
              call
          }
        },
      })
    return Sharding.Sharding.of({
      ...base,
      makeClient: (entity) =>
        Effect.map(base.makeClient(entity), (clientOf) => (entityId) => {
          const home = parseEntityId(entityId)
          return home === null ? clientOf(entityId) : watched(clientOf(entityId), home.slot)
        }),
    })
  }),
)
