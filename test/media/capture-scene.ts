/** A capture with a camera, a disk and a folder that a test can break. */
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { FakeCamera, FakeDisk, FakeFolder, recordingId, startNode } from "./capture-harness.ts"

export const begin = 1_760_000_000_000
export const always = { start: 0, end: Number.MAX_SAFE_INTEGER }

export const setup = Effect.fnUntraced(function*() {
  yield* TestClock.setTime(begin)
  const camera = new FakeCamera()
  const disk = new FakeDisk()
  const folder = new FakeFolder()
  const node = yield* startNode(camera, disk, folder)
  return { camera, disk, folder, node }
})

/** Index entries of everything that was stored. */
export const spans = (disk: FakeDisk) => disk.files.flatMap((file) => file.entries)
/** Causes of the gaps; an open one ends in `…`. */
export const causes = (node: {
  readonly supervisor: {
    readonly gaps: (id: typeof recordingId, i: typeof always) => ReadonlyArray<{ cause: string; endMs: number | null }>
  }
}) => node.supervisor.gaps(recordingId, always).map((gap) => gap.endMs === null ? `${gap.cause}…` : gap.cause)
