/**
 * A simulated ONVIF device: an HTTP server on loopback that remembers what it is told.
 *
 * ```ts
 * const device = await startDevice({ streams: { main: camera.url("main"), sub: camera.url("sub") } })
 * device.state.quirks.busy = true
 * await device.close()
 * ```
 *
 * Invariants
 * 1. It checks credentials itself: UsernameToken digests against its own clock, HTTP Digest with `qop=auth`; each nonce once.
 * 2. It counts connections that are open at once, and keeps the text of what it heard, so that a test can look for passwords.
 */
import { createHash, randomBytes } from "node:crypto"
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { events, pullPointOf, pullWaitMs } from "./events.ts"
import { imaging } from "./imaging.ts"
import { media1, media2 } from "./media.ts"
import { network } from "./network.ts"
import type { DeviceOptions } from "./options.ts"
import { servePicture } from "./picture.ts"
import { ptz } from "./ptz.ts"
import {
  escape,
  invalid,
  namespaces,
  type Part,
  readRequest,
  reply,
  type Request,
  type Service,
  SoapFault,
  unsupported,
} from "./soap.ts"
import { State } from "./state.ts"

/** A signature may be so far from the device's clock. */
const freshMs = 5_000
const prefixes = { device: "tds", media: "trt", media2: "tr2", ptz: "tptz", imaging: "timg", events: "tev" } as const
const paths: Readonly<Record<string, Service>> = {
  "/onvif/device_service": "device",
  "/onvif/media": "media",
  "/onvif/media2": "media2",
  "/onvif/ptz": "ptz",
  "/onvif/imaging": "imaging",
  "/onvif/events": "events",
}

const offered = (state: State): ReadonlyArray<Service> => [
  "device",
  "media",
  ...(state.quirks.media1Only ? [] : ["media2" as const]),
  ...(state.quirks.noPtz ? [] : ["ptz" as const]),
  ...(state.quirks.noImaging ? [] : ["imaging" as const]),
  ...(state.quirks.noEvents ? [] : ["events" as const]),
]
const addressOf = (state: State, service: Service): string => {
  const url = new URL(Object.entries(paths).find(([, name]) => name === service)![0], state.base)
  if (state.quirks.namedHost !== null) url.hostname = state.quirks.namedHost
  return url.href
}

const time = (state: State): string => {
  const at = new Date(state.nowMs())
  return `<tds:SystemDateAndTime><tt:DateTimeType>${state.clockMode}</tt:DateTimeType><tt:DaylightSavings>false</tt:DaylightSavings>` +
    `<tt:TimeZone><tt:TZ>${state.timeZone}</tt:TZ></tt:TimeZone>` +
    `<tt:UTCDateTime><tt:Time><tt:Hour>${at.getUTCHours()}</tt:Hour><tt:Minute>${at.getUTCMinutes()}</tt:Minute>` +
    `<tt:Second>${at.getUTCSeconds()}</tt:Second></tt:Time><tt:Date><tt:Year>${at.getUTCFullYear()}</tt:Year>` +
    `<tt:Month>${at.getUTCMonth() + 1}</tt:Month><tt:Day>${at.getUTCDate()}</tt:Day></tt:Date></tt:UTCDateTime>` +
    `</tds:SystemDateAndTime>`
}

const toldMs = (told: Part): number => {
  const date = told.at("Date")
  const time = told.at("Time")
  const day = [date.number("Year", 0), date.number("Month", 1) - 1, date.number("Day", 1)] as const
  return Date.UTC(...day, time.number("Hour", 0), time.number("Minute", 0), time.number("Second", 0))
}

const management = (state: State, request: Request): string => {
  const { body, operation } = request
  switch (operation) {
    case "GetSystemDateAndTime":
      return time(state)
    case "SetSystemDateAndTime": {
      state.clockMode = body.at("DateTimeType").text
      state.timeZone = body.at("TimeZone", "TZ").text || state.timeZone
      if (state.clockMode === "Manual") state.quirks.clockSkewMs = toldMs(body.at("UTCDateTime")) - Date.now()
      return ""
    }
    case "SystemReboot":
      return "<tds:Message>Back in a minute</tds:Message>"
    case "GetDeviceInformation":
      return `<tds:Manufacturer>Nightjar</tds:Manufacturer><tds:Model>Simulated &amp; stateful</tds:Model>` +
        `<tds:FirmwareVersion>1.0</tds:FirmwareVersion><tds:SerialNumber>${
          escape(state.options.serialNumber)
        }</tds:SerialNumber>` +
        `<tds:HardwareId>loopback</tds:HardwareId>`
    case "GetServices":
      if (state.quirks.noServices) throw unsupported(operation)
      return offered(state).map((service) =>
        `<tds:Service><tds:Namespace>${namespaces[service]}</tds:Namespace><tds:XAddr>${
          addressOf(state, service)
        }</tds:XAddr>` +
        `<tds:Version><tt:Major>2</tt:Major><tt:Minor>60</tt:Minor></tds:Version></tds:Service>`
      ).join("")
    case "GetCapabilities":
      return `<tds:Capabilities><tt:Device><tt:XAddr>${addressOf(state, "device")}</tt:XAddr></tt:Device><tt:Media>` +
        `<tt:XAddr>${addressOf(state, "media")}</tt:XAddr></tt:Media>` +
        (state.quirks.noPtz ? "" : `<tt:PTZ><tt:XAddr>${addressOf(state, "ptz")}</tt:XAddr></tt:PTZ>`) +
        (state.quirks.noImaging ?
          "" :
          `<tt:Imaging><tt:XAddr>${addressOf(state, "imaging")}</tt:XAddr></tt:Imaging>`) +
        `</tds:Capabilities>`
    default: {
      const answer = network(state, request)
      if (answer === null) throw unsupported(operation)
      return answer
    }
  }
}

const services = { events, device: management, media: media1, media2, ptz, imaging } as const

/** Nonces that were seen, of UsernameTokens and of HTTP Digest. */
class Guard {
  readonly #state: State
  readonly #seen = new Set<string>()
  readonly #given = new Set<string>()
  constructor(state: State) {
    this.#state = state
  }
  /** A fresh challenge. */
  challenge(): string {
    const nonce = randomBytes(12).toString("hex")
    this.#given.add(nonce)
    return `Digest realm="simulated", qop="auth", nonce="${nonce}", algorithm=MD5`
  }
  digest(header: string | undefined, uri: string, method = "POST"): boolean {
    const value = (name: string) => new RegExp(`\\b${name}="?([^",]*)`).exec(header ?? "")?.[1] ?? ""
    if (!this.#given.delete(value("nonce"))) return false
    const { password, username } = this.#state.options
    const md5 = (text: string) => createHash("md5").update(text).digest("hex")
    const proof = md5(
      `${md5(`${username}:simulated:${password}`)}:${value("nonce")}:${value("nc")}:${value("cnonce")}:auth:${
        md5(`${method}:${uri}`)
      }`,
    )
    return value("username") === username && value("response") === proof && value("uri") === uri
  }
  token(header: Part): boolean {
    const token = header.at("Security", "UsernameToken")
    const { password, username } = this.#state.options
    const nonce = token.at("Nonce").text
    const created = token.at("Created").text
    if (token.at("Username").text !== username || nonce === "" || this.#seen.has(nonce)) return false
    if (!(Math.abs(Date.parse(created) - this.#state.nowMs()) <= freshMs)) return false
    this.#seen.add(nonce)
    const proof = createHash("sha1").update(Buffer.from(nonce, "base64")).update(created).update(password).digest(
      "base64",
    )
    return token.at("Password").text === proof
  }
}

export interface SimulatedDevice {
  readonly state: State
  readonly host: string
  readonly port: number
  /** Everything that arrived: heads and bodies. */
  readonly heard: ReadonlyArray<string>
  /** The most connections that were open at the same time. */
  readonly mostConnections: () => number
  readonly close: () => Promise<void>
}

/** What the quirks make of a reply. */
const twisted = ({ quirks }: State, xml: string): string => {
  const odd = quirks.wrongNamespace ? xml.replaceAll("www.onvif.org", "www.example.org") : xml
  if (quirks.mangle !== null) return quirks.mangle(odd)
  return quirks.brokenXml ? odd.slice(0, odd.lastIndexOf("</env:Body>") - 5) : odd
}

/** Goes on with blanks to so many bytes, no faster than they are read. */
const sendLong = (response: ServerResponse, body: string, total: number): void => {
  let left = total - body.length
  const blanks = Buffer.alloc(65_536, " ")
  const more = () => {
    while (left > 0) {
      left -= blanks.length
      if (!response.write(left < 0 ? blanks.subarray(0, blanks.length + left) : blanks)) return
    }
    response.end()
  }
  response.on("drain", more)
  response.write(body)
  more()
}

const answer = (
  state: State,
  guard: Guard,
  message: IncomingMessage,
  text: string,
): { status: number; body: string } => {
  try {
    const service = paths[(message.url ?? "").replace(/\/subscription\/\d+$/, "")]
    const request = readRequest(text)
    if (service === undefined || !offered(state).includes(service)) return { status: 404, body: "" }
    if (request === null) throw new SoapFault(400, ["WellFormed"], "Not well formed")
    const open = request.operation === "GetSystemDateAndTime"
    if (!open && state.quirks.digestOnly && !guard.digest(message.headers.authorization, message.url ?? "")) {
      return { status: 401, body: "" }
    }
    if (!open && !state.quirks.digestOnly && !guard.token(request.header)) {
      throw new SoapFault(400, ["NotAuthorized"], "Sender not authorized")
    }
    if (state.quirks.lacks.includes(request.operation)) throw unsupported(request.operation)
    if (state.quirks.refuses.includes(request.operation)) throw invalid("ConfigModify", "Not now")
    const body = services[service](state, request, message.url ?? "")
    state.done.push(request.operation)
    const name = `${prefixes[service]}:${request.operation}Response`
    return { status: 200, body: twisted(state, reply(`<${name}>${body}</${name}>`)) }
  } catch (error) {
    if (error instanceof SoapFault) return { status: error.status, body: reply(error.xml) }
    throw error
  }
}

const respond = (
  state: State,
  guard: Guard,
  message: IncomingMessage,
  response: ServerResponse,
  text: string,
): void => {
  if (state.overloaded()) {
    response.writeHead(503).end()
    return
  }
  const { body, status } = answer(state, guard, message, text)
  if (state.quirks.vanishesAt !== null && state.done.at(-1) === state.quirks.vanishesAt) {
    message.socket.destroy()
    return
  }
  const headers = status === 401 ?
    { "www-authenticate": guard.challenge() } :
    { "content-type": "application/soap+xml" }
  response.writeHead(status, headers)
  if (body.length < state.quirks.hugeBytes) sendLong(response, body, state.quirks.hugeBytes)
  else response.end(body)
}

const closed = (server: Server): Promise<void> =>
  new Promise((resolve) => {
    server.close(() => {
      resolve()
    })
    server.closeAllConnections()
  })

/** `port`: where not any that is free, as after a restart. */
export const startDevice = async (
  options: Partial<DeviceOptions> = {},
  { port: asked = 0 }: { readonly port?: number } = {},
): Promise<SimulatedDevice> => {
  const state = new State({
    username: "admin",
    password: "swordfish",
    serialNumber: "0001",
    quirks: {},
    streams: { main: "rtsp://127.0.0.1:554/main", sub: "rtsp://127.0.0.1:554/sub" },
    onEncoder: () => {},
    ...options,
  })
  const guard = new Guard(state)
  const heard: Array<string> = []
  let connections = 0
  let most = 0
  const server = createServer((message, response) => {
    const chunks: Array<Buffer> = []
    message.on("data", (chunk: Buffer) => chunks.push(chunk))
    message.on("end", () => {
      const text = Buffer.concat(chunks).toString("utf8")
      heard.push(`${message.rawHeaders.join("\n")}\n\n${text}`)
      if (message.method === "GET") {
        const digest = () => guard.digest(message.headers.authorization, message.url ?? "", "GET")
        servePicture(state, message, response, { challenge: () => guard.challenge(), digest })
        return
      }
      const { slowMs } = state.quirks
      const now = () => respond(state, guard, message, response, text)
      const request = readRequest(text)
      const waitMs = request === null ? null : pullWaitMs(state, request)
      if (request !== null && waitMs !== null) {
        state.events.wait(pullPointOf(message.url ?? "", request.header), waitMs, now)
      } else if (slowMs === 0) now()
      else setTimeout(now, slowMs)
    })
  })
  server.on("connection", (socket) => {
    connections += 1
    most = Math.max(most, connections)
    socket.on("close", () => {
      connections -= 1
    })
  })
  await new Promise<void>((resolve) => server.listen(asked, "127.0.0.1", resolve))
  const { port } = server.address() as AddressInfo
  state.base = `http://127.0.0.1:${port}`
  return { state, host: "127.0.0.1", port, heard, mostConnections: () => most, close: () => closed(server) }
}
