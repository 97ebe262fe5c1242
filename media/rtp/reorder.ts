/**
 * Puts the packets of one track back into the order of their sequence numbers, for UDP.
 *
 * Invariants
 * 1. What is handed on has rising sequence numbers (modulo 2^16); each packet at most once.
 * 2. At most `capacity` packets are held, and none longer than `maxWaitMs` while packets keep coming.
 * 3. A jump of more than `restartDistance` back is a sender that began anew, not a late packet.
 */

/** Packets held while one is missing. A key frame at 4 Mbit/s has about 200, and a switch reorders by a handful. */
export const reorderCapacity = 128
/** Time a missing packet is waited for: several times the jitter of a local network, far below a viewer's patience. */
export const reorderWaitMs = 100
/** RFC 3550, appendix A.1 (`MAX_MISORDER` there is 100; a held window is longer). */
export const restartDistance = 512

export class Reorder {
  private readonly deliver: (packet: Buffer, arrivalMs: number) => void
  private readonly maxWaitMs: number
  private readonly slots: Array<Buffer | null> = Array.from({ length: reorderCapacity }, () => null)
  private readonly arrivals = new Float64Array(reorderCapacity)
  private next = -1
  private held = 0
  /** Arrival of the packet that has been held longest, or an earlier time. */
  private oldestMs = 0

  constructor(deliver: (packet: Buffer, arrivalMs: number) => void, maxWaitMs = reorderWaitMs) {
    this.deliver = deliver
    this.maxWaitMs = maxWaitMs
  }

  /** `packet` is kept until it is delivered: its bytes must not be used again. It has at least 4 bytes. */
  push(packet: Buffer, arrivalMs: number): void {
    const sequence = packet.readUInt16BE(2)
    if (this.next < 0) this.next = sequence
    const ahead = (sequence - this.next) & 0xffff
    if (ahead === 0) this.pass(packet, arrivalMs)
    else if (ahead >= 0x8000) this.behind(packet, sequence, 0x10000 - ahead, arrivalMs)
    else this.hold(packet, sequence, ahead, arrivalMs)
    if (this.held > 0 && arrivalMs - this.oldestMs > this.maxWaitMs) this.skipGap()
  }

  private pass(packet: Buffer, arrivalMs: number): void {
    this.next = (this.next + 1) & 0xffff
    this.deliver(packet, arrivalMs)
    if (this.held > 0) this.run()
  }

  private behind(packet: Buffer, sequence: number, distance: number, arrivalMs: number): void {
    if (distance <= restartDistance) return
    this.flush()
    this.next = sequence
    this.pass(packet, arrivalMs)
  }

  private hold(packet: Buffer, sequence: number, ahead: number, arrivalMs: number): void {
    if (ahead >= reorderCapacity) {
      this.flush()
      this.next = sequence
      this.pass(packet, arrivalMs)
      return
    }
    const slot = sequence % reorderCapacity
    if (this.slots[slot] !== null) return
    if (this.held === 0) this.oldestMs = arrivalMs
    this.slots[slot] = packet
    this.arrivals[slot] = arrivalMs
    this.held++
  }

  /** Hands on what now follows without a gap. */
  private run(): void {
    for (;;) {
      const slot = this.next % reorderCapacity
      const packet = this.slots[slot]
      if (packet === null || packet === undefined) return
      this.slots[slot] = null
      this.held--
      this.next = (this.next + 1) & 0xffff
      this.oldestMs = this.arrivals[slot]!
      this.deliver(packet, this.arrivals[slot]!)
    }
  }

  /** Gives up what is missing in front of the first held packet. */
  private skipGap(): void {
    for (let i = 0; i < reorderCapacity && this.slots[this.next % reorderCapacity] === null; i++) {
      this.next = (this.next + 1) & 0xffff
    }
    this.run()
  }

  /** Hands on everything held, gaps or not. */
  flush(): void {
    while (this.held > 0) this.skipGap()
  }
}
