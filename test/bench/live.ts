/**
 * What live readers cost: the RTSP server's process with 1, 10, 100 … readers by TCP of one stream of 4 Mbit/s, then that of WebRTC
 * with 1, 5, 20 viewers, next to werift as it comes with as many.
 *
 *   npm run bench:live -- [--readers 1,10,100] [--viewers 1,5,20] [--seconds 20] [--warm-up 3]
 *
 * How it is fair
 * 1. CPU is user and system time of the server's process alone, over one window; readers run in this process and do nothing but
 *    count.
 * 2. What a server without readers costs is told, and not taken off.
 * 3. Two servers are compared by what a bit that arrived costs: a busy machine delivers less, by either.
 * 4. Each reader must have got the stream's bytes of the window, give or take a group of pictures; otherwise the exit code is 1.
 */
import { spawn } from "node:child_process"
import { connect, type Socket } from "node:net"
import * as path from "node:path"
import { createInterface } from "node:readline"
import { parseArgs } from "node:util"
import { openViewer } from "./live-webrtc.ts"
import { cpuSeconds } from "./usage.ts"

const { values } = parseArgs({
  options: {
    readers: { type: "string", default: "1,10,100" },
    viewers: { type: "string", default: "1,5,20" },
    seconds: { type: "string", default: "20" },
    "warm-up": { type: "string", default: "3" },
  },
})
const seconds = Number(values.seconds)
const numbers = (text: string): ReadonlyArray<number> => text === "" ? [] : text.split(",").map(Number)
const counts = numbers(values.readers)
const viewerCounts = numbers(values.viewers)
const bytesPerSecond = 500_000
const groupBytes = 2 * bytesPerSecond
const url = "/live/01900000-0000-7000-8000-0000000000aa"
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

const start = async (file: string, ...args: ReadonlyArray<string>) => {
  const child = spawn(process.execPath, [path.join(import.meta.dirname, file), ...args], {
    stdio: ["pipe", "pipe", "inherit"],
  })
  const port = await new Promise<number>((resolve) =>
    createInterface({ input: child.stdout }).once("line", (line) => resolve(Number(line)))
  )
  return { child, port }
}
const server = await start("live-server.ts")
const { port } = server

interface Reader {
  readonly socket: Socket
  bytes: number
}

/** All readers read into the same memory. */
const sink = Buffer.alloc(256 * 1024)

const open = async (): Promise<Reader> => {
  let answered: (text: string) => void = () => {}
  const reader: Reader = {
    bytes: 0,
    socket: connect({
      port,
      host: "127.0.0.1",
      onread: {
        buffer: sink,
        callback: (length) => {
          reader.bytes += length
          answered(sink.toString("latin1", 0, Math.min(length, 2_000)))
          return true
        },
      },
    }),
  }
  const ask = (method: string, target: string, headers: ReadonlyArray<string>): Promise<string> => {
    const lines = [`${method} rtsp://127.0.0.1:${port}${url}${target} RTSP/1.0`, "CSeq: 1", ...headers, "", ""]
    reader.socket.write(lines.join("\r\n"))
    return new Promise((resolve) => {
      answered = resolve
    })
  }
  const setUp = await ask("SETUP", "/trackID=0?token=x", ["Transport: RTP/AVP/TCP;unicast;interleaved=0-1"])
  const session = /^Session: (\w+)/im.exec(setUp)?.[1]
  if (session === undefined) throw new Error(setUp)
  await ask("PLAY", "", [`Session: ${session}`])
  answered = () => {}
  return reader
}

/** Somebody who counts what he gets. */
interface Consumer {
  readonly bytes: () => number
  readonly close: () => void
}

interface Measured {
  /** Seconds of CPU for a gigabit that arrived. */
  readonly perGigabit: number
  readonly line: string
  readonly short: boolean
}

const measure = async (
  what: string,
  pid: number,
  count: number,
  connected: () => Promise<Consumer>,
): Promise<Measured> => {
  const consumers: Array<Consumer> = []
  for (let i = 0; i < count; i++) consumers.push(await connected())
  await sleep(Number(values["warm-up"]) * 1000)
  const before = { cpu: cpuSeconds([pid]), ms: performance.now(), bytes: consumers.map(({ bytes }) => bytes()) }
  await sleep(seconds * 1000)
  const passed = (performance.now() - before.ms) / 1000
  const share = (cpuSeconds([pid]) - before.cpu) / passed
  const got = consumers.map(({ bytes }, i) => bytes() - before.bytes[i]!)
  const least = Math.min(...got)
  const short = count > 0 && least < passed * bytesPerSecond - groupBytes
  for (const { close } of consumers) close()
  const each = count === 0 ? "" : `, ${(share / count * 100).toFixed(3)} % each: ${Math.round(count / share)} a core`
  const told = count === 0 ?
    "" :
    `, the least got ${(least * 8 / passed / 1e6).toFixed(2)} Mbit/s${short ? " (too little)" : ""}`
  const perGigabit = share * passed / (got.reduce((sum, one) => sum + one, 0) * 8 / 1e9)
  return { perGigabit, line: `${count} ${what}: ${(share * 100).toFixed(2)} % of a core${each}${told}`, short }
}

let failed = false
const tell = ({ line, short }: Measured, more = ""): void => {
  failed ||= short
  process.stdout.write(`${line}${more}\n`)
}

for (const count of [0, ...counts]) {
  tell(
    await measure("RTSP readers", server.child.pid!, count, async () => {
      const reader = await open()
      return { bytes: () => reader.bytes, close: () => reader.socket.destroy() }
    }),
  )
}
server.child.stdin.end()

const own = await start("live-webrtc-server.ts")
const stock = await start("live-webrtc-server.ts", "--peer")
const watching = (at: number) => async (): Promise<Consumer> => {
  const viewer = await openViewer(at)
  return { bytes: () => viewer.bytes, close: viewer.close }
}
for (const count of viewerCounts) {
  const ours = await measure("WebRTC viewers", own.child.pid!, count, watching(own.port))
  const theirs = await measure("viewers of werift as it comes", stock.child.pid!, count, watching(stock.port))
  tell(ours)
  // A peer that falls short is its own affair.
  process.stdout.write(`${theirs.line}; ours takes ${(ours.perGigabit / theirs.perGigabit).toFixed(2)} of it\n`)
}
own.child.stdin.end()
stock.child.stdin.end()
process.exitCode = failed ? 1 : 0
// Threads of libdatachannel would keep the process.
process.exit()
