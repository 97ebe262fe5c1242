/**
 * Playlists and media as HTTP answers (RFC 9110): validators, ranges, caching.
 *
 * Invariants
 * 1. A media answer streams: at most one chunk is in memory for it, and the file closes when the client goes.
 * 2. Media never change under their name, so they may rest in a private cache for ever; playlists are validated every time.
 */
import type { HlsMedia, HlsPlaylist } from "#media/hls.ts"
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import { Effect, Stream } from "effect"
import { Headers, HttpServerRequest, HttpServerResponse } from "effect/http"
import { promisify } from "node:util"
import { constants, gzip } from "node:zlib"
import { playlistType } from "../contract/replay.ts"

const validated = "private, no-cache"
const immutable = "private, max-age=31536000, immutable"

/** Shorter texts fit into one packet as they are. */
const leastCompressed = 1_400

const compress = promisify(gzip)

/** `If-None-Match` names this tag (section 13.1.2: weak comparison). */
export const isFresh = (header: string | undefined, tag: string): boolean =>
  header !== undefined && header.split(",").some((one) => {
    const candidate = one.trim().replace(/^W\//, "")
    return candidate === "*" || candidate === tag.replace(/^W\//, "")
  })

/** Whether gzip is welcome (section 12.5.3). */
export const acceptsGzip = (header: string | undefined): boolean =>
  header !== undefined && header.split(",").some((one) => {
    const [coding = "", ...parameters] = one.trim().toLowerCase().split(/\s*;\s*/)
    return (coding === "gzip" || coding === "*") && !parameters.some((parameter) => /^q=0(\.0*)?$/.test(parameter))
  })

/** `[from, to)` of a `Range` header; `null` to send all of it, `unsatisfiable` for 416. Several ranges are answered whole. */
export const rangeOf = (
  header: string | undefined,
  bytes: number,
): { readonly from: number; readonly to: number } | "unsatisfiable" | null => {
  const match = header === undefined ? null : /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header.trim())
  if (match === null) return null
  const [, first = "", last = ""] = match
  if (first === "" && last === "") return null
  if (first === "") {
    const length = Math.min(Number(last), bytes)
    return length === 0 ? "unsatisfiable" : { from: bytes - length, to: bytes }
  }
  const from = Number(first)
  const to = last === "" ? bytes : Math.min(Number(last) + 1, bytes)
  if (last !== "" && Number(last) < from) return null
  return from >= bytes ? "unsatisfiable" : { from, to }
}

const request = HttpServerRequest.HttpServerRequest

/** A playlist, compressed where that is welcome. */
export const sendPlaylist = Effect.fnUntraced(function*(playlist: Pick<HlsPlaylist, "text" | "etag">) {
  const { headers } = yield* request
  const tag = `W/"${playlist.etag}"`
  const common = { etag: tag, "cache-control": validated, vary: "accept-encoding" }
  if (isFresh(headers["if-none-match"], tag)) return HttpServerResponse.empty({ status: 304, headers: common })
  if (playlist.text.length < leastCompressed || !acceptsGzip(headers["accept-encoding"])) {
    return HttpServerResponse.text(playlist.text, { contentType: playlistType, headers: common })
  }
  const body = yield* Effect.promise(() => compress(playlist.text, { level: constants.Z_BEST_SPEED }))
  return HttpServerResponse.uint8Array(body, {
    contentType: playlistType,
    headers: { ...common, "content-encoding": "gzip" },
  })
})

/** A WebVTT file; its gaps may become known later, hence validated. */
export const sendText = (text: string, headers: Headers.Input = {}) =>
  HttpServerResponse.text(text, {
    contentType: "text/vtt; charset=utf-8",
    headers: Headers.merge(Headers.fromInput({ "cache-control": validated }), Headers.fromInput(headers)),
  })

/**
 * Closes the connection at `until` while the body is written: that of a client that takes nothing waits for room, and does not
 * hear that it is over.
 */
const watched = <E>(
  body: Stream.Stream<Uint8Array, E>,
  until: Effect.Effect<void>,
  source: HttpServerRequest.HttpServerRequest,
) => {
  const close = Effect.sync(() => {
    const connection: { readonly destroy: () => unknown } | undefined =
      NodeHttpServerRequest.toIncomingMessage(source).socket
    connection?.destroy()
  })
  return Stream.unwrap(Effect.as(Effect.forkScoped(Effect.andThen(until, close)), body))
}

/**
 * An initialization or a segment, whole or a range of it. `until`: what is under way then is cut off. `cached`: what caches may do
 * with it.
 */
export const sendMedia = Effect.fnUntraced(function*(media: HlsMedia, until: Effect.Effect<void>, cached = immutable) {
  const source = yield* request
  const { headers, method } = source
  const tag = `"${media.etag}"`
  const common = { etag: tag, "cache-control": cached, "accept-ranges": "bytes" }
  if (isFresh(headers["if-none-match"], tag)) return HttpServerResponse.empty({ status: 304, headers: common })
  const condition = headers["if-range"]
  const range = condition === undefined || condition === tag ? rangeOf(headers["range"], media.bytes) : null
  if (range === "unsatisfiable") {
    return HttpServerResponse.empty({
      status: 416,
      headers: { "accept-ranges": "bytes", "content-range": `bytes */${media.bytes}` },
    })
  }
  const { from, to } = range ?? { from: 0, to: media.bytes }
  // An interrupted body closes its connection; one that merely ended early would let the player wait for the rest.
  const cutOff = Effect.andThen(until, Effect.interrupt)
  const body = method === "HEAD" ?
    Stream.empty :
    Stream.interruptWhen(watched(media.read(from, to), until, source), cutOff)
  return HttpServerResponse.stream(body, {
    status: range === null ? 200 : 206,
    contentType: media.contentType,
    contentLength: to - from,
    headers: range === null ? common : { ...common, "content-range": `bytes ${from}-${to - 1}/${media.bytes}` },
  })
})
