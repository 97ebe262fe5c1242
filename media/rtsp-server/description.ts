/**
 * What DESCRIBE answers (RFC 8866; RFC 2326, appendix C): the tracks of a stream as a session description.
 *
 * Invariants
 * 1. Video is track 0, audio track 1; payload types are dynamic but for G.711 at 8 kHz (RFC 3551, section 6).
 */
import type { TalkCodec } from "#schema/camera-talk.ts"
import type { AudioParameters, TrackParameters, VideoParameters } from "#schema/media.ts"

export type TrackName = "video" | "audio"
/** By their number in the control address. */
export const trackNames: ReadonlyArray<TrackName> = ["video", "audio"]

export const videoPayloadType = 96
export const audioPayloadType = ({ channels, codec, sampleRate }: AudioParameters): number => {
  if (sampleRate !== 8000 || channels !== 1) return 97
  return codec === "pcmu" ? 0 : codec === "pcma" ? 8 : 97
}

const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64")

const videoLines = ({ codec, pps, sps, vps }: VideoParameters): ReadonlyArray<string> => {
  const type = videoPayloadType
  const format = codec === "h264" ?
    [
      "packetization-mode=1",
      `profile-level-id=${Buffer.from(sps.subarray(1, 4)).toString("hex")}`,
      `sprop-parameter-sets=${base64(sps)},${base64(pps)}`,
    ] :
    [`sprop-vps=${base64(vps)}`, `sprop-sps=${base64(sps)}`, `sprop-pps=${base64(pps)}`]
  return [
    `m=video 0 RTP/AVP ${type}`,
    `a=rtpmap:${type} ${codec === "h264" ? "H264" : "H265"}/90000`,
    `a=fmtp:${type} ${format.join("; ")}`,
    "a=control:trackID=0",
  ]
}

const encodings = { pcmu: "PCMU", pcma: "PCMA" } as const

const audioLines = (audio: AudioParameters): ReadonlyArray<string> => {
  const { channels, codec, config, sampleRate } = audio
  const type = audioPayloadType(audio)
  const head = `m=audio 0 RTP/AVP ${type}`
  const control = "a=control:trackID=1"
  if (codec === "aac") {
    const format = [
      "profile-level-id=1",
      "mode=AAC-hbr",
      "sizelength=13",
      "indexlength=3",
      "indexdeltalength=3",
      `config=${Buffer.from(config).toString("hex")}`,
    ]
    return [
      head,
      `a=rtpmap:${type} MPEG4-GENERIC/${sampleRate}/${channels}`,
      `a=fmtp:${type} ${format.join("; ")}`,
      control,
    ]
  }
  // RFC 7587, section 7: always two channels at 48 kHz, whatever is in it.
  if (codec === "opus") return [head, `a=rtpmap:${type} opus/48000/2`, `a=fmtp:${type} sprop-stereo=1`, control]
  return [head, `a=rtpmap:${type} ${encodings[codec]}/${sampleRate}${channels > 1 ? `/${channels}` : ""}`, control]
}

/** A part that the player sends: directions are those of the player here (ONVIF Streaming Specification, section 5.3.3). */
const talkLines = (codec: TalkCodec): ReadonlyArray<string> => {
  const type = codec === "pcmu" ? 0 : 8
  return [
    `m=audio 0 RTP/AVP ${type}`,
    `a=rtpmap:${type} ${encodings[codec]}/8000`,
    "a=sendonly",
    "a=control:trackID=2",
  ]
}

export interface DescriptionOptions {
  /** Our address on this connection. */
  readonly local: string
  /** Grows when the description changes. */
  readonly version: number
  /** Of `a=range` (RFC 2326, appendix C.1.5). */
  readonly range: string
  /** The same once more, of the video alone: players that know only `npt` find it there, those of ONVIF take the first. */
  readonly videoRange: string | null
  /** What the camera's loudspeaker takes; null: nobody is to talk to it. */
  readonly talk: TalkCodec | null
}

export const describe = (
  parameters: TrackParameters,
  { local, range, talk, version, videoRange }: DescriptionOptions,
): string =>
  [
    "v=0",
    `o=- 1 ${version} IN IP${local.includes(":") ? 6 : 4} ${local}`,
    "s=Nightjar",
    `c=IN IP${local.includes(":") ? "6 ::" : "4 0.0.0.0"}`,
    "t=0 0",
    "a=control:*",
    `a=range:${range}`,
    ...videoLines(parameters.video),
    ...(videoRange === null ? [] : [`a=range:${videoRange}`]),
    ...(parameters.audio === null ? [] : audioLines(parameters.audio)),
    ...(talk === null ? [] : talkLines(talk)),
    "",
  ].join("\r\n")
