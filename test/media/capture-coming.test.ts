/** Cameras that come by themselves: waited for without a try, taken at once, kept while they are here, missed with a cause. */
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { assignment, FakeCamera, FakeDisk, FakeFolder, recordingId, startNode, streamId } from "./capture-harness.ts"

const begin = 1_760_000_000_000
const mobile = assignment({ driver: "mobile", url: "mobile:1", username: null, password: null })

const setup = Effect.fnUntraced(function*() {
  yield* TestClock.setTime(begin)
  const camera = new FakeCamera()
  const node = yield* startNode(camera, new FakeDisk(), new FakeFolder())
  const status = () => node.supervisor.status(streamId)!
  return { camera, node, status }
})

describe("a camera that comes by itself", () => {
  it.effect("is recorded from the moment it comes, and its absence has a cause", () =>
    Effect.gen(function*() {
      const { camera, node, status } = yield* setup()
      yield* node.supervisor.assign(mobile)
      yield* TestClock.adjust("10 minutes")
      expect([camera.opened, status().health, status().reason]).toEqual([0, "offline", "not here"])
      camera.come()
      yield* TestClock.adjust("3 seconds")
      expect([camera.opened, status().health, status().recordingState]).toEqual([1, "online", "recording"])
      yield* TestClock.adjust("1 minute")
      yield* camera.leave()
      yield* TestClock.adjust("1 minute")
      expect([camera.opened, status().health]).toEqual([1, "offline"])
      camera.come()
      // Nothing of a back-off: it is here.
      yield* TestClock.adjust("2 seconds")
      expect([camera.opened, status().health]).toEqual([2, "online"])
      yield* TestClock.adjust("5 seconds")
      const gaps = node.supervisor.gaps(recordingId, { start: begin, end: begin + 3_600_000 })
      expect(gaps.map(({ cause, endMs }) => [cause, endMs === null])).toEqual([
        ["publisher_away", false],
        ["publisher_away", false],
      ])
      yield* node.stop
    }))

  it.effect("is kept while it is here though nobody records or watches, and taken again when it froze", () =>
    Effect.gen(function*() {
      const { camera, node, status } = yield* setup()
      camera.come()
      yield* node.supervisor.assign({ ...mobile, recording: null })
      yield* TestClock.adjust("5 minutes")
      expect([camera.opened, camera.open, status().health]).toEqual([1, 1, "online"])
      camera.mode = "frozen"
      yield* TestClock.adjust("7 seconds")
      expect(status().health).toBe("degraded")
      camera.mode = "ok"
      yield* TestClock.adjust("20 seconds")
      expect([camera.open, status().health]).toEqual([1, "online"])
      yield* node.supervisor.assign({ ...mobile, recording: null, enabled: false, epoch: 2 })
      yield* TestClock.adjust("1 second")
      expect([camera.open, status().health]).toEqual([0, "disabled"])
      yield* node.stop
    }))
})
