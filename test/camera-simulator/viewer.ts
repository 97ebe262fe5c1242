/**
 * A viewer for the simulator's own tests: a small RTSP client over TCP, with Digest by MD5, that keeps what it receives.
 *
 * Invariants
 * 1. It shares no code with the simulator, nor with the product.
 * 2. It keeps at most what a test of some seconds receives; it is no client for anything longer.
 */
import { createHash } from "node:crypto"
import * as net from "node:net"

export interface Reply {
  readonly status: number
  readonly headers: ReadonlyMap<string, string>
  readonly body: string
}

export interface Packet {
  readonly channel: number
  readonly bytes: Buffer
}

const md5 = (text: string): string => createHash("md5").update(text).digest("hex")

export class Viewer {
  readonly packets: Array<Packet> = []
  closed = false
  readonly #url: string
  readonly #login: { readonly username: string; readonly password: string } | null
  readonly #socket: net.Socket
  readonly #waiting: Array<(reply: Reply | null) => void> = []
  #unread: Buffer = Buffer.alloc(0)
  #sequence = 0
  #challenge: { readonly realm: string; readonly nonce: string } | null = null
  #session = ""

  private constructor(
    url: string,
    login: { readonly username: string; readonly password: string } | null,
    socket: net.Socket,
  ) {
    this.#url = url
    this.#login = login
    this.#socket = socket
    socket.on("data", (bytes: Buffer) => this.#read(bytes))
    socket.on("error", () => socket.destroy())
    socket.on("close", () => {
      this.closed = true
      for (const waiting of this.#waiting.splice(0)) waiting(null)
    })
  }

  /** Rejects with the system's error where the port refuses. */
  static async connect(
    url: string,
    login: { readonly username: string; readonly password: string } | null,
  ): Promise<Viewer> {
    const { hostname, port } = new URL(url)
    const socket = net.connect(Number(port), hostname)
    await new Promise<void>((resolve, reject) => {
      socket.once("connect", resolve)
      socket.once("error", reject)
    })
    return new Viewer(url, login, socket)
  }

  /** Null where the connection closed before an answer. */
  async ask(method: string, url = this.#url, headers: ReadonlyArray<string> = []): Promise<Reply | null> {
    const first = await this.#send(method, url, headers)
    if (first?.status !== 401 || this.#login === null) return first
    const offered = first.headers.get("www-authenticate") ?? ""
    const value = (name: string): string => new RegExp(`${name}="([^"]*)"`).exec(offered)?.[1] ?? ""
    this.#challenge = { realm: value("realm"), nonce: value("nonce") }
    return await this.#send(method, url, headers)
  }

  /** DESCRIBE, SETUP of the first `tracks` tracks, PLAY. Answers the last reply: its status is not 200 where one was refused. */
  async play(tracks = 1, firstChannel = 0): Promise<Reply> {
    const wanted = [
      () => this.ask("DESCRIBE"),
      ...Array.from({ length: tracks }, (_, track) => () => {
        const channel = firstChannel + track * 2
        const transport = `Transport: RTP/AVP/TCP;unicast;interleaved=${channel}-${channel + 1}`
        return this.ask("SETUP", `${this.#url}/track${track}`, [transport])
      }),
      () => this.ask("PLAY"),
    ]
    let reply: Reply | null = null
    for (const step of wanted) {
      reply = await step()
      if (reply === null) throw new Error("the camera closed the connection")
      if (reply.status !== 200) return reply
    }
    if (reply === null) throw new Error("nothing was asked")
    return reply
  }

  /** Waits until the condition holds; rejects when the connection closes first. */
  async until(condition: () => boolean): Promise<void> {
    while (!condition()) {
      if (this.closed) throw new Error("the connection closed")
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
  }

  /** Keeps the connection and reads nothing any more. */
  stall(): void {
    this.#socket.pause()
  }

  close(): void {
    this.#socket.destroy()
  }

  async #send(method: string, url: string, headers: ReadonlyArray<string>): Promise<Reply | null> {
    const lines = [`${method} ${url} RTSP/1.0`, `CSeq: ${++this.#sequence}`, ...headers]
    if (this.#session !== "") lines.push(`Session: ${this.#session}`)
    if (this.#challenge !== null && this.#login !== null) {
      const { nonce, realm } = this.#challenge
      const secret = md5(`${this.#login.username}:${realm}:${this.#login.password}`)
      const response = md5(`${secret}:${nonce}:${md5(`${method}:${url}`)}`)
      const who = `username="${this.#login.username}", realm="${realm}", nonce="${nonce}"`
      lines.push(`Authorization: Digest ${who}, uri="${url}", response="${response}"`)
    }
    this.#socket.write(`${lines.join("\r\n")}\r\n\r\n`)
    const reply = await new Promise<Reply | null>((resolve) => this.#waiting.push(resolve))
    this.#session = reply?.headers.get("session")?.split(";")[0] ?? this.#session
    return reply
  }

  #read(bytes: Buffer): void {
    this.#unread = Buffer.concat([this.#unread, bytes])
    for (let took = true; took;) took = this.#unread[0] === 0x24 ? this.#takePacket() : this.#takeReply()
  }

  #takePacket(): boolean {
    if (this.#unread.length < 4) return false
    const end = 4 + this.#unread.readUInt16BE(2)
    if (this.#unread.length < end) return false
    this.packets.push({ channel: this.#unread[1]!, bytes: Buffer.from(this.#unread.subarray(4, end)) })
    this.#unread = this.#unread.subarray(end)
    return true
  }

  #takeReply(): boolean {
    const end = this.#unread.indexOf("\r\n\r\n")
    if (end < 0) return false
    const [status = "", ...lines] = this.#unread.toString("latin1", 0, end).split("\r\n")
    const headers = new Map(lines.map((line) => [
      line.slice(0, line.indexOf(":")).toLowerCase(),
      line.slice(line.indexOf(":") + 1).trim(),
    ]))
    const bodyEnd = end + 4 + Number(headers.get("content-length") ?? 0)
    if (this.#unread.length < bodyEnd) return false
    const body = this.#unread.toString("utf8", end + 4, bodyEnd)
    this.#unread = this.#unread.subarray(bodyEnd)
    this.#waiting.shift()?.({ status: Number(status.split(" ")[1]), headers, body })
    return true
  }
}
