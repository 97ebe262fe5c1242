/**
 * A video element that plays a replay session by wall clock: it starts at a moment, seeks to moments, and tells the moment
 * that is on screen. hls.js maps moments to media time by `EXT-X-PROGRAM-DATE-TIME`.
 */
import Hls, { type ErrorData, type LevelDetails, type PlaylistLoaderConstructor } from "hls.js"
import { forwardRef, useEffect, useImperativeHandle, useRef } from "react"
import { loaderBeginningAt } from "./hls-start.ts"

export interface HlsVideoHandle {
  /** False when the moment lies outside of what the session holds. */
  readonly seek: (ms: number) => boolean
  /** Shows the picture `by` pictures away. */
  readonly step: (by: number) => void
  readonly element: () => HTMLVideoElement | null
}

export type PlayState = "loading" | "playing" | "stalled" | "ended"

interface Props {
  readonly src: string
  /** Moment to begin at; null: the live edge. */
  readonly startAt: number | null
  readonly rate: number
  readonly paused: boolean
  readonly muted: boolean
  readonly label: string
  readonly onMoment?: (ms: number) => void
  readonly onState?: (state: PlayState) => void
  readonly onError?: (message: string) => void
}

/** Seconds a live picture stays behind the newest stored footage: one group of pictures and a playlist's reload. */
const behindEdge = 4

export const cannotDecode =
  "This browser cannot decode the pictures of this camera (H.265). Play them in Safari, in Chrome or Edge on a computer whose " +
  "graphics decode H.265, or in a player such as VLC; or set the camera to H.264."

/** Media time of a moment: inside its fragment, or at the start of the next one when it falls into a gap. */
const mediaTime = (details: LevelDetails, ms: number): number | null => {
  for (const fragment of details.fragments) {
    const start = fragment.programDateTime
    if (start === null || fragment.gap === true) continue
    if (ms < start + fragment.duration * 1000) return fragment.start + Math.max(0, (ms - start) / 1000)
  }
  return null
}

const holds = (details: LevelDetails, ms: number): boolean => {
  const first = details.fragments[0]?.programDateTime ?? null
  const last = details.fragments.at(-1)
  const end = last?.programDateTime ?? null
  return first !== null && end !== null && ms >= first && ms < end + last!.duration * 1000
}

const wordsOf = (error: ErrorData): string => {
  const { BUFFER_ADD_CODEC_ERROR, BUFFER_INCOMPATIBLE_CODECS_ERROR, MANIFEST_INCOMPATIBLE_CODECS_ERROR } =
    Hls.ErrorDetails
  const codec: ReadonlyArray<string> = [
    BUFFER_ADD_CODEC_ERROR,
    BUFFER_INCOMPATIBLE_CODECS_ERROR,
    MANIFEST_INCOMPATIBLE_CODECS_ERROR,
  ]
  if (codec.includes(error.details)) return cannotDecode
  const status = error.response?.code ?? 0
  if (status === 410) return "This replay session has ended. Play again to open another one."
  if (status === 404) return "There is no footage here yet, or no longer."
  if (status >= 400) return `The recorder answered with ${status}.`
  return error.type === Hls.ErrorTypes.NETWORK_ERROR ?
    "The recorder does not answer." :
    `The browser could not play this part (${error.details}).`
}

const playerOf = (startAt: number | null): Hls => {
  const live = startAt === null
  return new Hls({
    // Fragmented MP4 needs no remuxing: a worker would only have to be started first.
    enableWorker: false,
    pLoader: loaderBeginningAt(startAt, behindEdge) as unknown as PlaylistLoaderConstructor,
    // The page shows the clock itself; a native text track would begin with a `data:` address, which the page's policy refuses.
    renderTextTracksNatively: false,
    enableID3MetadataCues: false,
    enableDateRangeMetadataCues: false,
    enableEmsgMetadataCues: false,
    backBufferLength: live ? 10 : 60,
    maxBufferLength: live ? 8 : 30,
    // A recording that grows is not chased: only a live picture catches up with the newest footage.
    liveSyncDuration: behindEdge,
    ...(live ? { liveMaxLatencyDuration: 3 * behindEdge } : {}),
    maxLiveSyncPlaybackRate: live ? 1.1 : 1,
    liveDurationInfinity: true,
  })
}

export const HlsVideo = forwardRef<HlsVideoHandle, Props>((props, ref) => {
  const video = useRef<HTMLVideoElement>(null)
  const player = useRef<Hls | null>(null)
  const latest = useRef(props)
  latest.current = props

  useImperativeHandle(ref, () => ({
    seek: (ms) => {
      const hls = player.current
      const details = hls?.levels[Math.max(0, hls.currentLevel)]?.details ?? hls?.latestLevelDetails ?? null
      const target = details !== null && holds(details, ms) ? mediaTime(details, ms) : null
      if (target === null || video.current === null) return false
      video.current.currentTime = target
      return true
    },
    step: (by) => {
      const hls = player.current
      const rate = hls?.levels[Math.max(0, hls.currentLevel)]?.frameRate || 25
      if (video.current !== null) video.current.currentTime += by / rate
    },
    element: () => video.current,
  }))

  useEffect(() => {
    const element = video.current!
    if (!Hls.isSupported()) {
      latest.current.onError?.("This browser cannot play video by Media Source Extensions.")
      return
    }
    const hls = playerOf(props.startAt)
    player.current = hls
    let recoveries = 0
    hls.on(Hls.Events.ERROR, (_event, data) => {
      if (!data.fatal) return
      // A decoder that lost its way is given two more chances before a person is told.
      const words = wordsOf(data)
      if (data.type === Hls.ErrorTypes.MEDIA_ERROR && words !== cannotDecode && recoveries++ < 2) {
        hls.recoverMediaError()
      } else latest.current.onError?.(words)
    })
    hls.attachMedia(element)
    hls.loadSource(props.src)
    const tick = window.setInterval(() => {
      const date = hls.playingDate
      if (date !== null && element.readyState >= 2) latest.current.onMoment?.(date.getTime())
    }, 200)
    return () => {
      window.clearInterval(tick)
      player.current = null
      hls.destroy()
    }
  }, [props.src, props.startAt])

  useEffect(() => {
    const element = video.current!
    // The default is what a newly loaded session begins with.
    element.defaultPlaybackRate = props.rate
    element.playbackRate = props.rate
    if (props.paused) element.pause()
    else void element.play().catch(() => undefined)
  }, [props.rate, props.paused, props.src])

  return (
    <video
      ref={video}
      aria-label={props.label}
      muted={props.muted}
      playsInline
      onCanPlay={(event) => {
        event.currentTarget.playbackRate = latest.current.rate
        if (!latest.current.paused) void event.currentTarget.play().catch(() => undefined)
      }}
      onSeeked={() => props.onState?.("playing")}
      onPlaying={() => props.onState?.("playing")}
      onWaiting={() => props.onState?.("stalled")}
      onLoadStart={() => props.onState?.("loading")}
      onEnded={() => props.onState?.("ended")}
    />
  )
})
