/** The native addon loads in the Node that npm brought, and two sockets talk over loopback. */
import { assert, describe, it } from "@effect/vitest"
import { createRequire } from "node:module"

interface NanoSocket {
  readonly bind: (address: string) => number
  readonly connect: (address: string) => number
  readonly send: (data: string) => number
  readonly on: (event: "data", listener: (data: Buffer) => void) => void
  readonly close: () => void
}

const load = (): { readonly socket: (kind: string) => NanoSocket } | string => {
  try {
    return createRequire(import.meta.url)("nanomsg") as { readonly socket: (kind: string) => NanoSocket }
  } catch (error) {
    return String(error)
  }
}

describe("nanomsg", () => {
  const nanomsg = load()
  if (typeof nanomsg === "string") console.log(`nanomsg is not built (npm start builds it): ${nanomsg.split("\n")[0]}`)

  it.skipIf(typeof nanomsg === "string")("carries a message from one socket to another", async () => {
    if (typeof nanomsg === "string") return
    const left = nanomsg.socket("pair")
    const right = nanomsg.socket("pair")
    try {
      const address = `inproc://nightjar-${process.pid}`
      left.bind(address)
      right.connect(address)
      const received = new Promise<string>((resolve) => right.on("data", (data) => resolve(data.toString())))
      left.send("hint")
      assert.strictEqual(await received, "hint")
    } finally {
      left.close()
      right.close()
    }
  })
})
