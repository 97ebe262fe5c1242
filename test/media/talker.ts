/** Talkers for tests: one that keeps time on a machine that does not, and one that speaks RTSP. */
import { Effect } from "effect"
import { connect } from "node:net"
import { until } from "./rtsp-server-fixtures.ts"

const earlyMs = 200

/** Packets of 20 ms, each sent when it is due or a little earlier. */
export const speak = (count: number, send: (index: number) => void): Effect.Effect<void> =>
  Effect.gen(function*() {
    const beganMs = Date.now()
    for (let i = 0; i < count; i++) {
      while (i * 20 - earlyMs > Date.now() - beganMs) yield* Effect.sleep(5)
      send(i)
    }
  })

export const talkRequire = "Require: www.onvif.org/ver20/backchannel"

/** A connection that asks and sends interleaved packets; `url` with its token. */
export const rtspTalker = Effect.fnUntraced(function*(url: string) {
  const { hostname, port } = new URL(url.replace(/^rtsp:/, "http:"))
  const [address = "", query = ""] = url.split("?")
  const socket = connect(Number(port), hostname)
  socket.on("error", () => socket.destroy())
  yield* Effect.addFinalizer(() => Effect.sync(() => socket.destroy()))
  let text = ""
  let sequence = 0
  socket.on("data", (bytes: Buffer) => {
    text += bytes.toString("latin1")
  })
  return {
    closed: () => socket.closed,
    said: () => text,
    /** The status. Nothing may play meanwhile. */
    ask: (method: string, track: string, ...headers: ReadonlyArray<string>) =>
      Effect.gen(function*() {
        text = ""
        const first = `${method} ${address}${track}?${query} RTSP/1.0`
        socket.write([first, `CSeq: ${++sequence}`, ...headers, "", ""].join("\r\n"))
        yield* until(`an answer to ${method}`, () => text.includes("\r\n\r\n"))
        return Number(text.slice(9, 12))
      }),
    send: (channel: number, packet: Buffer) =>
      socket.write(Buffer.concat([Buffer.from([0x24, channel, packet.length >> 8, packet.length & 0xff]), packet])),
  }
})
