/**
 * Members of a cluster guard each other by themselves: who guards whom follows from their settings, and each node makes its own part of
 * it true.
 *
 * Invariants
 * 1. What follows is the same on every member, as all read the same rows: nobody tells anybody. Where two do not agree for a moment, the
 *    database lets one take the slot.
 * 2. What a person chose stands: it counts among the guardians of a node, comes first in turn, and is not touched.
 * 3. A protection that serves, or whose node is silent, is left as it is until that is over.
 * 4. A member that is missing from the list for a moment keeps its guardians.
 */
import { Peers } from "#actors/protocol/federation-peer.ts"
import { FailoverStore, type ProtectionTerms } from "#actors/store/federation-failover.ts"
import { FederationNodeStore } from "#actors/store/federation-node.ts"
import { Ownership } from "#cluster/ownership.ts"
import type { NodeId } from "#schema/common.ts"
import { defaultFailoverSettings, type FailoverSettingsUpdate } from "#schema/federation-failover.ts"
import { Effect, Schedule, Stream } from "effect"
import { chore } from "./chore.ts"
import type { Driver } from "./federation-failover-driver.ts"
import type { Protecting } from "./federation-failover-protecting.ts"
import type { FailoverSettingsKept } from "./federation-failover-settings.ts"
import type { Ward } from "./federation-failover-ward.ts"

const lookEvery = "10 seconds"
/** A member that was not in the list so often is gone. */
const missedOften = 3
const lastRank = 7

/** What its settings and its place say of a member. */
export interface GuardingMember {
  readonly nodeId: NodeId
  readonly name: string
  /** Where people see it in the list of nodes; null: nobody gave it a place. */
  readonly place: number | null
  readonly set: FailoverSettingsUpdate
}

const inOrder = (a: GuardingMember, b: GuardingMember): number => {
  const [x, y] = [a.place ?? Infinity, b.place ?? Infinity]
  // Infinity minus itself is none.
  return (x === y ? 0 : x - y) || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0) || (a.nodeId < b.nodeId ? -1 : 1)
}

/**
 * Who guards `home` by itself, by turn: those that can take on most, and of equal ones the next in the order of nodes, so that each
 * guards another.
 * @param chosen Guardians of `home` that people chose.
 */
export const guardiansOf = (
  home: NodeId,
  members: ReadonlyArray<GuardingMember>,
  chosen: ReadonlyArray<NodeId>,
): ReadonlyArray<NodeId> => {
  const all = members.toSorted(inOrder)
  const at = all.findIndex(({ nodeId }) => nodeId === home)
  if (at < 0) return []
  const settingsOf = ({ set }: GuardingMember) => ({ ...defaultFailoverSettings, ...set })
  const { guardMembers, memberGuardians } = settingsOf(all[at]!)
  if (!guardMembers) return []
  const able = [...all.slice(at + 1), ...all.slice(0, at)].map((member) => ({
    nodeId: member.nodeId,
    ...settingsOf(member),
  })).filter((one) => one.guardMembers && !one.membersNotGuarded.includes(home) && !chosen.includes(one.nodeId))
  return able.toSorted((a, b) => b.maxCameras - a.maxCameras || b.maxIngestBps - a.maxIngestBps)
    .slice(0, Math.max(0, memberGuardians - chosen.length)).map(({ nodeId }) => nodeId)
}

/** What `self` guards by itself, and how. */
export const guardedBy = (
  self: NodeId,
  members: ReadonlyArray<GuardingMember>,
  chosen: ReadonlyArray<{ readonly nodeId: NodeId; readonly homeNodeId: NodeId }>,
): ReadonlyMap<NodeId, ProtectionTerms> =>
  new Map(members.flatMap(({ nodeId, set }): ReadonlyArray<readonly [NodeId, ProtectionTerms]> => {
    if (nodeId === self) return []
    const byPeople = chosen.filter(({ homeNodeId }) => homeNodeId === nodeId).map((one) => one.nodeId)
    const turn = guardiansOf(nodeId, members, byPeople).indexOf(self)
    if (turn < 0) return []
    return [[nodeId, {
      class: set.memberClass ?? defaultFailoverSettings.memberClass,
      automatic: true,
      rank: Math.min(byPeople.length + turn, lastRank),
      sources: { protection: "default", class: set.memberClass === undefined ? "default" : "set", rank: "computed" },
    }]]
  }))

const same = (a: ProtectionTerms, b: ProtectionTerms): boolean =>
  a.class === b.class && a.rank === b.rank && a.automatic === b.automatic && a.sources.class === b.sources.class

/** Nothing is under way with it. */
const isQuiet = (ward: Ward): boolean => {
  const { owed, service, tag } = ward.state()
  return service === null && owed.length === 0 && tag !== "suspect"
}

export const guardMembers = ({ driver, name, protecting, settings }: {
  readonly driver: Driver
  readonly name: string
  readonly protecting: Protecting
  readonly settings: FailoverSettingsKept
}) =>
  Effect.gen(function*() {
    const [peers, store, { nodeId: self }] = yield* Effect.all([Peers, FailoverStore, Ownership])
    const nodes = yield* FederationNodeStore
    const missed = new Map<NodeId, number>()

    const follow = Effect.fnUntraced(
      function*(others: ReadonlyArray<{ readonly nodeId: NodeId; readonly name: string }>) {
        const [places, set] = [yield* nodes.order, yield* store.settingsOfAll]
        const members = [{ nodeId: self, name }, ...others].map((one): GuardingMember => ({
          ...one,
          place: places.get(one.nodeId) ?? null,
          set: set.get(one.nodeId) ?? {},
        }))
        const wanted = guardedBy(self, members, yield* store.chosenGuardians)
        for (const member of others) {
          missed.delete(member.nodeId)
          const [ward, terms] = [driver.ofHome(member.nodeId), wanted.get(member.nodeId)]
          if (ward === undefined) {
            if (terms === undefined) continue
            yield* protecting.add(member, terms)
            yield* Effect.logInfo("This node guards a member of its cluster", {
              homeNodeId: member.nodeId,
              rank: terms.rank,
            })
          } else if (ward.row().sources.protection === "default" && !ward.state().released && isQuiet(ward)) {
            if (terms === undefined) yield* ward.tell({ type: "release" })
            else if (!same(ward.row(), terms)) yield* driver.revise(ward, terms)
          }
        }
      },
    )
    const look = protecting.one.withPermits(1)(Effect.gen(function*() {
      const others = (yield* peers.list()).filter(({ relation }) => relation === "member")
      if (others.length > 0) yield* follow(others)
      const here = new Set(others.map(({ nodeId }) => nodeId))
      for (const ward of driver.wards.values()) {
        const { homeNodeId, sources } = ward.row()
        if (sources.protection !== "default" || here.has(homeNodeId) || ward.state().released) continue
        const times = (missed.get(homeNodeId) ?? 0) + 1
        missed.set(homeNodeId, times)
        if (times >= missedOften && ward.state().service === null) yield* ward.tell({ type: "release" })
      }
    }))
    const looking = chore("Guarding members", look)
    yield* Effect.forkScoped(Effect.repeat(looking, Schedule.spaced(lookEvery)))
    yield* Effect.forkScoped(Stream.runForEach(settings.changes, () => looking))
    yield* Effect.forkScoped(Stream.runForEach(yield* peers.changes(), () => looking))
  })
