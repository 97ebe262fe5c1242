/**
 * Footage under watch: read again and again while a node writes it, and compared with the rows in PostgreSQL.
 *
 * Invariant: what was once whole on the disk stays as it was, until it is gone for a reason somebody knows.
 */
import * as path from "node:path"
import { decode, type DiskFile, listFootage, readFootage, stillHas, type StoredFrame } from "./footage.ts"
import { sleep } from "./node-process.ts"
import type { Report } from "./report.ts"
import { type FileRow, readRows } from "./rows.ts"

/** What is known of the disk so far. Files that were sealed and checked are not read again. */
export class Disk {
  readonly files = new Map<string, DiskFile>()
  readonly checked = new Set<string>()
  readonly #folder: string
  readonly #report: Report

  constructor(folder: string, report: Report) {
    this.#folder = folder
    this.#report = report
  }

  /** Reads what is new, and checks what was sealed since. */
  async look(): Promise<void> {
    const there = new Set(listFootage(this.#folder))
    for (const [where, before] of this.files) {
      if (there.has(where)) continue
      this.files.delete(where)
      // What was killed at birth holds nothing, and the next life clears it away.
      const { length } = before.fragments
      if (length > 0) this.#report.fault(`${path.basename(where)} with ${length} fragments is gone`)
    }
    const fresh = [...there].filter((where) => !this.checked.has(where))
    for (const where of fresh) {
      const before = this.files.get(where)
      if (before !== undefined && !stillHas(before)) this.#report.fault(`${path.basename(where)} has lost bytes it had`)
      const now = await this.#read(where)
      if (now === null) continue
      this.files.set(where, now)
      for (const fault of now.faults) this.#report.fault(fault)
      if (now.sealed) await this.#play(now)
    }
  }

  /** A file that was killed while its front was written holds nothing. */
  async #read(where: string): Promise<DiskFile | null> {
    try {
      return readFootage(where)
    } catch (error) {
      this.#report.check(this.files.get(where) === undefined, `${where} cannot be read any more: ${String(error)}`)
      return null
    }
  }

  async #play(file: DiskFile): Promise<void> {
    this.checked.add(file.path)
    const { errors, pictures } = await decode(file.path)
    const fine = errors === "" && pictures === file.frames.length
    this.#report.check(
      fine,
      `${path.basename(file.path)}: ${pictures} of ${file.frames.length} pictures play; ${errors}`,
    )
  }

  of(recordingId: string): ReadonlyArray<DiskFile> {
    return [...this.files.values()].filter((file) => file.recordingId === recordingId)
  }

  frames(recordingId: string): ReadonlyArray<StoredFrame> {
    return this.of(recordingId).flatMap((file) => file.frames)
  }
}

const rowOf = (file: DiskFile): FileRow => ({
  id: file.id,
  recordingId: file.recordingId,
  startMs: file.fragments[0]!.startMs,
  endMs: Math.max(...file.fragments.map(({ endMs }) => endMs)),
  bytes: file.size,
  fragments: file.fragments.length,
  frames: file.frames.length,
  sealed: true,
})

const text = (row: FileRow): string =>
  [row.id, row.recordingId, row.startMs, row.endMs, row.bytes, row.fragments, row.frames, row.sealed].join(" ")

/** Differences between the rows and the disk; `whole`: nothing is growing, so there may be no other rows. */
const differences = (
  rows: ReadonlyArray<FileRow>,
  files: ReadonlyArray<DiskFile>,
  whole: boolean,
): ReadonlyArray<string> => {
  const wanted = new Map(files.filter((file) => file.sealed).map((file) => [file.id, text(rowOf(file))]))
  const there = new Map(rows.map((row) => [row.id, text(row)]))
  const known = new Set(files.map((file) => file.id))
  return [
    // A file that was only just begun need not be known yet.
    ...files.filter((file) => !file.sealed && file.fragments.length > 5 && !there.has(file.id))
      .map((file) => `disk ${file.id}, growing; no row`),
    ...[...wanted].filter(([id, row]) => there.get(id) !== row).map(([id, row]) =>
      `disk ${row}; row ${there.get(id) ?? "none"}`
    ),
    ...[...there].filter(([id]) => whole ? !wanted.has(id) : !known.has(id)).map(([, row]) =>
      `row ${row}; not on the disk`
    ),
  ]
}

/**
 * Waits until the rows equal the disk: of sealed files in every field; of others there is at least the row. `whole`: nothing is
 * growing, so there may be no others. Answers how long it took, ms.
 */
export const settle = async (
  url: string,
  disk: Disk,
  report: Report,
  { limitMs = 30_000, whole }: { readonly whole: boolean; readonly limitMs?: number },
): Promise<number> => {
  const begun = performance.now()
  let left: ReadonlyArray<string> = []
  while (performance.now() - begun < limitMs) {
    await disk.look()
    left = await readRows(url).then(
      ({ files }) => differences(files, [...disk.files.values()], whole),
      (error) => [String(error)],
    )
    if (left.length === 0) return performance.now() - begun
    await sleep(500)
  }
  for (const line of left.slice(0, 10)) report.fault(`the rows do not equal the disk: ${line}`)
  return performance.now() - begun
}
