/**
 * Pictures that cameras serve by themselves, fetched by the node that is asked for them: the entity `CameraDevice` only tells where.
 *
 * Invariants
 * 1. However many ask, a camera is asked for a picture once a second at most by each node.
 * 2. At most {@link fetches} pictures are under way and {@link kept} are in memory, of 8 MiB each at most.
 */
import type { CameraStore } from "#actors/store/camera.ts"
import type { DeviceDriver, DevicePicture } from "#media/device.ts"
import type { DeviceError } from "#schema/camera-device.ts"
import type { CameraNotFound, DriverKind } from "#schema/camera.ts"
import type { CameraId } from "#schema/common.ts"
import type { DependencyUnavailable } from "#schema/problem.ts"
import type { Vault } from "#schema/vault.ts"
import { Cache, Duration, Effect, Exit, Semaphore } from "effect"
import { doorOf } from "./camera-connect.ts"

const freshness = Duration.seconds(1)
/** Pictures of ordinary cameras have half a megabyte; sixteen of the largest have 128 MiB. */
const kept = 16
const fetches = 8
/** Of the whole picture: with the question where it is, below the time limit of a request. */
const requestTimeoutMs = 8_000

type Failure = DeviceError | CameraNotFound | DependencyUnavailable

interface Parts {
  readonly store: CameraStore["Service"]
  readonly vault: Vault["Service"]
  readonly drivers: Readonly<Record<DriverKind, DeviceDriver | null>>
  /** Where the camera's picture is, by the camera's entity. */
  readonly uriOf: (id: CameraId, profile: string | null) => Effect.Effect<string, Failure>
}

export const makePictures = Effect.fnUntraced(function*({ drivers, store, uriOf, vault }: Parts) {
  const permits = yield* Semaphore.make(fetches)
  const fetchPicture = Effect.fnUntraced(function*(id: CameraId, profile: string | null) {
    const uri = yield* uriOf(id, profile)
    const { driver, options } = yield* doorOf({ drivers, store, vault }, id, "a snapshot")
    return yield* driver.picture(yield* options(requestTimeoutMs), uri)
  })
  const cache = yield* Cache.makeWith((key: string): Effect.Effect<DevicePicture, Failure> => {
    const [id, profile] = JSON.parse(key) as [CameraId, string | null]
    return Semaphore.withPermit(permits)(fetchPicture(id, profile))
  }, { capacity: kept, timeToLive: (exit) => Exit.isSuccess(exit) ? freshness : Duration.zero })
  return (id: CameraId, profile: string | null) => Cache.get(cache, JSON.stringify([id, profile]))
})
