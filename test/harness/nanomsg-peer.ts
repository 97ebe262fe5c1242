/**
 * The nanomsg library as somebody else's program: subscribes and answers surveys at one port, publishes and asks at another, and tells what
 * it hears as lines on its standard output. Ends with its standard input.
 *
 * node test/harness/nanomsg-peer.ts <port of ours> <port of its own>: publications there, surveys at the next one
 */
import { createRequire } from "node:module"

interface NanoSocket {
  readonly bind: (address: string) => number | null
  readonly connect: (address: string) => number | null
  readonly send: (data: string) => number
  readonly on: (event: "data" | "error", listener: (told: Buffer | Error) => void) => void
}
const nanomsg = createRequire(import.meta.url)("nanomsg") as { readonly socket: (kind: string) => NanoSocket }
const [ours = 0, own = 0] = process.argv.slice(2).map(Number)

const open = (kind: string, heard: (text: string) => void): NanoSocket => {
  const socket = nanomsg.socket(kind)
  socket.on("error", () => {})
  socket.on("data", (told) => {
    console.log(JSON.stringify([kind, String(told)]))
    heard(String(told))
  })
  return socket
}

open("sub", () => {}).connect(`tcp://127.0.0.1:${ours}`)
const respondent = open("respondent", (asked) => respondent.send(`answer to ${asked}`))
respondent.connect(`tcp://127.0.0.1:${ours + 1}`)
const publisher = open("pub", () => {})
publisher.bind(`tcp://127.0.0.1:${own}`)
const surveyor = open("surveyor", () => {})
surveyor.bind(`tcp://127.0.0.1:${own + 1}`)
setInterval(() => {
  publisher.send("from the library")
  surveyor.send("who is there?")
}, 200)
process.stdin.on("end", () => process.exit(0)).resume()
