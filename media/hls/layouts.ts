/**
 * Which form of the footage a source is served in. Pure.
 *
 * Invariants
 * 1. The form of a file depends on the source, its target duration and the file's parameters alone, so it never changes while a
 *    session lives.
 * 2. A growing playlist keeps its target duration (RFC 8216bis, 4.4.3.1 and 6.2.1), and so do its renditions (6.2.4): what would
 *    be longer is cut. Key pictures alone are not cut within a group: one of more than {@link keysGrouping}'s maximum exceeds it.
 */
import { type TrackParameters, videoClockHz } from "#schema/media.ts"
import { keyPictureSpeed } from "#schema/replay.ts"
import type { HlsSource } from "../hls.ts"
import type { Variant } from "./names.ts"
import type { Layout } from "./parts.ts"
import { finishedGrouping, type Grouping, growingGrouping, longestSegmentTicks } from "./plan.ts"

/**
 * How long after the end of an interval its last fragment may still come: a fragment lasts up to a second, and a slow disk
 * may hold several back.
 */
const settleMs = 10_000

/** Pictures a second that a fast player is given. */
const fastPicturesPerSecond = 8

const group = (seconds: number): Grouping => ({
  targetTicks: seconds * videoClockHz,
  minimumTicks: seconds * videoClockHz,
  maximumTicks: 2 * seconds * videoClockHz,
  longestTicks: Infinity,
})

/** Fast playback eats 16 s of footage in 1 to 4 s. */
const keysGrouping = group(16)
/** Text is small; one request a minute is enough. */
const finishedTextGrouping = group(60)

/** The interval was over when the session began. */
export const isFinished = (source: HlsSource): boolean =>
  source.end !== null && source.end + settleMs <= source.createdAt

/** Footage that every later look finds unchanged, as far as it ended before this. */
export const certainUntil = (source: HlsSource): number => source.createdAt - settleMs

/** Whether the interval is over now; once over it stays so, even if the clock is set back. */
export const isSettled = (source: HlsSource, nowMs: number): boolean =>
  source.end !== null && source.end + settleMs <= Math.max(nowMs, source.createdAt)

/** Fast players get key pictures alone. */
export const showsKeys = (source: HlsSource): boolean => source.speed >= keyPictureSpeed

/** Browsers' media sources refuse G.711 in MP4. */
export const offersSound = (source: HlsSource, parameters: TrackParameters): boolean =>
  !showsKeys(source) && parameters.audio !== null && parameters.audio.codec !== "pcmu" &&
  parameters.audio.codec !== "pcma"

const variantOf = (source: HlsSource, parameters: TrackParameters): Variant => {
  if (showsKeys(source)) {
    return { kind: "keys", stepMs: Math.round(source.speed * 1000 / fastPicturesPerSecond) }
  }
  return parameters.audio !== null && !offersSound(source, parameters) ? { kind: "video" } : { kind: "all" }
}

export type LayoutOf = (parameters: TrackParameters) => Layout

const growing = (source: HlsSource): Grouping => showsKeys(source) ? keysGrouping : growingGrouping

/**
 * Target duration of a growing playlist, seconds, where the groups of pictures before it had at most `groupTicks` (0: there were
 * none).
 */
export const growingTarget = (source: HlsSource, groupTicks: number): number => {
  const grouping = growing(source)
  const usual = groupTicks === 0 ? 0 : longestSegmentTicks(groupTicks, grouping)
  const least = groupTicks === 0 || showsKeys(source) ? grouping.maximumTicks : 0
  return Math.max(1, Math.round(Math.max(usual, least) / videoClockHz))
}

/** Up to this, a length rounds to the target (4.4.3.1). */
const longestOf = (targetSeconds: number): number => (targetSeconds + 0.5) * videoClockHz - 1

/** `targetSeconds`: null where the footage is complete. */
const groupingOf = (source: HlsSource, targetSeconds: number | null, finished: Grouping): Grouping => {
  if (targetSeconds === null) return finished
  const grouping = growing(source)
  return showsKeys(source) ? grouping : { ...grouping, longestTicks: longestOf(targetSeconds) }
}

export const mediaLayout = (source: HlsSource, targetSeconds: number | null): LayoutOf => {
  const finished = showsKeys(source) ? keysGrouping : finishedGrouping
  const grouping = groupingOf(source, targetSeconds, finished)
  return (parameters) => ({ grouping, content: variantOf(source, parameters) })
}

export const textLayout = (source: HlsSource, targetSeconds: number | null): LayoutOf => {
  const layout: Layout = {
    grouping: groupingOf(source, targetSeconds, finishedTextGrouping),
    content: { kind: "text" },
  }
  return () => layout
}
