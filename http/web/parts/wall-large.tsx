/** One picture of the wall as large as the wall: the main stream, digital zoom, sound, statistics, full screen. */
import type { StreamRole } from "#schema/record.ts"
import { useEffect, useRef, useState } from "react"
import { save } from "../download.ts"
import { dateOf } from "../time.ts"
import { streamOf, type WallPicture } from "../wall-pictures.ts"
import { Icon, type IconName } from "./icons.tsx"
import { TalkButton } from "./talk-button.tsx"
import { Screen } from "./wall-tile.tsx"

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

/** What is on screen now, as a file. */
const keepPicture = (frame: HTMLElement | null, name: string): void => {
  const video = frame?.querySelector("video")
  const still = frame?.querySelector<HTMLImageElement>("img:not([hidden])")
  const source = still ?? video
  const [width, height] = still ? [still.naturalWidth, still.naturalHeight] : [video?.videoWidth, video?.videoHeight]
  if (!source || !width || !height) return
  const canvas = document.createElement("canvas")
  canvas.width = width
  canvas.height = height
  canvas.getContext("2d")?.drawImage(source, 0, 0)
  const time = new Date().toTimeString().slice(0, 8).replaceAll(":", "-")
  canvas.toBlob((blob) => blob && save(`${name} ${dateOf(Date.now())} ${time}.png`, blob))
}

interface WallLargeProps {
  readonly picture: WallPicture
  /** An address of what the small tile showed last. */
  readonly poster: string | null
  readonly sound: boolean
  readonly figures: boolean
  readonly onSound: () => void
  readonly onFigures: () => void
  readonly onFull: () => void
  readonly onClose: () => void
}

export const WallLarge = (props: WallLargeProps) => {
  const { figures, onClose, onFigures, onFull, onSound, picture, poster, sound } = props
  const [role, setRole] = useState<StreamRole>("main")
  const frame = useRef<HTMLElement>(null)
  const back = useRef<HTMLButtonElement>(null)
  useEffect(() => back.current?.focus(), [])
  const roles = picture.streams.filter(({ enabled }) => enabled).map((stream) => stream.role)
  const audible = picture.streams.some(({ audioCodec }) => audioCodec !== null)
  const talksTo = streamOf(picture, "main")?.id
  return (
    <section
      className="wall-large"
      ref={frame}
      aria-label={picture.name}
      onDoubleClick={(event) => event.target instanceof Element && !event.target.closest("button, a") && onClose()}
    >
      <Screen
        picture={picture}
        role={role}
        sound={sound}
        figures={figures}
        zoom
        poster={poster}
        onOtherStream={() => setRole(role === "main" ? "sub" : "main")}
      />
      <div className="large-bar">
        <button type="button" ref={back} onClick={onClose} title="Back to the wall (Esc)">
          <Icon name="grid" />
          Wall
        </button>
        <h2 className="cut grow">
          <i className={`state ${picture.status}`} />
          {picture.name}
        </h2>
        {roles.length > 1 && (
          <div className="segments" role="group" aria-label="Stream">
            {(["main", "sub"] as const).map((one) => (
              <button
                key={one}
                type="button"
                aria-pressed={role === one}
                onClick={() => setRole(one)}
              >
                {one === "main" ? "Main" : "Sub"}
              </button>
            ))}
          </div>
        )}
        <div className="row">
          {audible && (
            <Control
              icon={sound ? "sound" : "silent"}
              label={sound ? "Sound is on (M)" : "Sound is off (M)"}
              pressed={sound}
              onClick={onSound}
            />
          )}
          {talksTo !== undefined && (
            <TalkButton
              streamId={talksTo}
              remote={picture.node === null ? null : picture.id}
              cameraName={picture.name}
            />
          )}
          <Control icon="figures" label="Statistics (S)" pressed={figures} onClick={onFigures} />
          <Control icon="still" label="Save this picture" onClick={() => keepPicture(frame.current, picture.name)} />
          {picture.recording !== null && (
            <a
              className="button"
              href={`#/play/${picture.recording.recordingToken}`}
              aria-label={`Play back ${picture.name}`}
              title="Play back"
            >
              <Icon name="recordings" />
            </a>
          )}
          <Control icon="full" label="Full screen (F)" onClick={onFull} />
        </div>
      </div>
    </section>
  )
}
