/**
 * A pair of UDP ports for one track: RTP on the even one, RTCP on the odd one above it (RFC 3550, section 11).
 *
 * Invariants
 * 1. Only datagrams from the camera's address, or the one that its Transport header names, are looked at.
 * 2. RTP comes out in order (see `Reorder`); what is held is bounded.
 */
import { Effect, type Scope } from "effect"
import { createSocket, type Socket } from "node:dgram"
import { isIP } from "node:net"
import { Reorder } from "../rtp/reorder.ts"
import type { Connection } from "./connection.ts"

/** Pairs that are tried before the host counts as out of ports. */
const maxTries = 50
/** Asked of the kernel, which may grant less: a key frame and what comes within one stall of 100 ms. */
const receiveBytes = 2 * 1024 * 1024

export interface UdpHandlers {
  readonly onRtp: (packet: Buffer, arrivalMs: number) => void
  readonly onRtcp: (packet: Buffer, arrivalMs: number) => void
}

export interface UdpPair {
  readonly port: number
  /** After SETUP: where the camera sends from, and where reports go. */
  readonly connect: (
    answer: { readonly source: string | null; readonly serverPort: readonly [number, number] | null },
  ) => void
  readonly sendRtcp: (packet: Buffer) => void
}

const plain = (address: string) => address.replace(/^::ffff:(?=\d+\.)/i, "")

const bind = (address: string, port: number) =>
  Effect.callback<Socket, NodeJS.ErrnoException>((resume) => {
    const socket = createSocket({ type: isIP(address) === 6 ? "udp6" : "udp4", recvBufferSize: receiveBytes })
    const failed = (error: Error) => {
      socket.close()
      resume(Effect.fail(error))
    }
    socket.once("error", failed)
    socket.bind(port, address, () => {
      socket.off("error", failed)
      resume(Effect.succeed(socket))
    })
  })

/** An even port and the odd one above it; whoever binds closes them. */
export const bindPair = Effect.fnUntraced(function*(address: string) {
  for (let tries = 0; tries < maxTries; tries++) {
    const first = yield* bind(address, 0)
    const port = first.address().port
    const neighbour = port % 2 === 0 ? port + 1 : port - 1
    const second = yield* bind(address, neighbour).pipe(Effect.catch(() => Effect.succeed(null)))
    if (second !== null) return port % 2 === 0 ? { rtp: first, rtcp: second } : { rtp: second, rtcp: first }
    first.close()
  }
  return yield* Effect.fail(new Error("no pair of ports is free"))
})

/** An RTP packet without payload: opens the way back through a firewall that follows connections. */
const punch = Buffer.from([0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])

/** Bound to the address that the connection uses; closed with the scope. */
export const openUdpPair = (connection: Connection, handlers: UdpHandlers) => {
  const { local, remote } = connection.addresses
  const allowed = new Set([plain(remote)])
  const open = bindPair(plain(local)).pipe(
    Effect.mapError((error) => connection.error("unreachable", `UDP ports: ${error.message}`)),
  )
  return Effect.acquireRelease(open, ({ rtcp, rtp }) =>
    Effect.sync(() => {
      rtp.close()
      rtcp.close()
    })).pipe(Effect.map(({ rtcp, rtp }): UdpPair => {
      const reorder = new Reorder(handlers.onRtp)
      let target: { readonly address: string; readonly ports: readonly [number, number] } | null = null
      const receive = (socket: Socket, take: (packet: Buffer, arrivalMs: number) => void) => {
        socket.on("message", (packet, { address }) => {
          if (packet.length < 8 || !allowed.has(plain(address))) return
          connection.packets++
          connection.bytes += packet.length
          connection.guard(() => take(packet, connection.clock.currentTimeMillisUnsafe()))
        })
        // A port that the camera has closed is told here; the connection or the watchdog will find out.
        socket.on("error", () => {})
      }
      receive(rtp, (packet, arrivalMs) => reorder.push(packet, arrivalMs))
      receive(rtcp, handlers.onRtcp)
      return {
        port: rtp.address().port,
        connect: ({ serverPort, source }) => {
          if (source !== null && isIP(source) !== 0) allowed.add(plain(source))
          if (serverPort === null || serverPort[0] === 0) return
          target = { address: source !== null && isIP(source) !== 0 ? source : plain(remote), ports: serverPort }
          rtp.send(punch, target.ports[0], target.address)
        },
        sendRtcp: (packet) => {
          if (target !== null) rtcp.send(packet, target.ports[1], target.address)
        },
      }
    })) satisfies Effect.Effect<UdpPair, unknown, Scope.Scope>
}
