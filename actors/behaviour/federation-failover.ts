/**
 * The service `Failovers`, made of its parts: settings, what this node does as a home node, how its cameras come back,
 * what it hears of others, and the fibers with which it guards them.
 *
 * Invariants
 * 1. What is answered of a protection is what its fiber knows now; what is answered of a reroute is on record.
 */
import { Events } from "#actors/protocol/event.ts"
import { Controls } from "#actors/protocol/federation-control.ts"
import { Failovers } from "#actors/protocol/federation-failover.ts"
import { FailoverJournals } from "#actors/protocol/federation-journal.ts"
import { Peers } from "#actors/protocol/federation-peer.ts"
import { RecordBacks } from "#actors/protocol/federation-recordback.ts"
import { FailoverStore, type RerouteRow } from "#actors/store/federation-failover.ts"
import { bundleShelf } from "#cluster/bundle.ts"
import { Ownership } from "#cluster/ownership.ts"
import { statusOf } from "#cluster/protection-state.ts"
import type { NodeId, PageRequest } from "#schema/common.ts"
import { cursorOf, pageFrom } from "#schema/cursor.ts"
import { blockedOperations, type FailoverStatus, type Reroute, RerouteId } from "#schema/federation-failover.ts"
import type { RerouteStatus } from "#schema/federation-protection.ts"
import type { Heartbeat, RecordBackProgress } from "#schema/federation.ts"
import { uuid7 } from "#schema/uuid.ts"
import { Clock, Effect, Layer, Schedule, Schema, SubscriptionRef } from "effect"
import { reservedOf, sumOf, totalOf } from "./federation-failover-capacity.ts"
import { makeDriver } from "./federation-failover-driver.ts"
import { makeHeartbeats } from "./federation-failover-heartbeat.ts"
import { makeHome } from "./federation-failover-home.ts"
import { makeLoad } from "./federation-failover-load.ts"
import { guardMembers } from "./federation-failover-members.ts"
import { makeProtecting, soon } from "./federation-failover-protecting.ts"
import { makeReturn } from "./federation-failover-return.ts"
import { makeFailoverSettings } from "./federation-failover-settings.ts"
import { makeShadows } from "./federation-failover-shadow.ts"
import { makeSnapshots } from "./federation-failover-snapshot.ts"
import { makeTakeover } from "./federation-failover-takeover.ts"
import type { Ward } from "./federation-failover-ward.ts"

export interface FailoverOptions {
  readonly dataFolder: string
  /** Of this node, for people. */
  readonly name: string
  readonly version: string
}

/** The digest of this node's configuration is looked at so often. */
const digestEvery = "2 seconds"

const cursor = cursorOf("reroutes", Schema.Struct({ id: RerouteId }))

const notBegun: RecordBackProgress = {
  state: "pending",
  segmentsDone: 0,
  segmentsTotal: 0,
  bytesDone: 0,
  bytesTotal: 0,
  rateBps: null,
  estimatedEnd: null,
  reason: "",
}

const rerouteOf = (row: RerouteRow, progress: RecordBackProgress | null, held: Reroute["held"]): Reroute => {
  const measured = row.gaps.map(({ gapMs }) => gapMs)
  return {
    id: row.id,
    homeNodeId: row.homeNodeId,
    servingNodeId: row.servingNodeId,
    channels: row.gaps.map(({ channelId }) => channelId),
    epoch: row.epoch,
    state: row.state,
    since: row.sinceMs,
    endedAt: row.endedMs,
    gapMs: measured.length === 0 || measured.includes(null) ? null : Math.max(...measured.map((gapMs) => gapMs ?? 0)),
    gaps: row.gaps,
    held,
    drill: row.drill,
    recordBack: progress ?? { ...notBegun, state: row.state === "done" ? "done" : "pending" },
  }
}

/** Why a reroute does not end, as far as its fiber knows. */
const heldOf = (row: RerouteRow, ward: Ward | undefined, waiting: number): Reroute["held"] => {
  if (ward === undefined) return null
  const { owed, reason, service } = ward.state()
  if (service?.rerouteId === row.id) return service.refusals > 0 ? { refusals: service.refusals, reason } : null
  const waits = waiting > 0 && owed.some(({ rerouteId, step }) => rerouteId === row.id && step === "cleaning")
  return waits ? { refusals: 0, reason: `The home node has not taken ${waiting} changes of its cameras yet` } : null
}

const make = ({ dataFolder, name, version }: FailoverOptions) =>
  Effect.gen(function*() {
    const [store, ownership, peers, controls, events] = yield* Effect.all([
      FailoverStore,
      Ownership,
      Peers,
      Controls,
      Events,
    ])
    const journals = yield* FailoverJournals
    const { nodeId } = ownership
    const settings = yield* makeFailoverSettings
    const load = yield* makeLoad
    const home = yield* makeHome(name)
    const comeBack = yield* makeReturn
    const shelf = yield* bundleShelf(`${dataFolder}/failover`)
    const takeover = yield* makeTakeover(shelf, settings)
    const snapshots = yield* makeSnapshots(shelf, settings)
    const shadows = yield* makeShadows({ settings, snapshots, takeover })
    const driver = yield* makeDriver({
      settings,
      shadows,
      takeover,
      snapshots,
      load,
      heard: yield* makeHeartbeats(settings),
      publishChange: (ward, from, to, reason) =>
        events.publish({
          type: "failover.protection.changed",
          subject: ward.row().homeNodeId,
          data: {
            homeNodeId: ward.row().homeNodeId,
            homeName: ward.row().name,
            servingNodeId: nodeId,
            epoch: ward.state().epoch,
            reason,
            from,
            to,
          },
          resource: [],
        }),
    })
    const protecting = yield* makeProtecting(driver, shadows, settings, snapshots.refresh)
    yield* guardMembers({ driver, name, protecting, settings })

    const digest = yield* SubscriptionRef.make("")
    yield* Effect.flatMap(home.digest, (now) => SubscriptionRef.set(digest, now)).pipe(
      Effect.ignore,
      Effect.repeat(Schedule.spaced(digestEvery)),
      Effect.forkScoped,
    )
    const bootId = yield* uuid7
    let seq = 0
    const heartbeat = Effect.fnUntraced(function*(asker: NodeId) {
      const [{ diskFreeBytes }, { settings: limits }] = [yield* load, yield* settings.get]
      const peer = yield* peers.get(asker).pipe(Effect.catchTag("NodeNotFound", () => Effect.succeed(null)))
      const owner = (yield* ownership.owners).find(({ slot }) => slot === ownership.slot)
      return {
        nodeId,
        bootId,
        name,
        version,
        epoch: owner?.epoch ?? 0,
        servingNodeId: owner?.nodeId ?? nodeId,
        seq: ++seq,
        timeMs: yield* Clock.currentTimeMillis,
        bundleDigest: yield* SubscriptionRef.get(digest),
        capacity: totalOf(limits, diskFreeBytes),
        leases: [...driver.wards.values()].map((ward) => ward.state()).filter(({ service }) =>
          service?.lease === "held"
        )
          .map((state) => ({ homeNodeId: state.homeNodeId, epoch: state.service?.epoch ?? 0 })),
        guardianGranted: peer?.guardianGranted === true,
      } satisfies Heartbeat
    })

    const rerouteStatus = Effect.fnUntraced(function*(asker: NodeId, homeNodeId: NodeId) {
      const ward = driver.ofHome(homeNodeId)
      if (ward === undefined) {
        const epoch = homeNodeId === nodeId ? yield* home.epoch : 0
        return { nodeId, homeNodeId, phase: "none", epoch, control: false, turns: [] } satisfies RerouteStatus
      }
      if (asker === homeNodeId) yield* ward.tell({ type: "homeAsked" })
      const known = yield* peers.get(asker).pipe(Effect.catchTag("NodeNotFound", () => Effect.succeed(null)))
      // What a member knows of itself is in the database that this node has, too.
      const served = known?.relation === "member" ? { homeServed: 0 } : {}
      const status: RerouteStatus = { ...statusOf(ward.state()), ...served }
      // Who serves does not wait for the database to be answered.
      if (asker !== homeNodeId || status.phase !== "none") return status
      return { ...status, changes: (yield* soon(journals.waiting()))?.get(homeNodeId) ?? 0 }
    })

    const recordBacks = yield* RecordBacks
    const reroutes = Effect.fnUntraced(function*(page: PageRequest) {
      const after = yield* cursor.decode(page.cursor)
      const rows = yield* store.reroutes(page.limit + 1, after?.id ?? null)
      const waiting = yield* journals.waiting()
      const shown = yield* Effect.forEach(rows, (row) =>
        Effect.map(recordBacks.progressOf(row.id), (progress) => {
          const { homeNodeId } = row
          return rerouteOf(row, progress, heldOf(row, driver.ofHome(homeNodeId), waiting.get(homeNodeId) ?? 0))
        }))
      return pageFrom({ rows: shown, limit: page.limit, cursor, position: ({ id }) => ({ id }), item: (row) => row })
    })

    /** Members whose failure nobody would make good; a node alone has nobody who could. */
    const unprotected = Effect.gen(function*() {
      const others = (yield* peers.list()).filter(({ relation }) => relation === "member")
      if (others.length === 0) return []
      // A paired node may guard this one too.
      const guarded = (yield* home.guardians).some(({ bundleAt, granted }) => granted && bundleAt !== null)
      const all = [...(guarded ? [] : [{ nodeId, name }]), ...others.map(({ name, nodeId }) => ({ nodeId, name }))]
      const known = yield* store.protectedOf(all.map((one) => one.nodeId))
      return all.filter((one) => !known.has(one.nodeId))
    })
    const status = Effect.gen(function*() {
      const [{ diskFreeBytes, used }, shorts] = [yield* load, yield* driver.shorts]
      const servedBy = yield* controls.servedBy()
      const wards = [...driver.wards.values()]
      const serving = wards.flatMap((ward) => {
        const { service } = ward.state()
        return service === null ? [] : [{
          nodeId: ward.row().homeNodeId,
          name: ward.row().name,
          epoch: service.epoch,
          control: service.lease === "held",
        }]
      })
      const wouldNotFit = wards.flatMap((ward) => {
        const short = shorts.get(ward.row().id) ?? []
        return short.length === 0 ? [] : [{ protectionId: ward.row().id, nodeId: ward.row().homeNodeId, short }]
      })
      const unguarded = yield* unprotected
      const ready = wards.every((ward) => ward.state().tag === "protected") && wouldNotFit.length === 0
      return {
        badge: serving.length > 0 || servedBy !== null ?
          "serving" :
          wards.length === 0 && unguarded.length === 0 ?
          "none" :
          ready && unguarded.length === 0 ?
          "ready" :
          "attention",
        serving,
        servedBy,
        blocked: servedBy === null && serving.length === 0 ? [] : blockedOperations,
        conflicts: yield* soon(journals.countConflicts()),
        control: yield* controls.view(),
        capacity: {
          total: totalOf((yield* settings.get).settings, diskFreeBytes),
          used,
          reserved: sumOf(wards.map((ward) => reservedOf(ward.row().need, ward.state().service !== null))),
        },
        unguarded,
        wouldNotFit,
      } satisfies FailoverStatus
    })

    return Failovers.of({
      ...protecting.ofPeople,
      settings: () => settings.get,
      updateSettings: settings.update,
      status: () => status,
      reroutes,
      guardians: () => home.guardians,
      grant: home.grant,
      heartbeat,
      bundle: home.bundle,
      rerouteStatus,
      comeBack,
      takeBackControl: () => Effect.andThen(controls.takeBack(), controls.view()),
      voteOnControl: controls.vote,
      releaseControl: controls.letGo,
    })
  })

export const layer = (options: FailoverOptions) => Layer.effect(Failovers, make(options))
