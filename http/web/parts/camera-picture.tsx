/** The picture of a channel on the page of its camera, or in words why there is none. */
import type { Channel } from "#schema/camera.ts"
import type { StreamId } from "#schema/common.ts"
import { useEffect, useRef, useState } from "react"
import { mediaPathOf } from "../api-camera.ts"
import { useSession } from "../session.tsx"
import { second } from "../time.ts"
import { useQuery } from "../use-query.ts"
import { HlsVideo } from "./hls-video.tsx"
import { Icon } from "./icons.tsx"
import { Why } from "./notes.tsx"

/** What is not there yet is asked for again after this. */
const again = 3 * second

const Live = ({ id, label }: { readonly id: StreamId; readonly label: string }) => {
  const [error, setError] = useState<string | null>(null)
  const [src, setSrc] = useState<string | null>(null)
  const path = useQuery(`path ${id}`, () => mediaPathOf(id), again, src === null)
  const found = path.data?.hlsUrl ?? null
  const timer = useRef(0)
  useEffect(() => setSrc(found), [found])
  useEffect(() => () => window.clearTimeout(timer.current), [])
  if (src === null) {
    return (
      <p className="note">
        <span className="pulse" />
        {path.error ?? error ?? "Waiting for pictures…"}
      </p>
    )
  }
  const failed = (message: string) => {
    setError(message)
    timer.current = window.setTimeout(() => setSrc(null), again)
  }
  return <HlsVideo src={src} startAt={null} rate={1} paused={false} muted label={label} onError={failed} />
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
