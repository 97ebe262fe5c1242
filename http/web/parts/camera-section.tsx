/** A part of a camera's page that asks the camera for something: its answer, or in words why there is none. */
import type { Camera } from "#schema/camera.ts"
import { type ReactNode, useState } from "react"
import { type Offered, setCredentials } from "../api-camera.ts"
import type { Query } from "../use-query.ts"
import { Form, Text, useAction } from "./forms.tsx"
import { Loading, Problem } from "./notes.tsx"

interface PasswordProps {
  readonly camera: Camera
  readonly onDone: () => void
}

/** Asks for the credentials that the camera takes, where it has refused those that are known. */
export const PasswordForm = ({ camera, onDone }: PasswordProps) => {
  const [username, setUsername] = useState(camera.username ?? "")
  const [password, setPassword] = useState("")
  const action = useAction()
  return (
    <Form
      action={action}
      verb="Try these"
      onSubmit={() => action.run(() => setCredentials(camera, username, password), onDone)}
    >
      <div className="two">
        <Text
          label="User name of the camera"
          name="cameraUser"
          value={username}
          onChange={setUsername}
          maxLength={256}
        />
        <Text
          label="Password of the camera"
          name="cameraPassword"
          type="password"
          autoComplete="new-password"
          required
          value={password}
          onChange={setPassword}
          maxLength={512}
        />
      </div>
    </Form>
  )
}

interface AskedProps<A> {
  readonly query: Query<Offered<A>>
  readonly camera: Camera
  readonly onPassword: () => void
  readonly children: (value: A) => ReactNode
}

/** The answer of a camera; what it does not offer is said in one line. */
export const Asked = <A,>({ camera, children, onPassword, query }: AskedProps<A>) => {
  const { data, error, refresh } = query
  if (data === null) {
    if (error === null) return <Loading lines={3} />
    return (
      <Problem error={error}>
        <button type="button" onClick={refresh}>Try again</button>
      </Problem>
    )
  }
  if (data.kind === "absent") return <p className="muted small">{data.why}</p>
  if (data.kind === "refused") {
    const done = () => {
      onPassword()
      refresh()
    }
    return (
      <div className="stack">
        <Problem error={data.why} />
        <PasswordForm camera={camera} onDone={done} />
      </div>
    )
  }
  return children(data.value)
}
