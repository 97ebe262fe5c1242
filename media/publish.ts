/**
 * The door for cameras that come by themselves: a publisher offers what it sends under the address of a stream, the driver of its
 * family (`drivers/mobile.ts`) takes it as if it had been fetched. Its room: `media/publish/`.
 *
 * Invariants
 * 1. An address has one publisher at a time: the newest replaces the one before, which is told.
 * 2. Packets are taken in any order and handed on in theirs; at most 128 of a track wait, for at most {@link publishWaitMs}.
 * 3. While nobody takes what a publisher sends, it is dropped: nothing is kept for later.
 */
import { Context } from "effect"
import type { SenderReport } from "./rtp/rtcp.ts"
import type { SourceListener } from "./source.ts"

/** A missing packet is asked for again over the Internet: two round trips. */
export const publishWaitMs = 250

export interface PublishedFormat {
  readonly payloadType: number
  readonly clockHz: number
  readonly channels: number
}

/** Somebody who sends H.264 (RFC 6184), perhaps with Opus (RFC 7587). */
export interface Publisher {
  readonly video: PublishedFormat
  readonly audio: PublishedFormat | null
  readonly requestKeyPicture: () => void
  /** Once, if it was not withdrawn before: `replaced` by a newer one, or `ended` by {@link Publishers.end}. */
  readonly onEnd: (reason: "replaced" | "ended") => void
}

/** The publisher's hand. Nothing of it does anything once the publisher has ended. */
export interface Publication {
  /** A whole RTP packet in memory of its own. */
  readonly rtp: (track: "video" | "audio", packet: Buffer, arrivalMs: number) => void
  readonly senderReport: (track: "video" | "audio", report: SenderReport, arrivalMs: number) => void
  readonly withdraw: () => void
}

export class Publishers extends Context.Service<Publishers, {
  readonly publish: (address: string, publisher: Publisher) => Publication
  readonly isHere: (address: string) => boolean
  /** Calls once, at the next publisher, or at once where there is one; answers how to forget it. */
  readonly whenHere: (address: string, here: () => void) => () => void
  /**
   * Takes what the present publisher sends, from its next key picture on, until it goes (`onGone`, once) or the answered function
   * is called. Null: there is none. One taker an address: a newer one replaces it silently.
   */
  readonly take: (address: string, listener: SourceListener, onGone: () => void) => (() => void) | null
  readonly requestKeyPicture: (address: string) => void
  /** Ends the present publisher, if there is one. */
  readonly end: (address: string) => void
}>()("nightjar/media/Publishers") {}
