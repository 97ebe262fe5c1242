/**
 * The door to a camera's loudspeaker: its ONVIF backchannel (Streaming Specification, section 5.3), spoken to in G.711. Its room:
 * `media/backchannel/`.
 *
 * Invariants
 * 1. What is heard is sent as it came, never decoded: the talker speaks the camera's codec.
 * 2. Packets leave in their order, one in 20 ms, whatever the network did to them on their way here; at most half a second waits.
 * 3. Nothing that a talker sends makes it throw or grow.
 */
import type { TalkCodec } from "#schema/camera-talk.ts"
import { Context, type Effect, type Scope } from "effect"
import type { SourceError, SourceOptions } from "./source.ts"

/** A camera that listens. */
export interface Backchannel {
  readonly codec: TalkCodec
  /** `packet[from, to)`: an RTP packet of the talker with that codec at 8 kHz, valid during the call. */
  readonly hear: (packet: Buffer, from: number, to: number) => void
  readonly statistics: () => BackchannelStatistics
  /** When something was heard last, epoch milliseconds; null: nothing yet. */
  readonly heardMs: () => number | null
  /** Fails when the camera is gone. */
  readonly ended: Effect.Effect<never, SourceError>
}

export interface BackchannelStatistics {
  readonly sentPackets: number
  readonly sentBytes: number
  /** Of the talker's packets: those that were too late, too early or none. */
  readonly droppedPackets: number
}

export class Backchannels extends Context.Service<Backchannels, {
  /** Connected until the scope closes. `unsupported`: the camera has none, or none for G.711. */
  readonly open: (options: SourceOptions) => Effect.Effect<Backchannel, SourceError, Scope.Scope>
}>()("nightjar/media/Backchannels") {}
