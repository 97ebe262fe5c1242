/**
 * One stream as its readers get it: units from the hub become packets, once, and are handed to every reader.
 *
 * Invariants
 * 1. The packets since the newest key picture are kept for whoever comes, at most {@link maxGroupBytes} in
 *    {@link maxGroupUnits} units, else none.
 * 2. RTP time goes on across a new connection to the camera, by the wall clock: readers see a pause, not a jump.
 * 3. Parameter sets stand in front of each key picture. Other sizes or sets need nothing else; another codec ends the readers,
 *    who ask for a new description.
 * 4. A feed that heard nothing for {@link silenceMs} ends its readers and is of no more use: they come back to a new view of the
 *    hub, which may be another one, or learn that this node does not serve the stream any more.
 * 5. Reports tell wall-clock times of both tracks by the same clock: the node's, smoothed by the camera's where it reports.
 */
import type { StreamId } from "#schema/common.ts"
import { type AccessUnit, type TrackParameters, videoClockHz } from "#schema/media.ts"
import { Clock, Deferred, Effect, Exit, Random } from "effect"
import { type LiveItem, LiveStreams } from "../hub.ts"
import { makeAudioPacketiser, makeVideoPacketiser, type Packetiser, type Packets } from "../rtp/packetiser.ts"
import { goodbyePacket, senderReportPacket } from "../rtp/rtcp.ts"
import { audioPayloadType, type TrackName, videoPayloadType } from "./description.ts"
import { channelOf } from "./lanes.ts"

/** As the hub's own. */
const maxGroupBytes = 16 * 1024 * 1024
const maxGroupUnits = 2_000
/** What may wait for this loop, which does nothing but frame: ten seconds of 12 Mbit/s. */
const viewBounds = { maxBytes: 16 * 1024 * 1024, maxItems: 2_000 }
const reportEveryMs = 5_000
/** A camera that went away and comes back needs less, unless it is away for longer. */
export const silenceMs = 30_000

/** A reader, as the feed sees it. */
export interface Outlet {
  /** `key`: what follows can be decoded from here. */
  readonly send: (track: TrackName, packets: Packets, key: boolean) => void
  readonly report: (track: TrackName, rtcp: Buffer) => void
  /** It has to ask anew. */
  readonly end: () => void
}

interface Sent {
  readonly track: TrackName
  readonly packets: Packets
  readonly key: boolean
}

/** One track's packets and time. */
class Track {
  readonly clockHz: number
  readonly ssrc: number
  readonly packetiser: Packetiser
  packets = 0
  payloadBytes = 0
  /** Added to a unit's ticks. */
  private offset: number
  private broken = true
  private lastTimestamp: number
  private lastArrivalMs: number | null = null
  /** A moment by both clocks, of the newest unit of this connection to the camera. */
  moment: { readonly wallMs: number; readonly timestamp: number } | null = null

  constructor(clockHz: number, ssrc: number, firstTimestamp: number, packetiser: Packetiser) {
    this.clockHz = clockHz
    this.ssrc = ssrc
    this.packetiser = packetiser
    this.offset = 0
    this.lastTimestamp = firstTimestamp
  }

  break(): void {
    this.broken = true
    this.moment = null
  }

  timestamp(unit: AccessUnit): number {
    if (this.broken) {
      const passedMs = this.lastArrivalMs === null ? 0 : Math.max(1, unit.arrivalMs - this.lastArrivalMs)
      this.offset = this.lastTimestamp + Math.round(passedMs * this.clockHz / 1000) - unit.ticks
      this.broken = false
    }
    this.lastArrivalMs = unit.arrivalMs
    this.lastTimestamp = unit.ticks + this.offset
    return this.lastTimestamp
  }
}

interface Tracks {
  readonly video: Track
  readonly audio: Track | null
}

const sameTracks = (a: TrackParameters, b: TrackParameters): boolean =>
  a.video.codec === b.video.codec && a.audio?.codec === b.audio?.codec &&
  a.audio?.sampleRate === b.audio?.sampleRate && a.audio?.channels === b.audio?.channels &&
  Buffer.compare(a.audio?.config ?? Buffer.alloc(0), b.audio?.config ?? Buffer.alloc(0)) === 0

export interface Numbers {
  /** SSRC, sequence number, RTP time of video, then of audio. */
  readonly ssrc: readonly [number, number]
  readonly sequence: readonly [number, number]
  readonly timestamp: readonly [number, number]
}

const makeTracks = ({ audio, video }: TrackParameters, numbers: Numbers): Tracks => ({
  video: new Track(
    videoClockHz,
    numbers.ssrc[0],
    numbers.timestamp[0],
    makeVideoPacketiser(video.codec, {
      channel: channelOf.video,
      payloadType: videoPayloadType,
      ssrc: numbers.ssrc[0],
      sequence: numbers.sequence[0],
    }),
  ),
  audio: audio === null ?
    null :
    new Track(
      audio.sampleRate,
      numbers.ssrc[1],
      numbers.timestamp[1],
      makeAudioPacketiser(audio.codec, {
        channel: channelOf.audio,
        payloadType: audioPayloadType(audio),
        ssrc: numbers.ssrc[1],
        sequence: numbers.sequence[1],
      }),
    ),
})

export class Feed {
  readonly streamId: StreamId
  readonly sinceMs: number
  private readonly numbers: Numbers
  private readonly outlets = new Set<Outlet>()
  private tracks: Tracks | null = null
  private group: Array<Sent> = []
  private groupBytes = 0
  private whole = false
  private sets: ReadonlyArray<Uint8Array> = []
  /** Node's clock minus the camera's, in this run. */
  private senderOffsetMs: number | null = null
  readonly described = Deferred.makeUnsafe<void>()
  parameters: TrackParameters | null = null
  /** When the last unit came. */
  heardMs: number
  /** Invariant 4. */
  stale = false
  /** Grows when the parameters change. */
  version = 0
  /** Pictures come in another order than they are shown in (B-frames). */
  reordered = false
  private shownTicks = Number.NEGATIVE_INFINITY

  constructor(streamId: StreamId, sinceMs: number, numbers: Numbers) {
    this.streamId = streamId
    this.sinceMs = sinceMs
    this.heardMs = sinceMs
    this.numbers = numbers
  }

  get readers(): number {
    return this.outlets.size
  }

  get packets(): number {
    return (this.tracks?.video.packets ?? 0) + (this.tracks?.audio?.packets ?? 0)
  }

  get bytes(): number {
    return (this.tracks?.video.payloadBytes ?? 0) + (this.tracks?.audio?.payloadBytes ?? 0)
  }

  ssrc(name: TrackName): number | null {
    return this.tracks?.[name]?.ssrc ?? null
  }

  /** Hertz. */
  clockOf(name: TrackName): number {
    return this.tracks?.[name]?.clockHz ?? videoClockHz
  }

  /** What a reader that joins now gets first of a track; null where that is not known yet. */
  first(name: TrackName): Packets | null {
    return this.group.find(({ track }) => track === name)?.packets ?? null
  }

  /** The current group of pictures is sent at once. */
  join(outlet: Outlet): void {
    for (const { key, packets, track } of this.group) outlet.send(track, packets, key)
    this.outlets.add(outlet)
    for (const name of ["video", "audio"] as const) {
      const rtcp = this.reportOf(name)
      if (rtcp !== null) outlet.report(name, rtcp)
    }
  }

  /** The current group of pictures once more. */
  again(outlet: Outlet): void {
    for (const { key, packets, track } of this.group) outlet.send(track, packets, key)
  }

  leave(outlet: Outlet): void {
    this.outlets.delete(outlet)
  }

  take(item: LiveItem): void {
    if (item._tag === "Unit") return this.unit(item.unit)
    if (item._tag === "Parameters") return this.describe(item.parameters)
    this.tracks?.video.break()
    this.tracks?.audio?.break()
    this.shownTicks = Number.NEGATIVE_INFINITY
    this.senderOffsetMs = null
    this.forget(false)
  }

  private describe(parameters: TrackParameters): void {
    const { pps, sps, vps } = parameters.video
    const before = this.parameters
    this.parameters = parameters
    this.version++
    this.reordered = false
    this.shownTicks = Number.NEGATIVE_INFINITY
    this.sets = [vps, sps, pps].filter((set) => set.length > 0)
    if (before === null || !sameTracks(before, parameters)) {
      this.forget(false)
      this.tracks = makeTracks(parameters, this.numbers)
      for (const outlet of this.outlets) outlet.end()
    }
    Deferred.doneUnsafe(this.described, Exit.void)
  }

  private forget(whole: boolean): void {
    this.group = []
    this.groupBytes = 0
    this.whole = whole
  }

  private unit(unit: AccessUnit): void {
    const { track: name } = unit
    const track = this.tracks?.[name]
    if (track === undefined || track === null) return
    const key = name === "video" && unit.key
    if (name === "video") this.order(unit.ticks)
    const timestamp = track.timestamp(unit)
    const packets = this.packetise(track, unit, timestamp, key)
    if (packets === null) return
    track.packets += packets.starts.length
    track.payloadBytes += packets.payloadBytes
    const unreported = track.moment === null
    track.moment = { wallMs: this.wallMs(unit), timestamp }
    this.remember({ track: name, packets, key })
    for (const outlet of this.outlets) outlet.send(name, packets, key)
    if (unreported) this.tell(name)
  }

  private order(ticks: number): void {
    if (ticks < this.shownTicks) this.reordered = true
    this.shownTicks = Math.max(this.shownTicks, ticks)
  }

  private packetise(track: Track, unit: AccessUnit, timestamp: number, key: boolean): Packets | null {
    const time = ((timestamp % 0x1_0000_0000) + 0x1_0000_0000) % 0x1_0000_0000
    return track.packetiser.unit(unit.data, time, key ? this.sets : [])
  }

  private remember(sent: Sent): void {
    if (sent.key) this.forget(true)
    if (!this.whole) return
    this.groupBytes += sent.packets.bytes.length
    if (this.groupBytes > maxGroupBytes || this.group.length === maxGroupUnits) return this.forget(false)
    this.group.push(sent)
  }

  private wallMs(unit: AccessUnit): number {
    if (unit.senderMs === null) return unit.arrivalMs
    this.senderOffsetMs ??= unit.arrivalMs - unit.senderMs
    return unit.senderMs + this.senderOffsetMs
  }

  private reportOf(name: TrackName): Buffer | null {
    const track = this.tracks?.[name]
    if (track === undefined || track === null || track.moment === null) return null
    const { moment: { timestamp, wallMs }, packets, payloadBytes, ssrc } = track
    const rtpTimestamp = ((timestamp % 0x1_0000_0000) + 0x1_0000_0000) % 0x1_0000_0000
    return senderReportPacket({ ssrc, wallMs, rtpTimestamp, packets, payloadBytes })
  }

  private tell(name: TrackName): void {
    const rtcp = this.outlets.size === 0 ? null : this.reportOf(name)
    if (rtcp !== null) { for (const outlet of this.outlets) outlet.report(name, rtcp) }
  }

  /** From time to time; the first report goes with a track's first unit. */
  report(): void {
    this.tell("video")
    this.tell("audio")
  }

  /** What tells a reader that a track is over. */
  goodbye(name: TrackName): Buffer | null {
    const report = this.reportOf(name)
    const ssrc = this.ssrc(name)
    return report === null || ssrc === null ? null : Buffer.concat([report, goodbyePacket(ssrc)])
  }

  /** Once in a while: invariant 4. */
  listen(nowMs: number): void {
    if (nowMs - this.heardMs < silenceMs) return
    this.stale = true
    this.close()
  }

  close(): void {
    for (const outlet of this.outlets) outlet.end()
  }
}

const number = (below: number) => Random.nextIntBetween(0, below)

export const randomNumbers: Effect.Effect<Numbers> = Effect.gen(function*() {
  return {
    ssrc: [yield* number(0x7fff_ffff), yield* number(0x7fff_ffff)],
    sequence: [yield* number(0x8000), yield* number(0x8000)],
    timestamp: [yield* number(0x7fff_ffff), yield* number(0x7fff_ffff)],
  }
})

/** Watches the stream until the scope closes; null where this node does not serve it. */
export const openFeed = Effect.fnUntraced(function*(streamId: StreamId) {
  const live = yield* LiveStreams
  const view = yield* live.watch(streamId, viewBounds)
  if (view === null) return null
  const clock = yield* Clock.Clock
  const feed = new Feed(streamId, clock.currentTimeMillisUnsafe(), yield* randomNumbers)
  yield* Effect.addFinalizer(() => Effect.sync(() => feed.close()))
  yield* Effect.forkScoped(Effect.forever(Effect.map(view.take, (items) => {
    if (items.some(({ _tag }) => _tag === "Unit")) feed.heardMs = clock.currentTimeMillisUnsafe()
    for (const item of items) feed.take(item)
  })))
  const now = Effect.sync(() => {
    feed.listen(clock.currentTimeMillisUnsafe())
    feed.report()
  })
  yield* Effect.forkScoped(Effect.forever(Effect.andThen(Effect.sleep(reportEveryMs), now)))
  return feed
})
