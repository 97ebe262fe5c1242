/**
 * Who is signed in, and what they may do. The access token lives in memory alone, the refresh token in a cookie that scripts
 * cannot read; a reload gets a new access token from it.
 *
 * Invariant
 * 1. What the pages offer follows the permissions as the node decides them, asked for again once a minute and after a refusal.
 */
import type { Profile } from "#schema/auth.ts"
import type { Permission } from "#schema/permission.ts"
import { createContext, type ReactNode, useCallback, useContext, useEffect, useMemo, useState } from "react"
import { heartbeat, heldPermissions } from "./api-access.ts"
import { signedInAgain, signOut, whenRefused, whenSignedOut } from "./api.ts"
import { Problem } from "./parts/notes.tsx"
import { SignIn } from "./parts/sign-in.tsx"
import { useQuery } from "./use-query.ts"

interface Session {
  readonly user: Profile
  /** Whether the user holds it at all, whatever it is narrowed to. */
  readonly may: (permission: Permission) => boolean
  /** After the own profile has changed. */
  readonly setUser: (user: Profile) => void
  readonly leave: () => void
}

const SessionContext = createContext<Session | null>(null)

/** The session of the signed-in user; only below {@link SessionGate}. */
export const useSession = (): Session => {
  const session = useContext(SessionContext)
  if (session === null) throw new Error("useSession stands outside of SessionGate")
  return session
}

const Waiting = () => (
  <main className="login">
    <p className="muted">Loading…</p>
  </main>
)

interface Inside {
  readonly user: Profile
  /** Undefined: not known for a moment. */
  readonly setUser: (user: Profile | null | undefined) => void
  readonly children: ReactNode
}

/** What stands around the pages of a signed-in user. */
const SignedIn = ({ children, setUser, user }: Inside) => {
  const held = useQuery(`held ${user.id}`, heldPermissions, 60_000)
  // A page that somebody looks at is no idle session.
  useQuery(`heartbeat ${user.id}`, heartbeat, 60_000)
  useEffect(() => whenRefused(held.refresh), [held.refresh])
  const may = useCallback((permission: Permission) => held.data?.has(permission) ?? false, [held.data])
  const session = useMemo(() => ({
    user,
    may,
    setUser,
    leave: () => {
      // What plays ends first: its session ends with the sign-in.
      setUser(undefined)
      void signOut().finally(() => setUser(null))
    },
  }), [
    user,
    may,
    setUser,
  ])
  if (held.data === null) {
    if (held.error === null) return <Waiting />
    return (
      <main className="login">
        <Problem error={held.error}>
          <button type="button" onClick={held.refresh}>Try again</button>
        </Problem>
      </main>
    )
  }
  return <SessionContext.Provider value={session}>{children}</SessionContext.Provider>
}

/** Shows its children to a signed-in user, the sign-in form to everybody else. */
export const SessionGate = ({ children }: { readonly children: ReactNode }) => {
  const [user, setUser] = useState<Profile | null | undefined>(undefined)
  useEffect(() => {
    whenSignedOut(() => setUser(null))
    signedInAgain().then(setUser, () => setUser(null))
  }, [])
  if (user === undefined) return <Waiting />
  if (user === null || user.mustChangePassword) return <SignIn pending={user} onUser={setUser} />
  return <SignedIn user={user} setUser={setUser}>{children}</SignedIn>
}
