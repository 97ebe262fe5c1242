/**
 * Sources of pictures and sound of an ONVIF device, and its audio encoders (ONVIF Media, sections 5.4, 5.7, 5.8; Media2, section 5.3).
 *
 * Invariants
 * 1. A configuration is sent whole, made of what the device has and what is to change, once its options allow it.
 */
import type {
  AudioEncoder,
  AudioEncoderChange,
  AudioEncoding,
  AudioSource,
  VideoSource,
  VideoSourceChange,
} from "#schema/camera-config.ts"
import { CameraRefused, type DeviceError, OnvifOperationUnsupported } from "#schema/camera-device.ts"
import { InvalidInput } from "#schema/problem.ts"
import { Effect, Schema } from "effect"
import type { OnvifClient } from "./onvif-client.ts"
import { escaped } from "./onvif-message.ts"
import { filled, integer, many, opt, present, range, text, worded } from "./onvif-shape.ts"
import {
  configurationToken,
  firstFault,
  type MediaService,
  oneOf,
  onMedia,
  withinRange,
  wordFor,
} from "./onvif-words.ts"

const named = { $token: text, name: opt(worded), useCount: opt(integer) }
const nameOf = (shape: { readonly $token: string; readonly name?: string; readonly useCount?: number }) => ({
  token: shape.$token,
  name: shape.name ?? shape.$token,
  useCount: shape.useCount ?? 0,
})

/** All configurations of a kind, by the service's operation for it. */
const listOf = <Shape extends Schema.Codec<unknown, unknown>>(shape: Shape) =>
  Schema.Union([Schema.Struct({ configurations: opt(many(shape)) }), Schema.Literal("")])
const itemsOf = <A>(told: { readonly configurations?: ReadonlyArray<A> } | ""): ReadonlyArray<A> =>
  told === "" ? [] : told.configurations ?? []

const found = <A extends { readonly token: string }>(operation: string, all: ReadonlyArray<A>, token: string) => {
  const one = all.find((each) => each.token === token)
  return one === undefined ?
    Effect.fail(new CameraRefused({ operation, detail: "it has no such configuration" })) :
    Effect.succeed(one)
}

/** Media 1 is told to keep it over a restart; Media 2 always does. */
const persistent = (service: MediaService) => service === "media" ? "<ForcePersistence>true</ForcePersistence>" : ""

const rotations = { off: "OFF", on: "ON", auto: "AUTO" } as const
const rotateShape = Schema.Struct({ mode: opt(text), degree: opt(integer) })
const videoShape = Schema.Struct({
  ...named,
  sourceToken: opt(worded),
  bounds: opt(filled(Schema.Struct({ $x: integer, $y: integer, $width: integer, $height: integer }))),
  extension: opt(filled(Schema.Struct({ rotate: opt(filled(rotateShape)) }))),
})
const toVideo = (shape: typeof videoShape.Type): VideoSource => {
  const bounds = present(shape.bounds)
  const rotate = present(present(shape.extension)?.rotate)
  return {
    ...nameOf(shape),
    sourceToken: shape.sourceToken ?? "",
    bounds: bounds === null ? null : { x: bounds.$x, y: bounds.$y, width: bounds.$width, height: bounds.$height },
    rotation: rotate === null ?
      null :
      { mode: wordFor(rotations, rotate.mode) ?? "other", degrees: rotate.degree ?? null },
  }
}
const videoOptionsShape = Schema.Struct({
  boundsRange: opt(filled(Schema.Struct({
    XRange: opt(filled(range)),
    YRange: opt(filled(range)),
    widthRange: opt(filled(range)),
    heightRange: opt(filled(range)),
  }))),
  videoSourceTokensAvailable: opt(many(text)),
  extension: opt(filled(Schema.Struct({
    rotate: opt(filled(Schema.Struct({
      mode: opt(many(text)),
      degreeList: opt(filled(Schema.Struct({ items: opt(many(integer)) }))),
    }))),
  }))),
})

const videoFaults = ({ bounds, rotation, sourceToken }: VideoSourceChange, allowed: typeof videoOptionsShape.Type) => {
  const area = present(allowed.boundsRange)
  const turns = present(present(allowed.extension)?.rotate)
  return firstFault(
    withinRange("bounds/x", bounds?.x, present(area?.XRange)),
    withinRange("bounds/y", bounds?.y, present(area?.YRange)),
    withinRange("bounds/width", bounds?.width, present(area?.widthRange)),
    withinRange("bounds/height", bounds?.height, present(area?.heightRange)),
    oneOf("sourceToken", sourceToken, allowed.videoSourceTokensAvailable ?? []),
    rotation !== undefined && turns === null ?
      InvalidInput.at("/payload/rotation", "the camera does not offer it") :
      null,
    oneOf(
      "rotation/mode",
      rotation?.mode,
      (turns?.mode ?? []).map((mode) => wordFor(rotations, mode)).filter((mode) => mode !== null),
    ),
    oneOf("rotation/degrees", rotation?.degrees, present(turns?.degreeList)?.items ?? []),
  )
}

const videoXml = ({ bounds, name, rotation, sourceToken, token, useCount }: VideoSource): string => {
  const area = bounds ?? { x: 0, y: 0, width: 0, height: 0 }
  const turned = rotation === null || rotation.mode === "other" ?
    "" :
    `<tt:Extension><tt:Rotate><tt:Mode>${rotations[rotation.mode]}</tt:Mode>${
      rotation.degrees === null ? "" : `<tt:Degree>${rotation.degrees}</tt:Degree>`
    }</tt:Rotate></tt:Extension>`
  return `<Configuration token="${escaped(token)}"><tt:Name>${
    escaped(name)
  }</tt:Name><tt:UseCount>${useCount}</tt:UseCount>` +
    `<tt:SourceToken>${
      escaped(sourceToken)
    }</tt:SourceToken><tt:Bounds x="${area.x}" y="${area.y}" width="${area.width}" ` +
    `height="${area.height}"/>${turned}</Configuration>`
}

const video = (client: OnvifClient, service: MediaService) => {
  const operation = "GetVideoSourceConfigurations"
  const all: Effect.Effect<ReadonlyArray<VideoSource>, DeviceError> = Effect.map(
    client.call({ service, operation, reply: listOf(videoShape) }),
    (told) => itemsOf(told).map(toVideo),
  )
  const one = (token: string) => Effect.flatMap(all, (list) => found(operation, list, token))
  const set = Effect.fnUntraced(function*(token: string, change: VideoSourceChange) {
    const now = yield* one(token)
    const { options } = yield* client.call({
      service,
      operation: "GetVideoSourceConfigurationOptions",
      body: configurationToken(token),
      reply: Schema.Struct({ options: filled(videoOptionsShape) }),
    })
    yield* videoFaults(change, present(options) ?? {})
    const { rotation, ...rest } = change
    const turned = rotation === undefined ? now.rotation : {
      mode: rotation.mode,
      degrees: rotation.mode === "off" ? null : rotation.degrees ?? now.rotation?.degrees ?? null,
    }
    yield* client.call({
      service,
      operation: "SetVideoSourceConfiguration",
      body: videoXml({ ...now, ...rest, rotation: turned }) + persistent(service),
      reply: Schema.Unknown,
    })
    return yield* one(token)
  })
  return { all, set }
}

/** ONVIF's names (`tt:AudioEncoding`) and the media types of Media 2 (IANA), in the order in which they are preferred. */
const encodings: Readonly<Record<string, AudioEncoding>> = {
  g711: "g711",
  pcmu: "g711",
  pcma: "g711",
  g726: "g726",
  aac: "aac",
  "mp4a-latm": "aac",
  "mpeg4-generic": "aac",
  opus: "opus",
}
const encodingOf = (told: string): AudioEncoding => encodings[told.trim().toLowerCase()] ?? "other"
const asIs = {
  media: { g711: "G711", g726: "G726", aac: "AAC" },
  media2: { g711: "PCMU", g726: "G726", aac: "MP4A-LATM" },
}

const audioShape = Schema.Struct({ ...named, encoding: text, bitrate: opt(integer), sampleRate: opt(integer) })
/** What the device calls its encoding is kept, to be sent back as it came. */
interface Told {
  readonly encoder: AudioEncoder
  readonly name: string
}
const toAudio = (shape: typeof audioShape.Type): Told => ({
  encoder: {
    ...nameOf(shape),
    encoding: encodingOf(shape.encoding),
    bitrateBps: (shape.bitrate ?? 0) * 1000,
    sampleRateHz: (shape.sampleRate ?? 0) * 1000,
  },
  name: shape.encoding,
})
const numbers = opt(filled(Schema.Struct({ items: opt(many(integer)) })))
const audioOption = Schema.Struct({ encoding: text, bitrateList: numbers, sampleRateList: numbers })
/** Media 1 wraps its options once more. */
const audioOptionsShape = Schema.Struct({
  options: opt(
    many(Schema.Union([audioOption, Schema.Struct({ options: opt(many(audioOption)) }), Schema.Literal("")])),
  ),
})
const audioOptionsOf = ({ options }: typeof audioOptionsShape.Type): ReadonlyArray<typeof audioOption.Type> =>
  (options ?? []).flatMap((one) => one === "" ? [] : "encoding" in one ? [one] : one.options ?? [])
const thousands = (told: { readonly items?: ReadonlyArray<number> } | "" | undefined): ReadonlyArray<number> =>
  (present(told)?.items ?? []).map((one) => one * 1000)

const audio = (client: OnvifClient, service: MediaService) => {
  const operation = "GetAudioEncoderConfigurations"
  const told: Effect.Effect<ReadonlyArray<Told>, DeviceError> = Effect.map(
    client.call({ service, operation, reply: listOf(audioShape) }),
    (list) => itemsOf(list).map(toAudio),
  )
  const all = Effect.map(told, (list) => list.map(({ encoder }) => encoder))
  const set = Effect.fnUntraced(function*(token: string, change: AudioEncoderChange) {
    const list = yield* told
    const now = yield* found(operation, list.map(({ encoder }) => encoder), token)
    const options = audioOptionsOf(
      yield* client.call({
        service,
        operation: "GetAudioEncoderConfigurationOptions",
        body: configurationToken(token),
        reply: audioOptionsShape,
      }),
    )
    const next = { ...now, ...change }
    yield* firstFault(oneOf("encoding", next.encoding, options.map((one) => encodingOf(one.encoding))))
    const own = options.filter((one) => encodingOf(one.encoding) === next.encoding)
    yield* firstFault(
      oneOf("bitrateBps", next.bitrateBps, own.flatMap((one) => thousands(one.bitrateList))),
      oneOf("sampleRateHz", next.sampleRateHz, own.flatMap((one) => thousands(one.sampleRateList))),
    )
    const same = next.encoding === now.encoding
    const name = (same ? list.find(({ encoder }) => encoder.token === token)?.name : own[0]?.encoding) ??
      (asIs[service] as Readonly<Record<string, string>>)[next.encoding]
    if (name === undefined) {
      return yield* new OnvifOperationUnsupported({ operation: next.encoding, detail: "it names no such encoding" })
    }
    const multicast = "<tt:Multicast><tt:Address><tt:Type>IPv4</tt:Type><tt:IPv4Address>0.0.0.0</tt:IPv4Address>" +
      "</tt:Address><tt:Port>0</tt:Port><tt:TTL>1</tt:TTL><tt:AutoStart>false</tt:AutoStart></tt:Multicast>"
    const rates = `<tt:Bitrate>${Math.round(next.bitrateBps / 1000)}</tt:Bitrate>` +
      `<tt:SampleRate>${Math.round(next.sampleRateHz / 1000)}</tt:SampleRate>`
    const rest = service === "media" ? `${rates}${multicast}<tt:SessionTimeout>PT60S</tt:SessionTimeout>` : rates
    yield* client.call({
      service,
      operation: "SetAudioEncoderConfiguration",
      body:
        `<Configuration token="${escaped(token)}"><tt:Name>${escaped(now.name)}</tt:Name><tt:UseCount>${now.useCount}` +
        `</tt:UseCount><tt:Encoding>${escaped(name)}</tt:Encoding>${rest}</Configuration>${persistent(service)}`,
      reply: Schema.Unknown,
    })
    return yield* Effect.flatMap(all, (after) => found(operation, after, token))
  })
  return { all, set }
}

const audioSourceShape = Schema.Struct({ ...named, sourceToken: opt(worded) })
const audioSources = (
  client: OnvifClient,
  service: MediaService,
): Effect.Effect<ReadonlyArray<AudioSource>, DeviceError> =>
  Effect.map(
    client.call({ service, operation: "GetAudioSourceConfigurations", reply: listOf(audioSourceShape) }),
    (told) => itemsOf(told).map((one) => ({ ...nameOf(one), sourceToken: one.sourceToken ?? "" })),
  )

export const onvifSource = (client: OnvifClient, media2: boolean) => {
  const videos = { media: video(client, "media"), media2: video(client, "media2") }
  const sounds = { media: audio(client, "media"), media2: audio(client, "media2") }
  const on = onMedia(media2)
  return {
    videoSources: on((service) => videos[service].all),
    setVideoSource: (token: string, change: VideoSourceChange) => on((service) => videos[service].set(token, change)),
    audioSources: on((service) => audioSources(client, service)),
    audioEncoders: on((service) => sounds[service].all),
    setAudioEncoder: (token: string, change: AudioEncoderChange) => on((service) => sounds[service].set(token, change)),
  }
}
