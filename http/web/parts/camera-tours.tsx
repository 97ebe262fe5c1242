/** Tours of a camera from preset to preset, which it runs by itself; nothing where it keeps none. */
import type { PtzPreset } from "#schema/camera-device.ts"
import { type PresetTour, tourLimits, type TourOperation } from "#schema/camera-ptz.ts"
import { useState } from "react"
import { createTour, operateTour, presetsOf, removeTour, type Target, toursOf } from "../api-camera.ts"
import { useQuery } from "../use-query.ts"
import { Check, Confirm, Form, NumberField, Text, useAction } from "./forms.tsx"
import { Icon } from "./icons.tsx"
import { Badge, Modal, Problem } from "./notes.tsx"

const stateNames = { idle: "stands", touring: "runs", paused: "paused", unknown: "not known" } as const
const verbs = { start: "Start", pause: "Pause", stop: "Stop" } as const
const signs = { start: "play", pause: "pause", stop: "close" } as const

interface Spot {
  readonly presetToken: string
  readonly staySeconds: number
}

interface FormProps {
  readonly target: Target
  readonly presets: ReadonlyArray<PtzPreset>
  readonly onDone: () => void
}

const TourForm = ({ onDone, presets, target }: FormProps) => {
  const [name, setName] = useState("")
  const [autoStart, setAutoStart] = useState(false)
  const [spots, setSpots] = useState<ReadonlyArray<Spot>>(
    presets.map(({ token }) => ({ presetToken: token, staySeconds: 10 })),
  )
  const action = useAction()
  const change = (place: number, part: Partial<Spot>) =>
    setSpots((old) => old.map((spot, index) => index === place ? { ...spot, ...part } : spot))
  const first = presets[0]?.token ?? ""
  return (
    <Form
      action={action}
      verb="Create tour"
      onSubmit={() => action.run(() => createTour(target, { name: name.trim(), autoStart, spots }), onDone)}
      onCancel={onDone}
      disabled={spots.length === 0}
    >
      <Text label="Name" required maxLength={64} value={name} onChange={setName} />
      <ol className="spots">
        {spots.map((spot, index) => (
          <li key={index}>
            <label className="field">
              Stop {index + 1}
              <select value={spot.presetToken} onChange={(event) => change(index, { presetToken: event.target.value })}>
                {presets.map((one) => <option key={one.token} value={one.token}>{one.name || one.token}</option>)}
              </select>
            </label>
            <NumberField
              label="Seconds"
              min={1}
              max={tourLimits.staySeconds}
              value={spot.staySeconds}
              onChange={(staySeconds) => change(index, { staySeconds })}
            />
            <button
              type="button"
              className="plain"
              aria-label={`Leave out stop ${index + 1}`}
              title="Leave out"
              onClick={() => setSpots((old) => old.filter((_, place) => place !== index))}
            >
              <Icon name="close" />
            </button>
          </li>
        ))}
      </ol>
      <button
        type="button"
        disabled={spots.length >= tourLimits.spots}
        onClick={() => setSpots((old) => [...old, { presetToken: first, staySeconds: 10 }])}
      >
        <Icon name="plus" />Another stop
      </button>
      <Check label="Begin when the camera starts" checked={autoStart} onChange={setAutoStart} />
    </Form>
  )
}

interface RowProps {
  readonly target: Target
  readonly tour: PresetTour
  readonly operations: ReadonlyArray<TourOperation>
  readonly onChange: () => void
  readonly onDelete: () => void
}

const Row = ({ onChange, onDelete, operations, target, tour }: RowProps) => {
  const action = useAction()
  const name = tour.name || tour.token
  const useful = operations.filter((one) => one === "start" ? tour.state !== "touring" : tour.state !== "idle")
  return (
    <li className="stack tight">
      <div className="spread">
        <span className="any-break">
          <strong>{name}</strong>{" "}
          <span className="small muted">{tour.spots.length === 1 ? "1 stop" : `${tour.spots.length} stops`}</span>
        </span>
        <Badge state={tour.state === "touring" ? "ok" : "idle"} text={stateNames[tour.state]} />
      </div>
      <div className="row tight">
        {useful.map((operation) => (
          <button
            key={operation}
            type="button"
            disabled={action.busy}
            aria-label={`${verbs[operation]} ${name}`}
            onClick={() => action.run(() => operateTour(target, tour.token, operation), onChange)}
          >
            <Icon name={signs[operation]} />
            {verbs[operation]}
          </button>
        ))}
        <span className="grow" />
        <button type="button" className="danger" aria-label={`Delete ${name}`} title="Delete" onClick={onDelete}>
          <Icon name="remove" />
        </button>
      </div>
      <Problem error={action.error} />
    </li>
  )
}

export const Tours = ({ target }: { readonly target: Target }) => {
  const query = useQuery(`tours ${target.id} ${target.profileToken}`, () => toursOf(target), 10_000)
  const [presets, setPresets] = useState<ReadonlyArray<PtzPreset> | null>(null)
  const [deleted, setDeleted] = useState<PresetTour | null>(null)
  const action = useAction()
  if (query.data === null) return null
  const { max, operations, tours } = query.data
  const done = () => {
    setPresets(null)
    setDeleted(null)
    query.refresh()
  }
  return (
    <section className="stack" aria-label="Tours">
      <hr />
      <div className="spread">
        <h2>Tours</h2>
        {tours.length < max && (
          <button
            type="button"
            disabled={action.busy}
            onClick={() => action.run(() => presetsOf(target), setPresets)}
          >
            <Icon name="plus" />New tour
          </button>
        )}
      </div>
      <Problem error={action.error ?? query.error} />
      {tours.length === 0 && <p className="muted small">None yet. A tour leads the camera from preset to preset.</p>}
      {tours.length > 0 && (
        <ul className="plain-list">
          {tours.map((tour) => (
            <Row
              key={tour.token}
              target={target}
              tour={tour}
              operations={operations}
              onChange={query.refresh}
              onDelete={() => setDeleted(tour)}
            />
          ))}
        </ul>
      )}
      {presets !== null && (
        <Modal title="New tour" onClose={() => setPresets(null)}>
          {presets.length === 0 ?
            <p>A tour goes from preset to preset, and there is none yet: keep some positions first.</p> :
            <TourForm target={target} presets={presets.slice(0, tourLimits.spots)} onDone={done} />}
        </Modal>
      )}
      {deleted !== null && (
        <Confirm
          title={`Delete ${deleted.name || deleted.token}?`}
          verb="Delete"
          act={() => removeTour(target, deleted.token)}
          onDone={done}
        >
          <p>The camera forgets this tour; its presets stay.</p>
        </Confirm>
      )}
    </section>
  )
}
