/** The clients of `notification.ts`: WebSocket connections that count what they get, in a process of their own. */
import * as NodeWS from "@effect/platform-node/NodeWS"

export interface ClientsOrder {
  readonly url: string
  readonly tokens: ReadonlyArray<string>
}

/** Events that each connection got. */
const counts: Array<number> = []
let closed = 0
/** `{"kind":"event"`: told apart without parsing, which would cost more than receiving. */
const isEvent = (data: Buffer) => data[9] === 0x65

const open = ({ tokens, url }: ClientsOrder, k: number): Promise<void> =>
  new Promise((resolve, reject) => {
    const socket = new NodeWS.WebSocket(url, ["nightjar", tokens[k]!])
    counts[k] = 0
    socket.on("message", (data: Buffer) => {
      if (isEvent(data)) counts[k]! += 1
    })
    socket.once("open", resolve)
    socket.once("error", reject)
    socket.once("close", () => closed += 1)
  })

process.on("message", (order: ClientsOrder | "counts") => {
  if (order === "counts") {
    const answer = { total: counts.reduce((a, b) => a + b, 0), least: Math.min(...counts), most: Math.max(...counts) }
    process.send!({ ...answer, closed })
    return
  }
  void (async () => {
    // Some at once: a queue of a thousand handshakes would be refused by the listening socket.
    for (let k = 0; k < order.tokens.length; k += 20) {
      await Promise.all(order.tokens.slice(k, k + 20).map((_, i) => open(order, k + i)))
    }
    process.send!("open")
  })()
})
process.on("disconnect", () => process.exit(0))
