/**
 * Profiles, addresses of streams and video encoders of an ONVIF device, by Media 2 where it is offered and works, by Media 1
 * otherwise.
 *
 * Invariants
 * 1. An address that the device names keeps its path and query and gets the host that a person gave; credentials in it are dropped.
 * 2. An encoder is not told anything that its options forbid.
 */
import {
  CameraRefused,
  CameraUnreachable,
  type DeviceError,
  type EncodingOptions,
  type FoundChannel,
  type FoundStream,
  type MediaProfile,
  OnvifOperationUnsupported,
  type Range,
  type VideoEncoder,
  type VideoEncoderChange,
} from "#schema/camera-device.ts"
import { InvalidInput } from "#schema/problem.ts"
import { Effect, Schema } from "effect"
import type { OnvifClient } from "./onvif-client.ts"
import { escaped } from "./onvif-message.ts"
import {
  encoderShape,
  encodingName,
  many,
  options2Shape,
  optionsShape,
  profile2Shape,
  profileShape,
  toEncoder,
  toOptions,
  toOptions2,
  toProfile,
  toProfile2,
  uri2Shape,
  uriShape,
} from "./onvif-shape.ts"

/** As much as a source URL may have. */
const maxUri = 2048

/** Reaches the same path on the host that was given. */
export const onHost = (uri: string, host: string, scheme: "rtsp:" | "http:"): string | null => {
  const text = uri.trim()
  if (text.length > maxUri || !URL.canParse(text)) return null
  const url = new URL(text)
  if (url.protocol !== scheme) return null
  url.username = ""
  url.password = ""
  url.hash = ""
  url.hostname = host.includes(":") && !host.startsWith("[") ? `[${host}]` : host
  return url.href
}

const area = ({ videoEncoder }: MediaProfile) => (videoEncoder?.width ?? 0) * (videoEncoder?.height ?? 0)
const recordable = ({ videoEncoder }: MediaProfile) =>
  videoEncoder !== null && (videoEncoder.encoding === "h264" || videoEncoder.encoding === "h265")

/** Best and smallest profile of each video source, in the order in which the device lists the sources. */
export const rolesOf = (
  profiles: ReadonlyArray<MediaProfile>,
): ReadonlyArray<{ readonly source: string; readonly main: MediaProfile; readonly sub: MediaProfile | null }> => {
  const sources = new Map<string, Array<MediaProfile>>()
  for (const profile of profiles.filter(recordable)) {
    const source = profile.videoSourceToken ?? ""
    sources.set(source, [...sources.get(source) ?? [], profile])
  }
  return [...sources].map(([source, own]) => {
    const main = own.reduce((best, one) => area(one) > area(best) ? one : best)
    const sub = own.filter((one) => one.videoEncoder?.token !== main.videoEncoder?.token)
      .reduce<MediaProfile | null>((least, one) => least === null || area(one) < area(least) ? one : least, null)
    return { source, main, sub }
  })
}

const outside = (range: Range | null, value: number | undefined) =>
  range !== null && value !== undefined && (value < range.min || value > range.max) ?
    `from ${range.min} to ${range.max}` :
    null

/** The first fault of a change; null: the device may be told. */
export const changeFault = (
  encoder: VideoEncoder,
  change: VideoEncoderChange,
  options: ReadonlyArray<EncodingOptions>,
): { readonly member: string; readonly allowed: string } | null => {
  const encoding = change.encoding ?? encoder.encoding
  const own = options.find((one) => one.encoding === encoding)
  if (own === undefined) {
    return options.length === 0 ? null : { member: "encoding", allowed: options.map((one) => one.encoding).join(", ") }
  }
  const width = change.width ?? encoder.width
  const height = change.height ?? encoder.height
  const known = own.resolutions.length === 0 ||
    own.resolutions.some((one) => one.width === width && one.height === height)
  if (!known && (change.width ?? change.height ?? change.encoding) !== undefined) {
    return { member: "width", allowed: own.resolutions.map((one) => `${one.width}x${one.height}`).join(", ") }
  }
  for (const member of ["quality", "frameRate", "bitrateBps", "govLength"] as const) {
    const allowed = outside(own[member], change[member])
    if (allowed !== null) return { member, allowed }
  }
  return null
}

const configuration = (encoder: VideoEncoder, media2: boolean): string => {
  const name = encoder.encoding === "h264" || encoder.encoding === "h265" || encoder.encoding === "jpeg" ?
    encodingName[encoder.encoding] :
    "H264"
  const rate = encoder.frameRate === null && encoder.bitrateBps === null ?
    "" :
    `<tt:RateControl><tt:FrameRateLimit>${encoder.frameRate ?? 25}</tt:FrameRateLimit>${
      media2 ? "" : "<tt:EncodingInterval>1</tt:EncodingInterval>"
    }<tt:BitrateLimit>${Math.round((encoder.bitrateBps ?? 0) / 1000)}</tt:BitrateLimit></tt:RateControl>`
  const shared = `<tt:Name>${escaped(encoder.name)}</tt:Name><tt:UseCount>${encoder.useCount}</tt:UseCount>` +
    `<tt:Encoding>${name}</tt:Encoding><tt:Resolution><tt:Width>${encoder.width}</tt:Width><tt:Height>${encoder.height}` +
    `</tt:Height></tt:Resolution>`
  const quality = `<tt:Quality>${encoder.quality}</tt:Quality>`
  const profile = encoder.profile === null ? "" : escaped(encoder.profile)
  if (media2) {
    const attributes = (encoder.govLength === null ? "" : ` GovLength="${encoder.govLength}"`) +
      (profile === "" ? "" : ` Profile="${profile}"`)
    return `<Configuration token="${escaped(encoder.token)}"${attributes}>${shared}${rate}${quality}</Configuration>`
  }
  const h264 = name === "H264" && encoder.govLength !== null ?
    `<tt:H264><tt:GovLength>${encoder.govLength}</tt:GovLength><tt:H264Profile>${
      profile || "Main"
    }</tt:H264Profile></tt:H264>` :
    ""
  return `<Configuration token="${escaped(encoder.token)}">${shared}${quality}${rate}${h264}` +
    `<tt:Multicast><tt:Address><tt:Type>IPv4</tt:Type><tt:IPv4Address>0.0.0.0</tt:IPv4Address></tt:Address><tt:Port>0</tt:Port>` +
    `<tt:TTL>1</tt:TTL><tt:AutoStart>false</tt:AutoStart></tt:Multicast><tt:SessionTimeout>PT60S</tt:SessionTimeout>` +
    `</Configuration><ForcePersistence>true</ForcePersistence>`
}

const tokenOf = (token: string) => `<ConfigurationToken>${escaped(token)}</ConfigurationToken>`

/** Reading and changing encoders. */
const encoders = (client: OnvifClient, media2: boolean) => {
  const service = media2 ? "media2" as const : "media" as const
  const list = Schema.Struct({ configurations: many(encoderShape) })
  const all: Effect.Effect<ReadonlyArray<VideoEncoder>, DeviceError> = Effect.map(
    client.call({ service, operation: "GetVideoEncoderConfigurations", reply: list }),
    ({ configurations }) => configurations.map(toEncoder),
  )
  const one = (token: string): Effect.Effect<VideoEncoder, DeviceError> =>
    Effect.flatMap(all, (found) => {
      const encoder = found.find((each) => each.token === token)
      return encoder === undefined ?
        Effect.fail(
          new CameraRefused({ operation: "GetVideoEncoderConfigurations", detail: "it has no such encoder" }),
        ) :
        Effect.succeed(encoder)
    })
  const options = (token: string): Effect.Effect<ReadonlyArray<EncodingOptions>, DeviceError> => {
    const operation = "GetVideoEncoderConfigurationOptions"
    const body = tokenOf(token)
    return media2 ?
      Effect.map(
        client.call({ service, operation, body, reply: Schema.Struct({ options: many(options2Shape) }) }),
        (found) => found.options.map(toOptions2),
      ) :
      Effect.map(
        client.call({ service, operation, body, reply: Schema.Struct({ options: optionsShape }) }),
        (found) => toOptions(found.options),
      )
  }
  return {
    videoEncoders: all,
    videoEncoder: one,
    videoEncoderOptions: (token: string) => Effect.map(options(token), (encodings) => ({ token, encodings })),
    setVideoEncoder: Effect.fnUntraced(function*(token: string, change: VideoEncoderChange) {
      const now = yield* one(token)
      const fault = changeFault(now, change, yield* options(token))
      if (fault !== null) {
        return yield* InvalidInput.at(`/payload/${fault.member}`, `the camera allows ${fault.allowed}`)
      }
      if (change.encoding === "h265" && !media2) {
        return yield* new OnvifOperationUnsupported({ operation: "H.265", detail: "it needs Media 2" })
      }
      // Profiles of one encoding mean nothing to another.
      const profile = change.encoding === undefined || change.encoding === now.encoding ? now.profile : null
      const body = configuration({ ...now, ...change, profile }, media2)
      yield* client.call({ service, operation: "SetVideoEncoderConfiguration", body, reply: Schema.Unknown })
      return yield* one(token)
    }),
  }
}

export const onvifMedia = (client: OnvifClient, host: string, media2: boolean) => {
  const profiles: Effect.Effect<ReadonlyArray<MediaProfile>, DeviceError> = media2 ?
    Effect.map(
      client.call({
        service: "media2",
        operation: "GetProfiles",
        body: "<Type>All</Type>",
        reply: Schema.Struct({ profiles: many(profile2Shape) }),
      }),
      (found) => found.profiles.map(toProfile2),
    ) :
    Effect.map(
      client.call({
        service: "media",
        operation: "GetProfiles",
        reply: Schema.Struct({ profiles: many(profileShape) }),
      }),
      (found) => found.profiles.map(toProfile),
    )
  const rewritten = (operation: string, scheme: "rtsp:" | "http:") => (uri: string) => {
    const url = onHost(uri, host, scheme)
    return url === null ?
      Effect.fail(
        new CameraUnreachable({
          reason: "protocol",
          detail: `its answer to ${operation} is not an address of ${scheme}`,
        }),
      ) :
      Effect.succeed(url)
  }
  const uriOf = (operation: "GetStreamUri" | "GetSnapshotUri", body: string, scheme: "rtsp:" | "http:") =>
    (media2 ?
      Effect.map(client.call({ service: "media2", operation, body, reply: uri2Shape }), ({ uri }) => uri) :
      Effect.map(client.call({ service: "media", operation, body, reply: uriShape }), ({ mediaUri }) => mediaUri.uri))
      .pipe(Effect.flatMap(rewritten(operation, scheme)))
  const streamUri = (profile: string): Effect.Effect<string, DeviceError> => {
    const token = `<ProfileToken>${escaped(profile)}</ProfileToken>`
    const setup = "<StreamSetup><tt:Stream>RTP-Unicast</tt:Stream><tt:Transport><tt:Protocol>RTSP</tt:Protocol>" +
      "</tt:Transport></StreamSetup>"
    return uriOf("GetStreamUri", media2 ? `<Protocol>RTSP</Protocol>${token}` : `${setup}${token}`, "rtsp:")
  }
  const snapshotUri = (profile: string | null): Effect.Effect<string, DeviceError> =>
    Effect.flatMap(
      profile === null ?
        Effect.map(profiles, (all) => rolesOf(all)[0]?.main.token ?? all[0]?.token ?? "") :
        Effect.succeed(profile),
      (token) => uriOf("GetSnapshotUri", `<ProfileToken>${escaped(token)}</ProfileToken>`, "http:"),
    )
  const channels: Effect.Effect<ReadonlyArray<FoundChannel>, DeviceError> = Effect.gen(function*() {
    const found = rolesOf(yield* profiles)
    const stream = (role: FoundStream["role"], { token }: MediaProfile): Effect.Effect<FoundStream, DeviceError> =>
      Effect.map(streamUri(token), (sourceUrl) => ({ role, profileToken: token, sourceUrl }))
    return yield* Effect.forEach(found, ({ main, source, sub }) =>
      Effect.gen(function*() {
        const best = yield* stream("main", main)
        const small = sub === null ? null : yield* stream("sub", sub)
        // Some devices answer every profile with one address.
        const streams = small === null || small.sourceUrl === best.sourceUrl ? [best] : [best, small]
        return { name: null, videoSourceToken: source, streams }
      }))
  })
  return { profiles, streamUri, snapshotUri, channels, ...encoders(client, media2) }
}
