/**
 * One stream of a camera (a profile): footage in time, sent to all its sessions at once.
 *
 * Invariants
 * 1. Sessions of a mount share SSRC, sequence numbers and frame numbers, as with a camera that encodes once.
 * 2. A sequence number is used up only by what is sent; a frozen camera leaves no hole in them, but one in the frame numbers.
 */
import * as fs from "node:fs"
import * as path from "node:path"
import { Feed, type Source, wallNow } from "./feed.ts"
import { type AudioFootage, benchFolder, committedFolder, loadAudio, loadVideo, type VideoFootage } from "./footage.ts"
import type { CameraOptions, ProfileOptions } from "./options.ts"
import { audioTemplates, stamped, type Template, videoTemplates } from "./packets.ts"
import { audioType, describe, VIDEO_TYPE } from "./sdp.ts"
import { markName } from "./sei.ts"
import { count, emptyCount, type Session, type TrackCount } from "./session.ts"

const AUDIO_FILES = {
  aac: "tone-16000.aac",
  pcmu: "tone-8000.pcmu",
  pcma: "tone-8000.pcma",
  opus: "tone-48000.opus",
} as const

/** Throws where there is no such file in the committed or the benchmark folder. */
export const findFootage = (file: string): string => {
  const places = path.isAbsolute(file) ? [file] : [path.join(committedFolder, file), path.join(benchFolder, file)]
  const found = places.find((place) => fs.existsSync(place))
  if (found === undefined) throw new Error(`no footage ${file} (looked in ${places.join(", ")})`)
  return found
}

const shared = new Map<string, ReadonlyArray<Template>>()
const sharedTemplates = (key: string, make: () => ReadonlyArray<Template>): ReadonlyArray<Template> => {
  const known = shared.get(key) ?? make()
  shared.set(key, known)
  return known
}

const videoSource = (video: VideoFootage, inBand: boolean): Source => ({
  templates: sharedTemplates(
    `${video.file} ${inBand}`,
    () => videoTemplates(video, { payloadType: VIDEO_TYPE, inBand }),
  ),
  ticksPerUnit: 90_000 / video.rate,
  clockRate: 90_000,
})

const audioSource = (audio: AudioFootage): Source => ({
  templates: sharedTemplates(audio.file, () => audioTemplates(audio, audioType(audio))),
  ticksPerUnit: audio.ticksPerUnit,
  clockRate: audio.clockRate,
})

interface Track {
  readonly feed: Feed
  readonly ssrc: number
  readonly sent: TrackCount
  sequence: number
}

export class Mount {
  readonly path: string
  readonly profile: string
  readonly tracks: ReadonlyArray<Track>
  readonly sessions = new Set<Session>()
  frozen = false
  #video: VideoFootage
  readonly #audio: AudioFootage | null
  readonly #options: CameraOptions
  readonly #name: Buffer

  constructor(
    profile: ProfileOptions,
    mountPath: string,
    options: CameraOptions,
    startMs: number,
    random: () => number,
  ) {
    this.path = mountPath
    this.profile = profile.name
    this.#options = options
    this.#name = markName(mountPath)
    this.#video = loadVideo(findFootage(profile.video))
    this.#audio = profile.audio === "none" ? null : loadAudio(findFootage(AUDIO_FILES[profile.audio]))
    const sources = [
      videoSource(this.#video, this.#inBand),
      ...(this.#audio === null ? [] : [audioSource(this.#audio)]),
    ]
    this.tracks = sources.map((source, track) => {
      const firstTicks = options.wrapAfterSeconds === null ?
        Math.floor(random() * 0x8000_0000) :
        0x1_0000_0000 - Math.round(options.wrapAfterSeconds * source.clockRate)
      return {
        feed: new Feed(
          source,
          startMs,
          firstTicks,
          (unit, template, ticks) => this.#emit(track, unit, template, ticks),
        ),
        ssrc: Math.floor(random() * 0xffff_ffff),
        sequence: Math.floor(random() * 0x1_0000),
        sent: emptyCount(),
      }
    })
  }

  get #inBand(): boolean {
    return this.#options.parameterSets !== "sdp"
  }

  /** `backchannel`: the viewer wants to talk, too. */
  description(host: string, backchannel: boolean): string {
    const { loudspeaker } = this.#options
    return describe({
      loudspeaker: backchannel && loudspeaker !== "none" ? loudspeaker : null,
      name: this.path,
      host,
      video: this.#video,
      audio: this.#audio,
      tellSets: this.#options.parameterSets !== "inBand",
    })
  }

  get video(): VideoFootage {
    return this.#video
  }

  get audioCodec(): string | null {
    return this.#audio?.codec ?? null
  }

  /** Before a session plays: from here on `rtpInfo` is right. */
  prepare(): void {
    for (const track of this.tracks) track.feed.start()
  }

  play(session: Session): void {
    session.playing = true
    this.sessions.add(session)
    this.prepare()
  }

  leave(session: Session): void {
    this.sessions.delete(session)
    if (this.sessions.size === 0) { for (const track of this.tracks) track.feed.stop() }
  }

  /** Goes over to other footage of the same codec: other parameter sets in mid-stream. Throws where the codec differs. */
  show(file: string): void {
    const video = loadVideo(findFootage(file))
    if (video.codec !== this.#video.codec) throw new Error("a stream cannot change its codec while it runs")
    this.#video = video
    this.tracks[0]!.feed.replace(videoSource(video, this.#inBand))
  }

  jump(seconds: number): void {
    for (const track of this.tracks) track.feed.jump(seconds)
  }

  /** `RTP-Info` (RFC 2326, section 12.33) for the tracks of a session. */
  rtpInfo(base: string, tracks: ReadonlyArray<number>): string {
    return tracks.map((index) => {
      const track = this.tracks[index]!
      return `url=${base}/track${index};seq=${track.sequence};rtptime=${track.feed.nextTicks() % 0x1_0000_0000}`
    }).join(",")
  }

  #emit(index: number, unit: number, template: Template, ticks: number): void {
    if (this.frozen || this.sessions.size === 0) return
    const track = this.tracks[index]!
    const bytes = stamped(template, {
      sequence: track.sequence,
      timestamp: ticks,
      ssrc: track.ssrc,
      name: this.#name,
      frame: unit,
      sentMs: wallNow(),
    })
    track.sequence = (track.sequence + template.packets.length) & 0xffff
    count(track.sent, unit, template)
    const shipment = {
      track: index,
      unit,
      template,
      bytes,
      ssrc: track.ssrc,
      unitMs: track.feed.unitMs,
      ticksAt: (wallMs: number) => track.feed.ticksAt(wallMs),
    }
    for (const session of this.sessions) session.deliver(shipment)
  }
}
