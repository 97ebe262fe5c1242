/**
 * Replay of one recording: picture, timeline from days to seconds, speed from 0.25 to 16.
 *
 * Keys anywhere on the page: space plays and pauses, `j` and `l` jump ten seconds, `,` and `.` step a picture while paused,
 * `<` and `>` change the speed.
 */
import type { RecordingToken } from "#schema/common.ts"
import { useEffect, useRef, useState } from "react"
import { listCameras, listRecordings, messageOf, openReplay, timelineOf } from "../api.ts"
import { HlsVideo, type HlsVideoHandle } from "../parts/hls-video.tsx"
import { Problem } from "../parts/notes.tsx"
import { Timeline, type TimelineGap, type View, zoomed } from "../parts/timeline.tsx"
import { causeText, dayLength, hour, lengthOf, minute, momentOf, second } from "../time.ts"
import { useQuery } from "../use-query.ts"

const speeds = [0.25, 0.5, 1, 2, 4, 8, 16]

/** From this speed on the recorder serves key pictures alone. */
const keyPicturesFrom = 4

/** A session holds this much around the moment it was asked for; seeking beyond it opens another. */
const before = 10 * minute
const after = 50 * minute

interface Playing {
  readonly uri: string
  readonly at: number
}

const zoomLevels: ReadonlyArray<readonly [string, number]> = [["Day", dayLength], ["Hour", hour], [
  "10 min",
  10 * minute,
], ["1 min", minute]]

interface Known {
  readonly spans: ReadonlyArray<View>
  readonly gaps: ReadonlyArray<TimelineGap>
}

export const PlayerPage = ({ at, token }: { readonly token: RecordingToken; readonly at: number | null }) => {
  const video = useRef<HlsVideoHandle>(null)
  const [moment, setMoment] = useState<number | null>(at)
  const [view, setView] = useState<View>(() => ({
    start: (at ?? Date.now()) - 45 * minute,
    end: (at ?? Date.now()) + 15 * minute,
  }))
  const [playing, setPlaying] = useState<Playing | null>(null)
  const [paused, setPaused] = useState(false)
  const [rate, setRate] = useState(1)
  const [muted, setMuted] = useState(true)
  const [state, setState] = useState("loading")
  const [error, setError] = useState<string | null>(null)
  const recordings = useQuery("recordings", listRecordings, 15_000)
  const cameras = useQuery("cameras", listCameras, 60_000)

  const length = view.end - view.start
  // Asked for in steps of half a view, so that a drag does not ask for every pixel.
  const step = Math.max(1, Math.round(length / 2))
  const asked: View = {
    start: (Math.floor(view.start / step) - 1) * step,
    end: (Math.ceil(view.end / step) + 1) * step,
  }
  const timeline = useQuery(
    `${asked.start}-${asked.end}`,
    () => timelineOf(token, asked),
    length < hour ? 2000 : 15_000,
  )
  const [known, setKnown] = useState<Known>({ spans: [], gaps: [] })
  useEffect(() => {
    if (timeline.data !== null) setKnown(timeline.data)
  }, [timeline.data])

  const open = async (ms: number, speed: number) => {
    setState("loading")
    setError(null)
    try {
      const end = ms + after < Date.now() ? ms + after : undefined
      const session = await openReplay(token, ms - before, end, speed)
      setPlaying({ uri: session.uri, at: ms })
      setMoment(ms)
    } catch (failure) {
      setPlaying(null)
      setError(messageOf(failure))
    }
  }

  const seek = (ms: number) => {
    const target = Math.min(ms, Date.now() - 3 * second)
    setMoment(target)
    if (target < view.start || target > view.end) setView({ start: target - length / 2, end: target + length / 2 })
    if (playing === null || video.current?.seek(target) !== true) void open(target, rate)
  }

  const change = (speed: number) => {
    const sessionChanges = (speed >= keyPicturesFrom) !== (rate >= keyPicturesFrom)
    setRate(speed)
    if (sessionChanges) void open(moment ?? Date.now() - minute, speed)
  }

  useEffect(() => {
    void open(at ?? Date.now() - 30 * second, 1)
  }, [token])

  const follow = (ms: number) => {
    setMoment(ms)
    setView((old) => ms > old.end || ms < old.start ? { start: ms - length * 0.1, end: ms + length * 0.9 } : old)
  }

  const stepPicture = (by: number) => {
    const element = video.current?.element()
    if (element) element.currentTime += by / 25
  }

  useEffect(() => {
    const key = (event: KeyboardEvent) => {
      if (event.target instanceof HTMLElement && /^(INPUT|SELECT|TEXTAREA|BUTTON|A)$/.test(event.target.tagName)) return
      const actions: Record<string, () => void> = {
        " ": () => setPaused((now) => !now),
        j: () => seek((moment ?? Date.now()) - 10 * second),
        l: () => seek((moment ?? Date.now()) + 10 * second),
        ",": () => stepPicture(-1),
        ".": () => stepPicture(1),
        "<": () => change(speeds[Math.max(0, speeds.indexOf(rate) - 1)]!),
        ">": () => change(speeds[Math.min(speeds.length - 1, speeds.indexOf(rate) + 1)]!),
      }
      const action = actions[event.key]
      if (action === undefined) return
      event.preventDefault()
      action()
    }
    window.addEventListener("keydown", key)
    return () => window.removeEventListener("keydown", key)
  })

  const recording = recordings.data?.find((one) => one.recordingToken === token)
  const camera = cameras.data?.find((one) => one.id === recording?.cameraId)
  const inside = moment === null ? undefined : known.gaps.find((gap) => gap.start <= moment && moment < gap.end)
  return (
    <>
      <div className="head">
        <h1>{camera?.name ?? "Replay"}</h1>
        <a className="button" href="#/recordings">All recordings</a>
      </div>
      <Problem error={error ?? timeline.error} />
      <div className="stack">
        <div className="player">
          {playing !== null && (
            <HlsVideo
              ref={video}
              src={playing.uri}
              startAt={playing.at}
              rate={rate}
              paused={paused}
              muted={muted}
              label={`${camera?.name ?? "Camera"}, recorded`}
              onMoment={follow}
              onState={setState}
              onError={setError}
            />
          )}
          {moment !== null && <span className="clock mono" data-testid="clock">{momentOf(moment)}</span>}
          {state !== "playing" && error === null && (
            <span className="state">{state === "ended" ? "End of this part" : "Loading…"}</span>
          )}
        </div>
        <div className="spread">
          <div className="row">
            <button
              type="button"
              onClick={() => seek((moment ?? Date.now()) - 10 * second)}
              aria-label="Back ten seconds"
            >
              −10 s
            </button>
            <button type="button" className="primary" onClick={() => setPaused(!paused)}>
              {paused ? "Play" : "Pause"}
            </button>
            <button
              type="button"
              onClick={() => seek((moment ?? Date.now()) + 10 * second)}
              aria-label="Forward ten seconds"
            >
              +10 s
            </button>
            <button type="button" aria-pressed={!muted} onClick={() => setMuted(!muted)}>
              {muted ? "Sound off" : "Sound on"}
            </button>
            <button type="button" onClick={() => seek(Date.now() - 5 * second)}>Newest</button>
          </div>
          <div className="row" role="group" aria-label="Speed">
            {speeds.map((speed) => (
              <button
                key={speed}
                type="button"
                aria-pressed={speed === rate}
                onClick={() => change(speed)}
              >
                {speed}×
              </button>
            ))}
          </div>
        </div>
        <Timeline view={view} onView={setView} spans={known.spans} gaps={known.gaps} playhead={moment} onSeek={seek} />
        <div className="spread">
          <div className="legend">
            <span>
              <i style={{ background: "var(--span)" }} />recorded
            </span>
            <span>
              <i style={{ background: "var(--gap)" }} />missing
            </span>
            {inside !== undefined && (
              <span>Here: {causeText[inside.cause] ?? inside.cause}, {lengthOf(inside.end - inside.start)}</span>
            )}
          </div>
          <div className="row" role="group" aria-label="Zoom">
            <button type="button" aria-label="Zoom out" onClick={() => setView(zoomed(view, 2, moment ?? view.start))}>
              −
            </button>
            {zoomLevels.map(([name, span]) => (
              <button
                key={name}
                type="button"
                aria-pressed={Math.abs(length - span) < span / 20}
                onClick={() => setView(zoomed(view, span / length, moment ?? view.end))}
              >
                {name}
              </button>
            ))}
            <button type="button" aria-label="Zoom in" onClick={() => setView(zoomed(view, 0.5, moment ?? view.start))}>
              +
            </button>
          </div>
        </div>
        <label className="row small">
          Go to
          <input
            type="datetime-local"
            step={1}
            style={{ width: "auto" }}
            onChange={(event) => {
              const ms = Date.parse(event.target.value)
              if (!Number.isNaN(ms)) seek(ms)
            }}
          />
        </label>
      </div>
    </>
  )
}
