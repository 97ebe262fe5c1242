/**
 * Opaque cursors of lists: where the last page ended, as text that clients hand back unchanged.
 *
 * Invariants
 * 1. A cursor is base64url (RFC 4648, section 5) of JSON; clients must not look inside, so its shape may change.
 * 2. A text that is not a cursor of the same list fails with `InvalidCursor`, never with a defect.
 */
import { Effect, Result, Schema } from "effect"
import { Base64Url } from "effect/encoding"
import type { PageOf, PageRequest } from "./common.ts"
import { InvalidCursor } from "./problem.ts"

/** Longest cursor that is looked at; ours are far below. */
const maxCursorLength = 1024

export interface CursorCodec<A> {
  readonly encode: (position: A) => string
  /** `null` stands for the first page. */
  readonly decode: (cursor: string | null) => Effect.Effect<A | null, InvalidCursor>
}

/**
 * `cursorOf("cameras", Schema.Struct({ position: Schema.Int, id: Schema.String }))`. The name ties a cursor to its list.
 */
export const cursorOf = <A, I>(list: string, position: Schema.Codec<A, I>): CursorCodec<A> => {
  const schema = Schema.fromJsonString(Schema.Tuple([Schema.Literal(list), Schema.toCodecJson(position)]))
  const encode = Schema.encodeSync(schema)
  const decode = Schema.decodeUnknownEffect(schema)
  const invalid = () => new InvalidCursor({ message: "The cursor does not belong to this list" })
  return {
    encode: (at) => Base64Url.encode(encode([list, at])),
    decode: (cursor) => {
      if (cursor === null) return Effect.succeed(null)
      const text = cursor.length > maxCursorLength ? undefined : Result.getOrUndefined(Base64Url.decodeString(cursor))
      if (text === undefined) return Effect.fail(invalid())
      return decode(text).pipe(Effect.map(([, at]) => at), Effect.mapError(invalid))
    },
  }
}

/**
 * Cuts a page out of `limit + 1` rows: one row more than asked tells that there is a next page.
 */
export const pageFrom = <Row, A, Item>(options: {
  readonly rows: ReadonlyArray<Row>
  readonly limit: number
  readonly cursor: CursorCodec<A>
  readonly position: (row: Row) => A
  readonly item: (row: Row) => Item
}): { readonly items: ReadonlyArray<Item>; readonly nextCursor: string | null } => {
  const shown = options.rows.slice(0, options.limit)
  const last = shown.at(-1)
  const more = options.rows.length > options.limit && last !== undefined
  return { items: shown.map(options.item), nextCursor: more ? options.cursor.encode(options.position(last)) : null }
}

/** Pages of a list that is whole in memory and bounded; the position is the place in it. */
export const pagesOf = (list: string) => {
  const cursor = cursorOf(list, Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 1_000_000 })))
  return <A>(items: ReadonlyArray<A>, page: PageRequest): Effect.Effect<PageOf<A>, InvalidCursor> =>
    Effect.map(cursor.decode(page.cursor), (after) => {
      const from = after ?? 0
      const end = from + page.limit
      return { items: items.slice(from, end), nextCursor: end < items.length ? cursor.encode(end) : null }
    })
}
