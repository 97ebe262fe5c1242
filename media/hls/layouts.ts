/**
 * Which form of the footage a source is served in. Pure.
 *
 * Invariants
 * 1. The form of a file depends on the source and the file's parameters alone, so it never changes while a session lives.
 */
import { type TrackParameters, videoClockHz } from "#schema/media.ts"
import { keyPictureSpeed } from "#schema/replay.ts"
import type { HlsSource } from "../hls.ts"
import type { Variant } from "./names.ts"
import type { Layout } from "./parts.ts"
import { finishedGrouping, type Grouping, growingGrouping } from "./plan.ts"

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
})

/** Fast playback eats 16 s of footage in 1 to 4 s. */
const keysGrouping = group(16)
/** Text is small; one request a minute is enough. */
const finishedTextGrouping = group(60)

/** The interval was over when the session began. */
export const isFinished = (source: HlsSource): boolean =>
  source.end !== null && source.end + settleMs <= source.createdAt

/** Whether the interval is over now; once over it stays so, even if the clock is set back. */
export const isSettled = (source: HlsSource, nowMs: number): boolean =>
  source.end !== null && source.end + settleMs <= Math.max(nowMs, source.createdAt)

/** Browsers' media sources refuse G.711 in MP4. */
export const offersSound = (source: HlsSource, parameters: TrackParameters): boolean =>
  source.speed < keyPictureSpeed && parameters.audio !== null && parameters.audio.codec !== "pcmu" &&
  parameters.audio.codec !== "pcma"

const variantOf = (source: HlsSource, parameters: TrackParameters): Variant => {
  if (source.speed >= keyPictureSpeed) {
    return { kind: "keys", stepMs: Math.round(source.speed * 1000 / fastPicturesPerSecond) }
  }
  return parameters.audio !== null && !offersSound(source, parameters) ? { kind: "video" } : { kind: "all" }
}

export type LayoutOf = (parameters: TrackParameters) => Layout

const mediaGrouping = (source: HlsSource): Grouping =>
  source.speed >= keyPictureSpeed ? keysGrouping : isFinished(source) ? finishedGrouping : growingGrouping

export const mediaLayout = (source: HlsSource): LayoutOf => {
  const grouping = mediaGrouping(source)
  return (parameters) => ({ grouping, content: variantOf(source, parameters) })
}

/** While a playlist grows, its renditions must have one target duration (RFC 8216bis, 6.2.4): the same cuts for all. */
export const textLayout = (source: HlsSource): LayoutOf => {
  const layout: Layout = {
    grouping: isFinished(source) ? finishedTextGrouping : mediaGrouping(source),
    content: { kind: "text" },
  }
  return () => layout
}
