/**
 * Messages of the live channel as bytes.
 *
 * Invariants
 * 1. An event is serialised once, however many follow; events that go out together are joined once for all who see the same.
 * 2. Frames of a server are not masked (RFC 6455, section 5.1), so the same bytes are good for every client.
 */
import type { EventBatch, EventPlace, PlacedEvent } from "#actors/protocol/event.ts"
import type { StreamMessage } from "#schema/notification.ts"

export type Wire = "webSocket" | "sse"

export const cursorOf = ({ mark, position }: EventPlace): string => `${position.toString(36)}-${mark}`

const cursorPattern = /^([0-9a-z]{1,11})-([0-9a-z]{0,7})$/

/** The place that a cursor names; `null` for a text that is none. */
export const placeOfCursor = (cursor: string): EventPlace | null => {
  const match = cursorPattern.exec(cursor)
  return match === null ? null : { position: Number.parseInt(match[1]!, 36), mark: match[2]! }
}

/** A whole text message in one frame (RFC 6455, section 5.2). */
export const textFrame = (text: string): Buffer => {
  const payload = Buffer.from(text)
  const { length } = payload
  const head = length < 126 ?
    Buffer.from([0x81, length]) :
    length < 65_536 ?
    Buffer.from([0x81, 126, length >>> 8, length & 0xff]) :
    Buffer.from([0x81, 127, 0, 0, 0, 0, length >>> 24, (length >>> 16) & 0xff, (length >>> 8) & 0xff, length & 0xff])
  return Buffer.concat([head, payload])
}

/** A ping without a payload (section 5.5.2). */
export const pingFrame = Buffer.from([0x89, 0])

/** WHATWG HTML, section 9.2.6. JSON holds no line ends. */
const sseText = (kind: string, cursor: string | null, json: string) =>
  Buffer.from(`${cursor === null ? "" : `id: ${cursor}\n`}event: ${kind}\ndata: ${json}\n\n`)

/** A message that is no event. */
export const messageBytes = (wire: Wire, message: Exclude<StreamMessage, { readonly kind: "event" }>): Buffer => {
  const json = JSON.stringify(message)
  return wire === "webSocket" ?
    textFrame(json) :
    sseText(message.kind, "cursor" in message ? message.cursor : null, json)
}

type Cache<A extends object> = { readonly [W in Wire]: WeakMap<A, Buffer> }
const cache = <A extends object>(): Cache<A> => ({ webSocket: new WeakMap(), sse: new WeakMap() })
const events = cache<PlacedEvent>()
const batches = cache<EventBatch>()

const once = <A extends object>(known: WeakMap<A, Buffer>, key: A, make: () => Buffer): Buffer => {
  const before = known.get(key)
  if (before !== undefined) return before
  const made = make()
  known.set(key, made)
  return made
}

const eventBytes = (wire: Wire, placed: PlacedEvent): Buffer =>
  once(events[wire], placed, () => {
    const cursor = cursorOf(placed.place)
    const { event } = placed.stored
    const json = JSON.stringify({
      kind: "event",
      cursor,
      event: { ...event, time: new Date(event.time).toISOString() },
    })
    return wire === "webSocket" ? textFrame(json) : sseText("event", cursor, json)
  })

export const batchBytes = (wire: Wire, batch: EventBatch): Buffer =>
  once(batches[wire], batch, () => {
    const [only, ...others] = batch.events
    if (only !== undefined && others.length === 0) return eventBytes(wire, only)
    return Buffer.concat(batch.events.map((placed) => eventBytes(wire, placed)))
  })
