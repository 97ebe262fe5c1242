/**
 * Where hls.js begins: at a moment of the wall clock, or near the newest footage. The moment is written into the playlist as its
 * `EXT-X-START` (RFC 8216bis, section 4.4.2.2) before hls.js reads it, so that the first fragment it asks for is the right one.
 */
import Hls, { type LoaderCallbacks, type LoaderConfiguration, type LoaderContext } from "hls.js"

/**
 * Seconds from the beginning of a media playlist to the fragment that holds a moment, or to the next one if it falls into a gap.
 * Beginning with the fragment's key picture, up to a group of pictures early, shows it at once: nothing before it must be decoded.
 */
const offsetOf = (playlist: string, ms: number): number => {
  let offset = 0
  let clock = Number.NaN
  for (const [, date, seconds] of playlist.matchAll(/^#EXT(?:-X-PROGRAM-DATE-TIME:(.*)|INF:([\d.]+),.*)$/gm)) {
    if (date !== undefined) {
      clock = Date.parse(date)
      continue
    }
    const length = Number(seconds)
    if (ms < clock + length * 1000) return offset
    offset += length
    clock += length * 1000
  }
  return offset
}

/** `startAt`: epoch milliseconds; null for `behindEdge` seconds before the end. */
const beginning = (playlist: string, startAt: number | null, behindEdge: number): string => {
  const offset = startAt === null ? -behindEdge : offsetOf(playlist, startAt)
  const tag = `#EXT-X-START:TIME-OFFSET=${offset.toFixed(3)},PRECISE=YES`
  const plain = playlist.replace(/^#EXT-X-START:.*\n/m, "")
  return plain.replace("#EXTM3U\n", `#EXTM3U\n${tag}\n`)
}

/** A loader of playlists for one player; only the first media playlist decides where it begins. */
export const loaderBeginningAt = (startAt: number | null, behindEdge: number) => {
  let decided = false
  return class extends Hls.DefaultConfig.loader {
    override load(context: LoaderContext, options: LoaderConfiguration, callbacks: LoaderCallbacks<LoaderContext>) {
      super.load(context, options, {
        ...callbacks,
        onSuccess: (response, stats, asked, details) => {
          if (!decided && typeof response.data === "string" && response.data.includes("\n#EXTINF:")) {
            decided = true
            response.data = beginning(response.data, startAt, behindEdge)
          }
          callbacks.onSuccess(response, stats, asked, details)
        },
      })
    }
  }
}
