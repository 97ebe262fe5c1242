/**
 * The loudspeaker of a simulated camera (ONVIF Streaming Specification, section 5.3): keeps what it hears.
 *
 * Invariant: at most `KEPT_BYTES` of payload are kept, the first of what was heard; the counts go on.
 */
const KEPT_BYTES = 1_000_000

/** The name of its control address: `track9`. */
export const LOUDSPEAKER_TRACK = 9
export const BACKCHANNEL = "www.onvif.org/ver20/backchannel"

export type LoudspeakerCodec = "pcmu" | "pcma" | "g726"

const FORMATS = {
  pcmu: ["m=audio 0 RTP/AVP 0", "a=rtpmap:0 PCMU/8000"],
  pcma: ["m=audio 0 RTP/AVP 8", "a=rtpmap:8 PCMA/8000"],
  g726: ["m=audio 0 RTP/AVP 98", "a=rtpmap:98 G726-32/8000"],
} as const

export const loudspeakerLines = (codec: LoudspeakerCodec): ReadonlyArray<string> => [
  ...FORMATS[codec],
  "c=IN IP4 0.0.0.0",
  "a=sendonly",
  `a=control:track${LOUDSPEAKER_TRACK}`,
]

export interface Heard {
  readonly packets: number
  /** Sequence numbers that are missing between those that came. */
  readonly missing: number
  readonly payloadTypes: ReadonlyArray<number>
  /** Whether RTP time went by as much as there was payload, but at marked packets. */
  readonly steady: boolean
  readonly firstMs: number | null
  readonly lastMs: number | null
  readonly payload: Buffer
}

export class Loudspeaker {
  #packets = 0
  #missing = 0
  #steady = true
  readonly #types = new Set<number>()
  #last: { sequence: number; nextTimestamp: number } | null = null
  #firstMs: number | null = null
  #lastMs: number | null = null
  #parts: Array<Buffer> = []
  #kept = 0

  hear(packet: Buffer): void {
    if (packet.length < 12) return
    const sequence = packet.readUInt16BE(2)
    const timestamp = packet.readUInt32BE(4)
    const payload = packet.subarray(12)
    const marked = (packet[1]! & 0x80) !== 0
    if (this.#last !== null) {
      this.#missing += (sequence - this.#last.sequence - 1) & 0xffff
      this.#steady &&= marked || timestamp === this.#last.nextTimestamp
    }
    this.#last = { sequence, nextTimestamp: (timestamp + payload.length) % 0x1_0000_0000 }
    this.#packets++
    this.#types.add(packet[1]! & 0x7f)
    this.#lastMs = performance.timeOrigin + performance.now()
    this.#firstMs ??= this.#lastMs
    if (this.#kept + payload.length > KEPT_BYTES) return
    this.#parts.push(Buffer.from(payload))
    this.#kept += payload.length
  }

  /** Of G.711 by the mu-law: samples whose segment is none of the lowest three. */
  get loudSamples(): number {
    return this.heard.payload.reduce((sum, sample) => sum + ((~sample & 0x70) >= 0x30 ? 1 : 0), 0)
  }

  get heard(): Heard {
    return {
      packets: this.#packets,
      missing: this.#missing,
      payloadTypes: [...this.#types],
      steady: this.#steady,
      firstMs: this.#firstMs,
      lastMs: this.#lastMs,
      payload: Buffer.concat(this.#parts),
    }
  }
}
