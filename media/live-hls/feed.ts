/**
 * One stream as its players get it: units from the hub become parts, once, and wait in memory.
 *
 * Invariants
 * 1. One view of the hub, however many players. What waits for it has a bound; on overflow whole groups of pictures are lost, which
 *    players see as a discontinuity.
 * 2. The wall clock of a segment is that of recorded footage: the same intake makes both.
 * 3. A feed that heard nothing for {@link silenceMs} looks for its stream anew before it lets go of the old view, so that a camera
 *    that is being tried again is not tried in haste. Where the node does not serve the stream any more the feed has ended.
 * 4. Sound that browsers refuse is left out before anything is built.
 * 5. Another rendition of the same scene has the same media time (RFC 8216bis, 6.2.4). Each stream's decode times come from a clock of
 *    its own, so a run that begins while the other is there is moved by one offset: what has the same wall clock then has the same
 *    media time. The offset holds until the next discontinuity. A stream without another one keeps its times.
 */
import type { StreamId } from "#schema/common.ts"
import { type TrackParameters, videoClockHz } from "#schema/media.ts"
import { Clock, Deferred, Effect, Exit, Option, Scope } from "effect"
import { makeIntake } from "../capture/intake.ts"
import { initSegment, makeFragmentBuilder, moveFragment } from "../fmp4.ts"
import { type LiveItem, LiveStreams, type LiveView } from "../hub.ts"
import { LiveAhead, LiveSilent, type LiveWanted, soundRefusal } from "../live-hls.ts"
import type { Fragment } from "../storage.ts"
import { targetSeconds, Window } from "./window.ts"

/** Longest part: 400 ms. */
const partTicks = 36_000
/** What may wait for this loop: ten seconds of 12 Mbit/s. */
const viewBounds = { maxBytes: 16 * 1024 * 1024, maxItems: 2_000 }
const silenceMs = 30_000
/** Where decode times begin: an hour, so that another rendition whose first picture is older has times above zero too. */
const firstTicks = 3_600 * videoClockHz
const ticksPerMs = videoClockHz / 1000
/** How long somebody waits for what is about to come: three target durations (RFC 8216bis, 6.2.5.2). */
export const longestWaitMs = 3 * targetSeconds * 1000
/** Three divided by the part target, rounded up (6.2.5.2, "Advance Part Limit"). */
const advanceParts = 8

/** What browsers play of a stream, and why its sound is left out. */
export const offered = (parameters: TrackParameters) => {
  const sound = soundRefusal(parameters.audio?.codec ?? null)
  return { parameters: sound === null ? parameters : { ...parameters, audio: null }, sound }
}

export class Feed {
  readonly window: Window
  /** Of what is offered; null before the camera delivered. */
  parameters: TrackParameters | null = null
  /** Why the camera's sound is left out. */
  sound: string | null = null
  /** The stream is not served here any more. */
  ended = false
  private readonly mostBytes: () => number
  private readonly beside: () => Feed | null
  /** The newest fragment: its media time, and its wall clock. */
  private mark: { readonly ticks: number; readonly startMs: number } | null = null
  /** Invariant 5. */
  private moved = 0
  private described: TrackParameters | null = null
  private changed = Deferred.makeUnsafe<void>()
  private readonly intake = makeIntake({
    makeBuilder: (options) => makeFragmentBuilder({ ...options, maxFragmentTicks: partTicks }),
    decodeTicks: firstTicks,
    onFragment: (fragment, parameters) => this.fragment(fragment, parameters),
  })

  /** `firstSegment`: greater than the number of any segment that players of an earlier feed of the stream have seen. */
  constructor(firstSegment: number, mostBytes: () => number, beside: () => Feed | null) {
    this.window = new Window(firstSegment, () => beside()?.window.discontinuities ?? 0)
    this.mostBytes = mostBytes
    this.beside = beside
  }

  take(item: LiveItem): void {
    if (item._tag === "Break") return this.intake.endRun()
    if (item._tag === "Parameters") {
      const { parameters, sound } = offered(item.parameters)
      this.sound = sound
      this.parameters = parameters
      return this.intake.parameters(this.parameters)
    }
    if (item.unit.track === "video" || this.sound === null) this.intake.unit(item.unit)
  }

  clockStep(deltaMs: number, nowMs: number): void {
    this.intake.clockStep(deltaMs, nowMs)
  }

  interrupt(): void {
    this.intake.endRun()
  }

  end(): void {
    this.ended = true
    this.intake.endRun()
    this.window.close()
    this.tell()
  }

  /** Until `there` holds or the feed has ended; fails after {@link longestWaitMs}. */
  await(there: () => boolean): Effect.Effect<void, LiveSilent> {
    const wait = Effect.gen({ self: this }, function*() {
      while (!there() && !this.ended) yield* Deferred.await(this.changed)
    })
    return Effect.flatMap(
      Effect.timeoutOption(wait, longestWaitMs),
      (done) => Option.isSome(done) ? Effect.void : Effect.fail(new LiveSilent()),
    )
  }

  /** Waits for the first whole segment: players take a playlist without one for an error. */
  get begun(): Effect.Effect<void, LiveSilent> {
    const there = () => this.window.segments[0]?.whole === true
    return Effect.filterOrFail(this.await(there), there, () => new LiveSilent())
  }

  /** Waits for what a blocking request names. */
  reached({ part, segment }: LiveWanted): Effect.Effect<void, LiveSilent | LiveAhead> {
    const { newest } = this.window
    const last = newest === undefined || newest.whole ? newest?.number ?? 0 : newest.number - 1
    const lastPart = newest?.number === segment ? newest.parts.length - 1 : -1
    if (segment > last + 2 || (part !== null && part > lastPart + advanceParts)) {
      return Effect.fail(new LiveAhead({ message: "That is too far ahead of what there is" }))
    }
    return this.await(() => {
      const at = this.window.newest
      if (at === undefined) return false
      // A part behind the last one of its segment is the first of the next (6.2.5.2).
      if (at.number > segment) return true
      return at.number === segment && (part === null ? at.whole : at.parts.length > part)
    })
  }

  /** The offset of a run that begins with this fragment. */
  private offset({ decodeTicks, startMs }: Fragment): number {
    const mark = this.beside()?.mark ?? null
    if (mark === null) return this.moved
    const ticks = mark.ticks + Math.round((startMs - mark.startMs) * ticksPerMs)
    return ticks < 0 ? this.moved : ticks - decodeTicks
  }

  private fragment(fragment: Fragment, parameters: TrackParameters): void {
    if (this.mark === null || fragment.discontinuity || parameters !== this.described) {
      this.moved = this.offset(fragment)
    }
    if (parameters !== this.described) this.window.begin(initSegment(parameters))
    this.described = parameters
    const data = Uint8Array.from(fragment.data)
    moveFragment(data, this.moved, parameters.audio?.sampleRate ?? 0)
    this.mark = { ticks: fragment.decodeTicks + this.moved, startMs: fragment.startMs }
    this.window.add(fragment, data, this.mostBytes())
    fragment.release()
    this.tell()
  }

  private tell(): void {
    const before = this.changed
    this.changed = Deferred.makeUnsafe<void>()
    Deferred.doneUnsafe(before, Exit.void)
  }
}

/** Hands everything of a view to the feed until it was silent for too long. */
const listen = (feed: Feed, view: LiveView) =>
  Effect.gen(function*() {
    while (true) {
      const items = yield* Effect.timeoutOption(view.take, silenceMs)
      if (Option.isNone(items)) return
      for (const item of items.value) feed.take(item)
    }
  })

/** Invariant 3. */
const follow = (feed: Feed, streamId: StreamId, first: LiveView, firstScope: Scope.Closeable) =>
  Effect.gen(function*() {
    const live = yield* LiveStreams
    const parent = yield* Effect.scope
    let [view, scope] = [first, firstScope]
    while (true) {
      yield* listen(feed, view)
      feed.interrupt()
      const next = yield* Scope.fork(parent)
      const again = yield* Scope.provide(live.watch(streamId, viewBounds), next)
      yield* Scope.close(scope, Exit.void)
      if (again === null) return feed.end()
      view = again
      scope = next
    }
  })

/**
 * Watches the stream until the scope closes; null where this node does not serve it. `beside`: the feed of another rendition of the
 * same scene, as long as it is open.
 */
export const openFeed = Effect.fnUntraced(
  function*(streamId: StreamId, mostBytes: () => number, beside: () => Feed | null) {
    const live = yield* LiveStreams
    const clock = yield* Clock.Clock
    const scope = yield* Scope.fork(yield* Effect.scope)
    const view = yield* Scope.provide(live.watch(streamId, viewBounds), scope)
    if (view === null) return null
    // Segments last longer than a second, so the numbers of the next feed lie above those of this one.
    const feed = new Feed(Math.floor(clock.currentTimeMillisUnsafe() / 1000), mostBytes, beside)
    yield* Effect.addFinalizer(() => Effect.sync(() => feed.end()))
    // What a camera sends must not take the players' answers away: they learn that it is over.
    const broken = (defect: unknown) =>
      Effect.andThen(Effect.logError(`Live HLS of stream ${streamId} broke`, defect), Effect.sync(() => feed.end()))
    yield* Effect.forkScoped(Effect.catchDefect(follow(feed, streamId, view, scope), broken))
    return feed
  },
)
