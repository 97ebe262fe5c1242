/** All cameras as a file to keep, with or without their passwords. */
import { useEffect, useRef, useState } from "react"
import { exportCameras } from "../api-camera-job.ts"
import { save } from "../download.ts"
import { sizeOf } from "../time.ts"
import { Check, Form, Text, useAction } from "./forms.tsx"

/** As the node asks for it. */
const shortest = 12
const longest = 100

export const ExportCameras = ({ onDone }: { readonly onDone: () => void }) => {
  const [sealed, setSealed] = useState(true)
  const [passphrase, setPassphrase] = useState("")
  const [again, setAgain] = useState("")
  const [bytes, setBytes] = useState(0)
  const [stop] = useState(() => new AbortController())
  const action = useAction()
  const open = useRef(true)
  useEffect(() => {
    open.current = true
    return () => {
      open.current = false
      stop.abort()
    }
  }, [stop])
  const differs = sealed && again !== "" && again !== passphrase
  const run = () =>
    action.run(() => exportCameras(sealed ? passphrase : "", setBytes, stop.signal), (file) => {
      if (!open.current) return
      save(`cameras-${new Date().toISOString().slice(0, 10)}.json`, file)
      onDone()
    })
  return (
    <Form
      action={action}
      verb="Export"
      onCancel={onDone}
      onSubmit={run}
      disabled={sealed && (passphrase.length < shortest || again !== passphrase)}
    >
      <p>
        One file with every camera, its channels, streams and addresses. It can be imported here again, or at another
        recorder.
      </p>
      <Check
        label="With their passwords, sealed under a passphrase"
        checked={sealed}
        onChange={setSealed}
        hint={sealed ?
          "Without the passphrase nobody can read them, and nobody can give it back to you." :
          "Passwords are left out: they have to be given again after an import."}
      />
      {sealed && (
        <div className="two">
          <Text
            label="Passphrase"
            type="password"
            autoComplete="new-password"
            required
            minLength={shortest}
            maxLength={longest}
            value={passphrase}
            onChange={setPassphrase}
            hint={`At least ${shortest} characters`}
          />
          <Text
            label="The same again"
            type="password"
            autoComplete="new-password"
            required
            maxLength={longest}
            value={again}
            onChange={setAgain}
            hint={differs ? "This is not the same" : "So that no slip of a key is kept"}
          />
        </div>
      )}
      {action.busy && <p className="small muted number" role="status">{sizeOf(bytes)} so far</p>}
    </Form>
  )
}
