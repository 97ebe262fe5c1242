/**
 * Memory in which packets to be sent are made, one after the other: in front room for what HMAC reads before them, behind for a tag.
 *
 * Invariants
 * 1. What is sent at once costs no memory: the same piece serves all packets of all peers, and so do its views of each length.
 * 2. What waits in a socket is never written to: it waits as a copy, or the piece is left to it and another taken.
 */

/** A block of SHA-1: what HMAC reads before the packet. */
export const frontBytes = 64
/** RTP within a datagram of 1,500 bytes with its tag, and what HMAC reads behind it. */
const ordinaryBytes = 1_536

export class PacketMemory {
  readonly bytes: Buffer
  /** The same, in words. */
  readonly words: Int32Array
  private readonly packets: Array<Buffer | undefined> = []
  private readonly hashed: Array<Buffer | undefined> = []

  /** `capacity`: of a packet with everything behind it. */
  constructor(capacity: number) {
    const length = (frontBytes + capacity + 3) & ~3
    this.bytes = Buffer.allocUnsafeSlow(length)
    this.words = new Int32Array(this.bytes.buffer, this.bytes.byteOffset, length >> 2)
  }

  /** The first `length` bytes of the packet. */
  packet(length: number): Buffer {
    return this.packets[length] ??= this.bytes.subarray(frontBytes, frontBytes + length)
  }

  /** Those with the front. */
  withFront(length: number): Buffer {
    return this.hashed[length] ??= this.bytes.subarray(0, frontBytes + length)
  }
}

/** What all peers of a node make their packets in. */
export class PacketMemories {
  private free = new PacketMemory(ordinaryBytes)

  /** For a packet with everything behind it, until the next one is asked for. */
  take(bytes: number): PacketMemory {
    return bytes <= ordinaryBytes ? this.free : new PacketMemory(bytes)
  }

  /** What was made last is still needed. */
  leave(): void {
    this.free = new PacketMemory(ordinaryBytes)
  }
}
