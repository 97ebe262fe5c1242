/** A network between a browser and a node: UDP on 127.0.0.1, passed on or lost as a test says. */
import { Effect } from "effect"
import { createSocket, type Socket } from "node:dgram"

export interface Relay {
  readonly port: number
  /** Whether a datagram to the browser is lost. */
  lose: (bytes: Buffer) => boolean
  lost: number
}

const bound = Effect.acquireRelease(
  Effect.callback<Socket>((resume) => {
    const socket = createSocket("udp4")
    socket.bind(0, "127.0.0.1", () => resume(Effect.succeed(socket)))
  }),
  (socket) => Effect.sync(() => socket.close()),
)

/** In front of the node's port. */
export const lossyRelay = Effect.fnUntraced(function*(target: number) {
  const front = yield* bound
  const behind = new Map<number, Socket>()
  yield* Effect.addFinalizer(() =>
    Effect.sync(() => {
      for (const socket of behind.values()) socket.close()
    })
  )
  const relay: Relay = { port: front.address().port, lose: () => false, lost: 0 }
  const towards = (port: number): Socket => {
    const socket = createSocket("udp4")
    socket.on("message", (bytes) => {
      if (relay.lose(bytes)) relay.lost++
      else front.send(bytes, port, "127.0.0.1")
    })
    behind.set(port, socket)
    return socket
  }
  front.on("message", (bytes, { port }) => {
    const socket = behind.get(port) ?? towards(port)
    socket.send(bytes, target, "127.0.0.1")
  })
  return relay
})

/** SRTP that is no RTCP. */
export const isRtp = (bytes: Buffer): boolean =>
  bytes.length > 12 && bytes[0]! >> 6 === 2 && (bytes[1]! < 192 || bytes[1]! > 223)

/** The answer, with the relay in place of the node. */
export const byRelay = (answer: string, relay: Relay): string =>
  answer
    .replaceAll(/^a=candidate:\S+ 1 tcp .*\r\n/gm, "")
    .replaceAll(/^(a=candidate:\S+ 1 udp \d+ )\S+ \d+/gm, `$1127.0.0.1 ${relay.port}`)
