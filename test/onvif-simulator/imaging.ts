/** Imaging of the simulated device: one source, with levels and an infrared filter. */
import { invalid, type Request, unsupported } from "./soap.ts"
import type { State } from "./state.ts"

const levels = ["Brightness", "ColorSaturation", "Contrast", "Sharpness"] as const
const range = (name: string) => `<tt:${name}><tt:Min>0</tt:Min><tt:Max>100</tt:Max></tt:${name}>`

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
    default:
      throw unsupported(operation)
  }
}
