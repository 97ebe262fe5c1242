/** Cameras: list with state and its reason, add, edit, delete, record. */
import type { Camera } from "#schema/camera.ts"
import type { Recording } from "#schema/record-config.ts"
import { useEffect, useState } from "react"
import { deleteCamera, listCameras, listRecordings, messageOf } from "../api.ts"
import { CameraForm } from "../parts/camera-form.tsx"
import { Badge, Empty, Modal, Problem } from "../parts/notes.tsx"
import { useRoute } from "../route.ts"
import { useQuery } from "../use-query.ts"

type Open = { readonly kind: "add" } | { readonly kind: "edit" | "delete"; readonly camera: Camera }

const picture = (camera: Camera): string => {
  const stream = camera.channels[0]?.streams[0]
  if (stream?.codec === null || stream?.codec === undefined) return "not seen yet"
  const audio = stream.audioCodec === null ? "" : `, ${stream.audioCodec}`
  return `${stream.codec === "h264" ? "H.264" : "H.265"} ${stream.width}×${stream.height}${audio}`
}

const DeleteDialog = ({ camera, onDone, recordings }: {
  readonly camera: Camera
  readonly recordings: ReadonlyArray<Recording>
  readonly onDone: () => void
}) => {
  const [error, setError] = useState<string | null>(null)
  const remove = async () => {
    try {
      await deleteCamera(camera, recordings)
      onDone()
    } catch (failure) {
      setError(messageOf(failure))
    }
  }
  return (
    <Modal title={`Delete ${camera.name}?`} onClose={onDone}>
      <div className="stack">
        <p>
          {recordings.length === 0 ?
            "The camera has no recording." :
            "Its recording and all footage of it are deleted with it. This cannot be undone."}
        </p>
        <Problem error={error} />
        <div className="row">
          <button type="button" className="danger" onClick={() => void remove()}>Delete</button>
          <button type="button" onClick={onDone}>Keep it</button>
        </div>
      </div>
    </Modal>
  )
}

export const CamerasPage = () => {
  const route = useRoute()
  const cameras = useQuery("cameras", listCameras, 3000)
  const recordings = useQuery("recordings", listRecordings, 3000)
  const [open, setOpen] = useState<Open | null>(null)
  useEffect(() => {
    if (route.query.has("add")) setOpen({ kind: "add" })
  }, [route.query])
  const done = () => {
    setOpen(null)
    cameras.refresh()
    recordings.refresh()
  }
  const of = (camera: Camera) => recordings.data?.filter((one) => one.cameraId === camera.id) ?? []
  return (
    <>
      <div className="head">
        <h1>Cameras</h1>
        <button type="button" className="primary" onClick={() => setOpen({ kind: "add" })}>Add a camera</button>
      </div>
      <Problem error={cameras.error ?? recordings.error} />
      {cameras.data?.length === 0 && (
        <Empty title="No camera yet">
          <p className="muted">
            Have its RTSP address ready, such as rtsp://192.168.1.20/stream1, and its user name and password.
          </p>
          <button type="button" onClick={() => setOpen({ kind: "add" })}>Add a camera</button>
        </Empty>
      )}
      {cameras.data !== null && cameras.data.length > 0 && (
        <div className="panel table-wrap">
          <table>
            <thead>
              <tr>
                <th scope="col">Name</th>
                <th scope="col">State</th>
                <th scope="col">Picture</th>
                <th scope="col">Address</th>
                <th scope="col">Recording</th>
                <th scope="col">
                  <span className="visually-hidden">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {cameras.data.map((camera) => (
                <tr key={camera.id}>
                  <td>
                    <strong>{camera.name}</strong>
                  </td>
                  <td>
                    <Badge state={camera.status} />
                    {camera.reason !== "" && <div className="small muted">{camera.reason}</div>}
                  </td>
                  <td className="small">{picture(camera)}</td>
                  <td className="small mono">{camera.channels[0]?.streams[0]?.sourceUrl ?? "—"}</td>
                  <td>
                    {of(camera).length === 0 ?
                      <span className="muted small">none</span> :
                      of(camera).map((one) => <Badge key={one.id} state={one.state} />)}
                  </td>
                  <td>
                    <div className="row" style={{ flexWrap: "nowrap" }}>
                      <button
                        type="button"
                        onClick={() => setOpen({ kind: "edit", camera })}
                        aria-label={`Edit ${camera.name}`}
                      >
                        Edit
                      </button>
                      <button
                        type="button"
                        className="danger"
                        onClick={() => setOpen({ kind: "delete", camera })}
                        aria-label={`Delete ${camera.name}`}
                      >
                        Delete
                      </button>
                    </div>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {open?.kind === "add" && (
        <Modal title="Add a camera" onClose={done}>
          <CameraForm camera={null} onDone={done} />
        </Modal>
      )}
      {open?.kind === "edit" && (
        <Modal title={`Edit ${open.camera.name}`} onClose={done}>
          <CameraForm camera={open.camera} onDone={done} />
        </Modal>
      )}
      {open?.kind === "delete" && <DeleteDialog camera={open.camera} recordings={of(open.camera)} onDone={done} />}
    </>
  )
}
