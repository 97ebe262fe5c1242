/**
 * Changes of cameras that another node serves, on real databases: kept where they are made, merged once where they belong, and shown where
 * both nodes changed the same. What the nodes say to each other does not go over HTTP here.
 */
import * as FailoverJournaling from "#actors/behaviour/federation-journal.ts"
import { livenessLayer } from "#actors/behaviour/federation-node.ts"
import { AuditTrail } from "#actors/protocol/auth-audit.ts"
import { CameraBundles } from "#actors/protocol/camera-bundle.ts"
import { Events } from "#actors/protocol/event.ts"
import { FailoverJournals } from "#actors/protocol/federation-journal.ts"
import { type Peer, Peers } from "#actors/protocol/federation-peer.ts"
import { RecordBundles } from "#actors/protocol/record-bundle.ts"
import { CameraStore } from "#actors/store/camera.ts"
import { FailoverJournalStore } from "#actors/store/federation-journal.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import { Acting, actingHeader } from "#schema/acting.ts"
import { type AuditFact, AuditUnavailable } from "#schema/auth-audit.ts"
import type { NodeId } from "#schema/common.ts"
import type { EventDraft } from "#schema/event.ts"
import { JournalAnswer, JournalRequest } from "#schema/federation-journal.ts"
import { type Fingerprint, PeerUnreachable } from "#schema/federation.ts"
import type { Slot } from "#schema/ownership.ts"
import { assert, it } from "@effect/vitest"
import { Context, Effect, Layer, Redacted, Schema } from "effect"
import { RpcClient } from "effect/rpc"
import { fakeMedia } from "./record-fixtures.ts"
import { eventually, firstPage, folder, front, node, server } from "./record-node.ts"

type Side = Effect.Success<ReturnType<typeof node>>

/** As a signed-in user's request does it. */
const as = (name: string) => <A, E, R>(work: Effect.Effect<A, E, R>) =>
  work.pipe(Effect.provideService(Acting, name), RpcClient.withHeaders({ [actingHeader]: encodeURIComponent(name) }))

const asPeer = ({ nodeId, signing, transfer }: NodeIdentity["Service"], name: string): Peer => ({
  nodeId,
  name,
  relation: "peer",
  address: "http://127.0.0.1:1",
  fingerprint: "" as Fingerprint,
  signingKey: signing.publicKey,
  transferKey: transfer.publicKey,
  mediaReadEnforcement: true,
  guardianGranted: true,
})

/** The service on a node that knows one other, of which `answer` is what it says. */
const journalsOf = Effect.fnUntraced(
  function*(
    side: Side,
    other: Peer,
    answer: (acknowledged: ReadonlyArray<string>) => Effect.Effect<unknown, PeerUnreachable>,
    auditFull: () => boolean = () => false,
  ) {
    const facts: Array<AuditFact> = []
    const events: Array<EventDraft> = []
    const call: Peers["Service"]["call"] = (nodeId, request, schema) =>
      Effect.gen(function*() {
        assert.strictEqual(nodeId, other.nodeId)
        const { acknowledged } = Schema.decodeUnknownSync(JournalRequest)(
          request.body !== undefined && "json" in request.body ? request.body.json : null,
        )
        return yield* Effect.orDie(Schema.decodeUnknownEffect(schema)(yield* answer(acknowledged)))
      })
    const layer = FailoverJournaling.layer({ name: "home" }).pipe(
      Layer.provide([
        Layer.mock(Peers, { get: () => Effect.succeed(other), call }),
        Layer.mock(AuditTrail, {
          records: () =>
            true,
          hasRoom: () =>
            true,
          state: () => ({ queuedBytes: 0, limitBytes: 1, dropped: 0 }),
          queue: {
            read: () => Effect.succeed([]),
            awaitEntry: () => Effect.never,
            acknowledge: () => Effect.void,
            acknowledged: () => 0,
          },
          record: (fact) =>
            auditFull() ? Effect.fail(new AuditUnavailable()) : Effect.sync(() => `${facts.push(fact)}`),
        }),
        Layer.succeed(Events, { publish: (event) => Effect.sync(() => void events.push(event)) }),
        livenessLayer,
        FailoverJournalStore.layer,
      ]),
      Layer.provide(Layer.succeedContext(side.context)),
    )
    return { journals: Context.get(yield* Layer.build(layer), FailoverJournals), facts, events }
  },
)

it.live(
  "what is changed in a home node's stead comes home once, and what both changed is shown until it is decided",
  () =>
    Effect.gen(function*() {
      const media = fakeMedia()
      const guard = yield* node({ url: yield* (yield* server).start, dataFolder: yield* folder, media, quiet: true })
      const home = yield* node({
        url: yield* (yield* server).start,
        dataFolder: yield* folder,
        media: fakeMedia(),
        quiet: true,
      })
      const [homeIdentity, guardIdentity] = [home, guard].map(({ context }) => Context.get(context, NodeIdentity))

      const camera = yield* home.cameras.create(front)
      const main = camera.channels[0]!.streams.find(({ role }) => role === "main")!
      const recording = yield* home.recordings.create({ channelId: camera.channels[0]!.id, retentionDays: 30 })
      const [channelId, cameraId] = [camera.channels[0]!.id, camera.id]
      const [guardCameras, homeCameras] = [guard, home].map(({ context }) => Context.get(context, CameraStore))
      const writerAt = (side: Side, slot: Slot) =>
        Effect.map(side.ownership.epochOf(slot), (epoch) => ({ slot, epoch: epoch ?? 0, nowMs: Date.now() }))
      const lacksSound = { name: "audio", supported: "no" } as const
      yield* homeCameras!.setCapability(
        yield* writerAt(home, home.ownership.slot),
        { cameraId, channelId: null },
        lacksSound,
        "Björn",
      )
      const bundle = {
        cameras: yield* Context.get(home.context, CameraBundles).export(home.ownership.slot),
        recordings: yield* Context.get(home.context, RecordBundles).export(home.ownership.slot),
      }
      const homePeer = asPeer(homeIdentity!, "home")
      const { slot } = yield* guard.ownership.adopt({ ...homePeer, nodeId: homePeer.nodeId as NodeId }, 1)
      yield* guard.ownership.move(slot, guard.ownership.nodeId, 1)
      yield* Context.get(guard.context, CameraBundles).place(slot, bundle.cameras)
      yield* Context.get(guard.context, RecordBundles).place(slot, bundle.recordings, () => 0)

      assert.deepStrictEqual(yield* guardCameras!.capabilities({ cameraId, channelId: null }), [
        { ...lacksSound, by: "Björn" },
      ])

      // The guardian's administrator changes a lot, the home node's a little; own cameras of the guardian are no concern.
      const own = yield* guard.cameras.create({ ...front, name: "The guardian's own" })
      yield* guard.cameras.update(own.id, { name: "Still its own" }, null)
      const anna = as("Anna Ö.")
      yield* eventually(
        "the entity of the other node's camera",
        Effect.exit(anna(guard.cameras.update(camera.id, { name: "Gate", password: Redacted.make("there") }, null))),
        (exit) => exit._tag === "Success",
      )
      yield* anna(guard.cameras.updateStream(main.id, { sourceUrl: "rtsp://camera.example:8554/other" }, null))
      yield* anna(guard.recordings.update(recording.id, { retentionDays: 7 }, null))
      const lacksPtz = { name: "ptz", supported: "no" } as const
      yield* anna(
        guardCameras!.setCapability(yield* writerAt(guard, slot), { cameraId, channelId }, lacksPtz, "Anna Ö."),
      )
      const added = yield* anna(guard.cameras.addChannel(camera.id, {
        streams: [{ role: "main", sourceUrl: "rtsp://a:b@camera.example/second" }],
      }))
      yield* home.cameras.update(
        camera.id,
        { name: "Yard", description: "moved", password: Redacted.make("here") },
        null,
      )

      const giver = yield* journalsOf(guard, homePeer, () => Effect.die("the home node is asked nothing"))
      assert.deepStrictEqual([...yield* giver.journals.waiting()], [[homePeer.nodeId, 6]])
      const stored = yield* guard.sql<
        { readonly text: string }
      >`SELECT federation_journal::text AS text FROM federation_journal`
      assert.isFalse(
        stored.some(({ text }) => text.includes("there\"") || text.includes("a:b@")),
        "no password is readable",
      )

      // The line breaks after the first answer: what was merged is merged, and comes again.
      let answers = 0
      let auditAway = true
      const taker = yield* journalsOf(home, asPeer(guardIdentity!, "guard"), (acknowledged) =>
        Effect.gen(function*() {
          if (++answers === 2) {
            return yield* new PeerUnreachable({ nodeId: guardIdentity!.nodeId, reason: "the line broke" })
          }
          const answer = yield* Effect.orDie(giver.journals.give(homePeer.nodeId, acknowledged))
          assert.isFalse(JSON.stringify(answer).includes("Gate"), "it is sealed")
          return Schema.encodeSync(JournalAnswer)(answer)
        }), () => auditAway)
      // What fails before the end of a merge leaves nothing of it: here the audit log, which comes last.
      assert.strictEqual((yield* Effect.flip(taker.journals.take(guardIdentity!.nodeId)))._tag, "DependencyUnavailable")
      assert.strictEqual((yield* home.cameras.get(camera.id)).channels.length, 1)
      assert.strictEqual(yield* taker.journals.countConflicts(), 0)
      auditAway = false
      answers = 0
      assert.strictEqual((yield* Effect.flip(taker.journals.take(guardIdentity!.nodeId)))._tag, "PeerUnreachable")
      assert.strictEqual((yield* giver.journals.waiting()).get(homePeer.nodeId), 6)
      const version = (yield* home.cameras.get(camera.id)).version
      yield* taker.journals.take(guardIdentity!.nodeId)
      assert.strictEqual((yield* home.cameras.get(camera.id)).version, version, "it is merged once")
      assert.strictEqual((yield* giver.journals.waiting()).size, 0)

      // One side alone: applied.
      const merged = yield* home.cameras.get(camera.id)
      assert.strictEqual(merged.description, "moved")
      assert.strictEqual((yield* home.cameras.stream(main.id)).sourceUrl, "rtsp://camera.example:8554/other")
      assert.strictEqual((yield* home.recordings.get(recording.id)).retentionDays, 7)
      assert.deepStrictEqual(yield* homeCameras!.capabilities({ cameraId, channelId }), [{
        ...lacksPtz,
        by: "Anna Ö.",
      }])
      const [, second] = merged.channels
      assert.deepInclude(second, { id: added.id, number: 2 })
      const [told] = yield* Context.get(home.context, CameraBundles).export(home.ownership.slot)
      assert.strictEqual(told!.channels[1]!.streams[0]!.password, "b")

      // Both sides: the home node's was later.
      const conflicts = (yield* taker.journals.conflicts(firstPage)).items
      const named = (field: string) => conflicts.find((one) => one.field === field)!
      assert.deepStrictEqual(conflicts.map(({ field }) => field).toSorted(), ["name", "password"])
      assert.deepInclude(named("name"), {
        base: "Front door",
        here: "Yard",
        there: "Gate",
        thereBy: "Anna Ö.",
        inForce: "here",
        cameraName: "Yard",
        secret: false,
      })
      assert.deepInclude(named("password"), { secret: true, here: true, there: true, base: true, inForce: "here" })
      const kept = yield* home.sql<
        { readonly text: string }
      >`SELECT federation_conflict::text AS text FROM federation_conflict`
      assert.isFalse(kept.some(({ text }) => /camera secret/.test(text)), "no password is readable")
      assert.strictEqual(taker.facts.length, 6)
      assert.deepInclude(taker.facts[0], {
        action: "failover.configurationMerged",
        actor: {
          kind: "peer",
          id: guardIdentity!.nodeId,
          name: "guard",
          sessionId: null,
        },
      })
      assert.strictEqual(taker.facts[0]!.detail["onBehalfOf"], "Anna Ö.")
      assert.strictEqual(taker.events.length, 1)
      assert.deepInclude(taker.events[0]!.data, { conflicts: 2, homeName: "home" })

      // Decided: the one for that side, the other for this.
      assert.strictEqual((yield* taker.journals.resolve(named("name").id, "there")).inForce, "there")
      assert.strictEqual((yield* home.cameras.get(camera.id)).name, "Gate")
      yield* taker.journals.resolve(named("password").id, "here")
      const [now] = yield* Context.get(home.context, CameraBundles).export(home.ownership.slot)
      assert.strictEqual(now!.password, "here")
      assert.strictEqual(yield* taker.journals.countConflicts(), 0)
      assert.strictEqual(
        (yield* Effect.flip(taker.journals.resolve(named("name").id, "here")))._tag,
        "ConflictNotFound",
      )
    }),
  120_000,
)
