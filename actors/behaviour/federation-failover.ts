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
import {
  blockedOperations,
  type FailoverStatus,
  type ProtectionCreate,
  ProtectionId,
  ProtectionNotFound,
  ProtectionStateWrong,
  type ProtectionView,
  type Reroute,
  RerouteId,
  type ShadowView,
} from "#schema/federation-failover.ts"
import type { RerouteStatus } from "#schema/federation-protection.ts"
import type { Heartbeat, RecordBackProgress } from "#schema/federation.ts"
import { InvalidInput } from "#schema/problem.ts"
import { uuid7 } from "#schema/uuid.ts"
import { Clock, Effect, Layer, Schedule, Schema, SubscriptionRef } from "effect"
import { nothingNeeded, reservedOf, sumOf, totalOf } from "./federation-failover-capacity.ts"
import { type Driver, makeDriver } from "./federation-failover-driver.ts"
import { makeHeartbeats, monotonicMs } from "./federation-failover-heartbeat.ts"
import { makeHome } from "./federation-failover-home.ts"
import { makeLoad } from "./federation-failover-load.ts"
import { makeReturn } from "./federation-failover-return.ts"
import { makeFailoverSettings } from "./federation-failover-settings.ts"
import { makeShadows, type Shadows } from "./federation-failover-shadow.ts"
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

/** What is known without the database is told without it. */
const databaseLimit = "1 second"

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

/** What stands in the database only; null where that does not answer at once. */
const soon = <A, E>(look: Effect.Effect<A, E>): Effect.Effect<A | null> =>
  Effect.timeout(look, databaseLimit).pipe(Effect.catch(() => Effect.succeed(null)))

const viewOf = (ward: Ward, { changes, nowMs, shadow, wallMs }: {
  readonly changes: number | null
  readonly nowMs: number
  readonly shadow: ShadowView | null
  readonly wallMs: number
}): ProtectionView => {
  const [row, state] = [ward.row(), ward.state()]
  const { snapshot } = row
  return {
    id: row.id,
    nodeId: row.homeNodeId,
    name: row.name,
    state: state.tag,
    since: Math.round(wallMs - Math.max(0, nowMs - state.sinceMs)),
    reason: state.reason,
    class: row.class,
    automatic: row.automatic,
    rank: row.rank,
    epoch: state.epoch,
    silenceMs: state.home.heard ? Math.max(0, Math.round(nowMs - state.home.atMs)) : null,
    control: state.service?.lease === "held",
    snapshot: {
      digest: snapshot?.digest ?? null,
      madeAt: snapshot?.madeMs ?? null,
      ageMs: snapshot === null ? null : Math.max(0, wallMs - snapshot.fetchedMs),
      stale: state.bundle.held === null || state.bundle.held !== state.bundle.wanted,
      cameras: snapshot?.cameras ?? 0,
      recordings: snapshot?.recordings ?? 0,
      sizeBytes: snapshot?.sizeBytes ?? 0,
    },
    need: row.need,
    short: state.short,
    sessions: row.sessions,
    shadow,
    changes,
    refusals: state.service?.refusals ?? 0,
    drill: row.drill === null ? null : { at: row.drill.atMs, gapMs: row.drill.gapMs, channels: row.drill.channels },
    createdAt: row.createdMs,
    version: row.version,
  }
}

/** What people ask of protections. */
const protecting = (driver: Driver, shadows: Shadows, refresh: (ward: Ward) => Effect.Effect<string | null>) =>
  Effect.gen(function*() {
    const [store, ownership, peers, journals] = yield* Effect.all([FailoverStore, Ownership, Peers, FailoverJournals])
    const one = (id: ProtectionId) =>
      Effect.suspend(() => {
        const ward = driver.wards.get(id)
        return ward === undefined ? Effect.fail(new ProtectionNotFound({ id })) : Effect.succeed(ward)
      })
    const view = (ward: Ward) =>
      Effect.map(
        Effect.all([Clock.currentTimeMillis, monotonicMs, soon(journals.waiting())]),
        ([wallMs, nowMs, waiting]) => {
          const changes = waiting === null ? null : waiting.get(ward.row().homeNodeId) ?? 0
          return viewOf(ward, { changes, nowMs, shadow: shadows.view(ward), wallMs })
        },
      )
    const wrong = (ward: Ward, detail: string) => new ProtectionStateWrong({ state: ward.state().tag, detail })

    const protect = Effect.fn("Failovers.protect")(function*(input: ProtectionCreate) {
      if (input.nodeId === ownership.nodeId) {
        return yield* InvalidInput.at("/payload/nodeId", "is this node; a node cannot stand in for itself")
      }
      const peer = yield* peers.get(input.nodeId)
      if (peer.relation === "member" && input.class === "liveOnly") {
        return yield* InvalidInput.at(
          "/payload/class",
          "is for nodes with databases apart; members record what they serve",
        )
      }
      const row = {
        id: ProtectionId.make(yield* uuid7),
        homeNodeId: input.nodeId,
        name: peer.name,
        class: input.class,
        automatic: input.automatic,
        rank: input.rank ?? 0,
        slot: null,
        need: nothingNeeded,
        snapshot: null,
        sessions: [],
        drill: null,
        createdMs: yield* Clock.currentTimeMillis,
      }
      const state = yield* driver.anew(row, false)
      yield* store.addProtection(ownership.nodeId, { ...row, state })
      const ward = yield* driver.drive({ ...row, state, heardMs: null, version: 1 }, state)
      // At once: either it comes, or the home node's administrator sees who asks.
      yield* Effect.forkDetach(refresh(ward))
      return yield* view(ward)
    })
    const takeover = Effect.fn("Failovers.takeover")(
      function*(id: ProtectionId, { drill, homeIsOff }: { readonly homeIsOff: boolean; readonly drill: boolean }) {
        const ward = yield* one(id)
        const { bundle, granted, service } = ward.state()
        if (!granted) {
          return yield* wrong(ward, "The administrator of the home node has not granted it")
        }
        if (bundle.held === null) {
          return yield* wrong(ward, "There is no configuration of the home node here yet")
        }
        if (drill && service !== null) {
          return yield* wrong(ward, "Its cameras are served here already")
        }
        yield* ward.tell({ type: "takeover", drill, override: homeIsOff })
        return yield* view(ward)
      },
    )
    return {
      protections: () => Effect.forEach([...driver.wards.values()], view),
      protection: (id: ProtectionId) => Effect.flatMap(one(id), view),
      protect,
      release: (id: ProtectionId) => Effect.flatMap(one(id), (ward) => ward.tell({ type: "release" })),
      takeover,
      failback: Effect.fn("Failovers.failback")(
        function*(id: ProtectionId, { withoutChanges }: { readonly withoutChanges: boolean }) {
          const ward = yield* one(id)
          if (ward.state().service === null) return yield* wrong(ward, "Its cameras are not served here")
          yield* ward.tell({ type: "failback", withoutChanges })
          return yield* view(ward)
        },
      ),
      discardChanges: Effect.fn("Failovers.discardChanges")(function*(id: ProtectionId) {
        const ward = yield* one(id)
        const { homeNodeId } = ward.row()
        if (ward.state().service !== null) {
          return yield* wrong(ward, "Its cameras are served here with these changes: fail back first, without them")
        }
        const discarded = yield* journals.entries(homeNodeId)
        yield* journals.forget(homeNodeId)
        yield* Effect.logWarning("Changes of a home node's cameras were discarded", {
          homeNodeId,
          changes: discarded.length,
        })
        return { protection: yield* view(ward), discarded }
      }),
      snapshot: Effect.fn("Failovers.snapshot")(function*(id: ProtectionId) {
        const ward = yield* one(id)
        if (!ward.state().granted) return yield* wrong(ward, "The administrator of the home node has not granted it")
        const reason = yield* refresh(ward)
        if (reason !== null) return yield* wrong(ward, reason)
        return yield* view(ward)
      }),
    }
  })

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
    const ofProtections = yield* protecting(driver, shadows, snapshots.refresh)

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
      ...ofProtections,
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
