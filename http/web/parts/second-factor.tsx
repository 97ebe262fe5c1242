/** The second factor: enrolling it by a QR code, recovery codes shown once, renewing them, taking it off. */
import type { Enrolment } from "#schema/auth-factor.ts"
import { useState } from "react"
import {
  confirmSecondFactor,
  disableSecondFactor,
  enrolSecondFactor,
  renewRecoveryCodes,
  secondFactor,
} from "../api-access.ts"
import { save } from "../download.ts"
import { momentOf } from "../time.ts"
import { useQuery } from "../use-query.ts"
import { clipboard, Copyable, Form, Text, useAction } from "./forms.tsx"
import { Icon } from "./icons.tsx"
import { Badge, Loading, Modal, Problem } from "./notes.tsx"

const Password = ({ onChange, value }: { readonly value: string; readonly onChange: (value: string) => void }) => (
  <Text
    label="Your password"
    type="password"
    required
    autoComplete="current-password"
    value={value}
    onChange={onChange}
  />
)

const Codes = ({ codes, onDone }: { readonly codes: ReadonlyArray<string>; readonly onDone: () => void }) => {
  const [kept, setKept] = useState(false)
  const text = `${codes.join("\n")}\n`
  return (
    <div className="stack">
      <p>
        <strong>Keep these recovery codes.</strong>{" "}
        Each is good for one sign-in without your telephone. They are shown now and never again.
      </p>
      <ul className="codes mono" aria-label="Recovery codes">{codes.map((code) => <li key={code}>{code}</li>)}</ul>
      <div className="row">
        <button
          type="button"
          onClick={() => save("nightjar-recovery-codes.txt", new Blob([text], { type: "text/plain" }))}
        >
          <Icon name="download" />Save as a file
        </button>
        {clipboard && (
          <button type="button" onClick={() => void navigator.clipboard.writeText(text)}>
            <Icon name="copy" />Copy
          </button>
        )}
      </div>
      <label className="check">
        <input type="checkbox" checked={kept} onChange={(event) => setKept(event.target.checked)} />
        I have kept them
      </label>
      <div className="actions">
        <button type="button" className="primary" disabled={!kept} onClick={onDone}>Done</button>
      </div>
    </div>
  )
}

interface ConfirmProps {
  readonly enrolment: Enrolment
  readonly onCodes: (codes: ReadonlyArray<string>) => void
  readonly onCancel: () => void
}

const Confirmation = ({ enrolment, onCancel, onCodes }: ConfirmProps) => {
  const [code, setCode] = useState("")
  const action = useAction()
  return (
    <Form
      action={action}
      verb="Confirm"
      onSubmit={() => action.run(() => confirmSecondFactor(code), onCodes)}
      onCancel={onCancel}
    >
      <p>Scan this with an authenticator app, then write the code that it shows.</p>
      <img
        className="qr"
        src={`data:image/svg+xml,${encodeURIComponent(enrolment.qrSvg)}`}
        alt="QR code for an authenticator app"
        width="200"
        height="200"
      />
      <details>
        <summary>No camera? Write the secret into the app.</summary>
        <Copyable label="Secret" text={enrolment.secret} />
      </details>
      <Text
        label="One-time code"
        required
        autoComplete="one-time-code"
        maxLength={32}
        value={code}
        onChange={setCode}
        hint={`${enrolment.digits} digits, new every ${enrolment.periodSeconds} seconds`}
      />
    </Form>
  )
}

/** From the password to the recovery codes. */
const Enrol = ({ onDone }: { readonly onDone: () => void }) => {
  const [password, setPassword] = useState("")
  const [enrolment, setEnrolment] = useState<Enrolment | null>(null)
  const [codes, setCodes] = useState<ReadonlyArray<string> | null>(null)
  const action = useAction()
  if (codes !== null) return <Codes codes={codes} onDone={onDone} />
  if (enrolment !== null) return <Confirmation enrolment={enrolment} onCodes={setCodes} onCancel={onDone} />
  return (
    <Form
      action={action}
      verb="Go on"
      onSubmit={() => action.run(() => enrolSecondFactor(password), setEnrolment)}
      onCancel={onDone}
    >
      <Password value={password} onChange={setPassword} />
    </Form>
  )
}

interface ProofProps {
  readonly what: "renew" | "disable"
  readonly onDone: () => void
}

/** Password and code once more, for what weakens the account. */
const Proof = ({ onDone, what }: ProofProps) => {
  const [password, setPassword] = useState("")
  const [code, setCode] = useState("")
  const [codes, setCodes] = useState<ReadonlyArray<string> | null>(null)
  const action = useAction()
  if (codes !== null) return <Codes codes={codes} onDone={onDone} />
  const submit = () =>
    what === "renew" ?
      action.run(() => renewRecoveryCodes(password, code), setCodes) :
      action.run(() => disableSecondFactor(password, code), onDone)
  return (
    <Form action={action} verb={what === "renew" ? "Renew" : "Take it off"} onSubmit={submit} onCancel={onDone}>
      {what === "renew" && <p className="muted">The recovery codes of before are worth nothing any more.</p>}
      <Password value={password} onChange={setPassword} />
      <Text label="One-time code or recovery code" required maxLength={64} value={code} onChange={setCode} />
    </Form>
  )
}

type Open = "enrol" | ProofProps["what"]

const titles: Readonly<Record<Open, string>> = {
  enrol: "Set up a second factor",
  renew: "Renew the recovery codes",
  disable: "Take off the second factor",
}

export const SecondFactor = () => {
  const state = useQuery("second-factor", secondFactor, 0)
  const [open, setOpen] = useState<Open | null>(null)
  const done = () => {
    setOpen(null)
    state.refresh()
  }
  const known = state.data
  return (
    <section className="panel stack" aria-labelledby="second-factor">
      <div className="spread">
        <h2 id="second-factor">Second factor</h2>
        {known !== null && <Badge state={known.active ? "ok" : "idle"} text={known.active ? "active" : "not set up"} />}
      </div>
      <Problem error={state.error} />
      {known === null && state.error === null && <Loading lines={2} />}
      {known?.active === false && (
        <div className="spread">
          <p className="muted grow">
            A code from an app on your telephone, asked for at each sign-in: a stolen password is not enough then.
          </p>
          <button type="button" className="primary" onClick={() => setOpen("enrol")}>Set up</button>
        </div>
      )}
      {known?.active === true && (
        <div className="spread">
          <p className="grow">
            Since {known.activeSince === null ? "—" : momentOf(known.activeSince)} · {known.recoveryCodesLeft} recovery
            {" "}
            {known.recoveryCodesLeft === 1 ? "code" : "codes"} left
          </p>
          <button type="button" onClick={() => setOpen("renew")}>Renew recovery codes</button>
          <button type="button" className="danger" onClick={() => setOpen("disable")}>Take it off</button>
        </div>
      )}
      {open !== null && (
        <Modal title={titles[open]} onClose={done}>
          {open === "enrol" ? <Enrol onDone={done} /> : <Proof what={open} onDone={done} />}
        </Modal>
      )}
    </section>
  )
}
