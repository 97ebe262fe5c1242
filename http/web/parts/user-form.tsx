/** The form that adds a user, or changes one. A password that the node made is shown once, at the end. */
import type { Role, User } from "#schema/auth-users.ts"
import { Redacted } from "effect"
import { useState } from "react"
import { createUser, resetSecondFactor, updateUser } from "../api-users.ts"
import { Check, Copyable, Form, Text, useAction } from "./forms.tsx"
import { Problem } from "./notes.tsx"

interface Input {
  readonly username: string
  readonly displayName: string
  readonly email: string
  /** Empty: a random one for a new user, the present one for a known one. */
  readonly password: string
  readonly roles: ReadonlyArray<string>
  readonly enabled: boolean
  readonly mustChangePassword: boolean
}

const inputOf = (user: User | null): Input => ({
  username: user?.username ?? "",
  displayName: user?.displayName ?? "",
  email: user?.email ?? "",
  password: "",
  roles: user?.roles ?? [],
  enabled: user?.enabled ?? true,
  mustChangePassword: user?.mustChangePassword ?? true,
})

const savedBy = async (user: User | null, input: Input): Promise<string | null> => {
  const { displayName, email, enabled, mustChangePassword, password, roles, username } = input
  const change = {
    username,
    displayName,
    email: email === "" ? null : email,
    enabled,
    mustChangePassword,
    roles,
    ...(password === "" ? {} : { password: Redacted.make(password) }),
  }
  if (user === null) return (await createUser(change)).initialPassword ?? null
  await updateUser(user, change)
  return null
}

interface Editing {
  readonly input: Input
  readonly set: <K extends keyof Input>(key: K, value: Input[K]) => void
}

const Person = ({ input, known, set }: Editing & { readonly known: boolean }) => (
  <>
    <div className="two">
      <Text
        label="User name"
        name="newUsername"
        required
        pattern="[\p{L}\p{N}][\p{L}\p{N}._@+\-]{1,63}"
        title="2 to 64 letters, digits and . _ @ + -"
        value={input.username}
        onChange={(value) => set("username", value)}
      />
      <Text
        label="Display name"
        maxLength={128}
        value={input.displayName}
        onChange={(value) => set("displayName", value)}
      />
    </div>
    <Text
      label="E-mail (optional)"
      type="email"
      maxLength={254}
      value={input.email}
      onChange={(value) => set("email", value)}
      hint="Where alerts are sent to."
    />
    <Text
      label={known ? "New password" : "Password"}
      type="password"
      autoComplete="new-password"
      maxLength={256}
      value={input.password}
      onChange={(value) => set("password", value)}
      placeholder={known ? "unchanged" : ""}
      hint={known ? "A new one ends every session of the account." : "Left empty, a random one is made and shown once."}
    />
  </>
)

const Roles = ({ input, roles, set }: Editing & { readonly roles: ReadonlyArray<Role> }) => (
  <fieldset className="choices">
    <legend>Roles</legend>
    {roles.map((role) => (
      <Check
        key={role.name}
        label={role.name}
        hint={role.description}
        checked={input.roles.includes(role.name)}
        onChange={(checked) =>
          set(
            "roles",
            checked ? [...input.roles, role.name] : input.roles.filter((one) => one !== role.name),
          )}
      />
    ))}
  </fieldset>
)

const Told = ({ onDone, password, username }: {
  readonly username: string
  readonly password: string
  readonly onDone: () => void
}) => (
  <div className="stack">
    <p>
      <strong>{username}</strong>{" "}
      can sign in with this password once, and then chooses another. It is shown now and never again.
    </p>
    <Copyable label="First password" text={password} />
    <div className="actions">
      <button type="button" className="primary" onClick={onDone}>Done</button>
    </div>
  </div>
)

/** For somebody who lost the telephone. */
const LostFactor = ({ user }: { readonly user: User }) => {
  const [done, setDone] = useState(false)
  const action = useAction()
  return (
    <details>
      <summary>Lost the second factor?</summary>
      <div className="stack">
        <p className="small muted">
          After this the password alone is enough to sign in as{" "}
          {user.username}. Make sure that it is this person who asks.
        </p>
        <Problem error={action.error} />
        <div className="row">
          <button
            type="button"
            className="danger"
            disabled={action.busy || done}
            onClick={() => action.run(() => resetSecondFactor(user), () => setDone(true))}
          >
            Take off the second factor
          </button>
          <span className="small muted" role="status">{done ? "Taken off." : ""}</span>
        </div>
      </div>
    </details>
  )
}

interface Props {
  /** Null: a new one. */
  readonly user: User | null
  readonly roles: ReadonlyArray<Role>
  readonly onDone: () => void
}

export const UserForm = ({ onDone, roles, user }: Props) => {
  const [input, setInput] = useState(() => inputOf(user))
  const [told, setTold] = useState<string | null>(null)
  const action = useAction()
  const editing: Editing = { input, set: (key, value) => setInput((old) => ({ ...old, [key]: value })) }
  if (told !== null) return <Told username={input.username} password={told} onDone={onDone} />
  const save = () =>
    action.run(() => savedBy(user, input), (password) => password === null ? onDone() : setTold(password))
  return (
    <Form action={action} verb={user === null ? "Add user" : "Save"} onSubmit={save} onCancel={onDone}>
      <Person {...editing} known={user !== null} />
      <Roles {...editing} roles={roles} />
      <Check
        label="Must change the password at the next sign-in"
        checked={input.mustChangePassword}
        onChange={(value) => editing.set("mustChangePassword", value)}
      />
      <Check
        label="May sign in"
        hint={user !== null && user.enabled && !input.enabled ? "Every session of the account ends." : undefined}
        checked={input.enabled}
        onChange={(value) => editing.set("enabled", value)}
      />
      {user !== null && <LostFactor user={user} />}
    </Form>
  )
}
