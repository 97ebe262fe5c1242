/** Last steps of adding cameras: their names and whether they are recorded; then their pictures. */
import type { Camera } from "#schema/camera.ts"
import { useState } from "react"
import { finishCamera, inParallel } from "../api-camera-add.ts"
import { listCameras } from "../api.ts"
import { useSession } from "../session.tsx"
import { useQuery } from "../use-query.ts"
import { ChannelPicture } from "./camera-picture.tsx"
import { Check, Form, NumberField, Text, useAction } from "./forms.tsx"
import { Badge } from "./notes.tsx"

/** Cameras that are named at the same time. */
const width = 3

/** Where it is, for whoever cannot tell it by its name yet. */
const placeOf = ({ channels, host, port }: Camera): string =>
  host === null ? channels[0]?.streams[0]?.sourceUrl ?? "" : `${host}:${port}`

interface NameProps {
  readonly cameras: ReadonlyArray<Camera>
  readonly onNext: () => void
}

export const NameStep = ({ cameras, onNext }: NameProps) => {
  const { may } = useSession()
  const [names, setNames] = useState<Readonly<Record<string, string>>>({})
  const [skipped, setSkipped] = useState<ReadonlySet<string>>(new Set())
  const [record, setRecord] = useState(true)
  const [days, setDays] = useState(30)
  const [finished] = useState(() => new Set<string>())
  const action = useAction()
  const mayRecord = may("recording:write")
  const recorded = ({ id }: Camera) => mayRecord && record && !skipped.has(id)
  const finish = () =>
    inParallel(cameras.filter(({ id }) => !finished.has(id)), width, async (camera) => {
      const name = (names[camera.id] ?? camera.name).trim()
      await finishCamera(camera, { name, retentionDays: recorded(camera) ? days : null })
      // Should another one fail, this one is not recorded a second time.
      finished.add(camera.id)
    })
  const skip = (id: string, on: boolean) =>
    setSkipped((old) => new Set(on ? [...old].filter((one) => one !== id) : [...old, id]))
  return (
    <section className="panel" aria-label="Names and recording">
      <Form
        action={action}
        verb={mayRecord && record ? "Record" : "Finish"}
        onSubmit={() => action.run(finish, onNext)}
      >
        {mayRecord && (
          <div className="two">
            <Check label="Record day and night, from now on" checked={record} onChange={setRecord} />
            <NumberField
              label="Keep footage for, days"
              min={1}
              max={3650}
              value={days}
              onChange={setDays}
              disabled={!record}
            />
          </div>
        )}
        <ul className="plain-list">
          {cameras.map((camera) => (
            <li key={camera.id} className="stack tight">
              <Text
                label="Name"
                hint={<span className="mono any-break">{placeOf(camera)}</span>}
                required
                maxLength={120}
                value={names[camera.id] ?? camera.name}
                onChange={(name) => setNames((old) => ({ ...old, [camera.id]: name }))}
              />
              {mayRecord && record && cameras.length > 1 && (
                <Check
                  label="Record it"
                  checked={!skipped.has(camera.id)}
                  onChange={(on) => skip(camera.id, on)}
                />
              )}
            </li>
          ))}
        </ul>
      </Form>
    </section>
  )
}

/** Pictures that are shown at the end; the others are on the page of live pictures. */
const mostPictures = 9

export const DoneStep = ({ cameras }: { readonly cameras: ReadonlyArray<Camera> }) => {
  const all = useQuery("cameras", listCameras, 2000)
  const ids = new Set<string>(cameras.map(({ id }) => id))
  const shown = (all.data ?? []).filter(({ id }) => ids.has(id)).slice(0, mostPictures)
  return (
    <div className="stack">
      <p role="status">
        {cameras.length === 1 ? "Your camera is in." : `Your ${cameras.length} cameras are in.`}{" "}
        The first picture takes a few seconds.
      </p>
      <div className="grid">
        {shown.map((camera) => (
          <article key={camera.id} className="tile" aria-label={camera.name}>
            <div className="picture">
              {camera.channels[0] !== undefined && <ChannelPicture channel={camera.channels[0]} name={camera.name} />}
            </div>
            <div className="bar">
              <a className="name cut" href={`#/cameras/${camera.id}`}>{camera.name}</a>
              <Badge state={camera.status} />
            </div>
          </article>
        ))}
      </div>
      {cameras.length > mostPictures && <p className="muted">The others are among the live pictures.</p>}
      <div className="actions">
        <a className="button" href="#/cameras">All cameras</a>
        <a className="button primary" href="#/live">Watch live</a>
      </div>
    </div>
  )
}
