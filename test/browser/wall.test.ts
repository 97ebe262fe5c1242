/** The wall's arithmetic: views read from what is kept, pictures put to places, steps by arrows, digital zoom. */
import {
  cleared,
  emptyPlace,
  fitted,
  freshName,
  isLarge,
  kept,
  layoutFor,
  layoutOf,
  layouts,
  mostViews,
  neighbour,
  placed,
  type Tiles,
  type View,
  viewsIn,
} from "#http/web/wall.ts"
import { mostZoom, movedBy, unzoomed, zoomedAt } from "#http/web/zoom.ts"
import { ChannelId } from "#schema/common.ts"
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"

const channel = (n: number): ChannelId => ChannelId.make(`01900000-0000-7000-8000-${String(n).padStart(12, "0")}`)
const [a, b, c] = [channel(1), channel(2), channel(3)]

describe("places of the wall", () => {
  it("puts a picture to a place, and exchanges it with what stands there", () => {
    assert.deepStrictEqual(placed([], 2, a), [null, null, a])
    assert.deepStrictEqual(placed([a, b, c], 2, a), [c, b, a])
    assert.deepStrictEqual(placed([a, b], 1, c), [a, c])
    assert.deepStrictEqual(placed([a, null], 1, a), [null, a])
    assert.deepStrictEqual(placed([a], 64, b), [a])
    assert.deepStrictEqual(cleared([a, b], 0), [null, b])
    assert.strictEqual(emptyPlace([a, null, b], 4), 1)
    assert.strictEqual(emptyPlace([a, b], 2), null)
  })

  it.prop("never shows a picture twice, whatever is done", [
    Schema.Array(Schema.Tuple([Schema.Int, Schema.Literals([1, 2, 3, 4, 5]), Schema.Boolean])),
  ], ([steps]) => {
    const tiles = steps.reduce<Tiles>((now, [number, picture, away]) => {
      const tile = number % 70
      return away ? cleared(now, tile) : placed(now, tile, channel(picture))
    }, [])
    const shown = tiles.filter((one) => one !== null)
    assert.strictEqual(new Set(shown).size, shown.length)
    assert.isAtMost(tiles.length, 64)
  })

  it("has a layout for every number of pictures, and leaves no row empty", () => {
    assert.deepStrictEqual([0, 1, 2, 5, 10, 64, 500].map(layoutFor), ["1", "1", "4", "9", "16", "64", "64"])
    const six = fitted(layoutOf("9"), 6)
    assert.deepStrictEqual([six.columns, six.rows, six.tiles], [3, 2, 6])
    assert.strictEqual(fitted(layoutOf("1+7"), 2).tiles, 8)
    assert.deepStrictEqual(layouts.filter((one) => isLarge(one, 0)).map(({ id }) => id), ["1", "1+5", "1+7"])
  })

  it("goes by arrows to every place, and back", () => {
    const opposite = { ArrowLeft: "ArrowRight", ArrowUp: "ArrowDown" } as const
    for (const layout of layouts) {
      const reached = new Set([0])
      for (const tile of reached) {
        for (const key of ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"]) reached.add(neighbour(layout, tile, key))
      }
      assert.strictEqual(reached.size, layout.tiles, layout.id)
      if (layout.first > 1) continue
      for (const [there, back] of Object.entries(opposite)) {
        for (let tile = 0; tile < layout.tiles; tile++) {
          const next = neighbour(layout, tile, there)
          assert.strictEqual(next === tile ? tile : neighbour(layout, next, back), tile)
        }
      }
    }
    assert.strictEqual(neighbour(layoutOf("1+5"), 0, "ArrowRight"), 1)
    assert.strictEqual(neighbour(layoutOf("1+5"), 0, "ArrowDown"), 3)
    assert.strictEqual(neighbour(layoutOf("4"), 0, "Enter"), 0)
  })
})

describe("views that are kept", () => {
  const view: View = { id: "x", name: "Gates", layout: "1+5", tiles: [a, null, b] }

  it("reads what it keeps", () => {
    assert.deepStrictEqual(viewsIn(kept("x", view)), [view])
    assert.deepStrictEqual(kept("x", null), { wall: { views: { x: null } } })
    assert.strictEqual(freshName([{ ...view, name: "View 1" }, { ...view, name: "View 3" }]), "View 2")
  })

  it("leaves out what makes no sense, and keeps the rest", () => {
    const stored = (value: unknown) => ({ wall: { views: { x: { ...view }, y: value } } })
    for (const odd of [null, 7, {}, { ...view, layout: "5" }, { ...view, tiles: ["camera"] }, { ...view, name: "" }]) {
      assert.deepStrictEqual(viewsIn(stored(odd)), [view])
    }
    assert.deepStrictEqual(viewsIn({ wall: { views: { x: { ...view, tiles: [a, a] } } } })[0]?.tiles, [a, null])
    const many = Object.fromEntries(Array.from({ length: 40 }, (_, n) => [`v${n}`, view]))
    assert.strictEqual(viewsIn({ wall: { views: many } }).length, mostViews)
  })

  it.prop("reads anything without breaking", [Schema.Json], ([value]) => {
    for (const kept of [value, { wall: value }, { wall: { views: value } }, { wall: { views: { x: value } } }]) {
      assert.isAtMost(viewsIn(kept).length, mostViews)
    }
  })
})

describe("digital zoom", () => {
  it("keeps the point below the pointer", () => {
    const zoomed = zoomedAt(zoomedAt(unzoomed, 2, 0.25, 0.75), 2, 0.25, 0.75)
    assert.deepStrictEqual(zoomed, { scale: 4, x: -0.75, y: -2.25 })
    assert.deepStrictEqual(zoomedAt(zoomed, 0.01, 0.5, 0.5), unzoomed)
  })

  const share = Schema.Finite.check(Schema.isBetween({ minimum: -1, maximum: 2 }))
  const factor = Schema.Finite.check(Schema.isBetween({ minimum: 0.01, maximum: 20 }))
  it.prop("never leaves a part of the frame empty", [
    Schema.Array(Schema.Tuple([factor, share, share])),
  ], ([steps]) => {
    const { scale, x, y } = steps.reduce(
      (now, [by, atX, atY], n) => n % 2 === 0 ? zoomedAt(now, by, atX, atY) : movedBy(now, atX, atY),
      unzoomed,
    )
    assert.isTrue(scale >= 1 && scale <= mostZoom)
    for (const corner of [x, y]) assert.isTrue(corner <= 0 && corner >= 1 - scale - 1e-9)
  })
})
