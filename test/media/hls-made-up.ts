/** HLS over made-up footage: the door to it, sources, and playlists as an independent parser reads them. */
import type { HlsSource } from "#media/hls.ts"
import { layer as hlsLayer } from "#media/hls/live.ts"
import { Storage } from "#media/storage.ts"
import { type FootageFile, recordingId, storageOf } from "#test/fixtures/footage.ts"
import { Layer } from "effect"
import * as HlsParser from "hls-parser"

export const t0 = Date.parse("2026-03-01T12:00:00.000Z")
export const hour = 3_600_000

export const withFiles = (files: () => ReadonlyArray<FootageFile>, broken?: ReadonlySet<string>) =>
  hlsLayer.pipe(Layer.provide(Layer.succeed(Storage, storageOf(files, broken))))

export const source = (start: number, end: number | null, more: Partial<HlsSource> = {}): HlsSource => ({
  recordingId,
  start,
  end,
  speed: 1,
  createdAt: t0 + 1000 * hour,
  ...more,
})

export const media = (text: string) => {
  const parsed = HlsParser.parse(text)
  if (parsed.isMasterPlaylist) throw new Error("a master playlist where a media playlist should be")
  return parsed
}
