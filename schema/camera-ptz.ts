/**
 * How a camera can move, the tours it keeps, and who holds it.
 *
 * Invariants
 * 1. Ranges are on the device's own scale of the space that stands first in its list; null: it has no such axis, or does not tell.
 */
import { Schema } from "effect"
import { DeviceToken, PtzPosition, PtzStatus, Range } from "./camera-device.ts"
import { Instant, UserId } from "./common.ts"

const Axes = Schema.Struct({
  pan: Schema.NullOr(Range),
  tilt: Schema.NullOr(Range),
  zoom: Schema.NullOr(Range),
})
export type PtzAxes = typeof Axes.Type

export const TourOperation = Schema.Literals(["start", "stop", "pause"])
export type TourOperation = typeof TourOperation.Type

/** What moves (`tt:PTZNode`). */
export const PtzNode = Schema.Struct({
  token: Schema.String,
  name: Schema.String,
  /** Positions it can be sent to. */
  absolute: Axes,
  /** Ways it can be sent from where it stands. */
  relative: Axes,
  /** Speeds. */
  continuous: Axes,
  maxPresets: Schema.NullOr(Schema.Int),
  homeSupported: Schema.Boolean,
  /** Its home cannot be set; null: it does not tell. */
  homeFixed: Schema.NullOr(Schema.Boolean),
  /** Null: it keeps no tours, or does not tell. */
  tours: Schema.NullOr(Schema.Struct({
    max: Schema.Int,
    operations: Schema.Array(TourOperation),
  })),
  auxiliaryCommands: Schema.Array(Schema.String),
}).annotate({ identifier: "PtzNode" })
export type PtzNode = typeof PtzNode.Type

/** How a node is used (`tt:PTZConfiguration`). */
export const PtzConfiguration = Schema.Struct({
  token: Schema.String,
  name: Schema.String,
  useCount: Schema.Int,
  nodeToken: Schema.String,
  /** Where a move tells no speed. */
  defaultSpeed: Schema.NullOr(PtzPosition),
  /** Where a continuous move tells no end. */
  defaultTimeoutMs: Schema.NullOr(Schema.Int),
  /** Positions it is kept within. */
  limits: Axes,
}).annotate({ identifier: "PtzConfiguration" })
export type PtzConfiguration = typeof PtzConfiguration.Type

/** Spots of a tour, seconds at one: what cameras of all makers take. */
export const tourLimits = { spots: 64, staySeconds: 3_600 } as const
const StaySeconds = Schema.Finite.check(Schema.isBetween({ minimum: 1, maximum: tourLimits.staySeconds }))

/** Where a tour stops. */
const TourSpot = Schema.Struct({
  /** Null: the home position, or a position without a preset. */
  presetToken: Schema.NullOr(Schema.String),
  home: Schema.Boolean,
  /** Null: the device does not tell. */
  staySeconds: Schema.NullOr(Schema.Finite),
})

/** A tour that the camera keeps and runs by itself (`tt:PresetTour`). */
export const PresetTour = Schema.Struct({
  token: Schema.String,
  name: Schema.String,
  state: Schema.Literals(["idle", "touring", "paused", "unknown"]),
  /** Begins when the camera starts. */
  autoStart: Schema.Boolean,
  spots: Schema.Array(TourSpot),
}).annotate({ identifier: "PresetTour" })
export type PresetTour = typeof PresetTour.Type

export const NewPresetTour = Schema.Struct({
  name: Schema.String.check(Schema.isTrimmed(), Schema.isMinLength(1), Schema.isMaxLength(64)),
  autoStart: Schema.Boolean,
  spots: Schema.Array(Schema.Struct({ presetToken: DeviceToken, staySeconds: StaySeconds })).check(
    Schema.isMinLength(1),
    Schema.isMaxLength(tourLimits.spots),
  ),
})
export type NewPresetTour = typeof NewPresetTour.Type

/** What is to be forgotten besides the limits. */
export const PtzReset = Schema.Struct({ presets: Schema.Boolean, tours: Schema.Boolean })
export type PtzReset = typeof PtzReset.Type

/** What a reset did. */
export const PtzResetDone = Schema.Struct({
  configuration: PtzConfiguration,
  removedPresets: Schema.Int,
  removedTours: Schema.Int,
}).annotate({ identifier: "PtzResetDone" })
export type PtzResetDone = typeof PtzResetDone.Type

/** Who moves a camera. */
export const PtzUser = Schema.Struct({
  userId: UserId,
  username: Schema.String,
  /** His login session: when it ends, so does what he set in motion. */
  sessionId: Schema.String,
  priority: Schema.Int,
})
export type PtzUser = typeof PtzUser.Type

/** Who holds a camera, and until when if he does nothing more. */
export interface PtzHolder extends PtzUser {
  readonly until: number
}

/** Where the camera stands, and who holds it; `holder` null: it is free. */
export const HeldPtzStatus = Schema.Struct({
  ...PtzStatus.fields,
  holder: Schema.NullOr(Schema.Struct({ username: Schema.String, priority: Schema.Int, until: Instant })),
}).annotate({ identifier: "HeldPtzStatus" })
export type HeldPtzStatus = typeof HeldPtzStatus.Type

/** Somebody else moves the camera, and has the same priority or a higher one. */
export class PtzHeld extends Schema.TaggedError<PtzHeld>()("PtzHeld", {
  username: Schema.String,
  priority: Schema.Int,
  until: Instant,
}, { httpApiStatus: 409 }) {
  override get message(): string {
    return `${this.username} moves the camera, with priority ${this.priority}, until ${
      new Date(this.until).toISOString()
    }`
  }
}
