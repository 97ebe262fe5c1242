/**
 * What stands behind the addresses of this door: live streams, and intervals of recorded footage.
 *
 * Invariants
 * 1. An interval begins with its first picture, which is a key picture, and never changes afterwards; an open end is the moment it was
 *    asked for.
 * 2. What is opened is closed with its scope.
 */
import type { RecordingId, StreamId } from "#schema/common.ts"
import { Clock, Deferred, Effect, RcMap, type Scope, type Semaphore } from "effect"
import type { RtspFootage } from "../rtsp-server.ts"
import type { Storage } from "../storage.ts"
import { type Refusal, refuse } from "./answer.ts"
import { describe } from "./description.ts"
import { type Feed, type Numbers, randomNumbers } from "./feed.ts"
import { FootageReader } from "./footage-reader.ts"
import type { Programme } from "./lanes.ts"
import { clockText } from "./play-request.ts"
import { Reader } from "./reader.ts"
import { RecordedPlayer } from "./recorded.ts"
import { spreadOver } from "./spread.ts"
import { keyOf, type LiveTarget, type RecordingTarget } from "./transport.ts"
import { Walk } from "./walk.ts"

/** A camera that was not watched until now has to connect and come to its first key picture. */
const describeMs = 15_000

/** What programmes are made of. */
export interface Shelf {
  readonly feeds: RcMap.RcMap<StreamId, Feed | null>
  readonly storage: Storage["Service"]
  readonly permits: Semaphore.Semaphore
}

/** A feed that gave up is replaced by a new one. */
export const openLive = (
  { feeds }: Shelf,
  target: LiveTarget,
): Effect.Effect<Programme & { readonly isStale: () => boolean }, Refusal, Scope.Scope> =>
  Effect.gen(function*() {
    const { streamId } = target
    let feed = yield* RcMap.get(feeds, streamId)
    if (feed?.stale === true) {
      yield* RcMap.invalidate(feeds, streamId)
      feed = yield* RcMap.get(feeds, streamId)
    }
    if (feed === null) {
      yield* RcMap.invalidate(feeds, streamId)
      return yield* refuse(404)
    }
    const found = feed
    yield* Deferred.await(found.described).pipe(
      Effect.timeoutOrElse({ duration: describeMs, orElse: () => refuse(503) }),
    )
    return {
      key: keyOf(target),
      streamId,
      recordingToken: null,
      describe: (local, talk) =>
        found.parameters === null ?
          null :
          describe(found.parameters, { local, version: found.version, range: "npt=now-", videoRange: null, talk }),
      ssrc: (track) => found.ssrc(track),
      player: (wires, onEnd) => new Reader(found, wires, onEnd),
      isStale: () => found.stale,
    }
  })

/** `recordingId`: of the recording that the token of the address names. `others`: what other nodes have of it. */
export const openRecording = Effect.fnUntraced(
  function*(
    { permits, storage: own }: Shelf,
    target: RecordingTarget,
    recordingId: RecordingId,
    others: RtspFootage | null,
  ): Effect.fn.Return<Programme, Refusal, Scope.Scope> {
    const disk = new FootageReader(own, permits)
    yield* Effect.addFinalizer(() => disk.close)
    const { footage: storage, reader } = others === null ?
      { footage: own, reader: disk } :
      spreadOver({ footage: own, reader: disk }, others)
    const nowMs = yield* Clock.currentTimeMillis
    const end = Math.min(nowMs, target.endMs ?? nowMs)
    const files = storage.files(recordingId, { start: target.startMs ?? 0, end })
    const [first] = files
    if (first === undefined) return yield* refuse(404)
    const asked = { start: target.startMs ?? first.startMs, end }
    const walk = new Walk(storage, {
      recordingId,
      interval: asked,
      fromMs: asked.start,
      backwards: false,
      keysEveryMs: null,
    })
    const begin = yield* walk.next()
    if (begin === null) return yield* refuse(404)
    const interval = { start: begin.table.startMs(begin.from), end }
    const parameters = yield* storage.parameters(begin.file).pipe(Effect.catch(() => refuse(503)))
    const numbers: Numbers = yield* randomNumbers
    const scope = yield* Effect.scope
    const { recordingToken } = target
    const of = { storage, recordingId, recordingToken, interval, parameters, numbers, scope }
    return {
      key: keyOf(target),
      streamId: first.streamId,
      recordingToken,
      describe: (local) =>
        describe(parameters, {
          local,
          version: 1,
          range: `clock=${clockText(interval.start)}-${clockText(interval.end)}`,
          talk: null,
          videoRange: `npt=0-${((interval.end - interval.start) / 1000).toFixed(3)}`,
        }),
      ssrc: (track) => track === "audio" && parameters.audio === null ? null : numbers.ssrc[track === "video" ? 0 : 1],
      player: (wires) => new RecordedPlayer(of, reader, wires),
    }
  },
)
