/**
 * What a person sees of a stream, and when it changed.
 *
 * Invariants
 * 1. A change is published once; counters alone are no change.
 * 2. Lost packets degrade a stream that is online for `degradedMs`, and nothing else: another trouble says more.
 */
import type { StreamHealth, StreamStatus } from "#media/recorder.ts"
import type { TrackParameters } from "#schema/media.ts"
import { sameParameters } from "./intake.ts"
import type { Recorder } from "./recorder.ts"

export class StatusBoard {
  health: StreamHealth = "registered"
  reason = ""
  parameters: TrackParameters | null = null
  frames = 0
  lostPackets = 0
  bytes = 0
  reconnects = 0
  lastUnitMs: number | null = null
  clockOffsetMs: number | null = null
  private lossUntil = 0
  private recentLoss = 0
  private degradedByLoss = false
  private told = ""
  private toldParameters: TrackParameters | null = null
  private readonly streamId: StreamStatus["streamId"]
  private readonly publish: (status: StreamStatus) => void
  private readonly recorder: () => Recorder | null

  constructor(
    streamId: StreamStatus["streamId"],
    publish: (status: StreamStatus) => void,
    recorder: () => Recorder | null,
  ) {
    this.streamId = streamId
    this.publish = publish
    this.recorder = recorder
  }

  status(): StreamStatus {
    const recorder = this.recorder()
    const { bytes, clockOffsetMs, frames, health, lastUnitMs, lostPackets, parameters, reconnects, streamId } = this
    const reason = this.reason === "" ? recorder?.trouble() ?? "" : this.reason
    const recordingState = recorder?.state() ?? "disabled"
    return {
      streamId,
      health,
      reason,
      parameters,
      recordingState,
      frames,
      lostPackets,
      bytes,
      reconnects,
      lastUnitMs,
      clockOffsetMs,
    }
  }

  set(health: StreamHealth, reason: string): void {
    this.degradedByLoss = false
    this.health = health
    this.reason = reason
    this.tell()
  }

  lost(packets: number, untilMs: number): void {
    this.lostPackets += packets
    this.recentLoss += packets
    this.lossUntil = untilMs
  }

  /** Once a second. */
  tick(nowMs: number): void {
    const lossy = nowMs < this.lossUntil
    if (!lossy) this.recentLoss = 0
    if (lossy && this.health === "online") {
      this.set("degraded", `${this.recentLoss} packets lost in the last seconds`)
      this.degradedByLoss = true
    } else if (!lossy && this.degradedByLoss) this.set("online", "")
    this.tell()
  }

  /** Nobody who listens now has heard of it: all of it is news. */
  untold(): void {
    this.told = ""
  }

  /** Publishes, if there is news. */
  tell(): void {
    const status = this.status()
    const told = `${status.health} ${status.recordingState} ${status.reason}`
    const parameters = status.parameters
    const seen = parameters === this.toldParameters ||
      (parameters !== null && this.toldParameters !== null && sameParameters(parameters, this.toldParameters))
    if (told === this.told && seen) return
    this.told = told
    this.toldParameters = parameters
    this.publish(status)
  }
}
