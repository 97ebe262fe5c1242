/**
 * What a camera is set to by its own protocol (ONVIF): texts and pictures in its image (OSD), sources, audio encoders, focus,
 * network, factory defaults.
 *
 * Invariants
 * 1. Null in what was read: the device does not tell. What a change leaves out stays.
 * 2. `other` stands for words of a device that ONVIF does not have; it is never sent to one.
 */
import { Schema } from "effect"
import { DeviceToken, Range } from "./camera-device.ts"

const opt = Schema.optionalKey
const orNull = Schema.NullOr
const Level = Schema.NullOr(Schema.Finite)

/** `tt:OSDColor`: three components of a colour space, -1 to 255 as that space has them. */
export const OsdColor = Schema.Struct({
  x: Schema.Finite,
  y: Schema.Finite,
  z: Schema.Finite,
  /** `http://www.onvif.org/ver10/colorspace/YCbCr` and its siblings; null: that of the device. */
  colorspace: orNull(Schema.String.check(Schema.isMaxLength(200))),
  /** From 0 (opaque), on the device's own scale. */
  transparency: orNull(Schema.Int),
})
export type OsdColor = typeof OsdColor.Type

export const osdCorners = ["upperLeft", "upperRight", "lowerLeft", "lowerRight", "custom"] as const
export const osdTextKinds = ["plain", "date", "time", "dateAndTime"] as const
export const osdTypes = ["text", "image"] as const

const OsdText = Schema.Struct({
  kind: Schema.Literals([...osdTextKinds, "other"]),
  /** Of `plain`. */
  text: orNull(Schema.String),
  /** As the device spells it (`yyyy-MM-dd`). */
  dateFormat: orNull(Schema.String),
  timeFormat: orNull(Schema.String),
  fontSize: orNull(Schema.Int),
  fontColor: orNull(OsdColor),
  backgroundColor: orNull(OsdColor),
})
export type OsdText = typeof OsdText.Type

/** `tt:OSDConfiguration`. */
export const Osd = Schema.Struct({
  token: Schema.String,
  /** The video source configuration into whose picture it is drawn. */
  sourceToken: Schema.String,
  type: Schema.Literals([...osdTypes, "other"]),
  position: Schema.Struct({
    kind: Schema.Literals([...osdCorners, "other"]),
    /** Of `custom`: from -1 (left, bottom) to 1 (right, top). */
    x: Level,
    y: Level,
  }),
  text: orNull(OsdText),
  /** Of `image`: one of the paths in its options. */
  imagePath: orNull(Schema.String),
}).annotate({ identifier: "Osd" })
export type Osd = typeof Osd.Type

const Place = Schema.Finite.check(Schema.isBetween({ minimum: -1, maximum: 1 }))
const Words = Schema.String.check(Schema.isMaxLength(256))
const Format = Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(64))
const OsdPositionInput = Schema.Struct({ kind: Schema.Literals(osdCorners), x: opt(Place), y: opt(Place) })
const OsdTextInput = Schema.Struct({
  kind: opt(Schema.Literals(osdTextKinds)),
  text: opt(Words),
  dateFormat: opt(Format),
  timeFormat: opt(Format),
  fontSize: opt(Schema.Int),
  fontColor: opt(OsdColor),
  backgroundColor: opt(OsdColor),
})
export type OsdTextInput = typeof OsdTextInput.Type

export const OsdChange = Schema.Struct({
  position: opt(OsdPositionInput),
  text: opt(OsdTextInput),
  imagePath: opt(Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(512))),
}).annotate({ identifier: "OsdChange" })
export type OsdChange = typeof OsdChange.Type

export const OsdCreate = Schema.Struct({
  /** The first video source configuration, if left out. */
  sourceToken: opt(DeviceToken),
  type: Schema.Literals(osdTypes),
  ...OsdChange.fields,
  position: OsdPositionInput,
}).annotate({ identifier: "OsdCreate" })
export type OsdCreate = typeof OsdCreate.Type

/** What a text may be drawn in; null: the device does not offer a choice. */
const OsdColors = orNull(Schema.Struct({
  /** Empty: the device names none in particular. */
  colors: Schema.Array(OsdColor),
  transparency: orNull(Range),
}))

/** `tt:OSDConfigurationOptions`. */
export const OsdOptions = Schema.Struct({
  sourceToken: Schema.String,
  /** How many there may be, in all and of each kind. */
  maximum: Schema.Struct({
    total: orNull(Schema.Int),
    image: orNull(Schema.Int),
    plain: orNull(Schema.Int),
    date: orNull(Schema.Int),
    time: orNull(Schema.Int),
    dateAndTime: orNull(Schema.Int),
  }),
  types: Schema.Array(Schema.Literals(osdTypes)),
  positions: Schema.Array(Schema.Literals(osdCorners)),
  textKinds: Schema.Array(Schema.Literals(osdTextKinds)),
  fontSize: orNull(Range),
  dateFormats: Schema.Array(Schema.String),
  timeFormats: Schema.Array(Schema.String),
  fontColors: OsdColors,
  backgroundColors: OsdColors,
  imagePaths: Schema.Array(Schema.String),
}).annotate({ identifier: "OsdOptions" })
export type OsdOptions = typeof OsdOptions.Type

const Bounds = Schema.Struct({ x: Schema.Int, y: Schema.Int, width: Schema.Int, height: Schema.Int })
const rotations = ["off", "on", "auto"] as const

/** `tt:VideoSourceConfiguration`. */
export const VideoSource = Schema.Struct({
  token: Schema.String,
  name: Schema.String,
  /** Profiles that share it. */
  useCount: Schema.Int,
  /** The sensor or input that it shows: what imaging goes by. */
  sourceToken: Schema.String,
  /** The part of the sensor's picture that is used, in its pixels. */
  bounds: orNull(Bounds),
  rotation: orNull(Schema.Struct({ mode: Schema.Literals([...rotations, "other"]), degrees: orNull(Schema.Int) })),
}).annotate({ identifier: "VideoSource" })
export type VideoSource = typeof VideoSource.Type

export const VideoSourceChange = Schema.Struct({
  name: opt(Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(64))),
  sourceToken: opt(DeviceToken),
  bounds: opt(Bounds),
  /** `on` needs `degrees` where the device offers several. */
  rotation: opt(Schema.Struct({ mode: Schema.Literals(rotations), degrees: opt(Schema.Int) })),
}).annotate({ identifier: "VideoSourceChange" })
export type VideoSourceChange = typeof VideoSourceChange.Type

/** `tt:AudioEncoderConfiguration`, `tt:AudioEncoder2Configuration`. */
export const AudioEncoding = Schema.Literals(["g711", "g726", "aac", "opus", "other"])
export type AudioEncoding = typeof AudioEncoding.Type

export const AudioEncoder = Schema.Struct({
  token: Schema.String,
  name: Schema.String,
  useCount: Schema.Int,
  encoding: AudioEncoding,
  bitrateBps: Schema.Int,
  /** As ONVIF tells it, in whole kilohertz: 44.1 kHz is 44000. */
  sampleRateHz: Schema.Int,
}).annotate({ identifier: "AudioEncoder" })
export type AudioEncoder = typeof AudioEncoder.Type

export const AudioEncoderChange = Schema.Struct({
  encoding: opt(Schema.Literals(["g711", "g726", "aac", "opus"])),
  bitrateBps: opt(Schema.Int),
  sampleRateHz: opt(Schema.Int),
}).annotate({ identifier: "AudioEncoderChange" })
export type AudioEncoderChange = typeof AudioEncoderChange.Type

/** `tt:AudioSourceConfiguration`. */
export const AudioSource = Schema.Struct({
  token: Schema.String,
  name: Schema.String,
  useCount: Schema.Int,
  sourceToken: Schema.String,
}).annotate({ identifier: "AudioSource" })
export type AudioSource = typeof AudioSource.Type

/** A focus that moves on is stopped after so long, in milliseconds, unless it is told again. */
export const focusMoveMs = 2_000
const FocusTime = Schema.Int.check(Schema.isBetween({ minimum: 100, maximum: 10_000 }))
/** `tt:FocusMove`, on the device's own scales. `timeoutMs`: {@link focusMoveMs}, if left out. */
export const FocusMove = Schema.Union([
  Schema.Struct({ mode: Schema.Literal("absolute"), position: Schema.Finite, speed: opt(Schema.Finite) }),
  Schema.Struct({ mode: Schema.Literal("relative"), distance: Schema.Finite, speed: opt(Schema.Finite) }),
  Schema.Struct({ mode: Schema.Literal("continuous"), speed: Schema.Finite, timeoutMs: opt(FocusTime) }),
]).annotate({ identifier: "FocusMove" })
export type FocusMove = typeof FocusMove.Type

const Prefix = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 32 }))
const NetworkAddress = Schema.Struct({ address: Schema.String, prefixLength: Schema.Int })
export type NetworkAddress = typeof NetworkAddress.Type

/** `tt:NetworkInterface`. */
export const NetworkInterface = Schema.Struct({
  token: Schema.String,
  enabled: Schema.Boolean,
  name: Schema.String,
  hardwareAddress: Schema.String,
  mtu: orNull(Schema.Int),
  speedMbps: orNull(Schema.Int),
  ipv4: orNull(Schema.Struct({
    enabled: Schema.Boolean,
    dhcp: Schema.Boolean,
    /** Set by hand. */
    manual: Schema.Array(NetworkAddress),
    /** What it was given by DHCP. */
    leased: orNull(NetworkAddress),
    linkLocal: orNull(NetworkAddress),
  })),
  ipv6: orNull(Schema.Struct({ enabled: Schema.Boolean, addresses: Schema.Array(NetworkAddress) })),
}).annotate({ identifier: "NetworkInterface" })
export type NetworkInterface = typeof NetworkInterface.Type

export const NetworkChange = Schema.Struct({
  enabled: opt(Schema.Boolean),
  /** RFC 791: every link takes 68 bytes; jumbo frames end at 9216. */
  mtu: opt(Schema.Int.check(Schema.isBetween({ minimum: 68, maximum: 9216 }))),
  ipv4: opt(Schema.Struct({
    dhcp: opt(Schema.Boolean),
    /** Dotted decimal; together with `prefixLength`. */
    address: opt(Schema.String.check(Schema.isMaxLength(15))),
    prefixLength: opt(Prefix),
  })),
}).annotate({ identifier: "NetworkChange" })
export type NetworkChange = typeof NetworkChange.Type

/** What became of a change of the network. */
export const NetworkChanged = Schema.Struct({
  /** The device's own word: what was set takes effect when it restarts. */
  rebootNeeded: Schema.Boolean,
  /** Whether the camera is found at another address from then on; `possible`: it is not known from here. */
  addressChange: Schema.Literals(["none", "possible", "certain"]),
  /** The address that it is found at then, where it was set by hand. */
  newHost: orNull(Schema.String),
  /** What a person has to do. */
  advice: Schema.String,
}).annotate({ identifier: "NetworkChanged" })
export type NetworkChanged = typeof NetworkChanged.Type

/** `soft`: all but the network settings and users, as the device understands it; `hard`: everything (ONVIF `tt:FactoryDefaultType`). */
export const FactoryResetMode = Schema.Literals(["soft", "hard"])
export type FactoryResetMode = typeof FactoryResetMode.Type

export const FactoryReset = Schema.Struct({
  mode: FactoryResetMode,
  /** Name or id of the camera, typed by a person who means this one. */
  confirm: Schema.String.check(Schema.isMaxLength(200)),
}).annotate({ identifier: "FactoryReset" })

export const SnapshotUri = Schema.Struct({
  /** A path on this server, opened like every other operation: it passes the camera's picture on. */
  uri: Schema.String,
  profileToken: Schema.String,
}).annotate({ identifier: "SnapshotUri" })
