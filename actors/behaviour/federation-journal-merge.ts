/**
 * A guardian's changes on their way into this node's configuration: read, merged, written, told.
 *
 * Invariants
 * 1. What is written, what contradicts it and that it was merged are one transaction: a process that is killed has merged a page of
 *    changes whole or not at all.
 * 2. An entry of the audit log names each change, who made it and where, before it is in force.
 */
import { AuditTrail } from "#actors/protocol/auth-audit.ts"
import { CameraBundles } from "#actors/protocol/camera-bundle.ts"
import { Events } from "#actors/protocol/event.ts"
import { NodeLiveness } from "#actors/protocol/federation-node.ts"
import type { Peer } from "#actors/protocol/federation-peer.ts"
import { RecordBundles } from "#actors/protocol/record-bundle.ts"
import { type ConflictRow, FailoverJournalStore } from "#actors/store/federation-journal.ts"
import { moving } from "#cluster/ask.ts"
import { conflictKey, type HomeThing, type Merged, mergeJournal } from "#cluster/journal.ts"
import { Ownership } from "#cluster/ownership.ts"
import type { CameraId } from "#schema/common.ts"
import {
  ConflictId,
  type JournalEntry,
  recordingOf,
  recordingThings,
  type Thing,
  thingsOf,
} from "#schema/federation-journal.ts"
import type { StaleEpoch } from "#schema/ownership.ts"
import { DependencyUnavailable } from "#schema/problem.ts"
import { uuid7 } from "#schema/uuid.ts"
import { Clock, Effect } from "effect"
import type { Sealing } from "./federation-journal-seal.ts"

/** Conflicts that are looked at together; each is about another field of another thing. */
const conflictPage = 500

const staleIsMoving = <A, E>(work: Effect.Effect<A, E | StaleEpoch>) =>
  Effect.catchTag(work as Effect.Effect<A, StaleEpoch>, "StaleEpoch", () => Effect.fail(moving())) as Effect.Effect<
    A,
    Exclude<E, StaleEpoch> | DependencyUnavailable
  >

export const makeMerging = (sealing: Sealing, name: string) =>
  Effect.gen(function*() {
    const [store, ownership, events, audit, liveness] = yield* Effect.all([
      FailoverJournalStore,
      Ownership,
      Events,
      AuditTrail,
      NodeLiveness,
    ])
    const [cameraBundles, recordBundles] = yield* Effect.all([CameraBundles, RecordBundles])
    const { nodeId, slot } = ownership

    /** All that this node has of its own cameras. */
    const things = Effect.gen(function*(): Effect.fn.Return<ReadonlyArray<HomeThing>, DependencyUnavailable> {
      const all = [
        ...thingsOf(yield* cameraBundles.export(slot)),
        ...recordingThings(yield* recordBundles.export(slot)),
      ]
      const changed = new Map([...yield* cameraBundles.changedMs(slot), ...yield* recordBundles.changedMs(slot)])
      return all.map((one) => ({ ...one, changedMs: changed.get(one.id) ?? 0 }))
    })
    const write = (thing: Thing, atMs: number) =>
      staleIsMoving(
        thing.kind === "recording" ?
          recordBundles.put(slot, recordingOf(thing), atMs) :
          cameraBundles.put(slot, thing, atMs),
      )
    const writeAll = Effect.fnUntraced(function*({ put, remove }: Pick<Merged, "put" | "remove">) {
      // First, so that what comes may have the place of what goes.
      yield* Effect.forEach(remove, (thing) => staleIsMoving(cameraBundles.delete(slot, thing)), { discard: true })
      yield* Effect.forEach(put, (thing) => write(thing, thing.changedMs), { discard: true })
    })
    /** What was changed is assigned at once; what cannot be is left to the loop. */
    const start = (changed: ReadonlyArray<Thing>) => {
      const ids = new Set<CameraId>(changed.map(({ cameraId }) => cameraId))
      return ids.size === 0 ? Effect.void : Effect.ignore(cameraBundles.start(slot, [...ids]))
    }

    const openConflicts = Effect.gen(function*() {
      const rows: Array<ConflictRow> = []
      for (let after: ConflictId | null = null;;) {
        const page: ReadonlyArray<ConflictRow> = yield* store.conflicts(nodeId, conflictPage, after)
        rows.push(...page)
        after = page.at(-1)?.conflictId ?? null
        if (page.length < conflictPage) break
      }
      return yield* Effect.forEach(rows, (row) =>
        Effect.map(sealing.conflictOf(row), (conflict) => ({ row, conflict, key: conflictKey(row) })))
    })

    const record = (guardian: Peer, entry: JournalEntry, outOf: Merged) => {
      const fields = Object.keys(entry.after ?? entry.before ?? {})
      const disputed = outOf.conflicts.filter(({ id, kind }) =>
        id === entry.id && kind === entry.kind
      )
      return audit.record({
        action: "failover.configurationMerged",
        outcome: "success",
        actor: { kind: "peer", id: guardian.nodeId, name: guardian.name, sessionId: null },
        address: "",
        userAgent: "",
        resource: { kind: entry.kind, id: entry.id },
        status: null,
        traceId: null,
        origin: "server",
        detail: {
          onBehalfOf: entry.by,
          changedAt: new Date(entry.atMs).toISOString(),
          change: entry.after === null ? "removed" : entry.before === null ? "added" : "changed",
          fields,
          conflicts: disputed.map(({ field, inForce }) => `${field}: ${inForce}`),
          epoch: entry.epoch,
        },
      }).pipe(Effect.catchTag("AuditUnavailable", () =>
        Effect.fail(
          new DependencyUnavailable({ dependency: "audit", message: "The audit log cannot take the changes now." }),
        )))
    }

    const merge = Effect.fn("FailoverJournals.merge")(function*(guardian: Peer, entries: ReadonlyArray<JournalEntry>) {
      const nowMs = yield* Clock.currentTimeMillis
      const { clockOffsetMs } = yield* liveness.of(guardian.nodeId)
      const by = { nodeId, guardianNodeId: guardian.nodeId, nowMs }
      const merged = yield* store.once(
        by,
        entries.map(({ entryId }) => entryId),
        (fresh) =>
          Effect.gen(function*() {
            const mine = entries.filter(({ entryId }) => fresh.has(entryId))
            if (mine.length === 0) return null
            const open = yield* openConflicts
            const known = new Map(open.map(({ conflict, key }) => [key, conflict]))
            const outcome = mergeJournal(yield* things, mine, known, clockOffsetMs ?? 0)
            const idOf = new Map(open.map(({ key, row }) => [key, row.conflictId]))
            yield* writeAll(outcome)
            for (const conflict of outcome.conflicts) {
              const id = idOf.get(conflictKey(conflict)) ?? ConflictId.make(yield* uuid7)
              yield* store.putConflict(nodeId, yield* sealing.rowOf(id, guardian.nodeId, conflict))
            }
            for (const key of outcome.settled) {
              const id = idOf.get(key)
              if (id !== undefined) yield* store.removeConflict(nodeId, id)
            }
            for (const entry of mine) yield* record(guardian, entry, outcome)
            return { outcome, epoch: Math.max(...mine.map(({ epoch }) => epoch)) }
          }),
      )
      if (merged === null) return
      const { epoch, outcome } = merged
      yield* start([...outcome.put, ...outcome.remove])
      yield* events.publish({
        type: "failover.configuration.merged",
        subject: nodeId,
        data: {
          homeNodeId: nodeId,
          homeName: name,
          servingNodeId: guardian.nodeId,
          epoch,
          reason: outcome.conflicts.length === 0 ?
            "" :
            `changed on both nodes: ${outcome.conflicts.length}, to be decided on the page of failover`,
          applied: outcome.applied,
          conflicts: outcome.conflicts.length,
        },
        resource: [],
      })
    })
    return { things, writeAll, start, merge }
  })
export type Merging = Effect.Success<ReturnType<typeof makeMerging>>
