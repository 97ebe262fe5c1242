/**
 * One player of a recorded interval: what it is sent, and when.
 *
 * Invariants
 * 1. Pictures are sent as they are stored, in packets. One fragment is in memory; the next is read when it was written, and more than
 *    {@link aheadBytes} wait in no connection. A player that takes nothing for {@link stallMs} is disconnected.
 * 2. Paced, RTP time is that of playing: gaps take no time, and backwards the last picture of a group comes first in time though not in
 *    order (RFC 2326, appendix B; ONVIF Streaming Specification, section 6.6). Not paced, it is that of recording.
 * 3. Sounds are sent at normal speed forwards alone.
 * 4. The end is told by a goodbye on each track, {@link leadMs} after the last picture and {@link introductionMs} after the first PLAY:
 *    players that are told of it before they have shown anything forget it. A new PLAY may follow.
 */
import type { EpochMs, Interval, RecordingId, RecordingToken } from "#schema/common.ts"
import { type TrackParameters, videoClockHz } from "#schema/media.ts"
import { Clock, Effect, Fiber, Latch, type Scope } from "effect"
import type { StoredUnit } from "../fmp4/fragment-reader.ts"
import { makeAudioPacketiser, makeVideoPacketiser, type Packetiser } from "../rtp/packetiser.ts"
import { goodbyePacket, senderReportPacket } from "../rtp/rtcp.ts"
import { header, type RequestHead } from "../rtsp/message.ts"
import { type Answer, type Refusal, refuse } from "./answer.ts"
import { audioPayloadType, type TrackName, trackNames, videoPayloadType } from "./description.ts"
import type { Numbers } from "./feed.ts"
import type { Footage, UnitReader } from "./footage-reader.ts"
import { channelOf, Lanes, type Player, type Wires } from "./lanes.ts"
import { type PlayRequest, rangeText, readPlay } from "./play-request.ts"
import { withReplayMark } from "./replay-extension.ts"
import { leadAt, leadMs, ReplayTimeline } from "./replay-timeline.ts"
import { type Step, Walk } from "./walk.ts"

/** Enough that a player never waits for the disk, little enough for a thousand of them. */
const aheadBytes = 256 * 1024
/** GStreamer shows the first picture after two seconds, if nobody tells it otherwise. */
const introductionMs = 3_000
const stallMs = 60_000
const reportEveryMs = 5_000
/** PLAY requests that wait for the end of what plays (RFC 2326, section 10.5). */
const maxWaiting = 4
/** Between what was played and what is played next, on the player's own clock. */
const pauseSeconds = 0.1

/** What is the same for the whole session. */
export interface RecordedInterval {
  readonly storage: Footage
  readonly recordingId: RecordingId
  readonly recordingToken: RecordingToken
  readonly interval: Interval
  /** Of the first file; another codec in a later one ends what plays. */
  readonly parameters: TrackParameters
  readonly numbers: Numbers
  /** What plays ends with it. */
  readonly scope: Scope.Scope
}

/** One PLAY that was granted. */
interface Job {
  readonly asked: PlayRequest
  readonly backwards: boolean
  readonly walk: Walk
  readonly first: Step
  readonly until: Interval
  readonly timeline: ReplayTimeline
  readonly cseq: number
  /** With ONVIF's header extension. */
  readonly marked: boolean
}

interface Track {
  readonly clockHz: number
  readonly ssrc: number
  readonly firstTimestamp: number
  readonly packetiser: Packetiser
  packets: number
  payloadBytes: number
  timestamp: number
  /** When its last report was sent. */
  reportedMs: number
}

const makeTracks = ({ audio, video }: TrackParameters, { sequence, ssrc, timestamp }: Numbers) => {
  const track = (index: 0 | 1, clockHz: number, packetiser: Packetiser): Track => ({
    clockHz,
    ssrc: ssrc[index],
    firstTimestamp: timestamp[index],
    packetiser,
    packets: 0,
    payloadBytes: 0,
    timestamp: timestamp[index],
    reportedMs: Number.NEGATIVE_INFINITY,
  })
  const options = (name: TrackName, index: 0 | 1, payloadType: number) => ({
    channel: channelOf[name],
    payloadType,
    ssrc: ssrc[index],
    sequence: sequence[index],
  })
  const picture = makeVideoPacketiser(video.codec, options("video", 0, videoPayloadType))
  return {
    video: track(0, videoClockHz, picture),
    audio: audio === null ?
      null :
      track(1, audio.sampleRate, makeAudioPacketiser(audio.codec, options("audio", 1, audioPayloadType(audio)))),
  }
}

const wrapped = (ticks: number): number => ((Math.round(ticks) % 0x1_0000_0000) + 0x1_0000_0000) % 0x1_0000_0000

export class RecordedPlayer extends Lanes implements Player {
  private readonly of: RecordedInterval
  private readonly tracks: ReturnType<typeof makeTracks>
  private readonly reader: UnitReader
  private fiber: Fiber.Fiber<void> | null = null
  private readonly waiting: Array<Job> = []
  /** What was sent last, epoch milliseconds. */
  private positionMs: EpochMs | null = null
  /** Since the first PLAY of the session, after which a goodbye is heard. */
  private introducedMs: EpochMs | null = null
  /** On the player's own clock: where what plays next begins. */
  private baseSeconds = 0

  constructor(of: RecordedInterval, reader: UnitReader, wires: Wires) {
    super(wires)
    this.of = of
    this.reader = reader
    this.tracks = makeTracks(of.parameters, of.numbers)
  }

  get playing(): boolean {
    return this.fiber !== null
  }

  ssrc(track: TrackName): number | null {
    return this.tracks[track]?.ssrc ?? null
  }

  clockOf(track: TrackName): number {
    return this.tracks[track]?.clockHz ?? videoClockHz
  }

  readonly pause: Effect.Effect<void> = Effect.suspend(() => {
    const { fiber } = this
    this.fiber = null
    this.waiting.length = 0
    return fiber === null ? Effect.void : Fiber.interrupt(fiber)
  })

  readonly play = Effect.fnUntraced(
    function*(this: RecordedPlayer, head: RequestHead, base: string): Effect.fn.Return<Answer, Refusal> {
      const asked = readPlay(head)
      if (typeof asked === "number") return yield* refuse(asked)
      // Nothing but the connection's own pace would hold datagrams back.
      if (!asked.paced && this.byUdp) return yield* refuse(456)
      const queued = this.playing && !asked.immediate
      if (queued && asked.range === null) return { status: 200 }
      if (queued && this.waiting.length >= maxWaiting) return yield* refuse(455)
      if (!queued) yield* this.pause
      const job = yield* this.prepare(asked, head)
      if (job === null) return yield* refuse(457)
      const answer = this.answer(job, base, queued)
      if (queued) {
        this.waiting.push(job)
        return answer
      }
      const { scope } = this.of
      const clock = yield* Clock.Clock
      const go = yield* Latch.make(false)
      this.fiber = yield* Effect.forkIn(Effect.andThen(go.await, this.run(job, clock)), scope)
      return { ...answer, after: () => go.openUnsafe() }
    },
  )

  private readonly prepare = Effect.fnUntraced(function*(this: RecordedPlayer, asked: PlayRequest, head: RequestHead) {
    const { interval, recordingId, storage } = this.of
    const backwards = asked.scale < 0
    const { range } = asked
    const zero = range?.style === "npt" ? interval.start : 0
    const [first, last] = backwards ? [interval.end, interval.start] : [interval.start, interval.end]
    const within = (ms: EpochMs) => Math.min(interval.end, Math.max(interval.start, ms))
    const from = range === null || range.fromMs === null ? this.positionMs ?? first : within(zero + range.fromMs)
    const to = range === null || range.toMs === null ? last : within(zero + range.toMs)
    const until = backwards ? { start: to, end: from } : { start: from, end: to }
    if (until.end <= until.start) return null
    const walk = new Walk(storage, {
      recordingId,
      interval: until,
      fromMs: from,
      backwards,
      keysEveryMs: asked.keysEveryMs,
    })
    const step = yield* walk.next()
    if (step === null) return null
    const { paced, scale } = asked
    return {
      asked,
      backwards,
      walk,
      first: step,
      until,
      timeline: new ReplayTimeline({ paced, backwards, speed: Math.abs(scale), originMs: interval.start }),
      cseq: Number(header(head, "cseq") ?? 0) & 0xff,
      // GStreamer speaks ONVIF without saying so.
      marked: /\bonvif-replay\b/i.test(header(head, "require") ?? "") || header(head, "rate-control") !== null,
    } satisfies Job
  })

  private answer({ asked, backwards, first: { from, table, to }, marked, until }: Job, base: string, queued: boolean) {
    const [fromMs, toMs] = backwards ? [table.endMs(to - 1), until.start] : [table.startMs(from), until.end]
    const style = asked.range?.style ?? (marked ? "clock" : "npt")
    const info = queued ? [] : trackNames.flatMap((name, index) => {
      const track = this.destinations.has(name) ? this.tracks[name] : null
      if (track === null) return []
      const seconds = asked.paced ? this.baseSeconds : (table.startMs(from) - this.of.interval.start) / 1000
      const time = wrapped(track.firstTimestamp + seconds * track.clockHz)
      return [`url=${base}trackID=${index};seq=${track.packetiser.sequence};rtptime=${time}`]
    })
    return {
      status: 200,
      headers: [
        ["Range", rangeText(style, fromMs, toMs, this.of.interval.start)],
        ["Scale", asked.scale.toFixed(1)],
        ["Rate-Control", asked.paced ? "yes" : "no"],
        ...(info.length === 0 ? [] : [["RTP-Info", info.join(",")] as const]),
      ] as const,
    }
  }

  private run(job: Job, clock: Clock.Clock): Effect.Effect<void> {
    return Effect.gen({ self: this }, function*() {
      this.introducedMs ??= clock.currentTimeMillisUnsafe() + introductionMs
      for (let next: Job | undefined = job; next !== undefined; next = this.waiting.shift()) {
        yield* this.perform(next, clock)
        if (next.asked.paced) this.baseSeconds += next.timeline.endSeconds + pauseSeconds
        if (this.waiting.length > 0) continue
        yield* Effect.sleep(Math.max(leadMs, this.introducedMs - clock.currentTimeMillisUnsafe()))
      }
      this.fiber = null
      for (const [name, destination] of this.destinations) {
        const track = this.tracks[name]
        if (track === null) continue
        const report = this.reportOf(track, this.positionMs ?? this.of.interval.start)
        this.dispatchReport(destination, Buffer.concat([report, goodbyePacket(track.ssrc)]))
      }
    })
  }

  private readonly perform = Effect.fnUntraced(function*(this: RecordedPlayer, job: Job, clock: Clock.Clock) {
    const beganMs = clock.currentTimeMillisUnsafe()
    for (const track of [this.tracks.video, this.tracks.audio]) {
      if (track !== null) track.reportedMs = Number.NEGATIVE_INFINITY
    }
    let lost = true
    for (let step: Step | null = job.first; step !== null;) {
      const next: Step | null = yield* job.walk.next()
      const parameters = yield* this.of.storage.parameters(step.file).pipe(Effect.catch(() => Effect.succeed(null)))
      if (parameters !== null && parameters.video.codec !== this.of.parameters.video.codec) return
      const silent = parameters === null || !sameAudio(parameters, this.of.parameters)
      job.timeline.enter({ ...step, broken: step.broken || lost })
      let discontinuity = step.broken || lost
      lost = parameters === null
      for (let row = step.from; row < step.to && parameters !== null; row++) {
        const units = yield* this.reader.read(step.file, step.table, row)
        lost = units === null
        const chosen = units === null ? [] : this.choose(units, job, step, row, silent)
        const lastPicture = chosen.findLast(({ unit }) => unit.track === "video")
        for (const one of chosen) {
          yield* this.wait(job, one, step, { beganMs, clock, final: next === null })
          const last = one === lastPicture && row === step.to - 1 && (next === null || next.broken)
          this.send(job, one, {
            sets: setsOf(parameters),
            discontinuity: discontinuity && one.unit.track === "video",
            last,
            terminal: last && next === null && this.waiting.length === 0,
            nowMs: clock.currentTimeMillisUnsafe(),
          })
          if (one.unit.track === "video") discontinuity = false
        }
      }
      step = next
    }
  })

  /** The units of a fragment that this player gets, in the order of their time. */
  private choose(
    units: ReadonlyArray<StoredUnit>,
    { asked, backwards, until }: Job,
    { table }: Step,
    row: number,
    silent: boolean,
  ): ReadonlyArray<Chosen> {
    const zero = table.decodeTicks(row) / videoClockHz
    const startMs = table.startMs(row)
    const whole = asked.scale === 1 && asked.keysEveryMs === null
    return units.flatMap((unit, index): ReadonlyArray<Chosen> => {
      const video = unit.track === "video"
      if (!this.destinations.has(unit.track) || (!video && (silent || !whole))) return []
      if (video && asked.keysEveryMs !== null && index > 0) return []
      const clockHz = video ? videoClockHz : this.clockOf("audio")
      const decodeSeconds = unit.decodeTicks / clockHz
      const wallMs = startMs + (decodeSeconds - zero) * 1000
      // Backwards a group is sent whole: what is shown first of it needs all that comes before.
      if (!backwards && wallMs >= until.end) return []
      return [{
        unit,
        wallMs,
        decodeSeconds,
        seconds: unit.ticks / clockHz,
        endSeconds: (unit.ticks + unit.durationTicks) / clockHz,
      }]
    }).toSorted((a, b) => a.decodeSeconds - b.decodeSeconds)
  }

  /** Until the unit is due, and the connection has room. */
  private wait(
    { asked, backwards, timeline }: Job,
    one: Chosen,
    { from, table, to }: Step,
    { beganMs, clock, final }: { readonly beganMs: number; readonly clock: Clock.Clock; readonly final: boolean },
  ): Effect.Effect<void> {
    const [end, start] = [table.endTicks(to - 1) / videoClockHz, table.decodeTicks(from) / videoClockHz]
    const at = timeline.at(backwards ? end : one.decodeSeconds)
    const left = final ? timeline.at(backwards ? start : end) - at : Infinity
    const dueMs = asked.paced ? beganMs + at * 1000 - leadAt(left) : 0
    const early = dueMs - clock.currentTimeMillisUnsafe()
    const due = early > 5 ? Effect.sleep(early) : Effect.void
    return this.socket.writableLength <= aheadBytes ? due : Effect.andThen(due, this.room)
  }

  private readonly room: Effect.Effect<void> = Effect.suspend(() =>
    Effect.callback<void>((resume) => {
      const drained = () => resume(Effect.void)
      this.socket.once("drain", drained)
      return Effect.sync(() => this.socket.off("drain", drained))
    }).pipe(Effect.timeoutOrElse({
      duration: stallMs,
      orElse: () => Effect.andThen(Effect.sync(() => this.socket.destroy()), Effect.never),
    }))
  )

  private send(job: Job, { endSeconds, seconds, unit, wallMs }: Chosen, how: Sending): void {
    const track = this.tracks[unit.track]
    const destination = this.destinations.get(unit.track)
    if (track === null || destination === undefined) return
    const base = job.asked.paced ? this.baseSeconds : 0
    const line = job.timeline.at(seconds)
    const timestamp = wrapped(track.firstTimestamp + (base + line) * track.clockHz)
    const packets = track.packetiser.unit(unit.data, timestamp, unit.track === "video" && unit.key ? how.sets : [])
    if (packets === null) return
    job.timeline.passed(Math.max(line, job.timeline.at(endSeconds)))
    track.timestamp = timestamp
    track.packets += packets.starts.length
    track.payloadBytes += packets.payloadBytes
    this.positionMs = Math.floor(wallMs)
    const mark = { wallMs, key: unit.key, cseq: job.cseq, ...how }
    this.dispatch(unit.track, destination, job.marked ? withReplayMark(packets, mark) : packets)
    // Behind the first packet, as of live streams.
    if (how.nowMs - track.reportedMs < reportEveryMs) return
    track.reportedMs = how.nowMs
    const { from, table } = job.first
    const beganMs = job.asked.paced ? table.startMs(from) : this.of.interval.start
    this.dispatchReport(destination, this.reportOf(track, beganMs + line * 1000))
  }

  private reportOf({ packets, payloadBytes, ssrc, timestamp }: Track, wallMs: number): Buffer {
    return senderReportPacket({ ssrc, wallMs, rtpTimestamp: timestamp, packets, payloadBytes })
  }
}

interface Chosen {
  readonly unit: StoredUnit
  /** When it was recorded, epoch milliseconds with a fraction. */
  readonly wallMs: number
  /** On the clock of the footage. */
  readonly decodeSeconds: number
  readonly seconds: number
  readonly endSeconds: number
}

interface Sending {
  readonly sets: ReadonlyArray<Uint8Array>
  readonly discontinuity: boolean
  readonly last: boolean
  readonly terminal: boolean
  readonly nowMs: number
}

const setsOf = ({ video: { pps, sps, vps } }: TrackParameters): ReadonlyArray<Uint8Array> =>
  [vps, sps, pps].filter((set) => set.length > 0)

const sameAudio = ({ audio: a }: TrackParameters, { audio: b }: TrackParameters): boolean =>
  a?.codec === b?.codec && a?.sampleRate === b?.sampleRate && a?.channels === b?.channels
