/** Access units as a camera would deliver them, from the footage the simulated camera loops. */
import { parseSps264 } from "#media/codec/h264.ts"
import { parseSps265 } from "#media/codec/h265.ts"
import type { AccessUnit, AudioParameters, TrackParameters, VideoParameters } from "#schema/media.ts"
import {
  type AudioFootage,
  committedFolder,
  loadAudio,
  loadVideo,
  type VideoFootage,
} from "#test/camera-simulator/footage.ts"
import { join } from "node:path"

export interface CameraOptions {
  /** File names in the fixtures' media folder. */
  readonly video: string
  readonly audio?: string
  readonly seconds: number
  /** Wall clock of the first picture. */
  readonly startMs: number
  /** Where the tracks' RTP clocks stand at the first picture. */
  readonly videoTicks?: number
  readonly audioTicks?: number
  /** How much later audio arrives than it should, milliseconds. */
  readonly audioLateMs?: number
  /** The camera sends reports; its clock is off by this much, milliseconds. */
  readonly senderOffsetMs?: number
}

const none = new Uint8Array(0)

const videoParameters = (footage: VideoFootage): VideoParameters => {
  const sets = footage.parameterSets
  if (footage.codec === "h264") {
    const [sps = none, pps = none] = sets
    const { codecs, height, width } = parseSps264(sps)
    return { codec: "h264", width, height, codecs, vps: none, sps: Uint8Array.from(sps), pps: Uint8Array.from(pps) }
  }
  const [vps = none, sps = none, pps = none] = sets
  const { codecs, height, width } = parseSps265(sps)
  return {
    codec: "h265",
    width,
    height,
    codecs,
    vps: Uint8Array.from(vps),
    sps: Uint8Array.from(sps),
    pps: Uint8Array.from(pps),
  }
}

const audioCodecs = { aac: "mp4a.40.2", pcmu: "ulaw", pcma: "alaw", opus: "opus" } as const

const audioParameters = (footage: AudioFootage): AudioParameters => ({
  codec: footage.codec,
  sampleRate: footage.clockRate,
  channels: footage.channels,
  codecs: audioCodecs[footage.codec],
  config: Uint8Array.from(Buffer.from(footage.config, "hex")),
})

const withLengths = (units: ReadonlyArray<Buffer>): Uint8Array =>
  Buffer.concat(units.flatMap((unit) => {
    const length = Buffer.alloc(4)
    length.writeUInt32BE(unit.length)
    return [length, unit]
  }))

const pictureUnits = (footage: VideoFootage, options: CameraOptions): ReadonlyArray<AccessUnit> => {
  const frameMs = 1000 / footage.rate
  const count = Math.round(options.seconds * footage.rate)
  return Array.from({ length: count }, (_, i) => {
    const picture = footage.pictures[i % footage.pictures.length]!
    const shownMs = (i + picture.delay) * frameMs
    return {
      track: "video",
      data: withLengths(picture.units),
      key: picture.key,
      ticks: (options.videoTicks ?? 0) + Math.round(shownMs * 90),
      durationTicks: 0,
      arrivalMs: options.startMs + Math.round(i * frameMs) + 5,
      senderMs: options.senderOffsetMs === undefined ?
        null :
        options.startMs + Math.round(shownMs) + options.senderOffsetMs,
    } as const
  })
}

const frameUnits = (footage: AudioFootage, options: CameraOptions): ReadonlyArray<AccessUnit> => {
  const frameMs = footage.ticksPerUnit * 1000 / footage.clockRate
  const count = Math.floor(options.seconds * 1000 / frameMs)
  return Array.from({ length: count }, (_, i) => ({
    track: "audio",
    data: footage.units[i % footage.units.length]!,
    key: true,
    ticks: (options.audioTicks ?? 0) + i * footage.ticksPerUnit,
    durationTicks: footage.ticksPerUnit,
    arrivalMs: options.startMs + Math.round(i * frameMs) + 5 + (options.audioLateMs ?? 0),
    senderMs: options.senderOffsetMs === undefined ?
      null :
      options.startMs + Math.round(i * frameMs) + options.senderOffsetMs,
  }))
}

/** Parameters, and units in the order of their arrival. */
export const camera = (
  options: CameraOptions,
): { readonly parameters: TrackParameters; readonly units: ReadonlyArray<AccessUnit> } => {
  const video = loadVideo(join(committedFolder, options.video))
  const audio = options.audio === undefined ? null : loadAudio(join(committedFolder, options.audio))
  return {
    parameters: { video: videoParameters(video), audio: audio === null ? null : audioParameters(audio) },
    units: [...pictureUnits(video, options), ...(audio === null ? [] : frameUnits(audio, options))]
      .sort((a, b) => a.arrivalMs - b.arrivalMs),
  }
}
