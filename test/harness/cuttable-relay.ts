/**
 * A way to a node that can be cut: while it is, nothing passes and nothing is refused, as with a pulled cable. What hung in it then ends
 * when it is healed.
 */
import { connect, createServer, type Socket } from "node:net"

export interface CuttableRelay {
  readonly port: number
  readonly cut: () => void
  readonly heal: () => void
  readonly end: () => Promise<void>
}

/** `target`: a port of this machine. */
export const cuttableRelay = async (target: number): Promise<CuttableRelay> => {
  const sockets = new Set<Socket>()
  let cut = false
  const held = new Set<Socket>()
  const keep = (socket: Socket) => {
    sockets.add(socket)
    socket.on("error", () => socket.destroy())
    socket.on("close", () => sockets.delete(socket))
  }
  const server = createServer((coming) => {
    keep(coming)
    if (cut) {
      coming.pause()
      held.add(coming)
      return
    }
    const going = connect(target, "127.0.0.1")
    keep(going)
    coming.pipe(going).pipe(coming)
    coming.on("close", () => going.destroy())
    going.on("close", () => coming.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  return {
    port: (server.address() as { readonly port: number }).port,
    cut: () => {
      cut = true
      for (const socket of sockets) {
        socket.unpipe()
        socket.pause()
        held.add(socket)
      }
    },
    heal: () => {
      cut = false
      for (const socket of held) socket.destroy()
      held.clear()
    },
    end: async () => {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
