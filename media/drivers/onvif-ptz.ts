/**
 * Moving an ONVIF camera (PTZ Service Specification).
 *
 * Invariants
 * 1. A continuous move carries its end with it (`Timeout`), so that a camera whose operator vanished stops by itself.
 * 2. Presets keep the device's order, and two of one name stay two.
 */
import {
  type DeviceError,
  type MediaProfile,
  OnvifOperationUnsupported,
  type PtzPreset,
  type PtzVector,
} from "#schema/camera-device.ts"
import { Effect, Schema } from "effect"
import type { DevicePtz } from "../device.ts"
import type { OnvifClient } from "./onvif-client.ts"
import { escaped } from "./onvif-message.ts"
import { many, presetShape, statusShape, toPosition } from "./onvif-shape.ts"

const vector = (name: string, { pan, tilt, zoom }: PtzVector): string => {
  const panTilt = pan === undefined && tilt === undefined ? "" : `<tt:PanTilt x="${pan ?? 0}" y="${tilt ?? 0}"/>`
  return `<${name}>${panTilt}${zoom === undefined ? "" : `<tt:Zoom x="${zoom}"/>`}</${name}>`
}

const toPreset = (shape: typeof presetShape.Type): PtzPreset => ({
  token: shape.$token,
  name: shape.name ?? "",
  position: shape.PTZPosition === undefined || shape.PTZPosition === "" ? null : toPosition(shape.PTZPosition),
})

const presetsShape = Schema.Union([
  Schema.Struct({ preset: Schema.optionalKey(many(presetShape)) }),
  Schema.Literal(""),
])
const madeShape = Schema.Struct({ presetToken: Schema.String })

type Profiles = Effect.Effect<ReadonlyArray<MediaProfile>, DeviceError>

/** The profile's token; the first profile that can move, where none is named. */
export const namedProfile = (profiles: Profiles) => (operation: string, profile: string | null) =>
  profile === null ?
    Effect.flatMap(profiles, (all) => {
      const able = all.find((one) => one.ptzToken !== null)
      return able === undefined ?
        Effect.fail(new OnvifOperationUnsupported({ operation, detail: "no profile of it can move" })) :
        Effect.succeed(able.token)
    }) :
    Effect.succeed(profile)

export const onvifPtz = (client: OnvifClient, profiles: Profiles): DevicePtz => {
  const named = namedProfile(profiles)
  const call = <S extends Schema.Codec<unknown, unknown>>(
    operation: string,
    profile: string | null,
    body: string,
    reply: S,
  ): Effect.Effect<S["Type"], DeviceError> =>
    Effect.flatMap(named(operation, profile), (token) =>
      client.call({
        service: "ptz",
        operation,
        body: `<ProfileToken>${escaped(token)}</ProfileToken>${body}`,
        reply,
      }))
  const tell = (operation: string, profile: string | null, body: string) =>
    Effect.asVoid(call(operation, profile, body, Schema.Unknown))
  const preset = (token: string) => `<PresetToken>${escaped(token)}</PresetToken>`
  const speeding = (speed: PtzVector | null) => speed === null ? "" : vector("Speed", speed)
  return {
    moveContinuous: (profile, speed, timeoutMs) =>
      tell("ContinuousMove", profile, `${vector("Velocity", speed)}<Timeout>PT${timeoutMs / 1000}S</Timeout>`),
    moveAbsolute: (profile, position, speed) =>
      tell("AbsoluteMove", profile, vector("Position", position) + speeding(speed)),
    moveRelative: (profile, by, speed) => tell("RelativeMove", profile, vector("Translation", by) + speeding(speed)),
    stop: (profile) => tell("Stop", profile, "<PanTilt>true</PanTilt><Zoom>true</Zoom>"),
    status: (profile) =>
      Effect.map(call("GetStatus", profile, "", statusShape), ({ PTZStatus: { error, moveStatus, position } }) => {
        const words = moveStatus === undefined || moveStatus === "" ? [] : [moveStatus.panTilt, moveStatus.zoom]
        const told = words.filter((word) => word === "MOVING" || word === "IDLE")
        return {
          ...toPosition(position === undefined || position === "" ? {} : position),
          moving: told.length === 0 ? null : told.includes("MOVING"),
          error: error === undefined || /^no error$/i.test(error.trim()) ? "" : error.slice(0, 200),
        }
      }),
    presets: (profile) =>
      Effect.map(
        call("GetPresets", profile, "", presetsShape),
        (found) => found === "" ? [] : (found.preset ?? []).map(toPreset),
      ),
    setPreset: (profile, name, token) =>
      Effect.map(
        call(
          "SetPreset",
          profile,
          `<PresetName>${escaped(name)}</PresetName>${token === null ? "" : preset(token)}`,
          madeShape,
        ),
        ({ presetToken }) => presetToken,
      ),
    removePreset: (profile, token) => tell("RemovePreset", profile, preset(token)),
    gotoPreset: (profile, token) => tell("GotoPreset", profile, preset(token)),
    setHome: (profile) => tell("SetHomePosition", profile, ""),
    gotoHome: (profile) => tell("GotoHomePosition", profile, ""),
  }
}
