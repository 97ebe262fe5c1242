/**
 * Handlers of live streams by HTTP: who may is told by {@link StreamAccess}, the rest by the door to live HLS.
 *
 * Invariants
 * 1. Whatever is under way ends with its session: a playlist that is waited for is answered 404, a file is cut off.
 * 2. What another member of the cluster serves comes from there, and its sessions are found by their ids.
 */
import { AccessTokens } from "#actors/protocol/auth.ts"
import { mayWatch } from "#actors/protocol/camera-watch.ts"
import { StreamAccess } from "#actors/protocol/camera.ts"
import type { HlsMedia } from "#media/hls.ts"
import { type LiveFile, LiveHls, type LiveSession, type LiveVariantName, type LiveWanted } from "#media/live-hls.ts"
import { type Still, type StillError, Stills } from "#media/still.ts"
import { CameraUnreachable } from "#schema/camera-device.ts"
import { LiveFileNotFound, LiveSessionNotFound } from "#schema/camera-live.ts"
import { StreamNotFound, StreamTokenInvalid } from "#schema/camera.ts"
import type { StreamId } from "#schema/common.ts"
import { BadRequest, DependencyUnavailable, NotSupported, TooManyRequests } from "#schema/problem.ts"
import { Clock, Effect, Redacted, Stream } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { CameraLiveGroup, liveHlsPath } from "../contract/camera-live.ts"
import { nightjar } from "../contract/conventions.ts"
import { makeElsewhere } from "./http-elsewhere.ts"
import { sendMedia, sendPlaylist } from "./replay-media.ts"

/** A tile of a wall. */
const usualWidth = 640
/** Media playlists by their names. */
const variants: ReadonlyMap<string, LiveVariantName> = new Map([["live.m3u8", "first"], ["other.m3u8", "second"]])
/** Long enough for a player that looks twice; sessions are short. */
const briefly = "private, max-age=60, immutable"

const badQuery = (name: string, message: string) =>
  new BadRequest({ message, errors: [{ pointer: `/query/${name}`, message }] })

const silent = () => new CameraUnreachable({ reason: "timeout", detail: "it delivers no pictures at the moment" })

/** What the media floor says, in words of HTTP. */
const answers = {
  LiveSilent: () => Effect.fail(silent()),
  LiveBusy: ({ message }: { readonly message: string }) =>
    Effect.fail(new TooManyRequests({ message, retryAfterSeconds: 5 })),
} as const

const wantedBy = (query: { readonly _HLS_msn?: number; readonly _HLS_part?: number }) => {
  const { _HLS_msn: segment, _HLS_part: part } = query
  if (segment !== undefined) return Effect.succeed<LiveWanted | null>({ segment, part: part ?? null })
  return part === undefined ?
    Effect.succeed(null) :
    Effect.fail(badQuery("_HLS_part", "Expected together with _HLS_msn"))
}

const mediaOf = (session: LiveSession, { bytes, name, pieces }: LiveFile): HlsMedia => ({
  kind: "media",
  contentType: name.endsWith(".mp4") ? "video/mp4" : "video/iso.segment",
  etag: `${session.id}-${name}`,
  bytes,
  read: (from, to) => {
    let at = 0
    const wanted = pieces.flatMap((piece) => {
      const [begin, end] = [Math.max(0, from - at), Math.min(piece.length, to - at)]
      at += piece.length
      return begin < end ? [piece.subarray(begin, end)] : []
    })
    // One by one: what is emitted together would be put together, a copy for each client.
    return Stream.rechunk(Stream.fromIterable(wanted), 1)
  },
})

/** What the decoder says, in words of HTTP. */
const stillAnswer = (error: Exclude<StillError, { readonly _tag: "StillUnknown" }>) => {
  switch (error._tag) {
    case "StillUnsupported":
      return new NotSupported({ message: `This machine cannot decode pictures: ${error.reason}` })
    case "StillBusy":
      return new TooManyRequests({ message: "Too many pictures are asked for at a time", retryAfterSeconds: 2 })
    case "StillFailed":
      return new DependencyUnavailable({ dependency: "decoder", message: `There is no picture: ${error.reason}` })
    case "StillSilent":
      return silent()
  }
}

const sendStill = ({ atMs, etag, jpeg }: Still) =>
  Effect.map(Clock.currentTimeMillis, (nowMs) =>
    HttpServerResponse.uint8Array(jpeg, {
      contentType: "image/jpeg",
      headers: {
        etag: `"${etag}"`,
        age: String(Math.max(0, Math.floor((nowMs - atMs) / 1000))),
        "cache-control": "private, no-cache",
        "last-modified": new Date(atMs).toUTCString(),
      },
    }))

export const CameraLiveHandlers = HttpApiBuilder.group(
  nightjar.add(CameraLiveGroup),
  "cameraLive",
  Effect.fnUntraced(function*(handlers) {
    const access = yield* StreamAccess
    const tokens = yield* AccessTokens
    const live = yield* LiveHls
    const stills = yield* Stills
    const elsewhere = yield* makeElsewhere

    /** From whoever captures it. */
    const fromThere = Effect.fnUntraced(function*(id: StreamId) {
      const other = yield* elsewhere.ofStream(id)
      return other === null ? yield* new StreamNotFound({ id }) : yield* elsewhere.pass(other)
    })
    const sendFile = Effect.fnUntraced(function*(session: LiveSession, filename: string) {
      const file = yield* Effect.catchTags(session.file(filename), answers)
      if (file === null) return yield* new LiveFileNotFound({ filename })
      const until = Effect.raceFirst(session.ended, Effect.sleep(file.takenWithinMs))
      return yield* sendMedia(mediaOf(session, file), until, briefly)
    })

    const playlist = (session: LiveSession, filename: string, variant: LiveVariantName, wanted: LiveWanted | null) =>
      session.playlist(wanted, variant).pipe(
        Effect.catchTags({
          ...answers,
          LiveAhead: ({ message }) => Effect.fail(badQuery("_HLS_msn", message)),
        }),
        Effect.flatMap((found) =>
          found === null ? Effect.fail(new LiveFileNotFound({ filename })) : sendPlaylist(found)
        ),
      )

    return handlers
      .handle("snapshot", ({ params: { stream_id: id }, query }) =>
        Effect.gen(function*() {
          const newest = yield* stills.newest(id, query.width ?? usualWidth).pipe(
            Effect.catchTag("StillUnknown", () => Effect.succeed(null)),
            Effect.mapError(stillAnswer),
          )
          return newest === null ? yield* fromThere(id) : yield* sendStill(newest)
        }))
      .handle("liveMaster", ({ params, query }) =>
        Effect.gen(function*() {
          const grant = yield* access.verify(Redacted.make(query.token ?? ""))
          if (grant.streamId !== params.stream_id) {
            return yield* new StreamTokenInvalid()
          }
          const holder = { id: grant.sessionId, holds: mayWatch(tokens, grant) }
          const session = yield* live.open(params.stream_id, holder, yield* access.beside(grant)).pipe(
            Effect.catchTags({
              LiveBusy: answers.LiveBusy,
              LiveUnknown: () => Effect.succeed(null),
            }),
          )
          if (session === null) {
            return yield* fromThere(params.stream_id)
          }
          const path = liveHlsPath(yield* elsewhere.named(session.id))
          return yield* sendPlaylist(
            yield* session.master(path).pipe(Effect.catchTag("LiveSilent", answers.LiveSilent)),
          )
        }))
      .handle("liveFile", ({ params, query }) =>
        Effect.gen(function*() {
          const session = live.session(elsewhere.unnamed(params.sessionId))
          if (session === null) {
            const other = yield* elsewhere.ofSession(params.sessionId)
            return other === null ? yield* new LiveSessionNotFound() : yield* elsewhere.pass(other)
          }
          const work = Effect.gen(function*() {
            const variant = variants.get(params.filename)
            if (variant === undefined) {
              return yield* sendFile(session, params.filename)
            }
            return yield* playlist(session, params.filename, variant, yield* wantedBy(query))
          })
          const over = Effect.andThen(session.ended, Effect.fail(new LiveSessionNotFound()))
          return yield* Effect.raceFirst(work, over)
        }))
  }),
)
