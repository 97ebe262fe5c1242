/**
 * One reader of a live stream, and what happens when it is too slow.
 *
 * Invariants
 * 1. It begins with a key picture. Once more than {@link skipBytes} wait in its connection it loses everything up to a key picture that
 *    finds at most {@link resumeBytes} waiting.
 * 2. What waits and what it lost since it fell behind are {@link closeBytes} at most; then it is closed. The group of pictures it
 *    begins with is not counted until it was read.
 */
import { Effect } from "effect"
import type { Packets } from "../rtp/packetiser.ts"
import type { RequestHead } from "../rtsp/message.ts"
import type { Answer, Refusal } from "./answer.ts"
import { type TrackName, trackNames } from "./description.ts"
import type { Feed, Outlet } from "./feed.ts"
import { Lanes, type Player, type Wires } from "./lanes.ts"

const skipBytes = 1024 * 1024
const resumeBytes = 256 * 1024
export const closeBytes = 4 * 1024 * 1024

export class Reader extends Lanes implements Outlet, Player {
  readonly feed: Feed
  private readonly onEnd: () => void
  playing = false
  /** What is sent: everything; nothing yet; nothing any more until it has caught up. */
  private pace: "all" | "starting" | "late" = "starting"
  private lost = 0
  private allowance = 0

  constructor(feed: Feed, wires: Wires, onEnd: () => void) {
    super(wires)
    this.feed = feed
    this.onEnd = onEnd
  }

  ssrc(track: TrackName): number | null {
    return this.feed.ssrc(track)
  }

  clockOf(track: TrackName): number {
    return this.feed.clockOf(track)
  }

  play(_head: RequestHead, base: string): Effect.Effect<Answer, Refusal> {
    return Effect.sync(() => {
      const info = this.rtpInfo(base)
      return {
        status: 200,
        headers: [["Range", "npt=now-"], ...(info === "" ? [] : [["RTP-Info", info] as const])],
        after: () => this.begin(),
      }
    })
  }

  /** Of the packets that follow at once; a track of which none are known yet is left out (section 12.33). */
  private rtpInfo(base: string): string {
    return trackNames.flatMap((name, index) => {
      const first = this.playing || !this.destinations.has(name) ? null : this.feed.first(name)
      return first === null ? [] : [`url=${base}trackID=${index};seq=${first.sequence};rtptime=${first.timestamp}`]
    }).join(",")
  }

  private begin(): void {
    if (this.playing) return
    this.playing = true
    this.pace = "starting"
    this.allowance = Number.POSITIVE_INFINITY
    this.feed.join(this)
    this.allowance = this.socket.writableLength
  }

  readonly pause: Effect.Effect<void> = Effect.sync(() => this.leave())

  private leave(): void {
    this.playing = false
    this.feed.leave(this)
  }

  send(track: TrackName, packets: Packets, key: boolean): void {
    const destination = this.destinations.get(track)
    if (destination === undefined || !this.keepsUp(track, packets, key || !this.destinations.has("video"))) return
    this.dispatch(track, destination, packets)
  }

  /** Whether the unit is sent. `begins`: it needs no other. */
  private keepsUp(track: TrackName, packets: Packets, begins: boolean): boolean {
    const waiting = this.socket.writableLength
    if (waiting === 0) this.allowance = 0
    if (this.pace !== "all" && begins && waiting <= resumeBytes + this.allowance) {
      this.pace = "all"
      this.lost = 0
    } else if (this.pace === "all" && waiting > skipBytes + this.allowance) this.pace = "late"
    if (this.pace === "all") return true
    if (this.pace === "late") {
      this.lost += packets.bytes.length
      if (track === "video") this.skippedPictures++
      if (waiting + this.lost > closeBytes + this.allowance) this.socket.destroy()
    }
    return false
  }

  report(track: TrackName, rtcp: Buffer): void {
    const destination = this.destinations.get(track)
    if (destination === undefined || (destination.kind === "tcp" && this.pace === "late")) return
    this.dispatchReport(destination, rtcp)
  }

  /** Says goodbye on its tracks; the connection is then closed. */
  end(): void {
    if (this.playing) {
      this.leave()
      for (const track of this.destinations.keys()) {
        const rtcp = this.feed.goodbye(track)
        if (rtcp !== null) this.report(track, rtcp)
      }
    }
    this.onEnd()
  }
}
