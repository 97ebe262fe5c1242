/** Forms of the licence: activating by a text or a code, registering a key, giving it back. */
import { LicenseRelease } from "#schema/license.ts"
import { Schema } from "effect"
import { Redacted } from "effect"
import { useState } from "react"
import { activate, deactivate, registerKey, releaseKey } from "../api-licence.ts"
import { save } from "../download.ts"
import { Confirm, Field, Form, Text, useAction } from "./forms.tsx"

const encodeRelease = Schema.encodeSync(Schema.toCodecJson(LicenseRelease))

/** Reads a chosen file into the field. */
const FileInput = ({ onText }: { readonly onText: (text: string) => void }) => (
  <label className="button">
    Choose a file
    <input
      className="visually-hidden"
      type="file"
      onChange={(event) => {
        const file = event.target.files?.[0]
        if (file !== undefined) void file.text().then((text) => onText(text.trim()))
      }}
    />
  </label>
)

interface Props {
  readonly onDone: () => void
  /** A code or a key needs a licence server. */
  readonly server: boolean
}

export const ActivateForm = ({ onDone, server }: Props) => {
  const [text, setText] = useState("")
  const [code, setCode] = useState("")
  const [by, setBy] = useState<"text" | "code">("text")
  const action = useAction()
  const submit = () =>
    action.run(() => activate(by === "text" ? { license: text } : { activationCode: Redacted.make(code) }), onDone)
  return (
    <Form
      action={action}
      verb="Activate"
      onSubmit={submit}
      onCancel={onDone}
      extra={by === "text" && <FileInput onText={setText} />}
    >
      {server && (
        <div className="segments" role="group" aria-label="Activate by">
          <button type="button" aria-pressed={by === "text"} onClick={() => setBy("text")}>Licence text</button>
          <button type="button" aria-pressed={by === "code"} onClick={() => setBy("code")}>Activation code</button>
        </div>
      )}
      {by === "text" ?
        (
          <Field
            label="Licence"
            hint="The text that the vendor sent for your request file: three parts with dots between."
          >
            <textarea
              name="license"
              rows={6}
              required
              maxLength={16_384}
              spellCheck={false}
              className="mono"
              value={text}
              onChange={(event) => setText(event.target.value)}
            />
          </Field>
        ) :
        (
          <Text
            label="Activation code"
            required
            minLength={4}
            maxLength={256}
            value={code}
            onChange={setCode}
            hint="The licence server exchanges it for a licence of this machine."
          />
        )}
    </Form>
  )
}

export const KeyForm = ({ onDone }: Pick<Props, "onDone">) => {
  const [key, setKey] = useState("")
  const action = useAction()
  return (
    <Form
      action={action}
      verb="Register"
      onSubmit={() => action.run(() => registerKey(key), onDone)}
      onCancel={onDone}
    >
      <Text
        label="Licence key"
        required
        minLength={4}
        maxLength={256}
        value={key}
        onChange={setKey}
        hint="The licence server confirms it now and from time to time. It is kept sealed and never shown again."
      />
    </Form>
  )
}

/** Gives the licence or the key back; the receipt is a file. */
export const ReleaseDialog = ({ onDone, what }: Pick<Props, "onDone"> & { readonly what: "license" | "key" }) => {
  const act = async () => {
    const receipt = await (what === "key" ? releaseKey() : deactivate())
    const text = `${JSON.stringify(encodeRelease(receipt), null, 2)}\n`
    save(`nightjar-${receipt.nodeId}.license-release.json`, new Blob([text], { type: "application/json" }))
  }
  return (
    <Confirm
      title={what === "key" ? "Release the licence key?" : "Deactivate the licence?"}
      verb={what === "key" ? "Release" : "Deactivate"}
      act={act}
      onDone={onDone}
    >
      <p>
        Recordings go on. You get a signed receipt as a file; the vendor takes it as proof that the licence is free for
        another machine. {what === "license" && "The same licence cannot be activated here again."}
      </p>
    </Confirm>
  )
}
