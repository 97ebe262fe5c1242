/**
 * The service `FailoverJournals`: what a guardian gives of its journal, how the home node takes it, and what its administrator decides.
 *
 * Invariants
 * 1. One guardian at a time is taken from; two that changed the same are two changes, one after the other.
 * 2. A decision is written and the conflict gone by one transaction.
 */
import { FailoverGate } from "#actors/protocol/federation-gate.ts"
import { FailoverJournals } from "#actors/protocol/federation-journal.ts"
import { type Peer, Peers } from "#actors/protocol/federation-peer.ts"
import { type ConflictRow, FailoverJournalStore } from "#actors/store/federation-journal.ts"
import { moving } from "#cluster/ask.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import { type Conflict, type HomeThing, mergeJournal } from "#cluster/journal.ts"
import { Ownership } from "#cluster/ownership.ts"
import { openDocument, sealDocument } from "#cluster/sealed-document.ts"
import type { NodeId, PageRequest } from "#schema/common.ts"
import { cursorOf, pageFrom } from "#schema/cursor.ts"
import {
  asFields,
  type ConfigurationConflict,
  ConflictId,
  ConflictImpossible,
  ConflictNotFound,
  type ConflictSide,
  type Difference,
  type Fields,
  JournalAnswer,
  type JournalEntry,
  JournalPage,
  journalPage,
  maxJournal,
  thingKey,
  wholeThing,
} from "#schema/federation-journal.ts"
import { DependencyUnavailable } from "#schema/problem.ts"
import { Vault } from "#schema/vault.ts"
import { Clock, Effect, Equal, Layer, Schema, Semaphore } from "effect"
import { makeMerging, type Merging } from "./federation-journal-merge.ts"
import { makeSealing, type Sealing } from "./federation-journal-seal.ts"

const path = "/federation/api/v1/federation/failover/journal"
const document = "nightjar-failover-journal"
/** Of one page: a few hundred KiB. */
const takeLimit = "10 seconds"

const encodePage = Schema.encodeSync(Schema.toCodecJson(JournalPage))
const decodePage = Schema.decodeUnknownEffect(Schema.fromJsonString(Schema.toCodecJson(JournalPage)))
const cursor = cursorOf("failover-conflicts", Schema.Struct({ id: ConflictId }))

const unusable = (detail: string) =>
  new DependencyUnavailable({
    dependency: "node",
    message: `The changes that the other node made cannot be read: ${detail}`,
  })

/** Giving: this node served others. */
const giving = (sealing: Sealing) =>
  Effect.gen(function*() {
    const [store, peers, identity] = yield* Effect.all([FailoverJournalStore, Peers, NodeIdentity])
    const entries = (homeNodeId: NodeId, limit = maxJournal) =>
      Effect.flatMap(store.entries(homeNodeId, limit), (rows) => Effect.forEach(rows, sealing.entryOf))
    return {
      entries: (homeNodeId: NodeId) => entries(homeNodeId),
      waiting: store.waiting,
      forget: store.forget,
      give: Effect.fn("FailoverJournals.give")(function*(asker: NodeId, acknowledged: ReadonlyArray<string>) {
        yield* store.acknowledge(asker, acknowledged)
        const some = yield* entries(asker, journalPage)
        if (some.length === 0) return { page: null }
        const home = yield* peers.get(asker)
        const page: JournalPage = {
          format: document,
          version: 1,
          homeNodeId: asker,
          guardianNodeId: identity.nodeId,
          entries: some,
        }
        const sealed = sealDocument(document, encodePage(page), home)
        return { page: yield* Effect.provideService(sealed, NodeIdentity, identity) }
      }),
    }
  })

/** Taking: this node was served by others. */
const taking = (merging: Merging) =>
  Effect.gen(function*() {
    const [peers, identity] = yield* Effect.all([Peers, NodeIdentity])
    const one = yield* Semaphore.make(1)
    const opened = Effect.fnUntraced(function*(guardian: Peer, sealed: string) {
      const text = yield* openDocument(document, sealed, guardian).pipe(
        Effect.provideService(NodeIdentity, identity),
        Effect.mapError(({ detail }) => unusable(detail)),
      )
      const page = yield* Effect.mapError(decodePage(text), () => unusable("their form is not known here"))
      if (page.homeNodeId !== identity.nodeId || page.guardianNodeId !== guardian.nodeId) {
        return yield* unusable("they name other nodes")
      }
      return page.entries
    })
    const take = Effect.fn("FailoverJournals.take")(function*(guardianId: NodeId) {
      const guardian = yield* peers.get(guardianId)
      if (guardian.relation !== "peer") return
      let acknowledged: ReadonlyArray<string> = []
      for (;;) {
        const answer: JournalAnswer = yield* peers.call(guardianId, {
          method: "POST",
          path,
          body: { json: { acknowledged } },
          timeout: takeLimit,
        }, JournalAnswer)
        if (answer.page === null) return
        const entries: ReadonlyArray<JournalEntry> = yield* opened(guardian, answer.page)
        yield* merging.merge(guardian, entries)
        acknowledged = entries.map(({ entryId }) => entryId)
      }
    })
    return (guardian: NodeId) => one.withPermits(1)(take(guardian))
  })

const textOf = (thing: HomeThing | undefined, field: string): string => {
  const value = thing?.fields[field]
  return typeof value === "string" ? value : ""
}

/** What people may see of a value. */
const shown = (field: string, value: Schema.Json): Schema.Json => {
  if (field === "password") return value === null ? null : true
  const fields = asFields(value)
  if (fields === null) return value
  const { password: _password, ...rest } = fields
  return rest
}

const viewOf = (row: ConflictRow, conflict: Conflict, all: ReadonlyMap<string, HomeThing>): ConfigurationConflict => {
  const { cameraId, channelId, field, id, kind } = row
  const thing = all.get(thingKey(row))
  const channel = all.get(`channel/${kind === "channel" ? id : channelId}`)
  const whole = field === wholeThing
  const now = whole ? thing?.fields ?? null : thing?.fields[field] ?? null
  const same = (value: Schema.Json) => whole ? (value === null) === (now === null) : Equal.equals(value, now)
  const part = { camera: "", channel: "channel", stream: "stream", recording: "recording" }[kind]
  const removable = kind === "channel" || kind === "stream"
  const possible = whole ? conflict.there === null ? removable : conflict.base === null : thing !== undefined
  return {
    id: row.conflictId,
    kind,
    thingId: id,
    cameraId,
    cameraName: textOf(all.get(`camera/${cameraId}`), "name"),
    partName: [textOf(channel, "name"), textOf(thing, "role"), part].filter((word) => word !== "").join(", "),
    field,
    secret: field === "password",
    base: shown(field, conflict.base),
    here: shown(field, conflict.here),
    there: shown(field, conflict.there),
    guardianNodeId: row.guardianNodeId,
    thereBy: row.thereBy,
    thereAt: row.thereMs,
    hereAt: row.hereMs,
    inForce: same(conflict.there) ? "there" : same(conflict.here) ? "here" : "other",
    choices: possible ? ["here", "there"] : ["here"],
  }
}

/** A thing that comes or goes as a person decided: the same rules as those of a merge. */
const wholly = (home: ReadonlyArray<HomeThing>, conflict: Conflict, value: Fields | null, atMs: number) => {
  const { cameraId, channelId, id, kind } = conflict
  const now = home.find((one) => thingKey(one) === thingKey(conflict))
  const change: Difference = value === null ?
    { kind, id, cameraId, channelId, before: now?.fields ?? {}, after: null } :
    { kind, id, cameraId, channelId, before: null, after: value }
  const entry: JournalEntry = { ...change, entryId: "", atMs, by: "", epoch: 0 }
  return mergeJournal(home, [entry], new Map(), 0)
}

const deciding = (sealing: Sealing, merging: Merging) =>
  Effect.gen(function*() {
    const [store, gate, ownership] = yield* Effect.all([FailoverJournalStore, FailoverGate, Ownership])
    const { nodeId, slot } = ownership
    const byKey = (home: ReadonlyArray<HomeThing>) => new Map(home.map((one) => [thingKey(one), one]))

    const conflicts = Effect.fn("FailoverJournals.conflicts")(function*(page: PageRequest) {
      const after = yield* cursor.decode(page.cursor)
      const rows = yield* store.conflicts(nodeId, page.limit + 1, after?.id ?? null)
      const all = byKey(rows.length === 0 ? [] : yield* merging.things)
      const views = yield* Effect.forEach(rows, (row) =>
        Effect.map(sealing.conflictOf(row), (conflict) => viewOf(row, conflict, all)))
      return pageFrom({
        rows: views,
        limit: page.limit,
        cursor,
        position: ({ id }) => ({ id }),
        item: (row) =>
          row,
      })
    })

    /** What has to be written for that side to be in force. */
    const changeFor = (home: ReadonlyArray<HomeThing>, conflict: Conflict, side: ConflictSide, nowMs: number) => {
      const value = conflict[side]
      const thing = home.find((one) => thingKey(one) === thingKey(conflict))
      const nothing = { put: [], remove: [] }
      if (conflict.field === wholeThing) {
        // Here it is as it is: a person who wants it otherwise changes it.
        if (side === "here" || (value === null) === (thing === undefined)) return Effect.succeed(nothing)
        if (value !== null && conflict.base !== null) return Effect.fail(gone)
        const { conflicts, ...change } = wholly(home, conflict, asFields(value), nowMs)
        return conflicts.length > 0 ? Effect.fail(recorded) : Effect.succeed(change)
      }
      if (thing === undefined) return side === "here" ? Effect.succeed(nothing) : Effect.fail(gone)
      const to = { ...thing, fields: { ...thing.fields, [conflict.field]: value }, changedMs: nowMs }
      return Effect.succeed(Equal.equals(thing.fields[conflict.field], value) ? nothing : { put: [to], remove: [] })
    }
    const gone = new ConflictImpossible({ detail: "It is not there any more: only this node's side is left" })
    const recorded = new ConflictImpossible({
      detail: "It cannot come or go as it is: it is recorded, or another has its place",
    })

    const resolve = Effect.fn("FailoverJournals.resolve")(function*(id: ConflictId, side: ConflictSide) {
      const epoch = yield* ownership.epochOf(slot)
      if (epoch === null) return yield* moving()
      yield* gate.mayChange({ slot, epoch })
      const { change, view } = yield* store.together(Effect.gen(function*() {
        const row = yield* store.conflict(nodeId, id)
        if (row === null) return yield* new ConflictNotFound({ id })
        const [home, conflict] = [yield* merging.things, yield* sealing.conflictOf(row)]
        const change = yield* changeFor(home, conflict, side, yield* Clock.currentTimeMillis)
        yield* merging.writeAll(change)
        yield* store.removeConflict(nodeId, id)
        return { change, view: viewOf(row, conflict, byKey(yield* merging.things)) }
      }))
      yield* merging.start([...change.put, ...change.remove])
      return view
    })
    return { conflicts, resolve, countConflicts: () => store.countConflicts(nodeId) }
  })

export const layer = (options: { readonly name: string }) =>
  Layer.effect(
    FailoverJournals,
    Effect.gen(function*() {
      const sealing = makeSealing(yield* Vault)
      const merging = yield* makeMerging(sealing, options.name)
      return FailoverJournals.of({
        ...(yield* giving(sealing)),
        ...(yield* deciding(sealing, merging)),
        take: yield* taking(merging),
      })
    }),
  )
