/**
 * The commands that change who serves a home node: taking its slot, giving it back, ending the service, and clearing up.
 *
 * Invariants
 * 1. Taking is idempotent: again with the same number it is the same takeover.
 * 2. What was recorded here stays until its record-back is done.
 * 3. Of a member of the same cluster nothing is imported or removed: its rows are here already. Its captures begin without waiting for
 *    the locks of its actors, and go on here until the overlap is over, although the slot is its own again.
 * 4. What was changed here of the home node's configuration stays until the home node has it, and is in force here till then.
 */
import { CameraBundles } from "#actors/protocol/camera-bundle.ts"
import { Events } from "#actors/protocol/event.ts"
import { CaptureHolds } from "#actors/protocol/federation-hold.ts"
import { FailoverJournals } from "#actors/protocol/federation-journal.ts"
import { type Peer, Peers } from "#actors/protocol/federation-peer.ts"
import { RecordBacks } from "#actors/protocol/federation-recordback.ts"
import { RecordBundles } from "#actors/protocol/record-bundle.ts"
import { FailoverStore, type KeptGap, type RerouteRow } from "#actors/store/federation-failover.ts"
import { type BundleShelf, openBundle } from "#cluster/bundle.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import { withJournal } from "#cluster/journal.ts"
import { Ownership } from "#cluster/ownership.ts"
import type { ProtectionCommand } from "#cluster/protection-state.ts"
import { ShadowRings } from "#media/shadow.ts"
import type { EventDraft } from "#schema/event.ts"
import type { FailoverBundle } from "#schema/federation-bundle.ts"
import { RerouteId, ReturnAnswer } from "#schema/federation-failover.ts"
import { camerasOf, type JournalEntry, recordingsOf, recordingThings, thingsOf } from "#schema/federation-journal.ts"
import { type Slot, StaleEpoch } from "#schema/ownership.ts"
import { uuid7 } from "#schema/uuid.ts"
import { Cause, Clock, Effect, Schedule, Schema } from "effect"
import type { FailoverSettingsKept } from "./federation-failover-settings.ts"
import { beginnings } from "./federation-failover-streams.ts"
import type { Ward } from "./federation-failover-ward.ts"

type Command<T extends ProtectionCommand["type"]> = Extract<ProtectionCommand, { readonly type: T }>

const returnPath = "/federation/api/v1/federation/failover/return"
/** The home node answers when its cameras are recorded there. */
const returnLimit = "25 seconds"
/** Between two looks for the first pictures: often while they are about to come. */
const lookMs = { first: 200, later: 2_000, firstFor: 30_000 } as const

/** Two groups of pictures of a camera with very long ones. */
const mostOverlapMs = 60_000

/** While something is away. */
const again = Schedule.spaced("1 second")

class CannotTake
  extends Schema.TaggedError<CannotTake>()("CannotTake", { detail: Schema.String, inForce: Schema.Int })
{}

/** The imported rows go when the home node has what was changed of them. */
class ChangesWait extends Schema.TaggedError<ChangesWait>()("ChangesWait", { changes: Schema.Int }) {}

/** The configuration as it was last served here, where the home node does not have all of its changes yet. */
const withChanges = (bundle: FailoverBundle, entries: ReadonlyArray<JournalEntry>): FailoverBundle => {
  if (entries.length === 0) return bundle
  const things = withJournal([...thingsOf(bundle.cameras), ...recordingThings(bundle.recordings)], entries)
  return { ...bundle, cameras: camerasOf(things), recordings: recordingsOf(things) }
}

/** The first words of a failure, for a person. */
export const wordsOf = (cause: Cause.Cause<unknown>): string => {
  const error: unknown = Cause.squash(cause)
  return error instanceof Error && error.message !== "" ? error.message : "an internal error; the log tells more"
}

export const makeTakeover = (shelf: BundleShelf, settings: FailoverSettingsKept) =>
  Effect.gen(function*() {
    const [store, ownership, peers, events] = yield* Effect.all([FailoverStore, Ownership, Peers, Events])
    const recordBacks = yield* RecordBacks
    const [cameraBundles, holds, recordBundles, journals, rings] = yield* Effect.all([
      CameraBundles,
      CaptureHolds,
      RecordBundles,
      FailoverJournals,
      ShadowRings,
    ])
    const identity = yield* NodeIdentity
    const { nodeId } = ownership

    const publish = (
      type: Extract<EventDraft["type"], `failover.${string}`>,
      ward: Ward,
      reroute: Pick<RerouteRow, "id" | "drill" | "epoch" | "gaps"> | null,
      reason = "",
    ) => {
      const { homeNodeId, name } = ward.row()
      const epoch = reroute?.epoch ?? ward.state().epoch
      const gaps = reroute?.gaps ?? []
      const measured = gaps.flatMap(({ gapMs }) => gapMs ?? [])
      const data = { homeNodeId, homeName: name, servingNodeId: nodeId, epoch, reason }
      const more = {
        rerouteId: reroute?.id ?? "",
        drill: reroute?.drill ?? ward.state().service?.drill ?? false,
        channels: gaps.length,
        gapMs: measured.length === 0 ? null : Math.max(...measured),
      }
      return events.publish({ type, subject: homeNodeId, data: { ...data, ...more }, resource: [] } as EventDraft)
    }

    const opened = Effect.fnUntraced(function*(peer: Peer) {
      const sealed = yield* shelf.read(peer.nodeId)
      if (sealed === null) return yield* new CannotTake({ detail: "There is no configuration of it here", inForce: 0 })
      return yield* openBundle(sealed, peer).pipe(Effect.provideService(NodeIdentity, identity))
    })
    /** This node serves the slot with `epoch` when it answers. */
    const own = Effect.fnUntraced(function*(peer: Peer, epoch: number) {
      const found = peer.relation === "peer" ?
        yield* ownership.adopt(peer, epoch - 1) :
        (yield* ownership.owners).find(({ homeNodeId }) => homeNodeId === peer.nodeId)
      if (found === undefined) return yield* new CannotTake({ detail: "It has no slot here", inForce: 0 })
      if (found.nodeId === nodeId) {
        if (found.epoch < epoch) yield* ownership.raise(found.slot, epoch)
        if (found.epoch > epoch) return yield* new StaleEpoch({ slot: found.slot, epoch, inForce: found.epoch })
        return found.slot
      }
      if (found.epoch !== epoch - 1) return yield* new StaleEpoch({ slot: found.slot, epoch, inForce: found.epoch })
      yield* ownership.move(found.slot, nodeId, epoch - 1)
      return found.slot
    })
    /** Writes what the bundle tells and begins its captures. */
    const bringIn = Effect.fnUntraced(function*(ward: Ward, peer: Peer, slot: Slot, lostMs: number) {
      const bundle = withChanges(yield* opened(peer), yield* journals.entries(peer.nodeId))
      const since = beginnings(bundle, yield* rings.keep(peer.nodeId), lostMs)
      const placed = yield* cameraBundles.place(slot, bundle.cameras)
      // Of `liveOnly` none: what is here of an earlier reroute, still on its way home, is switched off.
      const recordings = ward.row().class === "liveOnly" ?
        [] :
        bundle.recordings.filter(({ cameraId }) => placed.has(cameraId))
      yield* recordBundles.place(slot, recordings, (id) => since.get(id) ?? lostMs)
      if (placed.size < bundle.cameras.length) {
        yield* Effect.logWarning("Cameras of another node have the ids of some that are here, and are left out", {
          cameras: bundle.cameras.filter(({ id }) => !placed.has(id)).map(({ name }) => name),
        })
      }
      yield* cameraBundles.start(slot, [...placed])
    })

    const gapsOf = (slot: Slot, epoch: number, lostMs: number) =>
      Effect.map(recordBundles.stored(slot, epoch), (stored) => ({
        stored,
        gaps: stored.map(({ channelId, firstMs }): KeptGap => ({
          channelId,
          gapMs: firstMs === null ? null : Math.max(0, firstMs - lostMs),
        })),
      }))
    /** Measures until every channel has its first picture, or the service is over. */
    const measure = Effect.fnUntraced(function*(ward: Ward, reroute: RerouteRow) {
      const begun = yield* Clock.currentTimeMillis
      let known = ""
      while (ward.state().service?.epoch === reroute.epoch) {
        const { gaps, stored } = yield* gapsOf(reroute.slot, reroute.epoch, reroute.lostMs)
        const text = gaps.map(({ channelId, gapMs }) => `${channelId} ${gapMs}`).join()
        if (text !== known) yield* store.setReroute(reroute.id, { gaps })
        known = text
        if (gaps.every(({ gapMs }) => gapMs !== null)) {
          yield* recordBundles.tellTakeover(reroute.epoch, reroute.lostMs, stored)
          if (reroute.drill) {
            const drill = {
              atMs: reroute.sinceMs,
              gapMs: gaps.length === 0 ? null : Math.max(...gaps.map(({ gapMs }) => gapMs ?? 0)),
              channels: gaps.length,
            }
            yield* store.setDrill(ward.row().id, drill)
            ward.change({ drill })
          }
          return yield* publish("failover.takeover.completed", ward, { ...reroute, gaps })
        }
        const since = (yield* Clock.currentTimeMillis) - begun
        yield* Effect.sleep(since < lookMs.firstFor ? lookMs.first : lookMs.later)
      }
    }, (work, ward) =>
      Effect.catchCause(work, (cause) =>
        Effect.logWarning("The gap of a takeover could not be measured", { homeNodeId: ward.row().homeNodeId, cause })))

    const take = Effect.fn("failover.take")(function*(ward: Ward, { epoch }: Command<"takeSlot">) {
      const { homeNodeId, id } = ward.row()
      const nowMs = yield* Clock.currentTimeMillis
      const lostMs = Math.min(nowMs, ward.heardMs() ?? nowMs)
      const drill = ward.state().service?.drill ?? false
      const peer = yield* peers.get(homeNodeId)
      const slot = yield* own(peer, epoch)
      yield* holds.hold(slot)
      if (peer.relation === "peer") {
        yield* bringIn(ward, peer, slot, lostMs)
      } else {
        yield* cameraBundles.start(slot, yield* cameraBundles.ids(slot))
      }
      const { gaps } = yield* gapsOf(slot, epoch, lostMs)
      const reroute = yield* store.openReroute({
        id: RerouteId.make(yield* uuid7),
        protectionId: id,
        homeNodeId,
        servingNodeId: nodeId,
        slot,
        epoch,
        state: "serving",
        drill,
        sinceMs: nowMs,
        endedMs: null,
        lostMs,
        gaps,
      })
      yield* store.setSlot(id, slot)
      ward.change({ slot })
      yield* ward.outcome({ type: "slotTaken", epoch, rerouteId: reroute.id })
      yield* publish("failover.takeover.started", ward, reroute)
      yield* measure(ward, reroute)
    })
    const taking = (ward: Ward, command: Command<"takeSlot">) =>
      take(ward, command).pipe(Effect.catchCause((cause) =>
        Effect.gen(function*() {
          if (Cause.hasInterruptsOnly(cause)) {
            return yield* Effect.interrupt
          }
          const error: unknown = Cause.squash(cause)
          const inForce = error instanceof StaleEpoch || error instanceof CannotTake ? error.inForce : 0
          const reason = error instanceof CannotTake ? error.detail : wordsOf(cause)
          yield* Effect.logError("A home node could not be taken over", { homeNodeId: ward.row().homeNodeId, cause })
          yield* publish("failover.takeover.failed", ward, null, reason)
          yield* ward.outcome({ type: "slotFailed", reason, inForce })
        })
      ))

    /** Both record for two groups of pictures, unless somebody set another time. */
    const overlapOf = Effect.fnUntraced(function*(slot: Slot | null, epoch: number) {
      if (slot === null || (yield* settings.get).settings.overlapMs > 0) {
        return {}
      }
      const groupMs = yield* recordBundles.longestGroupMs(slot, epoch)
      return groupMs === null ? {} : { overlapMs: Math.min(mostOverlapMs, 2 * groupMs) }
    })
    const giveBack = Effect.fn("failover.giveBack")(function*(ward: Ward, command: Command<"giveBack">) {
      const { epoch, turns, withoutChanges } = command
      const { homeNodeId, slot } = ward.row()
      const { service } = ward.state()
      const cameras = slot === null ? 0 : (yield* cameraBundles.ids(slot)).length
      const overlap = yield* overlapOf(slot, service?.epoch ?? epoch)
      if (service !== null && service.rerouteId !== null) {
        yield* store.setReroute(RerouteId.make(service.rerouteId), { state: "failingBack" })
      }
      const answer = yield* peers.call(homeNodeId, {
        method: "POST",
        path: returnPath,
        body: { json: { epoch, turns: turns.map((turn) => ({ ...turn })), withoutChanges, cameras } },
        timeout: returnLimit,
      }, ReturnAnswer)
      yield* ward.outcome({ type: "gaveBack", epoch: answer.epoch, ...overlap })
    }, (work, ward) =>
      Effect.catchCause(work, (cause) =>
        Effect.gen(function*() {
          if (Cause.hasInterruptsOnly(cause)) {
            return yield* Effect.interrupt
          }
          const rerouteId = ward.state().service?.rerouteId ?? null
          // It is served here as before.
          if (rerouteId !== null) {
            yield* Effect.ignore(store.setReroute(RerouteId.make(rerouteId), { state: "serving" }))
          }
          yield* ward.outcome({ type: "giveBackFailed", reason: wordsOf(cause), inForce: 0 })
        })))
    /** For the log, and for whoever is notified. */
    const tellHeld = Effect.fnUntraced(function*(ward: Ward, { reason, refusals }: Command<"tellHeld">) {
      const { homeNodeId, name } = ward.row()
      const changes = yield* journals.waiting().pipe(
        Effect.map((waiting): number | null => waiting.get(homeNodeId) ?? 0),
        Effect.catch(() =>
          Effect.succeed(null)
        ),
      )
      const said = { homeNodeId, refusals, changes, reason }
      yield* Effect.logError("A home node that is back does not take its cameras; it is tried on", said)
      const data = { homeName: name, servingNodeId: nodeId, epoch: ward.state().epoch, ...said }
      yield* events.publish({ type: "failover.failback.held", subject: homeNodeId, data, resource: [] })
    })

    const stop = Effect.fn("failover.stop")(function*(ward: Ward) {
      const { homeNodeId, slot } = ward.row()
      const owner = (yield* ownership.owners).find((one) => one.slot === slot)
      if (owner?.nodeId === nodeId && slot !== null) {
        // Whoever moved it meanwhile has done it already.
        yield* ownership.move(slot, homeNodeId, owner.epoch).pipe(Effect.catchTag("StaleEpoch", () => Effect.void))
      }
      if (slot !== null) yield* holds.release(slot)
      const rerouteId = ward.state().service?.rerouteId ?? null
      if (rerouteId !== null) {
        const id = RerouteId.make(rerouteId)
        yield* store.setReroute(id, { state: "recordingBack" })
        yield* publish("failover.failback.completed", ward, yield* store.reroute(id))
      }
      yield* ward.outcome({ type: "stopped" })
    }, (work) => Effect.retry(work, again))

    const cleanUp = Effect.fn("failover.cleanUp")(function*(ward: Ward, { rerouteId }: Command<"cleanUp">) {
      const { homeNodeId, slot } = ward.row()
      const owner = (yield* ownership.owners).find((one) => one.slot === slot)
      const peer = yield* peers.get(homeNodeId).pipe(Effect.catchTag("NodeNotFound", () => Effect.succeed(null)))
      // Of several reroutes the last one clears up; while the slot is served again nothing goes.
      const others = ward.state().owed.filter((one) => one.rerouteId !== rerouteId)
      if (peer === null) yield* journals.forget(homeNodeId)
      const changes = (yield* journals.waiting()).get(homeNodeId) ?? 0
      if (changes > 0) return yield* new ChangesWait({ changes })
      if (slot !== null && owner?.nodeId !== nodeId && others.length === 0 && peer?.relation !== "member") {
        yield* recordBundles.remove(slot)
        yield* cameraBundles.remove(slot)
      }
      const id = RerouteId.make(rerouteId)
      yield* store.setReroute(id, { state: "done", endedMs: yield* Clock.currentTimeMillis })
      // What is gone for ever was told when it was missed.
      const footage = yield* recordBacks.progressOf(rerouteId)
      if (footage?.state !== "partial") {
        yield* publish("failover.recordback.completed", ward, yield* store.reroute(id))
      }
      yield* ward.outcome({ type: "cleanedUp", rerouteId })
    })

    return {
      take: taking,
      giveBack,
      tellHeld,
      stop,
      cleanUp,
      opened,
      /** After a restart: what was not measured to its end is measured on. */
      resume: Effect.fnUntraced(function*(ward: Ward) {
        const { slot } = ward.row()
        if (slot !== null && ward.state().service !== null) yield* holds.hold(slot)
        const rerouteId = ward.state().service?.rerouteId ?? null
        if (rerouteId === null) return
        const reroute = yield* store.reroute(RerouteId.make(rerouteId))
        if (reroute !== null && reroute.gaps.some(({ gapMs }) => gapMs === null)) yield* measure(ward, reroute)
      }),
    }
  })
export type Takeover = Effect.Success<ReturnType<typeof makeTakeover>>
