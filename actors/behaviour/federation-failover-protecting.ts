/**
 * What people ask of protections: registering, releasing, takeover and failback by hand; and how one is shown.
 *
 * Invariants
 * 1. Nothing is added or changed but by whoever has {@link Protecting.one}: two that want the same protection make one.
 * 2. A protection that is there by default becomes a person's where one registers it, and an exception of the settings where one releases it.
 */
import { FailoverJournals } from "#actors/protocol/federation-journal.ts"
import { type Peer, Peers } from "#actors/protocol/federation-peer.ts"
import { FailoverStore, type ProtectionTerms } from "#actors/store/federation-failover.ts"
import { Ownership } from "#cluster/ownership.ts"
import {
  type ProtectionCreate,
  ProtectionId,
  ProtectionNotFound,
  ProtectionStateWrong,
  type ProtectionView,
  setByPerson,
  type ShadowView,
} from "#schema/federation-failover.ts"
import { InvalidInput } from "#schema/problem.ts"
import { uuid7 } from "#schema/uuid.ts"
import { Clock, Effect, Semaphore } from "effect"
import { nothingNeeded } from "./federation-failover-capacity.ts"
import type { Driver } from "./federation-failover-driver.ts"
import { monotonicMs } from "./federation-failover-heartbeat.ts"
import type { FailoverSettingsKept } from "./federation-failover-settings.ts"
import type { Shadows } from "./federation-failover-shadow.ts"
import type { Ward } from "./federation-failover-ward.ts"

/** What is known without the database is told without it. */
const databaseLimit = "1 second"

type Refresh = (ward: Ward) => Effect.Effect<string | null>

/** What stands in the database only; null where that does not answer at once. */
export const soon = <A, E>(look: Effect.Effect<A, E>): Effect.Effect<A | null> =>
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
    sources: row.sources,
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
export const makeProtecting = (driver: Driver, shadows: Shadows, settings: FailoverSettingsKept, refresh: Refresh) =>
  Effect.gen(function*() {
    const [store, ownership, peers, journals] = yield* Effect.all([FailoverStore, Ownership, Peers, FailoverJournals])
    const find = (id: ProtectionId) =>
      Effect.suspend(() => {
        const ward = driver.wards.get(id)
        return ward === undefined ? Effect.fail(new ProtectionNotFound({ id })) : Effect.succeed(ward)
      })
    const one = yield* Semaphore.make(1)
    const view = (ward: Ward) =>
      Effect.map(
        Effect.all([Clock.currentTimeMillis, monotonicMs, soon(journals.waiting())]),
        ([wallMs, nowMs, waiting]) => {
          const changes = waiting === null ? null : waiting.get(ward.row().homeNodeId) ?? 0
          return viewOf(ward, { changes, nowMs, shadow: shadows.view(ward), wallMs })
        },
      )
    const wrong = (ward: Ward, detail: string) => new ProtectionStateWrong({ state: ward.state().tag, detail })

    const add = Effect.fnUntraced(function*(peer: Pick<Peer, "name" | "nodeId">, terms: ProtectionTerms) {
      const row = {
        id: ProtectionId.make(yield* uuid7),
        homeNodeId: peer.nodeId,
        name: peer.name,
        ...terms,
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
      return ward
    })
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
      const terms = { class: input.class, automatic: input.automatic, rank: input.rank ?? 0, sources: setByPerson }
      return yield* one.withPermits(1)(Effect.gen(function*() {
        const known = driver.ofHome(input.nodeId)
        // What was there by itself is from now on as a person says.
        if (known === undefined || known.row().sources.protection === "set" || known.state().released) {
          return yield* view(yield* add(peer, terms))
        }
        yield* driver.revise(known, terms)
        return yield* view(known)
      }))
    })
    const release = Effect.fn("Failovers.release")(function*(id: ProtectionId) {
      const ward = yield* find(id)
      // Otherwise it would come again by itself.
      if (ward.row().sources.protection === "default") yield* settings.exempt(ward.row().homeNodeId)
      yield* ward.tell({ type: "release" })
    })
    const takeover = Effect.fn("Failovers.takeover")(
      function*(id: ProtectionId, { drill, homeIsOff }: { readonly homeIsOff: boolean; readonly drill: boolean }) {
        const ward = yield* find(id)
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
    const ofPeople = {
      protections: () => Effect.forEach([...driver.wards.values()], view),
      protection: (id: ProtectionId) => Effect.flatMap(find(id), view),
      protect,
      release,
      takeover,
      failback: Effect.fn("Failovers.failback")(
        function*(id: ProtectionId, { withoutChanges }: { readonly withoutChanges: boolean }) {
          const ward = yield* find(id)
          if (ward.state().service === null) return yield* wrong(ward, "Its cameras are not served here")
          yield* ward.tell({ type: "failback", withoutChanges })
          return yield* view(ward)
        },
      ),
      discardChanges: Effect.fn("Failovers.discardChanges")(function*(id: ProtectionId) {
        const ward = yield* find(id)
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
        const ward = yield* find(id)
        if (!ward.state().granted) return yield* wrong(ward, "The administrator of the home node has not granted it")
        const reason = yield* refresh(ward)
        if (reason !== null) return yield* wrong(ward, reason)
        return yield* view(ward)
      }),
    }
    /** `one`: whoever adds or changes protections has it. */
    return { ofPeople, add, one }
  })
export type Protecting = Effect.Success<ReturnType<typeof makeProtecting>>
