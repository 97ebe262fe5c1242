/**
 * An RTSP server on the loopback that answers as a test tells it: well by default, as badly as wanted otherwise. It shares no
 * code with the client under test.
 *
 * Invariant: `close` ends every connection; nothing of it outlives the test.
 */
import { createServer, type Server, type Socket } from "node:net"

export interface Request {
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
}

export interface Reply {
  readonly status?: number
  readonly headers?: ReadonlyArray<string>
  readonly body?: string
  /** Sent in front of and behind the answer. */
  readonly before?: Uint8Array
  readonly after?: Uint8Array
}

/** `null`: no answer at all. A string: exactly these bytes. `undefined`: the ordinary answer. */
export type Script = (request: Request, socket: Socket) => Reply | string | null | undefined

export interface ScriptedCamera {
  readonly port: number
  readonly url: string
  readonly requests: Array<Request>
  readonly sockets: Set<Socket>
  /** Resolves at the first request of that method, past ones included. */
  readonly seen: (method: string) => Promise<Request>
  readonly close: () => Promise<void>
}

export const sdp = [
  "v=0",
  "o=- 0 0 IN IP4 127.0.0.1",
  "s=camera",
  "t=0 0",
  "m=video 0 RTP/AVP 96",
  "a=rtpmap:96 H264/90000",
  "a=control:trackID=0",
  "m=audio 0 RTP/AVP 0",
  "a=control:trackID=1",
  "",
].join("\r\n")

export const interleaved = (channel: number, packet: Uint8Array): Buffer =>
  Buffer.concat([Buffer.from([0x24, channel, packet.length >> 8, packet.length & 255]), packet])

const ordinary = ({ headers, method, url }: Request): Reply => {
  switch (method) {
    case "OPTIONS":
      return { headers: ["Public: OPTIONS, DESCRIBE, SETUP, PLAY, GET_PARAMETER, TEARDOWN"] }
    case "DESCRIBE":
      return { headers: [`Content-Base: ${url}/`, "Content-Type: application/sdp"], body: sdp }
    case "SETUP":
      return { headers: [`Transport: ${headers["transport"]};ssrc=0`, "Session: 4711;timeout=60"] }
    default:
      return { headers: ["Session: 4711"] }
  }
}

const write = (reply: Reply, request: Request): Buffer => {
  const body = reply.body ?? ""
  const length = body === "" ? [] : [`Content-Length: ${Buffer.byteLength(body)}`]
  const told = reply.headers ?? []
  const own = told.some((line) => /^content-length/i.test(line)) ? [] : length
  const head = [`RTSP/1.0 ${reply.status ?? 200} X`, `CSeq: ${request.headers["cseq"]}`, ...own, ...told]
  return Buffer.concat([
    reply.before ?? Buffer.alloc(0),
    Buffer.from(`${head.join("\r\n")}\r\n\r\n${body}`),
    reply.after ?? Buffer.alloc(0),
  ])
}

const parse = (text: string): Request => {
  const [first = "", ...lines] = text.split("\r\n")
  const [method = "", url = ""] = first.split(" ")
  const headers = Object.fromEntries(lines.map((line) => {
    const colon = line.indexOf(":")
    return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]
  }))
  return { method, url, headers, text }
}

/** Cuts what a client sent into requests, leaving interleaved packets out; returns what is unfinished. */
const requestsIn = (bytes: Buffer, take: (request: Request) => void): Buffer => {
  let rest = bytes
  for (;;) {
    if (rest[0] === 0x24) {
      if (rest.length < 4 || rest.length < 4 + rest.readUInt16BE(2)) return rest
      rest = rest.subarray(4 + rest.readUInt16BE(2))
      continue
    }
    const end = rest.indexOf("\r\n\r\n")
    if (end < 0) return rest
    take(parse(rest.toString("utf8", 0, end)))
    rest = rest.subarray(end + 4)
  }
}

export const startScriptedCamera = async (script: Script = () => undefined): Promise<ScriptedCamera> => {
  const requests: Array<Request> = []
  const sockets = new Set<Socket>()
  const waiting: Array<{ readonly method: string; readonly resolve: (request: Request) => void }> = []
  const answer = (request: Request, socket: Socket) => {
    requests.push(request)
    for (const waiter of waiting.filter(({ method }) => method === request.method)) waiter.resolve(request)
    const reply = script(request, socket)
    if (reply === null) return
    socket.write(typeof reply === "string" ? reply : write({ ...ordinary(request), ...reply }, request))
  }
  const server: Server = createServer((socket) => {
    sockets.add(socket)
    let rest: Buffer = Buffer.alloc(0)
    socket.on("data", (chunk) => {
      rest = requestsIn(Buffer.concat([rest, Buffer.from(chunk)]), (request) => answer(request, socket))
    })
    socket.on("error", () => {})
    socket.on("close", () => sockets.delete(socket))
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  const address = server.address()
  const port = typeof address === "object" && address !== null ? address.port : 0
  return {
    port,
    url: `rtsp://127.0.0.1:${port}/live`,
    requests,
    sockets,
    seen: (method) =>
      new Promise((resolve) => {
        const past = requests.find((request) => request.method === method)
        if (past === undefined) waiting.push({ method, resolve })
        else resolve(past)
      }),
    close: async () => {
      for (const socket of sockets) socket.destroy()
      await new Promise<void>((resolve) => server.close(() => resolve()))
    },
  }
}
