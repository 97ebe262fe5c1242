/** Imaging of the simulated device: one source, with levels, an infrared filter and a focus. */
import { invalid, type Part, type Request, unsupported } from "./soap.ts"
import type { State } from "./state.ts"

const levels = ["Brightness", "ColorSaturation", "Contrast", "Sharpness"] as const
const range = (name: string) => `<tt:${name}><tt:Min>0</tt:Min><tt:Max>100</tt:Max></tt:${name}>`

const limits = (name: string, low: number, high: number) =>
  `<tt:${name}><tt:Min>${low}</tt:Min><tt:Max>${high}</tt:Max></tt:${name}>`

/** Relative moves it has none. */
const moveOptions = `<timg:MoveOptions><tt:Absolute>${limits("Position", 0, 1)}${limits("Speed", 0, 1)}</tt:Absolute>` +
  `<tt:Continuous>${limits("Speed", -1, 1)}</tt:Continuous></timg:MoveOptions>`

const moveFocus = ({ configuration }: State, focus: Part): void => {
  if (focus.at("Absolute").has) configuration.focus = focus.at("Absolute").number("Position", configuration.focus)
  else if (focus.at("Continuous").has) configuration.focusSpeed = focus.at("Continuous").number("Speed", 0)
  else throw invalid("SettingsInvalid", "The focus cannot move so")
}

export const imaging = (state: State, { body, operation }: Request): string => {
  const token = body.at("VideoSourceToken").text
  if (token !== "source-1") throw invalid("NoSource", `Source ${token} does not exist`)
  const { picture } = state
  switch (operation) {
    case "GetImagingSettings":
      return `<timg:ImagingSettings><tt:Brightness>${picture.Brightness}</tt:Brightness><tt:ColorSaturation>` +
        `${picture.ColorSaturation}</tt:ColorSaturation><tt:Contrast>${picture.Contrast}</tt:Contrast><tt:IrCutFilter>` +
        `${picture.IrCutFilter}</tt:IrCutFilter><tt:Sharpness>${picture.Sharpness}</tt:Sharpness></timg:ImagingSettings>`
    case "GetOptions":
      return `<timg:ImagingOptions>${range("Brightness")}${range("ColorSaturation")}${range("Contrast")}` +
        `<tt:IrCutFilterModes>ON</tt:IrCutFilterModes><tt:IrCutFilterModes>AUTO</tt:IrCutFilterModes>` +
        `${range("Sharpness")}</timg:ImagingOptions>`
    case "SetImagingSettings": {
      const change = body.at("ImagingSettings")
      for (const level of levels) picture[level] = change.number(level, picture[level])
      picture.IrCutFilter = change.at("IrCutFilter").text || picture.IrCutFilter
      return ""
    }
    case "GetMoveOptions":
      return moveOptions
    case "Move":
      moveFocus(state, body.at("Focus"))
      return ""
    case "Stop":
      state.configuration.focusSpeed = 0
      return ""
    default:
      throw unsupported(operation)
  }
}
