/**
 * A tile for each camera, a few seconds behind live: the newest stored footage by HLS. A tile that is not on screen asks for
 * nothing.
 */
import type { Camera } from "#schema/camera.ts"
import type { Recording } from "#schema/record-config.ts"
import { useEffect, useRef, useState } from "react"
import { listCameras, listRecordings, messageOf, openReplay } from "../api.ts"
import { HlsVideo } from "../parts/hls-video.tsx"
import { Badge, Empty, Problem } from "../parts/notes.tsx"
import { lengthOf, second } from "../time.ts"
import { useQuery } from "../use-query.ts"

/** How far before the present a tile's session begins, so that its playlist is never empty. */
const lead = 20 * second

const useOnScreen = () => {
  const element = useRef<HTMLDivElement>(null)
  const [visible, setVisible] = useState(false)
  useEffect(() => {
    const observer = new IntersectionObserver((entries) => setVisible(entries.some((entry) => entry.isIntersecting)))
    observer.observe(element.current!)
    return () => observer.disconnect()
  }, [])
  return [element, visible] as const
}

const Picture = ({ name, recording }: { readonly name: string; readonly recording: Recording }) => {
  const [uri, setUri] = useState<string | null>(null)
  const [error, setError] = useState<string | null>(null)
  const [behind, setBehind] = useState<number | null>(null)
  const [turn, setTurn] = useState(0)

  useEffect(() => {
    let alive = true
    setUri(null)
    openReplay(recording.recordingToken, Date.now() - lead).then((session) => {
      if (!alive) return
      setError(null)
      setUri(session.uri)
    }, (failure: unknown) => alive && setError(messageOf(failure)))
    return () => {
      alive = false
    }
  }, [recording.recordingToken, turn])

  // Footage that is not there yet, or a session that ended, is asked for again.
  useEffect(() => {
    if (error === null) return
    const timer = window.setTimeout(() => setTurn((n) => n + 1), 5 * second)
    return () => window.clearTimeout(timer)
  }, [error, turn])

  if (error !== null) return <p className="note">{error}</p>
  if (uri === null) return <p className="note">Connecting…</p>
  return (
    <>
      <HlsVideo
        src={uri}
        startAt={null}
        rate={1}
        paused={false}
        muted
        label={`${name}, live`}
        onMoment={(ms) => setBehind(Date.now() - ms)}
        onError={setError}
      />
      {behind !== null && <span className="over mono">{lengthOf(Math.max(0, behind))} behind</span>}
    </>
  )
}

const Tile = ({ camera, recording }: { readonly camera: Camera; readonly recording: Recording | undefined }) => {
  const [element, visible] = useOnScreen()
  const showing = recording?.state === "recording" && visible
  return (
    <article className="tile" ref={element} aria-label={camera.name}>
      <div className="picture">
        {showing ? <Picture name={camera.name} recording={recording} /> : (
          <p className="note">
            {recording === undefined ?
              "Not recorded. Start a recording to see pictures here." :
              recording.reason || camera.reason || `The recording is ${recording.state}.`}
          </p>
        )}
      </div>
      <div className="bar">
        <strong>{camera.name}</strong>
        <span className="row">
          {recording !== undefined && <a className="small" href={`#/play/${recording.recordingToken}`}>Replay</a>}
          <Badge state={camera.status} />
        </span>
      </div>
    </article>
  )
}

export const LivePage = () => {
  const cameras = useQuery("cameras", listCameras)
  const recordings = useQuery("recordings", listRecordings)
  return (
    <>
      <div className="head">
        <h1>Live</h1>
      </div>
      <Problem error={cameras.error ?? recordings.error} />
      {cameras.data?.length === 0 && (
        <Empty title="No camera yet">
          <p className="muted">Add one by its RTSP address; it is recorded a few seconds later.</p>
          <a className="button" href="#/cameras?add=1">Add a camera</a>
        </Empty>
      )}
      <div className="grid">
        {cameras.data?.map((camera) => (
          <Tile
            key={camera.id}
            camera={camera}
            recording={recordings.data?.find((one) => one.cameraId === camera.id)}
          />
        ))}
      </div>
    </>
  )
}
