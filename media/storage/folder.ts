/**
 * The health of one folder: is its disk there, writable, roomy enough, quick enough.
 *
 * Invariants
 * 1. A folder that does not answer never blocks a question about another: each probe runs by itself, at most one a folder.
 * 2. `missing`, `readOnly`, `error` and `full` refuse new files (but see `hasReserve`); a write error holds for {@link errorHoldMs} at least, so that a
 *    failing disk is not tried again at once.
 */
import { Clock, Effect } from "effect"
import { statfs } from "node:fs/promises"
import type { FolderUsage, StorageError } from "../storage.ts"
import { attempt } from "./failure.ts"
import { checkMarker, claimFolder, type Registry } from "./marker.ts"
import type { FolderOptions } from "./options.ts"

export const errorHoldMs = 15_000
/** After a write found the disk full, this much above the floor is worth another try at once. */
const roomAgainBytes = 16 * 1024 * 1024
/** How long an overflow of a write queue is remembered. */
const slowHoldMs = 60_000
/** A probe that takes longer means that the disk does not answer. */
const silentMs = 10_000

type State = FolderUsage["state"]

const refusing: ReadonlyArray<State> = ["missing", "readOnly", "error", "full"]

const stateOf = (error: StorageError): State => {
  switch (error.code) {
    case "ENOENT":
    case "ENOTDIR":
    case "ENODEV":
    case "ESTALE":
      return "missing"
    case "EROFS":
    case "EACCES":
    case "EPERM":
      return "readOnly"
    default:
      return error.cause === "disk_full" ? "full" : "error"
  }
}

export class Folder {
  readonly options: FolderOptions
  state: State = "missing"
  detail = "not yet looked at"
  totalBytes = 0
  freeBytes = 0
  /** Its files are in the catalogue. */
  scanned = false
  /** What the log told last: a state may also change between two probes. */
  logged: State = "missing"
  private markerId: string | null = null
  private probingSince: number | null = null
  private heldUntil = 0
  private slowUntil = 0

  constructor(options: FolderOptions) {
    this.options = options
  }

  get name(): string {
    return this.options.name
  }

  get accepts(): boolean {
    return !refusing.includes(this.state)
  }

  /** Free bytes above the floor. */
  get room(): number {
    return this.freeBytes - this.options.floorBytes
  }

  /** Less than half of the floor is free: what grows there ends, before the disk is full to the last byte. */
  get spent(): boolean {
    return this.freeBytes * 2 < this.options.floorBytes
  }

  /** Full by its floor alone, of which three quarters are free: where there is no other folder, it still takes new files. */
  get hasReserve(): boolean {
    return this.state === "full" && this.room < 0 && this.freeBytes * 4 >= this.options.floorBytes * 3
  }

  /** Marker and free space, now. */
  probe(registry: Registry): Effect.Effect<void> {
    return Effect.gen({ self: this }, function*() {
      const now = yield* Clock.currentTimeMillis
      if (this.probingSince !== null) {
        if (now - this.probingSince > silentMs) this.set("error", "the disk does not answer")
        return
      }
      this.probingSince = now
      yield* Effect.gen({ self: this }, function*() {
        if (this.markerId === null) this.markerId = yield* claimFolder(this.options, registry)
        else yield* checkMarker(this.options, this.markerId)
        yield* this.measure
        this.judge(yield* Clock.currentTimeMillis)
      }).pipe(
        Effect.catch((error) => Effect.sync(() => this.set(stateOf(error), error.detail))),
        Effect.ensuring(Effect.sync(() => {
          this.probingSince = null
        })),
      )
    })
  }

  /** Free space alone. */
  get measure(): Effect.Effect<void, StorageError> {
    return attempt(this.name, "asking for free space", () => statfs(this.options.path)).pipe(Effect.map((stats) => {
      this.totalBytes = stats.blocks * stats.bsize
      this.freeBytes = stats.bavail * stats.bsize
    }))
  }

  /** A write failed. */
  report(error: StorageError, now: number): void {
    this.heldUntil = now + errorHoldMs
    this.set(stateOf(error), error.detail)
  }

  /** A queue overflowed, or a sync took too long. */
  reportSlow(now: number, detail: string): void {
    this.slowUntil = now + slowHoldMs
    if (this.state === "ok") this.set("slow", detail)
  }

  /** After a measurement: full, slow or well. What a failed write said stands for a while. */
  private judge(now: number): void {
    if (this.room < 0) return this.set("full", `${this.freeBytes} bytes free, the floor is ${this.options.floorBytes}`)
    const hasRoomAgain = this.state === "full" && this.room >= roomAgainBytes
    if (now < this.heldUntil && this.state !== "missing" && !hasRoomAgain) return
    if (now < this.slowUntil) this.set("slow", this.state === "slow" ? this.detail : "writes are behind")
    else this.set("ok", "")
  }

  private set(state: State, detail: string): void {
    this.state = state
    this.detail = detail
  }
}
