/** Streams on demand, and one ingest for all who watch: on the test's clock, with the recorder beside them. */
import { LiveStreams } from "#media/hub.ts"
import { LiveHls } from "#media/live-hls.ts"
import { layer as liveHlsLayer } from "#media/live-hls/live.ts"
import { openFeed } from "#media/rtsp-server/feed.ts"
import { describe, expect, it } from "@effect/vitest"
import { Context, Effect, Exit, Layer, Scope } from "effect"
import { TestClock } from "effect/testing"
import { camera as film } from "./access-units.ts"
import { judge } from "./capture-checker.ts"
import { assignment, FakeCamera, FakeDisk, FakeFolder, recordingId, startNode, streamId } from "./capture-harness.ts"

const begin = 1_760_000_000_000
const bounds = { maxBytes: 1 << 20, maxItems: 2_000 }

const setup = Effect.fnUntraced(function*() {
  yield* TestClock.setTime(begin)
  const camera = new FakeCamera()
  const disk = new FakeDisk()
  const node = yield* startNode(camera, disk, new FakeFolder())
  /** A viewer that comes now and goes by `leave`. */
  const viewer = Effect.gen(function*() {
    const scope = yield* Scope.make()
    const view = yield* Scope.provide(node.live.watch(streamId, bounds), scope)
    return { view: view!, leave: Scope.close(scope, Exit.void) }
  })
  const health = () => node.supervisor.status(streamId)!.health
  return { camera, disk, node, viewer, health }
})

const onDemand = assignment({ recording: null, onDemand: true })

describe("a stream on demand", () => {
  it.effect("is looked at once, then connected while somebody watches and ten seconds longer", () =>
    Effect.gen(function*() {
      const { camera, health, node, viewer } = yield* setup()
      yield* node.supervisor.assign(onDemand)
      yield* TestClock.adjust("5 seconds")
      expect(node.supervisor.status(streamId)).toMatchObject({
        health: "idle",
        reason: "",
        parameters: { audio: null },
      })
      yield* TestClock.adjust("10 minutes")
      expect([camera.opened, camera.open]).toEqual([1, 0])

      const first = yield* viewer
      const second = yield* viewer
      yield* TestClock.adjust("5 seconds")
      expect([camera.opened, camera.open, health()]).toEqual([2, 1, "online"])
      for (const { view } of [first, second]) {
        expect((yield* view.take).find(({ _tag }) => _tag === "Unit")).toMatchObject({ unit: { key: true } })
      }
      yield* first.leave
      yield* TestClock.adjust("60 seconds")
      expect(camera.open).toBe(1)
      yield* second.leave
      yield* TestClock.adjust("8 seconds")
      expect([camera.open, health()]).toEqual([1, "online"])
      // Who comes back in time finds it as it was.
      const third = yield* viewer
      yield* TestClock.adjust("30 seconds")
      expect(camera.opened).toBe(2)
      yield* third.leave
      yield* TestClock.adjust("12 seconds")
      expect([camera.opened, camera.open, health()]).toEqual([2, 0, "idle"])
      yield* node.stop
    }))

  it.effect("that cannot be reached is tried until it can, watched or not, and says so", () =>
    Effect.gen(function*() {
      const { camera, health, node, viewer } = yield* setup()
      camera.mode = "unreachable"
      yield* node.supervisor.assign(onDemand)
      yield* TestClock.adjust("5 minutes")
      expect(health()).toBe("offline")
      camera.mode = "ok"
      yield* TestClock.adjust("2 minutes")
      expect([camera.open, health()]).toEqual([0, "idle"])
      const one = yield* viewer
      yield* TestClock.adjust("5 seconds")
      camera.mode = "unreachable"
      yield* camera.disconnect()
      yield* TestClock.adjust("5 seconds")
      yield* one.leave
      yield* TestClock.adjust("60 seconds")
      expect(health()).toBe("offline")
      camera.mode = "ok"
      yield* TestClock.adjust("60 seconds")
      expect([camera.open, health()]).toEqual([0, "idle"])
      yield* node.stop
    }))

  it.effect("that refuses the password is not tried more often because people come and go", () =>
    Effect.gen(function*() {
      const { camera, node, viewer } = yield* setup()
      camera.mode = "wrongPassword"
      yield* node.supervisor.assign(onDemand)
      yield* TestClock.adjust("2 seconds")
      for (let i = 0; i < 20; i++) {
        const one = yield* viewer
        yield* TestClock.adjust("1 second")
        yield* one.leave
      }
      expect(camera.opened).toBe(1)
      yield* node.stop
    }))

  it.effect("is recorded like the others, and follows its switch", () =>
    Effect.gen(function*() {
      const { camera, health, node } = yield* setup()
      yield* node.supervisor.assign(assignment({ onDemand: true }))
      yield* TestClock.adjust("30 seconds")
      expect(node.supervisor.status(streamId)).toMatchObject({ health: "online", recordingState: "recording" })
      yield* node.supervisor.assign({ ...onDemand, epoch: assignment().epoch })
      yield* TestClock.adjust("5 seconds")
      expect([camera.open, health()]).toEqual([0, "idle"])
      const before = camera.opened
      yield* node.supervisor.assign(assignment({ recording: null, onDemand: false }))
      yield* TestClock.adjust("5 minutes")
      expect(camera.opened).toBeGreaterThan(before + 3)
      yield* node.stop
    }))
})

describe("one ingest", () => {
  it.effect("serves every door and the recorder; who is slow loses whole groups and holds nobody up", () =>
    Effect.gen(function*() {
      const { camera, disk, node, viewer } = yield* setup()
      // Sets that an initialisation can be made of.
      camera.parameters = film({ video: "main-640x360-25.h264", seconds: 1, startMs: begin }).parameters
      yield* node.supervisor.assign(assignment())
      yield* TestClock.adjust("10 seconds")
      const doors = Layer.succeed(LiveStreams, node.live)
      const hls = Context.get(yield* Layer.build(liveHlsLayer.pipe(Layer.provide(doors))), LiveHls)
      const holder = { id: "session", holds: Effect.succeed(true) }
      const sessions = yield* Effect.forEach([1, 2, 3], () => Effect.orDie(hls.open(streamId, holder, null)))
      const feed = yield* openFeed(streamId).pipe(Effect.provideService(LiveStreams, node.live))
      const slow = yield* node.live.watch(streamId, { maxBytes: 1_000, maxItems: 30 })
      const quick = yield* viewer
      const got: Array<number> = []
      for (let second = 0; second < 60; second++) {
        yield* TestClock.adjust("1 second")
        for (const item of yield* quick.view.take) {
          if (item._tag === "Unit") got.push(item.unit.ticks)
          else expect(item._tag).toBe("Parameters")
        }
        for (const { id } of sessions) expect(hls.session(id)).not.toBeNull()
      }
      expect(camera.opened).toBe(1)
      expect(slow!.dropped()).toBeGreaterThan(400)
      const late = yield* slow!.take
      expect(late.find(({ _tag }) => _tag === "Unit")).toMatchObject({ unit: { key: true } })
      expect(quick.view.dropped()).toBe(0)
      expect(got.every((ticks, i) => i === 0 || ticks === got[i - 1]! + 9_000)).toBe(true)
      expect(feed!.heardMs).toBeGreaterThan(begin + 69_000)
      expect((yield* sessions[0]!.playlist(null, "first"))!.text.match(/#EXTINF/g)!.length).toBeGreaterThan(5)
      const gaps = node.supervisor.gaps(recordingId, { start: 0, end: Number.MAX_SAFE_INTEGER })
      const entries = disk.files.flatMap((file) => file.entries)
      expect(judge(entries, gaps, begin, begin + 70_000).faults).toEqual([])
      expect(gaps.map(({ cause }) => cause)).toEqual(["starting"])
      yield* node.stop
    }).pipe(Effect.scoped))
})
