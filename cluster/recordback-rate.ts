/**
 * How fast footage goes home: a token bucket, and what was sent of late. Pure.
 *
 * Invariants
 * 1. Over any time no more leaves than the rate allows, and {@link burstMs} of it at once.
 * 2. Whoever takes more than there is goes into debt and waits it out, in the order of asking.
 */

const burstMs = 250
/** What the rate that people see is measured over. */
const shownMs = 30_000
/** Samples within it: bounds memory. */
const mostSamples = 120

export interface Bucket {
  /** Bytes that may go now; negative: debt. */
  readonly tokens: number
  readonly atMs: number
}

/** Takes bytes from the bucket: how long to wait before they may go. `rate`: bytes a second, 0 for no limit. */
export const take = (
  bucket: Bucket,
  rate: number,
  bytes: number,
  nowMs: number,
): { readonly bucket: Bucket; readonly waitMs: number } => {
  if (rate <= 0) return { bucket: { tokens: 0, atMs: nowMs }, waitMs: 0 }
  const filled = Math.min(rate * burstMs / 1000, bucket.tokens + rate * Math.max(0, nowMs - bucket.atMs) / 1000)
  const tokens = filled - bytes
  return { bucket: { tokens, atMs: nowMs }, waitMs: tokens >= 0 ? 0 : Math.ceil(-tokens * 1000 / rate) }
}

/** Bytes that left for home, by time. */
export interface Meter {
  readonly add: (bytes: number, nowMs: number) => void
  /** Bits a second of the last half minute; null while nothing moved. */
  readonly rateBps: (nowMs: number) => number | null
}

export const makeMeter = (): Meter => {
  const samples: Array<{ readonly atMs: number; bytes: number }> = []
  let sinceMs: number | null = null
  const forget = (nowMs: number) => {
    while (samples.length > 0 && samples[0]!.atMs < nowMs - shownMs) samples.shift()
  }
  return {
    add: (bytes, nowMs) => {
      forget(nowMs)
      if (samples.length === 0) sinceMs = nowMs
      const last = samples.at(-1)
      if (last !== undefined && nowMs - last.atMs < shownMs / mostSamples) last.bytes += bytes
      else samples.push({ atMs: nowMs, bytes })
    },
    rateBps: (nowMs) => {
      forget(nowMs)
      if (samples.length === 0 || sinceMs === null) return null
      const sum = samples.reduce((all, { bytes }) => all + bytes, 0)
      return Math.round(sum * 8_000 / Math.max(1_000, Math.min(shownMs, nowMs - sinceMs)))
    },
  }
}
