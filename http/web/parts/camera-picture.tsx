/** The picture of a channel on the page of its camera, or in words why there is none. */
import type { Channel } from "#schema/camera.ts"
import type { StreamId } from "#schema/common.ts"
import { useState } from "react"
import { mediaPathOf } from "../api-camera.ts"
import { useSession } from "../session.tsx"
import { useQuery } from "../use-query.ts"
import { HlsVideo } from "./hls-video.tsx"
import { Icon } from "./icons.tsx"
import { Why } from "./notes.tsx"

const Live = ({ id, label }: { readonly id: StreamId; readonly label: string }) => {
  const [error, setError] = useState<string | null>(null)
  const [turn, setTurn] = useState(0)
  const path = useQuery(`path ${id} ${turn}`, () => mediaPathOf(id), 0)
  // Nothing is stored yet: asked again.
  const later = useQuery(`path again ${id}`, () => mediaPathOf(id), 3000, path.data?.hlsUrl === null)
  const src = path.data?.hlsUrl ?? later.data?.hlsUrl ?? null
  if (error !== null || path.error !== null) {
    return (
      <div className="note">
        <Icon name="trouble" />
        {error ?? path.error}
        <button
          type="button"
          onClick={() => {
            setError(null)
            setTurn((n) => n + 1)
          }}
        >
          Try again
        </button>
      </div>
    )
  }
  if (src === null) return <p className="note">Waiting for pictures…</p>
  return <HlsVideo src={src} startAt={null} rate={1} paused={false} muted label={label} onError={setError} />
}

export const ChannelPicture = ({ channel, name }: { readonly channel: Channel; readonly name: string }) => {
  const { may } = useSession()
  const stream = channel.streams.find((one) => one.role === "main") ?? channel.streams[0]
  const broken = channel.status === "offline" || channel.status === "authFailed" || channel.status === "disabled"
  if (!may("camera:live")) return <div className="note">None of your roles lets you watch live pictures.</div>
  if (stream === undefined) return <div className="note">This channel has no stream.</div>
  if (broken) {
    return (
      <div className="note">
        <Icon name="trouble" />
        {channel.status === "disabled" ? "Switched off" : <Why reason={channel.reason || "No picture"} />}
      </div>
    )
  }
  return <Live key={stream.id} id={stream.id} label={`${name}, live`} />
}
