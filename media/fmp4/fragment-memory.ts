/**
 * Memory in which fragments are put together and from which they are written, used again and again: allocating half a megabyte a
 * second for each camera keeps the garbage collector busier than recording keeps the rest.
 *
 * Invariants
 * 1. A stream fills one block while another is written; whichever came back last waits to be filled next.
 * 2. A block has one holder at a time: the payload, or whoever has the {@link Cut} until it is released. One that is never
 *    released is garbage, and another is made.
 * 3. A block is at most {@link mostSlack} times as long as recent fragments need.
 */

/** What is cut off a {@link Payload}: `block[at, at + bytes)`, with room in front of it and behind. */
export interface Cut {
  readonly block: Buffer
  readonly at: number
  /** Gives the block back, once however often it is called. */
  readonly release: () => void
}

/** Room in front of a payload for the head of a fragment: one of 100 pictures and 100 audio frames is below 3 KiB. */
const headRoom = 4096
const grainBytes = 64 * 1024
const mostSlack = 4
/** What is left of the memory of a long fragment with each one that follows: half after a minute or so. */
const fading = 0.99

/** Bytes of pictures in the order they came, of which fragments are cut off at the front. */
export class Payload {
  private block: Buffer | null = null
  private spare: Buffer | null = null
  private bytes = 0
  /** Bytes that recent fragments needed, head room and audio included. */
  private usual = 0

  get length(): number {
    return this.bytes
  }

  append(data: Uint8Array): void {
    const needed = headRoom + this.bytes + data.length
    let { block } = this
    if (block === null || needed > block.length) {
      const larger = this.take(needed)
      if (block !== null) block.copy(larger, headRoom, headRoom, headRoom + this.bytes)
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
    const at = Math.max(before, headRoom)
    const needed = at + bytes + behind
    this.usual = Math.max(needed, this.usual * fading)
    const from = this.block ?? this.take(needed)
    const rest = from.subarray(headRoom + bytes, headRoom + this.bytes)
    this.block = null
    this.bytes = 0
    if (rest.length > 0) this.append(rest)
    if (at === headRoom && needed <= from.length) return this.cutOf(from, at)
    const block = this.take(needed)
    from.copy(block, at, headRoom, headRoom + bytes)
    return this.cutOf(block, at)
  }

  private take(needed: number): Buffer {
    const { spare } = this
    this.spare = null
    const wanted = Math.max(needed, this.usual)
    if (spare !== null && spare.length >= wanted && spare.length <= wanted * mostSlack + grainBytes) return spare
    // An eighth more, so that fragments that differ a little fit.
    return Buffer.allocUnsafeSlow(Math.ceil(wanted * 1.125 / grainBytes) * grainBytes)
  }

  private cutOf(block: Buffer, at: number): Cut {
    let held = true
    return {
      block,
      at,
      release: () => {
        if (held) this.spare = block
        held = false
      },
    }
  }
}
