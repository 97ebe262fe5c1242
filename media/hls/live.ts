/**
 * The door to HLS over the storage of this node.
 *
 * Invariants
 * 1. A playlist is made anew only when its footage changed: its entity tag comes from what the storage holds in memory.
 * 2. Memory is bounded by the constants here and in `footage.ts`, whatever the number of sessions.
 */
import type { EpochMs, RecordingId } from "#schema/common.ts"
import { FootageNotFound } from "#schema/replay.ts"
import { Clock, Effect, Layer } from "effect"
import { hash } from "node:crypto"
import { keyNear } from "../hls-seam.ts"
import { Hls, type HlsPlaylist, type HlsSource } from "../hls.ts"
import { Storage } from "../storage.ts"
import { FragmentTable } from "../storage/fragment-table.ts"
import { makeLru } from "../storage/lru.ts"
import type { Shown } from "../storage/seams.ts"
import { filesOf, type Gathered, keyOf, makeGatherer, type PlaylistKind } from "./footage.ts"
import { isFinished, isSettled, offersSound } from "./layouts.ts"
import { masterPlaylist, mediaPlaylist } from "./playlist.ts"
import { makeResources } from "./resource.ts"
import { metadataOf } from "./vtt.ts"

/** Characters of whole playlists kept: a day is about 1.1 million. */
const rememberedPlaylists = 24 * 1024 * 1024

/** Around a seam: longer than most groups of pictures. */
const lookedMs = 12_000
const roundingMs = 2

const keysOf = (table: FragmentTable, { from, to }: Shown): ReadonlyArray<EpochMs> => {
  const keys: Array<EpochMs> = []
  for (let row = from; row < Math.min(to, table.length); row++) if (table.key(row)) keys.push(table.startMs(row))
  return keys
}

const typeOf = (source: HlsSource): "VOD" | "EVENT" => isFinished(source) ? "VOD" : "EVENT"

export const layer: Layer.Layer<Hls, never, Storage> = Layer.effect(
  Hls,
  Effect.gen(function*() {
    const storage = yield* Storage
    const { gather, isQuiet } = makeGatherer(storage)
    const { departed, resource } = makeResources(storage)
    const playlists = makeLru<HlsPlaylist>(rememberedPlaylists, (playlist) => playlist.text.length)

    const etagOf = (source: HlsSource, kind: PlaylistKind, nowMs: number): string => {
      const files = filesOf(storage, source)
      const state = `${kind}/${keyOf(source)}/${isSettled(source, nowMs)}/${isQuiet(source, files, nowMs)}`
      const contents = files.map((file) => `${file.id}.${file.fragments}.${file.sealed}`)
      return hash("sha1", `${state}/${contents.join("/")}`, "base64url")
    }

    const textOf = (source: HlsSource, kind: PlaylistKind, gathered: Gathered): string | null =>
      kind === "master" ?
        masterPlaylist(gathered.parts, {
          type: typeOf(source),
          playlist: "playlist.m3u8",
          subtitles: "subtitle-playlist.m3u8",
          sound: (parameters) => offersSound(source, parameters),
        }) :
        mediaPlaylist(gathered.parts, {
          type: typeOf(source),
          ended: gathered.ended,
          startMs: source.start,
          targetSeconds: gathered.targetSeconds,
        })

    const make = (kind: PlaylistKind) =>
      Effect.fnUntraced(function*(source: HlsSource) {
        const etag = etagOf(source, kind, yield* Clock.currentTimeMillis)
        const known = playlists.get(etag)
        if (known !== undefined) return known
        const gathered = yield* gather(source, kind)
        const empty = gathered.parts.length === 0 && isFinished(source)
        const text = empty ? null : textOf(source, kind, gathered)
        if (text === null) return yield* new FootageNotFound({ start: source.start, end: source.end })
        const playlist = { text, etag, ended: gathered.ended }
        playlists.set(etag, playlist)
        return playlist
      })

    /** Null: this node has no such picture. */
    const keyAt = Effect.fnUntraced(function*(recordingId: RecordingId, atMs: EpochMs) {
      const shown = yield* storage.shown(storage.files(recordingId, { start: atMs - lookedMs, end: atMs + lookedMs }))
      const tables = yield* storage.fragments(shown.map(({ file }) => file))
      const keys = tables.flatMap((table, at) =>
        table instanceof FragmentTable ? keysOf(table, shown[at] as Shown) : []
      )
      return keyNear(keys, atMs)
    })
    const edges: Hls["Service"]["edges"] = Effect.fnUntraced(function*(recordingId, asked) {
      const { end, endsAtKey = false, start, startsAtKey = false } = asked
      const first = startsAtKey ? yield* keyAt(recordingId, start) : null
      // What is before it may be rounded to end a little behind its beginning.
      const from = first === null ? start : first + roundingMs
      if (end === undefined) return { start: from }
      const next = endsAtKey ? yield* keyAt(recordingId, end) : null
      return { start: from, end: next === null || next <= from ? end : next }
    })

    return Hls.of({
      edges,
      master: make("master"),
      playlist: make("media"),
      subtitles: make("text"),
      metadata: (source, gaps) => Effect.map(gather(source, "media"), (gathered) => metadataOf(gathered.parts, gaps)),
      resource,
      departed,
    })
  }),
)
