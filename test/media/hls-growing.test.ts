/** Playlists that grow: what was said stays true (RFC 8216bis, 6.2.1), and the end of what was recorded is not kept back. */
import { Hls, type HlsSource } from "#media/hls.ts"
import { footage, type FootageFile } from "#test/fixtures/footage.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { media, source, t0, withFiles } from "./hls-made-up.ts"

const second = 1_000
const groups = (count: number, groupMs: number) => ({ kind: "groups" as const, count, groupMs })

/** The one file, still growing, with its first `fragments`. */
const grownTo = (made: FootageFile, fragments: number): FootageFile => {
  const entries = made.entries.slice(0, fragments)
  const last = entries.at(-1)!
  const { file, parameters } = made
  return { file: { ...file, fragments, endMs: last.endMs, bytes: last.offset + last.bytes }, entries, parameters }
}

const textOf = (of: HlsSource) => Effect.map(Effect.flatMap(Hls, (hls) => hls.playlist(of)), ({ text }) => text)

const header = (text: string) => text.slice(0, text.indexOf("#EXT-X-START"))

const secondsOf = (text: string) => media(text).segments.reduce((sum, one) => sum + one.duration, 0)

describe("a growing playlist", () => {
  for (const [before, after] of [[1000, 12_000], [2000, 1000], [4000, 30_000], [12_000, 12_000]] as const) {
    it.effect(`keeps its header while groups of ${before} ms turn into groups of ${after} ms`, () => {
      const [made] = footage(t0, [groups(60_000 / before, before), groups(120_000 / after, after)])
      const of = source(t0, null, { createdAt: t0 + 60 * second })
      let files = [grownTo(made!, 60)]
      return Effect.gen(function*() {
        yield* TestClock.setTime(of.createdAt)
        let text = yield* textOf(of)
        const target = media(text).targetDuration
        assert.strictEqual(target, Math.max(2000, before) / 1000)
        assert.notInclude(text, "#EXT-X-INDEPENDENT-SEGMENTS")
        for (let fragments = 61; fragments <= made!.entries.length; fragments++) {
          files = [grownTo(made!, fragments)]
          yield* TestClock.adjust(second)
          const next = yield* textOf(of)
          assert.isTrue(next.startsWith(text), `only appended by fragment ${fragments}`)
          text = next
        }
        const { segments } = media(text)
        assert.isAtMost(Math.max(...segments.map((one) => Math.round(one.duration))), target)
        assert.isAtLeast(secondsOf(text), 178 - target)
        // Another process, later: the same header, the same segments.
        const later = yield* textOf(of).pipe(Effect.provide(withFiles(() => files)))
        assert.strictEqual(header(later), header(text))
        assert.strictEqual(later, text)
      }).pipe(Effect.provide(withFiles(() => files)))
    })
  }

  it.effect("takes a usual target where nothing was recorded before", () => {
    const [made] = footage(t0, [groups(30, 1000)])
    let files: ReadonlyArray<FootageFile> = []
    const of = source(t0, null, { createdAt: t0 })
    return Effect.gen(function*() {
      yield* TestClock.setTime(of.createdAt)
      assert.include(yield* textOf(of), "#EXT-X-TARGETDURATION:6\n")
      files = [made!]
      const text = yield* textOf(of)
      assert.include(text, "#EXT-X-TARGETDURATION:6\n")
      assert.strictEqual(media(text).segments[0]!.duration, 2)
    }).pipe(Effect.provide(withFiles(() => files)))
  })
})

describe("when a camera falls silent", () => {
  const [made] = footage(t0, [groups(30, 4000)])
  const of = source(t0, null, { createdAt: t0 + 40 * second })

  it.effect("its last group comes into the playlist, and what follows goes on behind it", () => {
    let files = [grownTo(made!, 43)]
    return Effect.gen(function*() {
      yield* TestClock.setTime(t0 + 43 * second)
      const held = yield* Effect.flatMap(Hls, (hls) => hls.playlist(of))
      assert.strictEqual(secondsOf(held.text), 40, "the group may go on")
      yield* TestClock.adjust(7 * second)
      assert.strictEqual(yield* Effect.flatMap(Hls, (hls) => hls.playlist(of)), held)
      yield* TestClock.adjust(second)
      const all = yield* Effect.flatMap(Hls, (hls) => hls.playlist(of))
      assert.notStrictEqual(all.etag, held.etag)
      assert.isTrue(all.text.startsWith(held.text))
      assert.strictEqual(secondsOf(all.text), 43, "all there is")
      assert.isFalse(all.ended)

      // It was the disk: the same group goes on.
      files = [grownTo(made!, 60)]
      const after = yield* textOf(of)
      assert.isTrue(after.startsWith(all.text))
      assert.strictEqual(secondsOf(after), 56)
      files = [{ ...made!, file: { ...made!.file, sealed: true } }]
      const sealed = yield* textOf(of)
      assert.isTrue(sealed.startsWith(after))
      assert.strictEqual(secondsOf(sealed), 120)
    }).pipe(Effect.provide(withFiles(() => files)))
  })

  it.effect("a camera whose clock is slow is not silent", () => {
    let files = [grownTo(made!, 43)]
    return Effect.gen(function*() {
      yield* TestClock.setTime(t0 + 3_600 * second)
      yield* textOf(of)
      for (let fragments = 44; fragments <= 59; fragments++) {
        files = [grownTo(made!, fragments)]
        yield* TestClock.adjust(second)
        yield* textOf(of)
      }
      // Only the first look, which could not know better, let a group out.
      assert.deepStrictEqual(media(yield* textOf(of)).segments.slice(-5).map((one) => one.duration), [3, 1, 4, 4, 4])
    }).pipe(Effect.provide(withFiles(() => files)))
  })

  it.effect("a session that begins later has its last group from the first", () => {
    const files = [grownTo(made!, 43)]
    return Effect.gen(function*() {
      yield* TestClock.setTime(t0 + 600 * second)
      assert.strictEqual(secondsOf(yield* textOf({ ...of, createdAt: t0 + 600 * second })), 43)
    }).pipe(Effect.provide(withFiles(() => files)))
  })
})
