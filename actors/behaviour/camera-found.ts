/**
 * Cameras that are added by their address alone: the driver of their family finds channels and streams.
 *
 * Invariants
 * 1. A camera is added only after it has accepted the credentials and told at least one stream that can be recorded.
 * 2. Finding ends within {@link findLimit}, whatever the device does.
 */
import { DeviceDrivers } from "#media/device.ts"
import type { CameraInformation } from "#schema/camera-change.ts"
import {
  CameraUnreachable,
  type DeviceEndpoint,
  type DeviceError,
  type DeviceInformation,
  type FoundChannel,
  OnvifOperationUnsupported,
} from "#schema/camera-device.ts"
import { type CameraCreate, type ChannelCreate, DriverUnsupported, maxChannels } from "#schema/camera.ts"
import { InvalidInput } from "#schema/problem.ts"
import { Duration, Effect } from "effect"

/** Below the time limit of a request: some ten calls, and two more for each channel. */
const findLimit = Duration.seconds(25)
/** Of one call: a device on the same network answers within a second unless it is out of order. */
const requestTimeoutMs = 5_000
/** ONVIF Core Specification: devices answer over HTTP, and where no port is told that is port 80. */
const defaultPort = 80

export interface Found {
  readonly endpoint: DeviceEndpoint
  readonly channels: ReadonlyArray<ChannelCreate>
  readonly information: CameraInformation
}

/** Longest text that is kept of what a device tells of itself. */
const longestTold = 120
const told = (text: string): string | null => text.trim().slice(0, longestTold) || null

/** What is kept of what a device tells of itself. */
export const informationOf = (device: DeviceInformation): CameraInformation => ({
  manufacturer: told(device.manufacturer),
  model: told(device.model),
  firmware: told(device.firmwareVersion),
  serial: told(device.serialNumber),
})

const toChannel = ({ name, streams }: FoundChannel): ChannelCreate => ({
  ...(name === null ? {} : { name }),
  streams: streams.map(({ role, sourceUrl }) => ({ role, sourceUrl })),
})

/** Connects as the user that is given. */
const connectTo = Effect.fnUntraced(function*(input: CameraCreate, endpoint: DeviceEndpoint) {
  const driver = (yield* DeviceDrivers)[input.driver]
  if (driver === null) return yield* new DriverUnsupported({ driver: input.driver })
  const { password = null, username = null } = input
  return yield* driver.connect({ ...endpoint, username, password, requestTimeoutMs })
})

/** What the camera at `host` is made of. */
export const findCamera = Effect.fn("Cameras.find")(
  function*(input: CameraCreate): Effect.fn.Return<
    Found,
    DeviceError | DriverUnsupported | InvalidInput,
    DeviceDrivers
  > {
    if (input.streams !== undefined || input.channels !== undefined) {
      const member = input.streams === undefined ? "channels" : "streams"
      return yield* InvalidInput.at(`/payload/${member}`, "the camera is asked for its streams; leave them out")
    }
    if (input.host === undefined) return yield* InvalidInput.at("/payload/host", "the camera's address is needed")
    const endpoint = { host: input.host, port: input.port ?? defaultPort }
    const device = yield* connectTo(input, endpoint)
    const found = yield* device.channels
    if (found.length === 0) {
      const detail = "none of its profiles is in H.264 or H.265"
      return yield* new OnvifOperationUnsupported({ operation: "streams that can be recorded", detail })
    }
    return {
      endpoint,
      information: informationOf(device.information),
      channels: found.slice(0, maxChannels).map(toChannel),
    }
  },
  Effect.timeoutOrElse({
    duration: findLimit,
    orElse: () =>
      Effect.fail(new CameraUnreachable({ reason: "timeout", detail: "it took too long to tell its streams" })),
  }),
)
