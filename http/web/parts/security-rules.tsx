/** The rules for passwords, for locks after failed sign-ins, and for sessions. */
import type { SecuritySettings } from "#schema/auth-security.ts"
import { type ReactNode, useState } from "react"
import { securitySettings, updateSecuritySettings } from "../api-security.ts"
import { useSession } from "../session.tsx"
import { useQuery } from "../use-query.ts"
import { Check, Field, Form, NumberField, useAction } from "./forms.tsx"
import { Loading, Problem } from "./notes.tsx"

type Name = Exclude<keyof SecuritySettings, "version">
type NumberName = { [K in Name]: SecuritySettings[K] extends number ? K : never }[Name]

interface Editing {
  readonly rules: SecuritySettings
  readonly set: <K extends Name>(name: K, value: SecuritySettings[K]) => void
}

interface Bounds {
  readonly label: string
  readonly min: number
  readonly max: number
  readonly hint?: string
}

const Rule = ({ name, rules, set, ...field }: Editing & Bounds & { readonly name: NumberName }) => (
  <NumberField
    {...field}
    value={rules[name]}
    onChange={(value) => set(name, value)}
  />
)

const Passwords = (editing: Editing) => (
  <>
    <div className="two">
      <Rule {...editing} name="passwordMinLength" label="Characters at least" min={8} max={64} />
      <Rule
        {...editing}
        name="passwordHistory"
        label="Passwords of before that are refused"
        min={0}
        max={24}
        hint="0: a password may come again."
      />
      <Rule
        {...editing}
        name="passwordMaxAgeDays"
        label="Must be changed after, days"
        min={0}
        max={3650}
        hint="0: never, as NIST SP 800-63B advises."
      />
    </div>
    <Check
      label="Must not contain the user's name"
      checked={editing.rules.passwordForbidUsername}
      onChange={(value) => editing.set("passwordForbidUsername", value)}
    />
    <Check
      label="Must not be one of the most common passwords"
      checked={editing.rules.passwordForbidCommon}
      onChange={(value) => editing.set("passwordForbidCommon", value)}
    />
  </>
)

const Locks = (editing: Editing) => (
  <div className="two">
    <Rule {...editing} name="lockoutAccountFailures" label="Failures of an account until it waits" min={1} max={100} />
    <Rule
      {...editing}
      name="lockoutAddressFailures"
      label="Failures from an address until it waits"
      min={1}
      max={10_000}
      hint="A whole office may share one address."
    />
    <Rule
      {...editing}
      name="lockoutFirstSeconds"
      label="First wait, seconds"
      min={1}
      max={3600}
      hint="Each further failure doubles it."
    />
    <Rule {...editing} name="lockoutMaxSeconds" label="Longest wait, seconds" min={1} max={86_400} />
  </div>
)

const Sessions = (editing: Editing) => (
  <div className="two">
    <Rule {...editing} name="sessionIdleMinutes" label="Ends when idle for, minutes" min={5} max={525_600} />
    <Rule {...editing} name="sessionMaxHours" label="Ends in any case after, hours" min={1} max={8760} />
    <Rule
      {...editing}
      name="sessionsPerUser"
      label="Sessions of one user at a time"
      min={0}
      max={1000}
      hint="0: no limit."
    />
    <Field label="One more sign-in than that">
      <select
        value={editing.rules.sessionLimitAction}
        disabled={editing.rules.sessionsPerUser === 0}
        onChange={(event) =>
          editing.set("sessionLimitAction", event.target.value === "refuse" ? "refuse" : "endOldest")}
      >
        <option value="endOldest">ends the oldest session</option>
        <option value="refuse">is refused</option>
      </select>
    </Field>
  </div>
)

const Part = ({ children, name }: { readonly name: string; readonly children: ReactNode }) => (
  <fieldset className="panel stack">
    <legend>{name}</legend>
    {children}
  </fieldset>
)

const RulesForm = ({ known, onSaved }: { readonly known: SecuritySettings; readonly onSaved: () => void }) => {
  const { may } = useSession()
  const [rules, setRules] = useState(known)
  const [saved, setSaved] = useState(false)
  const action = useAction()
  const set: Editing["set"] = (name, value) => {
    setSaved(false)
    setRules((old) => ({ ...old, [name]: value }))
  }
  const editing = { rules, set }
  const { version: _, ...change } = rules
  const save = () =>
    action.run(() => updateSecuritySettings(known, change), () => {
      setSaved(true)
      onSaved()
    })
  return (
    <Form
      action={action}
      verb="Save"
      disabled={!may("user:write")}
      onSubmit={save}
      extra={
        <span className="small muted grow" role="status">{saved ? "Saved. Holds from the next sign-in on." : ""}</span>
      }
    >
      <fieldset className="bare stack" disabled={!may("user:write")}>
        <Part name="Passwords">
          <Passwords {...editing} />
        </Part>
        <Part name="Failed sign-ins">
          <Locks {...editing} />
        </Part>
        <Part name="Sessions">
          <Sessions {...editing} />
        </Part>
      </fieldset>
    </Form>
  )
}

export const SecurityRules = () => {
  const settings = useQuery("security", securitySettings, 0)
  if (settings.data === null) {
    return settings.error === null ?
      <Loading lines={6} /> :
      <Problem error={settings.error} />
  }
  return <RulesForm known={settings.data} onSaved={settings.refresh} />
}
