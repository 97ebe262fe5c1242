/**
 * Every camera family by its name. A new literal in `Assignment.driver` or `DriverKind` does not compile until it stands here.
 */
import type { DriverKind } from "#schema/camera.ts"
import type { DeviceDriver } from "../device.ts"
import type { Publishers } from "../publish.ts"
import type { Assignment } from "../recorder.ts"
import type { SourceDriver } from "../source.ts"
import { mobileDriver } from "./mobile.ts"
import { onvifDriver } from "./onvif.ts"
import { rtspDriver } from "./rtsp.ts"

/** How streams are fetched. Those of ONVIF cameras are RTSP (ONVIF Streaming Specification). */
export const drivers = { rtsp: rtspDriver }

/** With those that come by themselves. */
export const sourceDrivers = (publishers: Publishers["Service"]) =>
  ({ ...drivers, mobile: mobileDriver(publishers) }) satisfies Record<Assignment["driver"], SourceDriver>

/** Families that can be asked about themselves; null: they have no protocol for it. */
export const deviceDrivers = {
  rtsp: null,
  onvif: onvifDriver,
  mobile: null,
} satisfies Record<DriverKind, DeviceDriver | null>
