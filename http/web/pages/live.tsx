/**
 * A tile for each camera, a few seconds behind live: the newest stored footage by HLS. A tile that is not on screen asks for
 * nothing.
 */
import type { Camera } from "#schema/camera.ts"
import type { Recording } from "#schema/record-config.ts"
import { useEffect, useRef, useState } from "react"
import { listCameras, listRecordings, messageOf, openReplay, replayInfo } from "../api.ts"
import { HlsVideo } from "../parts/hls-video.tsx"
import { Icon } from "../parts/icons.tsx"
import { Badge, Empty, Loading, Problem, Why } from "../parts/notes.tsx"
import { useSession } from "../session.tsx"
import { second } from "../time.ts"
import { useQuery } from "../use-query.ts"

/** How far before the present a tile's session begins, so that its playlist is never empty. */
const lead = 20 * second

/** A recording that is younger than this has no playlist yet. */
const least = 5 * second

/** A session that failed or ended is asked for again after this. */
const again = 5 * second

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

const Connecting = () => (
  <p className="note">
    <span className="pulse" />
    Connecting…
  </p>
)

const Picture = ({ name, recording }: { readonly name: string; readonly recording: Recording }) => {
  const [uri, setUri] = useState<string | null>(null)
  const [error, setError] = useState<string | null>(null)
  const [behind, setBehind] = useState<number | null>(null)
  const [waiting, setWaiting] = useState(false)
  const [turn, setTurn] = useState(0)

  useEffect(() => {
    let alive = true
    setUri(null)
    const begin = async () => {
      const { newest, oldest } = await replayInfo(recording.recordingToken)
      if (newest === null || oldest === null || newest - oldest < least) return null
      return openReplay(recording.recordingToken, Date.now() - lead)
    }
    begin().then((session) => {
      if (!alive) return
      setError(null)
      setUri(session?.uri ?? null)
      setWaiting(session === null)
    }, (failure: unknown) => alive && setError(messageOf(failure)))
    return () => {
      alive = false
    }
  }, [recording.recordingToken, turn])

  useEffect(() => {
    if (error === null && !waiting) return
    const timer = window.setTimeout(() => setTurn((n) => n + 1), error === null ? second : again)
    return () => window.clearTimeout(timer)
  }, [error, waiting, turn])

  if (error !== null) {
    return (
      <p className="note">
        <Icon name="trouble" />
        {error}
      </p>
    )
  }
  if (uri === null) return <Connecting />
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
      {behind !== null && (
        <span className="over" data-testid="behind">{Math.max(0, Math.round(behind / second))} s behind</span>
      )}
    </>
  )
}

const Note = ({ camera, recording }: { readonly camera: Camera; readonly recording: Recording | undefined }) => {
  const { may } = useSession()
  if (!may("recording:replay")) return <div className="note">None of your roles lets you watch recorded pictures.</div>
  if (recording === undefined) {
    return (
      <div className="note">
        Not recorded, so there is no picture to show.
        {may("recording:write") && <a href="#/recordings">Start a recording</a>}
      </div>
    )
  }
  const reason = camera.reason || recording.reason
  if (recording.state === "waiting" && reason === "") return <Connecting />
  return (
    <div className="note">
      <Icon name={recording.state === "disabled" ? "pause" : "trouble"} />
      {recording.state === "disabled" ? "The recording is paused." : <Why reason={reason} />}
      {camera.status === "authFailed" && may("camera:write") && (
        <a href={`#/cameras?edit=${camera.id}`}>Change the password</a>
      )}
    </div>
  )
}

const Tile = ({ camera, recording }: { readonly camera: Camera; readonly recording: Recording | undefined }) => {
  const { may } = useSession()
  const [element, visible] = useOnScreen()
  const showing = recording?.state === "recording" && visible && may("recording:replay")
  return (
    <article className="tile" ref={element} aria-label={camera.name}>
      <div className="picture">
        {showing ?
          (
            <>
              <Picture name={camera.name} recording={recording} />
              <a href={`#/play/${recording.recordingToken}`} aria-label={`Play back ${camera.name}`} />
            </>
          ) :
          <Note camera={camera} recording={recording} />}
      </div>
      <div className="bar">
        <h2 className="cut">{camera.name}</h2>
        <Badge state={camera.status} />
      </div>
    </article>
  )
}

const Summary = ({ cameras }: { readonly cameras: ReadonlyArray<Camera> }) => {
  const bad = cameras.filter((one) => one.status === "offline" || one.status === "authFailed").length
  const online = cameras.filter((one) => one.status === "online").length
  return (
    <div className="summary">
      <Badge state={online > 0 ? "online" : "disabled"} text={`${online} of ${cameras.length} online`} />
      {bad > 0 && (
        <a href="#/cameras">
          <Badge state="offline" text={`${bad} ${bad === 1 ? "needs" : "need"} attention`} />
        </a>
      )}
    </div>
  )
}

export const LivePage = () => {
  const { may } = useSession()
  const cameras = useQuery("cameras", listCameras)
  const recordings = useQuery("recordings", listRecordings, 5000, may("recording:read"))
  const all = cameras.data
  return (
    <>
      <div className="head">
        <h1>Live</h1>
        {all !== null && all.length > 0 && <Summary cameras={all} />}
      </div>
      <Problem error={cameras.error ?? recordings.error} />
      {all === null && cameras.error === null && <Loading lines={4} />}
      {all?.length === 0 && (
        <Empty icon="cameras" title="No camera yet">
          <p>
            Add one by its RTSP address. It is recorded from then on, and its picture appears here a few seconds later.
          </p>
          {may("camera:write") && (
            <a className="button primary" href="#/cameras?add=1">
              <Icon name="plus" />Add a camera
            </a>
          )}
        </Empty>
      )}
      {(recordings.data !== null || !may("recording:read")) && (
        <div className="grid">
          {all?.map((camera) => (
            <Tile
              key={camera.id}
              camera={camera}
              recording={recordings.data?.find((one) => one.cameraId === camera.id)}
            />
          ))}
        </div>
      )}
    </>
  )
}
