/**
 * Cameras that speak ONVIF: connecting to one.
 *
 * Invariants
 * 1. What is connected has accepted the credentials: GetDeviceInformation was answered (other operations answer anybody on some
 *    devices).
 * 2. The device's clock is read before anything is signed, and allowed for: a skewed clock refuses no credentials.
 * 3. Of the addresses that the device names only the paths are used.
 */
import type { Capability, DeviceError } from "#schema/camera-device.ts"
import { Effect } from "effect"
import type { Device, DeviceDriver, DeviceOptions } from "../device.ts"
import { makeClient, type OnvifClient } from "./onvif-client.ts"
import { onvifConfig } from "./onvif-config.ts"
import { onvifDevice, readClock } from "./onvif-device.ts"
import { onvifEvents } from "./onvif-event.ts"
import { onvifMedia } from "./onvif-media.ts"
import { type ServiceName, serviceOf } from "./onvif-message.ts"
import { fetchPicture } from "./onvif-picture.ts"
import { onvifPtz } from "./onvif-ptz.ts"
import { capabilitiesShape, informationShape, servicesShape } from "./onvif-shape.ts"
import { onvifTours } from "./onvif-tour.ts"

const pathOf = (address: string): string | null => {
  if (!URL.canParse(address.trim())) return null
  const url = new URL(address.trim())
  return url.protocol === "http:" || url.protocol === "https:" ? url.pathname + url.search : null
}

interface Named {
  readonly by: "GetServices" | "GetCapabilities"
  readonly services: ReadonlySet<string>
}

/** Where the services are: GetServices, or GetCapabilities on devices from before it. */
const findServices = Effect.fnUntraced(function*(client: OnvifClient, without: ReadonlyArray<ServiceName>) {
  const found = new Set<string>()
  const use = (service: ServiceName, address: string) => {
    const path = pathOf(address)
    if (path === null || without.includes(service)) return
    client.setPath(service, path)
    found.add(service)
  }
  const listed = yield* client.call({
    service: "device",
    operation: "GetServices",
    body: "<IncludeCapability>false</IncludeCapability>",
    reply: servicesShape,
  }).pipe(
    Effect.map(({ service }) => service),
    Effect.catchTag(["OnvifOperationUnsupported", "CameraRefused"], () => Effect.succeed(null)),
  )
  if (listed !== null) {
    for (const { namespace, XAddr } of listed) {
      const service = serviceOf(namespace.trim())
      if (service !== null && service !== "device") use(service, XAddr)
      const other = /\/ver\d\d\/(analytics)\/wsdl$/.exec(namespace.trim())?.[1]
      if (other !== undefined) found.add(other)
    }
    return { by: "GetServices", services: found } satisfies Named
  }
  const { capabilities } = yield* client.call({
    service: "device",
    operation: "GetCapabilities",
    body: "<Category>All</Category>",
    reply: capabilitiesShape,
  })
  for (
    const [name, service] of [["media", "media"], ["PTZ", "ptz"], ["imaging", "imaging"], [
      "events",
      "events",
    ]] as const
  ) {
    const part = capabilities[name]
    if (part !== undefined && part !== "") use(service, part.XAddr)
  }
  if (capabilities.analytics !== undefined && capabilities.analytics !== "") found.add("analytics")
  return { by: "GetCapabilities", services: found } satisfies Named
})

type Media = ReturnType<typeof onvifMedia>

/** Media 2 only where its profiles can be read: some devices offer it and answer nonsense. */
const chooseMedia = Effect.fnUntraced(function*(client: OnvifClient, host: string, named: Named) {
  if (!named.services.has("media2")) return { media: onvifMedia(client, host, false), media2: "no" as const }
  const media = onvifMedia(client, host, true)
  if (!named.services.has("media")) return { media, media2: "yes" as const }
  const works = yield* media.profiles.pipe(
    Effect.map((all) => all.some((profile) => profile.videoEncoder !== null)),
    Effect.catchTag(["OnvifOperationUnsupported", "CameraRefused", "CameraUnreachable"], () => Effect.succeed(false)),
  )
  return works ?
    { media, media2: "yes" as const } :
    { media: onvifMedia(client, host, false), media2: "broken" as const }
})

const evidence = (named: Named, media: Media, media2: "yes" | "no" | "broken") =>
  Effect.gen(function*() {
    const service = (name: Capability["name"]): Capability =>
      named.services.has(name) ?
        { name, supported: "unverified", evidence: `${named.by} names the service` } :
        { name, supported: "no", evidence: `${named.by} does not name the service` }
    const profiles = yield* media.profiles
    const able = profiles.filter((profile) => profile.ptzToken !== null).length
    const heard = profiles.filter((profile) => profile.audio).length
    const snapshot = yield* media.snapshotUri(null).pipe(
      Effect.as<Capability>({ name: "snapshot", supported: "yes", evidence: "GetSnapshotUri answers an address" }),
      Effect.catch((error) =>
        Effect.succeed<Capability>({
          name: "snapshot",
          supported: error._tag === "OnvifOperationUnsupported" ? "no" : "unverified",
          evidence: error.message,
        })
      ),
    )
    const read = `GetProfiles answers ${profiles.length} profiles`
    const all: ReadonlyArray<Capability> = [
      media2 === "yes" ? service("media") : { name: "media", supported: "yes", evidence: read },
      media2 === "yes" ?
        { name: "media2", supported: "yes", evidence: read } :
        media2 === "broken" ?
        { name: "media2", supported: "no", evidence: "it is offered, but its profiles cannot be read" } :
        service("media2"),
      !named.services.has("ptz") ? service("ptz") : able > 0 ?
        { name: "ptz", supported: "yes", evidence: `${able} of ${profiles.length} profiles have a PTZ configuration` } :
        { name: "ptz", supported: "no", evidence: "no profile has a PTZ configuration" },
      service("imaging"),
      service("events"),
      service("analytics"),
      heard > 0 ?
        { name: "audio", supported: "yes", evidence: `${heard} of ${profiles.length} profiles have an audio encoder` } :
        { name: "audio", supported: "no", evidence: "no profile has an audio encoder" },
      snapshot,
    ]
    return all
  })

const connect = Effect.fn("Onvif.connect")(function*(options: DeviceOptions): Effect.fn.Return<Device, DeviceError> {
  const client = yield* makeClient(options)
  const { offsetMs: clockOffsetMs } = yield* readClock(client)
  client.setClockOffset(clockOffsetMs)
  const told = yield* client.call({ service: "device", operation: "GetDeviceInformation", reply: informationShape })
  const named = yield* findServices(client, options.without ?? [])
  const { media, media2 } = yield* chooseMedia(client, options.host, named)
  return {
    information: {
      manufacturer: told.manufacturer ?? "",
      model: told.model ?? "",
      firmwareVersion: told.firmwareVersion ?? "",
      serialNumber: told.serialNumber ?? "",
      hardwareId: told.hardwareId ?? "",
    },
    clockOffsetMs,
    capabilities: evidence(named, media, media2),
    ...media,
    ...onvifDevice(client),
    ptz: onvifPtz(client, media.profiles),
    tours: onvifTours(client, media.profiles),
    config: onvifConfig(client, options.host, media2 === "yes"),
    events: named.services.has("events") ? onvifEvents(client) : null,
  }
})

export const onvifDriver: DeviceDriver = { connect, picture: fetchPicture }
