/**
 * The gap ledgers of a simulated node: the production ledger, told what the recorder would tell it, with its log on the node's disk;
 * and what a home node says of coverage, by the production arithmetic.
 *
 * Invariants
 * 1. A ledger's clock is true time: what wrong clocks do to footage is the matter of record-back.
 * 2. What a new process knows is the log and the footage on its disk.
 */
import { footageOf } from "#actors/behaviour/record-coverage.ts"
import { type LedgerRecord, readLedger, reconcile, toleranceMs } from "#media/capture/ledger-store.ts"
import { type Ledger, type LedgerChanges, makeLedger } from "#media/capture/ledger.ts"
import type { Interval } from "#schema/common.ts"
import { RecordingId } from "#schema/common.ts"
import type { GapCause } from "#schema/record.ts"
import type { ToldGap } from "./facts.ts"
import { nodeId } from "./world.ts"

/** More than a run makes. */
const maxGaps = 20_000

export interface Books {
  /** Footage of the camera is expected from now on; again, it changes nothing. */
  readonly expect: (camera: number, nowMs: number) => void
  readonly withdraw: (camera: number, nowMs: number) => void
  /** Footage does not go on, or not yet; `lasting`: something is known to prevent it. */
  readonly missing: (camera: number, cause: GapCause, lasting: boolean, nowMs: number) => void
  readonly resume: (camera: number, startMs: number) => void
  readonly extend: (camera: number, endMs: number) => void
  /** Footage of another node came in. */
  readonly cover: (camera: number, span: Interval, nowMs: number) => void
  readonly killed: () => void
  readonly wipe: () => void
  /** What the next process would find. */
  readonly gaps: (camera: number, nowMs: number) => ReadonlyArray<ToldGap>
}

export interface StoredFile extends Interval {
  readonly origin: number
  readonly epoch: number
}

const recordingOf = (camera: number): RecordingId =>
  RecordingId.make(`01990000-0000-7000-8000-0000000001${String(camera).padStart(2, "0")}`)

export const makeBooks = (stored: (camera: number) => ReadonlyArray<Interval>): Books => {
  const logs = new Map<number, Array<string>>()
  const open = new Map<number, Ledger>()
  let ids = 0
  const newId = (): string => `gap-${ids++}`
  const write = (camera: number, changes: LedgerChanges): void => {
    if (changes.length === 0) return
    const log = logs.get(camera) ?? []
    for (const change of changes) log.push(JSON.stringify(change))
    logs.set(camera, log)
  }
  const found = (camera: number, nowMs: number) => {
    const record: LedgerRecord = readLedger(logs.get(camera) ?? [])
    return reconcile(recordingOf(camera), record, stored(camera), nowMs, newId)
  }
  const ledgerOf = (camera: number, nowMs: number): Ledger => {
    const known = open.get(camera)
    if (known !== undefined) return known
    const { changes, snapshot } = found(camera, nowMs)
    write(camera, changes)
    const ledger = makeLedger({ recordingId: recordingOf(camera), toleranceMs, maxGaps, newId }, {
      ...snapshot,
      ahead: [],
    })
    open.set(camera, ledger)
    return ledger
  }
  return {
    expect: (camera, nowMs) => write(camera, ledgerOf(camera, nowMs).expect(nowMs, "starting", "")),
    withdraw: (camera, nowMs) => {
      if (logs.has(camera)) write(camera, ledgerOf(camera, nowMs).withdraw(nowMs))
    },
    missing: (camera, cause, lasting, nowMs) => {
      const ledger = ledgerOf(camera, nowMs)
      if (lasting || ledger.snapshot().open === null) write(camera, ledger.missing(cause, "", nowMs))
    },
    resume: (camera, startMs) => {
      const ledger = open.get(camera)
      if (ledger !== undefined) write(camera, ledger.resume(startMs, "camera_offline", ""))
    },
    extend: (camera, endMs) => open.get(camera)?.extend(endMs),
    cover: (camera, span, nowMs) => write(camera, ledgerOf(camera, nowMs).cover([span])),
    killed: () => open.clear(),
    wipe: () => {
      logs.clear()
      open.clear()
    },
    gaps: (camera, nowMs) => {
      const { gaps, open: last } = found(camera, nowMs).snapshot
      return [...gaps, ...last === null ? [] : [last]].map(({ cause, endMs, startMs }) => ({
        cause,
        start: startMs,
        end: endMs ?? nowMs,
      }))
    },
  }
}

/** What the home node says is missing of a camera, and why. */
export const coverage = (
  files: ReadonlyArray<StoredFile>,
  home: number,
  gaps: ReadonlyArray<ToldGap>,
  endMs: number,
): ReadonlyArray<ToldGap> =>
  footageOf({
    expected: { start: 0, end: endMs },
    beginMs: 0,
    files: files.map(({ end, epoch, origin, start }) => ({
      startMs: start,
      endMs: end,
      epoch,
      nodeId: nodeId(origin),
      holder: nodeId(home),
    })),
    gaps: gaps.map(({ cause, end, start }, n) => ({
      id: String(n).padStart(6, "0"),
      startMs: start,
      endMs: end,
      cause,
      nodeId: nodeId(home),
    })),
  }).gaps
