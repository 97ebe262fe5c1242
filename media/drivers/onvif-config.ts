/** What an ONVIF device can be set to, put together; see `device-config.ts`. */
import { OnvifOperationUnsupported } from "#schema/camera-device.ts"
import { Effect } from "effect"
import type { DeviceConfig } from "../device-config.ts"
import type { OnvifClient } from "./onvif-client.ts"
import { onvifFocus } from "./onvif-focus.ts"
import { onvifNetwork } from "./onvif-network.ts"
import { onvifOsd } from "./onvif-osd.ts"
import { onvifSource } from "./onvif-source.ts"

export const onvifConfig = (client: OnvifClient, host: string, media2: boolean): DeviceConfig => {
  const sources = onvifSource(client, media2)
  const firstSource = Effect.flatMap(sources.videoSources, ([first]) =>
    first === undefined ?
      Effect.fail(new OnvifOperationUnsupported({ operation: "OSD", detail: "it has no video source" })) :
      Effect.succeed(first.token))
  return {
    ...sources,
    ...onvifOsd(client, media2, firstSource),
    ...onvifFocus(client),
    ...onvifNetwork(client, host),
  }
}
