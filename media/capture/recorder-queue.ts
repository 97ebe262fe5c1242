/**
 * What a recorder has yet to do, in order: fragments to store, gaps, failures of files.
 *
 * Invariants
 * 1. Fragments wait here only while a file is opened or the ledger is written: at most `maxHeldBytes`; beyond, whole groups of
 *    pictures are dropped and the gap says `disk_slow`.
 * 2. Bounded although a disk hangs: ticks and equal gaps do not add up.
 */
import type { Fragment, StorageError } from "#media/storage.ts"
import type { EpochMs } from "#schema/common.ts"
import type { TrackParameters } from "#schema/media.ts"
import { Effect, Latch } from "effect"
import type { Hole } from "./intake.ts"
import type { OpenFile } from "./open-file.ts"

export type Item =
  | {
    readonly _tag: "Fragment"
    readonly fragment: Fragment
    readonly parameters: TrackParameters
    readonly hole: Hole
  }
  | { readonly _tag: "Missing"; readonly hole: Hole }
  | { readonly _tag: "SetBack"; readonly nowMs: EpochMs }
  | { readonly _tag: "Failed"; readonly open: OpenFile; readonly error: StorageError }
  | { readonly _tag: "Tick" }

export class RecorderQueue {
  private readonly maxHeldBytes: number
  private readonly items: Array<Item> = []
  private heldBytes = 0
  private overflowing = false
  private readonly wake = Latch.makeUnsafe(false)
  private readonly empty = Latch.makeUnsafe(true)

  constructor(maxHeldBytes: number) {
    this.maxHeldBytes = maxHeldBytes
  }

  /** Done when everything that was put is done. */
  get idle(): Effect.Effect<void> {
    return this.empty.await
  }

  /** Of fragments that wait. */
  waitingBytes(): number {
    return this.heldBytes
  }

  put(item: Item): void {
    const last = this.items.at(-1)
    if (last?._tag === "Missing" && item._tag === "Missing" && last.hole.cause === item.hole.cause) return
    if (item._tag === "Tick" && this.items.length > 0) return
    this.items.push(item)
    this.empty.closeUnsafe()
    this.wake.openUnsafe()
  }

  /** Invariant 1; a fragment that is dropped is released. */
  offer(fragment: Fragment, parameters: TrackParameters, hole: Hole): void {
    const room = this.heldBytes + fragment.bytes <= this.maxHeldBytes
    if (this.overflowing && !(fragment.key && this.heldBytes <= this.maxHeldBytes / 2)) {
      fragment.release()
      return
    }
    if (!room && this.heldBytes > 0) {
      fragment.release()
      this.overflowing = true
      this.put({ _tag: "Missing", hole: { cause: "disk_slow", detail: "the disk does not keep up" } })
      return
    }
    this.overflowing = false
    this.heldBytes += fragment.bytes
    this.put({ _tag: "Fragment", fragment, parameters, hole })
  }

  /** Does one after the other, for ever. */
  drain(handle: (item: Item) => Effect.Effect<void>): Effect.Effect<never> {
    return Effect.gen({ self: this }, function*() {
      while (true) {
        const item = this.items.shift()
        if (item === undefined) {
          this.wake.closeUnsafe()
          this.empty.openUnsafe()
          yield* this.wake.await
          continue
        }
        yield* handle(item)
        if (item._tag === "Fragment") this.heldBytes -= item.fragment.bytes
      }
    })
  }
}
