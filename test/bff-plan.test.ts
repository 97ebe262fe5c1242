/** What a replay is sewn from while footage moves between the nodes; the nodes are made up, and change by the question. */
import { makePlans } from "#actors/behaviour/bff-plan.ts"
import type { HeldSpan } from "#actors/behaviour/bff-timeline.ts"
import { type Interval, NodeId, RecordingToken, ReplaySessionId } from "#schema/common.ts"
import { PeerUnreachable } from "#schema/federation.ts"
import type { UserPrincipal } from "#schema/permission.ts"
import { FootageNotFound, ReplayFileNotFound, type ReplayUriRequest } from "#schema/replay.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"

const [home, guardian] = ["a", "b"].map((digit) => NodeId.make(`01890000-0000-7000-8000-00000000000${digit}`)) as [
  NodeId,
  NodeId,
]
const token = RecordingToken.make("01890000-0000-7000-8000-000000000001")
const who = { kind: "user", username: "admin", grants: [] } as unknown as UserPrincipal
const date = "#EXT-X-PROGRAM-DATE-TIME:2026-11-21T10:00:00.000Z\n"
const nothing = "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXT-X-PLAYLIST-TYPE:EVENT\n"
const something = `${nothing}${date}#EXTINF:2.00000,\na-1.m4s\n`

const span = (holder: NodeId, start: number, end: number): HeldSpan => ({
  holder,
  start,
  end,
  kind: "continuous",
  nodeId: holder,
  epoch: 1,
})
const before = [span(home, 0, 1_000), span(guardian, 1_200, 2_000), span(home, 2_000, 3_000)]
const after = [span(home, 0, 1_000), span(home, 1_200, 3_000)]

const toldTo = "#EXTM3U\n#EXT-X-PROGRAM-DATE-TIME:1970-01-01T00:00:00.000Z\n#EXTINF:9.00000,\na-1.m4s\n"

const heldAs = (spans: ReadonlyArray<HeldSpan>) => ({
  spans,
  held: [home, guardian].map((holder) => ({ holder, spans: spans.filter((one) => one.holder === holder), gaps: [] })),
})

interface Opened extends Interval {
  readonly holder: NodeId
}

/** `told`: what all nodes tell, look by look, the last for ever; `shows`: what a node shows of a stretch; `has`: whether it opens one. */
const stage = (made: {
  readonly told: ReadonlyArray<ReadonlyArray<HeldSpan>>
  readonly shows?: (part: Opened, looks: number) => string | null | PeerUnreachable
  readonly has?: (part: Opened, looks: number) => boolean
}) => {
  let looks = 0
  const requests: Array<ReplayUriRequest & { readonly holder: NodeId }> = []
  const opened = new Map<string, Opened>()
  const sources = [home, guardian].map((nodeId) => ({ nodeId, name: "", state: "ok", detail: "" }) as const)
  const { begin, onwards } = makePlans(() =>
    Effect.sync(() => ({
      ...heldAs(made.told[Math.min(looks++, made.told.length - 1)] ?? []),
      gaps: [],
      partial: false,
      sources,
      away: new Set<NodeId>(),
    })), {
    open: (holder, request) => {
      const { end = Infinity, start } = request
      requests.push({ holder, ...request })
      const part = { holder, start, end }
      if (made.has?.(part, looks) === false) return Effect.fail(new FootageNotFound({ start, end: null }))
      const id = ReplaySessionId.make(`session-${opened.size}`.padEnd(32, "_"))
      opened.set(id, part)
      return Effect.succeed(id)
    },
    playlist: (_, id) => {
      const told = made.shows === undefined ? something : made.shows(opened.get(id)!, looks)
      return told === null || typeof told === "string" ? Effect.succeed(told) : Effect.fail(told)
    },
    file: (_, __, filename) => Effect.fail(new ReplayFileNotFound({ filename })),
  })
  const ask = (more: Partial<ReplayUriRequest> = { end: 3_000 }) =>
    Effect.gen(function*() {
      const asked = { request: { recordingToken: token, start: 0, ...more }, who, paired: "paired nodes too" as const }
      const running = yield* Effect.forkChild(begin(asked, 1_000))
      yield* TestClock.adjust("10 seconds")
      const { parts } = yield* Fiber.join(running)
      return {
        looks,
        holders: parts.map(({ holder }) => holder),
        texts: parts.map(({ texts }) => texts.get("playlist.m3u8") ?? null),
      }
    })
  /** The home node was shown, and has told of ten seconds less half a group. */
  const goOn = (nowMs: number) =>
    Effect.gen(function*() {
      const asked = { request: { recordingToken: token, start: 0 }, who, paired: "paired nodes too" as const }
      const { parts, seenTo } = yield* onwards({ ...asked, of: home, seenTo: 5_000, nowMs }, Effect.succeed(toldTo))
      return { seenTo, holders: parts.map(({ holder }) => holder), requests }
    })
  return { ask, goOn }
}

describe("what a replay is sewn from", () => {
  it.effect("is what was planned, where each node shows its part", () =>
    Effect.gen(function*() {
      const { holders, looks, texts } = yield* stage({ told: [before] }).ask()
      assert.deepStrictEqual([looks, holders], [1, [home, guardian, home]])
      assert.deepStrictEqual(texts, [something, something, something])
    }))

  it.effect("is planned anew where footage has gone before it was opened", () =>
    Effect.gen(function*() {
      const made = stage({ told: [before, after], has: ({ holder }, looks) => looks > 1 || holder === home })
      assert.deepStrictEqual((yield* made.ask()).holders, [home])
    }))

  it.effect("is planned anew where footage has gone before it was shown", () =>
    Effect.gen(function*() {
      for (const gone of [nothing, null]) {
        const made = stage({ told: [before, after], shows: ({ holder }) => holder === guardian ? gone : something })
        const { holders, looks } = yield* made.ask()
        assert.deepStrictEqual([looks, holders], [2, [home]], String(gone))
      }
    }))

  it.effect("is planned anew where some of a node's footage has gone before it was shown", () =>
    Effect.gen(function*() {
      const long = [span(home, 0, 1_000), span(guardian, 1_200, 40_000), span(home, 40_000, 50_000)]
      const rest = [span(home, 0, 1_000), span(home, 1_200, 30_000), span(guardian, 30_000, 40_000), long[2]!]
      const listed = (seconds: number) => something.replace("2.00000", `${seconds}.00000`)
      for (const [ended, seconds, turns] of [[false, 20, 2], [false, 30, 1], [true, 30, 2], [true, 39, 1]] as const) {
        const made = stage({
          told: [long, rest],
          shows: ({ holder }) => listed(holder === home ? 30 : seconds) + (ended ? "#EXT-X-ENDLIST\n" : ""),
        })
        assert.strictEqual((yield* made.ask({ end: 50_000 })).looks, turns, `${ended} ${seconds}`)
      }
    }))

  it.effect("stands where a part shows nothing and is as it was planned", () =>
    Effect.gen(function*() {
      const made = stage({ told: [before], shows: ({ start }) => start === 2_000 ? nothing : something })
      const { holders, looks, texts } = yield* made.ask()
      assert.deepStrictEqual([looks, holders], [2, [home, guardian, home]])
      assert.deepStrictEqual(texts, [something, something, null])
    }))

  it.effect("waits for nothing of the end of what grows", () =>
    Effect.gen(function*() {
      const made = stage({ told: [before], shows: ({ end }) => end === Infinity ? nothing : something })
      assert.deepStrictEqual((yield* made.ask({})).looks, 1)
    }))

  it.effect("stands where a node that opened its part is away then, and its player asks again", () =>
    Effect.gen(function*() {
      const made = stage({
        told: [before],
        shows: ({ holder }) => holder === home ? new PeerUnreachable({ nodeId: home, reason: "" }) : something,
      })
      const { holders, looks } = yield* made.ask()
      assert.deepStrictEqual([looks, holders], [1, [home, guardian, home]])
    }))

  it.effect("ends with what is, where footage moves on and on", () =>
    Effect.gen(function*() {
      const shows = () => nothing
      const made = stage({ told: [before, after, before, after], shows })
      assert.strictEqual((yield* made.ask()).looks, 3)
      const gone = yield* Effect.flip(stage({ told: [before], has: () => false }).ask())
      assert.strictEqual(gone._tag, "FootageNotFound")
    }))
})

describe("what goes on behind a node that was shown", () => {
  const told = (...spans: ReadonlyArray<HeldSpan>) => stage({ told: [spans] })

  it.effect("is the node itself, as long as it records", () =>
    Effect.gen(function*() {
      const both = told(span(home, 5_000, 29_000), span(guardian, 5_000, 30_000))
      assert.deepInclude(yield* both.goOn(31_000), { seenTo: 29_000, holders: [] })
      // What nobody has gone on with is waited for.
      assert.deepInclude(yield* told(span(home, 5_000, 10_000)).goOn(31_000), { seenTo: 10_000, holders: [] })
    }))

  it.effect("is another from the picture on that was not told of, where it has that", () =>
    Effect.gen(function*() {
      const { holders, requests, seenTo } = yield* told(span(home, 5_000, 10_000), span(guardian, 8_000, 30_000))
        .goOn(31_000)
      assert.deepStrictEqual([holders, seenTo], [[guardian], 30_000])
      assert.deepStrictEqual(requests, [
        { holder: guardian, recordingToken: token, start: 9_000, startsAtKey: true },
      ])
    }))

  it.effect("is another from its beginning, where it began later", () =>
    Effect.gen(function*() {
      const back = [span(home, 25_000, 40_000)]
      const { holders, requests } = yield* told(
        span(home, 5_000, 10_000),
        span(guardian, 12_000, 30_000),
        ...back,
        span(guardian, 45_000, 60_000),
      ).goOn(61_000)
      assert.deepStrictEqual(holders, [guardian, home, guardian])
      assert.deepStrictEqual(requests, [
        { holder: guardian, recordingToken: token, start: 12_000, end: 25_000, endsAtKey: true },
        { holder: home, recordingToken: token, start: 25_000, end: 40_000 },
        { holder: guardian, recordingToken: token, start: 45_000 },
      ])
    }))
})
