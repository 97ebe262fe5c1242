/**
 * Connecting to a camera by the protocol of its own, with the address and the credentials that it was added with.
 *
 * Invariants
 * 1. A password is opened for the driver alone.
 */
import type { CameraStore } from "#actors/store/camera.ts"
import type { DeviceDrivers } from "#media/device.ts"
import { cameraSecret } from "#schema/camera-change.ts"
import { CameraAuthFailed, OnvifOperationUnsupported } from "#schema/camera-device.ts"
import { CameraNotFound } from "#schema/camera.ts"
import type { CameraId } from "#schema/common.ts"
import type { Vault } from "#schema/vault.ts"
import { Effect } from "effect"

/** The password as it was sealed for this camera. */
export const openPassword = (vault: Vault["Service"], id: CameraId, sealed: string | null) =>
  sealed === null ?
    Effect.succeed(null) :
    vault.open(cameraSecret(id), sealed).pipe(Effect.catchTag("VaultError", () =>
      Effect.fail(new CameraAuthFailed({ detail: "its password cannot be opened; set it anew" }))))

/** How the camera is to be reached now: its driver, what to connect with, and a key that changes with that. */
export const doorOf = Effect.fnUntraced(function*(
  { drivers, store, vault }: {
    readonly store: CameraStore["Service"]
    readonly vault: Vault["Service"]
    readonly drivers: DeviceDrivers["Service"]
  },
  id: CameraId,
  operation: string,
) {
  const row = yield* store.endpoint(id)
  if (row === null) return yield* new CameraNotFound({ id })
  const { driver: kind, host, port, sealedPassword, username } = row
  const driver = drivers[kind]
  if (driver === null || host === null || port === null) {
    const detail = `cameras that were added as "${kind}" cannot be asked`
    return yield* new OnvifOperationUnsupported({ operation, detail })
  }
  return {
    driver,
    key: [host, port, username, sealedPassword].join("\u0000"),
    /** `requestTimeoutMs`: of one request to the device. */
    options: (requestTimeoutMs: number) =>
      Effect.map(
        openPassword(vault, id, sealedPassword),
        (password) => ({ host, port, username, password, requestTimeoutMs }),
      ),
  }
})

/** Of one request to a device, where nothing else is said. */
export const requestTimeoutMs = 5_000
