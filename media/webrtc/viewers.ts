/**
 * The layer of those who watch by WebRTC: feeds of the streams that are watched, viewers, their pace and their permission.
 *
 * Invariants
 * 1. A feed is held while somebody watches, and {@link lingerMs} longer: a browser that comes back finds its picture at once.
 * 2. Time is spent on pace only while something waits.
 */
import type { StreamId } from "#schema/common.ts"
import type { AudioParameters, TrackParameters } from "#schema/media.ts"
import { Clock, Deferred, Effect, Exit, FiberSet, Latch, Layer, Random, RcMap, Result, Scope } from "effect"
import type { LiveStreams } from "../hub.ts"
import { type Feed, openFeed } from "../rtsp-server/feed.ts"
import {
  type OutgoingPeer,
  type WatchHolder,
  WatchSilent,
  type WatchSound,
  WatchUnknown,
  WatchUnplayable,
  type WebRtcSession,
  WebRtcViewers,
} from "../webrtc-viewers.ts"
import { type PeerEnd, WebRtcBusy, WebRtcClosed } from "../webrtc.ts"
import type { Taken } from "./answer.ts"
import { Exchanges, type Opened, outside } from "./exchange.ts"
import { isH264 } from "./incoming.ts"
import { type Offer, type OfferedCodec, type OfferedMedia, parseOffer, SdpRefused } from "./offer.ts"
import { stepMs, Viewer } from "./viewer.ts"

const maxViewers = 256
/** Of one login session: a wall of 64 tiles that is opened anew before its old sessions are noticed to be gone. */
const maxOfHolder = 128
const lingerMs = 10_000
const describeMs = 10_000
/** Whoever may not watch any more sees the end within two seconds, the notice of it included. */
const checkMs = 500

const receives = ({ direction, usable }: OfferedMedia) =>
  usable && (direction === "recvonly" || direction === "sendrecv")

/** The first two digits of `profile-level-id`, and of the stream's RFC 6381 string: its profile. */
const profileOf = (text: string | undefined): string => (text ?? "").toLowerCase().replace("avc1.", "").slice(0, 2)

/** The same profile, else baseline, under which browsers decode the others as well. */
const videoFits = ({ video }: TrackParameters): ReadonlyArray<(codec: OfferedCodec) => boolean> => [
  (codec) => isH264(codec) && profileOf(codec.parameters.get("profile-level-id")) === profileOf(video.codecs),
  (codec) => isH264(codec) && profileOf(codec.parameters.get("profile-level-id")) === "42",
  isH264,
]

/** What RTP clients of browsers know of it: G.711 as telephones have it, Opus. */
const isPlayable = ({ channels, codec, sampleRate }: AudioParameters): boolean =>
  codec === "opus" ? sampleRate === 48_000 : codec !== "aac" && sampleRate === 8000 && channels === 1

interface Choice {
  readonly taken: ReadonlyArray<Taken | null>
  readonly video: number
  readonly audio: number | null
  readonly sound: WatchSound
}

const choose = (offer: Offer, feed: Feed, parameters: TrackParameters): Result.Result<Choice, SdpRefused> => {
  const taken: Array<Taken | null> = offer.media.map(() => null)
  const take = (kind: "video" | "audio", fits: ReadonlyArray<(codec: OfferedCodec) => boolean>): number | null => {
    for (const fit of fits) {
      for (const [index, media] of offer.media.entries()) {
        const codec = media.kind === kind && receives(media) ? media.codecs.find(fit) : undefined
        if (codec === undefined) continue
        taken[index] = { codec, source: { ssrc: feed.ssrc(kind) ?? 0, name: "nightjar" } }
        return codec.payloadType
      }
    }
    return null
  }
  const video = take("video", videoFits(parameters))
  if (video === null) {
    return Result.fail(new SdpRefused({ problem: "it does not receive H.264 (packetization-mode 1)" }))
  }
  const { audio: own } = parameters
  const audio = own !== null && isPlayable(own) ? take("audio", [({ name }) => name === own.codec]) : null
  const wanted = offer.media.some((media) => media.kind === "audio" && receives(media))
  const sound = own === null ?
    "none" :
    !wanted ?
    "unwanted" :
    audio === null || own.codec === "aac" ?
    "unplayable" :
    own.codec
  return Result.succeed({ taken, video, audio, sound })
}

interface Seat {
  readonly streamId: StreamId
  readonly holder: WatchHolder
  readonly sound: WatchSound
  readonly viewer: Viewer
  readonly opened: Opened
  readonly outgoing: OutgoingPeer
}

const toldOf = ({ holder, opened: { peer }, sound, streamId, viewer }: Seat): WebRtcSession => ({
  id: peer.id,
  streamId,
  remote: peer.remote,
  userAgent: holder.userAgent,
  holder: holder.id,
  state: peer.state,
  since: peer.sinceMs,
  sound,
  ...viewer.statistics,
})

/** Feeds, each with its own scope for as long as somebody holds it. */
const openFeeds = RcMap.make({
  lookup: (streamId: StreamId): Effect.Effect<Feed | null, never, LiveStreams | Scope.Scope> => openFeed(streamId),
  idleTimeToLive: lingerMs,
})

/** The feed, once its first picture has told what it is. */
const describedFeed = Effect.fnUntraced(function*(feeds: Effect.Success<typeof openFeeds>, streamId: StreamId) {
  const held = yield* RcMap.get(feeds, streamId)
  if (held?.stale === true) yield* RcMap.invalidate(feeds, streamId)
  const feed = held?.stale === true ? yield* RcMap.get(feeds, streamId) : held
  if (feed === null) return yield* new WatchUnknown()
  yield* Deferred.await(feed.described).pipe(
    Effect.timeoutOrElse({ duration: describeMs, orElse: () => Effect.fail(new WatchSilent()) }),
  )
  // What came together with the description tells the order of its pictures.
  yield* Effect.sleep(1)
  const { parameters } = feed
  if (parameters === null) return yield* new WatchSilent()
  if (parameters.video.codec === "h265") return yield* new WatchUnplayable({ why: "h265" })
  if (feed.reordered) return yield* new WatchUnplayable({ why: "reordered" })
  return { feed, parameters }
})

class Seats {
  readonly all = new Map<string, Seat>()
  readonly endings: Partial<Record<PeerEnd, number>> = {}
  /** Viewers with a backlog. */
  readonly waiting = new Set<Viewer>()
  readonly wake = Latch.makeUnsafe(false)

  readonly pace = Effect.gen({ self: this }, function*() {
    yield* this.wake.await
    yield* Effect.sleep(stepMs)
    for (const viewer of this.waiting) if (!viewer.pace()) this.waiting.delete(viewer)
    if (this.waiting.size === 0) this.wake.closeUnsafe()
  })

  readonly check = Effect.suspend(() =>
    Effect.forEach(this.all.values(), ({ holder, opened }) =>
      Effect.map(holder.holds, (holds) => {
        if (!holds) opened.peer.end("closed")
      }), { discard: true })
  )

  of({ id }: WatchHolder): number {
    let count = 0
    for (const { holder } of this.all.values()) if (holder.id === id) count++
    return count
  }

  paced(viewer: Viewer): void {
    this.waiting.add(viewer)
    this.wake.openUnsafe()
  }

  ended(id: string, viewer: Viewer, reason: PeerEnd): void {
    this.all.delete(id)
    this.waiting.delete(viewer)
    this.endings[reason] = (this.endings[reason] ?? 0) + 1
  }
}

const make = Effect.gen(function*() {
  const exchange = yield* Exchanges
  const clock = yield* Clock.Clock
  const nowMs = () => clock.currentTimeMillisUnsafe()
  const feeds = yield* openFeeds
  const seats = new Seats()
  const scope = yield* Effect.scope
  const run = yield* FiberSet.makeRuntime()
  yield* Effect.forkScoped(Effect.forever(seats.pace))
  yield* Effect.forkScoped(Effect.forever(Effect.andThen(Effect.sleep(checkMs), seats.check)))

  const seat = Effect.fnUntraced(
    function*(streamId: StreamId, offer: Offer, holder: WatchHolder, own: Scope.Closeable) {
      const { feed, parameters } = yield* describedFeed(feeds, streamId).pipe(Scope.provide(own))
      const { listening } = exchange
      if (listening === null) return yield* new WebRtcClosed()
      const { sound, taken, ...payloadTypes } = yield* Effect.fromResult(choose(offer, feed, parameters))
      const sequences = [yield* Random.nextIntBetween(0, 0x7fff), yield* Random.nextIntBetween(0, 0x7fff)] as const
      let id = ""
      const viewer: Viewer = new Viewer(feed, { ...payloadTypes, sequences }, {
        nowMs,
        onPace: () => seats.paced(viewer),
        onOver: (reason) => {
          seats.ended(id, viewer, reason)
          run(Scope.close(own, Exit.void))
        },
      })
      const opened = exchange.open(listening, offer, taken, viewer)
      if (opened === null) return yield* new WebRtcBusy()
      const { answer, peer } = opened
      id = peer.id
      viewer.attach(peer)
      const outgoing: OutgoingPeer = { ...outside(peer, answer, offer), sound }
      seats.all.set(id, { streamId, holder, sound, viewer, opened, outgoing })
      return outgoing
    },
  )

  return WebRtcViewers.of({
    config: { maxViewers },
    watch: Effect.fnUntraced(function*(streamId, text, holder) {
      const offer = yield* Effect.fromResult(parseOffer(text))
      if (exchange.listening === null) return yield* new WebRtcClosed()
      if (seats.all.size >= maxViewers || seats.of(holder) >= maxOfHolder) return yield* new WebRtcBusy()
      const own = yield* Scope.fork(scope)
      return yield* seat(streamId, offer, holder, own).pipe(Effect.onError(() => Scope.close(own, Exit.void)))
    }),
    viewer: (streamId, id) => {
      const found = seats.all.get(id)
      return found === undefined || found.streamId !== streamId ? null : found.outgoing
    },
    sessions: () => [...seats.all.values()].map(toldOf),
    end: (id) => {
      const found = seats.all.get(id)
      found?.opened.peer.end("closed")
      return found !== undefined
    },
    endings: () => seats.endings,
  })
})

/** Needs the layer of `live.ts`. */
export const layer: Layer.Layer<WebRtcViewers, never, Exchanges | LiveStreams> = Layer.effect(WebRtcViewers, make)
