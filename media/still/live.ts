/**
 * The layer of still pictures: newest key pictures of the streams that are asked for, decoded once for each width.
 *
 * Invariants
 * 1. A stream is looked at while somebody asks for its pictures, and {@link lingerMs} longer: whoever asks every few seconds finds
 *    the newest one at once. At most {@link maxStreams}.
 * 2. Of each stream and width at most one picture waits, and it is the newest when its turn comes. At most {@link maxWaiting} wait.
 */
import type { StreamId } from "#schema/common.ts"
import type { TrackParameters } from "#schema/media.ts"
import { Clock, Deferred, Effect, Exit, Layer, Queue, RcMap, Schedule } from "effect"
import { hash } from "node:crypto"
import { type LiveItem, LiveStreams } from "../hub.ts"
import { RecorderSupervisor, type StreamHealth } from "../recorder.ts"
import {
  freshMs,
  type Still,
  StillBusy,
  type StillError,
  StillFailed,
  Stills,
  StillSilent,
  StillUnknown,
} from "../still.ts"
import { makeLru } from "../storage/lru.ts"
import { annexB, type Decoder, type DecoderOptions, defaultDecoderOptions, makeDecoder } from "./decoder.ts"

const maxStreams = 256
const maxWaiting = 256
const lingerMs = 10_000
/** Cameras send a key picture every one to four seconds, a few every ten. */
const firstMs = 12_000
/** Nobody waits for a camera that is known not to send. */
const silentHealths: ReadonlySet<StreamHealth> = new Set(["offline", "authFailed", "disabled"])
/** How soon it is noticed that the camera has become one of these. */
const lookEveryMs = 500
/** A decoder that takes its longest for each that waits would be no use. */
const answerMs = 20_000
const keptBytes = 32 * 1024 * 1024
/** Nothing but key pictures is kept: this much may wait for that. */
const bounds = { maxBytes: 16 * 1024 * 1024, maxItems: 2_000 }

interface KeyPicture {
  readonly parameters: TrackParameters
  readonly data: Uint8Array
  readonly atMs: number
}

/** Keeps the newest key picture of a stream. */
class Look {
  newest: KeyPicture | null = null
  readonly sinceMs: number
  readonly seen = Deferred.makeUnsafe<void>()
  private parameters: TrackParameters | null = null

  constructor(sinceMs: number) {
    this.sinceMs = sinceMs
  }

  take(item: LiveItem): void {
    if (item._tag === "Parameters") this.parameters = item.parameters
    if (item._tag !== "Unit" || item.unit.track !== "video" || !item.unit.key || this.parameters === null) return
    this.newest = { parameters: this.parameters, data: item.unit.data, atMs: item.unit.arrivalMs }
    Deferred.doneUnsafe(this.seen, Exit.void)
  }
}

interface Job {
  readonly look: Look
  readonly streamId: StreamId
  readonly width: number
  readonly done: Deferred.Deferred<Still, StillError>
}

const openLook = Effect.fnUntraced(function*(streamId: StreamId) {
  const live = yield* LiveStreams
  const clock = yield* Clock.Clock
  const view = yield* live.watch(streamId, bounds)
  if (view === null) return null
  const look = new Look(clock.currentTimeMillisUnsafe())
  yield* Effect.forkScoped(Effect.forever(Effect.map(view.take, (items) => {
    for (const item of items) look.take(item)
  })))
  return look
})

const etagOf = (streamId: StreamId, picture: KeyPicture, width: number): string =>
  hash("sha1", `${streamId} ${picture.atMs} ${picture.data.length} ${width}`, "base64url")

/** Decodes what waits, one after the other, for ever. */
const makeBench = Effect.fnUntraced(function*(decoder: Decoder) {
  const waiting = yield* Queue.dropping<Job>(maxWaiting)
  const jobs = new Map<string, Job>()
  const kept = makeLru<Still>(keptBytes, ({ jpeg }) => jpeg.length)

  const still = Effect.fnUntraced(function*({ look, streamId, width }: Job) {
    const picture = look.newest
    if (picture === null) return yield* new StillSilent()
    const { video } = picture.parameters
    const jpeg = yield* decoder.jpeg(video.codec, annexB(video, picture.data), width)
    return { jpeg, atMs: picture.atMs, etag: etagOf(streamId, picture, width) } satisfies Still
  })
  const work = Effect.gen(function*() {
    const job = yield* Queue.take(waiting)
    const exit = yield* Effect.exit(still(job))
    const key = `${job.streamId} ${job.width}`
    jobs.delete(key)
    if (Exit.isSuccess(exit)) kept.set(key, exit.value)
    Deferred.doneUnsafe(job.done, exit)
  })
  yield* Effect.forkScoped(Effect.forever(work))

  return Effect.fnUntraced(function*(streamId: StreamId, look: Look, width: number) {
    const key = `${streamId} ${width}`
    const known = kept.get(key)
    const picture = look.newest
    if (known !== undefined && picture !== null && known.etag === etagOf(streamId, picture, width)) return known
    const before = jobs.get(key)
    if (before !== undefined) return yield* Deferred.await(before.done)
    const job: Job = { look, streamId, width, done: Deferred.makeUnsafe() }
    jobs.set(key, job)
    if (!Queue.offerUnsafe(waiting, job)) {
      jobs.delete(key)
      return yield* new StillBusy()
    }
    return yield* Deferred.await(job.done)
  })
})

const make = Effect.fnUntraced(function*(options: DecoderOptions) {
  const clock = yield* Clock.Clock
  const supervisor = yield* RecorderSupervisor
  const decode = yield* makeBench(yield* makeDecoder(options))
  const looks = yield* RcMap.make({
    lookup: (streamId: StreamId) => openLook(streamId),
    capacity: maxStreams,
    idleTimeToLive: lingerMs,
  })
  /** A look that sees nothing any more is made anew next time: its stream may have another hub by then. */
  const stale = (look: Look) =>
    clock.currentTimeMillisUnsafe() - Math.max(look.sinceMs, look.newest?.atMs ?? 0) > freshMs

  /** Until the first picture is there, or the camera is known not to send one. */
  const seen = (streamId: StreamId, look: Look) => {
    const health = Effect.sync(() => supervisor.status(streamId)?.health)
    const silent = Effect.repeat(health, {
      schedule: Schedule.spaced(lookEveryMs),
      until: (now) => now !== undefined && silentHealths.has(now),
    })
    return Effect.raceFirst(
      Effect.as(Deferred.await(look.seen), true),
      Effect.as(Effect.timeoutOption(silent, firstMs), false),
    )
  }

  const newest = Effect.fnUntraced(function*(streamId: StreamId, width: number) {
    const look = yield* RcMap.get(looks, streamId).pipe(
      Effect.catchTag("ExceededCapacityError", () => Effect.fail(new StillBusy())),
    )
    if (look === null || stale(look)) yield* RcMap.invalidate(looks, streamId)
    if (look === null) return yield* new StillUnknown()
    if (stale(look)) return yield* new StillSilent()
    if (!(yield* seen(streamId, look))) return yield* new StillSilent()
    return yield* Effect.timeoutOrElse(decode(streamId, look, width), {
      duration: answerMs,
      orElse: () => Effect.fail(new StillFailed({ reason: "the decoder is busy" })),
    })
  })
  return Stills.of({ newest: (streamId, width) => Effect.scoped(newest(streamId, width)) })
})

export const layer = (
  options: Partial<DecoderOptions> = {},
): Layer.Layer<Stills, never, LiveStreams | RecorderSupervisor> =>
  Layer.effect(Stills, make({ ...defaultDecoderOptions, ...options }))
