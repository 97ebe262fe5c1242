/**
 * What replies of ONVIF devices look like (ONVIF Media, Media2, PTZ and Device Management), as schemas over the simplified XML of
 * `onvif-message.ts`, and the models of ours that they become.
 *
 * Invariants
 * 1. A member that devices leave out is optional; a number that is none is a fault of the reply, not a zero.
 */
import {
  type DeviceClock,
  type EncodingOptions,
  IrCutFilter,
  type MediaProfile,
  type Range,
  type VideoEncoder,
  type VideoEncoding,
} from "#schema/camera-device.ts"
import { Schema, SchemaTransformation } from "effect"

/** Replies hold at most so many of a kind; a device with more is refused as malformed. */
const maxItems = 512

export const opt = Schema.optionalKey
export const text = Schema.String.check(Schema.isMaxLength(4096))
export const number = Schema.FiniteFromString
export const integer = Schema.FiniteFromString.check(Schema.isInt())

/** Once or several times. */
export const many = <S extends Schema.Constraint>(schema: S) =>
  Schema.ArrayEnsure(schema).check(Schema.isMaxLength(maxItems))
/** An empty element stands for one that is not there. */
export const filled = <S extends Schema.Constraint>(schema: S) => Schema.Union([schema, Schema.Literal("")])

/** The text of an element, with attributes or without. */
export const worded = Schema.Union([text, Schema.Struct({ $text: opt(text) })]).pipe(
  Schema.decodeTo(
    Schema.String,
    SchemaTransformation.transform<string, string | { readonly $text?: string }>({
      decode: (node) => typeof node === "string" ? node : node.$text ?? "",
      encode: (word) => word,
    }),
  ),
)

const resolution = Schema.Struct({ width: integer, height: integer })

/** Media 1 and Media 2 in one: the first has the group length under the encoding, the second as attributes. */
export const encoderShape = Schema.Struct({
  $token: text,
  $GovLength: opt(integer),
  $Profile: opt(text),
  name: opt(text),
  useCount: opt(integer),
  encoding: text,
  resolution: opt(filled(resolution)),
  quality: opt(number),
  rateControl: opt(filled(Schema.Struct({ frameRateLimit: opt(number), bitrateLimit: opt(number) }))),
  H264: opt(filled(Schema.Struct({ govLength: opt(integer), H264Profile: opt(text) }))),
})

const encodings: Readonly<Record<string, VideoEncoding>> = {
  h264: "h264",
  h265: "h265",
  hevc: "h265",
  jpeg: "jpeg",
  mpeg4: "mpeg4",
  "mpv4-es": "mpeg4",
}
const encodingOf = (name: string): VideoEncoding => encodings[name.trim().toLowerCase()] ?? "other"
/** `tt:VideoEncoding` of Media 1 and the media type of Media 2 are spelt alike for these. */
export const encodingName = { h264: "H264", h265: "H265", jpeg: "JPEG" } as const

export const toEncoder = (shape: typeof encoderShape.Type): VideoEncoder => {
  const h264 = shape.H264 === "" ? undefined : shape.H264
  const size = shape.resolution === "" ? undefined : shape.resolution
  const rate = shape.rateControl === "" ? undefined : shape.rateControl
  return {
    token: shape.$token,
    name: shape.name ?? shape.$token,
    useCount: shape.useCount ?? 0,
    encoding: encodingOf(shape.encoding),
    width: size?.width ?? 0,
    height: size?.height ?? 0,
    quality: shape.quality ?? 0,
    frameRate: rate?.frameRateLimit ?? null,
    bitrateBps: rate?.bitrateLimit === undefined ? null : Math.round(rate.bitrateLimit * 1000),
    govLength: shape.$GovLength ?? h264?.govLength ?? null,
    profile: shape.$Profile ?? h264?.H264Profile ?? null,
  }
}

const withToken = Schema.Struct({ $token: text })
const sourceShape = Schema.Struct({ $token: text, sourceToken: opt(text) })

/** `tt:Profile` of Media 1. */
export const profileShape = Schema.Struct({
  $token: text,
  name: opt(text),
  videoSourceConfiguration: opt(filled(sourceShape)),
  videoEncoderConfiguration: opt(filled(encoderShape)),
  audioEncoderConfiguration: opt(filled(withToken)),
  PTZConfiguration: opt(filled(withToken)),
})
/** `tr2:MediaProfile` of Media 2. */
export const profile2Shape = Schema.Struct({
  $token: text,
  name: opt(text),
  configurations: opt(filled(Schema.Struct({
    videoSource: opt(filled(sourceShape)),
    videoEncoder: opt(filled(encoderShape)),
    audioEncoder: opt(filled(withToken)),
    PTZ: opt(filled(withToken)),
  }))),
})

export const present = <A>(value: A | "" | undefined): A | null => value === undefined || value === "" ? null : value

export const toProfile = (shape: typeof profileShape.Type): MediaProfile => {
  const encoder = present(shape.videoEncoderConfiguration)
  return {
    token: shape.$token,
    name: shape.name ?? shape.$token,
    videoSourceToken: present(shape.videoSourceConfiguration)?.sourceToken ?? null,
    videoEncoder: encoder === null ? null : toEncoder(encoder),
    audio: present(shape.audioEncoderConfiguration) !== null,
    ptzToken: present(shape.PTZConfiguration)?.$token ?? null,
  }
}

export const toProfile2 = (shape: typeof profile2Shape.Type): MediaProfile => {
  const parts = present(shape.configurations)
  const { configurations: _configurations, ...own } = shape
  return toProfile({
    ...own,
    ...(parts?.videoSource === undefined ? {} : { videoSourceConfiguration: parts.videoSource }),
    ...(parts?.videoEncoder === undefined ? {} : { videoEncoderConfiguration: parts.videoEncoder }),
    ...(parts?.audioEncoder === undefined ? {} : { audioEncoderConfiguration: parts.audioEncoder }),
    ...(parts?.PTZ === undefined ? {} : { PTZConfiguration: parts.PTZ }),
  })
}

export const range = Schema.Struct({ min: number, max: number })
const of1 = {
  resolutionsAvailable: opt(many(resolution)),
  frameRateRange: opt(filled(range)),
  govLengthRange: opt(filled(range)),
  bitrateRange: opt(filled(range)),
}
const of1Shape = Schema.Struct(of1)
/** `tt:VideoEncoderConfigurationOptions` of Media 1; bit rates stand in the extension. */
export const optionsShape = Schema.Struct({
  qualityRange: opt(filled(range)),
  JPEG: opt(filled(of1Shape)),
  H264: opt(filled(of1Shape)),
  extension: opt(filled(Schema.Struct({ JPEG: opt(filled(of1Shape)), H264: opt(filled(of1Shape)) }))),
})
/** `tt:VideoEncoder2ConfigurationOptions` of Media 2: one an encoding, ranges as lists in attributes. */
export const options2Shape = Schema.Struct({
  $GovLengthRange: opt(text),
  $FrameRatesSupported: opt(text),
  encoding: text,
  qualityRange: opt(filled(range)),
  resolutionsAvailable: opt(many(resolution)),
  bitrateRange: opt(filled(range)),
})

const kilo = (value: Range | null): Range | null =>
  value === null ? null : { min: value.min * 1000, max: value.max * 1000 }

export const toOptions = (shape: typeof optionsShape.Type): ReadonlyArray<EncodingOptions> => {
  const extension = present(shape.extension)
  const one = (encoding: VideoEncoding, base: typeof of1Shape.Type | null, more: typeof of1Shape.Type | null) =>
    base === null && more === null ? [] : [{
      encoding,
      resolutions: more?.resolutionsAvailable ?? base?.resolutionsAvailable ?? [],
      quality: present(shape.qualityRange),
      frameRate: present(more?.frameRateRange ?? base?.frameRateRange),
      bitrateBps: kilo(present(more?.bitrateRange)),
      govLength: present(more?.govLengthRange ?? base?.govLengthRange),
    }]
  return [
    ...one("h264", present(shape.H264), present(extension?.H264)),
    ...one("jpeg", present(shape.JPEG), present(extension?.JPEG)),
  ]
}

/** From `"1 400"` or `"25 15 5"`. */
const spread = (list: string | undefined): Range | null => {
  const numbers = (list ?? "").trim().split(/\s+/).filter((word) => word !== "").map(Number)
  return numbers.length === 0 || numbers.some((one) => !Number.isFinite(one)) ?
    null :
    { min: Math.min(...numbers), max: Math.max(...numbers) }
}

export const toOptions2 = (shape: typeof options2Shape.Type): EncodingOptions => ({
  encoding: encodingOf(shape.encoding),
  resolutions: shape.resolutionsAvailable ?? [],
  quality: present(shape.qualityRange),
  frameRate: spread(shape.$FrameRatesSupported),
  bitrateBps: kilo(present(shape.bitrateRange)),
  govLength: spread(shape.$GovLengthRange),
})

/** `tt:SystemDateTime`. */
export const clockShape = Schema.Struct({
  systemDateAndTime: Schema.Struct({
    dateTimeType: opt(text),
    daylightSavings: opt(text),
    timeZone: opt(filled(Schema.Struct({ TZ: opt(text) }))),
    UTCDateTime: opt(filled(Schema.Struct({
      time: Schema.Struct({ hour: integer, minute: integer, second: integer }),
      date: Schema.Struct({ year: integer, month: integer, day: integer }),
    }))),
  }),
})
export const toClockMs = ({ systemDateAndTime }: typeof clockShape.Type): number | null => {
  const utc = present(systemDateAndTime.UTCDateTime)
  if (utc === null) return null
  const { date, time } = utc
  return Date.UTC(date.year, date.month - 1, date.day, time.hour, time.minute, time.second)
}

export const toClock = (told: typeof clockShape.Type, offsetMs: number): DeviceClock => {
  const { dateTimeType, daylightSavings, timeZone } = told.systemDateAndTime
  return {
    utc: toClockMs(told),
    offsetMs,
    mode: dateTimeType?.trim().toUpperCase() === "NTP" ? "ntp" : "manual",
    timeZone: present(timeZone)?.TZ ?? null,
    daylightSavings: daylightSavings?.trim() === "true",
  }
}

const irCutFilter = Schema.Literals(["ON", "OFF", "AUTO"]).pipe(
  Schema.decodeTo(
    IrCutFilter,
    SchemaTransformation.transform<"on" | "off" | "auto", "ON" | "OFF" | "AUTO">({
      decode: (word) => word.toLowerCase() as Lowercase<typeof word>,
      encode: (word) => word.toUpperCase() as Uppercase<typeof word>,
    }),
  ),
)
/** `tt:ImagingSettings20`. */
export const imagingShape = Schema.Struct({
  imagingSettings: Schema.Struct({
    brightness: opt(number),
    colorSaturation: opt(number),
    contrast: opt(number),
    sharpness: opt(number),
    irCutFilter: opt(irCutFilter),
  }),
})
/** `tt:ImagingOptions20`. */
export const imagingOptionsShape = Schema.Struct({
  imagingOptions: Schema.Struct({
    brightness: opt(filled(range)),
    colorSaturation: opt(filled(range)),
    contrast: opt(filled(range)),
    sharpness: opt(filled(range)),
    irCutFilterModes: opt(many(irCutFilter)),
  }),
})

export const informationShape = Schema.Struct({
  manufacturer: opt(text),
  model: opt(text),
  firmwareVersion: opt(text),
  serialNumber: opt(text),
  hardwareId: opt(text),
})

const address = Schema.Struct({ XAddr: text })
export const capabilitiesShape = Schema.Struct({
  capabilities: Schema.Struct({
    media: opt(filled(address)),
    PTZ: opt(filled(address)),
    imaging: opt(filled(address)),
    events: opt(filled(address)),
    analytics: opt(filled(address)),
  }),
})
export const servicesShape = Schema.Struct({
  service: many(Schema.Struct({ namespace: text, XAddr: text })),
})
export const uriShape = Schema.Struct({ mediaUri: Schema.Struct({ uri: text }) })
export const uri2Shape = Schema.Struct({ uri: text })

/** `tt:PTZVector`, `tt:PTZSpeed`. */
export const vectorShape = Schema.Struct({
  panTilt: opt(filled(Schema.Struct({ $x: number, $y: number }))),
  zoom: opt(filled(Schema.Struct({ $x: number }))),
})
export const toPosition = (shape: typeof vectorShape.Type) => ({
  pan: present(shape.panTilt)?.$x ?? null,
  tilt: present(shape.panTilt)?.$y ?? null,
  zoom: present(shape.zoom)?.$x ?? null,
})
const moveStatus = opt(filled(Schema.Struct({ panTilt: opt(text), zoom: opt(text) })))
export const statusShape = Schema.Struct({
  PTZStatus: Schema.Struct({ position: opt(filled(vectorShape)), moveStatus, error: opt(text) }),
})
export const presetShape = Schema.Struct({ $token: text, name: opt(text), PTZPosition: opt(filled(vectorShape)) })
