/**
 * How a home node's cameras come back: drives `cluster/homecoming.ts`, asks the guardians who serves, and tells the gate of what may be done
 * meanwhile.
 *
 * Invariants
 * 1. The state is on record before a command of it is carried out.
 * 2. It agrees to serve again when what was changed elsewhere of its configuration is in force here (`federation-journal.ts`), unless an
 *    administrator decided otherwise, and every recording that can has a picture of the new epoch on its disk.
 * 3. A node that lost its configuration takes no cameras back: they are recorded where they are known.
 * 4. In a cluster the database tells who took the slot, also while nobody can be asked, and this node takes it back by moving it.
 */
import { CameraBundles } from "#actors/protocol/camera-bundle.ts"
import { Controls } from "#actors/protocol/federation-control.ts"
import { FailoverJournals } from "#actors/protocol/federation-journal.ts"
import { type Peer, Peers } from "#actors/protocol/federation-peer.ts"
import { RecordBundles } from "#actors/protocol/record-bundle.ts"
import { FailoverStore } from "#actors/store/federation-failover.ts"
import {
  defaultHomecoming,
  Homecoming,
  homecoming,
  type HomecomingCommand,
  type HomecomingEvent,
  homeStep,
  isRerouted,
} from "#cluster/homecoming.ts"
import { Ownership } from "#cluster/ownership.ts"
import type { NodeId } from "#schema/common.ts"
import { ConfigurationLost, EpochRefused, GuardianNotGranted, type ReturnRequest } from "#schema/federation-failover.ts"
import { RerouteStatus } from "#schema/federation-protection.ts"
import { StaleEpoch } from "#schema/ownership.ts"
import { DependencyUnavailable } from "#schema/problem.ts"
import { Duration, Effect, Schedule, Schema, Semaphore } from "effect"
import { chore } from "./chore.ts"
import { monotonicMs } from "./federation-failover-heartbeat.ts"

/** Between two questions to the guardians who serves. */
const askEvery = Duration.millis(1_500)
/** Of one guardian: a node whose guardians are away may control soon after its start. */
const askLimit = Duration.seconds(2)
const tickEvery = Duration.millis(500)
/** A camera that does not come within this is recorded when it does; the others are not kept waiting. */
const firstPictureLimit = Duration.seconds(10)
/** Of the changes of one guardian, where nobody waits for them. */
const changesLimit = Duration.seconds(5)
const lookEvery = Duration.millis(200)
/** Between two attempts at changes that could not be taken; doubles. */
const againMs = { first: 1_500, most: 30_000 } as const

const path = "/federation/api/v1/federation/failover/reroute-status"
const decodeKept = Schema.decodeUnknownEffect(Schema.toCodecJson(Homecoming))
const encodeKept = Schema.encodeSync(Schema.toCodecJson(Homecoming))

const databaseAway = () =>
  new DependencyUnavailable({ dependency: "database", message: "The database does not answer; try again in a moment." })

/** A person reads it at the guardian. */
const changesAway = (error: { readonly message: string }) =>
  new DependencyUnavailable({
    dependency: "node",
    message: `What was changed of its cameras at the guardian could not be taken: ${error.message}`,
  })

export const makeReturn = Effect.gen(function*() {
  const [store, ownership, peers, controls] = yield* Effect.all([FailoverStore, Ownership, Peers, Controls])
  const [cameraBundles, recordBundles, journals] = yield* Effect.all([CameraBundles, RecordBundles, FailoverJournals])
  const { nodeId, slot } = ownership
  const epochNow = Effect.map(ownership.epochOf(slot), (epoch) => epoch ?? 0)
  /** The member of this cluster that serves the slot in this node's stead. */
  const taker = Effect.map(ownership.owners, (all) => all.find((one) => one.slot === slot && one.nodeId !== nodeId))
  const one = yield* Semaphore.make(1)

  const kept = yield* store.homecoming(nodeId)
  const taken = yield* taker
  const fresh = homecoming(nodeId, taken === undefined ? yield* epochNow : taken.epoch - 1, yield* monotonicMs)
  const unreadable = (error: unknown) =>
    Effect.as(Effect.logError("What is known of coming home cannot be read; it begins anew", error), fresh)
  const known = kept === null ? fresh : yield* decodeKept(kept).pipe(Effect.catch(unreadable))
  let state: Homecoming = taken === undefined ? { ...known, epoch: fresh.epoch } : known

  const raise = Effect.fnUntraced(function*(epoch: number) {
    const other = (yield* ownership.refresh).find((one) => one.slot === slot && one.nodeId !== nodeId)
    if (other !== undefined) {
      if (other.epoch >= epoch) return yield* new StaleEpoch({ slot, epoch, inForce: other.epoch })
      yield* ownership.move(slot, nodeId, other.epoch)
    }
    yield* ownership.raise(slot, epoch)
    // At once, not at the next look of the activation loop.
    const starting = Effect.flatMap(cameraBundles.ids(slot), (ids) => cameraBundles.start(slot, ids))
    yield* Effect.forkDetach(chore("Starting the cameras that came home", starting))
  })
  /** Answers what the machine wants besides raising the epoch, which is done here. */
  const feed = (event: HomecomingEvent): Effect.Effect<ReadonlyArray<HomecomingCommand>, DependencyUnavailable> =>
    Effect.gen(function*() {
      const before = state
      const next = homeStep(before, event, defaultHomecoming, yield* monotonicMs)
      const changed = next.state.turns !== before.turns || next.state.epoch !== before.epoch ||
        next.state.guardians !== before.guardians
      if (changed || next.commands.some(({ type }) => type === "raise")) {
        yield* store.setHomecoming(nodeId, encodeKept(next.state))
      }
      state = next.state
      for (const command of next.commands) {
        if (command.type !== "raise") continue
        const done = yield* Effect.exit(raise(command.epoch))
        yield* feed(done._tag === "Success" ? { type: "raised", epoch: command.epoch } : { type: "raiseFailed" })
      }
      return next.commands
    })
  const tell = (event: HomecomingEvent) => one.withPermits(1)(feed(event))

  const askOne = (guardian: Peer) =>
    peers.call(
      guardian.nodeId,
      { method: "GET", path: `${path}?homeNodeId=${nodeId}`, timeout: askLimit },
      RerouteStatus,
    )
      .pipe(Effect.catch(() => Effect.succeed(null)))
  /** What was changed there is in force here when it returns. */
  const takeChanges = (guardian: NodeId) =>
    journals.take(guardian).pipe(
      Effect.tapCause((cause) =>
        Effect.logWarning("The changes of a guardian cannot be taken now", { guardian, cause })
      ),
    )
  const waits = new Map<NodeId, { readonly untilMs: number; readonly waitMs: number }>()
  /** Where they cannot be taken, less and less often. */
  const takeSoon = Effect.fnUntraced(function*(guardian: NodeId) {
    const wait = waits.get(guardian)
    if (wait !== undefined && (yield* monotonicMs) < wait.untilMs) return
    const exit = yield* Effect.exit(Effect.timeout(takeChanges(guardian), changesLimit))
    if (exit._tag === "Success") return void waits.delete(guardian)
    const waitMs = Math.min(againMs.most, wait === undefined ? againMs.first : 2 * wait.waitMs)
    waits.set(guardian, { untilMs: (yield* monotonicMs) + waitMs, waitMs })
  })
  const askGuardians = Effect.gen(function*() {
    const granted = (yield* peers.list()).filter((peer) => peer.guardianGranted)
    const ids = granted.map((peer) => peer.nodeId)
    if (ids.join() !== state.guardians.join()) yield* tell({ type: "guardians", guardians: ids })
    const answers = (yield* Effect.forEach(granted, askOne, { concurrency: 8 })).filter((answer) => answer !== null)
    for (const status of answers) yield* tell({ type: "answered", status })
    for (const { changes = 0, nodeId: guardian, phase } of answers) {
      // It serves no more: before this node controls again, but not for long.
      if (changes > 0 && phase === "none") yield* takeSoon(guardian)
    }
    const [serving] = answers.filter(({ phase }) => phase !== "none").toSorted((a, b) => b.epoch - a.epoch)
    const last = state.turns.at(-1)
    yield* controls.tellServedBy(
      serving !== undefined ?
        { nodeId: serving.nodeId, epoch: serving.epoch, control: serving.control } :
        // It took a turn that has not come back, and does not answer.
        last !== undefined && isRerouted(state) ?
        { nodeId: last.nodeId, epoch: last.epoch, control: false } :
        null,
    )
  })
  yield* chore("Beginning to come home", tell({ type: "started" }))
  // Whom nobody may guard nobody keeps waiting.
  if ((yield* peers.list()).every((peer) => !peer.guardianGranted)) yield* controls.tellServedBy(null)
  yield* Effect.forkScoped(Effect.repeat(chore("Asking the guardians", askGuardians), Schedule.spaced(askEvery)))
  const tick = Effect.gen(function*() {
    const other = yield* taker
    if (other !== undefined && !state.turns.some(({ epoch }) => epoch === other.epoch)) {
      const { epoch, nodeId: taker } = other
      const turns = [{ epoch, nodeId: taker }]
      const status = { nodeId: taker, homeNodeId: nodeId, phase: "none", epoch, control: false, turns } as const
      yield* tell({ type: "answered", status })
    }
    const denied = yield* controls.denied(nodeId)
    if (denied !== null && denied.inForce > Math.max(state.epoch, state.turns.at(-1)?.epoch ?? 0)) {
      yield* tell({ type: "leaseDenied", ...denied })
    }
    yield* tell({ type: "tick" })
  })
  yield* Effect.forkScoped(Effect.repeat(chore("Coming home", tick), Schedule.spaced(tickEvery)))

  const untilRecorded = (epoch: number) =>
    recordBundles.stored(slot, epoch).pipe(
      Effect.repeat({
        schedule: Schedule.spaced(lookEvery),
        until: (stored) => stored.every(({ firstMs }) => firstMs !== null),
      }),
      Effect.timeoutOption(firstPictureLimit),
      Effect.asVoid,
    )

  /** A guardian gives the cameras back: answers the epoch with which they are recorded here. */
  return Effect.fn("Failovers.comeBack")(
    function*(asker: NodeId, { cameras = 0, epoch, turns, withoutChanges }: typeof ReturnRequest.Type) {
      // Before this node controls again: its cameras go on as they were there.
      const granted = (yield* peers.list()).some((peer) => peer.guardianGranted && peer.nodeId === asker)
      if (granted && withoutChanges === true) {
        yield* Effect.logWarning("An administrator of the guardian gives the cameras back before their changes", {
          guardian: asker,
        })
      } else if (granted) yield* Effect.mapError(takeChanges(asker), changesAway)
      // Nobody would record them: on new hardware a node may be itself and know nothing.
      if (granted && cameras > 0 && withoutChanges !== true && (yield* cameraBundles.ids(slot)).length === 0) {
        return yield* new ConfigurationLost({ cameras })
      }
      const commands = yield* tell({ type: "giveBack", from: asker, epoch, turns })
      for (const command of commands) {
        if (command.type === "refuse") {
          return yield* command.code === "not_granted" ?
            new GuardianNotGranted({ nodeId: asker }) :
            new EpochRefused({ inForce: command.inForce, detail: "A change of the serving node was left out" })
        }
        if (command.type === "agree") {
          if ((yield* epochNow) < command.epoch) return yield* databaseAway()
          yield* untilRecorded(command.epoch)
          return command.epoch
        }
      }
      return yield* databaseAway()
    },
  )
})
