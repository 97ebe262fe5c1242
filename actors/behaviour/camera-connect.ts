/**
 * Connecting to a camera by the protocol of its own, with the address and the credentials that it was added with.
 *
 * Invariants
 * 1. A password is opened for the driver alone.
 * 2. A camera is not asked for what an administrator says it lacks: this is the one way to a camera's protocol, and it refuses.
 */
import type { CameraStore } from "#actors/store/camera.ts"
import type { DeviceDrivers } from "#media/device.ts"
import { cameraSecret } from "#schema/camera-change.ts"
import { CameraAuthFailed, type Capability, OnvifOperationUnsupported } from "#schema/camera-device.ts"
import { lacking } from "#schema/camera-offer.ts"
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

const media = ["media", "media2"] as const
/** What is asked of cameras, in words for a person, and the capabilities of which it takes one; none: every camera has it. */
const operations = {
  moving: ["ptz"],
  presets: ["ptz"],
  "a home position": ["ptz"],
  tours: ["ptz"],
  imaging: ["imaging"],
  focus: ["imaging"],
  "a snapshot": ["snapshot"],
  "audio sources": ["audio"],
  "audio encoders": ["audio"],
  events: ["events"],
  channels: media,
  profiles: media,
  "video encoders": media,
  "video sources": media,
  OSD: media,
  capabilities: [],
  "date and time": [],
  "network interfaces": [],
  "a restart": [],
  "a factory reset": [],
  /** What moves is stopped, whatever was set meanwhile. */
  "standing still": [],
} as const satisfies Readonly<Record<string, ReadonlyArray<Capability["name"]>>>
export type DeviceOperation = keyof typeof operations

/** How the camera is to be reached now: its driver, what to connect with, and a key that changes with that. */
export const doorOf = Effect.fnUntraced(function*(
  { drivers, store, vault }: {
    readonly store: CameraStore["Service"]
    readonly vault: Vault["Service"]
    readonly drivers: DeviceDrivers["Service"]
  },
  id: CameraId,
  operation: DeviceOperation,
) {
  const row = yield* store.endpoint(id)
  if (row === null) return yield* new CameraNotFound({ id })
  const { driver: kind, host, port, sealedPassword, username } = row
  const driver = drivers[kind]
  if (driver === null || host === null || port === null) {
    const detail = `cameras that were added as "${kind}" cannot be asked`
    return yield* new OnvifOperationUnsupported({ operation, detail })
  }
  const lacks = lacking(row.capabilities, row.channels)
  const [first, ...others] = operations[operation].map((name) => [name, lacks.get(name)] as const)
  if (first?.[1] !== undefined && others.every(([, by]) => by !== undefined)) {
    const detail = `${first[1]} set that it has no "${first[0]}"`
    return yield* new OnvifOperationUnsupported({ operation, detail })
  }
  const without = media.filter((name) => lacks.has(name))
  return {
    driver,
    key: [host, port, username, sealedPassword, ...without].join("\u0000"),
    /** `requestTimeoutMs`: of one request to the device. */
    options: (requestTimeoutMs: number) =>
      Effect.map(
        openPassword(vault, id, sealedPassword),
        (password) => ({ host, port, username, password, requestTimeoutMs, without }),
      ),
  }
})

/** Of one request to a device, where nothing else is said. */
export const requestTimeoutMs = 5_000
