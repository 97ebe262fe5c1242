/**
 * What moves in an ONVIF camera, how it is set, and the tours that it runs by itself (PTZ Service Specification, sections 5.1, 5.2
 * and 5.8).
 *
 * Invariants
 * 1. A tour that cannot be written whole is removed again: none is left without its spots.
 * 2. A reset tells a configuration nothing but what its node can do.
 */
import {
  CameraRefused,
  type DeviceError,
  type MediaProfile,
  OnvifOperationUnsupported,
  type Range,
} from "#schema/camera-device.ts"
import type { PresetTour, PtzAxes, PtzConfiguration, PtzNode, TourOperation } from "#schema/camera-ptz.ts"
import { Effect, Schema } from "effect"
import type { DeviceTours } from "../device.ts"
import type { OnvifClient } from "./onvif-client.ts"
import { escaped } from "./onvif-message.ts"
import { namedProfile } from "./onvif-ptz.ts"
import { filled, many, present, toPosition, vectorShape } from "./onvif-shape.ts"

const opt = Schema.optionalKey
const text = Schema.String.check(Schema.isMaxLength(4096))
const integer = Schema.FiniteFromString.check(Schema.isInt())
const flag = Schema.String
const isTrue = (word: string | undefined) => word !== undefined && /^(true|1)$/i.test(word.trim())

const range = Schema.Struct({ min: Schema.FiniteFromString, max: Schema.FiniteFromString })
const space = Schema.Struct({ URI: opt(text), XRange: range, YRange: opt(range) })
type Space = typeof space.Type
const spaces = opt(filled(many(space)))

const operations = { Start: "start", Stop: "stop", Pause: "pause" } as const satisfies Record<string, TourOperation>

const nodeShape = Schema.Struct({
  $token: text,
  $FixedHomePosition: opt(flag),
  name: opt(text),
  supportedPTZSpaces: opt(filled(Schema.Struct({
    absolutePanTiltPositionSpace: spaces,
    absoluteZoomPositionSpace: spaces,
    relativePanTiltTranslationSpace: spaces,
    relativeZoomTranslationSpace: spaces,
    continuousPanTiltVelocitySpace: spaces,
    continuousZoomVelocitySpace: spaces,
  }))),
  maximumNumberOfPresets: opt(integer),
  homeSupported: opt(flag),
  auxiliaryCommands: opt(filled(many(text))),
  extension: opt(filled(Schema.Struct({
    supportedPresetTour: opt(filled(Schema.Struct({
      maximumNumberOfPresetTours: integer,
      PTZPresetTourOperation: opt(filled(many(text))),
    }))),
  }))),
})
const nodesShape = filled(Schema.Struct({ PTZNode: opt(many(nodeShape)) }))

const spaceNames = [
  "defaultAbsolutePantTiltPositionSpace",
  "defaultAbsoluteZoomPositionSpace",
  "defaultRelativePanTiltTranslationSpace",
  "defaultRelativeZoomTranslationSpace",
  "defaultContinuousPanTiltVelocitySpace",
  "defaultContinuousZoomVelocitySpace",
] as const
const limitShape = opt(filled(Schema.Struct({ range: space })))
const configurationShape = Schema.Struct({
  $token: text,
  name: opt(text),
  useCount: opt(integer),
  nodeToken: text,
  defaultAbsolutePantTiltPositionSpace: opt(text),
  defaultAbsoluteZoomPositionSpace: opt(text),
  defaultRelativePanTiltTranslationSpace: opt(text),
  defaultRelativeZoomTranslationSpace: opt(text),
  defaultContinuousPanTiltVelocitySpace: opt(text),
  defaultContinuousZoomVelocitySpace: opt(text),
  defaultPTZSpeed: opt(filled(vectorShape)),
  defaultPTZTimeout: opt(text),
  panTiltLimits: limitShape,
  zoomLimits: limitShape,
})
type ConfigurationShape = typeof configurationShape.Type
const configurationsShape = filled(Schema.Struct({ PTZConfiguration: opt(many(configurationShape)) }))

const spotShape = Schema.Struct({
  presetDetail: opt(filled(Schema.Struct({ presetToken: opt(text), home: opt(flag) }))),
  stayTime: opt(text),
})
const tourShape = Schema.Struct({
  $token: text,
  name: opt(text),
  status: opt(filled(Schema.Struct({ state: opt(text) }))),
  autoStart: opt(flag),
  tourSpot: opt(filled(many(spotShape))),
})
const toursShape = filled(Schema.Struct({ presetTour: opt(many(tourShape)) }))

/** `xs:duration` of days and less, in milliseconds; null: it is none. */
export const durationMs = (word: string): number | null => {
  const found = /^P(?:(\d{1,6})D)?(?:T(?:(\d{1,6})H)?(?:(\d{1,7})M)?(?:(\d{1,9}(?:\.\d{1,9})?)S)?)?$/.exec(word.trim())
  if (found === null || found.slice(1).every((part) => part === undefined)) return null
  const [days, hours, minutes, seconds] = found.slice(1).map((part) => Number(part ?? 0)) as [
    number,
    number,
    number,
    number,
  ]
  return Math.round((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)
}

const axes = (panTilt: Space | undefined, zoom: Space | undefined): PtzAxes => ({
  pan: panTilt?.XRange ?? null,
  tilt: panTilt?.YRange ?? null,
  zoom: zoom?.XRange ?? null,
})

const toNode = (shape: typeof nodeShape.Type): PtzNode => {
  const all = present(shape.supportedPTZSpaces)
  const first = (list: ReadonlyArray<Space> | "" | undefined) => present(list)?.[0]
  const tours = present(present(shape.extension)?.supportedPresetTour)
  return {
    token: shape.$token,
    name: shape.name ?? shape.$token,
    absolute: axes(first(all?.absolutePanTiltPositionSpace), first(all?.absoluteZoomPositionSpace)),
    relative: axes(first(all?.relativePanTiltTranslationSpace), first(all?.relativeZoomTranslationSpace)),
    continuous: axes(first(all?.continuousPanTiltVelocitySpace), first(all?.continuousZoomVelocitySpace)),
    maxPresets: shape.maximumNumberOfPresets ?? null,
    homeSupported: isTrue(shape.homeSupported),
    homeFixed: shape.$FixedHomePosition === undefined ? null : isTrue(shape.$FixedHomePosition),
    tours: tours === null || tours.maximumNumberOfPresetTours < 1 ? null : {
      max: tours.maximumNumberOfPresetTours,
      operations: (present(tours.PTZPresetTourOperation) ?? []).flatMap((word) =>
        Object.hasOwn(operations, word) ? [operations[word as keyof typeof operations]] : []
      ),
    },
    auxiliaryCommands: (present(shape.auxiliaryCommands) ?? []).filter((word) => word !== ""),
  }
}

const toConfiguration = (shape: ConfigurationShape): PtzConfiguration => {
  const speed = present(shape.defaultPTZSpeed)
  return {
    token: shape.$token,
    name: shape.name ?? shape.$token,
    useCount: shape.useCount ?? 0,
    nodeToken: shape.nodeToken,
    defaultSpeed: speed === null ? null : toPosition(speed),
    defaultTimeoutMs: shape.defaultPTZTimeout === undefined ? null : durationMs(shape.defaultPTZTimeout),
    limits: axes(present(shape.panTiltLimits)?.range, present(shape.zoomLimits)?.range),
  }
}

const states = { idle: "idle", touring: "touring", paused: "paused" } as const
const toTour = (shape: typeof tourShape.Type): PresetTour => {
  const state = (present(shape.status)?.state ?? "").trim().toLowerCase()
  return {
    token: shape.$token,
    name: shape.name ?? "",
    state: Object.hasOwn(states, state) ? states[state as keyof typeof states] : "unknown",
    autoStart: isTrue(shape.autoStart),
    spots: (present(shape.tourSpot) ?? []).map(({ presetDetail, stayTime }) => {
      const ms = stayTime === undefined ? null : durationMs(stayTime)
      return {
        presetToken: present(presetDetail)?.presetToken ?? null,
        home: isTrue(present(presetDetail)?.home),
        staySeconds: ms === null ? null : ms / 1000,
      }
    }),
  }
}

const rangeXml = (name: string, { max, min }: Range) =>
  `<tt:${name}><tt:Min>${min}</tt:Min><tt:Max>${max}</tt:Max></tt:${name}>`
const limitXml = (name: string, { URI, XRange, YRange }: Space) =>
  `<tt:${name}><tt:Range><tt:URI>${escaped(URI ?? "")}</tt:URI>${rangeXml("XRange", XRange)}${
    YRange === undefined ? "" : rangeXml("YRange", YRange)
  }</tt:Range></tt:${name}>`

/** The configuration as it was told, with limits as wide as its node. */
const widest = (shape: ConfigurationShape, node: typeof nodeShape.Type): string => {
  const all = present(node.supportedPTZSpaces)
  const panTilt = present(all?.absolutePanTiltPositionSpace)?.[0]
  const zoom = present(all?.absoluteZoomPositionSpace)?.[0]
  const speed = present(shape.defaultPTZSpeed)
  const told = spaceNames.map((name) => {
    const uri = shape[name]
    const tag = `${name.charAt(0).toUpperCase()}${name.slice(1)}`
    return uri === undefined ? "" : `<tt:${tag}>${escaped(uri)}</tt:${tag}>`
  }).join("")
  const panTiltSpeed = speed === null ? null : present(speed.panTilt)
  const zoomSpeed = speed === null ? null : present(speed.zoom)
  return `<PTZConfiguration token="${escaped(shape.$token)}"><tt:Name>${
    escaped(shape.name ?? shape.$token)
  }</tt:Name>` +
    `<tt:UseCount>${shape.useCount ?? 0}</tt:UseCount><tt:NodeToken>${escaped(shape.nodeToken)}</tt:NodeToken>${told}` +
    (speed === null ?
      "" :
      `<tt:DefaultPTZSpeed>${
        panTiltSpeed === null ? "" : `<tt:PanTilt x="${panTiltSpeed.$x}" y="${panTiltSpeed.$y}"/>`
      }${zoomSpeed === null ? "" : `<tt:Zoom x="${zoomSpeed.$x}"/>`}</tt:DefaultPTZSpeed>`) +
    (shape.defaultPTZTimeout === undefined ?
      "" :
      `<tt:DefaultPTZTimeout>${escaped(shape.defaultPTZTimeout)}</tt:DefaultPTZTimeout>`) +
    (panTilt === undefined ? "" : limitXml("PanTiltLimits", panTilt)) +
    (zoom === undefined ? "" : limitXml("ZoomLimits", zoom)) +
    `</PTZConfiguration><ForcePersistence>true</ForcePersistence>`
}

type Profiles = Effect.Effect<ReadonlyArray<MediaProfile>, DeviceError>
const ofPtz = <S extends Schema.Codec<unknown, unknown>>(
  client: OnvifClient,
  operation: string,
  body: string,
  reply: S,
) => client.call({ service: "ptz", operation, body, reply })

const setupOf = (client: OnvifClient, profiles: Profiles) => {
  const nodes = Effect.map(ofPtz(client, "GetNodes", "", nodesShape), (found) => present(found)?.PTZNode ?? [])
  const configurations = Effect.map(
    ofPtz(client, "GetConfigurations", "", configurationsShape),
    (found) => present(found)?.PTZConfiguration ?? [],
  )
  /** Of the profile; of the first that can move, where none is named. */
  const ownToken = Effect.fnUntraced(function*(operation: string, profile: string | null) {
    const able = (yield* profiles).filter((one) => one.ptzToken !== null)
    const found = profile === null ? able[0] : able.find((one) => one.token === profile)
    if (found === undefined || found.ptzToken === null) {
      const detail = profile === null ? "no profile of it can move" : "that profile cannot move"
      return yield* new OnvifOperationUnsupported({ operation, detail })
    }
    return found.ptzToken
  })
  const own = Effect.fnUntraced(function*(operation: string, token: string) {
    const shape = (yield* configurations).find((one) => one.$token === token)
    return shape ?? (yield* new CameraRefused({ operation, detail: "it has no such PTZ configuration" }))
  })
  const widen = Effect.fnUntraced(function*(profile: string | null): Effect.fn.Return<PtzConfiguration, DeviceError> {
    const operation = "SetConfiguration"
    const token = yield* ownToken(operation, profile)
    const shape = yield* own(operation, token)
    const node = (yield* nodes).find((one) => one.$token === shape.nodeToken)
    if (node === undefined) return yield* new CameraRefused({ operation, detail: "it has no such PTZ node" })
    yield* ofPtz(client, operation, widest(shape, node), Schema.Unknown)
    return toConfiguration(yield* own(operation, token))
  })
  return {
    nodes: Effect.map(nodes, (found) => found.map(toNode)),
    configurations: Effect.map(configurations, (found) => found.map(toConfiguration)),
    widen,
  }
}

export const onvifTours = (client: OnvifClient, profiles: Profiles): DeviceTours => {
  const named = namedProfile(profiles)
  const call = <S extends Schema.Codec<unknown, unknown>>(
    operation: string,
    profile: string | null,
    body: string,
    reply: S,
  ) =>
    Effect.flatMap(
      named(operation, profile),
      (token) => ofPtz(client, operation, `<ProfileToken>${escaped(token)}</ProfileToken>${body}`, reply),
    )
  const tourToken = (token: string) => `<PresetTourToken>${escaped(token)}</PresetTourToken>`
  const remove = (profile: string | null, token: string) =>
    Effect.asVoid(call("RemovePresetTour", profile, tourToken(token), Schema.Unknown))
  const words = { start: "Start", stop: "Stop", pause: "Pause" } as const
  return {
    ...setupOf(client, profiles),
    tours: (profile) =>
      Effect.map(
        call("GetPresetTours", profile, "", toursShape),
        (found) => (present(found)?.presetTour ?? []).map(toTour),
      ),
    createTour: Effect.fnUntraced(function*(profile, { autoStart, name, spots }) {
      const { presetTourToken: token } = yield* call(
        "CreatePresetTour",
        profile,
        "",
        Schema.Struct({ presetTourToken: text }),
      )
      const written = spots.map(({ presetToken, staySeconds }) =>
        `<tt:TourSpot><tt:PresetDetail><tt:PresetToken>${escaped(presetToken)}</tt:PresetToken></tt:PresetDetail>` +
        `<tt:StayTime>PT${staySeconds}S</tt:StayTime></tt:TourSpot>`
      ).join("")
      const body =
        `<PresetTour token="${escaped(token)}"><tt:Name>${escaped(name)}</tt:Name><tt:Status><tt:State>Idle` +
        `</tt:State></tt:Status><tt:AutoStart>${autoStart}</tt:AutoStart><tt:StartingCondition/>${written}</PresetTour>`
      yield* call("ModifyPresetTour", profile, body, Schema.Unknown).pipe(
        Effect.onError(() => Effect.ignore(remove(profile, token))),
      )
      return token
    }),
    removeTour: remove,
    operateTour: (profile, token, operation) =>
      Effect.asVoid(
        call(
          "OperatePresetTour",
          profile,
          `${tourToken(token)}<Operation>${words[operation]}</Operation>`,
          Schema.Unknown,
        ),
      ),
  }
}
