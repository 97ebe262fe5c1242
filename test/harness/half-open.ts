/**
 * Connections that are begun and never finished: half a request by RTSP and by HTTP, an answered offer that nobody comes for by WebRTC.
 *
 * Invariants
 * 1. As many are tried as are asked for, in shares: five tenths RTSP, four HTTP, one WebRTC; how many stood at once is counted, not
 *    supposed.
 * 2. Then strangers by RTSP go on coming past the server's bound, and somebody who means well comes last.
 */
import { connect, type Socket } from "node:net"
import { sleep } from "./node-process.ts"

/** What the RTSP server says that it holds of those who have not been let in; of more the oldest goes. */
export const rtspStrangers = 256
const beyondBound = 44

interface Shares {
  readonly rtsp: number
  readonly http: number
  readonly offers: number
}

export interface HalfOpen {
  readonly tried: Shares
  /** Held by the node when all had been tried. */
  readonly standing: Shares
  readonly beyond: {
    readonly tried: number
    readonly standing: number
    /** Closed by the node, without an error. */
    readonly ended: number
    /** Status of a whole request by RTSP, and by HTTP, meanwhile. */
    readonly newcomer: number
    readonly http: number
  }
}

export interface HalfDoors {
  readonly httpPort: number
  readonly rtspPort: number
  readonly post: (offer: string) => Promise<number>
  readonly offer: string
}

export const opened = (port: number, first: string): Promise<Socket> =>
  new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1", () => {
      socket.write(first)
      resolve(socket)
    })
    socket.once("error", reject)
    // Being thrown out is what they are for.
    socket.on("error", () => {})
  })

/** Sockets that say a little, and what becomes of them. */
class Crowd {
  readonly sockets: Array<Socket> = []
  ended = 0
  failed = 0

  async join(port: number, words: string): Promise<void> {
    const socket = await opened(port, words)
    this.sockets.push(socket)
    socket.once("end", () => this.ended++).once("error", () => this.failed++).resume()
  }

  get standing(): number {
    return this.sockets.length - this.ended - this.failed
  }
}

const statusOf = async (port: number, request: string): Promise<number> => {
  const socket = await opened(port, request)
  const answer = await new Promise<string>((resolve) => {
    socket.once("data", (bytes) => resolve(bytes.toString("latin1")))
    socket.once("close", () => resolve(""))
  })
  socket.destroy()
  return Number(/^\S+ (\d{3}) /.exec(answer)?.[1] ?? 0)
}

/** Opens them all; `close` leaves. */
export const openHalf = async (doors: HalfDoors, count: number) => {
  const [rtsp, http] = [new Crowd(), new Crowd()]
  let [tried, answered] = [0, 0]
  const stranger = () => rtsp.join(doors.rtspPort, "DESCRIBE rtsp://127.0.0.1/live RT")
  for (let i = 0; i < count; i++) {
    if (i % 10 === 9) {
      tried++
      if (await doors.post(doors.offer) === 201) answered++
    } else if (i % 2 === 0) await stranger()
    else await http.join(doors.httpPort, "GET /health HTTP/1.1\r\nHost: x\r\nX-")
  }
  await sleep(500)
  const first = {
    tried: { rtsp: rtsp.sockets.length, http: http.sockets.length, offers: tried },
    standing: { rtsp: rtsp.standing, http: http.standing, offers: answered },
  }
  while (rtsp.sockets.length < rtspStrangers + beyondBound) await stranger()
  const newcomer = await statusOf(doors.rtspPort, "OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n")
  const health = await statusOf(doors.httpPort, "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
  for (let i = 0; i < 100 && rtsp.standing > rtspStrangers; i++) await sleep(100)
  const { ended, sockets, standing } = rtsp
  const told: HalfOpen = { ...first, beyond: { tried: sockets.length, standing, ended, newcomer, http: health } }
  return {
    told,
    close: () => {
      for (const socket of [...rtsp.sockets, ...http.sockets]) socket.destroy()
    },
  }
}
