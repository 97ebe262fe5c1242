/**
 * Memory in which fragments are put together and from which they are written, used again and again: allocating half a megabyte a
 * second for each camera keeps the garbage collector busier than recording keeps the rest.
 *
 * Invariants
 * 1. A block has one holder at a time: whoever took it, until it is given back. One that is never given back is garbage.
 * 2. Sizes come in few classes, a quarter of a power of two apart, of which a slightly larger one does as well; at most {@link mostFreeBytes} lie unused.
 */

const leastBytes = 64 * 1024
/** What 100 cameras of 4 Mbit/s give back if all their fragments end at once. */
const mostFreeBytes = 64 * 1024 * 1024

const free = new Map<number, Array<Buffer>>()
let freeBytes = 0

/** The smallest class that holds `bytes`, and the distance to the next. */
const classOf = (bytes: number): { readonly size: number; readonly step: number } => {
  let octave = leastBytes
  while (octave * 2 < bytes) octave *= 2
  const step = octave / 4
  return { size: octave + Math.max(0, Math.ceil((bytes - octave) / step)) * step, step }
}

/** A block of at least `bytes`; what it holds is what its last holder left. */
const takeBlock = (bytes: number): Buffer => {
  const { size, step } = classOf(bytes)
  for (let candidate = size; candidate <= size + 2 * step; candidate += step) {
    const block = free.get(candidate)?.pop()
    if (block === undefined) continue
    freeBytes -= candidate
    return block
  }
  return Buffer.allocUnsafeSlow(size)
}

const giveBack = (block: Buffer): void => {
  const size = block.length
  if (freeBytes + size > mostFreeBytes) return
  freeBytes += size
  const same = free.get(size)
  if (same === undefined) free.set(size, [block])
  else same.push(block)
}

/** What is cut off a {@link Payload}: `block[at, at + bytes)`, with room in front of it and behind. */
export interface Cut {
  readonly block: Buffer
  readonly at: number
  /** Gives the block back, once however often it is called. */
  readonly release: () => void
}

/** Room in front of a payload for the head of a fragment: one of 100 pictures and 100 audio frames is below 3 KiB. */
const headRoom = 4096

/** Bytes of pictures in the order they came, of which fragments are cut off at the front. */
export class Payload {
  private block: Buffer | null = null
  private bytes = 0
  /** Length of recent fragments: the next block is taken in this size. */
  private usual = 0

  get length(): number {
    return this.bytes
  }

  append(data: Uint8Array): void {
    const needed = headRoom + this.bytes + data.length
    let { block } = this
    if (block === null || needed > block.length) {
      const larger = takeBlock(Math.max(needed, headRoom + this.usual))
      if (block !== null) {
        block.copy(larger, headRoom, headRoom, headRoom + this.bytes)
        giveBack(block)
      }
      block = larger
      this.block = block
    }
    block.set(data, headRoom + this.bytes)
    this.bytes += data.length
  }

  /** Takes back the last `bytes`. */
  withdraw(bytes: number): void {
    this.bytes -= bytes
  }

  /** Cuts off the first `bytes`, with `before` bytes of room in front and `behind` after them. */
  cut(bytes: number, before: number, behind: number): Cut {
    const from = this.block ?? takeBlock(0)
    const rest = from.subarray(headRoom + bytes, headRoom + this.bytes)
    this.block = null
    this.bytes = 0
    this.usual = Math.max(bytes + behind, Math.floor(this.usual * 0.9))
    if (rest.length > 0) this.append(rest)
    const at = Math.max(before, headRoom)
    if (at === headRoom && at + bytes + behind <= from.length) return cutOf(from, at)
    const block = takeBlock(at + bytes + behind)
    from.copy(block, at, headRoom, headRoom + bytes)
    giveBack(from)
    return cutOf(block, at)
  }
}

const cutOf = (block: Buffer, at: number): Cut => {
  let held = true
  return {
    block,
    at,
    release: () => {
      if (held) giveBack(block)
      held = false
    },
  }
}
