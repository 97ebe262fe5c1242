/**
 * The layer of the recorder supervisor, of the live streams and of the rings: everything of this room put together on real files.
 *
 * Bounds for each stream: fragments that wait for a file to be opened 16 MiB, the current group of pictures for viewers 16 MiB
 * (usually one to two seconds), the fragment being built 32 MiB (usually one second), gaps in memory 20 000. For each ring of a
 * stream that is another node's: 64 MiB; for all of them together 512 MiB if nothing else is said.
 */
import { makeFragmentBuilder } from "#media/fmp4.ts"
import { LiveStreams } from "#media/hub.ts"
import { RecorderSupervisor } from "#media/recorder.ts"
import { ShadowRings } from "#media/shadow.ts"
import { Context, Effect, Layer } from "effect"
import { fileLineDisks } from "./line-disk.ts"
import { defaultRecorderOptions, type RecorderOptions } from "./recorder.ts"
import { defaultSessionOptions, type SessionOptions } from "./session.ts"
import { type CaptureOptions, makeSupervisor } from "./supervisor.ts"

export interface CaptureLayerOptions {
  /** Folder of the node; `assignments.json`, `journal.ndjson` and `ledger/` stand in it. */
  readonly dataFolder: string
  readonly drivers: CaptureOptions["drivers"]
  readonly session?: Partial<SessionOptions>
  readonly recorder?: Partial<RecorderOptions>
  /** Bound of the local journal, bytes; 64 MiB if left out: months without a database. */
  readonly journalMaxBytes?: number
}

export const layer = (options: CaptureLayerOptions) =>
  Layer.effectContext(Effect.gen(function*() {
    const disks = yield* fileLineDisks(options.dataFolder)
    const { live, rings, supervisor } = yield* makeSupervisor({
      drivers: options.drivers,
      makeBuilder: makeFragmentBuilder,
      session: { ...defaultSessionOptions, ...options.session },
      recorder: { ...defaultRecorderOptions, ...options.recorder },
      journalMaxBytes: options.journalMaxBytes ?? 64 * 1024 * 1024,
    }, disks)
    return Context.mergeAll(
      Context.make(RecorderSupervisor, supervisor),
      Context.make(LiveStreams, live),
      Context.make(ShadowRings, rings),
    )
  }))
