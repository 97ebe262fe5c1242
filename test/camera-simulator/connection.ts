/**
 * One viewer's connection: reads RTSP 1.0 requests (RFC 2326), answers them in order.
 *
 * Invariants
 * 1. At most `REQUEST_BYTES` wait for the rest of a request; more closes the connection.
 * 2. Answers keep the order of the requests, also when the camera is slow.
 * 3. When the connection closes, sessions that are carried by it end; those by UDP end by time.
 */
import type * as net from "node:net"
import { Login } from "./auth.ts"
import type { Camera } from "./camera.ts"
import { BACKCHANNEL, LOUDSPEAKER_TRACK } from "./loudspeaker.ts"
import type { Mount } from "./mount.ts"
import type { Session, Transport } from "./session.ts"

const REQUEST_BYTES = 65_536

interface Request {
  readonly method: string
  readonly url: string
  readonly headers: ReadonlyMap<string, string>
}

interface Answer {
  readonly status: number
  readonly headers?: ReadonlyArray<string>
  readonly body?: string
  readonly after?: () => void
}

const REASONS: Record<number, string> = {
  200: "OK",
  400: "Bad Request",
  401: "Unauthorized",
  404: "Not Found",
  453: "Not Enough Bandwidth",
  454: "Session Not Found",
  455: "Method Not Valid in This State",
  461: "Unsupported Transport",
  501: "Not Implemented",
  551: "Option not supported",
}

/** Serves a viewer until its connection closes. */
export const serve = (camera: Camera, socket: net.Socket): void => {
  const connection = new Connection(camera, socket)
  socket.on("data", (bytes: Buffer) => connection.read(bytes))
}

class Connection {
  readonly #camera: Camera
  readonly #socket: net.Socket
  readonly #login = new Login()
  #unread: Buffer = Buffer.alloc(0)
  /** Where this viewer talks; null: it does not. */
  #voiceChannel: number | null = null
  #answers: Promise<void> = Promise.resolve()

  constructor(camera: Camera, socket: net.Socket) {
    this.#camera = camera
    this.#socket = socket
    socket.setNoDelay(true)
    socket.on("error", () => socket.destroy())
    socket.on("close", () => camera.connectionClosed(socket))
  }

  read(bytes: Buffer): void {
    this.#unread = this.#unread.length === 0 ? bytes : Buffer.concat([this.#unread, bytes])
    if (this.#unread.length > REQUEST_BYTES) this.#socket.destroy()
    for (;;) {
      if (this.#unread[0] === 0x24) {
        if (this.#unread.length < 4 || this.#unread.length < 4 + this.#unread.readUInt16BE(2)) return
        this.#camera.counters.received++
        if (this.#unread[1] === this.#voiceChannel) {
          this.#camera.loudspeaker.hear(this.#unread.subarray(4, 4 + this.#unread.readUInt16BE(2)))
        }
        this.#unread = this.#unread.subarray(4 + this.#unread.readUInt16BE(2))
        continue
      }
      const end = this.#unread.indexOf("\r\n\r\n")
      if (end < 0) return
      const lines = this.#unread.toString("latin1", 0, end).split("\r\n")
      const headers = new Map(
        lines.slice(1).map((
          line,
        ) => [line.split(":", 1)[0]!.trim().toLowerCase(), line.slice(line.indexOf(":") + 1).trim()]),
      )
      const body = Number(headers.get("content-length") ?? 0)
      if (this.#unread.length < end + 4 + body) return
      this.#unread = this.#unread.subarray(end + 4 + body)
      const [method = "", url = ""] = lines[0]!.trim().split(" ")
      this.#handle({ method, url, headers })
    }
  }

  #handle(request: Request): void {
    this.#camera.counters.requests[request.method] = (this.#camera.counters.requests[request.method] ?? 0) + 1
    const slowMs = this.#camera.slowMs
    this.#answers = this.#answers.then(async () => {
      if (slowMs > 0) await new Promise((resolve) => setTimeout(resolve, slowMs))
      if (this.#socket.destroyed) return
      const answer = this.#answer(request)
      const body = answer.body ?? ""
      const lines = [
        `RTSP/1.0 ${answer.status} ${REASONS[answer.status]}`,
        `CSeq: ${request.headers.get("cseq") ?? "0"}`,
        "Server: simulated camera",
        ...(answer.headers ?? []),
        ...(body === "" ? [] : [`Content-Length: ${Buffer.byteLength(body)}`]),
      ]
      this.#socket.write(`${lines.join("\r\n")}\r\n\r\n${body}`)
      answer.after?.()
    })
  }

  #answer(request: Request): Answer {
    if (request.method === "OPTIONS") {
      const methods = [
        "OPTIONS",
        "DESCRIBE",
        "SETUP",
        "PLAY",
        "PAUSE",
        "TEARDOWN",
        ...(this.#camera.options.getParameter ? ["GET_PARAMETER"] : []),
      ]
      this.#touch(request)
      return { status: 200, headers: [`Public: ${methods.join(", ")}`] }
    }
    const challenges = this.#login.check(this.#camera.credentials, request.method, request.headers.get("authorization"))
    if (challenges !== null) {
      return {
        status: 401,
        headers: challenges.map((challenge) => `WWW-Authenticate: ${challenge}`),
      }
    }
    const wantsBackchannel = request.headers.get("require")?.includes(BACKCHANNEL) === true
    if (wantsBackchannel && this.#camera.options.loudspeaker === "none") {
      return { status: 551, headers: [`Unsupported: ${BACKCHANNEL}`] }
    }
    if (request.method === "DESCRIBE") {
      const mount = this.#camera.mountOf(request.url)
      if (mount === null) return { status: 404 }
      return {
        status: 200,
        headers: [`Content-Base: ${request.url.replace(/\/?$/, "/")}`, "Content-Type: application/sdp"],
        body: mount.description(this.#socket.localAddress ?? "127.0.0.1", wantsBackchannel),
      }
    }
    if (request.method === "SETUP") return this.#setUp(request)
    if (request.method === "GET_PARAMETER" && !this.#camera.options.getParameter) return { status: 501 }
    const session = this.#touch(request)
    if (session === null) return { status: 454 }
    return this.#inSession(request, session)
  }

  #inSession(request: Request, session: Session): Answer {
    const headers = [`Session: ${session.id}`]
    const mount = this.#camera.mountOf(session.mount)!
    switch (request.method) {
      case "PLAY": {
        // The answer goes out before the first packet.
        mount.prepare()
        const info = mount.rtpInfo(request.url.replace(/\/$/, ""), session.tracks)
        return {
          status: 200,
          headers: [...headers, "Range: npt=now-", `RTP-Info: ${info}`],
          after: () => mount.play(session),
        }
      }
      case "PAUSE":
        session.playing = false
        mount.leave(session)
        return { status: 200, headers }
      case "TEARDOWN":
        this.#camera.endSession(session, "teardown")
        return { status: 200, headers }
      case "GET_PARAMETER":
      case "SET_PARAMETER":
        return { status: 200, headers }
      default:
        return { status: 501 }
    }
  }

  #touch(request: Request): Session | null {
    const session = this.#camera.session(request.headers.get("session")?.split(";", 1)[0]?.trim() ?? "")
    if (session !== null) session.lastRequestMs = performance.timeOrigin + performance.now()
    return session
  }

  #setUp(request: Request): Answer {
    const mount = this.#camera.mountOf(request.url)
    const track = Number(/\/track(\d+)\/?$/.exec(request.url)?.[1] ?? Number.NaN)
    const talks = track === LOUDSPEAKER_TRACK && this.#camera.options.loudspeaker !== "none"
    if (mount === null || (mount.tracks[track] === undefined && !talks)) return { status: 404 }
    const named = request.headers.get("session")
    const known = named === undefined ? null : this.#touch(request)
    if (named !== undefined && known === null) return { status: 454 }
    if (known === null && this.#camera.sessionsFull) return { status: 453 }
    const transport = this.#transport(request.headers.get("transport") ?? "")
    if (transport === null) return { status: 461 }
    const session = known ?? this.#camera.openSession(mount, this.#socket)
    if (talks) {
      if (transport.kind !== "tcp") return { status: 461 }
      this.#voiceChannel = transport.channel
    } else session.setUp(track, transport)
    const timeout = this.#camera.options.sessionTimeoutSeconds
    return {
      status: 200,
      headers: [
        `Session: ${session.id}${timeout > 0 ? `;timeout=${timeout}` : ""}`,
        `Transport: ${this.#transportText(transport, mount, track)}`,
      ],
    }
  }

  #transport(asked: string): Transport | null {
    for (const spec of asked.split(",")) {
      if (/multicast/i.test(spec)) continue
      const interleaved = /interleaved=(\d+)(?:-(\d+))?/i.exec(spec)
      if (/^\s*RTP\/AVP\/TCP/i.test(spec)) {
        const channel = Number(interleaved?.[1] ?? 0)
        return { kind: "tcp", channel, reportChannel: Number(interleaved?.[2] ?? channel + 1) }
      }
      const ports = /client_port=(\d+)(?:-(\d+))?/i.exec(spec)
      if (/^\s*RTP\/AVP/i.test(spec) && ports !== null && this.#camera.udpPorts !== null) {
        const port = Number(ports[1])
        return {
          kind: "udp",
          address: this.#socket.remoteAddress ?? "127.0.0.1",
          port,
          reportPort: Number(ports[2] ?? port + 1),
        }
      }
    }
    return null
  }

  #transportText(transport: Transport, mount: Mount, track: number): string {
    const ssrc = (mount.tracks[track]?.ssrc ?? 0).toString(16).toUpperCase().padStart(8, "0")
    if (transport.kind === "tcp") {
      return `RTP/AVP/TCP;unicast;interleaved=${transport.channel}-${transport.reportChannel};ssrc=${ssrc}`
    }
    const server = this.#camera.udpPorts!
    return `RTP/AVP;unicast;client_port=${transport.port}-${transport.reportPort};server_port=${server.rtp}-${server.rtcp};ssrc=${ssrc}`
  }
}
