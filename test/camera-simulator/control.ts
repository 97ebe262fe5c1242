/**
 * The control port: HTTP with JSON on the loopback address, for tests in other processes and for a person with curl.
 *
 *   GET  /                       every camera's report
 *   GET  /cameras/K              one camera's report (what was sent in each session, first and last number and time)
 *   POST /cameras/K/freeze       { seconds? }          media stop, requests are answered
 *   POST /cameras/K/thaw
 *   POST /cameras/K/cut          { seconds? }          connections close, new ones are refused
 *   POST /cameras/K/mend
 *   POST /cameras/K/disconnect                         connections are reset, new ones are taken
 *   POST /cameras/K/harm         { dropPercent?, reorderPercent?, corruptPercent?, garbagePercent?, seconds? }
 *   POST /cameras/K/show         { profile, file }     other footage: parameter sets change in mid-stream
 *   POST /cameras/K/jump         { timestampSeconds?, clockMilliseconds? }
 *   POST /cameras/K/sessions     { most: number|null } more get 453
 *   POST /cameras/K/login        { reject: boolean }
 *   POST /cameras/K/slow         { milliseconds }      each answer waits
 *   POST /cameras/K/restore                            undoes every fault
 *
 * Invariants
 * 1. A command answers 200 with the camera's report after it took effect; bad input is 400 with `{ error }`.
 * 2. A body is at most `BODY_BYTES`.
 */
import * as http from "node:http"
import type * as net from "node:net"
import type { Camera } from "./camera.ts"

const BODY_BYTES = 65_536

export interface Control {
  readonly url: string
  readonly close: () => Promise<void>
}

type Body = Readonly<Record<string, unknown>>

class BadInput extends Error {}

const numberOf = (body: Body, name: string): number => {
  const value = body[name]
  if (typeof value !== "number" || !Number.isFinite(value)) throw new BadInput(`${name} must be a number`)
  return value
}
const maybe = (
  body: Body,
  name: string,
): number | null => (body[name] === undefined || body[name] === null ? null : numberOf(body, name))
const textOf = (body: Body, name: string): string => {
  const value = body[name]
  if (typeof value !== "string") throw new BadInput(`${name} must be a string`)
  return value
}

const verbs: Readonly<Record<string, (camera: Camera, body: Body) => void | Promise<void>>> = {
  freeze: (camera, body) => camera.freeze(maybe(body, "seconds")),
  thaw: (camera) => camera.thaw(),
  cut: (camera, body) => camera.cut(maybe(body, "seconds")),
  mend: (camera) => camera.mend(),
  disconnect: (camera) => camera.disconnect(),
  harm: (camera, body) =>
    camera.harm({
      dropPercent: maybe(body, "dropPercent") ?? 0,
      reorderPercent: maybe(body, "reorderPercent") ?? 0,
      corruptPercent: maybe(body, "corruptPercent") ?? 0,
      garbagePercent: maybe(body, "garbagePercent") ?? 0,
    }, maybe(body, "seconds")),
  show: (camera, body) => {
    try {
      camera.show(textOf(body, "profile"), textOf(body, "file"))
    } catch (error) {
      throw new BadInput(error instanceof Error ? error.message : String(error))
    }
  },
  jump: (camera, body) => {
    camera.jumpTimestamps(maybe(body, "timestampSeconds") ?? 0)
    camera.jumpClock(maybe(body, "clockMilliseconds") ?? 0)
  },
  sessions: (camera, body) => camera.limitSessions(maybe(body, "most")),
  login: (camera, body) => camera.rejectLogin(body["reject"] === true),
  slow: (camera, body) => camera.slow(numberOf(body, "milliseconds")),
  restore: (camera) => camera.restore(),
}

const readBody = async (request: http.IncomingMessage): Promise<Body> => {
  const parts: Array<Buffer> = []
  let bytes = 0
  for await (const part of request) {
    const chunk = part as Buffer
    bytes += chunk.length
    if (bytes > BODY_BYTES) throw new BadInput("the body is too large")
    parts.push(chunk)
  }
  if (bytes === 0) return {}
  try {
    const parsed: unknown = JSON.parse(Buffer.concat(parts).toString("utf8"))
    if (typeof parsed === "object" && parsed !== null && !Array.isArray(parsed)) return parsed as Body
  } catch {
    throw new BadInput("the body is not JSON")
  }
  throw new BadInput("the body is not a JSON object")
}

const answer = async (
  cameras: ReadonlyArray<Camera>,
  request: http.IncomingMessage,
): Promise<{ status: number; body: unknown }> => {
  const [, head, index, verb] = (request.url ?? "/").split("/")
  if (request.method === "GET" && head === "") {
    return {
      status: 200,
      body: { cameras: cameras.map((camera) => camera.report()) },
    }
  }
  const camera = head === "cameras" ? cameras[Number(index)] : undefined
  if (camera === undefined) return { status: 404, body: { error: "no such camera" } }
  if (request.method === "GET" && verb === undefined) return { status: 200, body: camera.report() }
  const run = request.method === "POST" && verb !== undefined && Object.hasOwn(verbs, verb) ? verbs[verb] : undefined
  if (run === undefined) {
    return { status: 404, body: { error: `no such command; there are ${Object.keys(verbs).join(", ")}` } }
  }
  await run(camera, await readBody(request))
  return { status: 200, body: camera.report() }
}

export const startControl = async (cameras: ReadonlyArray<Camera>, host: string, port: number): Promise<Control> => {
  const server = http.createServer((request, response) => {
    void answer(cameras, request)
      .catch((error: unknown) => ({
        status: error instanceof BadInput ? 400 : 500,
        body: { error: error instanceof Error ? error.message : String(error) },
      }))
      .then(({ body, status }) => {
        response.writeHead(status, { "content-type": "application/json" })
        response.end(`${JSON.stringify(body)}\n`)
      })
  })
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject)
    server.listen(port, host, () => resolve())
  })
  const url = `http://${host}:${(server.address() as net.AddressInfo).port}`
  const close = (): Promise<void> =>
    new Promise((resolve) => {
      server.close(() => resolve())
      server.closeAllConnections()
    })
  return { url, close }
}
