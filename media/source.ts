/**
 * The door to a camera's stream: connect, tell the tracks, deliver access units until it ends. A driver
 * (`media/drivers/*.ts`) implements it; the capture (`media/capture`) decides when to call it again.
 *
 * Invariants
 * 1. Callbacks are plain functions, called in stream order from one thread: nothing on the hot path allocates an effect.
 * 2. `open` ends only by failing or by being interrupted; on either the connection is closed within a second.
 * 3. No error text carries a password or a query parameter's value.
 */
import type { AccessUnit, TrackParameters } from "#schema/media.ts"
import type { Effect, Redacted } from "effect"
import { Context, Schema } from "effect"

/** Where a stream is and how to get it. */
export interface SourceOptions {
  /** `rtsp://host[:port]/path?query`, without credentials. */
  readonly url: string
  readonly username: string | null
  readonly password: Redacted.Redacted | null
  readonly transport: "tcp" | "udp"
  /** Longest wait for a connection or an answer, in milliseconds. */
  readonly requestTimeoutMs: number
  /**
   * Longest time a read may rest in the socket, in milliseconds: 0 reads at once, 20 to 60 saves CPU while nobody watches live.
   */
  readonly drainEveryMs: number
}

export interface SourceListener {
  /** Before the first unit, and again before the first unit that needs other parameters. */
  readonly onParameters: (parameters: TrackParameters) => void
  readonly onUnit: (unit: AccessUnit) => void
  /** Packets that never arrived; the access unit they belonged to is not delivered. */
  readonly onLoss: (packets: number) => void
}

/** Why a stream ended or never began. */
export class SourceError extends Schema.TaggedError<SourceError>()("SourceError", {
  reason: Schema.Literals([
    "unreachable", // name, route, refused, time-out while connecting
    "closed", // the camera ended a running connection
    "timeout", // no answer in time
    "unauthorized", // credentials refused
    "notFound", // no such path
    "refused", // another RTSP status (sessions exhausted, not supported, …)
    "protocol", // what came is not RTSP, SDP or RTP
    "unsupported", // no track in a codec we record
    "publisherAway", // it comes by itself, and is not here
  ]),
  /** `host:port`. */
  host: Schema.String,
  /** Path without query. */
  path: Schema.String,
  /** RTP and RTCP packets received on this connection before the error. */
  packet: Schema.Int,
  /** Bytes received on this connection before the error. */
  byte: Schema.Int,
  detail: Schema.String,
}) {
  override get message(): string {
    return `${this.reason}: ${this.detail} (${this.host}${this.path}, packet ${this.packet}, byte ${this.byte})`
  }
}

/** What is known of sources that are not called but come by themselves. */
export interface Coming {
  readonly isHere: (options: SourceOptions) => boolean
  /** Suspends until it is here. */
  readonly arrival: (options: SourceOptions) => Effect.Effect<void>
  /** One line for a person while it is away. */
  readonly awayText: string
}

/** One camera family. */
export interface SourceDriver {
  /** Left out: the source is called whenever it is wanted. */
  readonly comes?: Coming
  readonly open: (options: SourceOptions, listener: SourceListener) => Effect.Effect<never, SourceError>
}

/** Families whose streams are called, for whoever opens one beside the captures. */
export class SourceDrivers
  extends Context.Service<SourceDrivers, { readonly rtsp: SourceDriver }>()("nightjar/media/SourceDrivers")
{}
