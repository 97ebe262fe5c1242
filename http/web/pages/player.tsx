/**
 * Replay of one recording: picture, timeline from days to seconds, days with footage, what is missing, speed from 0.25 to 16.
 * The keys stand in `parts/help.tsx`.
 */
import type { RecordingToken } from "#schema/common.ts"
import { useCallback, useEffect, useRef, useState } from "react"
import { listCameras, listRecordings, messageOf } from "../api.ts"
import { type Footage, footageOf, type Known, listFederated } from "../footage.ts"
import { DayPicker } from "../parts/day-picker.tsx"
import { Holders, Missing } from "../parts/holders.tsx"
import { Icon } from "../parts/icons.tsx"
import { Empty, Problem } from "../parts/notes.tsx"
import { Controls, fullScreen, Stage } from "../parts/player-controls.tsx"
import { Timeline, type TimelineGap, type View, zoomed } from "../parts/timeline.tsx"
import { useSession } from "../session.tsx"
import { causeOf, clockOf, dayLength, dayOf, fieldOf, hour, lengthOf, minute, second } from "../time.ts"
import { type Playback, speeds, usePlayback } from "../use-playback.ts"
import { useQuery } from "../use-query.ts"

const zoomLevels: ReadonlyArray<readonly [string, number]> = [
  ["Day", dayLength],
  ["Hour", hour],
  ["10 min", 10 * minute],
  ["1 min", minute],
]

/** Columns of what is asked for, which is three views wide. */
const columns = 3000

/** Gaps in the list beside the picture. */
const mostGaps = 100

const nothingKnown: Known = { spans: [], gaps: [], sources: [] }

/** Null until it is known whether other nodes hold some of it. */
const useFootage = (token: RecordingToken) => {
  const { may } = useSession()
  const mayListNodes = may("federation:read")
  const [footage, setFootage] = useState<Footage | null>(null)
  const [error, setError] = useState<string | null>(null)
  useEffect(() => {
    let alive = true
    setFootage(null)
    footageOf(token, mayListNodes).then(
      (found) => alive && setFootage(found),
      (failure: unknown) => alive && setError(messageOf(failure)),
    )
    return () => {
      alive = false
    }
  }, [token, mayListNodes])
  return { footage, error }
}

/** What is known of the view and as much on either side; asked for in steps of half a view, so that a drag asks seldom. */
const useTimeline = (footage: Footage | null, view: View, due: boolean) => {
  const step = Math.max(1, Math.round((view.end - view.start) / 2))
  const asked: View = {
    start: (Math.floor(view.start / step) - 2) * step,
    end: (Math.ceil(view.end / step) + 2) * step,
  }
  const timeline = useQuery(
    `${asked.start}-${asked.end}`,
    () => footage?.timeline(asked, columns) ?? Promise.resolve(nothingKnown),
    view.end - view.start < hour ? 2000 : 10_000,
    due && footage !== null,
  )
  // The last answer stays on screen while the next one is on its way.
  const [known, setKnown] = useState(nothingKnown)
  useEffect(() => {
    if (timeline.data !== null) setKnown(timeline.data)
  }, [timeline.data])
  return { known, error: timeline.error }
}

const useKeys = (playback: Playback, gaps: ReadonlyArray<TimelineGap>, onMuted: () => void) => {
  const pressed = useRef((_event: KeyboardEvent) => {})
  pressed.current = (event) => {
    const { target } = event
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]") !== null) return
    if (target instanceof HTMLElement && target.matches("input, select")) return
    if (event.key === " " && target instanceof HTMLElement && target.matches("button, a")) return
    const now = playback.moment ?? Date.now()
    const speed = speeds.findIndex((one) => one === playback.rate)
    const gap = gaps.find((one) => one.start > now + 4 * second)
    const actions: Record<string, () => void> = {
      " ": () => playback.setPaused(!playback.paused),
      j: () => playback.seek(now - 10 * second),
      l: () => playback.seek(now + 10 * second),
      n: () => playback.seek(Date.now()),
      g: () => gap !== undefined && playback.seek(gap.start - 3 * second),
      m: onMuted,
      f: fullScreen,
      ",": () => playback.video.current?.step(-1),
      ".": () => playback.video.current?.step(1),
      "<": () => playback.setSpeed(speeds[Math.max(0, speed - 1)]!),
      ">": () => playback.setSpeed(speeds[Math.min(speeds.length - 1, speed + 1)]!),
    }
    const action = actions[event.key]
    if (action === undefined) return
    event.preventDefault()
    action()
  }
  useEffect(() => {
    const key = (event: KeyboardEvent) => pressed.current(event)
    window.addEventListener("keydown", key)
    return () => window.removeEventListener("keydown", key)
  }, [])
}

const Gaps = ({ gaps, onSeek }: {
  readonly gaps: ReadonlyArray<TimelineGap>
  readonly onSeek: (ms: number) => void
}) => (
  <section className="panel" aria-label="Missing in this view">
    <div className="title">
      <h2>Missing in this view</h2>
      <span className="small muted number">{gaps.length}</span>
    </div>
    {gaps.length === 0 ? <p className="small muted">Nothing is missing.</p> : (
      <div className="gaps">
        {gaps.slice(0, mostGaps).map((gap) => (
          <button
            key={gap.start}
            type="button"
            onClick={() => onSeek(gap.start - 3 * second)}
          >
            <i aria-hidden="true" />
            <span>
              <b>{dayOf(gap.start)}, {clockOf(gap.start)} · {lengthOf(gap.missingMs)}</b>
              <span className="small muted">{causeOf(gap.cause)}</span>
            </span>
          </button>
        ))}
      </div>
    )}
  </section>
)

interface BelowProps {
  readonly view: View
  readonly moment: number | null
  readonly onView: (view: View) => void
  readonly onSeek: (ms: number) => void
}

/** Legend, jump to a moment, zoom. */
const Below = ({ moment, onSeek, onView, view }: BelowProps) => {
  const length = view.end - view.start
  const about = moment !== null && moment > view.start && moment < view.end ? moment : (view.start + view.end) / 2
  return (
    <div className="spread">
      <div className="legend">
        <span>
          <i className="span" />recorded
        </span>
        <span>
          <i className="gap" />missing
        </span>
      </div>
      <form
        className="row"
        onSubmit={(event) => {
          event.preventDefault()
          const ms = Date.parse(String(new FormData(event.currentTarget).get("moment")))
          if (!Number.isNaN(ms)) onSeek(ms)
        }}
      >
        <input
          key={moment === null ? 0 : 1}
          name="moment"
          type="datetime-local"
          step={1}
          aria-label="Moment to go to"
          style={{ width: "auto" }}
          defaultValue={fieldOf(moment ?? Date.now())}
        />
        <button type="submit">Go to</button>
      </form>
      <div className="segments" role="group" aria-label="Zoom">
        <button type="button" aria-label="Zoom out" onClick={() => onView(zoomed(view, 2, about))}>
          <Icon name="minus" />
        </button>
        {zoomLevels.map(([name, span]) => (
          <button
            key={name}
            type="button"
            aria-pressed={Math.abs(length - span) < span / 20}
            onClick={() => onView(zoomed(view, span / length, about))}
          >
            {name}
          </button>
        ))}
        <button type="button" aria-label="Zoom in" onClick={() => onView(zoomed(view, 0.5, about))}>
          <Icon name="plus" />
        </button>
      </div>
    </div>
  )
}

/** The first picture goes before everything else the page asks for, but not for longer than this. */
const mostPatience = second

const useBegun = () => {
  const [is, setIs] = useState(false)
  const now = useCallback(() => setIs(true), [])
  useEffect(() => {
    const timer = window.setTimeout(now, mostPatience)
    return () => window.clearTimeout(timer)
  }, [now])
  return { is, now }
}

const around = (ms: number): View => ({ start: ms - 20 * minute, end: ms + 10 * minute })

export const PlayerPage = ({ at, token }: { readonly token: RecordingToken; readonly at: number | null }) => {
  const [view, setView] = useState<View>(() => around(at ?? Date.now()))
  const [muted, setMuted] = useState(true)
  const begun = useBegun()
  const { error: unknown, footage } = useFootage(token)
  const { error, known } = useTimeline(footage, view, begun.is)
  const playback = usePlayback(footage, at, known.spans, begun.now)
  const recordings = useQuery("recordings", listRecordings, 15_000, begun.is)
  const cameras = useQuery("cameras", listCameras, 60_000, begun.is)
  const channels = useQuery("federated", listFederated, 60_000, begun.is && known.sources.length > 0)
  const { moment } = playback
  const shown = useRef<number | null>(null)

  /** The view turns its page when the playhead leaves it, but stays where a person has moved it. */
  const follow = (ms: number) => {
    const last = shown.current
    shown.current = ms
    playback.setMoment(ms)
    setView((old) => {
      const length = old.end - old.start
      const left = last !== null && last >= old.start && last <= old.end && ms > old.end
      return left ? { start: ms - length * 0.1, end: ms + length * 0.9 } : old
    })
  }
  const seek = (ms: number) => {
    const target = playback.seek(ms)
    setView((old) => {
      const half = (old.end - old.start) / 2
      return target < old.start || target > old.end ? { start: target - half, end: target + half } : old
    })
  }
  useKeys({ ...playback, seek: (ms) => (seek(ms), ms) }, known.gaps, () => setMuted((now) => !now))

  const recording = recordings.data?.find((one) => one.recordingToken === token)
  const remote = channels.data?.find(({ recordings: some }) => some.some((one) => one.recordingToken === token))
  const name = cameras.data?.find((one) => one.id === recording?.cameraId)?.name ?? remote?.cameraName ?? "Replay"
  if (playback.nothing) {
    return (
      <Empty icon="recordings" title="Nothing is recorded yet">
        <p>{recording?.reason || "The first footage can be played a few seconds after the camera delivers."}</p>
        <button type="button" className="primary" onClick={playback.retry}>Try again</button>
        <a className="button" href="#/cameras">See the cameras</a>
      </Empty>
    )
  }
  const inView = known.gaps.filter((gap) => gap.end > view.start && gap.start < view.end)
  return (
    <>
      <div className="head">
        <h1>{name}</h1>
        <a className="button" href="#/recordings">
          <Icon name="left" />All recordings
        </a>
      </div>
      <div className="watch">
        <div className="stack">
          <Stage name={name} playback={playback} muted={muted} onMoment={follow} />
          <Controls name={name} playback={playback} muted={muted} onMuted={setMuted} />
          <Problem error={unknown ?? error} />
          <Missing sources={known.sources} />
          <Timeline
            view={view}
            onView={setView}
            spans={known.spans}
            gaps={known.gaps}
            playhead={moment}
            onSeek={seek}
          />
          <Below view={view} moment={moment} onView={setView} onSeek={seek} />
        </div>
        <div className="stack">
          <DayPicker
            token={token}
            footage={footage}
            due={begun.is}
            moment={moment ?? Date.now()}
            onPick={(day) => {
              setView(day)
              seek(day.start)
            }}
          />
          <Holders sources={known.sources} spans={known.spans} view={view} />
          <Gaps gaps={inView} onSeek={seek} />
        </div>
      </div>
    </>
  )
}
