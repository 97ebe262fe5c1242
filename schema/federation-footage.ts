/** Words of recorded footage that members of a cluster read from each other, file by file. */
import { Schema } from "effect"
import { EpochMs } from "./common.ts"
import { SegmentFile } from "./record.ts"

export const footagePath = "/federation/api/v1/federation/footage"
/** Two months of files of ten minutes. */
export const mostFootageFiles = 10_000
/** Of one read: more than any fragment that is played. */
export const mostFootageBytes = 16 * 1024 * 1024

/** Files of a recording on one node, by start. */
export const FootageFiles = Schema.Struct({ items: Schema.Array(SegmentFile) })
export type FootageFiles = typeof FootageFiles.Type

const Natural = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

/** A row of a file's index; see `IndexEntry` of `media/storage.ts`. */
export const FootageRow = Schema.Struct({
  startMs: EpochMs,
  endMs: EpochMs,
  decodeTicks: Natural,
  durationTicks: Natural,
  offset: Natural,
  bytes: Natural,
  frames: Natural,
  key: Schema.Boolean,
  discontinuity: Schema.Boolean,
})
export const FootageRows = Schema.Struct({ items: Schema.Array(FootageRow) })

/** It has left this node, or never was here. */
export class FootageFileNotFound
  extends Schema.TaggedError<FootageFileNotFound>()("FootageFileNotFound", { id: Schema.String }, {
    httpApiStatus: 404,
  })
{
  override get message(): string {
    return `This node has no file ${this.id}; ask for the files anew.`
  }
}
