/**
 * The video wall: its layouts, its named views and what can be done to them. Nothing here draws or asks.
 *
 * Invariants
 * 1. A view has at most {@link mostTiles} places and a picture stands in at most one of them.
 * 2. A smaller layout hides places and forgets nothing: the larger one shows them again.
 * 3. What was kept by another version, or by somebody else, is read place by place: what makes no sense is left out.
 */
import { ChannelId } from "#schema/common.ts"
import { Option, Schema } from "effect"

const LayoutId = Schema.Literals(["1", "4", "1+5", "1+7", "9", "16", "25", "36", "49", "64"])
export type LayoutId = typeof LayoutId.Type

export interface Layout {
  readonly id: LayoutId
  readonly columns: number
  readonly rows: number
  /** Columns and rows of the first place. */
  readonly first: number
  readonly tiles: number
}

const square = (id: LayoutId, columns: number): Layout => ({
  id,
  columns,
  rows: columns,
  first: 1,
  tiles: columns * columns,
})

export const layouts: ReadonlyArray<Layout> = [
  square("1", 1),
  square("4", 2),
  { id: "1+5", columns: 3, rows: 3, first: 2, tiles: 6 },
  { id: "1+7", columns: 4, rows: 4, first: 3, tiles: 8 },
  square("9", 3),
  square("16", 4),
  square("25", 5),
  square("36", 6),
  square("49", 7),
  square("64", 8),
]

export const mostTiles = 64
/** Views of a user: all of them stay well below what the node keeps for one. */
export const mostViews = 12
export const longestName = 40

export const layoutOf = (id: LayoutId): Layout => layouts.find((one) => one.id === id)!

/** The smallest square that has a place for so many pictures; the largest for more. */
export const layoutFor = (pictures: number): LayoutId =>
  layouts.find(({ first, tiles }) => first === 1 && tiles >= pictures)?.id ?? "64"

/** A layout without the rows that so many pictures leave empty. */
export const fitted = (layout: Layout, pictures: number): Layout => {
  if (layout.first > 1) return layout
  const rows = Math.min(layout.rows, Math.max(1, Math.ceil(pictures / layout.columns)))
  return { ...layout, rows, tiles: layout.columns * rows }
}

/** Whether a place is large enough for the main stream: half of the wall's width or more. */
export const isLarge = ({ columns, first }: Layout, tile: number): boolean =>
  columns === 1 || (tile === 0 && first * 2 > columns)

export type Tiles = ReadonlyArray<ChannelId | null>

const Stored = Schema.Struct({
  name: Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(longestName)),
  layout: LayoutId,
  tiles: Schema.Array(Schema.NullOr(ChannelId)).check(Schema.isMaxLength(mostTiles)),
})

export interface View {
  readonly id: string
  readonly name: string
  readonly layout: LayoutId
  readonly tiles: Tiles
}

const decodeStored = Schema.decodeUnknownOption(Stored)
const decodeWall = Schema.decodeUnknownOption(
  Schema.Struct({ wall: Schema.Struct({ views: Schema.Record(Schema.String, Schema.Unknown) }) }),
)

/** Each picture once, at its first place. */
const once = (tiles: Tiles): Tiles => tiles.map((one, at) => one !== null && tiles.indexOf(one) < at ? null : one)

/** The views in what is kept for a user, by name. */
export const viewsIn = (preferences: unknown): ReadonlyArray<View> => {
  const stored = Option.match(decodeWall(preferences), { onNone: () => ({}), onSome: ({ wall }) => wall.views })
  return Object.entries(stored)
    .flatMap(([id, value]) =>
      Option.match(decodeStored(value), {
        onNone: () => [],
        onSome: (view) => [{ ...view, id, tiles: once(view.tiles) }],
      })
    )
    .toSorted((one, other) => one.name.localeCompare(other.name) || one.id.localeCompare(other.id))
    .slice(0, mostViews)
}

/** The change to what is kept: one view written, or taken away. */
export const kept = (id: string, view: View | null): Readonly<Record<string, unknown>> => ({
  wall: { views: { [id]: view === null ? null : { name: view.name, layout: view.layout, tiles: view.tiles } } },
})

const withPlaces = (tiles: Tiles, places: number): Array<ChannelId | null> =>
  Array.from({ length: Math.max(tiles.length, places) }, (_, at) => tiles[at] ?? null)

/** A picture put to a place. Where it stood already, it changes places with what is there; else that gives way. */
export const placed = (tiles: Tiles, tile: number, picture: ChannelId): Tiles => {
  if (tile < 0 || tile >= mostTiles) return tiles
  const next = withPlaces(tiles, tile + 1)
  const from = next.indexOf(picture)
  if (from >= 0) next[from] = next[tile] ?? null
  next[tile] = picture
  return next
}

export const cleared = (tiles: Tiles, tile: number): Tiles => tiles.map((one, at) => at === tile ? null : one)

/** The first empty place that a layout shows; null where there is none. */
export const emptyPlace = (tiles: Tiles, places: number): number | null => {
  const at = withPlaces(tiles, places).slice(0, places).indexOf(null)
  return at < 0 ? null : at
}

/** A name that no view has yet. */
export const freshName = (views: ReadonlyArray<View>): string => {
  const taken = new Set(views.map(({ name }) => name))
  let number = 1
  while (taken.has(`View ${number}`)) number++
  return `View ${number}`
}

/** The place one step from another, for the arrow keys; the same place at the wall's edge. */
export const neighbour = ({ columns, first, rows, tiles }: Layout, tile: number, key: string): number => {
  const cells = columns * rows
  /** Place of each cell: the first place covers several. */
  const places: Array<number> = []
  let next = 1
  for (let cell = 0; cell < cells; cell++) {
    const inside = cell % columns < first && Math.floor(cell / columns) < first
    places.push(inside ? 0 : next++)
  }
  const steps: Readonly<Record<string, readonly [number, number]>> = {
    ArrowLeft: [-1, 0],
    ArrowRight: [1, 0],
    ArrowUp: [0, -1],
    ArrowDown: [0, 1],
  }
  const step = steps[key]
  if (step === undefined) return tile
  let cell = places.indexOf(tile)
  while (places[cell] === tile) {
    const [x, y] = [cell % columns + step[0], Math.floor(cell / columns) + step[1]]
    if (x < 0 || y < 0 || x >= columns || y >= rows) return tile
    cell = y * columns + x
  }
  return Math.min(tiles - 1, places[cell] ?? tile)
}
