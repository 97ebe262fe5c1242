/**
 * A video element that plays a replay session by wall clock: it starts at a moment, seeks to moments, and tells the moment
 * that is on screen. hls.js maps moments to media time by `EXT-X-PROGRAM-DATE-TIME`.
 */
import Hls, { type LevelDetails } from "hls.js"
import { forwardRef, useEffect, useImperativeHandle, useRef } from "react"

export interface HlsVideoHandle {
  /** False when the moment lies outside of what the session holds. */
  readonly seek: (ms: number) => boolean
  readonly element: () => HTMLVideoElement | null
}

interface Props {
  readonly src: string
  /** Moment to begin at; null: the live edge. */
  readonly startAt: number | null
  readonly rate: number
  readonly paused: boolean
  readonly muted: boolean
  readonly label: string
  readonly onMoment?: (ms: number) => void
  readonly onState?: (state: "loading" | "playing" | "stalled" | "ended") => void
  readonly onError?: (message: string) => void
}

/** Seconds a live picture stays behind the newest stored footage: one group of pictures and a playlist's reload. */
const behindEdge = 4

/** Media time of a moment: inside its fragment, or at the start of the next one when it falls into a gap. */
const mediaTime = (details: LevelDetails | undefined, ms: number): number | null => {
  for (const fragment of details?.fragments ?? []) {
    const start = fragment.programDateTime
    if (start === null || fragment.gap === true) continue
    if (ms < start + fragment.duration * 1000) return fragment.start + Math.max(0, (ms - start) / 1000)
  }
  return null
}

const holds = (details: LevelDetails | undefined, ms: number): boolean => {
  const first = details?.fragments[0]?.programDateTime
  const last = details?.fragments.at(-1)
  if (first === undefined || first === null || last?.programDateTime === undefined || last.programDateTime === null) {
    return false
  }
  return ms >= first && ms < last.programDateTime + last.duration * 1000
}

export const HlsVideo = forwardRef<HlsVideoHandle, Props>((props, ref) => {
  const video = useRef<HTMLVideoElement>(null)
  const player = useRef<Hls | null>(null)
  const latest = useRef(props)
  latest.current = props

  const details = () => {
    const hls = player.current
    return hls === null ?
      undefined :
      hls.levels[Math.max(0, hls.currentLevel)]?.details ?? hls.latestLevelDetails ?? undefined
  }

  useImperativeHandle(ref, () => ({
    seek: (ms) => {
      const target = holds(details(), ms) ? mediaTime(details(), ms) : null
      if (target === null || video.current === null) return false
      video.current.currentTime = target
      return true
    },
    element: () => video.current,
  }))

  useEffect(() => {
    const element = video.current!
    if (!Hls.isSupported()) {
      latest.current.onError?.("This browser cannot play HLS by Media Source Extensions")
      return
    }
    const live = props.startAt === null
    const hls = new Hls({
      enableWorker: true,
      backBufferLength: live ? 10 : 60,
      maxBufferLength: live ? 8 : 30,
      liveSyncDuration: behindEdge,
      liveMaxLatencyDuration: 3 * behindEdge,
      maxLiveSyncPlaybackRate: live ? 1.1 : 1,
      liveDurationInfinity: true,
      // The playlist says where it begins; where to begin is decided below, by the clock.
      startPosition: 0,
    })
    player.current = hls
    let positioned = false
    let recoveries = 0
    hls.on(Hls.Events.LEVEL_UPDATED, (_event, data) => {
      if (positioned) return
      positioned = true
      const { startAt } = latest.current
      const target = startAt === null ? data.details.edge - behindEdge : mediaTime(data.details, startAt)
      if (target !== null && target > 0.05) {
        hls.startLoad(target)
        element.currentTime = target
      }
    })
    hls.on(Hls.Events.ERROR, (_event, data) => {
      if (!data.fatal) return
      // A decoder that lost its way is given two more chances before a person is told.
      if (data.type === Hls.ErrorTypes.MEDIA_ERROR && recoveries++ < 2) hls.recoverMediaError()
      else {
        const status = data.response?.code
        latest.current.onError?.(
          data.details === Hls.ErrorDetails.MANIFEST_INCOMPATIBLE_CODECS_ERROR ||
            data.details === Hls.ErrorDetails.BUFFER_ADD_CODEC_ERROR ?
            "This browser cannot play the codec of this recording (H.265 needs another browser or player)" :
            status !== undefined && status >= 400 ?
            `The recorder answered ${status}` :
            `Playback failed: ${data.details}`,
        )
      }
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
      onPlaying={() => props.onState?.("playing")}
      onWaiting={() => props.onState?.("stalled")}
      onLoadStart={() => props.onState?.("loading")}
      onEnded={() => props.onState?.("ended")}
    />
  )
})
