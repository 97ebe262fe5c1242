/**
 * Cameras that are found at another address than before.
 *
 * Invariants
 * 1. An address is stored only after the camera has answered there, accepted the credentials, and not turned out to be another device:
 *    cameras of one site often share a password, and a wrong address would be recorded under this camera's name.
 */
import type { CameraStore } from "#actors/store/camera.ts"
import type { DeviceDriver } from "#media/device.ts"
import { CameraUnreachable, type DeviceEndpoint, type DeviceError } from "#schema/camera-device.ts"
import { CameraNotFound, type CameraUpdate, type DriverKind, OtherDevice } from "#schema/camera.ts"
import type { CameraId } from "#schema/common.ts"
import { type DependencyUnavailable, InvalidInput } from "#schema/problem.ts"
import type { Vault } from "#schema/vault.ts"
import { Duration, Effect } from "effect"
import { openPassword } from "./camera-connect.ts"
import { informationOf } from "./camera-found.ts"

/** Of one call; some five are made, one after the other. */
const requestTimeoutMs = 5_000
/** Below the time limit of a request. */
const moveLimit = Duration.seconds(20)

interface Parts {
  readonly store: CameraStore["Service"]
  readonly vault: Vault["Service"]
  readonly drivers: Readonly<Record<DriverKind, DeviceDriver | null>>
}

type Failure = CameraNotFound | InvalidInput | OtherDevice | DeviceError | DependencyUnavailable

/** Where the camera is asked from now on, verified; null: where it was. */
export const moving = ({ drivers, store, vault }: Parts) =>
  Effect.fn("Cameras.move")(
    function*(id: CameraId, input: CameraUpdate): Effect.fn.Return<DeviceEndpoint | null, Failure> {
      if (input.host === undefined && input.port === undefined) return null
      const row = yield* store.endpoint(id)
      const camera = yield* store.get(id)
      if (row === null || camera === null) return yield* new CameraNotFound({ id })
      const driver = drivers[row.driver]
      if (driver === null || row.host === null || row.port === null) {
        const member = input.host === undefined ? "port" : "host"
        return yield* InvalidInput.at(`/payload/${member}`, "the addresses of this camera are those of its streams")
      }
      const endpoint = { host: input.host ?? row.host, port: input.port ?? row.port }
      if (endpoint.host === row.host && endpoint.port === row.port) return null
      const username = input.username === undefined ? row.username : input.username
      const password = input.password === undefined ?
        yield* openPassword(vault, id, row.sealedPassword) :
        input.password
      const { information } = yield* driver.connect({ ...endpoint, username, password, requestTimeoutMs })
      const expected = camera.serial
      const found = informationOf(information).serial
      return expected === null || found === null || expected === found ?
        endpoint :
        yield* new OtherDevice({ expected, found })
    },
    Effect.timeoutOrElse({
      duration: moveLimit,
      orElse: () =>
        Effect.fail(new CameraUnreachable({ reason: "timeout", detail: "it took too long at its new address" })),
    }),
  )
