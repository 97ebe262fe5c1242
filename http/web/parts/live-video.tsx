/**
 * The live picture of one stream, with what there is to say about it on top: connecting, standing still, no picture and why. It
 * plays only while somebody can see it.
 *
 * Invariant
 * 1. React draws when the state changes, never for a picture.
 */
import type { ChannelId, StreamId } from "#schema/common.ts"
import type { AudioCodec, VideoCodec } from "#schema/media.ts"
import type { StreamRole } from "#schema/record.ts"
import { useCallback, useEffect, useRef, useState } from "react"
import { liveSource } from "../api-live.ts"
import { beginning, type LivePlayer, type LiveState, playLive } from "../stream-player.ts"
import { dropStill } from "../stream-stills.ts"
import { clockOf } from "../time.ts"
import { useWatched } from "../use-watched.ts"
import { useZoom } from "../use-zoom.ts"
import { Icon } from "./icons.tsx"
import { LiveFigures } from "./live-figures.tsx"

export interface LiveVideoProps {
  readonly streamId: StreamId
  /** The channel as it is known here, where it is another node's. */
  readonly remote?: ChannelId | null
  readonly role: StreamRole
  readonly sound: boolean
  readonly onState?: (state: LiveState) => void
  /** What it shows, for those who cannot see it. */
  readonly label?: string
  /** What the stream was last seen to carry, so that nothing is tried in vain. */
  readonly codec?: VideoCodec | null
  readonly audioCodec?: AudioCodec | null
  /** Digital zoom by wheel, fingers and keys. */
  readonly zoom?: boolean
  /** Shows the statistics. */
  readonly figures?: boolean
  /** An address of a picture that is shown until there is a better one. */
  readonly poster?: string | null
  /** Offered where this browser cannot play the stream. */
  readonly onOtherStream?: (() => void) | undefined
}

const Spinner = ({ text }: { readonly text: string }) => (
  <p className="said" role="status">
    <span className="pulse" />
    {text}
  </p>
)

/** What stands on the picture. `seen`: there was one, which still stands below. */
const Said = ({ onOtherStream, role, seen, state }: {
  readonly state: LiveState
  readonly seen: boolean
  readonly role: StreamRole
  readonly onOtherStream: (() => void) | undefined
}) => {
  const { phase, reason, since, undecodable, way } = state
  const other = onOtherStream !== undefined && (
    <button type="button" onClick={onOtherStream}>
      Show the {role === "main" ? "sub-stream" : "main stream"}
    </button>
  )
  if (phase === "connecting") {
    return seen ?
      (
        <p className="chip-over">
          <span className="pulse" />Connecting…
        </p>
      ) :
      <Spinner text="Connecting…" />
  }
  if (phase === "standing") return <p className="chip-over warn">No new picture since {clockOf(since ?? 0)}</p>
  if (way === "stills") {
    return (
      <div className="chip-over warn" role="status">
        <span>Still pictures{undecodable ? ": this browser cannot decode H.265." : ""}</span>
        {undecodable && other}
      </div>
    )
  }
  if (phase === "waiting" || phase === "refused") {
    return (
      <div className={seen ? "chip-over warn" : "said"} role="status">
        {!seen && <Icon name={phase === "refused" ? "lock" : "trouble"} />}
        <span>{reason}</span>
        {undecodable && other}
      </div>
    )
  }
  return null
}

export const LiveVideo = (props: LiveVideoProps) => {
  const { figures = false, label = "Live picture", onOtherStream, poster = null } = props
  const { role, sound, streamId, zoom = false } = props
  const frame = useRef<HTMLDivElement>(null)
  const picture = useRef<HTMLDivElement>(null)
  const video = useRef<HTMLVideoElement>(null)
  const still = useRef<HTMLImageElement>(null)
  const player = useRef<LivePlayer | null>(null)
  const latest = useRef(props)
  latest.current = props
  const [state, setState] = useState(beginning)
  const [seen, setSeen] = useState(false)
  const watched = useWatched(frame)
  const control = useZoom(frame, picture, zoom)
  const current = useCallback(() => player.current, [])

  useEffect(() => {
    if (!watched) return
    const made = playLive({
      source: liveSource(streamId, role, latest.current.remote ?? null),
      carries: () => ({ codec: latest.current.codec ?? null, audioCodec: latest.current.audioCodec ?? null }),
      sound: latest.current.sound,
      video: video.current!,
      still: still.current!,
      onState: (next) => {
        setState(next)
        if (next.phase === "playing") setSeen(true)
        latest.current.onState?.(next)
      },
    })
    player.current = made
    return () => {
      made.close()
      player.current = null
      setState(beginning)
    }
  }, [watched, streamId, role])

  useEffect(() => player.current?.setSound(sound), [sound])

  useEffect(() => {
    const element = still.current!
    return () => dropStill(element)
  }, [])

  return (
    <div
      className="live-view"
      ref={frame}
      data-way={state.way ?? undefined}
      data-phase={state.phase}
      tabIndex={zoom ? 0 : undefined}
      role={zoom ? "group" : undefined}
      aria-label={zoom ? `${label}: zoom by + − 0 and the arrows` : undefined}
    >
      <div
        className="live-picture"
        ref={picture}
        style={poster === null || seen ? undefined : { backgroundImage: `url("${poster}")` }}
      >
        <video ref={video} aria-label={label} muted={!sound} playsInline autoPlay hidden={state.way === "stills"} />
        <img ref={still} alt={label} hidden={state.way !== "stills"} />
      </div>
      <Said state={state} seen={seen || poster !== null} role={role} onOtherStream={onOtherStream} />
      {control.scale > 1 && (
        <button type="button" className="zoomed" onClick={control.reset} title="Show the whole picture (0)">
          {control.scale.toFixed(1)}×<span className="visually-hidden">: show the whole picture</span>
        </button>
      )}
      {figures && state.way !== null && <LiveFigures player={current} way={state.way} reason={state.reason} />}
    </div>
  )
}
