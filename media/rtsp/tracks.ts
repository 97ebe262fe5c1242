/**
 * From a session description to what is recorded of it: one video and at most one audio track, each with its depacketiser.
 *
 * Invariants
 * 1. The first video medium in a codec we record is taken, and the first such audio medium that the camera sends.
 * 2. Audio units are held back until the video parameters are known: `onParameters` comes before every unit.
 */
import type { AudioParameters, VideoCodec, VideoParameters } from "#schema/media.ts"
import { parseAacConfig } from "../codec/aac.ts"
import { Malformed } from "../codec/malformed.ts"
import { ParameterSets } from "../codec/parameters.ts"
import { AacDepacketiser, type AacLayout, g711Ticks, opusTicks, WholePacketDepacketiser } from "../rtp/audio.ts"
import type { Depacketiser, UnitSink } from "../rtp/depacketiser.ts"
import { H264Depacketiser } from "../rtp/h264.ts"
import { H265Depacketiser } from "../rtp/h265.ts"
import { TrackReceiver } from "../rtp/receiver.ts"
import type { SourceListener } from "../source.ts"
import type { Sdp, SdpFormat, SdpMedia } from "./sdp.ts"

const videoCodecs: Readonly<Record<string, VideoCodec>> = { H264: "h264", H265: "h265", HEVC: "h265" }

interface AudioChoice {
  readonly parameters: AudioParameters
  readonly depacketiser: (sink: UnitSink) => Depacketiser
}

const plainAudio = (
  codec: "pcmu" | "pcma" | "opus",
  format: SdpFormat,
  codecs: string,
  ticks: (bytes: Buffer, from: number, to: number) => number,
): AudioChoice => ({
  parameters: { codec, codecs, sampleRate: format.clockRate, channels: format.channels, config: new Uint8Array(0) },
  depacketiser: (sink) => new WholePacketDepacketiser(ticks, sink),
})

const integer = (format: SdpFormat, name: string, otherwise: number): number => {
  const text = format.parameters.get(name) ?? ""
  return /^\d{1,2}$/.test(text) ? Math.min(32, Number(text)) : otherwise
}

/** `null` where the configuration is missing or cannot be used. */
const aac = (format: SdpFormat): AudioChoice | null => {
  const text = (format.parameters.get("config") ?? "").replaceAll("\"", "")
  if (!/^([0-9a-f]{2})+$/i.test(text)) return null
  const config = Uint8Array.from(Buffer.from(text, "hex"))
  try {
    const parsed = parseAacConfig(config)
    const { clockRate } = format
    // A clock that is neither rate of the codec is a camera's slip (90000 is common); the sample rate then counts.
    const sampleRate = clockRate === parsed.outputRate || clockRate === parsed.coreRate ? clockRate : parsed.outputRate
    const layout: AacLayout = {
      sizeBits: integer(format, "sizelength", 13),
      indexBits: integer(format, "indexlength", 3),
      indexDeltaBits: integer(format, "indexdeltalength", 3),
      frameTicks: parsed.frameSamples * clockRate / parsed.outputRate,
    }
    const channels = parsed.channels === 0 ? format.channels : parsed.channels
    return {
      parameters: { codec: "aac", sampleRate, channels, codecs: parsed.codecs, config },
      depacketiser: (sink) => new AacDepacketiser(layout, sink),
    }
  } catch (error) {
    if (error instanceof Malformed) return null
    throw error
  }
}

const chooseAudio = (format: SdpFormat): AudioChoice | null => {
  switch (format.encoding) {
    case "PCMU":
      return plainAudio("pcmu", format, "ulaw", g711Ticks(format.channels))
    case "PCMA":
      return plainAudio("pcma", format, "alaw", g711Ticks(format.channels))
    case "OPUS":
      return plainAudio("opus", format, "opus", opusTicks)
    case "MPEG4-GENERIC":
      return aac(format)
    default:
      return null
  }
}

/** A medium of the SDP that is to be set up. */
export interface ChosenMedia {
  readonly kind: "video" | "audio"
  readonly control: string | null
  readonly format: SdpFormat
}

export interface Choice {
  readonly video: ChosenMedia & { readonly codec: VideoCodec }
  readonly audio: ChosenMedia & AudioChoice | null
  /** In the order of the SDP, which is the order that servers expect. */
  readonly order: ReadonlyArray<ChosenMedia>
}

const findVideo = (media: SdpMedia): Choice["video"] | null => {
  if (media.kind !== "video" || media.direction === "inactive") return null
  const format = media.formats.find(({ encoding }) => videoCodecs[encoding] !== undefined)
  return format === undefined ?
    null :
    { kind: "video", control: media.control, format, codec: videoCodecs[format.encoding]! }
}

/** An audio medium marked `sendonly` is the camera's loudspeaker (ONVIF Streaming Specification, section 5.3). */
const findAudio = (media: SdpMedia): Choice["audio"] => {
  if (media.kind !== "audio" || media.direction === "inactive" || media.direction === "sendonly") return null
  for (const format of media.formats) {
    const choice = chooseAudio(format)
    if (choice !== null) return { kind: "audio", control: media.control, format, ...choice }
  }
  return null
}

const first = <A, B>(items: ReadonlyArray<A>, find: (item: A) => B | null): readonly [B | null, number] => {
  for (const [index, item] of items.entries()) {
    const found = find(item)
    if (found !== null) return [found, index]
  }
  return [null, -1]
}

/** The reason as text where nothing of it can be recorded. */
export const chooseTracks = (sdp: Sdp): Choice | string => {
  const [video, videoAt] = first(sdp.media, findVideo)
  const [audio, audioAt] = first(sdp.media, findAudio)
  if (video === null) {
    const names = sdp.media.flatMap(({ formats, kind }) => formats.map(({ encoding }) => `${kind} ${encoding}`.trim()))
    return `no H.264 or H.265 video among: ${names.length === 0 ? "nothing" : names.slice(0, 8).join(", ")}`
  }
  return { video, audio, order: audio === null ? [video] : videoAt < audioAt ? [video, audio] : [audio, video] }
}

/** `sprop-parameter-sets` (RFC 6184, section 8.1) and `sprop-vps`, `-sps`, `-pps` (RFC 7798, section 7.1). */
const spropSets = (format: SdpFormat): ReadonlyArray<Uint8Array> =>
  ["sprop-parameter-sets", "sprop-vps", "sprop-sps", "sprop-pps"]
    .flatMap((name) => (format.parameters.get(name) ?? "").split(","))
    .map((text) => Buffer.from(text, "base64"))
    .filter((nal) => nal.length > 2)

/** The running tracks of one session. */
export interface Tracks {
  readonly video: TrackReceiver
  readonly audio: TrackReceiver | null
  /** Video units that were whole but came before any parameter sets; 0 once there are some. */
  readonly unitsWithoutParameters: () => number
}

export const makeTracks = (choice: Choice, withAudio: boolean, listener: SourceListener): Tracks => {
  const audioChoice = withAudio ? choice.audio : null
  let known = false
  const sets = new ParameterSets(choice.video.codec)
  sets.seed(spropSets(choice.video.format))
  const onParameters = (parameters: VideoParameters) => {
    known = true
    listener.onParameters({ video: parameters, audio: audioChoice?.parameters ?? null })
  }
  const onVideo: UnitSink = (data, key, ticks, durationTicks) => {
    const { arrivalMs } = video
    listener.onUnit({ track: "video", data, key, ticks, durationTicks, arrivalMs, senderMs: video.senderMs(ticks) })
  }
  const options = { sets, onParameters, onUnit: onVideo }
  const orderNumbers = Number(choice.video.format.parameters.get("sprop-max-don-diff") ?? 0) > 0
  const depacketiser = choice.video.codec === "h264" ?
    new H264Depacketiser(options) :
    new H265Depacketiser({ ...options, orderNumbers })
  const video = new TrackReceiver({
    payloadType: choice.video.format.payloadType,
    clockRate: choice.video.format.clockRate,
    depacketiser,
    onLoss: listener.onLoss,
  })
  return {
    video,
    audio: audioChoice === null ? null : makeAudio(audioChoice, listener, () => known),
    unitsWithoutParameters: () => known ? 0 : depacketiser.assembler.waiting,
  }
}

const makeAudio = (
  choice: ChosenMedia & AudioChoice,
  listener: SourceListener,
  mayBegin: () => boolean,
): TrackReceiver => {
  const { clockRate, payloadType } = choice.format
  const scale = choice.parameters.sampleRate / clockRate
  const sink: UnitSink = (data, key, ticks, durationTicks) => {
    if (!mayBegin()) return
    listener.onUnit({
      track: "audio",
      data,
      key,
      ticks: Math.round(ticks * scale),
      durationTicks: Math.round(durationTicks * scale),
      arrivalMs: receiver.arrivalMs,
      senderMs: receiver.senderMs(ticks),
    })
  }
  const receiver: TrackReceiver = new TrackReceiver({
    payloadType,
    clockRate,
    depacketiser: choice.depacketiser(sink),
    onLoss: listener.onLoss,
  })
  return receiver
}
