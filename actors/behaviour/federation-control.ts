/**
 * Control of cameras: {@link Controls}, which failover drives, and {@link FailoverGate}, which is asked before something is done.
 *
 * Invariants
 * 1. Until the guardians of this node were asked once after its start, nobody knows: what asks is refused for the moment.
 * 2. A slot of a member of the same cluster is controlled by whoever serves it with the epoch in force; one of a node with a database of
 *    its own by whoever holds it.
 */
import { Controls, type ServedBy } from "#actors/protocol/federation-control.ts"
import { type ControlRefused, FailoverGate, type Served } from "#actors/protocol/federation-gate.ts"
import { moving } from "#cluster/ask.ts"
import { type Owner, Ownership } from "#cluster/ownership.ts"
import type { NodeId } from "#schema/common.ts"
import { ControlElsewhere } from "#schema/federation-failover.ts"
import { DependencyUnavailable } from "#schema/problem.ts"
import { Context, Effect, Layer } from "effect"

const unknown = () =>
  new DependencyUnavailable({
    dependency: "node",
    message: "Whether another node serves these cameras is being asked; try again.",
  })

const elsewhere = (nodeId: NodeId) => Effect.fail(new ControlElsewhere({ nodeId }))

const make = Effect.gen(function*() {
  const ownership = yield* Ownership
  const self = ownership.nodeId
  const held = new Map<NodeId, number>()
  let asked = false
  let servedBy: ServedBy | null = null

  /** The slot as this node serves it, with the epoch that was named. */
  const served = Effect.fnUntraced(function*({ epoch, slot }: Served): Effect.fn.Return<Owner, ControlRefused> {
    const owner = (yield* ownership.owners).find((one) => one.slot === slot)
    if (owner === undefined) return yield* moving()
    if (owner.nodeId !== self) return yield* elsewhere(owner.nodeId)
    if (owner.epoch !== epoch) return yield* moving()
    return owner
  })
  const controlled = Effect.fnUntraced(function*(of: Served): Effect.fn.Return<Owner, ControlRefused> {
    const owner = yield* served(of)
    const { adopted, homeNodeId } = owner
    if (homeNodeId === self) {
      if (!asked) return yield* unknown()
      if (servedBy?.control === true) return yield* elsewhere(servedBy.nodeId)
    } else if (adopted && held.get(homeNodeId) !== of.epoch) return yield* elsewhere(homeNodeId)
    return owner
  })
  const serving = Effect.map(
    ownership.owners,
    (owners) => owners.find(({ homeNodeId, nodeId }) => nodeId === self && homeNodeId !== self)?.homeNodeId ?? null,
  )

  const gate: typeof FailoverGate["Service"] = {
    mayControl: (of) => Effect.asVoid(controlled(of)),
    mayChange: (of) => Effect.map(controlled(of), ({ adopted, homeNodeId }) => adopted ? homeNodeId : null),
    mayDelete: Effect.fnUntraced(function*(of) {
      const { adopted, homeNodeId } = yield* controlled(of)
      if (adopted) return yield* elsewhere(homeNodeId)
      if (homeNodeId === self && servedBy !== null) return yield* elsewhere(servedBy.nodeId)
    }),
    mayReleaseLicense: Effect.gen(function*() {
      if (!asked) return yield* unknown()
      const other = servedBy?.nodeId ?? (yield* serving)
      if (other !== null) return yield* elsewhere(other)
    }),
  }
  return Context.make(FailoverGate, gate).pipe(Context.add(
    Controls,
    Controls.of({
      servedBy: () => Effect.sync(() => servedBy),
      tellServedBy: (now) =>
        Effect.sync(() => {
          asked = true
          servedBy = now
        }),
      hold: (homeNodeId, epoch) =>
        Effect.sync(() => {
          if (epoch === null) held.delete(homeNodeId)
          else held.set(homeNodeId, epoch)
        }),
    }),
  ))
})

export const layer = Layer.effectContext(make)
