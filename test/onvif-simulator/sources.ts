/** The simulated device's one video source, its microphone and its audio encoder, by both media services. */
import { escape, invalid, type Part, type Request } from "./soap.ts"
import type { State } from "./state.ts"

const range = (name: string, min: number, max: number) =>
  `<tt:${name}><tt:Min>${min}</tt:Min><tt:Max>${max}</tt:Max></tt:${name}>`

/** Attributes and content of a video source configuration. */
export const videoSource = ({ configuration: { videoSource: own } }: State): string =>
  `token="vsc"><tt:Name>${
    escape(own.name)
  }</tt:Name><tt:UseCount>2</tt:UseCount><tt:SourceToken>source-1</tt:SourceToken>` +
  `<tt:Bounds x="${own.x}" y="${own.y}" width="${own.width}" height="${own.height}"/><tt:Extension><tt:Rotate><tt:Mode>${own.mode}` +
  `</tt:Mode>${own.degrees === "" ? "" : `<tt:Degree>${own.degrees}</tt:Degree>`}</tt:Rotate></tt:Extension>`

const videoOptions =
  `<tt:BoundsRange>${range("XRange", 0, 960)}${range("YRange", 0, 540)}${range("WidthRange", 960, 1920)}` +
  `${
    range("HeightRange", 540, 1080)
  }</tt:BoundsRange><tt:VideoSourceTokensAvailable>source-1</tt:VideoSourceTokensAvailable>` +
  `<tt:Extension><tt:Rotate><tt:Mode>OFF</tt:Mode><tt:Mode>ON</tt:Mode><tt:DegreeList><tt:Items>90</tt:Items>` +
  `<tt:Items>180</tt:Items></tt:DegreeList></tt:Rotate></tt:Extension>`

const setVideo = ({ configuration: { videoSource: own } }: State, told: Part): void => {
  if (told.attribute("token") !== "vsc") throw invalid("NoConfig", "No such configuration")
  const bounds = told.at("Bounds")
  const [x, y, width, height] = ["x", "y", "width", "height"].map((name) => Number(bounds.attribute(name)))
  if (x! + width! > 1920 || y! + height! > 1080) throw invalid("ConfigModify", "Bounds leave the picture")
  const rotate = told.at("Extension", "Rotate")
  Object.assign(own, { name: told.at("Name").text, x, y, width, height })
  if (rotate.has) Object.assign(own, { mode: rotate.at("Mode").text, degrees: rotate.at("Degree").text })
}

/** Media 1 and Media 2 do not call encodings alike. */
const spelt = { trt: { AAC: "AAC", G711: "G711" }, tr2: { AAC: "MP4A-LATM", G711: "PCMU" } } as const
const list = (name: string, items: ReadonlyArray<number>) =>
  `<tt:${name}>${items.map((one) => `<tt:Items>${one}</tt:Items>`).join("")}</tt:${name}>`

export const audioEncoder = ({ configuration: { audio } }: State, prefix: "trt" | "tr2"): string => {
  const multicast = "<tt:Multicast><tt:Address><tt:Type>IPv4</tt:Type></tt:Address></tt:Multicast>"
  return `token="audio"><tt:Name>${escape(audio.name)}</tt:Name><tt:UseCount>1</tt:UseCount><tt:Encoding>` +
    `${spelt[prefix][audio.encoding as "AAC"]}</tt:Encoding>${
      prefix === "tr2" ? multicast : ""
    }<tt:Bitrate>${audio.bitrate}` +
    `</tt:Bitrate><tt:SampleRate>${audio.sampleRate}</tt:SampleRate>${
      prefix === "trt" ? `${multicast}<tt:SessionTimeout>PT60S</tt:SessionTimeout>` : ""
    }`
}

const audioOptions = (prefix: "trt" | "tr2"): string => {
  const tag = prefix === "trt" ? "tt:Options" : "tr2:Options"
  const each = `<${tag}><tt:Encoding>${spelt[prefix].G711}</tt:Encoding>${list("BitrateList", [64])}` +
    `${list("SampleRateList", [8])}</${tag}><${tag}><tt:Encoding>${spelt[prefix].AAC}</tt:Encoding>` +
    `${list("BitrateList", [32, 64, 128])}${list("SampleRateList", [16, 48])}</${tag}>`
  return prefix === "trt" ? `<trt:Options>${each}</trt:Options>` : each
}

const setAudio = ({ configuration: { audio } }: State, told: Part, prefix: "trt" | "tr2"): void => {
  if (told.attribute("token") !== "audio") throw invalid("NoConfig", "No such configuration")
  const asked = told.at("Encoding").text
  const encoding = (["AAC", "G711"] as const).find((one) => spelt[prefix][one] === asked)
  if (encoding === undefined) throw invalid("ConfigModify", `Encoding ${asked} is not supported`)
  Object.assign(audio, {
    encoding,
    bitrate: told.number("Bitrate", audio.bitrate),
    sampleRate: told.number("SampleRate", audio.sampleRate),
  })
}

/** Null: it is no request about these. */
export const sources = (state: State, { body, operation }: Request, prefix: "trt" | "tr2"): string | null => {
  const tag = `${prefix}:Configurations`
  const own = (token: string) => {
    if (body.at("ConfigurationToken").text !== token) throw invalid("NoConfig", "No such configuration")
  }
  switch (operation) {
    case "GetVideoSourceConfigurations":
      return `<${tag} ${videoSource(state)}</${tag}>`
    case "GetVideoSourceConfigurationOptions":
      own("vsc")
      return `<${prefix}:Options>${videoOptions}</${prefix}:Options>`
    case "SetVideoSourceConfiguration":
      setVideo(state, body.at("Configuration"))
      return ""
    case "GetAudioSourceConfigurations":
      return `<${tag} token="asc"><tt:Name>Microphone</tt:Name><tt:UseCount>1</tt:UseCount><tt:SourceToken>mic-1</tt:SourceToken></${tag}>`
    case "GetAudioEncoderConfigurations":
      return `<${tag} ${audioEncoder(state, prefix)}</${tag}>`
    case "GetAudioEncoderConfigurationOptions":
      own("audio")
      return audioOptions(prefix)
    case "SetAudioEncoderConfiguration":
      setAudio(state, body.at("Configuration"), prefix)
      return ""
    default:
      return null
  }
}
