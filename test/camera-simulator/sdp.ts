/** Session descriptions (RFC 4566) of simulated mounts. Invariant: the track of index N has the control `trackN`. */
import type { AudioFootage, VideoFootage } from "./footage.ts"
import { type LoudspeakerCodec, loudspeakerLines } from "./loudspeaker.ts"

export const VIDEO_TYPE = 96

/** Static payload types of G.711 (RFC 3551, section 6), a dynamic one for others. */
export const audioType = (audio: AudioFootage): number => (audio.codec === "pcmu" ? 0 : audio.codec === "pcma" ? 8 : 97)

const h264Format = (video: VideoFootage, tellSets: boolean): string => {
  const sps = video.parameterSets.find((unit) => (unit[0]! & 31) === 7)
  if (sps === undefined) throw new Error(`${video.file} has no sequence parameter set`)
  const sets = tellSets ?
    `;sprop-parameter-sets=${video.parameterSets.map((unit) => unit.toString("base64")).join(",")}` :
    ""
  return `packetization-mode=1;profile-level-id=${sps.subarray(1, 4).toString("hex")}${sets}`
}

const h265Format = (video: VideoFootage, tellSets: boolean): string => {
  if (!tellSets) return "sprop-max-don-diff=0"
  const names: Record<number, string> = { 32: "sprop-vps", 33: "sprop-sps", 34: "sprop-pps" }
  return video.parameterSets.map((unit) => `${names[(unit[0]! >> 1) & 63]}=${unit.toString("base64")}`).join(";")
}

const videoLines = (video: VideoFootage, tellSets: boolean): ReadonlyArray<string> => [
  `m=video 0 RTP/AVP ${VIDEO_TYPE}`,
  "c=IN IP4 0.0.0.0",
  `a=rtpmap:${VIDEO_TYPE} ${video.codec.toUpperCase()}/90000`,
  `a=fmtp:${VIDEO_TYPE} ${video.codec === "h264" ? h264Format(video, tellSets) : h265Format(video, tellSets)}`,
  `a=framerate:${video.rate}`,
]

const audioLines = (audio: AudioFootage): ReadonlyArray<string> => {
  const type = audioType(audio)
  const media = [`m=audio 0 RTP/AVP ${type}`, "c=IN IP4 0.0.0.0"]
  if (audio.codec === "pcmu" || audio.codec === "pcma") return media
  if (audio.codec === "opus") return [...media, `a=rtpmap:${type} opus/48000/2`, `a=fmtp:${type} sprop-stereo=0`]
  return [
    ...media,
    `a=rtpmap:${type} mpeg4-generic/${audio.clockRate}/${audio.channels}`,
    `a=fmtp:${type} streamtype=5;profile-level-id=15;mode=AAC-hbr;sizelength=13;indexlength=3;indexdeltalength=3;config=${audio.config}`,
  ]
}

export const describe = (mount: {
  readonly name: string
  readonly host: string
  readonly video: VideoFootage
  readonly audio: AudioFootage | null
  readonly tellSets: boolean
  readonly loudspeaker: LoudspeakerCodec | null
}): string => {
  const lines = [
    "v=0",
    `o=- 1 1 IN IP4 ${mount.host}`,
    `s=${mount.name}`,
    "c=IN IP4 0.0.0.0",
    "t=0 0",
    "a=control:*",
    "a=range:npt=now-",
    ...videoLines(mount.video, mount.tellSets),
    "a=control:track0",
    ...(mount.audio === null ? [] : [...audioLines(mount.audio), "a=control:track1"]),
    ...(mount.loudspeaker === null ? [] : loudspeakerLines(mount.loudspeaker)),
  ]
  return `${lines.join("\r\n")}\r\n`
}
