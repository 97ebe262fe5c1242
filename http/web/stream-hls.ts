/**
 * A live stream by HLS: with partial segments (RFC 8216bis, low latency) under two seconds behind the camera, or the newest stored
 * footage some seconds behind.
 *
 * Invariant
 * 1. The decoder is given two more chances before the way ends.
 */
import Hls, { type ErrorData, type HlsConfig, type PlaylistLoaderConstructor } from "hls.js"
import { loaderBeginningAt } from "./parts/hls-start.ts"
import { type Fault, guarded, meter, type StartWay } from "./stream-way.ts"

/** Seconds the newest stored footage is played behind its end: one group of pictures and a playlist's reload. */
const behindEdge = 4

const common: Partial<HlsConfig> = {
  // Fragmented MP4 needs no remuxing: a worker would only have to be started first.
  enableWorker: false,
  renderTextTracksNatively: false,
  enableID3MetadataCues: false,
  enableDateRangeMetadataCues: false,
  enableEmsgMetadataCues: false,
  liveDurationInfinity: true,
  backBufferLength: 6,
  maxBufferLength: 8,
}

const lowLatency: Partial<HlsConfig> = {
  ...common,
  lowLatencyMode: true,
  maxLiveSyncPlaybackRate: 1.1,
}

const stored = (): Partial<HlsConfig> => ({
  ...common,
  pLoader: loaderBeginningAt(null, behindEdge) as unknown as PlaylistLoaderConstructor,
  liveSyncDuration: behindEdge,
  liveMaxLatencyDuration: 3 * behindEdge,
  maxLiveSyncPlaybackRate: 1.1,
})

const codecErrors: ReadonlyArray<string> = [
  Hls.ErrorDetails.BUFFER_ADD_CODEC_ERROR,
  Hls.ErrorDetails.BUFFER_INCOMPATIBLE_CODECS_ERROR,
  Hls.ErrorDetails.MANIFEST_INCOMPATIBLE_CODECS_ERROR,
]

const faultOf = ({ details, response, type }: ErrorData): Fault => {
  if (codecErrors.includes(details)) return { kind: "codec", words: "This browser cannot decode these pictures." }
  const status = response?.code ?? 0
  if (status === 401 || status === 403) return { kind: "refused", words: "The recorder does not let you watch this." }
  if (status === 404 || status === 410) return { kind: "lost", words: "The stream has ended." }
  if (status >= 400) return { kind: "lost", words: `The recorder answered with ${status}.` }
  return type === Hls.ErrorTypes.NETWORK_ERROR ?
    { kind: "lost", words: "The recorder does not answer." } :
    { kind: "lost", words: `The browser could not play this part (${details}).` }
}

const over =
  (source: (path: Parameters<StartWay>[0]["path"]) => string | null, live: boolean): StartWay => (input, told) => {
    const events = guarded(told)
    const { path, video } = input
    const hls = new Hls(live ? lowLatency : stored())
    const abort = new AbortController()
    let bytes = 0
    let recoveries = 0
    const close = (): void => {
      events.end()
      abort.abort()
      hls.destroy()
    }
    hls.on(Hls.Events.FRAG_LOADED, (_event, { frag, part }) => {
      bytes += (part ?? frag).stats.loaded
    })
    hls.on(Hls.Events.ERROR, (_event, data) => {
      if (!data.fatal) return
      const fault = faultOf(data)
      if (data.type === Hls.ErrorTypes.MEDIA_ERROR && fault.kind !== "codec" && recoveries++ < 2) {
        return hls.recoverMediaError()
      }
      events.onFault(fault)
      close()
    })
    video.addEventListener("loadeddata", () => events.onPicture(), { once: true, signal: abort.signal })
    video.addEventListener("canplay", () => void video.play().catch(() => undefined), { signal: abort.signal })
    hls.attachMedia(video)
    hls.loadSource(source(path) ?? "")

    const rates = meter(10_000)
    return {
      close,
      figures: () => {
        const { droppedVideoFrames, totalVideoFrames } = video.getVideoPlaybackQuality()
        const playing = hls.playingDate?.getTime() ?? null
        return Promise.resolve({
          width: video.videoWidth,
          height: video.videoHeight,
          lost: null,
          dropped: droppedVideoFrames,
          latencyMs: playing === null ? null : Math.max(0, Date.now() - playing),
          ...rates(totalVideoFrames, bytes),
        })
      },
    }
  }

/** The newest stored footage. */
export const overStoredHls: StartWay = over((path) => path.hlsUrl, false)
