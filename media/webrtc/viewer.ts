/**
 * One viewer of one stream: first picture, pace, losses, and what happens when its line is too thin.
 *
 * Invariants
 * 1. It begins with the newest key picture, at once. What the stream has had since then follows with times of its own, a
 *    millisecond apart and all before the present: the browser decodes it as fast as it can and is live from the next picture on.
 * 2. More than {@link burstPackets} at once are paced: {@link stepPackets} every {@link stepMs}.
 * 3. A line that loses more than {@link badLoss} in two reports in a row loses whole groups of pictures: one, then two, four, eight;
 *    after {@link slowMs} of that the viewer is ended. So does one whose backlog is more than {@link maxBacklogBytes}. A line that loses
 *    nothing but takes too little (TCP) loses what it has not taken of a group when the next one begins, and is ended after
 *    {@link slowMs} in which it never caught up.
 * 4. A key picture that is asked for is sent from the group in hand, at most once in {@link pictureEveryMs}.
 * 5. A viewer that reports nothing for {@link reportMs} is ended.
 */
import type { Packets } from "../rtp/packetiser.ts"
import { parseReceptionReports } from "../rtp/rtcp.ts"
import type { TrackName } from "../rtsp-server/description.ts"
import type { Feed, Outlet } from "../rtsp-server/feed.ts"
import { parseFeedback } from "./feedback.ts"
import { Lane } from "./lane.ts"
import type { Peer, PeerEnd, PeerEvents } from "./peer.ts"

/** Two pictures of 4 Mbit/s. */
const burstPackets = 32
export const stepMs = 4
/** 134 Mbit/s. */
const stepPackets = 48
const maxBacklogBytes = 8 * 1024 * 1024
/** In 256ths. */
const badLoss = 64
const slowMs = 30_000
const pictureEveryMs = 500
const reportMs = 30_000
/** A millisecond of the video clock. */
const catchUpTicks = 90
/** More than a key picture of 8 Mbit/s and what is under way meanwhile. */
const videoMemory = 2_048
const audioMemory = 256
const maxSkippedGroups = 8

/** What a viewer takes of its stream. */
export interface ViewerTracks {
  readonly video: number
  /** Payload types; null: without sound. */
  readonly audio: number | null
  /** Sequence numbers to begin with, below 2^15. */
  readonly sequences: readonly [number, number]
}

interface Waiting {
  readonly packets: Packets
  readonly timestamp: number
  readonly key: boolean
  /** How many of its packets are sent. */
  at: number
}

/** What the viewer reports of a track. */
interface Reception {
  readonly lost: number
  readonly fraction: number
  readonly jitterMs: number
}

export class Viewer implements Outlet, PeerEvents {
  readonly feed: Feed
  private readonly tracks: ViewerTracks
  private readonly nowMs: () => number
  private readonly onPace: () => void
  private readonly onOver: (reason: PeerEnd) => void
  private peer: Peer | null = null
  private video: Lane | null = null
  private audio: Lane | null = null
  /** Where what is sent now stands: collected for {@link burst}; sent; left out up to a key picture. */
  private mode: "idle" | "collecting" | "live" | "skipping" = "idle"
  private collected: Array<Packets> = []
  private backlog: Array<Waiting> = []
  private backlogBytes = 0
  private lastTimestamp: number | null = null
  private readonly receptions = new Map<TrackName, Reception>()
  private readonly reports: Array<{ readonly ntpMiddle: number; readonly sentMs: number }> = []
  private heardMs = 0
  private pictureMs = Number.NEGATIVE_INFINITY
  private badReports = 0
  private badSinceMs: number | null = null
  /** Since when something has waited without a break for a path that was full. */
  private fullSinceMs: number | null = null
  private skipGroups = 0
  private skipNext = 1
  rttMs: number | null = null
  skippedPictures = 0
  keyRequests = 0

  constructor(feed: Feed, tracks: ViewerTracks, door: {
    readonly nowMs: () => number
    /** Something waits for {@link pace}. */
    readonly onPace: () => void
    readonly onOver: (reason: PeerEnd) => void
  }) {
    this.feed = feed
    this.tracks = tracks
    this.nowMs = door.nowMs
    this.onPace = door.onPace
    this.onOver = door.onOver
  }

  attach(peer: Peer): void {
    this.peer = peer
  }

  readonly onConnected = (): void => {
    const { audio, sequences, video } = this.tracks
    const [videoSsrc, audioSsrc] = [this.feed.ssrc("video"), this.feed.ssrc("audio")]
    if (this.peer === null) return
    // It may have become another stream while the browser connected.
    const same = !this.feed.stale && this.feed.parameters?.video.codec === "h264"
    if (!same || videoSsrc === null) return this.peer.end("over")
    this.heardMs = this.nowMs()
    this.video = new Lane(this.peer, {
      payloadType: video,
      ssrc: videoSsrc,
      sequence: sequences[0],
      memory: videoMemory,
    })
    if (audio !== null && audioSsrc !== null) {
      const sequence = sequences[1]
      this.audio = new Lane(this.peer, { payloadType: audio, ssrc: audioSsrc, sequence, memory: audioMemory })
    }
    this.mode = "collecting"
    this.feed.join(this)
    this.burst()
  }

  /** The group in hand, with times that end at the present (invariant 1). */
  private burst(): void {
    const pictures = this.collected
    this.collected = []
    this.mode = pictures.length === 0 ? "skipping" : "live"
    const present = pictures.at(-1)?.timestamp ?? 0
    const begin = this.lastTimestamp === null ?
      present - (pictures.length - 1) * catchUpTicks :
      // Between what was sent last and what comes next.
      this.lastTimestamp + 1
    const step = this.lastTimestamp === null ? catchUpTicks : 1
    pictures.forEach((packets, index) => this.enqueue(packets, begin + index * step, index === 0))
  }

  send(track: TrackName, packets: Packets, key: boolean): void {
    if (track === "audio") return this.sound(packets)
    if (this.mode === "collecting") {
      this.collected.push(packets)
      return
    }
    if (this.mode === "skipping" && (!key || --this.skipGroups > 0)) {
      // Before the first key picture nothing is left out.
      if (this.lastTimestamp !== null) this.skippedPictures++
      return
    }
    this.mode = "live"
    this.enqueue(packets, packets.timestamp, key)
  }

  private sound(packets: Packets): void {
    if (this.audio === null || this.mode === "collecting") return
    packets.starts.forEach((_start, index) => this.audio!.send(packets, index, packets.timestamp))
  }

  private enqueue(packets: Packets, timestamp: number, key: boolean): void {
    const { lastTimestamp } = this
    // Times rise: what was sent to catch up may have come close to the present.
    const late = lastTimestamp !== null && ((timestamp - lastTimestamp) | 0) <= 0
    const time = (late ? lastTimestamp + 1 : timestamp) >>> 0
    this.lastTimestamp = time
    if (key && this.backlog.length > 0 && this.peer?.full === true) this.leaveOut()
    this.backlog.push({ packets, timestamp: time, key, at: 0 })
    this.backlogBytes += packets.bytes.length
    if (this.backlogBytes > maxBacklogBytes) return this.fallBehind()
    if (this.backlog.length === 1) this.drain(burstPackets)
    if (this.backlog.length > 0) this.onPace()
  }

  /** Sends so many packets of the backlog; whether there are more. */
  private drain(budget: number): boolean {
    let left = budget
    while (this.backlog.length > 0 && left > 0) {
      const [first] = this.backlog
      if (first === undefined || this.video === null || this.peer?.full === true) break
      while (first.at < first.packets.starts.length && left > 0) {
        this.video.send(first.packets, first.at++, first.timestamp)
        left--
      }
      if (first.at === first.packets.starts.length) {
        this.backlog.shift()
        this.backlogBytes -= first.packets.bytes.length
      }
    }
    return this.backlog.length > 0
  }

  /** Every {@link stepMs} while something waits. */
  pace(): boolean {
    const waits = this.drain(stepPackets)
    if (!waits) this.fullSinceMs = null
    else if (this.fullSinceMs === null) this.fullSinceMs = this.peer?.full === true ? this.nowMs() : null
    else if (this.nowMs() - this.fullSinceMs > slowMs) this.peer?.end("slow")
    return this.backlog.length > 0
  }

  /** All that waits; but a picture that is on its way is completed. */
  private leaveOut(): void {
    const begun = this.backlog.filter(({ at }) => at > 0)
    this.skippedPictures += this.backlog.length - begun.length
    this.backlog = begun
    this.backlogBytes = begun.reduce((sum, { packets }) => sum + packets.bytes.length, 0)
  }

  /** Everything up to a key picture is left out. */
  private fallBehind(): void {
    this.leaveOut()
    this.mode = "skipping"
    this.skipGroups = this.skipNext
    this.skipNext = Math.min(this.skipNext * 2, maxSkippedGroups)
  }

  report(track: TrackName, rtcp: Buffer): void {
    const lane = track === "video" ? this.video : this.audio
    if (lane === null || this.peer === null) return
    const own = Buffer.from(rtcp)
    own.writeUInt32BE(lane.packets >>> 0, 20)
    own.writeUInt32BE(lane.bytes % 0x1_0000_0000, 24)
    this.reports.push({ ntpMiddle: own.readUInt32BE(10), sentMs: this.nowMs() })
    if (this.reports.length > 8) this.reports.shift()
    this.peer.sendRtcp(own)
  }

  end(): void {
    this.peer?.end("over")
  }

  readonly onRtp = (): void => {}

  readonly onRtcp = (packet: Buffer): void => {
    const nowMs = this.nowMs()
    this.heardMs = nowMs
    const feedback = parseFeedback(packet)
    if (feedback.goodbye) return this.peer?.end("left")
    for (const { sequence, ssrc } of feedback.lost) this.laneOf(ssrc)?.resend(sequence, nowMs)
    if (feedback.pictures.some((ssrc) => ssrc === this.video?.ssrc)) this.askedForPicture(nowMs)
    for (const block of parseReceptionReports(packet, 0, packet.length)) {
      const name = block.senderSsrc === this.video?.ssrc ?
        "video" :
        block.senderSsrc === this.audio?.ssrc ?
        "audio" :
        null
      if (name === null) continue
      const jitterMs = Math.round(block.jitter * 1000 / this.feed.clockOf(name))
      this.receptions.set(name, { lost: Math.max(0, block.totalLost), fraction: block.fractionLost, jitterMs })
      const sent = this.reports.find(({ ntpMiddle }) => ntpMiddle === block.lastReport)
      if (sent !== undefined) this.rttMs = Math.max(0, Math.round(nowMs - sent.sentMs - block.delay * 1000 / 65_536))
      if (name === "video") this.judge(block.fractionLost, nowMs)
    }
  }

  private laneOf(ssrc: number): Lane | null {
    return ssrc === this.video?.ssrc ? this.video : ssrc === this.audio?.ssrc ? this.audio : null
  }

  /** Invariant 3. */
  private judge(fraction: number, nowMs: number): void {
    if (fraction < badLoss) {
      this.badReports = 0
      this.badSinceMs = null
      this.skipNext = 1
      return
    }
    this.badReports++
    this.badSinceMs ??= nowMs
    if (nowMs - this.badSinceMs > slowMs) this.peer?.end("slow")
    else if (this.badReports >= 2 && this.mode === "live") this.fallBehind()
  }

  private askedForPicture(nowMs: number): void {
    if (nowMs - this.pictureMs < pictureEveryMs) return
    this.pictureMs = nowMs
    this.keyRequests++
    // What waits will be decoded; what is left out comes with the next key picture.
    if (this.mode !== "live" || this.backlog.length > 0) return
    this.mode = "collecting"
    this.feed.again(this)
    this.burst()
  }

  readonly onTick = (nowMs: number): void => {
    this.video?.forget(nowMs)
    this.audio?.forget(nowMs)
    if (nowMs - this.heardMs > reportMs) this.peer?.end("silent")
    else if (this.feed.reordered) this.peer?.end("over")
  }

  readonly onEnd = (reason: PeerEnd): void => {
    this.feed.leave(this)
    this.mode = "idle"
    this.backlog = []
    this.onOver(reason)
  }

  get statistics() {
    const receptions = [...this.receptions.values()]
    const largest = (values: ReadonlyArray<number>) => values.length === 0 ? null : Math.max(...values)
    return {
      sentBytes: (this.video?.bytes ?? 0) + (this.audio?.bytes ?? 0),
      sentPackets: (this.video?.packets ?? 0) + (this.audio?.packets ?? 0),
      resentPackets: (this.video?.again ?? 0) + (this.audio?.again ?? 0),
      skippedPictures: this.skippedPictures,
      keyRequests: this.keyRequests,
      lostPackets: receptions.length === 0 ? null : receptions.reduce((sum, { lost }) => sum + lost, 0),
      jitterMs: largest(receptions.map(({ jitterMs }) => jitterMs)),
      rttMs: this.rttMs,
    }
  }
}
