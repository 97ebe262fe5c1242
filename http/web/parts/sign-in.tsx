/**
 * Signing in: name and password, then the one-time code where the account asks for one, then a new password where it must be
 * changed.
 */
import type { Profile } from "#schema/auth.ts"
import { type ReactNode, useState } from "react"
import { messageOf, signIn, tagOf } from "../api.ts"
import { NewPasswordForm } from "./new-password.tsx"
import { Problem } from "./notes.tsx"

interface Given {
  readonly username: string
  readonly password: string
}

const Frame = ({ children }: { readonly children: ReactNode }) => (
  <main className="login">
    <div className="panel stack">
      <div className="brand">
        <img src="/nightjar.svg" alt="" width="36" height="36" />
        <h1>Nightjar</h1>
      </div>
      {children}
    </div>
  </main>
)

interface StepProps {
  readonly given: Given
  readonly setGiven: (given: Given) => void
  readonly error: string | null
  readonly busy: boolean
  readonly onSubmit: () => void
}

const Credentials = ({ busy, error, given, onSubmit, setGiven }: StepProps) => (
  <form
    className="stack"
    onSubmit={(event) => {
      event.preventDefault()
      onSubmit()
    }}
  >
    <label className="field">
      User name
      <input
        name="username"
        autoComplete="username"
        value={given.username}
        onChange={(event) => setGiven({ ...given, username: event.target.value })}
        required
      />
    </label>
    <label className="field">
      Password
      <input
        name="password"
        type="password"
        autoComplete="current-password"
        value={given.password}
        onChange={(event) => setGiven({ ...given, password: event.target.value })}
        required
      />
    </label>
    <Problem error={error} />
    <button className="primary" type="submit" disabled={busy}>{busy ? "Signing in…" : "Sign in"}</button>
    <p className="small muted">
      The recorder printed the first password when it started, unless NIGHTJAR_ADMIN_PASSWORD had set one.
    </p>
  </form>
)

interface CodeProps {
  readonly error: string | null
  readonly busy: boolean
  readonly onCode: (code: string) => void
  readonly onBack: () => void
}

const Code = ({ busy, error, onBack, onCode }: CodeProps) => {
  const [code, setCode] = useState("")
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault()
        onCode(code.trim())
      }}
    >
      <label className="field">
        One-time code
        <input
          name="code"
          autoComplete="one-time-code"
          autoFocus
          spellCheck={false}
          maxLength={64}
          value={code}
          onChange={(event) => setCode(event.target.value)}
          required
        />
        <span className="hint">
          From the app on your telephone; or one of the recovery codes, each good for one time.
        </span>
      </label>
      <Problem error={error} />
      <button className="primary" type="submit" disabled={busy}>{busy ? "Signing in…" : "Go on"}</button>
      <button type="button" onClick={onBack}>Back</button>
    </form>
  )
}

/** `pending`: somebody who is signed in to change the password and for nothing else. */
export const SignIn = (
  { onUser, pending }: { readonly pending: Profile | null; readonly onUser: (user: Profile | null) => void },
) => {
  const [given, setGiven] = useState<Given>({ username: "admin", password: "" })
  const [asksCode, setAsksCode] = useState(false)
  const [error, setError] = useState<string | null>(null)
  const [busy, setBusy] = useState(false)
  const submit = async (code: string | null) => {
    setBusy(true)
    setError(null)
    try {
      onUser(await signIn(given.username, given.password, code))
    } catch (failure) {
      const asks = tagOf(failure) === "SecondFactorRequired"
      if (asks) setAsksCode(true)
      // That a code is needed is no error the first time.
      setError(asks && code === null ? null : messageOf(failure))
    }
    setBusy(false)
  }
  if (pending !== null) {
    return (
      <Frame>
        <p>
          <strong>Choose a new password, {pending.displayName || pending.username}.</strong>{" "}
          The one you signed in with is good for nothing else.
        </p>
        <NewPasswordForm current={given.password === "" ? null : given.password} verb="Go on" onDone={onUser} />
      </Frame>
    )
  }
  return (
    <Frame>
      {asksCode ?
        (
          <Code
            busy={busy}
            error={error}
            onCode={(code) => void submit(code)}
            onBack={() => {
              setAsksCode(false)
              setError(null)
            }}
          />
        ) :
        (
          <Credentials
            given={given}
            setGiven={setGiven}
            error={error}
            busy={busy}
            onSubmit={() => void submit(null)}
          />
        )}
    </Frame>
  )
}
