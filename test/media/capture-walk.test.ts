/**
 * Random walks of a whole node: cameras that fail in every way, disks that fill, break and lag, people who switch things off,
 * kills in the middle of it. After every step everything that was expected is recorded or has a cause. A walk that fails names its
 * seed.
 */
import type { LineDiskError } from "#media/capture/line-disk.ts"
import { describe, expect, it } from "@effect/vitest"
import { Clock, Effect, Random } from "effect"
import { TestClock } from "effect/testing"
import { judge } from "./capture-checker.ts"
import {
  assignment,
  FakeCamera,
  FakeDisk,
  FakeFolder,
  parametersOf,
  recordingId,
  startNode,
  streamId,
} from "./capture-harness.ts"

const begin = 1_760_000_000_000
const always = { start: 0, end: Number.MAX_SAFE_INTEGER }
const cameraModes = ["ok", "ok", "ok", "frozen", "unreachable", "wrongPassword", "garbage", "keyless"] as const
const diskModes = ["ok", "ok", "ok", "full", "broken", "slow"] as const

const walk = (seed: number) =>
  Effect.gen(function*() {
    yield* TestClock.setTime(begin)
    const pick = <A>(from: ReadonlyArray<A>) =>
      Effect.map(Random.nextIntBetween(0, from.length, { halfOpen: true }), (i) => from[i]!)
    const [camera, disk] = [new FakeCamera(), new FakeDisk()]
    let folder = new FakeFolder(15)
    let node = yield* startNode(camera, disk, folder, { rotateMs: 30_000 })
    let epoch = 1
    yield* Effect.forkChild(node.supervisor.assign(assignment()))
    yield* TestClock.adjust("1 second")
    const story: Array<string> = []

    const kill = Effect.gen(function*() {
      disk.kill(yield* Random.nextIntBetween(0, 4))
      folder = folder.kill()
      yield* Effect.forkChild(node.stop)
      yield* TestClock.adjust("20 seconds")
      node = yield* startNode(camera, disk, folder, { rotateMs: 30_000 })
    })
    const steps: Record<string, Effect.Effect<unknown, LineDiskError>> = {
      camera: Effect.map(pick(cameraModes), (mode) => {
        camera.mode = mode
        return mode
      }),
      cut: Effect.suspend(() => camera.disconnect()),
      loss: Effect.map(Random.nextIntBetween(1, 8), (n) => {
        camera.lose = n
      }),
      jump: Effect.map(Random.nextIntBetween(-100_000, 100_000), (seconds) => {
        camera.jump += seconds * 90_000
      }),
      parameters: Effect.map(pick([640, 1280]), (width) => {
        camera.parameters = parametersOf(width)
      }),
      disk: Effect.flatMap(pick(diskModes), (mode) =>
        Effect.gen(function*() {
          if (mode === "full" || mode === "broken") disk.breakDown(mode, yield* Random.nextIntBetween(0, 4))
          else disk.mode = mode
          return mode
        })),
      person: Effect.gen(function*() {
        const wanted = assignment({ epoch })
        const [enabled, recording] = [yield* pick([true, true, false]), yield* pick([true, true, false])]
        yield* Effect.forkChild(
          node.supervisor.assign({ ...wanted, enabled, recording: { ...wanted.recording!, enabled: recording } }),
        )
        return `${enabled} ${recording}`
      }),
      epoch: Effect.suspend(() => {
        epoch++
        return Effect.forkChild(node.supervisor.assign(assignment({ epoch })))
      }),
      kill,
    }
    for (let step = 0; step < 30; step++) {
      const name = yield* pick(Object.keys(steps))
      const outcome = yield* steps[name]!
      const seconds = yield* Random.nextIntBetween(1, 40)
      yield* TestClock.adjust(seconds * 1_000 + (yield* Random.nextIntBetween(0, 1_000)))
      story.push(`${name} ${typeof outcome === "string" ? outcome : ""} +${seconds} s`)
      const now = yield* Clock.currentTimeMillis
      const gaps = node.supervisor.gaps(recordingId, always)
      const entries = disk.files.flatMap((file) => file.entries)
      const { faults, recordedUntil } = judge(entries, gaps, begin + 100, now)
      const silent = gaps.every((gap) => gap.endMs !== null) && recordedUntil < now - 12_000
      if (faults.length > 0 || silent) {
        const said = gaps.slice(-4).map((gap) =>
          `${gap.cause} ${gap.startMs - begin}..${gap.endMs === null ? "" : gap.endMs - begin}`
        ).join(", ")
        throw new Error(
          `seed ${seed}: ${faults.join("; ")}${silent ? "no footage and no gap" : ""}; now ${now - begin}; ${
            story.slice(-6).join(", ")
          }; ${said}`,
        )
      }
    }
    // Whatever happened, once all is well it records again by itself.
    camera.mode = "ok"
    disk.mode = "ok"
    yield* Effect.forkChild(node.supervisor.assign(assignment({ epoch: epoch + 1 })))
    yield* TestClock.adjust("6 minutes")
    expect(node.supervisor.status(streamId)).toMatchObject({
      health: "online",
      reason: "",
      recordingState: "recording",
    })
    yield* Effect.forkChild(node.stop)
    yield* TestClock.adjust("20 seconds")
    expect(disk.files.filter((file) => !file.sealed && !file.dead)).toEqual([])
  })

describe("capture, random walks", () => {
  for (let seed = 1; seed <= 12; seed++) {
    it.effect(`seed ${seed}`, () => Random.withSeed(walk(seed), seed))
  }
})
