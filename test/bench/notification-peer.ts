/** The peer of `notification.ts`: what the documentation of `ws` shows under "server broadcast", and nothing else. */
import * as NodeWS from "@effect/platform-node/NodeWS"
import type { AddressInfo } from "node:net"

const server = new NodeWS.WebSocketServer({ host: "127.0.0.1", port: 0, backlog: 511 })
server.on("listening", () => process.send!({ port: (server.address() as AddressInfo).port }))
process.on("message", (texts: ReadonlyArray<string>) => {
  for (const text of texts) {
    for (const client of server.clients) if (client.readyState === NodeWS.WebSocket.OPEN) client.send(text)
  }
})
process.on("disconnect", () => process.exit(0))
