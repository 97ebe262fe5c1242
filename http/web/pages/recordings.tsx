/** Recordings: what each is doing, the last 24 hours as a bar with its gaps, pause and resume, retention. */
import type { Recording } from "#schema/record-config.ts"
import { useState } from "react"
import { keepFor, listCameras, listRecordings, messageOf, timelineOf, toggleRecording } from "../api.ts"
import { CoverageBar } from "../parts/coverage.tsx"
import { Badge, Empty, Modal, Problem } from "../parts/notes.tsx"
import { causeText, dayLength, lengthOf, minute } from "../time.ts"
import { useQuery } from "../use-query.ts"

const LastDay = ({ recording }: { readonly recording: Recording }) => {
  const timeline = useQuery(`day-${recording.id}`, async () => {
    const end = Date.now()
    const interval = { start: end - dayLength, end }
    return { interval, ...await timelineOf(recording.recordingToken, interval) }
  }, 15_000)
  if (timeline.data === null) return <span className="small muted">{timeline.error ?? "…"}</span>
  const { gaps, interval, spans } = timeline.data
  const missing = gaps.reduce((sum, gap) => sum + gap.end - gap.start, 0)
  const newest = gaps.at(-1)
  return (
    <div>
      <CoverageBar interval={interval} spans={spans} gaps={gaps} />
      <div className="small muted">
        {gaps.length === 0 ?
          "no gap" :
          `${gaps.length} ${gaps.length === 1 ? "gap" : "gaps"}, ${lengthOf(missing)} missing; newest: ${
            causeText[newest!.cause] ?? newest!.cause
          }`}
      </div>
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
        </label>
        <p className="small muted">
          Older footage is deleted, the oldest first. A full disk may shorten it for all recordings alike.
        </p>
        <Problem error={error} />
        <div className="row">
          <button className="primary" type="submit">Save</button>
        </div>
      </form>
    </Modal>
  )
}

export const RecordingsPage = () => {
  const recordings = useQuery("recordings", listRecordings, 3000)
  const cameras = useQuery("cameras", listCameras, 15_000)
  const [error, setError] = useState<string | null>(null)
  const [retention, setRetention] = useState<Recording | null>(null)
  const nameOf = (recording: Recording) => cameras.data?.find((one) => one.id === recording.cameraId)?.name ?? "…"
  const toggle = (recording: Recording) =>
    toggleRecording(recording).then(() => {
      setError(null)
      recordings.refresh()
    }, (failure: unknown) => setError(messageOf(failure)))
  return (
    <>
      <div className="head">
        <h1>Recordings</h1>
      </div>
      <Problem error={error ?? recordings.error} />
      {recordings.data?.length === 0 && (
        <Empty title="Nothing is recorded">
          <p className="muted">Add a camera and leave “Record it day and night” ticked.</p>
          <a className="button" href="#/cameras?add=1">Add a camera</a>
        </Empty>
      )}
      {recordings.data !== null && recordings.data.length > 0 && (
        <div className="panel table-wrap">
          <table>
            <thead>
              <tr>
                <th scope="col">Camera</th>
                <th scope="col">State</th>
                <th scope="col" style={{ width: "40%" }}>Last 24 hours</th>
                <th scope="col">Kept</th>
                <th scope="col">
                  <span className="visually-hidden">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {recordings.data.map((recording) => (
                <tr key={recording.id}>
                  <td>
                    <strong>{nameOf(recording)}</strong>
                    <div className="small muted">{recording.role}</div>
                  </td>
                  <td>
                    <Badge state={recording.state} />
                    {recording.reason !== "" && <div className="small muted">{recording.reason}</div>}
                  </td>
                  <td>
                    <LastDay recording={recording} />
                  </td>
                  <td>
                    <button type="button" className="plain" onClick={() => setRetention(recording)}>
                      {recording.retentionDays} d
                    </button>
                  </td>
                  <td>
                    <div className="row" style={{ flexWrap: "nowrap" }}>
                      <a className="button" href={`#/play/${recording.recordingToken}?t=${Date.now() - minute}`}>
                        Play
                      </a>
                      <button type="button" onClick={() => void toggle(recording)}>
                        {recording.enabled ? "Pause" : "Resume"}
                      </button>
                    </div>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
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
