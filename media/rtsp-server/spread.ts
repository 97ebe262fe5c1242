/**
 * Recorded footage that lies on several nodes of the cluster, as one: this node's own from its disks, that of others from where it is.
 *
 * Invariants
 * 1. Nothing of another node's is kept but indexes, fronts and hashes of pictures, {@link keptIndexBytes}, {@link keptFronts} and
 *    {@link keptHashes} at most for one player; a fragment is held while it is sent.
 * 2. What another node says is measured before it is believed: a fragment that is none of ours, or none that is played, is a gap.
 * 3. What two nodes have of the same pictures, while footage is on its way from one to the other too, is shown once.
 */
import type { Interval, NodeId } from "#schema/common.ts"
import type { TrackParameters } from "#schema/media.ts"
import type { SegmentFile } from "#schema/record.ts"
import { Effect } from "effect"
import { hash } from "node:crypto"
import { readFragmentUnits, type StoredUnit } from "../fmp4/fragment-reader.ts"
import type { RtspFootage } from "../rtsp-server.ts"
import { StorageError } from "../storage.ts"
import { parseFront } from "../storage/file-truth.ts"
import { FragmentTable } from "../storage/fragment-table.ts"
import { makeLru } from "../storage/lru.ts"
import { recorderLane, shownOf } from "../storage/seams.ts"
import { type Footage, maxFragmentBytes, type UnitReader } from "./footage-reader.ts"

/** A day of indexes of one camera is 5.5 MiB. */
const keptIndexBytes = 4 * 1024 * 1024
const keptFronts = 64
const keptHashes = 256
/** As long as a front may be. */
const mostFrontBytes = 256 * 1024

interface Own {
  readonly footage: Footage
  readonly reader: UnitReader
}

const overlaps = ({ endMs, sealed, startMs }: SegmentFile, { end, start }: Interval) =>
  // What grows has grown since it was told of.
  startMs < end && (!sealed || endMs > start)

/** What is read of the others. */
const makeReads = ({ bytes, index }: RtspFootage) => {
  const tables = makeLru<FragmentTable>(keptIndexBytes, ({ size }) => size)
  const fronts = makeLru<TrackParameters>(keptFronts, () => 1)

  const table = Effect.fnUntraced(function*(holder: NodeId, file: SegmentFile) {
    const known = tables.get(file.id)
    if (known !== undefined) return known
    const rows = yield* index(holder, file)
    if (rows === null) return null
    const made = FragmentTable.of(rows)
    if (file.sealed) tables.set(file.id, made)
    return made
  })
  return {
    table,
    units: (holder: NodeId, file: SegmentFile, of: FragmentTable, row: number) => {
      const [from, length] = [of.offset(row), of.bytes(row)]
      if (length > maxFragmentBytes) return Effect.succeed(null)
      return Effect.map(
        bytes(holder, file, { from, to: from + length }),
        (found): ReadonlyArray<StoredUnit> | null => found === null ? null : readFragmentUnits(found),
      )
    },
    parameters: Effect.fnUntraced(function*(holder: NodeId, file: SegmentFile) {
      const known = fronts.get(file.id)
      if (known !== undefined) return known
      const rows = yield* table(holder, file)
      const to = rows === null || rows.length === 0 ? 0 : rows.offset(0)
      const front = to === 0 || to > mostFrontBytes ? null : yield* bytes(holder, file, { from: 0, to })
      const read = front === null ? null : parseFront(front)
      if (read === null) return null
      fronts.set(file.id, read.init.parameters)
      return read.init.parameters
    }),
  }
}

/** `own`: of this node. A file that both have is read here. */
export const spreadOver = (own: Own, others: RtspFootage): Own => {
  const reads = makeReads(others)
  const hashes = makeLru<string>(keptHashes, () => 1)
  /** By the file as it was told, of which this node may have one of the same id. */
  const holders = new Map(others.files.map(({ file, holder }) => [file, holder]))

  const table = (file: SegmentFile): Effect.Effect<FragmentTable | null> => {
    const holder = holders.get(file)
    if (holder !== undefined) return reads.table(holder, file)
    return Effect.map(own.footage.fragments([file]), ([found]) => found instanceof FragmentTable ? found : null)
  }
  const read: UnitReader["read"] = (file, of, row) => {
    const holder = holders.get(file)
    return holder === undefined ? own.reader.read(file, of, row) : reads.units(holder, file, of, row)
  }
  const pictureHash = Effect.fnUntraced(function*(file: SegmentFile, of: FragmentTable, row: number) {
    const name = `${file.id}/${of.offset(row)}`
    const known = hashes.get(name)
    if (known !== undefined) return known
    const picture = (yield* read(file, of, row))?.find(({ track }) => track === "video")
    if (picture === undefined) return null
    const made = hash("sha256", picture.data, "base64url")
    hashes.set(name, made)
    return made
  })
  const gone = ({ folder, id }: SegmentFile) =>
    new StorageError({ cause: "disk_error", folder, code: "ENOENT", detail: `${id} cannot be had from its node` })

  return {
    footage: {
      files: (recordingId, interval) => {
        const here = own.footage.files(recordingId, interval)
        const ids = new Set(here.map(({ id }) => id))
        const there = [...holders.keys()].filter((file) =>
          file.recordingId === recordingId && !ids.has(file.id) && overlaps(file, interval)
        )
        return [...here, ...there].sort((a, b) => a.startMs - b.startMs || (a.id < b.id ? -1 : 1))
      },
      shown: (files) =>
        shownOf(files, {
          table,
          hash: pictureHash,
          laneOf: (file) => `${holders.get(file) ?? "here"}/${recorderLane(file)}`,
        }),
      fragments: (files) => Effect.forEach(files, (file) => Effect.map(table(file), (found) => found ?? gone(file))),
      parameters: (file) => {
        const holder = holders.get(file)
        if (holder === undefined) return own.footage.parameters(file)
        return Effect.flatMap(
          reads.parameters(holder, file),
          (found) => found === null ? Effect.fail(gone(file)) : Effect.succeed(found),
        )
      },
    },
    reader: { read, close: own.reader.close },
  }
}
