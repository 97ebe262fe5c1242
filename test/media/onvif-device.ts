/** The simulated ONVIF device as the driver's tests use it. */
import type { DeviceOptions } from "#media/device.ts"
import { onvifDriver } from "#media/drivers/onvif.ts"
import type { DeviceError } from "#schema/camera-device.ts"
import type { InvalidInput } from "#schema/problem.ts"
import { Effect, Redacted } from "effect"
import { type SimulatedDevice, startDevice } from "../onvif-simulator/device.ts"
import type { DeviceOptions as SimulatedOptions, Quirks } from "../onvif-simulator/options.ts"

/** A simulated device, closed with the test. */
export const simulated = (quirks: Partial<Quirks> = {}, more: Partial<SimulatedOptions> = {}) =>
  Effect.acquireRelease(
    Effect.promise(() => startDevice({ quirks, ...more })),
    (device) => Effect.promise(() => device.close()),
  )
export const optionsOf = ({ host, port }: SimulatedDevice, more: Partial<DeviceOptions> = {}) => ({
  host,
  port,
  username: "admin",
  password: Redacted.make("swordfish"),
  requestTimeoutMs: 5_000,
  ...more,
})
export const configOf = (device: SimulatedDevice) =>
  Effect.map(onvifDriver.connect(optionsOf(device)), ({ config }) => config)

export type Failing = Effect.Effect<unknown, DeviceError | InvalidInput>
/** What an operation that fails says: the message of bad input, else the error's tag. */
export const fault = (asked: Failing) =>
  Effect.map(Effect.flip(asked), (error) => error._tag === "InvalidInput" ? error.message : error._tag)
