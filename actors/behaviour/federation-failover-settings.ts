/** What is set of failover on this node: defaults under what people set, kept in memory for those who look at every tick. */
import { Controls } from "#actors/protocol/federation-control.ts"
import { FailoverStore } from "#actors/store/federation-failover.ts"
import { Ownership } from "#cluster/ownership.ts"
import type { NodeId } from "#schema/common.ts"
import {
  defaultFailoverSettings,
  type EffectiveFailoverSettings,
  type FailoverSettings,
  type FailoverSettingsUpdate,
} from "#schema/federation-failover.ts"
import { InvalidInput } from "#schema/problem.ts"
import { Effect, SubscriptionRef } from "effect"

const effective = (set: FailoverSettingsUpdate, version: number): EffectiveFailoverSettings => ({
  settings: { ...defaultFailoverSettings, ...set },
  sources: Object.fromEntries(
    Object.keys(defaultFailoverSettings).map((name) => [name, Object.hasOwn(set, name) ? "set" : "default"]),
  ),
  version,
})

const contradiction = ({ deadMs, failbackWindow, heartbeatMs, suspectMs }: FailoverSettings) => {
  if (suspectMs < 2 * heartbeatMs) {
    return InvalidInput.at("/payload/suspectMs", "must be at least two heartbeats, or each late one would alarm")
  }
  if (deadMs <= suspectMs) return InvalidInput.at("/payload/deadMs", "must be longer than suspectMs")
  if (failbackWindow !== null && failbackWindow.startMinute === failbackWindow.endMinute) {
    return InvalidInput.at("/payload/failbackWindow", "is empty")
  }
  return null
}

/** Whether automatic failback may happen now; minutes are those of the node's own time zone. */
export const windowOpen = ({ failbackWindow }: FailoverSettings, nowMs: number): boolean => {
  if (failbackWindow === null) return true
  const now = new Date(nowMs)
  const minute = now.getHours() * 60 + now.getMinutes()
  const { endMinute, startMinute } = failbackWindow
  return startMinute < endMinute ?
    minute >= startMinute && minute < endMinute :
    minute >= startMinute || minute < endMinute
}

export const makeFailoverSettings = Effect.gen(function*() {
  const [store, controls, { nodeId }] = yield* Effect.all([FailoverStore, Controls, Ownership])
  const read = Effect.map(store.settings(nodeId), ({ settings, version }) => effective(settings, version))
  const begin = yield* read
  const known = yield* SubscriptionRef.make(begin)
  yield* controls.setWitnesses(begin.settings.witnesses)
  const tell = Effect.gen(function*() {
    const now = yield* read
    yield* controls.setWitnesses(now.settings.witnesses)
    yield* SubscriptionRef.set(known, now)
    return now
  })
  return {
    get: SubscriptionRef.get(known),
    changes: SubscriptionRef.changes(known),
    update: Effect.fn("Failovers.updateSettings")(function*(update: FailoverSettingsUpdate, ifMatch: number | null) {
      const wrong = contradiction({ ...defaultFailoverSettings, ...update })
      if (wrong !== null) return yield* wrong
      if (update.witnesses?.includes(nodeId) === true) {
        return yield* InvalidInput.at("/payload/witnesses", "names this node, which votes in any case")
      }
      yield* store.setSettings(nodeId, update, ifMatch)
      return yield* tell
    }),
    /** A member that this node does not guard by itself any more. */
    exempt: Effect.fn("Failovers.exempt")(function*(member: NodeId) {
      const { settings } = yield* store.settings(nodeId)
      const membersNotGuarded = [...new Set([...settings.membersNotGuarded ?? [], member])]
      yield* store.setSettings(nodeId, { ...settings, membersNotGuarded }, null).pipe(
        // No version was named.
        Effect.catchTag("VersionConflict", Effect.die),
      )
      yield* tell
    }),
  }
})
export type FailoverSettingsKept = Effect.Success<typeof makeFailoverSettings>
