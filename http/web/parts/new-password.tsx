/** Takes a new password: what the rules ask for is said before, what they refuse afterwards, in the node's words. */
import type { Profile } from "#schema/auth.ts"
import { useState } from "react"
import { changePassword, publicConfig } from "../api-access.ts"
import { useQuery } from "../use-query.ts"
import { Form, Text, useAction } from "./forms.tsx"

interface Props {
  /** The present password where it was given a moment ago; it is asked for otherwise. */
  readonly current: string | null
  readonly verb: string
  readonly onDone: (user: Profile) => void
  readonly onCancel?: () => void
}

export const NewPasswordForm = ({ current, onCancel, onDone, verb }: Props) => {
  const [old, setOld] = useState(current ?? "")
  const [wanted, setWanted] = useState("")
  const [again, setAgain] = useState("")
  const config = useQuery("config", publicConfig, 0)
  const action = useAction()
  const least = config.data?.passwordMinLength ?? 1
  const differs = again !== "" && again !== wanted
  return (
    <Form
      action={action}
      verb={verb}
      disabled={wanted === "" || wanted !== again}
      onSubmit={() => action.run(() => changePassword(old, wanted), onDone)}
      {...onCancel === undefined ? {} : { onCancel }}
    >
      {current === null && (
        <Text
          label="Present password"
          type="password"
          autoComplete="current-password"
          required
          value={old}
          onChange={setOld}
        />
      )}
      <Text
        label="New password"
        type="password"
        autoComplete="new-password"
        required
        minLength={least}
        maxLength={config.data?.passwordMaxLength ?? 256}
        value={wanted}
        onChange={setWanted}
        hint={`At least ${least} characters. Long is better than complicated: a few words in a row do.`}
      />
      <Text
        label="New password, once more"
        type="password"
        autoComplete="new-password"
        required
        value={again}
        onChange={setAgain}
        hint={differs ? "The two differ so far." : undefined}
      />
    </Form>
  )
}
