/**
 * A live stream by HLS, with partial segments (RFC 8216bis, low latency) under two seconds behind the camera.
 *
 * Invariants
 * 1. A low-latency player always has a request under way, and a browser opens six connections to a server (HTTP/1.1): so at most
 *    {@link mostWaiting} of a page play that way, further ones by whole segments, a few seconds later.
 * 2. The stream that was asked for is shown, although the server offers the other one of the channel as well.
 * 3. The decoder is given two more chances before the way ends.
 */
import Hls, {
  type ErrorData,
  type HlsConfig,
  type LoaderCallbacks,
  type LoaderConfiguration,
  type LoaderContext,
  type PlaylistLoaderConstructor,
} from "hls.js"
import { type Fault, guarded, meter, type StartWay } from "./stream-way.ts"

const mostWaiting = 2

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
  maxLiveSyncPlaybackRate: 1.15,
}

/** What belongs to partial segments, by its tags. */
const partial = /^#EXT-X-(?:PART|PART-INF|PRELOAD-HINT|SERVER-CONTROL|RENDITION-REPORT)[:].*\n/gm

/** Takes the partial segments out of each playlist, so that nothing is waited for. */
class WholeSegments extends Hls.DefaultConfig.loader {
  override load(context: LoaderContext, options: LoaderConfiguration, callbacks: LoaderCallbacks<LoaderContext>) {
    super.load(context, options, {
      ...callbacks,
      onSuccess: (response, stats, asked, details) => {
        if (typeof response.data === "string") response.data = response.data.replace(partial, "")
        callbacks.onSuccess(response, stats, asked, details)
      },
    })
  }
}

let waiting = 0

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
  if (status === 503) return { kind: "lost", words: "The camera delivers no pictures at the moment." }
  if (status >= 400) return { kind: "lost", words: `The recorder answered with ${status}.` }
  return type === Hls.ErrorTypes.NETWORK_ERROR ?
    { kind: "lost", words: "The recorder does not answer." } :
    { kind: "lost", words: `The browser could not play this part (${details}).` }
}

export const overHls: StartWay = ({ path, video }, told) => {
  const events = guarded(told)
  const quick = waiting < mostWaiting
  if (quick) waiting++
  const pLoader = WholeSegments as unknown as PlaylistLoaderConstructor
  const hls = new Hls(quick ? { ...common, lowLatencyMode: true } : { ...common, lowLatencyMode: false, pLoader })
  const abort = new AbortController()
  let bytes = 0
  let recoveries = 0
  const close = (): void => {
    events.end()
    if (abort.signal.aborted) return
    abort.abort()
    if (quick) waiting--
    hls.destroy()
  }
  // Which stream is shown is decided by who opened it; the first variant is that one.
  hls.on(Hls.Events.MANIFEST_PARSED, () => {
    hls.loadLevel = hls.firstLevel
  })
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
  hls.loadSource(path.liveHlsUrl)

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
