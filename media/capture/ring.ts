/**
 * The newest groups of pictures of one stream, in memory, until somebody records them (the door: `media/shadow.ts`). Plain
 * functions, called in the driver's callbacks.
 *
 * Invariants
 * 1. It begins with a key picture and holds groups whole, in the order they came, with what was lost between them. The oldest group
 *    goes once those behind it reach back `holdMs`; sooner only for want of room.
 * 2. Memory is bounded by `maxBytes` for one ring and by {@link RingMemory} for all, and counts blocks as they are allocated, and
 *    {@link entryBytes} a unit. A group that is too large alone empties the ring: it begins anew with the next key picture.
 * 3. `pour` gives out what is held, oldest first, as it came: times of arrival are told by the node's clock as it is then, should it
 *    have been set meanwhile. What was given out is gone.
 */
import type { EpochMs } from "#schema/common.ts"
import type { AccessUnit, TrackParameters } from "#schema/media.ts"
import type { GapCause } from "#schema/record.ts"
import { makeMediaClock } from "./clock.ts"
import { type Hole, sameParameters } from "./intake.ts"

export const blockBytes = 256 * 1024
/** What a unit costs besides its bytes: its objects. */
export const entryBytes = 256
/** Blocks kept for the next ring that needs one: 16 MiB. */
const maxSpare = 64
/** Given out at once: as much as a few milliseconds of copying. */
const pourBytes = 2 * 1024 * 1024
/** So long a ring that is about to be recorded drops nothing for its age. */
const keepMs = 60_000
/** Pictures that nothing followed are held for so many times `holdMs`. */
const staleFactor = 2
/** Less is no step of the clock but its correction. */
const stepMs = 1_000

/** Where a ring is poured to. */
export interface RingSink {
  readonly parameters: (parameters: TrackParameters) => void
  readonly unit: (unit: AccessUnit) => void
  readonly loss: (packets: number) => void
  readonly interrupt: (cause: GapCause, detail: string) => void
}

/** The memory of all rings of a node. */
export class RingMemory {
  private readonly spare: Array<Buffer> = []
  private used = 0
  maxBytes: number

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes
  }

  inUse(): number {
    return this.used
  }

  fits(bytes: number): boolean {
    return this.used + bytes <= this.maxBytes
  }

  charge(bytes: number): void {
    this.used += bytes
  }

  /** Memory of at least `bytes`; the caller has asked whether it fits. */
  take(bytes: number): Buffer {
    const block = bytes > blockBytes ? Buffer.allocUnsafeSlow(bytes) : this.spare.pop()
    const taken = block ?? Buffer.allocUnsafeSlow(blockBytes)
    this.used += taken.length
    return taken
  }

  give(block: Buffer): void {
    this.used -= block.length
    if (block.length === blockBytes && this.spare.length < maxSpare) this.spare.push(block)
  }
}

type Entry =
  /** `aheadMs`: the node's wall clock minus its monotonic one when it came. */
  | { readonly _tag: "Unit"; readonly unit: AccessUnit; readonly aheadMs: number }
  | { readonly _tag: "Loss"; readonly packets: number }
  | { readonly _tag: "End"; readonly hole: Hole }

interface Group {
  readonly parameters: TrackParameters
  /** Monotonic arrival of the first and the newest unit. */
  readonly fromMs: number
  toMs: number
  readonly entries: Array<Entry>
  /** Number of the block that holds the first byte. */
  readonly firstBlock: number
  /** Counted besides blocks. */
  cost: number
}

export interface RingOptions {
  readonly holdMs: number
  readonly maxBytes: number
  readonly memory: RingMemory
  /** Node's wall clock and its monotonic one, milliseconds. */
  readonly wallMs: () => EpochMs
  readonly monotonicMs: () => number
}

export class StreamRing {
  private readonly options: RingOptions
  private groups: Array<Group> = []
  private parametersNow: TrackParameters | null = null
  private awaitingKey = true
  private blocks: Array<Buffer> = []
  /** Number of `blocks[0]`; numbers only grow. */
  private firstBlock = 0
  private filled = 0
  private used = 0
  /** Entries of the first group that were given out. */
  private cursor = 0
  private poured: TrackParameters | null = null
  private pouring = false
  /** Something was dropped that should have been given out. */
  private torn = false
  private keptUntilMs = Number.NEGATIVE_INFINITY

  constructor(options: RingOptions) {
    this.options = options
  }

  bytes(): number {
    return this.used
  }

  heldMs(): number {
    const [first, last] = [this.groups[0], this.groups.at(-1)]
    return first === undefined || last === undefined ? 0 : last.toMs - first.fromMs
  }

  /** When its first picture was taken, as a recording of it will tell; null: it is empty. */
  sinceMs(): EpochMs | null {
    const first = this.groups[0]?.entries[0]
    if (first === undefined || first._tag !== "Unit") return null
    const clock = makeMediaClock()
    clock.restart(this.atPresent(first), null, false)
    return clock.wallMs(first.unit.ticks)
  }

  /** Nothing goes for its age from now on, for {@link keepMs}. */
  keep(): void {
    this.keptUntilMs = this.options.monotonicMs() + keepMs
  }

  parameters(next: TrackParameters): void {
    if (this.parametersNow !== null && sameParameters(this.parametersNow, next)) return
    this.parametersNow = next
    this.awaitingKey = true
  }

  unit(unit: AccessUnit): void {
    const begins = unit.track === "video" && unit.key
    if (this.parametersNow === null || (this.awaitingKey && !begins)) return
    const nowMs = this.options.monotonicMs()
    const at = this.room(unit.data.length, begins ? 0 : 1)
    if (at === null) return this.clear()
    at.set(unit.data)
    const group = begins ? this.begin(this.parametersNow, nowMs) : this.groups.at(-1)!
    this.put(group, { _tag: "Unit", unit: { ...unit, data: at }, aheadMs: this.options.wallMs() - nowMs })
    group.toMs = nowMs
    if (begins) this.age(nowMs)
  }

  loss(packets: number): void {
    const group = this.groups.at(-1)
    const last = group?.entries.at(-1)
    // Losses without a unit between them are one.
    if (group === undefined || this.awaitingKey || last?._tag === "Loss") return
    if (this.fits(entryBytes)) this.put(group, { _tag: "Loss", packets })
  }

  /** What follows does not continue what is held, because of this. */
  interrupt(cause: GapCause, detail: string): void {
    this.awaitingKey = true
    const group = this.groups.at(-1)
    // As in the ledger, the first word counts for the gap.
    if (group === undefined || group.entries.at(-1)?._tag === "End") return
    this.put(group, { _tag: "End", hole: { cause, detail } })
  }

  /** Once a second: pictures of a camera that went long ago are of no use. */
  tick(): void {
    const before = this.options.monotonicMs() - this.options.holdMs * staleFactor
    while (this.mayAge() && (this.groups[0]?.toMs ?? before) < before) this.drop()
  }

  isEmpty(): boolean {
    const [first] = this.groups
    return first === undefined || (this.groups.length === 1 && this.cursor === first.entries.length)
  }

  /** Gives out some of what is held while `room` (bytes) is left there. True: nothing is held any more, and what comes may go there. */
  pour(sink: RingSink, room: () => number): boolean {
    this.pouring = true
    let left = pourBytes
    if (this.torn) sink.interrupt("disk_slow", "the disk did not keep up with what was held in memory")
    this.torn = false
    while (!this.isEmpty() && left > 0 && room() > 0) {
      const group = this.groups[0]!
      if (this.poured !== group.parameters) sink.parameters(group.parameters)
      this.poured = group.parameters
      const entry = group.entries[this.cursor++]!
      left -= entry._tag === "Unit" ? entry.unit.data.length + 1 : 1
      if (entry._tag === "Unit") sink.unit(this.atPresent(entry))
      else if (entry._tag === "Loss") sink.loss(entry.packets)
      else sink.interrupt(entry.hole.cause, entry.hole.detail)
      if (this.cursor === group.entries.length && this.groups.length > 1) this.drop()
    }
    if (!this.isEmpty()) return false
    if (this.parametersNow !== null && this.parametersNow !== this.poured) sink.parameters(this.parametersNow)
    this.poured = this.parametersNow
    return true
  }

  /** Forgets everything, and gives its memory back. */
  clear(): void {
    if (this.pouring && !this.isEmpty()) this.torn = true
    this.groups = []
    this.cursor = 0
    for (const block of this.blocks) this.options.memory.give(block)
    const inBlocks = this.blocks.reduce((sum, block) => sum + block.length, 0)
    this.options.memory.charge(inBlocks - this.used)
    this.firstBlock += this.blocks.length
    this.blocks = []
    this.filled = 0
    this.used = 0
    this.awaitingKey = true
  }

  private atPresent({ aheadMs, unit }: Extract<Entry, { readonly _tag: "Unit" }>): AccessUnit {
    const set = this.options.wallMs() - this.options.monotonicMs() - aheadMs
    return Math.abs(set) < stepMs ? unit : { ...unit, arrivalMs: Math.round(unit.arrivalMs + set) }
  }

  private mayAge(): boolean {
    return !this.pouring && this.options.monotonicMs() >= this.keptUntilMs
  }

  /** The block for its first unit was just filled. */
  private begin(parameters: TrackParameters, nowMs: number): Group {
    this.awaitingKey = false
    const firstBlock = this.firstBlock + this.blocks.length - 1
    const group: Group = { parameters, fromMs: nowMs, toMs: nowMs, entries: [], firstBlock, cost: 0 }
    this.groups.push(group)
    // All of the group before was given out already.
    if (this.groups.length > 1 && this.cursor === this.groups[0]!.entries.length) this.drop()
    return group
  }

  /** Invariant 1. */
  private age(nowMs: number): void {
    const before = nowMs - this.options.holdMs
    while (this.mayAge() && this.groups.length > 1 && this.groups[1]!.fromMs <= before) this.drop()
  }

  private put(group: Group, entry: Entry): void {
    group.entries.push(entry)
    group.cost += entryBytes
    this.used += entryBytes
    this.options.memory.charge(entryBytes)
  }

  private fits(bytes: number): boolean {
    return this.used + bytes <= this.options.maxBytes && this.options.memory.fits(bytes)
  }

  /** Where so many bytes may stand; makes room of the oldest groups, down to `least`. Null: not even so. */
  private room(bytes: number, least: number): Buffer | null {
    const inLast = () => this.filled + bytes <= (this.blocks.at(-1)?.length ?? -1)
    const needed = () => (inLast() ? 0 : Math.max(bytes, blockBytes)) + entryBytes
    while (!this.fits(needed())) {
      if (this.groups.length <= least) return null
      if (this.pouring && !this.isEmpty()) this.torn = true
      this.drop()
    }
    if (!inLast()) {
      const block = this.options.memory.take(bytes)
      this.blocks.push(block)
      this.used += block.length
      this.filled = 0
    }
    const at = this.blocks.at(-1)!.subarray(this.filled, this.filled + bytes)
    this.filled += bytes
    return at
  }

  /** The oldest group goes, and the blocks that only it needed. */
  private drop(): void {
    const group = this.groups.shift()
    if (group === undefined) return
    this.cursor = 0
    this.used -= group.cost
    this.options.memory.charge(-group.cost)
    const until = this.groups[0]?.firstBlock ?? this.firstBlock + this.blocks.length
    for (const block of this.blocks.splice(0, Math.max(0, until - this.firstBlock))) {
      this.used -= block.length
      this.options.memory.give(block)
      this.firstBlock++
    }
    if (this.blocks.length === 0) this.filled = 0
    if (this.groups.length === 0) this.awaitingKey = true
  }
}
