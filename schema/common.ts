/**
 * Words that every slice uses: identifiers, instants, intervals, pages.
 *
 * Invariants
 * 1. An instant is an integer of milliseconds since 1970-01-01T00:00:00Z inside the product, an RFC 3339 UTC text with
 *    milliseconds outside of it.
 * 2. An interval is half-open: `[start, end)`.
 */
import { Schema, SchemaTransformation } from "effect"

/** A UUIDv7 (RFC 9562, section 5.7): the identifier of everything the product itself makes. */
export const Uuid7 = Schema.String.check(Schema.isUUID(7))

/** Milliseconds since the epoch, UTC, as an integer. */
export const EpochMs = Schema.Int
export type EpochMs = number

const rfc3339 = /^\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})$/

/**
 * The wire form of {@link EpochMs}: RFC 3339 with any offset in, `YYYY-MM-DDTHH:mm:ss.sssZ` out. Fractions beyond the
 * millisecond are cut off.
 */
export const Instant = Schema.String.check(
  Schema.makeFilter((text: string) =>
    rfc3339.test(text) && !Number.isNaN(Date.parse(text)) || "Expected an RFC 3339 date and time"
  ),
).pipe(Schema.decodeTo(
  EpochMs,
  SchemaTransformation.transform({
    decode: (text: string) => Date.parse(text),
    encode: (ms: number) => new Date(ms).toISOString(),
  }),
))

/** `[start, end)` in epoch milliseconds. */
export interface Interval {
  readonly start: EpochMs
  readonly end: EpochMs
}

/** Every moment that an RFC 3339 text can name: 1970-01-01T00:00:00.000Z to 9999-12-31T23:59:59.999Z. */
export const allTime: Interval = { start: 0, end: 253_402_300_799_999 }

/** A page of a list; `nextCursor` is opaque, `null` on the last page. */
export const Page = <S extends Schema.Top>(item: S) =>
  Schema.Struct({ items: Schema.Array(item), nextCursor: Schema.NullOr(Schema.String) })

/** What a list is asked for. `limit` is 1 to 500. */
export interface PageRequest {
  readonly limit: number
  readonly cursor: string | null
}

/** The page that answers a {@link PageRequest}. */
export interface PageOf<A> {
  readonly items: ReadonlyArray<A>
  readonly nextCursor: string | null
}

/**
 * Ownership at one moment (design: failover). The pair grows with every change of the serving node; whatever is written on
 * behalf of an owner carries it, and a smaller one is refused.
 */
export const Epoch = Schema.Struct({ number: Schema.Int, nodeId: Uuid7 })
export type Epoch = typeof Epoch.Type

export const NodeId = Uuid7.pipe(Schema.brand("NodeId"))
export type NodeId = typeof NodeId.Type
export const CameraId = Uuid7.pipe(Schema.brand("CameraId"))
export type CameraId = typeof CameraId.Type
export const ChannelId = Uuid7.pipe(Schema.brand("ChannelId"))
export type ChannelId = typeof ChannelId.Type
export const StreamId = Uuid7.pipe(Schema.brand("StreamId"))
export type StreamId = typeof StreamId.Type
export const RecordingId = Uuid7.pipe(Schema.brand("RecordingId"))
export type RecordingId = typeof RecordingId.Type
/** Names the footage of a recording in search and replay; outlives changes of its configuration. */
export const RecordingToken = Uuid7.pipe(Schema.brand("RecordingToken"))
export type RecordingToken = typeof RecordingToken.Type
/** Unguessable (at least 128 bits): whoever knows it may read that session's media. */
export const ReplaySessionId = Schema.String.check(Schema.isPattern(/^[A-Za-z0-9_-]{22,64}$/)).pipe(
  Schema.brand("ReplaySessionId"),
)
export type ReplaySessionId = typeof ReplaySessionId.Type
export const UserId = Uuid7.pipe(Schema.brand("UserId"))
export type UserId = typeof UserId.Type
