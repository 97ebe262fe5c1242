/**
 * CPU time of the playlists of a day: `node test/bench/playlist.ts [fragment seconds]`. Writes 144 files of 10 minutes (with tiny
 * pictures) through the real storage, opens it anew so that nothing is in memory, and asks for the playlist of 24 hours.
 */
import { Hls, type HlsSource } from "#media/hls.ts"
import { layer as hlsLayer } from "#media/hls/live.ts"
import { type Fragment, Storage } from "#media/storage.ts"
import { defaultStorageOptions, layer as storageLayer } from "#media/storage/live.ts"
import { identityOf, parameters } from "#test/media/made-up-files.ts"
import { Effect, Layer, Logger, Scope } from "effect"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

const t0 = Date.parse("2026-03-01T00:00:00.000Z")
const day = 86_400_000
const fileMs = 600_000

/** Fragments of one second with no pictures in them: the index is what counts. */
const fragment = (startMs: number): Fragment => ({
  parts: [Buffer.alloc(64)],
  bytes: 64,
  startMs,
  endMs: startMs + 1000,
  decodeTicks: (startMs - t0) * 90,
  durationTicks: 90_000,
  key: (startMs - t0) % 2000 === 0,
  discontinuity: startMs === t0,
  frames: 25,
})

const cpuMs = (since: NodeJS.CpuUsage) => {
  const { system, user } = process.cpuUsage(since)
  return (system + user) / 1000
}

const timed = <A, E, R>(name: string, work: Effect.Effect<A, E, R>) =>
  Effect.gen(function*() {
    const cpu = process.cpuUsage()
    const begin = process.hrtime.bigint()
    const result = yield* work
    const wall = Number(process.hrtime.bigint() - begin) / 1e6
    process.stdout.write(
      `${name.padEnd(34)} ${cpuMs(cpu).toFixed(1).padStart(7)} ms CPU ${wall.toFixed(1).padStart(7)} ms\n`,
    )
    return result
  })

const program = Effect.gen(function*() {
  const root = mkdtempSync(join(tmpdir(), "nightjar-bench-"))
  yield* Effect.addFinalizer(() => Effect.sync(() => rmSync(root, { recursive: true, force: true })))
  const storage = storageLayer({
    ...defaultStorageOptions,
    folders: [{ name: "main", path: join(root, "main"), floorBytes: 0 }],
    registryPath: join(root, "folders.json"),
  })
  yield* Effect.scoped(
    Effect.gen(function*() {
      const { create } = yield* Storage
      for (let at = t0, sequence = 0; at < t0 + day; at += fileMs, sequence++) {
        const writer = yield* create(identityOf(1), parameters, { sequence, startMs: at })
        for (let ms = at; ms < at + fileMs; ms += 1000) {
          if (!writer.append(fragment(ms))) throw new Error("the queue is full")
        }
        yield* writer.seal
      }
    }).pipe(Effect.provide(storage)),
  )
  const { recordingId } = identityOf(1)
  const scope = yield* Scope.Scope
  const built = yield* Layer.buildWithScope(hlsLayer.pipe(Layer.provideMerge(storage)), scope)
  const of = (start: number, end: number, createdAt = t0 + 2 * day): HlsSource => ({
    recordingId,
    start,
    end,
    speed: 1,
    createdAt,
  })
  yield* Effect.gen(function*() {
    const hls = yield* Hls
    yield* timed("first playlist of 24 hours, cold", hls.playlist(of(t0, t0 + day)))
    yield* timed("its master playlist", hls.master(of(t0, t0 + day)))
    yield* timed("the same again", hls.playlist(of(t0, t0 + day)))
    yield* timed("another session, 24 hours", hls.playlist(of(t0 + 500, t0 + day)))
    yield* timed("one hour", hls.playlist(of(t0 + 7_300_000, t0 + 10_900_000)))
    const { text } = yield* timed("subtitles of 24 hours", hls.subtitles(of(t0, t0 + day)))
    const playlist = yield* hls.playlist(of(t0, t0 + day))
    process.stdout.write(
      `${playlist.text.length} characters, ${
        playlist.text.split("#EXTINF").length - 1
      } segments; subtitles ${text.length}\n`,
    )
  }).pipe(Effect.provideContext(built))
})

await Effect.runPromise(program.pipe(Effect.scoped, Effect.provide(Logger.layer([]))))
