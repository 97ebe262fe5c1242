/** The live picture of a channel on the page of its camera, or in words why there is none. */
import type { CameraStream, Channel } from "#schema/camera.ts"
import { useState } from "react"
import { stillOf } from "../api-camera.ts"
import { save } from "../download.ts"
import { useSession } from "../session.tsx"
import { useAction } from "./forms.tsx"
import { Icon } from "./icons.tsx"
import { LiveVideo } from "./live-video.tsx"
import { Problem, Why } from "./notes.tsx"
import { TalkButton } from "./talk-button.tsx"

/** Without a picture, for a reason that the node knows. */
const isAway = ({ status }: Channel): boolean =>
  status === "authFailed" || status === "offline" || status === "disabled"

interface PictureProps {
  readonly channel: Channel
  readonly name: string
  readonly role?: CameraStream["role"]
  readonly sound?: boolean
  readonly zoom?: boolean
  readonly figures?: boolean
  readonly onOtherStream?: (() => void) | undefined
}

export const ChannelPicture = (props: PictureProps) => {
  const { channel, figures = false, name, onOtherStream, role = "main", sound = false, zoom = false } = props
  const { may } = useSession()
  const stream = channel.streams.find((one) => one.role === role) ?? channel.streams[0]
  if (!may("camera:live")) return <div className="note">None of your roles lets you watch live pictures.</div>
  if (stream === undefined) return <div className="note">This channel has no stream.</div>
  if (channel.status === "disabled") return <div className="note">Switched off</div>
  if (isAway(channel)) {
    return (
      <div className="note">
        <Icon name="trouble" />
        <Why reason={channel.reason || "The camera shows no picture"} />
      </div>
    )
  }
  return (
    <LiveVideo
      key={stream.id}
      streamId={stream.id}
      role={stream.role}
      sound={sound}
      label={`${name}, live`}
      codec={stream.codec}
      audioCodec={stream.audioCodec}
      zoom={zoom}
      figures={figures}
      onOtherStream={channel.streams.length > 1 ? onOtherStream : undefined}
    />
  )
}

interface ViewProps {
  readonly channel: Channel
  readonly name: string
  /** Whether there may be a loudspeaker to talk by. */
  readonly talks: boolean
  /** What is drawn over the picture by a part of the page. */
  readonly onLayer: (layer: HTMLElement | null) => void
}

/** The picture with what one does to it: sound, the other stream, figures, a still one to keep. */
export const PictureView = ({ channel, name, onLayer, talks }: ViewProps) => {
  const { may } = useSession()
  const [role, setRole] = useState<CameraStream["role"]>("main")
  const [sound, setSound] = useState(false)
  const [figures, setFigures] = useState(false)
  const action = useAction()
  const stream = channel.streams.find((one) => one.role === role) ?? channel.streams[0]
  const other = role === "main" ? "sub" : "main"
  const shape = stream?.width === null || stream?.height === null || stream === undefined ?
    16 / 9 :
    stream.width / stream.height
  return (
    <>
      <div className="stage">
        <ChannelPicture
          channel={channel}
          name={name}
          role={role}
          sound={sound}
          zoom
          figures={figures}
          onOtherStream={() => setRole(other)}
        />
        <div className="layer" style={{ width: `min(100cqw, 100cqh * ${shape})`, aspectRatio: shape }} ref={onLayer} />
      </div>
      {stream !== undefined && may("camera:live") && !isAway(channel) && (
        <div className="row picture-bar">
          {channel.streams.length > 1 && (
            <div className="segments" role="group" aria-label="Stream">
              {channel.streams.map((one) => (
                <button
                  key={one.id}
                  type="button"
                  aria-pressed={one === stream}
                  onClick={() => setRole(one.role)}
                >
                  {one.role === "main" ? "Main" : "Sub"}
                  <span className="visually-hidden">{one.role === "main" ? " stream" : "-stream"}</span>
                </button>
              ))}
            </div>
          )}
          <span className="grow" />
          {talks && <TalkButton streamId={stream.id} cameraName={name} />}
          {stream.audioCodec !== null && (
            <button
              type="button"
              className="plain"
              aria-pressed={sound}
              aria-label="Sound"
              title="Sound"
              onClick={() => setSound(!sound)}
            >
              <Icon name={sound ? "sound" : "silent"} />
            </button>
          )}
          <button
            type="button"
            className="plain"
            aria-pressed={figures}
            aria-label="Figures"
            title="How the picture comes here"
            onClick={() => setFigures(!figures)}
          >
            <Icon name="figures" />
          </button>
          <button
            type="button"
            className="plain"
            disabled={action.busy}
            aria-label="Keep this picture"
            title="Keep this picture as a file"
            onClick={() => action.run(() => stillOf(stream.id), (picture) => save(`${name}.jpg`, picture))}
          >
            <Icon name="still" />
          </button>
        </div>
      )}
      <Problem error={action.error} />
    </>
  )
}
