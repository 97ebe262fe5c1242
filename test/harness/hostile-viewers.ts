/**
 * Viewers that do harm, by accident or on purpose, all at once: slow ones, half-open ones, and ones that talk nonsense.
 *
 * Invariant: what they send is the same for the same seed; whoever asks judges what became of the node.
 */
import { createSocket } from "node:dgram"
import { random } from "../media/random.ts"
import { type HalfOpen, opened, openHalf } from "./half-open.ts"
import { sleep } from "./node-process.ts"

export interface Doors {
  readonly httpPort: number
  readonly rtspPort: number
  readonly webRtcPort: number
  /** Path and query of a live stream by RTSP, token included. */
  readonly rtspPath: string
  /** An offer is posted to it: status of the answer. */
  readonly post: (offer: string) => Promise<number>
  /** A good one. */
  readonly offer: string
}

export interface Harm {
  readonly halfOpen: HalfOpen
  readonly refusedOffers: number
  readonly datagrams: number
  readonly nonsense: number
}

/** Plays the stream by RTSP and reads a byte a second of it. */
const slowReader = async ({ rtspPath, rtspPort }: Doors, over: AbortSignal): Promise<void> => {
  const url = `rtsp://127.0.0.1:${rtspPort}${rtspPath}`
  const [path = "", query = ""] = url.split("?")
  const ask = (method: string, target: string, more: string) => `${method} ${target} RTSP/1.0\r\nCSeq: 1\r\n${more}\r\n`
  const transport = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n"
  const socket = await opened(rtspPort, ask("SETUP", `${path}/trackID=0?${query}`, transport))
  const answer = await new Promise<string>((resolve) =>
    socket.once("data", (bytes) => resolve(bytes.toString("latin1")))
  )
  socket.pause()
  socket.write(ask("PLAY", url, `Session: ${/^Session: (\w+)/im.exec(answer)?.[1] ?? ""}\r\n`))
  while (!over.aborted) {
    socket.read(1)
    await sleep(1000)
  }
  socket.destroy()
}

/** Nonsense by UDP: garbage, checks of nobody, DTLS and RTP from nowhere. */
const datagrams = async (
  { webRtcPort }: Doors,
  over: AbortSignal,
  next: (below: number) => number,
): Promise<number> => {
  const socket = createSocket("udp4")
  const check = Buffer.from("000100142112a442000102030405060708090a0b000600034142430000080004deadbeef", "hex")
  let sent = 0
  while (!over.aborted) {
    for (let i = 0; i < 50; i++) {
      const bytes = next(4) === 0 ?
        Buffer.from(check) :
        Buffer.from(Array.from({ length: 1 + next(200) }, () => next(256)))
      bytes[next(bytes.length)] = next(256)
      if (next(3) === 0) bytes[0] = [0, 22, 128, 144][next(4)]!
      socket.send(bytes, webRtcPort, "127.0.0.1")
      sent++
    }
    await sleep(50)
  }
  socket.close()
  return sent
}

const broken = (text: string, next: (below: number) => number): string => {
  const lines = text.split("\r\n").filter(() => next(12) > 0)
  return lines.map((line) =>
    next(8) > 0 ? line : `${line.slice(0, next(line.length + 1))}\u{fffd}${line.slice(next(line.length + 1))}`
  )
    .join("\r\n")
}

/** SDP and RTSP that are almost right. */
const nonsense = async (doors: Doors, over: AbortSignal, next: (below: number) => number) => {
  let [refused, sent] = [0, 0]
  const request =
    `SETUP rtsp://127.0.0.1${doors.rtspPath} RTSP/1.0\r\nCSeq: 1\r\nTransport: RTP/AVP/TCP;interleaved=0-1\r\n\r\n$\u0000\u0000\u0008abcdefgh`
  while (!over.aborted) {
    if (await doors.post(broken(doors.offer, next)) === 406) refused++
    const socket = await opened(doors.rtspPort, broken(request, next))
    setTimeout(() => socket.destroy(), 500)
    sent++
    await sleep(50)
  }
  return { refused, sent }
}

export const doHarm = async (doors: Doors, seconds: number, connections: number, seed = 1): Promise<Harm> => {
  const over = AbortSignal.timeout(seconds * 1000)
  const next = random(seed)
  const slow = slowReader(doors, over)
  const half = await openHalf(doors, connections)
  const [sent, talked] = await Promise.all([datagrams(doors, over, next), nonsense(doors, over, next), slow])
  half.close()
  return { halfOpen: half.told, refusedOffers: talked.refused, datagrams: sent, nonsense: talked.sent }
}
