/**
 * A camera: its picture, what it is, and everything that it can be told by its own protocol.
 *
 * Invariants
 * 1. A part that the camera does not offer, or that the user may not use, is not there.
 * 2. The picture stays in view beside what changes it.
 */
import type { Capability, MediaProfile } from "#schema/camera-device.ts"
import type { Camera, Channel } from "#schema/camera.ts"
import type { CameraId } from "#schema/common.ts"
import type { Permission } from "#schema/permission.ts"
import { useState } from "react"
import { capabilitiesOf, type Offered, offered, profilesOf, readCamera } from "../api-camera.ts"
import { Sound } from "../parts/camera-audio.tsx"
import { Clock, Restart } from "../parts/camera-device.tsx"
import { Encoder } from "../parts/camera-encoder.tsx"
import { Focus } from "../parts/camera-focus.tsx"
import { Imaging } from "../parts/camera-imaging.tsx"
import { FactoryDefaults, Network } from "../parts/camera-network.tsx"
import { Osds } from "../parts/camera-osd.tsx"
import { Overview } from "../parts/camera-overview.tsx"
import { PictureView } from "../parts/camera-picture.tsx"
import { Presets } from "../parts/camera-presets.tsx"
import { PtzPad } from "../parts/camera-ptz.tsx"
import { Asked, PasswordForm } from "../parts/camera-section.tsx"
import { Tours } from "../parts/camera-tours.tsx"
import { Tabs } from "../parts/forms.tsx"
import { Icon } from "../parts/icons.tsx"
import { Badge, Empty, Loading, Problem, Why } from "../parts/notes.tsx"
import { useSession } from "../session.tsx"
import { type Query, useQuery } from "../use-query.ts"

type Part = "overview" | "move" | "image" | "streams" | "device"

interface PartOf {
  readonly part: Part
  readonly name: string
  readonly needs: Permission
  /** The capability without which there is nothing to show; null: every camera with a protocol of its own has it. */
  readonly by: Capability["name"] | null
}

const parts: ReadonlyArray<PartOf> = [
  { part: "move", name: "Move", needs: "camera:ptz", by: "ptz" },
  { part: "image", name: "Image", needs: "camera:write", by: "imaging" },
  { part: "streams", name: "Encoding", needs: "camera:write", by: null },
  { part: "device", name: "Device", needs: "camera:write", by: null },
]

/** The camera's own profiles of one channel: channels are numbered in the order of its video sources. */
const profilesFor = (profiles: ReadonlyArray<MediaProfile>, channel: Channel | undefined) => {
  const sources = [...new Set(profiles.flatMap((one) => one.videoSourceToken ?? []))]
  const source = sources[(channel?.number ?? 1) - 1]
  return profiles.filter((one) => one.videoSourceToken === source)
}

interface ShownProps {
  readonly camera: Camera
  readonly channel: Channel | undefined
  readonly part: Part
  readonly capabilities: Query<Offered<ReadonlyArray<Capability>>>
  /** What is drawn over the picture. */
  readonly layer: HTMLElement | null
  readonly onChange: () => void
}

const OfProfiles = ({ camera, channel, layer, onChange, part }: ShownProps) => {
  const { may } = useSession()
  const query = useQuery(`profiles ${camera.id}`, () => offered(profilesOf(camera.id)), 0)
  return (
    <Asked query={query} camera={camera} onPassword={onChange}>
      {(all) => {
        const profiles = profilesFor(all, channel)
        const moving = profiles.find((one) => one.ptzToken !== null)
        const source = profiles[0]?.videoSourceToken ?? null
        const encoders = new Map(profiles.flatMap((one) => one.videoEncoder ?? []).map((one) => [one.token, one]))
        if (part === "move") {
          if (moving === undefined) return <p className="panel muted">This channel cannot be moved.</p>
          const target = { id: camera.id, profileToken: moving.token }
          return (
            <div className="panel stack">
              <PtzPad key={moving.token} target={target} />
              <hr />
              <Presets camera={camera} target={target} onPassword={onChange} />
              <Tours target={target} />
            </div>
          )
        }
        if (part === "image") {
          if (source === null) return <p className="panel muted">This channel has no image to set.</p>
          return (
            <div className="panel stack">
              <Imaging camera={camera} source={{ id: camera.id, token: source }} onPassword={onChange} />
              {may("camera:ptz") && <Focus source={{ id: camera.id, token: source }} />}
              <hr />
              <Osds
                camera={camera}
                source={{ id: camera.id, token: source }}
                layer={layer}
                onPassword={onChange}
              />
            </div>
          )
        }
        return (
          <div className="stack">
            {[...encoders.values()].map(({ name, token }) => (
              <Encoder
                key={token}
                camera={camera}
                token={token}
                title={name === "" ? token : name}
                onPassword={onChange}
              />
            ))}
            <Sound camera={camera} onPassword={onChange} />
            {encoders.size === 0 && <p className="panel muted">This channel has no video encoder.</p>}
          </div>
        )
      }}
    </Asked>
  )
}

const Shown = (props: ShownProps) => {
  const { camera, capabilities, channel, onChange, part } = props
  if (part === "overview") {
    return <Overview camera={camera} channel={channel} capabilities={capabilities} onPassword={onChange} />
  }
  if (part === "device") {
    return (
      <div className="stack">
        <Clock camera={camera} onPassword={onChange} />
        <Network camera={camera} onPassword={onChange} />
        <Restart camera={camera} />
        <FactoryDefaults camera={camera} />
      </div>
    )
  }
  return <OfProfiles {...props} />
}

const Head = ({ camera }: { readonly camera: Camera }) => {
  const { may } = useSession()
  return (
    <div className="head">
      <div className="named">
        <a className="small" href="#/cameras">
          <Icon name="left" />Cameras
        </a>
        <h1>{camera.name}</h1>
        <Badge state={camera.status} />
      </div>
      {may("camera:write") && (
        <a className="button" href={`#/cameras?edit=${camera.id}`}>
          <Icon name="edit" />Edit
        </a>
      )}
    </div>
  )
}

const Trouble = ({ camera, onChange }: { readonly camera: Camera; readonly onChange: () => void }) => {
  const { may } = useSession()
  if (camera.status === "authFailed" && may("camera:write")) {
    return (
      <section className="panel stack trouble" aria-label="Password refused">
        <h2>The camera refused the user name or the password</h2>
        <PasswordForm camera={camera} onDone={onChange} />
      </section>
    )
  }
  // Where there is no picture at all, the reason stands in its place.
  if (camera.reason === "" || (camera.status === "offline" && may("camera:live"))) return null
  return (
    <div className="panel trouble">
      <Why reason={camera.reason} />
    </div>
  )
}

interface ViewProps {
  readonly camera: Camera
  readonly channel: Channel | undefined
  readonly onChannel: (number: number) => void
  readonly onLayer: (layer: HTMLElement | null) => void
}

const View = ({ camera, channel, onChannel, onLayer }: ViewProps) => (
  <div className="camera-view">
    {channel === undefined ?
      (
        <div className="stage">
          <div className="note">No channel of this camera can be seen.</div>
        </div>
      ) :
      (
        <PictureView
          key={channel.id}
          channel={channel}
          name={camera.channels.length > 1 ? channel.name : camera.name}
          talks={camera.driver !== "mobile"}
          onLayer={onLayer}
        />
      )}
    {camera.channels.length > 1 && (
      <label className="field channel">
        Channel
        <select value={channel?.number} onChange={(event) => onChannel(Number(event.target.value))}>
          {camera.channels.map((one) => (
            <option key={one.id} value={one.number}>
              {one.number} · {one.name}
              {one.status === "online" ? "" : ` (${one.status === "disabled" ? "off" : "no picture"})`}
            </option>
          ))}
        </select>
      </label>
    )}
  </div>
)

const Body = ({ camera, onChange, wanted }: {
  readonly camera: Camera
  readonly wanted: string | null
  readonly onChange: () => void
}) => {
  const { may } = useSession()
  const asks = camera.driver === "onvif"
  const capabilities = useQuery(`capabilities ${camera.id}`, () => offered(capabilitiesOf(camera.id)), 0, asks)
  const [number, setNumber] = useState(camera.channels[0]?.number ?? 1)
  const [layer, setLayer] = useState<HTMLElement | null>(null)
  const channel = camera.channels.find((one) => one.number === number) ?? camera.channels[0]
  const told = capabilities.data?.kind === "yes" ? capabilities.data.value : null
  const open = parts.filter(({ by, needs }) =>
    told !== null && may(needs) && (by === null || told.find(({ name }) => name === by)?.supported !== "no")
  )
  const part = open.find((one) => one.part === wanted)?.part ?? "overview"
  const here = `cameras/${camera.id}`
  const changed = () => {
    capabilities.refresh()
    onChange()
  }
  return (
    <>
      <Head camera={camera} />
      <Trouble camera={camera} onChange={changed} />
      <div className="camera">
        <View camera={camera} channel={channel} onChannel={setNumber} onLayer={setLayer} />
        <div className="camera-side">
          {open.length > 0 && (
            <Tabs
              label={camera.name}
              now={part === "overview" ? here : `${here}?show=${part}`}
              tabs={[[here, "Overview"], ...open.map(({ name, part }) => [`${here}?show=${part}`, name] as const)]}
            />
          )}
          <Shown
            camera={camera}
            channel={channel}
            part={part}
            capabilities={capabilities}
            layer={layer}
            onChange={changed}
          />
        </div>
      </div>
    </>
  )
}

export const CameraPage = ({ id, show }: { readonly id: CameraId; readonly show: string | null }) => {
  const camera = useQuery(`camera ${id}`, () => readCamera(id), 3000)
  if (camera.data !== null) return <Body camera={camera.data} wanted={show} onChange={camera.refresh} />
  if (camera.error === null) return <Loading lines={6} />
  return (
    <Empty icon="cameras" title="This camera cannot be shown">
      <Problem error={camera.error} />
      <a className="button" href="#/cameras">All cameras</a>
    </Empty>
  )
}
