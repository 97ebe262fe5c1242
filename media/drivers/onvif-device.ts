/**
 * A device's clock, its restart, and the picture of its sources (ONVIF Device Management and Imaging).
 *
 * Invariants
 * 1. Imaging is not told anything that its options forbid; what a change leaves out is not mentioned to the device.
 * 2. Once the clock was set it is read again, so that what follows is signed by it.
 */
import {
  type DeviceClock,
  type DeviceClockChange,
  type DeviceError,
  type ImagingChange,
  imagingLevels,
  type ImagingOptions,
  type ImagingSettings,
} from "#schema/camera-device.ts"
import { InvalidInput } from "#schema/problem.ts"
import { Clock, Effect, Schema } from "effect"
import type { OnvifClient } from "./onvif-client.ts"
import { escaped } from "./onvif-message.ts"
import { clockShape, imagingOptionsShape, imagingShape, present, toClock, toClockMs } from "./onvif-shape.ts"

/** Below this the device's clock counts as ours: its answer has whole seconds, and takes its time. */
const toleranceMs = 2_000

/** GetSystemDateAndTime needs no user by the specification; where a device asks for one, ours is tried with our own clock. */
export const readClock = Effect.fnUntraced(
  function*(
    client: OnvifClient,
  ): Effect.fn.Return<{ readonly clock: DeviceClock; readonly offsetMs: number }, DeviceError> {
    const call = { service: "device", operation: "GetSystemDateAndTime", reply: clockShape } as const
    const told = yield* Effect.catchTag(client.call({ ...call, unsigned: true }), "CameraAuthFailed", () =>
      client.call(call))
    const deviceMs = toClockMs(told)
    const difference = deviceMs === null ? 0 : deviceMs - (yield* Clock.currentTimeMillis)
    const offsetMs = Math.abs(difference) < toleranceMs ? 0 : difference
    return { clock: toClock(told, offsetMs), offsetMs }
  },
)

const setClock = (client: OnvifClient) =>
  Effect.fnUntraced(function*(change: DeviceClockChange) {
    const at = new Date(change.utc ?? (yield* Clock.currentTimeMillis))
    const zone = change.timeZone === undefined ?
      "" :
      `<TimeZone><tt:TZ>${escaped(change.timeZone)}</tt:TZ></TimeZone>`
    const time = change.mode === "ntp" ?
      "" :
      `<UTCDateTime><tt:Time><tt:Hour>${at.getUTCHours()}</tt:Hour><tt:Minute>${at.getUTCMinutes()}</tt:Minute>` +
      `<tt:Second>${at.getUTCSeconds()}</tt:Second></tt:Time><tt:Date><tt:Year>${at.getUTCFullYear()}</tt:Year>` +
      `<tt:Month>${at.getUTCMonth() + 1}</tt:Month><tt:Day>${at.getUTCDate()}</tt:Day></tt:Date></UTCDateTime>`
    yield* client.call({
      service: "device",
      operation: "SetSystemDateAndTime",
      body: `<DateTimeType>${change.mode === "ntp" ? "NTP" : "Manual"}</DateTimeType>` +
        `<DaylightSavings>${change.daylightSavings ?? false}</DaylightSavings>${zone}${time}`,
      reply: Schema.Unknown,
    })
    const { clock, offsetMs } = yield* readClock(client)
    client.setClockOffset(offsetMs)
    return clock
  })

const sourceOf = (token: string) => `<VideoSourceToken>${escaped(token)}</VideoSourceToken>`

const imagingOf = (client: OnvifClient) => {
  const settings = (token: string): Effect.Effect<ImagingSettings, DeviceError> =>
    Effect.map(
      client.call({ service: "imaging", operation: "GetImagingSettings", body: sourceOf(token), reply: imagingShape }),
      ({ imagingSettings: told }) => ({
        brightness: told.brightness ?? null,
        colorSaturation: told.colorSaturation ?? null,
        contrast: told.contrast ?? null,
        sharpness: told.sharpness ?? null,
        irCutFilter: told.irCutFilter ?? null,
      }),
    )
  const options = (token: string): Effect.Effect<ImagingOptions, DeviceError> =>
    Effect.map(
      client.call({ service: "imaging", operation: "GetOptions", body: sourceOf(token), reply: imagingOptionsShape }),
      ({ imagingOptions: told }) => ({
        brightness: present(told.brightness),
        colorSaturation: present(told.colorSaturation),
        contrast: present(told.contrast),
        sharpness: present(told.sharpness),
        irCutFilters: told.irCutFilterModes ?? [],
      }),
    )
  const set = Effect.fnUntraced(function*(token: string, change: ImagingChange) {
    const allowed = yield* options(token)
    for (const level of imagingLevels) {
      const value = change[level]
      const range = allowed[level]
      if (value === undefined) continue
      if (range === null) return yield* InvalidInput.at(`/payload/${level}`, "the camera does not offer it")
      if (value < range.min || value > range.max) {
        return yield* InvalidInput.at(`/payload/${level}`, `the camera allows from ${range.min} to ${range.max}`)
      }
    }
    const { brightness, colorSaturation, contrast, irCutFilter, sharpness } = change
    if (irCutFilter !== undefined && !allowed.irCutFilters.includes(irCutFilter)) {
      return yield* InvalidInput.at(
        "/payload/irCutFilter",
        `the camera allows ${allowed.irCutFilters.join(", ") || "none"}`,
      )
    }
    // In the order of the schema, which devices insist on.
    const members = [
      ["Brightness", brightness],
      ["ColorSaturation", colorSaturation],
      ["Contrast", contrast],
      ["IrCutFilter", irCutFilter?.toUpperCase()],
      ["Sharpness", sharpness],
    ] as const
    const told = members.map(([name, value]) => value === undefined ? "" : `<tt:${name}>${value}</tt:${name}>`).join("")
    yield* client.call({
      service: "imaging",
      operation: "SetImagingSettings",
      body: `${sourceOf(token)}<ImagingSettings>${told}</ImagingSettings><ForcePersistence>true</ForcePersistence>`,
      reply: Schema.Unknown,
    })
    return yield* settings(token)
  })
  return { imaging: settings, imagingOptions: options, setImaging: set }
}

export const onvifDevice = (client: OnvifClient) => ({
  clock: Effect.map(readClock(client), ({ clock }) => clock),
  setClock: setClock(client),
  /** SystemReboot; the device's own words about it. */
  reboot: Effect.map(
    client.call({
      service: "device",
      operation: "SystemReboot",
      reply: Schema.Union([Schema.Struct({ message: Schema.optionalKey(Schema.String) }), Schema.Literal("")]),
    }),
    (told) => ({ message: told === "" ? "" : (told.message ?? "").slice(0, 200) }),
  ),
  ...imagingOf(client),
})
