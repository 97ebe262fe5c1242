/** The own profile: who one is, the password, where one is signed in, the second factor. */
import type { Profile } from "#schema/auth.ts"
import { useState } from "react"
import { changeProfile, changeUsername, endOwnSession, ownSessions } from "../api-access.ts"
import { Field, Form, Text, useAction } from "../parts/forms.tsx"
import { NewPasswordForm } from "../parts/new-password.tsx"
import { Loading, Modal, Problem } from "../parts/notes.tsx"
import { SecondFactor } from "../parts/second-factor.tsx"
import { SessionList } from "../parts/user-sessions.tsx"
import { useSession } from "../session.tsx"
import { momentOf } from "../time.ts"
import { useQuery } from "../use-query.ts"

const zones = Intl.supportedValuesOf("timeZone")

const Person = ({ user }: { readonly user: Profile }) => {
  const { setUser } = useSession()
  const [displayName, setDisplayName] = useState(user.displayName)
  const [email, setEmail] = useState(user.email ?? "")
  const [locale, setLocale] = useState(user.locale ?? "")
  const [timeZone, setTimeZone] = useState(user.timeZone ?? "")
  const [saved, setSaved] = useState(false)
  const action = useAction()
  const nullable = (text: string) => text === "" ? null : text
  const change = { displayName, email: nullable(email), locale: nullable(locale), timeZone: nullable(timeZone) }
  const save = () =>
    action.run(() => changeProfile(user, change), (changed) => {
      setUser(changed)
      setSaved(true)
    })
  return (
    <Form
      action={action}
      verb="Save"
      onSubmit={save}
      extra={<span className="small muted grow" role="status">{saved ? "Saved." : ""}</span>}
    >
      <div className="two">
        <Text label="Display name" maxLength={128} value={displayName} onChange={setDisplayName} autoComplete="name" />
        <Text label="E-mail" type="email" maxLength={254} value={email} onChange={setEmail} autoComplete="email" />
      </div>
      <div className="two">
        <Text
          label="Language"
          value={locale}
          onChange={setLocale}
          pattern="[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,8}"
          title="Such as en, de or pt-BR"
          placeholder={navigator.language}
          hint="For mails to you; the dashboard follows your browser."
        />
        <Field label="Time zone" hint="For mails to you; the dashboard follows your browser.">
          <select value={timeZone} onChange={(event) => setTimeZone(event.target.value)}>
            <option value="">UTC</option>
            {zones.map((name) => <option key={name}>{name}</option>)}
          </select>
        </Field>
      </div>
    </Form>
  )
}

const UsernameForm = ({ onDone }: { readonly onDone: () => void }) => {
  const { setUser, user } = useSession()
  const [username, setUsername] = useState(user.username)
  const [password, setPassword] = useState("")
  const action = useAction()
  const save = () =>
    action.run(() => changeUsername(username, password), (changed) => {
      setUser(changed)
      onDone()
    })
  return (
    <Form action={action} verb="Change" onSubmit={save} onCancel={onDone}>
      <Text
        label="User name"
        required
        pattern="[\p{L}\p{N}][\p{L}\p{N}._@+\-]{1,63}"
        title="2 to 64 letters, digits and . _ @ + -"
        autoComplete="username"
        value={username}
        onChange={setUsername}
      />
      <Text
        label="Present password"
        type="password"
        required
        autoComplete="current-password"
        value={password}
        onChange={setPassword}
      />
    </Form>
  )
}

const Account = ({ user }: { readonly user: Profile }) => {
  const { setUser } = useSession()
  const [open, setOpen] = useState<"name" | "password" | null>(null)
  const close = () => setOpen(null)
  return (
    <section className="panel stack" aria-labelledby="account">
      <h2 id="account">Account</h2>
      <div className="spread">
        <span>
          User name <strong>{user.username}</strong>
        </span>
        <button type="button" onClick={() => setOpen("name")}>Change the name</button>
      </div>
      <div className="spread">
        <span>
          Password <span className="muted small">changed {momentOf(user.passwordChangedAt)}</span>
          {user.passwordExpiresAt !== null && (
            <span className="muted small">, to be changed by {momentOf(user.passwordExpiresAt)}</span>
          )}
        </span>
        <button type="button" onClick={() => setOpen("password")}>Change the password</button>
      </div>
      <div className="spread">
        <span>Roles</span>
        <span className="chips">{user.roles.map((role) => <span key={role} className="chip">{role}</span>)}</span>
      </div>
      {open === "name" && (
        <Modal title="Change the user name" onClose={close}>
          <UsernameForm onDone={close} />
        </Modal>
      )}
      {open === "password" && (
        <Modal title="Change the password" onClose={close}>
          <NewPasswordForm
            current={null}
            verb="Change"
            onCancel={close}
            onDone={(changed) => {
              setUser(changed)
              close()
            }}
          />
        </Modal>
      )}
    </section>
  )
}

const OwnSessions = () => {
  const sessions = useQuery("own-sessions", ownSessions, 10_000)
  const action = useAction()
  const end = (id: string) => action.run(() => endOwnSession(id), sessions.refresh)
  return (
    <section className="panel stack" aria-labelledby="sessions">
      <h2 id="sessions">Where you are signed in</h2>
      <Problem error={sessions.error ?? action.error} />
      {sessions.data === null && sessions.error === null && <Loading lines={2} />}
      {sessions.data !== null && (
        <SessionList
          sessions={sessions.data}
          actions={(session) =>
            !session.current && (
              <button
                type="button"
                className="danger"
                disabled={action.busy}
                onClick={() => end(session.id)}
              >
                End
              </button>
            )}
        />
      )}
    </section>
  )
}

export const ProfilePage = () => {
  const { user } = useSession()
  return (
    <>
      <div className="head">
        <h1>Your profile</h1>
      </div>
      <div className="stack">
        <section className="panel stack" aria-labelledby="person">
          <h2 id="person">About you</h2>
          <Person user={user} />
        </section>
        <Account user={user} />
        <SecondFactor />
        <OwnSessions />
      </div>
    </>
  )
}
