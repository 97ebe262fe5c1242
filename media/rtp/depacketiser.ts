/**
 * What every depacketiser is to its receiver: payloads of one track go in, in order; units come out.
 *
 * Invariants
 * 1. `push` never throws and never keeps `bytes`: the buffer is used again as soon as it returns.
 * 2. A unit of which a packet is missing or malformed is never handed out.
 */

/**
 * A unit is complete: `ticks` in the track's RTP clock, unwrapped; `durationTicks` 0 where the format does not tell it. `data` is
 * valid only during the call.
 */
export type UnitSink = (data: Uint8Array, key: boolean, ticks: number, durationTicks: number) => void

export interface Depacketiser {
  /** One payload, `bytes[from, to)`; `from < to`. False where it is malformed. */
  readonly push: (bytes: Buffer, from: number, to: number, ticks: number, marker: boolean) => boolean
  /** Packets are missing between the last payload and the next. */
  readonly lost: () => void
}

/** Largest access unit: a key frame of 8K at the highest quality stays below it. */
export const maxUnitBytes = 16 * 1024 * 1024
/** Largest audio frame: an Opus packet of 120 ms or an AAC frame of 8 channels stays below it. */
export const maxAudioUnitBytes = 64 * 1024
