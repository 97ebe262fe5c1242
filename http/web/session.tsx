/**
 * Who is signed in. The access token lives in memory alone, the refresh token in a cookie that scripts cannot read; a reload
 * gets a new access token from it.
 */
import type { Profile } from "#schema/auth.ts"
import { createContext, type ReactNode, useContext, useEffect, useState } from "react"
import { messageOf, signedInAgain, signIn, signOut, whenSignedOut } from "./api.ts"
import { Problem } from "./parts/notes.tsx"

interface Session {
  readonly user: Profile
  readonly leave: () => void
}

const SessionContext = createContext<Session | null>(null)

/** The session of the signed-in user; only below {@link SessionGate}. */
export const useSession = (): Session => {
  const session = useContext(SessionContext)
  if (session === null) throw new Error("useSession stands outside of SessionGate")
  return session
}

const Login = ({ onUser }: { readonly onUser: (user: Profile) => void }) => {
  const [username, setUsername] = useState("admin")
  const [password, setPassword] = useState("")
  const [error, setError] = useState<string | null>(null)
  const [busy, setBusy] = useState(false)
  const submit = async () => {
    setBusy(true)
    setError(null)
    try {
      onUser(await signIn(username, password))
    } catch (failure) {
      setError(messageOf(failure))
      setBusy(false)
    }
  }
  return (
    <main className="login">
      <form
        className="panel stack"
        onSubmit={(event) => {
          event.preventDefault()
          void submit()
        }}
      >
        <div className="brand">
          <img src="/nightjar.svg" alt="" width="36" height="36" />
          <h1>Nightjar</h1>
        </div>
        <label className="field">
          User name
          <input
            name="username"
            autoComplete="username"
            value={username}
            onChange={(event) => setUsername(event.target.value)}
            required
          />
        </label>
        <label className="field">
          Password
          <input
            name="password"
            type="password"
            autoComplete="current-password"
            value={password}
            onChange={(event) => setPassword(event.target.value)}
            required
          />
        </label>
        <Problem error={error} />
        <button className="primary" type="submit" disabled={busy}>{busy ? "Signing in…" : "Sign in"}</button>
        <p className="small muted">
          The recorder printed the first password when it started, unless NIGHTJAR_ADMIN_PASSWORD had set one.
        </p>
      </form>
    </main>
  )
}

/** Shows its children to a signed-in user, the sign-in form to everybody else. */
export const SessionGate = ({ children }: { readonly children: ReactNode }) => {
  const [user, setUser] = useState<Profile | null | undefined>(undefined)
  useEffect(() => {
    whenSignedOut(() => setUser(null))
    signedInAgain().then(setUser, () => setUser(null))
  }, [])
  if (user === undefined) {
    return (
      <main className="login">
        <p className="muted">Loading…</p>
      </main>
    )
  }
  if (user === null) return <Login onUser={setUser} />
  const leave = () => void signOut().finally(() => setUser(null))
  return <SessionContext.Provider value={{ user, leave }}>{children}</SessionContext.Provider>
}
