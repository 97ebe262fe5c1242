/** The cameras of another node on a real PostgreSQL and the real cluster engine: placed, served, given back, forgotten. */
import { CameraBundles } from "#actors/protocol/camera-bundle.ts"
import { RecordBundles } from "#actors/protocol/record-bundle.ts"
import { NodeId, StreamId } from "#schema/common.ts"
import { uuid7 } from "#schema/uuid.ts"
import { assert, it } from "@effect/vitest"
import { Context, Effect, Redacted } from "effect"
import { fakeMedia, footageFile } from "./record-fixtures.ts"
import { eventually, firstPage, folder, front, node, server } from "./record-node.ts"

it.live(
  "a slot of another node: its cameras are recorded once it is taken, and not any more once it was given back",
  () =>
    Effect.gen(function*() {
      const postgres = yield* server
      const media = fakeMedia()
      const { cameras, context, ownership, recordings, sql } = yield* node({
        url: yield* postgres.start,
        dataFolder: yield* folder,
        media,
      })
      const [cameraBundles, recordBundles] = [Context.get(context, CameraBundles), Context.get(context, RecordBundles)]

      // What a home node tells: everything of one camera, under ids that are not known here.
      const own = yield* cameras.create(front)
      yield* recordings.create({ channelId: own.channels[0]!.id, retentionDays: 3 })
      const [told] = yield* cameraBundles.export(ownership.slot)
      assert.strictEqual(told!.password, "camera secret")
      assert.strictEqual(told!.channels[0]!.streams.find(({ role }) => role === "sub")!.password, "p@ss")
      const marked = yield* cameraBundles.mark(ownership.slot)
      yield* cameras.update(own.id, { name: "Another", password: Redacted.make("new secret") }, null)
      assert.notStrictEqual(yield* cameraBundles.mark(ownership.slot), marked)

      const homeNodeId = NodeId.make(yield* uuid7)
      const id = Effect.map(uuid7, (text) => text as never)
      const camera = {
        ...told!,
        id: yield* id,
        homeNodeId,
        channels: yield* Effect.forEach(told!.channels, (channel) =>
          Effect.gen(function*() {
            const streams = yield* Effect.forEach(
              channel.streams,
              (stream) => Effect.map(id, (id) => ({ ...stream, id })),
            )
            return { ...channel, id: yield* id, streams }
          })),
      }
      const [plan] = yield* recordBundles.export(ownership.slot)
      const recording = {
        ...plan!,
        id: yield* id,
        recordingToken: yield* id,
        cameraId: camera.id,
        channelId: camera.channels[0]!.id,
      }
      const main = StreamId.make(camera.channels[0]!.streams.find(({ role }) => role === "main")!.id)

      // Nobody serves it, and nobody is held up by it.
      const home = { nodeId: homeNodeId, name: "home", signingKey: "a", transferKey: "b" }
      const adopted = yield* ownership.adopt(home, 7)
      assert.deepInclude(adopted, { homeNodeId, nodeId: homeNodeId, epoch: 7 })
      assert.strictEqual((yield* ownership.adopt(home, 5)).epoch, 7)
      const refused = yield* Effect.flip(cameraBundles.place(adopted.slot, [camera]))
      assert.strictEqual(refused._tag, "DependencyUnavailable")

      const { epoch, slot } = yield* ownership.move(adopted.slot, ownership.nodeId, 7)
      assert.strictEqual(epoch, 8)
      const sinceMs = 1_700_000_000_000
      for (const _ of [1, 2]) {
        assert.deepStrictEqual([...(yield* cameraBundles.place(slot, [camera]))], [camera.id])
        yield* recordBundles.place(slot, [recording], () => sinceMs)
      }
      yield* cameraBundles.start(slot, [camera.id])
      assert.deepInclude(media.assignments.get(main), {
        epoch: 8,
        username: "admin",
        url: "rtsp://camera.example:8554/main",
      })
      assert.strictEqual(Redacted.value(media.assignments.get(main)!.password!), "camera secret")
      assert.deepInclude(media.assignments.get(main)!.recording, { recordingId: recording.id, retentionDays: 3 })
      // The entity serves it like any other camera.
      yield* eventually(
        "the entity of the other node's camera",
        Effect.exit(cameras.update(camera.id, { name: "seen from here" }, null)),
        (exit) => exit._tag === "Success",
      )

      const place = { recordingId: recording.id, channelId: recording.channelId, streamId: main }
      const token = recording.recordingToken
      const of = { ...place, recordingToken: token, nodeId: ownership.nodeId, epoch: 8 }
      media.files.push(footageFile(of, yield* uuid7, sinceMs + 4_200, sinceMs + 64_200))
      const stored = yield* recordBundles.stored(slot, 8)
      assert.deepInclude(stored[0], { recordingId: recording.id, firstMs: sinceMs + 4_200 })
      for (const _ of [1, 2]) yield* recordBundles.tellTakeover(8, sinceMs, stored)
      const gaps = yield* recordings.gaps(token, { start: 0, end: sinceMs + 60_000 })
      assert.deepStrictEqual(gaps, [{ start: sinceMs, end: sinceMs + 4_200, cause: "takeover" }])

      yield* ownership.move(slot, homeNodeId, 8)
      yield* eventually("the end of its capture", Effect.sync(() => media.assignments.has(main)), (is) => !is)
      assert.isTrue(media.files.some(({ recordingId }) => recordingId === recording.id), "its footage is kept")
      assert.strictEqual((yield* recordings.byToken(token)).id, recording.id)

      yield* recordBundles.remove(slot)
      yield* cameraBundles.remove(slot)
      yield* ownership.disown(homeNodeId)
      assert.deepStrictEqual(media.files, [])
      assert.deepStrictEqual((yield* cameras.list({}, firstPage, "all")).items.map((one) => one.id), [own.id])
      assert.deepStrictEqual(yield* sql`SELECT slot FROM node`, [{ slot: ownership.slot }])
      assert.strictEqual(media.assignments.size, 2, "its own camera went on all the time")
    }),
  120_000,
)
