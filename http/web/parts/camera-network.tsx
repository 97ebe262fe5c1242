/** The network of a camera, and its factory defaults: what may leave it out of reach, each after a question. */
import type { FactoryResetMode, NetworkChange, NetworkChanged, NetworkInterface } from "#schema/camera-config.ts"
import type { Camera } from "#schema/camera.ts"
import { useState } from "react"
import { factoryReset, networkOf, setNetwork } from "../api-camera-config.ts"
import { offered } from "../api-camera.ts"
import { useQuery } from "../use-query.ts"
import { Asked } from "./camera-section.tsx"
import { Check, Field, Form, NumberField, Text, useAction } from "./forms.tsx"
import { Modal } from "./notes.tsx"

interface FormProps {
  readonly camera: Camera
  readonly one: NetworkInterface
  readonly onSaved: (changed: NetworkChanged) => void
}

const dotted = "\\d{1,3}(\\.\\d{1,3}){3}"

const NetworkForm = ({ camera, one, onSaved }: FormProps) => {
  const four = one.ipv4
  const now = four?.manual[0] ?? four?.leased ?? null
  const [dhcp, setDhcp] = useState(four?.dhcp ?? false)
  const [address, setAddress] = useState(now?.address ?? "")
  const [prefix, setPrefix] = useState(now?.prefixLength ?? 24)
  const [sure, setSure] = useState(false)
  const action = useAction()
  const changed = dhcp !== four?.dhcp || (!dhcp && (address !== now?.address || prefix !== now.prefixLength))
  const change: NetworkChange = {
    ipv4: { ...(dhcp === four?.dhcp ? {} : { dhcp }), ...(dhcp ? {} : { address, prefixLength: prefix }) },
  }
  return (
    <Form
      action={action}
      verb="Change the network"
      disabled={!changed || !sure}
      onSubmit={() => action.run(() => setNetwork(camera.id, one.token, change), onSaved)}
    >
      <p className="small muted">
        {one.name}, <span className="mono">{one.hardwareAddress}</span>
        {one.speedMbps !== null && `, ${one.speedMbps} Mbit/s`}
      </p>
      <Check label="Address by DHCP" checked={dhcp} onChange={setDhcp} />
      {!dhcp && (
        <div className="two">
          <Text
            label="Address"
            required
            pattern={dotted}
            title="Four numbers with dots between"
            value={address}
            onChange={setAddress}
          />
          <NumberField label="Prefix length" min={1} max={32} value={prefix} onChange={setPrefix} />
        </div>
      )}
      {changed && (
        <Check
          label="I know that the camera may be out of reach afterwards"
          checked={sure}
          onChange={setSure}
          hint="Recording breaks until it is found at its new address."
        />
      )}
    </Form>
  )
}

interface Props {
  readonly camera: Camera
  readonly onPassword: () => void
}

export const Network = ({ camera, onPassword }: Props) => {
  const query = useQuery(`network ${camera.id}`, () => offered(networkOf(camera.id)), 0)
  const [done, setDone] = useState<NetworkChanged | null>(null)
  return (
    <section className="stack panel" aria-label="Network">
      <h2>Network</h2>
      {done !== null && <p role="status">{done.advice}</p>}
      <Asked query={query} camera={camera} onPassword={onPassword}>
        {(all) => (
          <>
            {all.filter(({ ipv4 }) => ipv4 !== null).map((one) => (
              <NetworkForm key={one.token} camera={camera} one={one} onSaved={setDone} />
            ))}
          </>
        )}
      </Asked>
    </section>
  )
}

const ResetForm = ({ camera, onCancel, onDone }: {
  readonly camera: Camera
  readonly onCancel: () => void
  readonly onDone: (advice: string) => void
}) => {
  const [mode, setMode] = useState<FactoryResetMode>("soft")
  const [confirm, setConfirm] = useState("")
  const action = useAction()
  return (
    <Form
      action={action}
      verb="Reset the camera"
      disabled={confirm !== camera.name}
      onSubmit={() => action.run(() => factoryReset(camera.id, mode, confirm), ({ advice }) => onDone(advice))}
      onCancel={onCancel}
    >
      <p>
        The camera forgets its settings. This cannot be undone, and nothing is recorded of it until it is set up again.
      </p>
      <Field label="What it forgets">
        <select value={mode} onChange={(event) => setMode(event.target.value === "hard" ? "hard" : "soft")}>
          <option value="soft">All but its network and its users, as it understands that</option>
          <option value="hard">Everything: it has to be set up at its own site</option>
        </select>
      </Field>
      <Text label={`Write its name, ${camera.name}, to go on`} required value={confirm} onChange={setConfirm} />
    </Form>
  )
}

export const FactoryDefaults = ({ camera }: { readonly camera: Camera }) => {
  const [asks, setAsks] = useState(false)
  const [advice, setAdvice] = useState<string | null>(null)
  return (
    <section className="stack panel" aria-label="Factory defaults">
      <h2>Factory defaults</h2>
      {advice === null ?
        <p className="small muted">For a camera that is given away, or that nothing else helps.</p> :
        <p role="status">{advice}</p>}
      <div className="actions">
        <button type="button" className="danger" onClick={() => setAsks(true)}>Reset to factory defaults</button>
      </div>
      {asks && (
        <Modal title={`Reset ${camera.name} to factory defaults?`} onClose={() => setAsks(false)}>
          <ResetForm
            camera={camera}
            onCancel={() => setAsks(false)}
            onDone={(said) => {
              setAdvice(said)
              setAsks(false)
            }}
          />
        </Modal>
      )}
    </section>
  )
}
