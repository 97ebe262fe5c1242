/** The mail server: its settings, and a test that says at which step it fails. */
import { MailSecurity, type SmtpSettings, type SmtpSettingsUpdate, type SmtpTestResult } from "#schema/auth-smtp.ts"
import { Redacted, Schema } from "effect"
import { useState } from "react"
import { smtpSettings, testSmtp, updateSmtp } from "../api-security.ts"
import { useSession } from "../session.tsx"
import { lengthOf } from "../time.ts"
import { useQuery } from "../use-query.ts"
import { Check, Field, Form, NumberField, Text, useAction } from "./forms.tsx"
import { Badge, Loading, Problem } from "./notes.tsx"

interface Input {
  readonly host: string
  readonly port: number
  readonly security: MailSecurity
  readonly from: string
  readonly username: string
  /** Empty: unchanged. */
  readonly password: string
  readonly caCertificate: string
  readonly allowUnverified: boolean
}

const inputOf = (known: SmtpSettings): Input => ({
  host: known.host,
  port: known.port,
  security: known.security,
  from: known.from,
  username: known.username ?? "",
  password: "",
  caCertificate: known.caCertificate ?? "",
  allowUnverified: known.allowUnverified,
})

const updateOf = (input: Input): SmtpSettingsUpdate => ({
  host: input.host,
  port: input.port,
  security: input.security,
  from: input.from,
  username: input.username === "" ? null : input.username,
  ...(input.username === "" ? { password: null } : input.password === "" ? {} : {
    password: Redacted.make(input.password),
  }),
  caCertificate: input.caCertificate.trim() === "" ? null : input.caCertificate,
  allowUnverified: input.allowUnverified,
})

const securities: Readonly<Record<MailSecurity, string>> = {
  starttls: "STARTTLS (usual on port 587)",
  tls: "TLS from the start (usual on port 465)",
  none: "None: everything can be read on the way",
}

const outcomes: Readonly<Record<SmtpTestResult["outcome"], string>> = {
  ok: "It works",
  notConfigured: "No server is set",
  unavailable: "The settings cannot be read now",
  refused: "No connection",
  tls: "The encryption failed",
  login: "The sign-in was refused",
  rejected: "The mail was refused",
  timeout: "No answer in time",
}

interface Editing {
  readonly input: Input
  readonly set: <K extends keyof Input>(key: K, value: Input[K]) => void
}

const Server = ({ input, set }: Editing) => (
  <>
    <div className="two">
      <Text
        label="Server"
        required
        maxLength={253}
        value={input.host}
        onChange={(value) => set("host", value)}
        placeholder="smtp.example.org"
      />
      <NumberField label="Port" min={1} max={65_535} value={input.port} onChange={(value) => set("port", value)} />
    </div>
    <Field label="Encryption">
      <select
        value={input.security}
        onChange={(event) => Schema.is(MailSecurity)(event.target.value) && set("security", event.target.value)}
      >
        {MailSecurity.literals.map((one) => <option key={one} value={one}>{securities[one]}</option>)}
      </select>
    </Field>
    <Text
      label="Sender"
      type="email"
      required
      maxLength={254}
      value={input.from}
      onChange={(value) => set("from", value)}
      placeholder="nightjar@example.org"
    />
  </>
)

const Login = ({ hasPassword, input, set }: Editing & { readonly hasPassword: boolean }) => (
  <>
    <div className="two">
      <Text
        label="User name (optional)"
        maxLength={256}
        value={input.username}
        onChange={(value) => set("username", value)}
      />
      <Text
        label="Password"
        type="password"
        autoComplete="new-password"
        maxLength={256}
        disabled={input.username === ""}
        placeholder={hasPassword ? "unchanged" : ""}
        value={input.password}
        onChange={(value) => set("password", value)}
      />
    </div>
    <details>
      <summary>Certificate of the server</summary>
      <div className="stack">
        <Field label="Certificate authority (PEM)" hint="Instead of what the system trusts; empty for a public server.">
          <textarea
            rows={4}
            spellCheck={false}
            className="mono"
            value={input.caCertificate}
            onChange={(event) => set("caCertificate", event.target.value)}
          />
        </Field>
        <Check
          label="Take any certificate"
          hint="Also a forged one: somebody on the way could read the mails and the password."
          checked={input.allowUnverified}
          onChange={(value) => set("allowUnverified", value)}
        />
      </div>
    </details>
  </>
)

const Test = ({ input }: { readonly input: Input }) => {
  const { user } = useSession()
  const [to, setTo] = useState(user.email ?? "")
  const [result, setResult] = useState<SmtpTestResult | null>(null)
  const action = useAction()
  const test = () => {
    setResult(null)
    action.run(() => testSmtp({ settings: updateOf(input), ...(to === "" ? {} : { to }) }), setResult)
  }
  return (
    <section className="panel stack" aria-labelledby="mail-test">
      <h2 id="mail-test">Test</h2>
      <Form action={action} verb="Test" onSubmit={test} disabled={input.host === ""}>
        <Text
          label="Send a mail to (optional)"
          type="email"
          value={to}
          onChange={setTo}
          hint="Tries what stands in the form, saved or not. Without an address it only connects and signs in."
        />
      </Form>
      {result !== null && (
        <div role="status" className={`outcome ${result.outcome === "ok" ? "good" : "bad"}`}>
          <Badge state={result.outcome === "ok" ? "ok" : "fail"} text={outcomes[result.outcome]} />
          <span>{result.detail}</span>
          <span className="small muted">after {lengthOf(result.tookMs)}{result.sent && ", mail sent"}</span>
        </div>
      )}
    </section>
  )
}

const MailForm = ({ known, onSaved }: { readonly known: SmtpSettings; readonly onSaved: () => void }) => {
  const { may } = useSession()
  const [input, setInput] = useState(() => inputOf(known))
  const [saved, setSaved] = useState(false)
  const action = useAction()
  const editing: Editing = {
    input,
    set: (key, value) => {
      setSaved(false)
      setInput((old) => ({ ...old, [key]: value }))
    },
  }
  const save = () =>
    action.run(() => updateSmtp(known, updateOf(input)), () => {
      setSaved(true)
      onSaved()
    })
  const mayWrite = may("system:write")
  return (
    <div className="stack">
      <section className="panel stack" aria-labelledby="mail">
        <div className="spread">
          <h2 id="mail">Mail server</h2>
          <Badge state={known.configured ? "ok" : "idle"} text={known.configured ? "set up" : "not set up"} />
        </div>
        {!known.configured && (
          <p className="muted">
            Needed for alerts by e-mail. Nothing is sent before it is set up.
          </p>
        )}
        <Form
          action={action}
          verb="Save"
          disabled={!mayWrite}
          onSubmit={save}
          extra={<span className="small muted grow" role="status">{saved ? "Saved." : ""}</span>}
        >
          <fieldset className="bare stack" disabled={!mayWrite}>
            <Server {...editing} />
            <Login {...editing} hasPassword={known.hasPassword} />
          </fieldset>
        </Form>
      </section>
      {mayWrite && <Test input={input} />}
    </div>
  )
}

export const MailServer = () => {
  const settings = useQuery("smtp", smtpSettings, 0)
  if (settings.data === null) {
    return settings.error === null ?
      <Loading lines={5} /> :
      <Problem error={settings.error} />
  }
  return <MailForm key={settings.data.version} known={settings.data} onSaved={settings.refresh} />
}
