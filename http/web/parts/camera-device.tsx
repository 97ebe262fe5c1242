/** The camera as a device: its clock beside ours, a restart. */
import type { DeviceClock } from "#schema/camera-device.ts"
import type { Camera } from "#schema/camera.ts"
import { useState } from "react"
import { deviceClock, offered, reboot, setDeviceClock } from "../api-camera.ts"
import { lengthOf, momentOf } from "../time.ts"
import { useQuery } from "../use-query.ts"
import { Asked } from "./camera-section.tsx"
import { Confirm, Form, Text, useAction } from "./forms.tsx"
import { Badge } from "./notes.tsx"

/** How far its clock is from ours, in words. */
const skewOf = ({ offsetMs, utc }: DeviceClock) => {
  if (utc === null) return <Badge state="idle" text="it tells no time" />
  if (offsetMs === 0) return <Badge state="ok" text="agrees with this recorder" />
  return <Badge state="warn" text={`${lengthOf(Math.abs(offsetMs))} ${offsetMs > 0 ? "ahead" : "behind"}`} />
}

interface ClockProps {
  readonly camera: Camera
  readonly clock: DeviceClock
  readonly onSet: () => void
}

const ClockForm = ({ camera, clock, onSet }: ClockProps) => {
  const [timeZone, setTimeZone] = useState(clock.timeZone ?? "")
  const action = useAction()
  const set = (mode: "manual" | "ntp") => action.run(() => setDeviceClock(camera.id, mode, timeZone.trim()), onSet)
  return (
    <Form
      action={action}
      verb="Set to this recorder's time"
      onSubmit={() => set("manual")}
      extra={
        <button type="button" disabled={action.busy} onClick={() => set("ntp")}>
          Follow a time server
        </button>
      }
    >
      <dl className="details">
        <div>
          <dt>Its clock says</dt>
          <dd className="number">{clock.utc === null ? "—" : momentOf(clock.utc)}</dd>
        </div>
        <div>
          <dt>Next to ours</dt>
          <dd>{skewOf(clock)}</dd>
        </div>
        <div>
          <dt>Set by</dt>
          <dd>{clock.mode === "ntp" ? "a time server (NTP)" : "hand"}</dd>
        </div>
      </dl>
      <Text
        label="Time zone of the camera"
        value={timeZone}
        onChange={setTimeZone}
        maxLength={100}
        hint="As POSIX writes it, such as CET-1CEST,M3.5.0,M10.5.0/3. It is for what the camera writes into its picture; recordings do not depend on it."
      />
    </Form>
  )
}

interface Props {
  readonly camera: Camera
  readonly onPassword: () => void
}

export const Clock = ({ camera, onPassword }: Props) => {
  const query = useQuery(`clock ${camera.id}`, () => offered(deviceClock(camera.id)), 0)
  const [turn, setTurn] = useState(0)
  const set = () => {
    setTurn((n) => n + 1)
    query.refresh()
  }
  return (
    <section className="stack panel" aria-label="Date and time">
      <h2>Date and time</h2>
      <Asked query={query} camera={camera} onPassword={onPassword}>
        {(clock) => <ClockForm key={`${turn} ${clock.timeZone}`} camera={camera} clock={clock} onSet={set} />}
      </Asked>
    </section>
  )
}

export const Restart = ({ camera }: { readonly camera: Camera }) => {
  const [asks, setAsks] = useState(false)
  const [said, setSaid] = useState<string | null>(null)
  return (
    <section className="stack panel" aria-label="Restart">
      <h2>Restart</h2>
      <p className="small muted">A camera that hangs often comes back after a restart. It takes a minute or two.</p>
      {said !== null && <p role="status">The camera restarts{said === "" ? "." : `: ${said}`}</p>}
      <div className="actions">
        <button type="button" className="danger" onClick={() => setAsks(true)}>Restart the camera</button>
      </div>
      {asks && (
        <Confirm
          title={`Restart ${camera.name}?`}
          verb="Restart"
          act={async () => setSaid((await reboot(camera.id)).message)}
          onDone={() => setAsks(false)}
        >
          <p>Until it is back there is no picture and nothing is recorded of it. The gap is noted with its cause.</p>
        </Confirm>
      )}
    </section>
  )
}
