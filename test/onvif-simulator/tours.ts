/** What moves in the simulated device, its PTZ configuration, and the tours that it keeps. */
import { escape, invalid, type Part, type Request, unsupported } from "./soap.ts"
import type { State } from "./state.ts"

const spaces = "http://www.onvif.org/ver10/tptz"
const range = (name: string, [min, max]: readonly [number, number]) =>
  `<tt:${name}><tt:Min>${min}</tt:Min><tt:Max>${max}</tt:Max></tt:${name}>`
const panTilt = (name: string, uri: string, both: readonly [number, number]) =>
  `<tt:${name}><tt:URI>${spaces}/PanTiltSpaces/${uri}</tt:URI>${range("XRange", both)}${
    range("YRange", both)
  }</tt:${name}>`
const zoom = (name: string, uri: string, one: readonly [number, number]) =>
  `<tt:${name}><tt:URI>${spaces}/ZoomSpaces/${uri}</tt:URI>${range("XRange", one)}</tt:${name}>`

const node = (state: State): string =>
  `<tptz:PTZNode token="node-1" FixedHomePosition="false"><tt:Name>Dome</tt:Name><tt:SupportedPTZSpaces>` +
  panTilt("AbsolutePanTiltPositionSpace", "PositionGenericSpace", [-1, 1]) +
  zoom("AbsoluteZoomPositionSpace", "PositionGenericSpace", [0, 1]) +
  panTilt("RelativePanTiltTranslationSpace", "TranslationGenericSpace", [-1, 1]) +
  zoom("RelativeZoomTranslationSpace", "TranslationGenericSpace", [-1, 1]) +
  panTilt("ContinuousPanTiltVelocitySpace", "VelocityGenericSpace", [-1, 1]) +
  zoom("ContinuousZoomVelocitySpace", "VelocityGenericSpace", [-1, 1]) +
  `</tt:SupportedPTZSpaces><tt:MaximumNumberOfPresets>100</tt:MaximumNumberOfPresets><tt:HomeSupported>true` +
  `</tt:HomeSupported><tt:AuxiliaryCommands>tt:Wiper|On</tt:AuxiliaryCommands>` +
  (state.quirks.noTours ?
    "" :
    `<tt:Extension><tt:SupportedPresetTour><tt:MaximumNumberOfPresetTours>4</tt:MaximumNumberOfPresetTours>` +
    `<tt:PTZPresetTourOperation>Start</tt:PTZPresetTourOperation><tt:PTZPresetTourOperation>Stop` +
    `</tt:PTZPresetTourOperation><tt:PTZPresetTourOperation>Extended</tt:PTZPresetTourOperation>` +
    `</tt:SupportedPresetTour></tt:Extension>`) +
  `</tptz:PTZNode>`

const configuration = ({ limits }: State): string =>
  `<tptz:PTZConfiguration token="ptz-1"><tt:Name>Dome &amp; zoom</tt:Name><tt:UseCount>2</tt:UseCount><tt:NodeToken>node-1` +
  `</tt:NodeToken><tt:DefaultContinuousPanTiltVelocitySpace>${spaces}/PanTiltSpaces/VelocityGenericSpace` +
  `</tt:DefaultContinuousPanTiltVelocitySpace><tt:DefaultPTZSpeed><tt:PanTilt x="0.5" y="0.5"/><tt:Zoom x="1"/>` +
  `</tt:DefaultPTZSpeed><tt:DefaultPTZTimeout>PT1M5.5S</tt:DefaultPTZTimeout><tt:PanTiltLimits>` +
  panTilt("Range", "PositionGenericSpace", limits.panTilt) + `</tt:PanTiltLimits><tt:ZoomLimits>` +
  zoom("Range", "PositionGenericSpace", limits.zoom) + `</tt:ZoomLimits></tptz:PTZConfiguration>`

const told = (part: Part, axis: "XRange" | "YRange"): readonly [number, number] => [
  part.at("Range", axis).number("Min", Number.NaN),
  part.at("Range", axis).number("Max", Number.NaN),
]

const setConfiguration = (state: State, asked: Part): string => {
  if (asked.attribute("token") !== "ptz-1") throw invalid("NoConfig", "There is no such configuration")
  const horizontal = told(asked.at("PanTiltLimits"), "XRange")
  const depth = told(asked.at("ZoomLimits"), "XRange")
  if (asked.at("NodeToken").text !== "node-1" || !horizontal.every((one) => Math.abs(one) <= 1) || depth[1] > 1) {
    throw invalid("ConfigModify", "That does not fit the node")
  }
  Object.assign(state.limits, { panTilt: horizontal, zoom: depth })
  return ""
}

/** Of those without a profile; null: it is none of them. */
export const setup = (state: State, { body, operation }: Request): string | null =>
  operation === "GetNodes" ?
    node(state) :
    operation === "GetConfigurations" ?
    configuration(state) :
    operation === "SetConfiguration" ?
    setConfiguration(state, body.at("PTZConfiguration")) :
    null

const tour = (state: State, token: string) => {
  const found = state.tours.find((one) => one.token === token)
  if (found === undefined) throw invalid("NoToken", `Tour ${token} does not exist`)
  return found
}

const modify = (state: State, asked: Part): string => {
  const found = tour(state, asked.attribute("token") ?? "")
  const spots = asked.all("TourSpot").map((spot) => ({
    preset: spot.at("PresetDetail", "PresetToken").text,
    stay: spot.at("StayTime").text,
  }))
  if (state.quirks.refusesSpots || spots.some(({ preset }) => !state.presets.some(({ token }) => token === preset))) {
    throw invalid("InvalidPresetTour", "A spot names no preset")
  }
  Object.assign(found, { name: asked.at("Name").text, autoStart: asked.at("AutoStart").text, spots })
  return ""
}

const operate = (state: State, token: string, word: string): string => {
  const found = tour(state, token)
  const next = { Start: "Touring", Stop: "Idle", Pause: "Paused" } as const
  if (!Object.hasOwn(next, word)) throw invalid("InvalidArgs", "There is no such operation")
  if (word === "Start" && found.spots.length === 0) throw invalid("ActivationFailed", "It has no spots")
  found.state = next[word as keyof typeof next]
  return ""
}

export const tours = (state: State, { body, operation }: Request): string => {
  if (state.quirks.noTours) throw unsupported(operation)
  const token = body.at("PresetTourToken").text
  switch (operation) {
    case "GetPresetTours":
      return state.tours.map((one) =>
        `<tptz:PresetTour token="${one.token}"><tt:Name>${
          escape(one.name)
        }</tt:Name><tt:Status><tt:State>${one.state}` +
        `</tt:State></tt:Status><tt:AutoStart>${one.autoStart}</tt:AutoStart><tt:StartingCondition/>` +
        one.spots.map(({ preset, stay }) =>
          `<tt:TourSpot><tt:PresetDetail><tt:PresetToken>${preset}</tt:PresetToken></tt:PresetDetail><tt:StayTime>${stay}` +
          `</tt:StayTime></tt:TourSpot>`
        ).join("") + `</tptz:PresetTour>`
      ).join("")
    case "CreatePresetTour": {
      if (state.tours.length >= 4) throw invalid("TooManyPresetTours", "It keeps four tours")
      state.tourCount += 1
      state.tours.push({ token: `tour-${state.tourCount}`, name: "", state: "Idle", autoStart: "false", spots: [] })
      return `<tptz:PresetTourToken>tour-${state.tourCount}</tptz:PresetTourToken>`
    }
    case "ModifyPresetTour":
      return modify(state, body.at("PresetTour"))
    case "OperatePresetTour":
      return operate(state, token, body.at("Operation").text)
    case "RemovePresetTour":
      state.tours.splice(state.tours.indexOf(tour(state, token)), 1)
      return ""
    default:
      throw unsupported(operation)
  }
}
