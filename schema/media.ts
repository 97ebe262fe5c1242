/**
 * Words of the media floor: codecs, parameters, access units, fragments. No bytes are parsed here.
 *
 * Invariants
 * 1. Video time is counted in ticks of 90 kHz, audio time in ticks of its sample rate; names say so (`Ticks`, `_90k`).
 * 2. An access unit's bytes are valid until the callback that brings it returns: whoever keeps them copies them.
 */
import { Schema } from "effect"
import type { EpochMs } from "./common.ts"

export const VideoCodec = Schema.Literals(["h264", "h265"])
export type VideoCodec = typeof VideoCodec.Type
export const AudioCodec = Schema.Literals(["aac", "pcmu", "pcma", "opus"])
export type AudioCodec = typeof AudioCodec.Type

/** Video ticks per second (RFC 6184 section 8.2.1, RFC 7798 section 7.1). */
export const videoClockHz = 90_000

/** What a decoder must know before the first picture. Sets are NAL units without start code or length. */
export interface VideoParameters {
  readonly codec: VideoCodec
  /** Luma samples after cropping. */
  readonly width: number
  readonly height: number
  /** RFC 6381 codecs string, for example `avc1.640028` or `hvc1.1.6.L120.90`. */
  readonly codecs: string
  /** H.265 only, else empty. */
  readonly vps: Uint8Array
  readonly sps: Uint8Array
  readonly pps: Uint8Array
}

export interface AudioParameters {
  readonly codec: AudioCodec
  readonly sampleRate: number
  readonly channels: number
  readonly codecs: string
  /** AAC: the AudioSpecificConfig (ISO/IEC 14496-3, 1.6.2.1); empty for the others. */
  readonly config: Uint8Array
}

export interface TrackParameters {
  readonly video: VideoParameters
  readonly audio: AudioParameters | null
}

/** One picture or one audio frame, as the source sent it. */
export interface AccessUnit {
  readonly track: "video" | "audio"
  /**
   * Video: NAL units, each behind its 4-byte big-endian length (ISO/IEC 14496-15), without parameter sets and access unit
   * delimiters. Audio: one raw frame (AAC without ADTS, Opus packet, G.711 bytes).
   */
  readonly data: Uint8Array
  /** Video: decoding can start here. Audio: always true. */
  readonly key: boolean
  /** Presentation time in ticks of the track's clock, unwrapped from 32 bits; its zero is arbitrary but fixed within a run. */
  readonly ticks: number
  /** Length in ticks where the format tells it (audio), else 0: video lasts until the next picture. */
  readonly durationTicks: number
  /** Node's wall clock when its last packet arrived. */
  readonly arrivalMs: EpochMs
  /** The camera's own wall clock of this unit, from its RTCP sender reports; null before the first report. */
  readonly senderMs: EpochMs | null
}
