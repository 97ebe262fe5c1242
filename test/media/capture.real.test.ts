/** Capture on real sockets and a real disk, with the simulated camera: each trouble its state and its cause; kills at any moment. */
import { RecorderSupervisor } from "#media/recorder.ts"
import { Storage } from "#media/storage.ts"
import type { LedgerGap } from "#schema/record.ts"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type Simulator, startSimulator } from "../camera-simulator/simulator.ts"
import { judge } from "./capture-checker.ts"
import { recordingId, streamId } from "./capture-harness.ts"
import { cameraAt, nodeOf, storageOf } from "./capture-node.ts"

const always = { start: 0, end: Number.MAX_SAFE_INTEGER }

const temporary = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "nightjar-capture-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true })),
)
const simulated = (options: Parameters<typeof startSimulator>[0]) =>
  Effect.acquireRelease(
    Effect.promise(() => startSimulator(options)),
    (simulator) => Effect.promise(() => simulator.close()),
  )

/** Looks every 100 ms, up to a minute. */
const until = <A>(what: string, look: () => A | null | undefined | false): Effect.Effect<A> =>
  Effect.gen(function*() {
    for (let i = 0; i < 600; i++) {
      const found = look()
      if (found !== null && found !== undefined && found !== false) return found
      yield* Effect.sleep(100)
    }
    return yield* Effect.die(new Error(`waited a minute for: ${what}`))
  })

/** Everything that was stored, fragment by fragment, and what the ledger says of the rest. */
const footage = Effect.gen(function*() {
  const storage = yield* Storage
  const files = storage.files(recordingId, always)
  const spans = yield* Effect.forEach(files, (file) => storage.index(file))
  return { files, spans: spans.flat() }
})

const withNode = <A, E>(
  cameras: Parameters<typeof startSimulator>[0],
  use: (simulator: Simulator, supervisor: RecorderSupervisor["Service"]) => Effect.Effect<A, E, Storage>,
) =>
  Effect.scoped(Effect.gen(function*() {
    const root = yield* temporary
    const simulator = yield* simulated(cameras)
    yield* Effect.gen(function*() {
      const supervisor = yield* RecorderSupervisor
      const from = Date.now()
      yield* supervisor.assign(cameraAt(simulator.cameras[0]!.url("main")))
      yield* use(simulator, supervisor)
      const { spans } = yield* footage
      const gaps = supervisor.gaps(recordingId, always)
      // Footage is expected from when the ledger was opened, which a busy disk delays.
      const begin = gaps[0]?.startMs ?? from
      expect(begin).toBeGreaterThanOrEqual(from)
      const { faults } = judge(spans, gaps, begin, Date.now())
      expect(faults).toEqual([])
    }).pipe(Effect.provide(nodeOf(root)))
  }))

const state = (supervisor: RecorderSupervisor["Service"]) => {
  const status = supervisor.status(streamId)
  return `${status?.health} ${status?.recordingState}`
}
const causes = (supervisor: RecorderSupervisor["Service"]) =>
  supervisor.gaps(recordingId, always).map((gap: LedgerGap) => gap.cause)

describe("capture of a simulated camera", () => {
  it.live(
    "frozen, cut, a jump of its clock, other parameters: each its cause, and none of them the last",
    () =>
      withNode({ cameras: [{ startAtKey: false }] }, (simulator, supervisor) =>
        Effect.gen(function*() {
          const camera = simulator.cameras[0]!
          const recording = (why: string) => until(`recording ${why}`, () => state(supervisor) === "online recording")
          yield* recording("at first")
          expect(causes(supervisor)).toEqual(["starting"])
          yield* Effect.sleep(3_000)

          camera.jumpTimestamps(20_000)
          yield* Effect.sleep(3_000)
          // In 32 bits more than half way round forward is back.
          camera.jumpTimestamps(30_000)
          yield* Effect.sleep(3_000)
          camera.jumpClock(86_400_000)
          yield* Effect.sleep(6_000)
          expect(causes(supervisor)).toEqual(["starting"])
          expect(supervisor.status(streamId)?.clockOffsetMs).toBeGreaterThan(80_000_000)
          expect(supervisor.status(streamId)?.reconnects).toBe(0)

          const before = (yield* footage).files.length
          camera.show("main", "wide-800x352-25.h264")
          yield* until("the new size", () => supervisor.status(streamId)?.parameters?.video.width === 800)
          yield* Effect.sleep(3_000)
          expect((yield* footage).files.length).toBeGreaterThan(before)

          yield* Effect.promise(async () => camera.freeze(null))
          yield* until("frozen", () => state(supervisor) === "degraded failed")
          expect(causes(supervisor).at(-1)).toBe("camera_frozen")
          yield* Effect.promise(async () => camera.thaw())
          yield* recording("after the thaw")

          yield* Effect.promise(async () => camera.cut(null))
          yield* until("cut", () => state(supervisor) === "offline failed")
          expect(causes(supervisor).at(-1)).toBe("camera_offline")
          yield* Effect.promise(async () => camera.mend())
          yield* recording("after the cut")
          yield* Effect.sleep(2_000)
          expect(new Set(causes(supervisor))).toEqual(new Set(["starting", "camera_frozen", "camera_offline"]))
        })),
    120_000,
  )

  it.live("a wrong password is said at once, and the right one is taken at once", () =>
    withNode({ cameras: 1 }, (simulator, supervisor) =>
      Effect.gen(function*() {
        const camera = simulator.cameras[0]!
        camera.rejectLogin(true)
        yield* Effect.promise(async () => camera.disconnect())
        yield* until("refused", () => state(supervisor) === "authFailed failed")
        expect(causes(supervisor).at(-1)).toBe("auth_failed")
        camera.rejectLogin(false)
        yield* supervisor.assign(cameraAt(`${camera.url("main")}?again=1`))
        yield* until("taken", () => state(supervisor) === "online recording")
        yield* Effect.sleep(1_000)
      })))

  it.live(
    "garbage and lost packets: what was not stored is in the ledger, and the process goes on",
    () =>
      withNode({ cameras: 1 }, (simulator, supervisor) =>
        Effect.gen(function*() {
          const camera = simulator.cameras[0]!
          yield* until("recording", () => state(supervisor) === "online recording")
          yield* Effect.sleep(2_000)
          camera.harm({ dropPercent: 2, reorderPercent: 0, corruptPercent: 0, garbagePercent: 0 }, 4)
          yield* until("a loss", () => causes(supervisor).includes("packet_loss"))
          yield* until("degraded", () => supervisor.status(streamId)?.health === "degraded")
          yield* Effect.sleep(5_000)
          camera.harm({ dropPercent: 0, reorderPercent: 0, corruptPercent: 5, garbagePercent: 5 }, 5)
          yield* Effect.sleep(6_000)
          yield* until("online again", () => state(supervisor) === "online recording")
          yield* Effect.sleep(1_000)
        })),
    120_000,
  )
})

describe("a process that is killed", () => {
  const start = (root: string, url: string): ChildProcess =>
    spawn(process.execPath, [join(import.meta.dirname, "capture-process.ts"), root, url], {
      stdio: ["ignore", "pipe", "inherit"],
    })
  const ended = (child: ChildProcess) =>
    Effect.callback<void>((resume) => {
      if (child.exitCode !== null || child.signalCode !== null) resume(Effect.void)
      else child.once("exit", () => resume(Effect.void))
    })

  it.live(
    "five times at any moment: what is stored and what is missing is everything, to the millisecond",
    () =>
      Effect.scoped(Effect.gen(function*() {
        const root = yield* temporary
        const simulator = yield* simulated({ cameras: [{ startAtKey: true }] })
        const url = simulator.cameras[0]!.url("main")
        const from = Date.now()
        for (let life = 0; life < 6; life++) {
          const last = life === 5
          const child = start(root, url)
          yield* Effect.addFinalizer(() => Effect.sync(() => void child.kill("SIGKILL")))
          let seen = ""
          child.stdout?.on("data", (data: Buffer) => seen += data.toString())
          // The third life is cut down before it can record, the fourth while the camera is away.
          if (life !== 2) yield* until(`life ${life} to record`, () => seen.includes("online recording"))
          if (life === 3) yield* Effect.promise(async () => simulator.cameras[0]!.cut(3))
          yield* Effect.sleep(life === 2 ? 700 : 1_000 + (life * 1_709 % 1_500))
          child.kill(last ? "SIGTERM" : "SIGKILL")
          yield* ended(child)
          if (life === 1) yield* Effect.sleep(1_500)
        }
        const { files, spans } = yield* footage.pipe(Effect.provide(storageOf(root)))
        // Read by the test itself: a checksum, a blank, JSON.
        const lines = readFileSync(join(root, "data", "ledger", `${recordingId}.ndjson`), "utf8").trim().split("\n")
          .map((line) =>
            JSON.parse(line.slice(9)) as { readonly _tag: string; readonly at: number; readonly gap?: LedgerGap }
          )
        const gaps = [
          ...new Map(lines.flatMap(({ gap }) => gap === undefined ? [] : [[gap.id, gap] as const])).values(),
        ]
        const since = lines.find((line) => line._tag === "Expected")!.at
        expect(since - from).toBeLessThan(10_000)
        const until_ = Math.max(...spans.map((span) => span.endMs))
        const verdict = judge(spans, gaps.filter((gap) => gap.endMs === null || gap.endMs > gap.startMs), since, until_)
        expect(verdict.faults).toEqual([])
        // The life that recorded nothing shares the gap of the one before; the one whose camera was away may have had a gap open.
        expect(gaps.filter((gap) => gap.cause === "node_down").length).toBeGreaterThanOrEqual(3)
        expect(files.every((file) => file.sealed)).toBe(true)
        expect(verdict.recordedMs).toBeGreaterThan(5_000)
      })),
    120_000,
  )
})
