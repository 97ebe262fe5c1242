/** Recordings: what each is doing, the last 24 hours as a bar with its gaps, start, pause and resume, retention. */
import type { Camera } from "#schema/camera.ts"
import type { Recording } from "#schema/record-config.ts"
import { useState } from "react"
import {
  coverageOf,
  keepFor,
  listCameras,
  listRecordings,
  messageOf,
  startRecording,
  timelineOf,
  toggleRecording,
} from "../api.ts"
import { CoverageBar } from "../parts/coverage.tsx"
import { Icon } from "../parts/icons.tsx"
import { Badge, Empty, Loading, Modal, Problem, Why } from "../parts/notes.tsx"
import { useSession } from "../session.tsx"
import { causeOf, dayLength, lengthOf, momentOf, percentOf } from "../time.ts"
import { useQuery } from "../use-query.ts"

/** Columns of the bar; a gap is never lost by rounding. */
const columns = 600

const LastDay = ({ recording }: { readonly recording: Recording }) => {
  const day = useQuery(`day-${recording.id}`, async () => {
    const end = Date.now()
    const interval = { start: end - dayLength, end }
    const [timeline, coverage] = await Promise.all([
      timelineOf(recording.recordingToken, interval, columns),
      coverageOf(recording, interval),
    ])
    return { interval, timeline, coverage }
  }, 10_000)
  if (day.data === null) return day.error === null ? <div className="skeleton" /> : <Problem error={day.error} />
  const { coverage, interval, timeline } = day.data
  const newest = coverage.gaps.at(-1)
  return (
    <div>
      <CoverageBar interval={interval} spans={timeline.spans} gaps={timeline.gaps} />
      <p className="facts" style={{ marginTop: ".6rem" }}>
        <span>
          <b>{percentOf(coverage.recordedMs, coverage.expectedMs)}</b> of {lengthOf(coverage.expectedMs)} recorded
        </span>
        <span>
          <b>{coverage.gaps.length}</b> {coverage.gaps.length === 1 ? "gap" : "gaps"}
          {coverage.missingMs > 0 && (
            <>
              , <b>{lengthOf(coverage.missingMs)}</b> missing
            </>
          )}
        </span>
        {newest !== undefined && (
          <a href={`#/play/${recording.recordingToken}?t=${newest.start - 5000}`}>
            Newest gap: {causeOf(newest.cause)}, {momentOf(newest.start)}
          </a>
        )}
      </p>
    </div>
  )
}

const RetentionDialog = ({ onDone, recording }: { readonly recording: Recording; readonly onDone: () => void }) => {
  const [days, setDays] = useState(recording.retentionDays)
  const [error, setError] = useState<string | null>(null)
  const save = () => keepFor(recording, days).then(onDone, (failure: unknown) => setError(messageOf(failure)))
  return (
    <Modal title="Keep footage" onClose={onDone}>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault()
          void save()
        }}
      >
        <label className="field">
          Days
          <input
            type="number"
            min={1}
            max={3650}
            value={days}
            onChange={(event) => setDays(Number(event.target.value))}
          />
          <span className="hint">
            Older footage is deleted, the oldest first. A full disk may shorten it for all recordings alike.
          </span>
        </label>
        <Problem error={error} />
        <div className="actions">
          <button type="button" onClick={onDone}>Cancel</button>
          <button className="primary" type="submit">Save</button>
        </div>
      </form>
    </Modal>
  )
}

const Entry = ({ name, onChange, onRetention, recording }: {
  readonly name: string
  readonly recording: Recording
  readonly onChange: () => void
  readonly onRetention: () => void
}) => {
  const { may } = useSession()
  const [error, setError] = useState<string | null>(null)
  const kept = `Kept ${recording.retentionDays} ${recording.retentionDays === 1 ? "day" : "days"}`
  const toggle = () =>
    toggleRecording(recording).then(() => {
      setError(null)
      onChange()
    }, (failure: unknown) => setError(messageOf(failure)))
  return (
    <article className="panel recording" aria-label={name}>
      <div className="spread">
        <div className="row">
          <h2>{name}</h2>
          <Badge state={recording.state} />
        </div>
        <div className="actions">
          {may("recording:replay") && (
            <a className="button primary" href={`#/play/${recording.recordingToken}`} aria-label={`Play ${name}`}>
              <Icon name="play" />Play
            </a>
          )}
          {may("recording:write") && (
            <>
              <button
                type="button"
                onClick={() => void toggle()}
                aria-label={`${recording.enabled ? "Pause" : "Resume"} ${name}`}
              >
                {recording.enabled ? "Pause" : "Resume"}
              </button>
              <button type="button" onClick={onRetention} aria-label={`${kept}: change it for ${name}`}>
                {kept}
              </button>
            </>
          )}
        </div>
      </div>
      <Why reason={recording.reason} />
      <Problem error={error} />
      {may("recording:search") && <LastDay recording={recording} />}
    </article>
  )
}

/** A camera that nobody records: its footage begins with a click. */
const Unrecorded = ({ camera, onChange }: { readonly camera: Camera; readonly onChange: () => void }) => {
  const { may } = useSession()
  const [error, setError] = useState<string | null>(null)
  const start = () => startRecording(camera, 30).then(onChange, (failure: unknown) => setError(messageOf(failure)))
  return (
    <article className="panel" aria-label={camera.name}>
      <div className="spread">
        <div className="row">
          <h2>{camera.name}</h2>
          <span className="muted">not recorded</span>
        </div>
        {may("recording:write") && (
          <button
            type="button"
            onClick={() => void start()}
            aria-label={`Record ${camera.name}`}
          >
            Record it
          </button>
        )}
      </div>
      <Problem error={error} />
    </article>
  )
}

export const RecordingsPage = () => {
  const { may } = useSession()
  const recordings = useQuery("recordings", listRecordings, 3000)
  const cameras = useQuery("cameras", listCameras, 10_000, may("camera:read"))
  const [retention, setRetention] = useState<Recording | null>(null)
  const nameOf = (recording: Recording) => cameras.data?.find((one) => one.id === recording.cameraId)?.name ?? "…"
  const unrecorded = cameras.data?.filter((one) => recordings.data?.every((other) => other.cameraId !== one.id)) ?? []
  const nothing = recordings.data?.length === 0 && (cameras.data !== null || !may("camera:read"))
  return (
    <>
      <div className="head">
        <h1>Recordings</h1>
        {recordings.data !== null && recordings.data.length > 0 && (
          <div className="legend">
            <span>Last 24 hours</span>
            <span>
              <i className="span" />recorded
            </span>
            <span>
              <i className="gap" />missing
            </span>
          </div>
        )}
      </div>
      <Problem error={recordings.error ?? cameras.error} />
      {recordings.data === null && recordings.error === null && <Loading lines={4} />}
      {nothing && unrecorded.length === 0 && (
        <Empty icon="recordings" title="Nothing is recorded">
          <p>Add a camera and leave “Record it day and night” ticked. Its footage can be played a few seconds later.</p>
          {may("camera:write") && (
            <a className="button primary" href="#/cameras?add=1">
              <Icon name="plus" />Add a camera
            </a>
          )}
        </Empty>
      )}
      <div className="list">
        {recordings.data?.map((recording) => (
          <Entry
            key={recording.id}
            name={nameOf(recording)}
            recording={recording}
            onChange={recordings.refresh}
            onRetention={() => setRetention(recording)}
          />
        ))}
        {recordings.data !== null &&
          unrecorded.map((camera) => <Unrecorded key={camera.id} camera={camera} onChange={recordings.refresh} />)}
      </div>
      {retention !== null && (
        <RetentionDialog
          recording={retention}
          onDone={() => {
            setRetention(null)
            recordings.refresh()
          }}
        />
      )}
    </>
  )
}
