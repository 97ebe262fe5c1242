/** Where a node has the key picture that another one puts at the edge of its part of a replay. */
import { Hls } from "#media/hls.ts"
import { footage, recordingId } from "#test/fixtures/footage.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { media, source, t0, withFiles } from "./hls-made-up.ts"

const groups = { kind: "groups", count: 10, groupMs: 2_000 } as const
// Ten groups, and ten in a file that follows.
const files = footage(t0, [groups, { kind: "rotate" }, groups])

const edgesOf = (
  asked: { readonly start: number; readonly end?: number; startsAtKey?: boolean; endsAtKey?: boolean },
) => Effect.flatMap(Hls, (hls) => hls.edges(recordingId, asked))

/** Milliseconds behind `t0` that a playlist of the interval begins and ends. */
const shown = Effect.fnUntraced(function*({ end, start }: { readonly start: number; readonly end?: number }) {
  const { text } = yield* Effect.flatMap(Hls, (hls) => hls.playlist(source(start, end ?? t0 + 60_000)))
  const { segments } = media(text)
  const from = segments[0]!.programDateTime!.getTime() - t0
  return [from, from + Math.round(segments.reduce((sum, { duration }) => sum + duration * 1_000, 0))]
})

describe("the edges of a part of a replay", () => {
  it.effect("are key pictures of this node where it has those of another", () =>
    Effect.gen(function*() {
      const asked = { start: t0 + 4_100, end: t0 + 9_880, startsAtKey: true, endsAtKey: true }
      const told = yield* edgesOf(asked)
      assert.deepStrictEqual(told, { start: t0 + 4_002, end: t0 + 10_000 })
      assert.deepStrictEqual(yield* shown(told), [4_000, 10_000])
      // By the clock alone a group comes before, and a piece of one is left out.
      assert.deepStrictEqual(yield* shown({ start: t0 + 3_900, end: t0 + 9_880 }), [2_000, 10_000])
      assert.deepStrictEqual(yield* shown(yield* edgesOf({ ...asked, start: t0 + 3_900 })), [4_000, 10_000])
      assert.deepStrictEqual(yield* shown(yield* edgesOf({ ...asked, end: t0 + 10_150 })), [4_000, 10_000])
      // Also where one file ends there, and another begins.
      assert.deepStrictEqual(yield* shown(yield* edgesOf({ ...asked, end: t0 + 19_900 })), [4_000, 20_000])
      assert.deepStrictEqual(yield* shown(yield* edgesOf({ ...asked, end: t0 + 20_100 })), [4_000, 20_000])
    }).pipe(Effect.provide(withFiles(() => files))))

  it.effect("are as they were asked for where nobody tells of a picture, or no such picture is here", () =>
    Effect.gen(function*() {
      const [start, end] = [t0 + 4_100, t0 + 9_880]
      assert.deepStrictEqual(yield* edgesOf({ start, end }), { start, end })
      assert.deepStrictEqual(yield* edgesOf({ start, startsAtKey: true }), { start: t0 + 4_002 })
      const [between, behind] = [t0 + 9_000, t0 + 90_000]
      assert.deepStrictEqual(yield* edgesOf({ start, end: between, endsAtKey: true }), { start, end: between })
      assert.deepStrictEqual(yield* edgesOf({ start, end: behind, endsAtKey: true }), { start, end: behind })
      // Nothing is left of it: then a picture rather comes twice.
      const [same, next] = [t0 + 4_010, t0 + 4_200]
      assert.deepStrictEqual(yield* edgesOf({ start: same, end: next, endsAtKey: true }), { start: same, end: next })
    }).pipe(Effect.provide(withFiles(() => files))))
})
