/** Media 1 and Media 2 of the simulated device: two profiles over one video source, each with an encoder of its own. */
import type { Encoder } from "./options.ts"
import { osd } from "./osd.ts"
import { escape, invalid, type Part, type Request, unsupported } from "./soap.ts"
import { audioEncoder, sources, videoSource } from "./sources.ts"
import type { State } from "./state.ts"

const roles = ["main", "sub"] as const
type Role = (typeof roles)[number]

const encoder1 = (one: Encoder, tag: string): string =>
  `<${tag} token="${one.token}"><tt:Name>${escape(one.name)}</tt:Name><tt:UseCount>1</tt:UseCount>` +
  `<tt:Encoding>${one.encoding}</tt:Encoding><tt:Resolution><tt:Width>${one.width}</tt:Width><tt:Height>${one.height}` +
  `</tt:Height></tt:Resolution><tt:Quality>${one.quality}</tt:Quality><tt:RateControl><tt:FrameRateLimit>${one.frameRate}` +
  `</tt:FrameRateLimit><tt:EncodingInterval>1</tt:EncodingInterval><tt:BitrateLimit>${one.bitrate}</tt:BitrateLimit>` +
  `</tt:RateControl><tt:H264><tt:GovLength>${one.govLength}</tt:GovLength><tt:H264Profile>${one.profile}</tt:H264Profile>` +
  `</tt:H264><tt:SessionTimeout>PT60S</tt:SessionTimeout></${tag}>`
const encoder2 = (one: Encoder, tag: string): string =>
  `<${tag} token="${one.token}" GovLength="${one.govLength}" Profile="${one.profile}"><tt:Name>${
    escape(one.name)
  }</tt:Name>` +
  `<tt:UseCount>1</tt:UseCount><tt:Encoding>${one.encoding}</tt:Encoding><tt:Resolution><tt:Width>${one.width}</tt:Width>` +
  `<tt:Height>${one.height}</tt:Height></tt:Resolution><tt:RateControl><tt:FrameRateLimit>${one.frameRate}` +
  `</tt:FrameRateLimit><tt:BitrateLimit>${one.bitrate}</tt:BitrateLimit></tt:RateControl><tt:Quality>${one.quality}` +
  `</tt:Quality></${tag}>`

const ptz = `token="ptz-1"><tt:Name>PTZ</tt:Name><tt:UseCount>1</tt:UseCount><tt:NodeToken>node-1</tt:NodeToken>`

const profile1 = (state: State, role: Role): string =>
  `<trt:Profiles token="${role}" fixed="true"><tt:Name>${role}</tt:Name><tt:VideoSourceConfiguration ${
    videoSource(state)
  }` +
  `</tt:VideoSourceConfiguration>${encoder1(state.encoders[role], "tt:VideoEncoderConfiguration")}` +
  (role === "main" ?
    `<tt:AudioEncoderConfiguration ${audioEncoder(state, "trt")}</tt:AudioEncoderConfiguration>` :
    "") +
  (state.quirks.noPtz ? "" : `<tt:PTZConfiguration ${ptz}</tt:PTZConfiguration>`) + `</trt:Profiles>`
const profile2 = (state: State, role: Role): string =>
  `<tr2:Profiles token="${role}" fixed="true"><tr2:Name>${role}</tr2:Name><tr2:Configurations><tr2:VideoSource ${
    videoSource(state)
  }` +
  `</tr2:VideoSource>${encoder2(state.encoders[role], "tr2:VideoEncoder")}` +
  (role === "main" ? `<tr2:AudioEncoder ${audioEncoder(state, "tr2")}</tr2:AudioEncoder>` : "") +
  (state.quirks.noPtz ? "" : `<tr2:PTZ ${ptz}</tr2:PTZ>`) + `</tr2:Configurations></tr2:Profiles>`

export const resolutions = [[1920, 1080], [1280, 720], [640, 360], [320, 180]] as const
const sizes = (prefix: string) =>
  resolutions.map(([width, height]) =>
    `<${prefix}:ResolutionsAvailable><tt:Width>${width}</tt:Width><tt:Height>${height}</tt:Height>` +
    `</${prefix}:ResolutionsAvailable>`
  ).join("")
const range = (tag: string, min: number, max: number) =>
  `<${tag}><tt:Min>${min}</tt:Min><tt:Max>${max}</tt:Max></${tag}>`

const options1 =
  `<trt:Options>${range("tt:QualityRange", 0, 100)}<tt:H264>${sizes("tt")}${range("tt:GovLengthRange", 1, 400)}` +
  `${range("tt:FrameRateRange", 1, 25)}${range("tt:EncodingIntervalRange", 1, 1)}` +
  `<tt:H264ProfilesSupported>Main</tt:H264ProfilesSupported></tt:H264><tt:Extension><tt:H264>${sizes("tt")}` +
  `${range("tt:GovLengthRange", 1, 400)}${range("tt:FrameRateRange", 1, 25)}${
    range("tt:EncodingIntervalRange", 1, 1)
  }` +
  `<tt:H264ProfilesSupported>Main</tt:H264ProfilesSupported>${
    range("tt:BitrateRange", 64, 8192)
  }</tt:H264></tt:Extension>` +
  `</trt:Options>`
const options2 = (["H264", "H265"] as const).map((encoding) =>
  `<tr2:Options GovLengthRange="1 400" FrameRatesSupported="25 20 15 10 5 1" ProfilesSupported="Main High">` +
  `<tt:Encoding>${encoding}</tt:Encoding>${range("tt:QualityRange", 0, 100)}${sizes("tt")}` +
  `${range("tt:BitrateRange", 64, 8192)}</tr2:Options>`
).join("")

const roleOf = (token: string): Role => {
  const role = roles.find((one) => one === token)
  if (role === undefined) throw invalid("NoProfile", `Profile ${token} does not exist`)
  return role
}
const encoderRole = (state: State, token: string): Role => {
  const role = roles.find((one) => state.encoders[one].token === token)
  if (role === undefined) throw invalid("NoConfig", `Configuration ${token} does not exist`)
  return role
}

/** Takes the change over, as a device does: refuses what it cannot, and tells the streams. */
const setEncoder = (state: State, change: Part): void => {
  const role = encoderRole(state, change.attribute("token") ?? "")
  const now = state.encoders[role]
  const width = change.at("Resolution").number("Width", now.width)
  const height = change.at("Resolution").number("Height", now.height)
  if (!resolutions.some((one) => one[0] === width && one[1] === height)) {
    throw invalid("ConfigModify", "Resolution is not supported")
  }
  const encoding = change.at("Encoding").text
  if (encoding !== "H264" && encoding !== "H265") throw invalid("ConfigModify", "Encoding is not supported")
  Object.assign(now, {
    name: change.at("Name").text,
    encoding,
    width,
    height,
    quality: change.number("Quality", now.quality),
    frameRate: change.at("RateControl").number("FrameRateLimit", now.frameRate),
    bitrate: change.at("RateControl").number("BitrateLimit", now.bitrate),
    govLength: Number(change.attribute("GovLength") ?? change.at("H264").number("GovLength", now.govLength)),
  })
  state.options.onEncoder(role, now)
}

const uri = (state: State, body: Part, kind: "GetStreamUri" | "GetSnapshotUri"): string => {
  const role = roleOf(body.at("ProfileToken").text)
  const address = kind === "GetStreamUri" ? state.options.streams[role] : `${state.base}/snapshot/${role}.jpg`
  const { namedHost } = state.quirks
  if (namedHost === null) return escape(address)
  const url = new URL(address)
  url.hostname = namedHost
  return escape(url.href)
}

/** What both services have alike; null: this is none of it. */
const shared = (state: State, request: Request, prefix: "trt" | "tr2"): string | null =>
  osd(state, request, prefix) ?? sources(state, request, prefix)

export const media1 = (state: State, request: Request): string => {
  const { body, operation } = request
  switch (operation) {
    case "GetProfiles":
      return roles.map((role) => profile1(state, role)).join("")
    case "GetStreamUri":
    case "GetSnapshotUri":
      return `<trt:MediaUri><tt:Uri>${uri(state, body, operation)}</tt:Uri><tt:InvalidAfterConnect>false` +
        `</tt:InvalidAfterConnect><tt:InvalidAfterReboot>false</tt:InvalidAfterReboot><tt:Timeout>PT0S</tt:Timeout></trt:MediaUri>`
    case "GetVideoEncoderConfigurations":
      return roles.map((role) => encoder1(state.encoders[role], "trt:Configurations")).join("")
    case "GetVideoEncoderConfigurationOptions":
      encoderRole(state, body.at("ConfigurationToken").text)
      return options1
    case "SetVideoEncoderConfiguration":
      setEncoder(state, body.at("Configuration"))
      return ""
    default: {
      const answer = shared(state, request, "trt")
      if (answer === null) throw unsupported(operation)
      return answer
    }
  }
}

export const media2 = (state: State, request: Request): string => {
  const { body, operation } = request
  if (state.quirks.media2Lacks.includes(operation)) throw unsupported(operation)
  if (state.quirks.media2Broken) throw invalid("ConfigurationConflict", "Media 2 is out of order")
  switch (operation) {
    case "GetProfiles":
      return roles.map((role) => profile2(state, role)).join("")
    case "GetStreamUri":
    case "GetSnapshotUri":
      return `<tr2:Uri>${uri(state, body, operation)}</tr2:Uri>`
    case "GetVideoEncoderConfigurations":
      return roles.map((role) => encoder2(state.encoders[role], "tr2:Configurations")).join("")
    case "GetVideoEncoderConfigurationOptions":
      encoderRole(state, body.at("ConfigurationToken").text)
      return options2
    case "SetVideoEncoderConfiguration":
      setEncoder(state, body.at("Configuration"))
      return ""
    default: {
      const answer = shared(state, request, "tr2")
      if (answer === null) throw unsupported(operation)
      return answer
    }
  }
}
