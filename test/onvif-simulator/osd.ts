/** OSDs of the simulated device, by both media services: up to four in its one picture, one of them an image. */
import type { SimulatedOsd } from "./configuration.ts"
import { escape, invalid, type Part, type Request } from "./soap.ts"
import type { State } from "./state.ts"

const positions = ["UpperLeft", "UpperRight", "LowerLeft", "LowerRight", "Custom"] as const
const kinds = ["Plain", "Date", "Time", "DateAndTime"] as const
/** Text elements in the order of the schema. */
const before = ["Type", "DateFormat", "TimeFormat", "FontSize"] as const
export const imagePath = "/usr/share/logo.png"
const most = 4

const element = (name: string, text: string | undefined) =>
  text === undefined ? "" : `<tt:${name}>${escape(text)}</tt:${name}>`

const written = (osd: SimulatedOsd, tag: string): string => {
  const { color, place, text } = osd
  const words = before.map((name) => element(name, text.get(name))).join("") +
    (color === null ?
      "" :
      `<tt:FontColor Transparent="${color[0]}"><tt:Color X="${color[1]}" Y="${color[2]}" Z="${color[3]}" ` +
      `Colorspace="http://www.onvif.org/ver10/colorspace/YCbCr"/></tt:FontColor>`) +
    element("PlainText", text.get("PlainText"))
  return `<${tag} token="${osd.token}"><tt:VideoSourceConfigurationToken>vsc</tt:VideoSourceConfigurationToken>` +
    `<tt:Type>${osd.type}</tt:Type><tt:Position><tt:Type>${osd.position}</tt:Type>` +
    (place === null ? "" : `<tt:Pos x="${place[0]}" y="${place[1]}"/>`) + `</tt:Position>` +
    (osd.type === "Text" ?
      `<tt:TextString IsPersistentText="true">${words}</tt:TextString>` :
      `<tt:Image><tt:ImgPath>${escape(osd.imagePath)}</tt:ImgPath></tt:Image>`) +
    `</${tag}>`
}

const options = (tag: string) =>
  `<${tag}><tt:MaximumNumberOfOSDs Total="${most}" Image="1" PlainText="3" Date="1" Time="1" DateAndTime="1"/>` +
  `<tt:Type>Text</tt:Type><tt:Type>Image</tt:Type>` +
  positions.map((one) => `<tt:PositionOption>${one}</tt:PositionOption>`).join("") +
  `<tt:TextOption>${kinds.map((one) => `<tt:Type>${one}</tt:Type>`).join("")}` +
  `<tt:FontSizeRange><tt:Min>16</tt:Min><tt:Max>64</tt:Max></tt:FontSizeRange>` +
  `<tt:DateFormat>yyyy-MM-dd</tt:DateFormat><tt:DateFormat>MM/dd/yyyy</tt:DateFormat><tt:TimeFormat>HH:mm:ss</tt:TimeFormat>` +
  `<tt:FontColor><tt:Color><tt:ColorList X="82" Y="-26" Z="97" Colorspace="http://www.onvif.org/ver10/colorspace/YCbCr"/>` +
  `<tt:ColorList X="16" Y="0" Z="0" Colorspace="http://www.onvif.org/ver10/colorspace/YCbCr"/></tt:Color>` +
  `<tt:Transparent><tt:Min>0</tt:Min><tt:Max>15</tt:Max></tt:Transparent></tt:FontColor></tt:TextOption>` +
  `<tt:ImageOption FormatsSupported="png"><tt:ImagePath>${imagePath}</tt:ImagePath></tt:ImageOption></${tag}>`

const find = (state: State, token: string): SimulatedOsd => {
  const osd = state.configuration.osds.find((one) => one.token === token)
  if (osd === undefined) throw invalid("NoOSD", `OSD ${token} does not exist`)
  return osd
}

/** As strict as real devices: what its options forbid is a fault. */
const read = (told: Part, token: string): SimulatedOsd => {
  if (told.at("VideoSourceConfigurationToken").text !== "vsc") throw invalid("NoConfig", "No such source")
  const position = told.at("Position", "Type").text
  if (!positions.some((one) => one === position)) throw invalid("ConfigModify", "Position is not supported")
  const pos = told.at("Position", "Pos")
  if (position === "Custom" && pos.attribute("x") === null) throw invalid("ConfigModify", "A custom position needs Pos")
  const words = told.at("TextString")
  const color = words.at("FontColor", "Color")
  const text = new Map(
    [...before, "PlainText"].filter((name) => words.at(name).has).map((name) => [name, words.at(name).text] as const),
  )
  if (words.has && !kinds.some((one) => one === text.get("Type"))) {
    throw invalid("ConfigModify", "Text is not supported")
  }
  return {
    token,
    type: told.at("Type").text,
    position,
    place: pos.has ? [pos.attribute("x") ?? "", pos.attribute("y") ?? ""] : null,
    text,
    color: color.has ?
      [
        words.at("FontColor").attribute("Transparent") ?? "0",
        color.attribute("X") ?? "",
        color.attribute("Y") ?? "",
        color.attribute("Z") ?? "",
      ] :
      null,
    imagePath: told.at("Image", "ImgPath").text,
  }
}

/** Null: it is no request about OSDs. `prefix`: of the service's own elements. */
export const osd = (state: State, { body, operation }: Request, prefix: "trt" | "tr2"): string | null => {
  const { configuration } = state
  const { osds } = configuration
  switch (operation) {
    case "GetOSDs":
      return osds.map((one) => written(one, `${prefix}:OSDs`)).join("")
    case "GetOSDOptions":
      if (body.at("ConfigurationToken").text !== "vsc") throw invalid("NoConfig", "No such source")
      return options(`${prefix}:OSDOptions`)
    case "CreateOSD": {
      if (osds.length >= most) throw invalid("MaxOSDs", "There are as many OSDs as there may be")
      configuration.osdCount += 1
      const made = read(body.at("OSD"), `osd-${configuration.osdCount}`)
      osds.push(made)
      return `<${prefix}:OSDToken>${made.token}</${prefix}:OSDToken>`
    }
    case "SetOSD": {
      const old = find(state, body.at("OSD").attribute("token") ?? "")
      osds[osds.indexOf(old)] = read(body.at("OSD"), old.token)
      return ""
    }
    case "DeleteOSD":
      osds.splice(osds.indexOf(find(state, body.at("OSDToken").text)), 1)
      return ""
    default:
      return null
  }
}
