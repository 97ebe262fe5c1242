/** Cameras of other nodes, by node, on the page of cameras: their state, as their node tells it now, and the way to their pictures. */
import type { Camera } from "#schema/camera.ts"
import { listRemote, remoteEveryMs, type RemoteNode } from "../remote-cameras.ts"
import { useSession } from "../session.tsx"
import { useQuery } from "../use-query.ts"
import { streamOf, type WallPicture } from "../wall-pictures.ts"
import { codecNames } from "./camera-words.ts"
import { Icon } from "./icons.tsx"
import { Badge, Problem, Why } from "./notes.tsx"

/** `cameras`: this node's own; null while they are not known. */
export const useRemote = (cameras: ReadonlyArray<Camera> | null) => {
  const { may } = useSession()
  const own = new Set(cameras?.flatMap(({ channels }) => channels.map(({ id }) => id)))
  return useQuery(
    `remote ${own.size}`,
    () => listRemote(may("federation:read"), own),
    remoteEveryMs,
    cameras !== null && may("camera:read"),
  )
}

const Row = ({ picture }: { readonly picture: WallPicture }) => {
  const { may } = useSession()
  const stream = streamOf(picture, "main")
  const name = picture.name.replace(` · ${picture.node}`, "")
  return (
    <tr>
      <td>
        <strong>{name}</strong>
      </td>
      <td>
        <Badge state={picture.status} />
        <Why reason={picture.reason} />
      </td>
      <td className="number">
        {stream?.codec ?
          `${codecNames[stream.codec] ?? stream.codec}, ${stream.width ?? "?"} × ${stream.height ?? "?"}` :
          <span className="muted">not seen yet</span>}
      </td>
      <td>
        <div className="actions">
          {picture.recording !== null && may("recording:replay") && (
            <a
              className="button plain"
              href={`#/play/${picture.recording.recordingToken}`}
              aria-label={`Play back ${picture.name}`}
              title="Play back"
            >
              <Icon name="play" />
            </a>
          )}
        </div>
      </td>
    </tr>
  )
}

const Group = ({ node: { name, nodeId, pictures, trouble } }: { readonly node: RemoteNode }) => (
  <section className="panel" aria-labelledby={`remote-${nodeId}`}>
    <div className="title">
      <h2 id={`remote-${nodeId}`}>{name}</h2>
      <Badge state={trouble === "" ? "online" : "offline"} text={trouble === "" ? "answers" : "does not answer"} />
    </div>
    {trouble !== "" && <Why reason={trouble} />}
    <table>
      <thead>
        <tr>
          <th scope="col">Name</th>
          <th scope="col">State</th>
          <th scope="col">Picture</th>
          <th scope="col">
            <span className="visually-hidden">Actions</span>
          </th>
        </tr>
      </thead>
      <tbody>{pictures.map((picture) => <Row key={picture.id} picture={picture} />)}</tbody>
    </table>
  </section>
)

/** Nothing where there are none. */
export const RemoteCameras = ({ cameras }: { readonly cameras: ReadonlyArray<Camera> | null }) => {
  const { data, error } = useRemote(cameras)
  if (error !== null) return <Problem error={error} />
  if (data === null || data.length === 0) return null
  return <div className="stack others">{data.map((node) => <Group key={node.nodeId} node={node} />)}</div>
}
