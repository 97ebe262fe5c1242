/**
 * The undamaged part of the fuzzing corpus, made by the writers of today. Run by itself (`node test/media/storage-seeds.ts`) it
 * writes them anew: after a change of a format.
 */
import { initSegment } from "#media/fmp4.ts"
import { identityBox } from "#media/fmp4/identity-box.ts"
import type { IndexEntry } from "#media/storage.ts"
import { encodeIndex, sealOf } from "#media/storage/index-file.ts"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { camera } from "./access-units.ts"
import { fragmentsFrom, identityOf, parameters } from "./made-up-files.ts"

export const fuzzFolder = join(import.meta.dirname, "..", "fixtures", "fuzz")

/** Path in the corpus and bytes. */
export const seeds = (): ReadonlyArray<readonly [string, Buffer]> => {
  const description = {
    version: 1 as const,
    id: identityOf(9).streamId,
    ...identityOf(1),
    sequence: 0,
    startMs: 1_772_366_400_000,
  }
  const file = (video: string, audio?: string) => {
    const { parameters } = camera({ video, ...(audio === undefined ? {} : { audio }), seconds: 0, startMs: 0 })
    return Buffer.concat([initSegment(parameters), identityBox(description)])
  }
  const fragments = fragmentsFrom(description.startMs, 3, 4)
  const front = Buffer.concat([initSegment(parameters), identityBox(description)])
  let offset = front.length
  const entries = fragments.map(
    ({ bytes, decodeTicks, discontinuity, durationTicks, endMs, frames, key, startMs }): IndexEntry => {
      offset += bytes
      return { startMs, endMs, decodeTicks, durationTicks, offset: offset - bytes, bytes, frames, key, discontinuity }
    },
  )
  const header = { description, initBytes: initSegment(parameters).length, firstOffset: front.length }
  return [
    ["mp4/whole-h264-aac", file("main-640x360-25.h264", "tone-16000.aac")],
    ["mp4/whole-h265-alaw", file("main-640x360-25.h265", "tone-8000.pcma")],
    ["mp4/whole-h264-opus", file("wide-800x352-25.h264", "tone-48000.opus")],
    ["mp4/whole-fragments", Buffer.concat([front, ...fragments.map(({ data }) => data)])],
    ["index/whole-sealed", encodeIndex(header, entries, sealOf(entries, description, offset))],
  ]
}

if (import.meta.main) {
  for (const [path, bytes] of seeds()) writeFileSync(join(fuzzFolder, path), bytes)
}
