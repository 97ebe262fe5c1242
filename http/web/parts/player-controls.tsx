/** The picture of the player with what stands on it, and the row of controls below. */
import { useRef, useState } from "react"
import { dateOf, momentOf, second } from "../time.ts"
import { type Playback, speeds } from "../use-playback.ts"
import { cannotDecode, HlsVideo } from "./hls-video.tsx"
import { Icon, type IconName } from "./icons.tsx"

const Failure = ({ error, playback }: { readonly error: string; readonly playback: Playback }) => {
  const [copied, setCopied] = useState(false)
  const uri = playback.playing?.uri
  const copy = () =>
    navigator.clipboard.writeText(`${location.origin}${uri}`).then(() => setCopied(true), () => setCopied(false))
  return (
    <div className="failure" role="alert">
      <Icon name="trouble" />
      {error}
      <div className="row">
        {error !== cannotDecode && <button type="button" onClick={playback.retry}>Try again</button>}
        {error === cannotDecode && uri !== undefined && (
          <button type="button" onClick={() => void copy()}>
            <Icon name="copy" />
            {copied ? "Copied" : "Copy the address for another player"}
          </button>
        )}
      </div>
    </div>
  )
}

interface StageProps {
  readonly name: string
  readonly playback: Playback
  readonly muted: boolean
  readonly onMoment: (ms: number) => void
}

export const Stage = ({ muted, name, onMoment, playback }: StageProps) => {
  const { error, moment, paused, playing, state } = playback
  return (
    <div className="stage" id="stage">
      {playing !== null && error === null && (
        <HlsVideo
          ref={playback.video}
          src={playing.uri}
          startAt={playing.at}
          rate={playback.rate}
          paused={paused}
          muted={muted}
          label={`${name}, recorded`}
          onMoment={onMoment}
          onState={playback.onState}
          onError={playback.onError}
        />
      )}
      {error === null && moment !== null && (
        <span className="clock" data-testid="clock">{momentOf(moment)}{paused ? " · paused" : ""}</span>
      )}
      {error !== null && <Failure error={error} playback={playback} />}
      {error === null && state !== "playing" && (
        <span className="state" role="status">
          {state === "ended" ? "Here the footage ends" : (
            <>
              <span className="pulse" />Loading…
            </>
          )}
        </span>
      )}
    </div>
  )
}

const Control = ({ icon, label, onClick, pressed }: {
  readonly icon: IconName
  readonly label: string
  readonly onClick: () => void
  readonly pressed?: boolean
}) => (
  <button type="button" aria-label={label} title={label} aria-pressed={pressed} onClick={onClick}>
    <Icon name={icon} />
  </button>
)

export const fullScreen = (): void => {
  if (document.fullscreenElement === null) void document.getElementById("stage")?.requestFullscreen()
  else void document.exitFullscreen()
}

interface ControlsProps {
  readonly name: string
  readonly playback: Playback
  readonly muted: boolean
  readonly onMuted: (muted: boolean) => void
}

export const Controls = ({ muted, name, onMuted, playback }: ControlsProps) => {
  const saved = useRef<HTMLAnchorElement>(null)
  const now = () => playback.moment ?? Date.now()
  const saveStill = () => {
    const element = playback.video.current?.element()
    if (!element || element.videoWidth === 0) return
    const canvas = document.createElement("canvas")
    canvas.width = element.videoWidth
    canvas.height = element.videoHeight
    canvas.getContext("2d")?.drawImage(element, 0, 0)
    const link = saved.current!
    link.href = canvas.toDataURL("image/png")
    link.download = `${name} ${dateOf(now())} ${new Date(now()).toTimeString().slice(0, 8).replaceAll(":", "-")}.png`
    link.click()
  }
  return (
    <div className="controls">
      <Control icon="back" label="Back ten seconds (J)" onClick={() => playback.seek(now() - 10 * second)} />
      <button
        type="button"
        className="primary"
        aria-label={playback.paused ? "Play" : "Pause"}
        title="Space"
        onClick={() => playback.setPaused(!playback.paused)}
      >
        <Icon name={playback.paused ? "play" : "pause"} />
      </button>
      <Control icon="forward" label="Forward ten seconds (L)" onClick={() => playback.seek(now() + 10 * second)} />
      <Control icon="newest" label="Newest picture (N)" onClick={() => playback.seek(Date.now())} />
      <div className="end">
        <div className="segments" role="group" aria-label="Speed">
          {speeds.map((speed) => (
            <button
              key={speed}
              type="button"
              aria-pressed={speed === playback.rate}
              onClick={() => playback.setSpeed(speed)}
            >
              {speed}×
            </button>
          ))}
        </div>
        <div className="row">
          <Control
            icon={muted ? "silent" : "sound"}
            label={muted ? "Sound is off (M)" : "Sound is on (M)"}
            pressed={!muted}
            onClick={() => onMuted(!muted)}
          />
          <Control icon="still" label="Save this picture" onClick={saveStill} />
          <Control icon="full" label="Full screen (F)" onClick={fullScreen} />
        </div>
      </div>
      <a ref={saved} hidden aria-hidden="true">picture</a>
    </div>
  )
}
