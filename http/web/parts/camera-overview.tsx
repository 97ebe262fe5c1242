/** What a camera is and offers: streams with their readers, addresses for other players, capabilities with evidence. */
import type { Capability } from "#schema/camera-device.ts"
import type { Camera, CameraStream, Channel } from "#schema/camera.ts"
import { useState } from "react"
import { mediaPathOf, type Offered, proxyStreams } from "../api-camera.ts"
import { useSession } from "../session.tsx"
import { type Query, useQuery } from "../use-query.ts"
import { Asked } from "./camera-section.tsx"
import { capabilityNames, codecNames, roleNames, supportedStates, supportedWords } from "./camera-words.ts"
import { Copyable, useAction } from "./forms.tsx"
import { Badge, Problem, Why } from "./notes.tsx"

const pictureOf = ({ audioCodec, codec, height, width }: CameraStream): string => {
  if (codec === null) return "not seen yet"
  const sound = audioCodec === null ? "no sound" : codecNames[audioCodec] ?? audioCodec
  return `${codecNames[codec] ?? codec}, ${width} × ${height}, ${sound}`
}

const readersOf = (count: number): string => count === 0 ? "no reader" : count === 1 ? "1 reader" : `${count} readers`

/** An address that other players open; asked for when it is wanted, for its token does not last. */
const Address = ({ stream }: { readonly stream: CameraStream }) => {
  const [url, setUrl] = useState<string | null | undefined>(undefined)
  const action = useAction()
  if (url === null) return <p className="small muted">This node does not serve RTSP.</p>
  if (url !== undefined) {
    return (
      <div className="stack tight">
        <Copyable label={`Address of the ${roleNames[stream.role].toLowerCase()}`} text={url} />
        <p className="small muted">
          For VLC, ffplay and other recorders. Lets a player in for five minutes; whoever plays by then goes on.
        </p>
      </div>
    )
  }
  return (
    <>
      <button
        type="button"
        className="link small"
        disabled={action.busy}
        onClick={() => action.run(() => mediaPathOf(stream.id), (path) => setUrl(path.rtspUrl))}
      >
        Address for other players
      </button>
      <Problem error={action.error} />
    </>
  )
}

const Streams = ({ channel }: { readonly channel: Channel }) => {
  const { may } = useSession()
  const readers = useQuery("proxy streams", proxyStreams, 5000)
  return (
    <section className="panel stack" aria-label="Streams">
      <h2>Streams</h2>
      <ul className="plain-list">
        {channel.streams.map((stream) => {
          const count = readers.data?.find(({ path }) => path === stream.id)?.readers ?? 0
          return (
            <li key={stream.id} className="stack tight">
              <div className="spread">
                <strong>{roleNames[stream.role]}</strong>
                <Badge state={stream.status} />
              </div>
              <Why reason={stream.reason} />
              <span className="small">
                {pictureOf(stream)}
                {readers.data !== null && ` · ${readersOf(count)} by RTSP`}
              </span>
              <span className="small mono muted any-break">{stream.sourceUrl}</span>
              {may("camera:live") && <Address stream={stream} />}
            </li>
          )
        })}
      </ul>
    </section>
  )
}

interface Props {
  readonly camera: Camera
  readonly channel: Channel | undefined
  readonly capabilities: Query<Offered<ReadonlyArray<Capability>>>
  readonly onPassword: () => void
}

const kinds = { onvif: "ONVIF", rtsp: "RTSP", mobile: "Phone" } as const

export const Overview = ({ camera, capabilities, channel, onPassword }: Props) => (
  <div className="stack">
    <section className="panel stack" aria-label="About">
      <h2>About</h2>
      <dl className="details">
        <div>
          <dt>Spoken to by</dt>
          <dd>{kinds[camera.driver]}</dd>
        </div>
        {camera.host !== null && (
          <div>
            <dt>Address</dt>
            <dd className="mono">{camera.host}:{camera.port}</dd>
          </div>
        )}
        {camera.description !== "" && (
          <div>
            <dt>Description</dt>
            <dd>{camera.description}</dd>
          </div>
        )}
      </dl>
    </section>
    {channel !== undefined && <Streams channel={channel} />}
    {camera.driver === "onvif" && (
      <section className="panel stack" aria-label="Capabilities">
        <h2>What it can do</h2>
        <Asked query={capabilities} camera={camera} onPassword={onPassword}>
          {(all) => (
            <ul className="plain-list">
              {all.map(({ evidence, name, supported }) => (
                <li key={name}>
                  <div className="spread">
                    <span>{capabilityNames[name] ?? name}</span>
                    <Badge state={supportedStates[supported]} text={supportedWords[supported]} />
                  </div>
                  <span className="small muted any-break">{evidence}</span>
                </li>
              ))}
            </ul>
          )}
        </Asked>
      </section>
    )}
  </div>
)
