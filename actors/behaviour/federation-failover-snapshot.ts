/**
 * The guardian's copy of a home node's configuration: fetched, proven, kept sealed; and whether the home node's cameras let a second
 * node in.
 *
 * Invariants
 * 1. A copy that this node could not open later is refused now: it is opened once in memory, and kept as it came.
 * 2. While its cameras are served here, a home node that knows none of them has lost its configuration: what is here stays.
 * 3. Of a member nothing is fetched: its configuration is in the database that this node has. What it needs is counted from there.
 * 4. A trial opens one session beside the home node's own, stores nothing and closes it; {@link trialsAtOnce} at once.
 */
import { CameraBundles } from "#actors/protocol/camera-bundle.ts"
import { type Peer, Peers } from "#actors/protocol/federation-peer.ts"
import { RecordBundles } from "#actors/protocol/record-bundle.ts"
import { FailoverStore } from "#actors/store/federation-failover.ts"
import { type BundleShelf, openBundle } from "#cluster/bundle.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import { type Owner, Ownership } from "#cluster/ownership.ts"
import { ShadowRings } from "#media/shadow.ts"
import { SourceDrivers } from "#media/source.ts"
import { NodeId } from "#schema/common.ts"
import type { BundledCamera, FailoverBundle } from "#schema/federation-bundle.ts"
import { BundleAnswer, type ProtectionId, type SessionTrial } from "#schema/federation-failover.ts"
import type { Slot } from "#schema/ownership.ts"
import { Cause, Clock, Deferred, Effect, Redacted, Schema } from "effect"
import { chore } from "./chore.ts"
import { ingestOf, needOf } from "./federation-failover-capacity.ts"
import type { FailoverSettingsKept } from "./federation-failover-settings.ts"
import { shadowedOf } from "./federation-failover-streams.ts"
import { wordsOf } from "./federation-failover-takeover.ts"
import type { Ward } from "./federation-failover-ward.ts"

const path = "/federation/api/v1/federation/failover/config-bundle"
const fetchLimit = "20 seconds"
const trialsAtOnce = 4
/** Until the first key picture; a camera sends one with each group of pictures. */
const trialLimit = "15 seconds"
/** Cameras of one home node that are tried. */
const mostTrials = 256

class NothingLeft extends Schema.TaggedError<NothingLeft>()("NothingLeft", { homeNodeId: NodeId }) {
  override get message(): string {
    return "The home node does not know its cameras: its configuration was lost, and what is here of it is kept"
  }
}

export const makeSnapshots = (shelf: BundleShelf, settings: FailoverSettingsKept) =>
  Effect.gen(function*() {
    const [store, peers, ownership, drivers] = yield* Effect.all([FailoverStore, Peers, Ownership, SourceDrivers])
    const [cameraBundles, recordBundles, rings] = yield* Effect.all([CameraBundles, RecordBundles, ShadowRings])
    const identity = yield* NodeIdentity

    const trial = Effect.fnUntraced(
      function*(
        camera: BundledCamera,
        channel: BundledCamera["channels"][number],
      ): Effect.fn.Return<ReadonlyArray<SessionTrial>> {
        const stream = channel.streams.find(({ enabled, role }) => role === "main" && enabled)
        if (stream === undefined || camera.driver === "mobile") return []
        const first = yield* Deferred.make<void>()
        const own = stream.username !== null || stream.password !== null
        const password = own ? stream.password : camera.password
        const answer = (outcome: SessionTrial["outcome"], detail: string) => [
          { channelId: channel.id, cameraName: camera.name, outcome, detail },
        ]
        return yield* drivers.rtsp.open({
          url: stream.sourceUrl,
          username: own ? stream.username : camera.username,
          password: password === null ? null : Redacted.make(password),
          transport: stream.transport,
          requestTimeoutMs: 5_000,
          drainEveryMs: 20,
        }, {
          onParameters: () => {},
          onUnit: ({ key, track }) => {
            if (key && track === "video") Deferred.doneUnsafe(first, Effect.void)
          },
          onLoss: () => {},
        }).pipe(
          Effect.raceFirst(Deferred.await(first)),
          Effect.as(answer("accepted", "")),
          Effect.timeoutOrElse({
            duration: trialLimit,
            orElse: () => Effect.succeed(answer("unreachable", "no key picture in time")),
          }),
          Effect.catch((error) =>
            Effect.succeed(
              answer(
                error.reason === "refused" || error.reason === "unauthorized" ? "refused" : "unreachable",
                error.detail,
              ),
            )
          ),
        )
      },
    )
    const trying = new Set<ProtectionId>()
    /** Those that were not let in yet, or were not tried; a camera that is held in memory has let this node in. */
    const tryCameras = Effect.fn("failover.tryCameras")(function*(ward: Ward, cameras: ReadonlyArray<BundledCamera>) {
      const { homeNodeId, id, sessions: before } = ward.row()
      const known = new Map(before.map((session) => [session.channelId, session]))
      const held = new Set(rings.status(homeNodeId).flatMap(({ cameraId, heldMs }) => heldMs > 0 ? [cameraId] : []))
      const wanted = cameras.filter(({ enabled }) => enabled).flatMap((camera) =>
        camera.channels.filter(({ active }) => active).map((channel) => ({ camera, channel }))
      ).slice(0, mostTrials)
      const sessions = (yield* Effect.forEach(wanted, ({ camera, channel }) => {
        const last = known.get(channel.id)
        if (last?.outcome === "accepted") return Effect.succeed([{ ...last, cameraName: camera.name }])
        if (last === undefined || !held.has(camera.id)) return trial(camera, channel)
        return Effect.succeed([{ ...last, outcome: "accepted" as const, detail: "" }])
      }, { concurrency: trialsAtOnce })).flat()
      yield* store.setSessions(id, sessions)
      ward.change({ sessions })
    }, (work, ward) => Effect.ensuring(work, Effect.sync(() => trying.delete(ward.row().id))))

    /** What is known of it from now on. */
    const know = Effect.fnUntraced(
      function*(
        ward: Ward,
        slot: Slot,
        known: Pick<FailoverBundle, "cameras" | "recordings" | "ingestBps" | "digest" | "madeMs">,
        sizeBytes: number,
      ) {
        const { class: kind, id } = ward.row()
        const cameras = known.cameras.filter(({ enabled }) => enabled).length
        const shadowed = kind === "shadow" ? shadowedOf(known, ownership.nodeId).length : 0
        const load = { cameras, ingestBps: known.ingestBps, recorded: kind !== "liveOnly", shadowed }
        const need = needOf(load, (yield* settings.get).settings)
        const snapshot = {
          digest: known.digest,
          madeMs: known.madeMs,
          fetchedMs: yield* Clock.currentTimeMillis,
          cameras: known.cameras.length,
          recordings: known.recordings.length,
          sizeBytes,
        }
        yield* store.setSnapshot(id, snapshot, need)
        yield* store.setSlot(id, slot)
        ward.change({ snapshot, need, slot })
        const tries = !trying.has(id) && ward.state().service === null
        if (tries) trying.add(id)
        yield* ward.outcome({ type: "bundleRefreshed", digest: known.digest })
        if (tries) yield* Effect.forkDetach(chore("Trying cameras", tryCameras(ward, known.cameras)))
      },
    )
    const fetch = Effect.fnUntraced(function*(ward: Ward, peer: Peer) {
      const { homeNodeId } = ward.row()
      const answer = yield* peers.call(homeNodeId, { method: "GET", path, timeout: fetchLimit }, BundleAnswer)
      const bundle = yield* openBundle(answer.bundle, peer).pipe(Effect.provideService(NodeIdentity, identity))
      if (bundle.cameras.length === 0 && (ward.row().snapshot?.cameras ?? 0) > 0 && ward.state().service !== null) {
        return yield* new NothingLeft({ homeNodeId })
      }
      yield* shelf.keep(homeNodeId, answer.bundle)
      // A slot that is not to be had is known before it is needed.
      const { slot } = yield* ownership.adopt(peer, bundle.epoch)
      yield* know(ward, slot, bundle, answer.bundle.length)
    })
    const look = Effect.fnUntraced(function*(ward: Ward, home: Owner) {
      const { slot } = home
      const digest = ward.state().bundle.wanted ?? ""
      const cameras = yield* cameraBundles.export(slot)
      const recordings = yield* recordBundles.export(slot)
      const ingestBps = ingestOf(cameras, recordings, yield* recordBundles.rates(slot))
      const madeMs = yield* Clock.currentTimeMillis
      yield* know(ward, slot, { cameras, recordings, ingestBps, digest, madeMs }, 0)
    })

    return {
      /** Cameras of it are being tried. */
      isTrying: (id: ProtectionId): boolean => trying.has(id),
      /** Fetches it; what fails is told to the machine, and answered in words. */
      refresh: (ward: Ward): Effect.Effect<string | null> =>
        Effect.gen(function*() {
          const { homeNodeId } = ward.row()
          const peer = yield* peers.get(homeNodeId)
          const home = (yield* ownership.owners).find((one) => one.homeNodeId === homeNodeId)
          if (peer.relation === "member" && home !== undefined) yield* look(ward, home)
          else yield* fetch(ward, peer)
          return null
        }).pipe(Effect.catchCause((cause) => {
          if (Cause.hasInterruptsOnly(cause)) return Effect.interrupt
          const reason = wordsOf(cause)
          return Effect.as(ward.outcome({ type: "bundleFailed", reason }), reason)
        })),
      drop: (ward: Ward) =>
        Effect.gen(function*() {
          yield* shelf.drop(ward.row().homeNodeId)
          yield* store.setSnapshot(ward.row().id, null, ward.row().need)
          ward.change({ snapshot: null })
        }),
    }
  })
export type Snapshots = Effect.Success<ReturnType<typeof makeSnapshots>>
