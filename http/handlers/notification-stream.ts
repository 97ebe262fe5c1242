/**
 * The live channel of events over WebSocket (RFC 6455) and server-sent events (WHATWG HTML, section 9.2).
 *
 * Invariants
 * 1. Nothing is sent to anybody whose token was not verified for `notification:read`.
 * 2. Bytes of events go to the socket as they are: no queue between the fan-out and the connection but the connection's own,
 *    whose length the fan-out is told (by SSE one queue, counted the same way).
 * 3. Every end that is ours has a code and a reason; a client that does not close within {@link closeTime} is cut.
 */
import type { EventFilter, EventLog, EventPlace, EventSink, EventStart } from "#actors/protocol/event.ts"
import { eventTypeNames } from "#schema/event.ts"
import { ClientMessage, type StreamClose, streamClose } from "#schema/notification.ts"
import type { UserPrincipal } from "#schema/permission.ts"
import { InvalidInput } from "#schema/problem.ts"
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import { type Cause, Deferred, Effect, Exit, Queue, Redacted, Schema, Scope, Stream } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { CloseEvent, type Reader } from "effect/socket/Socket"
import type { Socket } from "node:net"
import { batchBytes, cursorOf, messageBytes, pingFrame, placeOfCursor, type Wire } from "./notification-frames.ts"
import type { StreamSession, StreamSessions } from "./notification-sessions.ts"

const helloTime = "10 seconds"
const closeTime = "2 seconds"
/** The second of the WebSocket protocols that a browser offers is its token. */
const subprotocol = "nightjar"

/** What was asked for, by the query or by `hello`. */
export interface Asked {
  readonly filter: EventFilter
  readonly start: EventStart
}

interface AskedTexts {
  readonly lastEventId?: string | undefined
  readonly types?: ReadonlyArray<string> | undefined
  readonly minimumSeverity?: EventFilter["minimumSeverity"] | undefined
}

const typesOf = (patterns: ReadonlyArray<string>): ReadonlySet<string> =>
  new Set(patterns.flatMap((pattern) =>
    pattern.endsWith(".*") ?
      eventTypeNames.filter((name) => name.startsWith(pattern.slice(0, -1))) :
      eventTypeNames.filter((name) => name === pattern)
  ))

/** What is left out is as in `base`. */
export const askedBy = (texts: AskedTexts, base: Asked | null = null): Effect.Effect<Asked, InvalidInput> =>
  Effect.gen(function*() {
    const types = texts.types === undefined ? base?.filter.types ?? null : typesOf(texts.types)
    if (types !== null && types.size === 0) return yield* InvalidInput.at("/query/types", "names no type of event")
    const { lastEventId } = texts
    const place = lastEventId === undefined || lastEventId === "earliest" ? null : placeOfCursor(lastEventId)
    if (place === null && lastEventId !== undefined && lastEventId !== "earliest") {
      return yield* InvalidInput.at("/query/lastEventId", "is not an id that this service gave")
    }
    const start: EventStart = place !== null ?
      { _tag: "After", place } :
      lastEventId === undefined ?
      base?.start ?? { _tag: "Now" } :
      { _tag: "Earliest" }
    const minimumSeverity = texts.minimumSeverity ?? base?.filter.minimumSeverity ?? "info"
    return { filter: { types, minimumSeverity }, start }
  })

/** A connection that takes bytes. */
interface Line {
  readonly wire: Wire
  readonly send: (bytes: Buffer) => void
  readonly waitingBytes: () => number
  readonly end: (why: StreamClose) => void
  readonly ping: () => boolean | null
}

const sinkOf = ({ end, send, waitingBytes, wire }: Line): EventSink => ({
  begin: (place) => send(messageBytes(wire, { kind: "welcome", cursor: cursorOf(place) })),
  reset: (place) => send(messageBytes(wire, { kind: "reset", cursor: cursorOf(place) })),
  deliver: (batch) => send(batchBytes(wire, batch)),
  waitingBytes,
  cut: end,
})

/** The same bytes for all who stand at the same place: most of them. */
const aliveBytes = () => {
  let last: { readonly place: EventPlace; readonly wire: Wire; readonly bytes: Buffer } | null = null
  return (wire: Wire, place: EventPlace): Buffer => {
    if (last?.place !== place || last.wire !== wire) {
      last = { place, wire, bytes: messageBytes(wire, { kind: "alive", cursor: cursorOf(place) }) }
    }
    return last.bytes
  }
}
const alive = aliveBytes()

const decodeMessage = Schema.decodeUnknownEffect(Schema.fromJsonString(ClientMessage))
const messageOf = (text: string | Uint8Array) => decodeMessage(typeof text === "string" ? text : "")

/** Opens the channel of a verified user on a line; it ends with the scope. */
const open = Effect.fnUntraced(function*(options: {
  readonly log: EventLog["Service"]
  readonly sessions: StreamSessions
  readonly token: Redacted.Redacted
  readonly principal: UserPrincipal
  readonly asked: Asked
  readonly line: Line
}) {
  const { asked, line, log, principal, sessions, token } = options
  const follower = yield* log.follow(principal, asked.filter, asked.start, sinkOf(line))
  const session: StreamSession = {
    token,
    principal,
    follower,
    alive: () => {
      line.send(alive(line.wire, follower.at()))
      return line.ping()
    },
    end: line.end,
  }
  yield* sessions.watch(session)
  return session
})

/** Pings carry their answer in the bytes that arrive: nothing else need be looked at. */
const socketLine = (raw: Socket, ended: Deferred.Deferred<StreamClose>): Line & { readonly close: () => void } => {
  let writable = true
  let heard = -1
  raw.once("close", () => writable = false)
  return {
    wire: "webSocket",
    send: (bytes) => {
      if (writable && !raw.destroyed) raw.write(bytes)
    },
    waitingBytes: () => raw.writableLength,
    end: (why) => Deferred.doneUnsafe(ended, Effect.succeed(why)),
    ping: () => {
      const before = heard
      heard = raw.bytesRead
      if (writable && !raw.destroyed) raw.write(pingFrame)
      return heard !== before
    },
    // After the close frame nothing may follow (section 5.5.1).
    close: () => writable = false,
  }
}

const fromProtocol = (header: string | undefined): Redacted.Redacted | null => {
  const [name, token] = (header ?? "").split(",").map((one) => one.trim())
  return name === subprotocol && token !== undefined && token !== "" ? Redacted.make(token) : null
}
const fromHeader = (header: string | undefined): Redacted.Redacted | null => {
  const match = /^Bearer +(\S+)$/i.exec(header ?? "")
  return match === null ? null : Redacted.make(match[1]!)
}

interface Doors {
  readonly log: EventLog["Service"]
  readonly sessions: StreamSessions
}

/** The first message, where no token came with the handshake. */
const greeted = Effect.fnUntraced(function*(reader: Reader, asked: Asked) {
  const [text] = yield* reader.pull
  const message = yield* messageOf(text)
  if (message.kind !== "hello" || message.token === undefined) return "unauthenticated" as const
  return { token: message.token, asked: yield* askedBy(message, asked) }
})

const webSocketBody = Effect.fnUntraced(
  function*(
    { log, sessions }: Doors,
    reader: Reader,
    line: Line,
    given: { readonly token: Redacted.Redacted | null; readonly asked: Asked },
  ) {
    const hello = given.token === null ?
      yield* greeted(reader, given.asked).pipe(
        Effect.timeoutOrElse({
          duration: helloTime,
          orElse: () => Effect.succeed("noHello" as const),
        }),
        Effect.catchTags({
          SchemaError: () => Effect.succeed("badMessage" as const),
          InvalidInput: () => Effect.succeed("badMessage" as const),
        }),
      ) :
      { token: given.token, asked: given.asked }
    if (typeof hello === "string") return hello
    const principal = yield* sessions.admit(hello.token)
    if (typeof principal === "string") return principal
    const session = yield* open({ log, sessions, line, principal, ...hello })

    const renew = Effect.fnUntraced(function*(text: string | Uint8Array) {
      const message = yield* messageOf(text)
      if (message.kind !== "token") return "badMessage" as const
      const next = yield* sessions.admit(message.token)
      if (typeof next === "string") return next === "later" ? null : next
      if (next.userId !== session.principal.userId) return "unauthenticated" as const
      session.token = message.token
      session.principal = next
      session.follower.become(next)
      return null
    })
    while (true) {
      for (const text of yield* reader.pull) {
        const refused = yield* Effect.catchTag(renew(text), "SchemaError", () => Effect.succeed("badMessage" as const))
        if (refused !== null) return refused
      }
    }
  },
)

/** Holds the connection until one of the two ends it. */
const webSocket = Effect.fnUntraced(
  function*(
    doors: Doors,
    request: HttpServerRequest.HttpServerRequest,
    given: { readonly token: Redacted.Redacted | null; readonly asked: Asked },
  ) {
    const socket = yield* request.upgrade
    const reader = yield* socket.reader
    const writer = yield* socket.writer
    const raw = NodeHttpServerRequest.toIncomingMessage(request).socket
    const ended = Deferred.makeUnsafe<StreamClose>()
    const line = socketLine(raw, ended)
    const why = yield* Effect.raceFirst(Deferred.await(ended), webSocketBody(doors, reader, line, given)).pipe(
      Effect.catchTags({
        TooManyRequests: () => Effect.succeed("tooMany" as const),
        DependencyUnavailable: () => Effect.succeed("later" as const),
        // The client has gone.
        SocketError: () => Effect.succeed(null),
      }),
    )
    line.close()
    if (why === null) return
    yield* writer.write(new CloseEvent(streamClose[why].code, streamClose[why].reason))
    yield* Effect.timeoutOption(Effect.ignore(Effect.forever(reader.pull)), closeTime)
    raw.destroy()
  },
  Effect.scoped,
)

const sse = Effect.fnUntraced(
  function*({ log, sessions }: Doors, asked: Asked, token: Redacted.Redacted, principal: UserPrincipal) {
    const queue = yield* Queue.unbounded<Buffer, Cause.Done>()
    const request = yield* HttpServerRequest.HttpServerRequest
    const { socket } = NodeHttpServerRequest.toIncomingMessage(request)
    let waiting = 0
    let over = false
    const send = (bytes: Buffer) => {
      if (over) return
      waiting += bytes.length
      Queue.offerUnsafe(queue, bytes)
    }
    const line: Line = {
      wire: "sse",
      send,
      waitingBytes: () => waiting + socket.writableLength,
      end: (why) => {
        send(messageBytes("sse", { kind: "closed", ...streamClose[why] }))
        over = true
        Queue.endUnsafe(queue)
      },
      ping: () => null,
    }
    const scope = yield* Scope.make()
    yield* open({ log, sessions, token, principal, asked, line }).pipe(
      Effect.provideService(Scope.Scope, scope),
      Effect.onError((cause) => Scope.close(scope, Exit.failCause(cause))),
    )
    const body = Stream.fromQueue(queue).pipe(
      Stream.map((bytes) => {
        waiting -= bytes.length
        return bytes
      }),
      Stream.ensuring(Effect.suspend(() => Scope.close(scope, Exit.void))),
    )
    return HttpServerResponse.stream(body, {
      contentType: "text/event-stream",
      // Proxies that buffer would hold events back.
      headers: { "cache-control": "no-store", "x-accel-buffering": "no" },
    })
  },
)

const upgradeRequired = HttpServerResponse.empty({ status: 426, headers: { upgrade: "websocket" } })
const acceptsEvents = (accept: string | undefined) => accept !== undefined && accept.includes("text/event-stream")

/** Answers a request for the channel. `principal` is null where the token is to come in the channel. */
export const follow = Effect.fnUntraced(function*(doors: Doors, principal: UserPrincipal | null, asked: Asked) {
  const request = yield* HttpServerRequest.HttpServerRequest
  const { headers } = request
  const token = fromHeader(headers["authorization"])
  if (headers["upgrade"]?.toLowerCase() === "websocket") {
    const given = { token: token ?? fromProtocol(headers["sec-websocket-protocol"]), asked }
    return yield* webSocket(doors, request, given).pipe(
      Effect.as(HttpServerResponse.empty()),
      // It went while the handshake was under way, or came over what cannot be upgraded, such as HTTP/2.
      Effect.catchTags({
        SocketError: () => Effect.succeed(HttpServerResponse.empty()),
        HttpServerError: () => Effect.succeed(upgradeRequired),
      }),
    )
  }
  if (acceptsEvents(headers["accept"]) && principal !== null && token !== null) {
    return yield* sse(doors, asked, token, principal)
  }
  return upgradeRequired
})
