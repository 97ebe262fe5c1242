/**
 * A node in a process of its own, for tests that kill, freeze and starve nodes: the real wiring with a small entity, asked by JSON
 * lines on standard input. The first argument is its options as JSON.
 *
 * `{ id, ask: entityId }`, `{ id, move: { slot, nodeId, epoch } }`, `{ id, write: { slot, epoch } }`, `{ id, owners: true }`,
 * `{ id, members: true }`,
 * `{ id, approve: { nodeId, signingKey } }`, `{ id, remove: nodeId }`, `{ id, seal: text }`, `{ id, open: sealed }`, `{ id, self: true }` → `{ id, value }` or `{ id, error }`
 */
import { Late, lateLayer } from "#actors/protocol/late.ts"
import { fenced } from "#actors/store/fence.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import { type HttpReach, type Member, Members } from "#cluster/members.ts"
import { Membership } from "#cluster/membership.ts"
import { type Owner, Ownership } from "#cluster/ownership.ts"
import { layer } from "#ops/node.ts"
import { NodeId } from "#schema/common.ts"
import { shardGroupOf, Slot } from "#schema/ownership.ts"
import { DependencyUnavailable } from "#schema/problem.ts"
import { Vault } from "#schema/vault.ts"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Context, Duration, Effect, Layer, Redacted, Schema, SubscriptionRef } from "effect"
import { ClusterSchema, Entity } from "effect/cluster"
import { Rpc } from "effect/rpc"
import { SqlClient } from "effect/sql"
import { randomUUID } from "node:crypto"
import { createInterface } from "node:readline"

const options = JSON.parse(process.argv[2]!) as {
  readonly dataFolder: string
  readonly databaseUrl: string | null
  readonly name: string
  readonly joinSecret?: string
}

const Answer = Schema.Struct({ nodeId: Schema.String, boot: Schema.String, count: Schema.Int })
const Probe = Entity.make("Probe", [Rpc.make("Who", { success: Answer })]).annotate(
  ClusterSchema.ShardGroup,
  shardGroupOf,
)

const ProbeEntity = Probe.toLayer(
  Effect.gen(function*() {
    const { nodeId } = yield* Ownership
    const boot = randomUUID()
    let count = 0
    return Probe.of({ Who: () => Effect.sync(() => ({ nodeId, boot, count: ++count })) })
  }),
  { maxIdleTime: Duration.infinity, disableFatalDefects: true },
)

type Late503<A> = Effect.Effect<A, DependencyUnavailable>

class Probes extends Context.Service<Probes, {
  readonly ask: (entityId: string) => Late503<typeof Answer.Type>
  readonly owners: () => Late503<ReadonlyArray<Owner>>
  readonly members: () => Late503<ReadonlyArray<Member>>
  readonly approve: (nodeId: string, signingKey: string) => Late503<unknown>
  readonly remove: (nodeId: string) => Late503<unknown>
  readonly seal: (text: string) => Late503<string>
  readonly open: (sealed: string) => Late503<unknown>
  readonly move: (slot: string, nodeId: string, epoch: number) => Late503<unknown>
  readonly write: (slot: string, epoch: number) => Late503<unknown>
}>()("test/Probes") {}

const databaseAway = () => new DependencyUnavailable({ dependency: "database", message: "away" })

const ProbesLive = Layer.effect(
  Probes,
  Effect.gen(function*() {
    const client = yield* Probe.client
    const ownership = yield* Ownership
    const members = yield* Members
    const membership = yield* Membership
    const vault = yield* Vault
    const refused = <A, E extends { readonly _tag: string }>(work: Effect.Effect<A, E>) =>
      Effect.match(work, { onSuccess: (): unknown => "done", onFailure: (error) => error._tag })
    const sql = yield* SqlClient.SqlClient
    return Probes.of({
      ask: (entityId) => client(entityId).Who().pipe(Effect.timeout("10 seconds"), Effect.mapError(databaseAway)),
      owners: () => ownership.owners,
      members: () => members.list,
      approve: (nodeId, signingKey) => refused(membership.approve(NodeId.make(nodeId), signingKey)),
      remove: (nodeId) => refused(membership.remove(NodeId.make(nodeId))),
      seal: (text) => vault.seal("probe", Redacted.make(text)),
      open: (sealed) =>
        Effect.match(vault.open("probe", sealed), { onSuccess: Redacted.value, onFailure: ({ reason }) => reason }),
      move: (slot, nodeId, epoch) =>
        ownership.move(Slot.make(slot), NodeId.make(nodeId), epoch).pipe(
          Effect.catchTags({ SqlError: databaseAway, StaleEpoch: (stale) => Effect.succeed({ stale: stale.inForce }) }),
        ),
      write: (slot, epoch) =>
        fenced({ slot: Slot.make(slot), epoch }, sql`SELECT 1`).pipe(
          Effect.as("written"),
          Effect.provideService(SqlClient.SqlClient, sql),
          Effect.catchTags({ SqlError: databaseAway, StaleEpoch: (stale) => Effect.succeed({ stale: stale.inForce }) }),
        ),
    })
  }),
)

interface Request {
  readonly id: number
  readonly ask?: string
  readonly owners?: true
  readonly members?: true
  readonly approve?: { readonly nodeId: string; readonly signingKey: string }
  readonly remove?: string
  readonly seal?: string
  readonly open?: string
  readonly self?: true
  readonly move?: { readonly slot: string; readonly nodeId: string; readonly epoch: number }
  readonly write?: { readonly slot: string; readonly epoch: number }
}

/** Stands where HTTP stands: there from the start, asking services that come late. */
const Lines = Layer.effectDiscard(Effect.gen(function*() {
  const probes = yield* Probes
  const late = yield* Late
  const { nodeId } = yield* NodeIdentity
  const answer = (request: Request): Late503<unknown> => {
    if (request.ask !== undefined) return probes.ask(request.ask)
    if (request.move !== undefined) return probes.move(request.move.slot, request.move.nodeId, request.move.epoch)
    if (request.write !== undefined) return probes.write(request.write.slot, request.write.epoch)
    if (request.self === true) return Effect.map(late.present, (present) => ({ nodeId, present }))
    if (request.members === true) return probes.members()
    if (request.approve !== undefined) return probes.approve(request.approve.nodeId, request.approve.signingKey)
    if (request.remove !== undefined) return probes.remove(request.remove)
    if (request.seal !== undefined) return probes.seal(request.seal)
    if (request.open !== undefined) return probes.open(request.open)
    return probes.owners()
  }
  const context = yield* Effect.context<never>()
  const lines = createInterface({ input: process.stdin })
  yield* Effect.acquireRelease(
    Effect.sync(() =>
      lines.on("line", (line) => {
        const request = JSON.parse(line) as Request
        Effect.runForkWith(context)(
          answer(request).pipe(
            Effect.match({
              onSuccess: (value) => ({ id: request.id, value }),
              onFailure: (error) => ({ id: request.id, error: error._tag }),
            }),
            Effect.flatMap((reply) =>
              Effect.sync(() => process.stdout.write(`${JSON.stringify(reply)}\n`))
            ),
          ),
        )
      })
    ),
    () => Effect.sync(() => lines.close()),
  )
})).pipe(Layer.provide(lateLayer(Probes)))

const reach = Effect.runSync(
  SubscriptionRef.make<HttpReach | null>({ address: `http://${options.name}`, tlsPin: null }),
)

layer({
  dataFolder: options.dataFolder,
  name: options.name,
  masterKey: null,
  databaseUrl: options.databaseUrl === null ? null : Redacted.make(options.databaseUrl),
  cluster: {
    host: "127.0.0.1",
    port: 0,
    joinSecret: options.joinSecret === undefined ? null : Redacted.make(options.joinSecret),
    version: "probe",
    reach,
  },
}, {
  recorder: Layer.empty,
  control: ProbesLive.pipe(Layer.provideMerge(ProbeEntity)),
  http: Lines,
}).pipe(Layer.provide(NodeFileSystem.layer), Layer.launch, NodeRuntime.runMain)
