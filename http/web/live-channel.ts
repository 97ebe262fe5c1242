/**
 * The live channel of events: one WebSocket a page, taken up again where it ended.
 *
 * Invariants
 * 1. The last cursor is kept: after a break the node sends what happened meanwhile, each event once.
 * 2. A channel that breaks is opened again after a second, then after twice as long each time, a minute at most, with a part
 *    left to chance so that a node that comes back is not asked by everybody at once.
 * 3. The token goes in the first message, never in the address; a fresh one is sent before it expires.
 */
import type { EventEnvelope } from "#schema/event.ts"
import { type ClientMessage, streamClose, StreamMessage } from "#schema/notification.ts"
import { Option, Schema } from "effect"
import { freshToken } from "./api.ts"

export type ChannelState = "connecting" | "open" | "lost" | "refused"

export interface Listener {
  readonly onEvent: (event: EventEnvelope) => void
  readonly onState: (state: ChannelState) => void
  /** Events may be missing: what was derived from them is to be asked for anew. */
  readonly onReset: () => void
}

/** What a channel is for; all that the caller may see from now on, if nothing is said. */
export interface Wanted {
  /** `failover.*` for all that begin so. */
  readonly types?: ReadonlyArray<string>
  /** First what is kept of before, the oldest first. */
  readonly fromEarliest?: boolean
}

const decode = Schema.decodeUnknownOption(Schema.fromJsonString(StreamMessage))

const firstDelay = 1000
const longestDelay = 60_000
/** A message comes every 15 seconds at least; a channel that is silent for longer is dead. */
const silence = 40_000
/** Access tokens live ten minutes. */
const renewal = 60_000

/** Codes after which there is no point in trying again with the same rights. */
const final: ReadonlyArray<number> = [streamClose.forbidden.code, streamClose.badMessage.code]

const address = (): string => `${location.origin.replace(/^http/, "ws")}/notification/api/v1/stream`

/** Opens it; the answer closes it for good. */
export const openChannel = (listener: Listener, wanted: Wanted = {}): () => void => {
  const types = wanted.types === undefined ? {} : { types: wanted.types }
  let cursor: string | null = wanted.fromEarliest === true ? "earliest" : null
  let delay = firstDelay
  let socket: WebSocket | null = null
  let timer = 0
  let watch = 0
  let sent = ""
  let closed = false

  const send = (message: Record<string, unknown> & { readonly kind: ClientMessage["kind"] }) =>
    socket?.readyState === WebSocket.OPEN && socket.send(JSON.stringify(message))

  const again = () => {
    if (closed) return
    listener.onState("lost")
    timer = window.setTimeout(
      () => void connect(),
      delay * (0.75 + crypto.getRandomValues(new Uint8Array(1))[0]! / 512),
    )
    delay = Math.min(longestDelay, delay * 2)
  }

  const heard = () => {
    window.clearTimeout(watch)
    watch = window.setTimeout(() => socket?.close(), silence)
  }

  const onMessage = (text: unknown) => {
    heard()
    const message = Option.getOrNull(decode(text))
    if (message === null || message.kind === "closed") return
    cursor = message.cursor
    if (message.kind === "welcome") {
      delay = firstDelay
      listener.onState("open")
    }
    if (message.kind === "event") listener.onEvent(message.event)
    if (message.kind === "reset") listener.onReset()
  }

  const connect = async () => {
    const token = await freshToken().catch(() => null)
    if (closed) return
    if (token === null) return again()
    const opened = new WebSocket(address(), "nightjar")
    socket = opened
    opened.addEventListener("open", () => {
      sent = token
      send({ kind: "hello", token, ...types, ...(cursor === null ? {} : { lastEventId: cursor }) })
      heard()
    })
    opened.addEventListener("message", ({ data }) => onMessage(data))
    opened.addEventListener("close", ({ code }) => {
      window.clearTimeout(watch)
      if (closed || socket !== opened) return
      if (final.includes(code)) listener.onState("refused")
      else again()
    })
  }

  const renew = window.setInterval(() => {
    if (socket?.readyState !== WebSocket.OPEN) return
    void freshToken().then((token) => {
      if (token !== sent) send({ kind: "token", token })
      sent = token
    }, () => undefined)
  }, renewal / 2)

  listener.onState("connecting")
  void connect()
  return () => {
    closed = true
    window.clearInterval(renew)
    window.clearTimeout(timer)
    window.clearTimeout(watch)
    socket?.close()
  }
}
