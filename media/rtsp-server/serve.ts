/**
 * A player's connection from its first byte to its last.
 *
 * Invariants
 * 1. Requests that wait are {@link maxRequests} at most; more ends the connection.
 */
import { Clock, Deferred, Effect, Exit, Queue } from "effect"
import type { Socket } from "node:net"
import type { RequestHead } from "../rtsp/message.ts"
import { Connection } from "./connection.ts"
import type { Door } from "./door.ts"

const maxRequests = 16

/** Serves a player until its connection closes. */
export const serve = (
  door: Door,
  socket: Socket,
  opened: (connection: Connection) => void,
  closed: (connection: Connection) => void,
): Effect.Effect<void> =>
  Effect.scoped(Effect.gen(function*() {
    const ended = yield* Deferred.make<void>()
    const requests = yield* Queue.bounded<RequestHead>(maxRequests)
    socket.on("error", () => socket.destroy())
    socket.on("close", () => Deferred.doneUnsafe(ended, Exit.void))
    const connection = new Connection(door, socket, yield* Clock.Clock, yield* Effect.scope, (head) => {
      if (!Queue.offerUnsafe(requests, head)) socket.destroy()
    })
    yield* Effect.addFinalizer(() =>
      Effect.andThen(
        connection.leave,
        Effect.sync(() => {
          closed(connection)
          socket.destroy()
        }),
      )
    )
    opened(connection)
    socket.on("data", (bytes: Buffer) => connection.read(bytes))
    if (socket.destroyed) return
    yield* Effect.raceFirst(
      Effect.forever(Effect.flatMap(Queue.take(requests), connection.respond)),
      Deferred.await(ended),
    )
  }))
