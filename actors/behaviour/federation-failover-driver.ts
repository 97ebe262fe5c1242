/**
 * The fibers of this node as a guardian: one a protection, ticks and heartbeats in, commands out.
 *
 * Invariants
 * 1. After a start every protection goes on where it was: its state is read, and what was under way is given again.
 * 2. Whoever was released goes for good once nothing of it is left here.
 */
import { Controls } from "#actors/protocol/federation-control.ts"
import { type Peer, Peers } from "#actors/protocol/federation-peer.ts"
import { RecordBacks } from "#actors/protocol/federation-recordback.ts"
import { FailoverStore, type ProtectionRow, type ProtectionTerms } from "#actors/store/federation-failover.ts"
import { Ownership } from "#cluster/ownership.ts"
import { Protection, type ProtectionCommand, register } from "#cluster/protection-state.ts"
import type { NodeId } from "#schema/common.ts"
import type { FailoverSettings, ProtectionId } from "#schema/federation-failover.ts"
import { defaultSettings, RerouteStatus } from "#schema/federation-protection.ts"
import { Clock, Effect, FiberMap, Schedule, Schema, Scope, Stream } from "effect"
import { chore } from "./chore.ts"
import { account, totalOf } from "./federation-failover-capacity.ts"
import { type HeardNode, monotonicMs } from "./federation-failover-heartbeat.ts"
import type { makeLoad } from "./federation-failover-load.ts"
import { type FailoverSettingsKept, windowOpen } from "./federation-failover-settings.ts"
import type { Shadows } from "./federation-failover-shadow.ts"
import type { Snapshots } from "./federation-failover-snapshot.ts"
import type { Takeover } from "./federation-failover-takeover.ts"
import { makeWard, type Ward } from "./federation-failover-ward.ts"

/** The machine wants to know of the time at least twice a second. */
const tickEvery = "200 millis"
const accountEvery = "5 seconds"
const askLimit = "2 seconds"
const recordBackEvery = "2 seconds"

const statusPath = "/federation/api/v1/federation/failover/reroute-status"
const decodeState = Schema.decodeUnknownEffect(Schema.toCodecJson(Protection))

/** What of the settings concerns the machine. */
export const patienceOf = (all: FailoverSettings): Protection["settings"] => ({
  suspectMs: all.suspectMs,
  deadMs: all.deadMs,
  askMs: all.askMs,
  rankWaitMs: all.rankWaitMs,
  retryMs: all.retryMs,
  stableMs: all.stableMs,
  overlapMs: all.overlapMs === 0 ? defaultSettings.overlapMs : all.overlapMs,
  drillMs: all.drillMs,
  failbackAutomatic: all.failbackAutomatic,
})

export interface DriverParts {
  readonly settings: FailoverSettingsKept
  readonly takeover: Takeover
  readonly snapshots: Snapshots
  readonly shadows: Shadows
  readonly load: Effect.Success<typeof makeLoad>
  readonly heard: Stream.Stream<HeardNode>
  readonly publishChange: (ward: Ward, from: string, to: string, reason: string) => Effect.Effect<void>
}

export const makeDriver = ({ heard, load, publishChange, settings, shadows, snapshots, takeover }: DriverParts) =>
  Effect.gen(function*() {
    const [store, ownership, peers] = yield* Effect.all([FailoverStore, Ownership, Peers])
    const [controls, recordBacks] = yield* Effect.all([Controls, RecordBacks])
    const { nodeId } = ownership
    const wards = new Map<ProtectionId, Ward>()
    const fibers = yield* FiberMap.make<ProtectionId>()
    const scope = yield* Effect.scope

    const askOne = (ward: Ward, peer: Peer) =>
      peers.call(peer.nodeId, {
        method: "GET",
        path: `${statusPath}?homeNodeId=${ward.row().homeNodeId}`,
        timeout: askLimit,
      }, RerouteStatus).pipe(
        Effect.flatMap((status) => ward.tell({ type: "answered", status })),
        Effect.catch(() => Effect.void),
      )
    const recordBack = Effect.fnUntraced(
      function*(
        ward: Ward,
        { firstEpoch, lastEpoch, rerouteId }: Extract<ProtectionCommand, { type: "beginRecordBack" }>,
      ) {
        const { homeNodeId, slot } = ward.row()
        if (slot === null) return
        yield* recordBacks.begin({ rerouteId, homeNodeId, slot, firstEpoch, lastEpoch })
        while (!(yield* recordBacks.isOver(rerouteId))) yield* Effect.sleep(recordBackEvery)
        yield* ward.outcome({ type: "recordedBack", rerouteId })
      },
      (work) => Effect.orDie(Effect.retry(work, Schedule.spaced("2 seconds"))),
    )
    /** Among members the database decides: who owns the slot has control. Otherwise a majority of the home node's voters does. */
    const acquire = Effect.fnUntraced(
      function*(ward: Ward, { epoch, override }: Extract<ProtectionCommand, { type: "acquireLease" }>) {
        const { homeNodeId } = ward.row()
        const { relation } = yield* peers.get(homeNodeId)
        if (relation === "peer") yield* controls.want(homeNodeId, { epoch, override, turns: ward.state().turns })
      },
      (work) => Effect.ignore(work),
    )
    /** What the lease is now, told to the machine where it knows otherwise. */
    const tellLease = Effect.fnUntraced(function*(ward: Ward) {
      const { epoch: known, homeNodeId, service } = ward.state()
      if (service === null || service.lease === "none") return
      const owner = (yield* ownership.owners).find((one) => one.slot === ward.row().slot)
      const owned = owner?.nodeId === nodeId && !owner.adopted ? owner.epoch : null
      const held = owned ?? (yield* controls.holds(homeNodeId))
      if (service.lease === "wanted" && held === service.epoch) {
        return yield* ward.tell({ type: "leaseObtained", epoch: held })
      }
      if (service.lease === "held" && held !== service.epoch) return yield* ward.tell({ type: "leaseLost" })
      const denied = yield* controls.denied(homeNodeId)
      if (denied !== null && (denied.turns.at(-1)?.epoch ?? 0) > known) {
        yield* ward.tell({ type: "leaseDenied", turns: denied.turns })
      }
    })
    const carryOut = (ward: Ward, command: ProtectionCommand): Effect.Effect<void> => {
      switch (command.type) {
        case "askRerouteStatus":
          return Effect.flatMap(
            peers.list(),
            (all) => Effect.forEach(all, (peer) => askOne(ward, peer), { concurrency: 8, discard: true }),
          ).pipe(Effect.ignore)
        case "refreshBundle":
          return Effect.asVoid(snapshots.refresh(ward))
        case "dropBundle":
          return Effect.ignore(snapshots.drop(ward))
        case "takeSlot":
          return takeover.take(ward, command)
        case "acquireLease":
          return acquire(ward, command)
        case "releaseLease":
          return controls.release(ward.row().homeNodeId)
        case "giveBack":
          return takeover.giveBack(ward, command)
        case "tellHeld":
          return takeover.tellHeld(ward, command)
        case "stopServing":
          return Effect.orDie(takeover.stop(ward))
        case "beginRecordBack":
          return recordBack(ward, command)
        case "cleanUp":
          return Effect.orDie(Effect.retry(takeover.cleanUp(ward, command), Schedule.spaced("2 seconds")))
        case "tellState":
          return publishChange(ward, command.from, command.to, command.reason)
      }
    }

    const leave = Effect.fnUntraced(function*(ward: Ward) {
      const { homeNodeId, id } = ward.row()
      yield* shadows.letGo(ward)
      yield* ownership.disown(homeNodeId)
      yield* store.removeProtection(id)
      wards.delete(id)
      yield* FiberMap.remove(fibers, id)
    })
    const isLeft = ({ bundle, owed, released, service }: Protection) =>
      released && service === null && owed.length === 0 && bundle.held === null
    const tick = (ward: Ward) =>
      Effect.gen(function*() {
        const { settings: all } = yield* settings.get
        yield* ward.tell({ type: "tick", windowOpen: windowOpen(all, yield* Clock.currentTimeMillis) })
        yield* shadows.follow(ward)
        yield* tellLease(ward)
        if (isLeft(ward.state())) yield* Effect.forkDetach(chore("Leaving a protection", leave(ward)))
      })

    const tellSettings = Effect.fnUntraced(function*(ward: Ward) {
      const { settings: all } = yield* settings.get
      const { automatic, class: kind, rank } = ward.row()
      yield* ward.outcome({ type: "settings", settings: patienceOf(all), automatic, rank, class: kind })
    })
    /** Under other terms from now on; what is served meanwhile goes on. */
    const revise = Effect.fnUntraced(function*(ward: Ward, terms: ProtectionTerms) {
      const { class: before, id } = ward.row()
      yield* store.revise(id, terms)
      ward.change(terms)
      yield* tellSettings(ward)
      // What it needs depends on its class.
      if (terms.class !== before && ward.state().granted) yield* Effect.forkDetach(snapshots.refresh(ward))
    })

    /** Makes the fiber of a protection. */
    const drive = Effect.fnUntraced(function*(row: ProtectionRow, state: Protection) {
      const ward = yield* makeWard(row, state, store, carryOut).pipe(Effect.provideService(Scope.Scope, scope))
      wards.set(row.id, ward)
      yield* FiberMap.run(
        fibers,
        row.id,
        Effect.gen(function*() {
          yield* ward.outcome({ type: "restarted" })
          yield* Effect.forkChild(chore("Measuring a takeover", takeover.resume(ward)))
          yield* Effect.forkChild(Effect.forever(Effect.flatMap(settings.get, ({ settings: { snapshotMinutes } }) =>
            Effect.andThen(
              Effect.sleep(`${snapshotMinutes} minutes`),
              Effect.suspend(() => ward.state().granted ? snapshots.refresh(ward) : Effect.void),
            ))))
          yield* Effect.forkChild(Stream.runForEach(settings.changes, () => tellSettings(ward)))
          yield* Effect.repeat(chore("A protection", tick(ward)), Schedule.spaced(tickEvery))
        }),
      )
      return ward
    })
    const anew = (row: Pick<ProtectionRow, "homeNodeId" | "class" | "automatic" | "rank">, granted: boolean) =>
      Effect.gen(function*() {
        const { settings: all } = yield* settings.get
        const relation = {
          self: nodeId,
          homeNodeId: row.homeNodeId,
          class: row.class,
          automatic: row.automatic,
          rank: row.rank,
          granted,
          settings: patienceOf(all),
        }
        return register(relation, 0, yield* monotonicMs)
      })

    for (const row of yield* store.protections(nodeId)) {
      const state = yield* decodeState(row.state).pipe(
        Effect.catch((error) =>
          Effect.andThen(Effect.logError("A protection cannot be read; it begins anew", error), anew(row, false))
        ),
      )
      yield* drive(row, state)
    }

    // A slot that was moved away takes control with it, and one that came takes it here.
    const follow = (ward: Ward) =>
      Effect.gen(function*() {
        const { homeNodeId, slot } = ward.row()
        const { service } = ward.state()
        if (service === null || slot === null || (yield* peers.get(homeNodeId)).relation !== "member") return
        const owned = (yield* ownership.epochOf(slot)) === service.epoch
        if (owned && service.lease === "wanted") yield* ward.outcome({ type: "leaseObtained", epoch: service.epoch })
        if (!owned && service.lease === "held") yield* ward.outcome({ type: "leaseLost" })
      })
    const followAll = Effect.suspend(() => Effect.forEach([...wards.values()], follow, { discard: true }))
    const following = chore("Following the owners of slots", followAll)
    yield* Effect.forkScoped(Stream.runForEach(ownership.changes, () => following))

    const ofHome = (homeNodeId: NodeId) => [...wards.values()].find((ward) => ward.row().homeNodeId === homeNodeId)
    const hear = Effect.fnUntraced(function*({ heardMs, heartbeat, nodeId: homeNodeId }: HeardNode) {
      const ward = ofHome(homeNodeId)
      if (ward === undefined) return
      const { bootId, bundleDigest, epoch, guardianGranted, servingNodeId } = heartbeat
      yield* Effect.forkDetach(ward.heard(heardMs))
      const granted = guardianGranted ?? ward.state().granted
      if (granted !== ward.state().granted) yield* ward.tell({ type: granted ? "granted" : "revoked" })
      yield* ward.tell({ type: "heartbeat", bootId, bundleDigest, epoch, servingNodeId })
    })
    yield* Effect.forkScoped(Stream.runForEach(heard, (sign) => chore("Taking a heartbeat", hear(sign))))

    /** What would not fit if everybody failed at once. */
    const shorts = Effect.gen(function*() {
      const { diskFreeBytes, used } = yield* load
      const total = totalOf((yield* settings.get).settings, diskFreeBytes)
      return account(
        total,
        used,
        [...wards.values()].map((ward) => ({
          id: ward.row().id,
          need: ward.row().need,
          serving: ward.state().service !== null,
        })),
      )
    })
    yield* Effect.flatMap(shorts, (all) =>
      Effect.forEach([...wards.values()], (ward) => {
        const short = all.get(ward.row().id) ?? []
        return short.join() === ward.state().short.join() ? Effect.void : ward.tell({ type: "capacity", short })
      }, { discard: true })).pipe(
        (work) => chore("Accounting of protections", work),
        Effect.repeat(Schedule.spaced(accountEvery)),
        Effect.forkScoped,
      )

    return { wards, drive, revise, anew, ofHome, shorts }
  })
export type Driver = Effect.Success<ReturnType<typeof makeDriver>>
