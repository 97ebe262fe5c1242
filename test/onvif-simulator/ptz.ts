/** PTZ of the simulated device: a position, a speed, presets and a home. */
import { escape, invalid, type Part, type Request, unsupported } from "./soap.ts"
import type { Position, State } from "./state.ts"
import { setup, tours } from "./tours.ts"

const clamped = (value: number, low: number) => Math.max(low, Math.min(1, value))

const read = (part: Part, otherwise: Position): Position => ({
  pan: Number(part.at("PanTilt").attribute("x") ?? otherwise.pan),
  tilt: Number(part.at("PanTilt").attribute("y") ?? otherwise.tilt),
  zoom: Number(part.at("Zoom").attribute("x") ?? otherwise.zoom),
})
const written = ({ pan, tilt, zoom }: Position) => `<tt:PanTilt x="${pan}" y="${tilt}"/><tt:Zoom x="${zoom}"/>`
const still: Position = { pan: 0, tilt: 0, zoom: 0 }
const within = ({ pan, tilt, zoom }: Position): Position => ({
  pan: clamped(pan, -1),
  tilt: clamped(tilt, -1),
  zoom: clamped(zoom, 0),
})

const preset = (state: State, token: string) => {
  const found = state.presets.find((one) => one.token === token)
  if (found === undefined) throw invalid("NoToken", `Preset ${token} does not exist`)
  return found
}

const setPreset = (state: State, body: Part): string => {
  const name = body.at("PresetName").text
  const asked = body.at("PresetToken").text
  if (asked !== "") {
    Object.assign(preset(state, asked), { name, position: { ...state.position } })
    return asked
  }
  state.presetCount += 1
  const token = `preset-${state.presetCount}`
  state.presets.push({ token, name, position: { ...state.position } })
  return token
}

/** A move at a speed is remembered, and ends after its `Timeout`, by the device's own clock. */
const moveOn = (state: State, body: Part): void => {
  const seconds = Number(/^PT([\d.]+)S$/.exec(body.at("Timeout").text)?.[1] ?? 60)
  state.settle()
  state.speed = read(body.at("Velocity"), still)
  state.movingUntilMs = state.quirks.ignoresMoveTime ? Number.POSITIVE_INFINITY : state.nowMs() + seconds * 1000
}

export const ptz = (state: State, request: Request): string => {
  const { body, operation } = request
  if (state.quirks.noPtz) throw unsupported(operation)
  const set = setup(state, request)
  if (set !== null) return set
  const profile = body.at("ProfileToken").text
  if (profile !== "main" && profile !== "sub") throw invalid("NoProfile", `Profile ${profile} does not exist`)
  switch (operation) {
    case "GetStatus": {
      state.settle()
      const word = state.speed === null ? "IDLE" : "MOVING"
      return `<tptz:PTZStatus><tt:Position>${written(state.position)}</tt:Position><tt:MoveStatus><tt:PanTilt>${word}` +
        `</tt:PanTilt><tt:Zoom>${word}</tt:Zoom></tt:MoveStatus><tt:Error>NO error</tt:Error></tptz:PTZStatus>`
    }
    case "ContinuousMove":
      moveOn(state, body)
      return ""
    case "AbsoluteMove":
      state.halt()
      state.position = within(read(body.at("Position"), state.position))
      return ""
    case "RelativeMove": {
      state.halt()
      const by = read(body.at("Translation"), still)
      const { pan, tilt, zoom } = state.position
      state.position = within({ pan: pan + by.pan, tilt: tilt + by.tilt, zoom: zoom + by.zoom })
      return ""
    }
    case "Stop":
      state.halt()
      return ""
    case "GetPresets":
      return state.presets.map((one) =>
        `<tptz:Preset token="${one.token}"><tt:Name>${escape(one.name)}</tt:Name><tt:PTZPosition>${
          written(one.position)
        }` +
        `</tt:PTZPosition></tptz:Preset>`
      ).join("")
    case "SetPreset":
      return `<tptz:PresetToken>${setPreset(state, body)}</tptz:PresetToken>`
    case "RemovePreset":
      state.presets.splice(state.presets.indexOf(preset(state, body.at("PresetToken").text)), 1)
      return ""
    case "GotoPreset":
      state.halt()
      state.position = { ...preset(state, body.at("PresetToken").text).position }
      return ""
    case "SetHomePosition":
      state.home = { ...state.position }
      return ""
    case "GotoHomePosition":
      state.halt()
      state.position = { ...state.home }
      return ""
    default:
      return tours(state, request)
  }
}
