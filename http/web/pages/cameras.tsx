/** Cameras: list with state and its reason, edit, delete; the way to add some. */
import type { Camera } from "#schema/camera.ts"
import type { Recording } from "#schema/record-config.ts"
import { useEffect, useState } from "react"
import { deleteCamera, listCameras, listRecordings, messageOf } from "../api.ts"
import { ExportCameras } from "../parts/camera-export.tsx"
import { CameraForm } from "../parts/camera-form.tsx"
import { AddPhone } from "../parts/camera-phone.tsx"
import { codecNames } from "../parts/camera-words.ts"
import { Icon } from "../parts/icons.tsx"
import { Badge, Empty, Loading, Modal, Problem, Why } from "../parts/notes.tsx"
import { RemoteCameras } from "../parts/remote-cameras.tsx"
import { RowButtons } from "../parts/row-buttons.tsx"
import { type Route, useRoute } from "../route.ts"
import { useSession } from "../session.tsx"
import { useQuery } from "../use-query.ts"

type Open = { readonly kind: "phone" | "export" } | { readonly kind: "edit" | "delete"; readonly camera: Camera }

const Picture = ({ camera }: { readonly camera: Camera }) => {
  const stream = camera.channels[0]?.streams[0]
  if (stream?.codec === null || stream?.codec === undefined) return <span className="muted">not seen yet</span>
  const audio = stream.audioCodec === null ? "no sound" : codecNames[stream.audioCodec] ?? stream.audioCodec
  return (
    <>
      <span className="number">{stream.width} × {stream.height}</span>
      <div className="small muted">{codecNames[stream.codec] ?? stream.codec}, {audio}</div>
    </>
  )
}

const DeleteDialog = ({ camera, onDone, recordings }: {
  readonly camera: Camera
  readonly recordings: ReadonlyArray<Recording>
  readonly onDone: () => void
}) => {
  const [error, setError] = useState<string | null>(null)
  const [busy, setBusy] = useState(false)
  const remove = async () => {
    setBusy(true)
    try {
      await deleteCamera(camera, recordings)
      onDone()
    } catch (failure) {
      setError(messageOf(failure))
      setBusy(false)
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
        <div className="actions">
          <button type="button" onClick={onDone} autoFocus>Keep it</button>
          <button type="button" className="danger solid" onClick={() => void remove()} disabled={busy}>
            {busy ? "Deleting…" : recordings.length === 0 ? "Delete" : "Delete with its footage"}
          </button>
        </div>
      </div>
    </Modal>
  )
}

const Row = ({ camera, onOpen, recordings }: {
  readonly camera: Camera
  readonly recordings: ReadonlyArray<Recording> | undefined
  readonly onOpen: (open: Open) => void
}) => {
  const { may } = useSession()
  return (
    <tr>
      <td>
        <a className="name" href={`#/cameras/${camera.id}`}>{camera.name}</a>
      </td>
      <td>
        <Badge state={camera.status} />
        <Why reason={camera.reason} />
      </td>
      <td>
        <Picture camera={camera} />
      </td>
      <td className="small mono">{camera.channels[0]?.streams[0]?.sourceUrl ?? "—"}</td>
      <td>
        {recordings?.map((one) => <Badge key={one.id} state={one.state} />)}
        {recordings?.length === 0 && <span className="muted">none</span>}
      </td>
      <td>
        <div className="actions">
          {recordings?.[0] !== undefined && may("recording:replay") && (
            <a
              className="button"
              href={`#/play/${recordings[0].recordingToken}`}
              aria-label={`Play back ${camera.name}`}
              title="Play back"
            >
              <Icon name="play" />
            </a>
          )}
          {may("camera:write") && (
            <RowButtons
              name={camera.name}
              onEdit={() => onOpen({ kind: "edit", camera })}
              onDelete={() => onOpen({ kind: "delete", camera })}
            />
          )}
        </div>
      </td>
    </tr>
  )
}

/** The dialog that the address asks for: `?edit=<camera>`. */
const useAsked = (route: Route, cameras: ReadonlyArray<Camera> | null) => {
  const [open, setOpen] = useState<Open | null>(null)
  const known = cameras !== null
  useEffect(() => {
    const camera = cameras?.find((one) => one.id === route.query.get("edit"))
    if (camera !== undefined) setOpen({ kind: "edit", camera })
    // Once a visit: the list that is asked for again must not open it again.
  }, [route, known])
  return [open, setOpen] as const
}

interface ListProps {
  readonly cameras: ReadonlyArray<Camera>
  readonly of: (camera: Camera) => ReadonlyArray<Recording> | undefined
  readonly onOpen: (open: Open) => void
}

const List = ({ cameras, of, onOpen }: ListProps) => (
  <div className="panel">
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
        {cameras.map((camera) => <Row key={camera.id} camera={camera} recordings={of(camera)} onOpen={onOpen} />)}
      </tbody>
    </table>
  </div>
)

export const CamerasPage = () => {
  const { may } = useSession()
  const cameras = useQuery("cameras", listCameras, 3000)
  const recordings = useQuery("recordings", listRecordings, 3000, may("recording:read"))
  const [open, setOpen] = useAsked(useRoute(), cameras.data)
  const done = () => {
    setOpen(null)
    // The address asked for a dialog that has been answered.
    if (location.hash.includes("?")) history.replaceState(null, "", "#/cameras")
    cameras.refresh()
    recordings.refresh()
  }
  const some = cameras.data !== null && cameras.data.length > 0
  const of = (camera: Camera) => recordings.data?.filter((one) => one.cameraId === camera.id)
  return (
    <>
      <div className="head">
        <h1>Cameras</h1>
        <div className="actions">
          {may("camera:backup") && (
            <>
              <a className="button" href="#/cameras/import">Import…</a>
              {some && <button type="button" onClick={() => setOpen({ kind: "export" })}>Export…</button>}
            </>
          )}
          {may("camera:write") && (
            <button type="button" onClick={() => setOpen({ kind: "phone" })}>
              <Icon name="plus" />Add a phone
            </button>
          )}
          {may("camera:write") && some && (
            <a className="button primary" href="#/cameras/add">
              <Icon name="plus" />Add cameras
            </a>
          )}
        </div>
      </div>
      <Problem error={cameras.error ?? recordings.error} />
      {cameras.data === null && cameras.error === null && <Loading lines={4} />}
      {cameras.data?.length === 0 && (
        <Empty icon="cameras" title="No camera yet">
          <p>
            Cameras on your network are found by themselves; have their user name and password ready. Any other is added
            by its RTSP address.
          </p>
          {may("camera:write") && (
            <a className="button primary" href="#/cameras/add">
              <Icon name="search" />Find cameras
            </a>
          )}
        </Empty>
      )}
      {cameras.data !== null && some && <List cameras={cameras.data} of={of} onOpen={setOpen} />}
      <RemoteCameras cameras={cameras.data} />
      {open?.kind === "phone" && (
        <Modal title="Add a phone" onClose={done}>
          <AddPhone onDone={done} />
        </Modal>
      )}
      {open?.kind === "export" && (
        <Modal title="Export cameras" onClose={done}>
          <ExportCameras onDone={done} />
        </Modal>
      )}
      {open?.kind === "edit" && (
        <Modal title={`Edit ${open.camera.name}`} onClose={done}>
          <CameraForm camera={open.camera} onDone={done} />
        </Modal>
      )}
      {open?.kind === "delete" && (
        <DeleteDialog
          camera={open.camera}
          recordings={of(open.camera) ?? []}
          onDone={done}
        />
      )}
    </>
  )
}
